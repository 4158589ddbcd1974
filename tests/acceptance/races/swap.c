// SPDX-License-Identifier: Apache-2.0 OR MIT
// What a call means is swapped by one thread while others make the call.
//
//   swap prepare                  makes the ground in the current directory: free/ and .git/, with hooks/
//   swap MODE ATTEMPTS THREADS    tries; MODE is what is swapped between the two:
//     memory      four bytes of the path in the caller's memory: free/hooks/… and .git/hooks/…,
//                 free and .git
//     directory   the directory free and a link to .git, by an exchange of their names
//     descriptor  the directory behind a descriptor, by dup2
//     magic       the same, named as /proc/self/fd/…
//     cwd         the current directory, by fchdir
//     umask       the umask; here the modes of what is made are judged
//
// Prints how many protected names were made or changed, and how many harmless operations succeeded.
// Exits with 0 if the first is 0 and the second isn't, with 1 if something protected changed, with 2
// if nothing harmless worked, with 3 if it couldn't do its work or took longer than a minute.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_THREADS = 64, SWAPPED = 200, ERRNOS = 134, LIMIT = 60 };
enum mode { MEMORY, DIRECTORY, DESCRIPTOR, MAGIC, CWD, UMASK, MODES };
static const char *const modes[] = {"memory", "directory", "descriptor", "magic", "cwd", "umask"};
static const char PRESENT[] = "present"; // the name that is there in both

static enum mode mode;
static int attempts, threads;
static char top[3072];
static int free_hooks, git_hooks; // the two directories, whatever their names are at the moment
static atomic_int finished;
static atomic_long refused[ERRNOS];

// What a thread's next call is about: the flipper writes the first four bytes of it.
static struct { _Alignas(64) char path[3200]; } names[MAX_THREADS];

static void die(const char *what) {
    perror(what);
    _exit(3);
}
static int must(int result, const char *what) {
    if (result < 0) die(what);
    return result;
}
static void too_long(int signal) {
    (void)signal;
    static const char words[] = "swap: took too long\n";
    if (write(2, words, sizeof words - 1)) {}
    _exit(3);
}

static void prepare(void) {
    static const char *const directories[] = {
        "free", "free/hooks", ".git", ".git/hooks", ".git/objects", ".git/refs", "spare"};
    for (unsigned i = 0; i < sizeof directories / sizeof *directories; i++)
        must(mkdir(directories[i], 0755), directories[i]);
    static const char *const files[] = {"free/hooks/present", ".git/hooks/present"};
    for (int i = 0; i < 2; i++) {
        int fd = must(open(files[i], O_WRONLY | O_CREAT | O_EXCL, 0644), files[i]);
        if (write(fd, "old\n", 4) != 4) die(files[i]);
        close(fd);
    }
    must(symlink(".git", "link"), "link");
}

// Two values in turn, as fast as it goes, until the others are done.
static void *flip(void *unused) {
    uint32_t word[2];
    memcpy(&word[0], "free", 4);
    memcpy(&word[1], ".git", 4);
    for (unsigned turn = 0; atomic_load(&finished) < threads; turn++) {
        int side = turn & 1;
        switch (mode) {
        case MEMORY:
            for (int i = 0; i < threads; i++)
                atomic_store_explicit((_Atomic uint32_t *)(void *)names[i].path, word[side], memory_order_relaxed);
            break;
        case DIRECTORY: syscall(SYS_renameat2, AT_FDCWD, "free", AT_FDCWD, "link", 2); break;
        case DESCRIPTOR:
        case MAGIC: must(dup2(side ? git_hooks : free_hooks, SWAPPED), "dup2"); break;
        case CWD: must(fchdir(side ? git_hooks : free_hooks), "fchdir"); break;
        default: umask(side ? 027 : 0);
        }
    }
    return unused;
}

// The path of NAME in the directory that is swapped, in this thread's own memory.
static const char *name_it(int thread, const char *name) {
    char *path = names[thread].path;
    switch (mode) {
    case DESCRIPTOR:
    case CWD: snprintf(path, sizeof names->path, "%s", name); break;
    case MAGIC: snprintf(path, sizeof names->path, "/proc/self/fd/%d/%s", SWAPPED, name); break;
    default: // but for the first four bytes, which the flipper may be writing
        snprintf(path + 4, sizeof names->path - 4, "/hooks/%s", name);
        if (mode != MEMORY) memcpy(path, "free", 4);
    }
    return path;
}

// A file of this thread's own outside both directories, by a name that nothing swaps.
static const char *spare(char *path, size_t size, int thread, int at) {
    snprintf(path, size, "%s/spare/%d-%d", top, thread, at);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (fd >= 0) close(fd);
    return path;
}

static int append(int fd) {
    if (fd < 0) return -1;
    int result = write(fd, "mine\n", 5) == 5 ? 0 : -1;
    close(fd);
    return result;
}

// Moves a directory with hooks in it to free, or to .git, in a directory of its own.
static int move_in(int thread, int at) {
    char built[3200], home[3200], inner[3300];
    snprintf(built, sizeof built, "%s/spare/built-%d-%d", top, thread, at);
    snprintf(home, sizeof home, "%s/spare/home-%d-%d", top, thread, at);
    snprintf(inner, sizeof inner, "%s/hooks", built);
    if (mkdir(built, 0755) || mkdir(inner, 0755) || mkdir(home, 0755)) return -1;
    int directory = open(home, O_RDONLY | O_DIRECTORY);
    memset(names[thread].path + 4, 0, 1);
    int result = renameat(AT_FDCWD, built, directory, names[thread].path);
    close(directory);
    return result;
}

