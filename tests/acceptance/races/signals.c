// SPDX-License-Identifier: Apache-2.0 OR MIT
// Makes calls while a timer's signals come as fast as they can, once with calls restarted and once without.
//
//   signals              makes, renames and removes files. A local file system's calls aren't interrupted,
//                        so none may fail
//   signals protected    tries protected names, in main and in the handler, which interrupts main's calls
//                        with its own. Exits with 0 if each was refused, or interrupted where nothing is restarted
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { FILES = 1000 };
static volatile sig_atomic_t signals, attacks, unlike, odd;

static void count(int signal) { (void)signal; signals++; }

static void attack(int signal) {
    int before = errno;
    (void)signal;
    signals++;
    // Within it the signal itself is blocked: this call isn't interrupted.
    int fd = open(".git/hooks/from-handler", O_WRONLY | O_CREAT, 0755);
    if (fd >= 0) close(fd);
    if (fd >= 0 || errno != EACCES) unlike++, odd = errno;
    errno = before;
}

static void start(void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    struct itimerval every = {{0, 100}, {0, 100}};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &every, 0);
}
static void stop(void) {
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, 0);
}

static int fails(const char *what, int result) {
    if (result >= 0) return 0;
    printf("%s: %s\n", what, strerror(errno));
    return 1;
}

static int works(int flags) {
    char one[32], two[32];
    for (int i = 0; i < FILES; i++) {
        snprintf(one, sizeof one, "one-%d-%d", flags, i);
        snprintf(two, sizeof two, "two-%d-%d", flags, i);
        int fd = open(one, O_WRONLY | O_CREAT | O_EXCL, 0644);
        if (fails("open", fd)) return 1;
        if (fails("write", (int)write(fd, "x", 1)) || fails("close", close(fd))) return 1;
        if (fails("rename", rename(one, two)) || fails("mkdir", mkdir(one, 0755))) return 1;
        if (fails("chmod", chmod(two, 0600)) || fails("rmdir", rmdir(one))) return 1;
        if (i % 2 && fails("unlink", unlink(two))) return 1;
    }
    return 0;
}

static void refused(int result, int restarts) {
    attacks++;
    if (result >= 0 || (errno != EACCES && (restarts || errno != EINTR))) unlike++, odd = errno;
}
static void is_refused(int restarts) {
    for (int i = 0; i < FILES; i++) {
        int fd = open(".git/hooks/post-commit", O_WRONLY | O_CREAT, 0755);
        refused(fd, restarts);
        if (fd >= 0) close(fd);
        refused(mkdir(".git/hooks/directory", 0755), restarts);
        refused(symlink("mine", ".git/hooks/link"), restarts);
        refused(truncate(".git/hooks/pre-commit", 1), restarts);
        refused(chmod(".git/hooks/pre-commit", 0755), restarts);
        refused(rename(".git/hooks/pre-commit", "away"), restarts);
    }
}

int main(int argc, char **argv) {
    int protected = argc == 2 && !strcmp(argv[1], "protected");
    for (int restarts = 0; restarts < 2; restarts++) {
        start(protected ? attack : count, restarts ? SA_RESTART : 0);
        if (protected) is_refused(restarts);
        else if (works(restarts)) return 1;
        stop();
    }
    if (protected) printf("%d attacks, %d otherwise (%s)\n", (int)attacks, (int)unlike, strerror(odd));
    printf(signals > 10 ? "reached after %d signals\n" : "only %d signals\n", (int)signals);
    return protected && (unlike || signals <= 10);
}
