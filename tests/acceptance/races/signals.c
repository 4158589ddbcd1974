// SPDX-License-Identifier: Apache-2.0 OR MIT
// Makes, renames and removes files while a timer's signals come as fast as they can, once with calls
// restarted and once without. A local file system's calls aren't interrupted, so none may fail.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { FILES = 1000 };
static volatile sig_atomic_t signals;

static void count(int signal) { (void)signal; signals++; }

static int fails(const char *what, int result) {
    if (result >= 0) return 0;
    printf("%s: %s\n", what, strerror(errno));
    return 1;
}

int main(void) {
    char one[32], two[32];
    for (int flags = 0; flags < 2; flags++) {
        struct sigaction action = {.sa_handler = count, .sa_flags = flags ? SA_RESTART : 0};
        struct itimerval every = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
        sigaction(SIGALRM, &action, 0);
        setitimer(ITIMER_REAL, &every, 0);
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
        setitimer(ITIMER_REAL, &never, 0);
    }
    printf(signals > 10 ? "reached after %d signals\n" : "only %d signals\n", (int)signals);
    return 0;
}