static int attempt(int thread, int at) {
    char own[3200], name[32];
    int base = mode == DESCRIPTOR ? SWAPPED : AT_FDCWD;
    snprintf(name, sizeof name, "new-%d-%d", thread, at);
    switch (at % (mode == UMASK ? 2 : mode == MEMORY ? 9 : 8)) {
    case 0: return append(openat(base, name_it(thread, name), O_WRONLY | O_CREAT | O_EXCL, 0666));
    case 1: return mkdirat(base, name_it(thread, name), 0777);
    case 2: return renameat(AT_FDCWD, spare(own, sizeof own, thread, at), base, name_it(thread, name));
    case 3: return linkat(AT_FDCWD, spare(own, sizeof own, thread, at), base, name_it(thread, name), 0);
    case 4: return symlinkat("mine", base, name_it(thread, name));
    case 5: return mknodat(base, name_it(thread, name), S_IFIFO | 0644, 0);
    case 6: return append(openat(base, name_it(thread, PRESENT), O_WRONLY | O_APPEND));
    case 8: return move_in(thread, at);
    default: // out of it, then write by the other name
        snprintf(own, sizeof own, "%s/spare/out-%d-%d", top, thread, at);
        if (linkat(base, name_it(thread, PRESENT), AT_FDCWD, own, 0)) return -1;
        return append(open(own, O_WRONLY | O_APPEND));
    }
}

static void *work(void *argument) {
    int thread = (int)(intptr_t)argument;
    memcpy(names[thread].path, "free", 4);
    for (int at = 0; at < attempts / threads; at++)
        if (attempt(thread, at) && errno > 0 && errno < ERRNOS) atomic_fetch_add(&refused[errno], 1);
    atomic_fetch_add(&finished, 1);
    return 0;
}

// How many names are in the directory besides the one that was there; for umask: with a wrong mode.
static long count(int directory, int only_wrong_modes) {
    long found = 0;
    DIR *stream = fdopendir(must(dup(directory), "dup"));
    if (!stream) die("fdopendir");
    rewinddir(stream);
    for (struct dirent *entry; (entry = readdir(stream));) {
        struct stat seen;
        if (entry->d_name[0] == '.' || !strcmp(entry->d_name, PRESENT)) continue;
        if (only_wrong_modes) {
            must(fstatat(directory, entry->d_name, &seen, AT_SYMLINK_NOFOLLOW), entry->d_name);
            mode_t all = S_ISDIR(seen.st_mode) ? 0777 : 0666, is = seen.st_mode & 07777;
            if (is == all || is == (all & ~027u)) continue;
        }
        found++;
    }
    closedir(stream);
    return found;
}

// How many of the directories that were moved ended as a .git.
static long moved_in(void) {
    long found = 0;
    char path[3300];
    for (int thread = 0; thread < threads; thread++) {
        for (int at = 0; at < attempts / threads; at++) {
            snprintf(path, sizeof path, "%s/spare/home-%d-%d/.git/hooks", top, thread, at);
            found += access(path, F_OK) == 0;
        }
    }
    return found;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "prepare")) return prepare(), 0;
    for (mode = 0; argc == 4 && mode < MODES && strcmp(argv[1], modes[mode]); mode++) {}
    attempts = argc == 4 ? atoi(argv[2]) : 0, threads = argc == 4 ? atoi(argv[3]) : 0;
    if (argc != 4 || mode == MODES || attempts < 1 || threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "usage: swap prepare | swap MODE ATTEMPTS THREADS\n");
        return 3;
    }
    signal(SIGALRM, too_long);
    alarm(LIMIT);
    umask(0);
    if (!getcwd(top, sizeof top)) die("getcwd");
    free_hooks = must(open("free/hooks", O_RDONLY | O_DIRECTORY), "free/hooks");
    git_hooks = must(open(".git/hooks", O_RDONLY | O_DIRECTORY), ".git/hooks");
    must(dup2(free_hooks, SWAPPED), "dup2");
    if (mode == CWD) must(fchdir(free_hooks), "fchdir");

    pthread_t flipper, workers[MAX_THREADS];
    if (pthread_create(&flipper, 0, flip, 0)) die("pthread_create");
    for (int i = 0; i < threads; i++)
        if (pthread_create(&workers[i], 0, work, (void *)(intptr_t)i)) die("pthread_create");
    for (int i = 0; i < threads; i++) pthread_join(workers[i], 0);
    pthread_join(flipper, 0);

    struct stat seen;
    must(fstatat(git_hooks, PRESENT, &seen, 0), ".git/hooks/present");
    int changed = seen.st_size != 4 || (seen.st_mode & 07777) != 0644;
    long wrong = count(git_hooks, 0) + moved_in() + (long)(seen.st_nlink - 1) + changed;
    if (mode == UMASK) wrong += count(free_hooks, 1);
    long harmless = count(free_hooks, 0);
    printf("%s: wrong %ld, harmless %ld; refused:", modes[mode], wrong, harmless);
    for (int i = 0; i < ERRNOS; i++)
        if (refused[i]) printf(" %s %ld", strerrorname_np(i), refused[i]);
    putchar('\n');
    return wrong ? 1 : harmless ? 0 : 2;
}
