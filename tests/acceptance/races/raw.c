// SPDX-License-Identifier: Apache-2.0 OR MIT
// Attacks on .git/hooks/pre-commit by bare system calls, from wherever a program may make them.
//
//   raw list              the operations, for the ground
//   raw FROM PLACE…       does each operation in PLACE/OPERATION; FROM: main, thread, vfork, handler,
//                         grandchild, fork, clone, junk (in the upper halves of 32-bit arguments), int80
//
// Says what each operation's result was. Exits with 0 unless it can't do its work.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define OLD ".git/hooks/pre-commit"
#define NEW ".git/hooks/post-commit"
#define MINE "mine"

// Static, so that a 32-bit entry can be told their addresses.
static char old_name[] = OLD, new_name[] = NEW, mine_name[] = MINE, away_name[] = "away";
static char hooks_name[] = ".git/hooks", text[] = "#!/bin/sh\n# mine\n";
static unsigned long junk; // or'ed into every argument that the kernel takes for 32 bits

static long word(long value) { return (long)((unsigned long)(unsigned)value | junk); }
static long number(long value) { return junk ? word(value) : value; }
#define CALL(...) syscall(__VA_ARGS__)
#define HERE number(AT_FDCWD)

static long put(long fd) {
    if (fd < 0) return fd;
    long written = write((int)fd, text, sizeof text - 1);
    close((int)fd);
    return written;
}
static long openat_with(const char *name, long flags) {
    return CALL(SYS_openat, HERE, name, number(flags), number(0755));
}
static long mine(void) { return put(openat_with(mine_name, O_WRONLY | O_CREAT)); }

static long had_openat(void) { return put(openat_with(old_name, O_WRONLY | O_TRUNC)); }
static long had_openat_rdwr(void) { return put(openat_with(old_name, O_RDWR)); }
static long had_openat_append(void) { return put(openat_with(old_name, O_WRONLY | O_APPEND)); }
static long had_openat_truncating(void) { return openat_with(old_name, O_RDONLY | O_TRUNC); }
// Access mode 3 asks for reading and writing, for ioctl: a filter by value must know it.
static long had_openat_both(void) { return openat_with(old_name, 3 | O_TRUNC); }
static long had_openat2(void) {
    struct { unsigned long long flags, mode, resolve; } how = {O_WRONLY | O_TRUNC, 0, 0};
    return put(CALL(SYS_openat2, HERE, old_name, &how, sizeof how));
}
static long had_truncate(void) { return CALL(SYS_truncate, old_name, 0L); }
static long had_renameat2(void) {
    return mine() < 0 ? -1 : CALL(SYS_renameat2, HERE, mine_name, HERE, old_name, number(0));
}
static long had_exchange(void) {
    return mine() < 0 ? -1 : CALL(SYS_renameat2, HERE, old_name, HERE, mine_name, number(2));
}
static long had_away(void) { return CALL(SYS_renameat2, HERE, old_name, HERE, away_name, number(0)); }
static long had_hooks_away(void) { return CALL(SYS_renameat2, HERE, hooks_name, HERE, away_name, number(0)); }
static long had_unlinkat(void) { return CALL(SYS_unlinkat, HERE, old_name, number(0)); }
static long had_linkat(void) {
    if (CALL(SYS_linkat, HERE, old_name, HERE, away_name, number(0))) return -1;
    return put(openat_with(away_name, O_WRONLY | O_TRUNC));
}
static long had_fchmodat(void) { return CALL(SYS_fchmodat, HERE, old_name, number(0755)); }
static long had_fchmod(void) { return CALL(SYS_fchmod, openat_with(old_name, O_RDONLY), number(0755)); }
static long had_mmap(void) {
    long fd = openat_with(old_name, O_RDWR);
    if (fd < 0) return fd;
    char *at = mmap(0, 3, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    return at == MAP_FAILED ? -1 : (memcpy(at, "my", 2), msync(at, 3, MS_SYNC));
}
static long add_openat(void) { return put(openat_with(new_name, O_WRONLY | O_CREAT)); }
static long add_openat_reading(void) { return openat_with(new_name, O_RDONLY | O_CREAT); }
static long add_openat_directory(void) {
    // Before 6.4 the kernel made a file and said ENOTDIR; later it says EINVAL.
    openat_with(new_name, O_RDONLY | O_CREAT | O_DIRECTORY);
    return add_openat();
}
static long add_renameat2(void) {
    return mine() < 0 ? -1 : CALL(SYS_renameat2, HERE, mine_name, HERE, new_name, number(1));
}
static long add_linkat(void) { return mine() < 0 ? -1 : CALL(SYS_linkat, HERE, mine_name, HERE, new_name, number(0)); }
static long add_symlinkat(void) { return CALL(SYS_symlinkat, mine_name, HERE, new_name); }
static long add_mkdirat(void) { return CALL(SYS_mkdirat, HERE, new_name, number(0755)); }
static long add_mknodat(void) { return CALL(SYS_mknodat, HERE, new_name, number(S_IFREG | 0755), number(0)); }
static long add_tmpfile(void) {
    long fd = openat_with(".", O_TMPFILE | O_RDWR);
    char path[40];
    if (fd < 0) return fd;
    snprintf(path, sizeof path, "/proc/self/fd/%ld", fd);
    return CALL(SYS_linkat, HERE, path, HERE, new_name, number(AT_SYMLINK_FOLLOW));
}
static long add_bind(void) {
    struct sockaddr_un name = {AF_UNIX, NEW};
    return CALL(SYS_bind, CALL(SYS_socket, number(AF_UNIX), number(SOCK_STREAM), number(0)), &name,
        number(sizeof name));
}
#ifdef SYS_open // what younger architectures left out
static long had_open(void) { return put(CALL(SYS_open, old_name, number(O_WRONLY | O_TRUNC), 0L)); }
static long had_open_truncating(void) { return CALL(SYS_open, old_name, number(O_RDONLY | O_TRUNC), 0L); }
static long had_creat(void) { return put(CALL(SYS_creat, old_name, number(0755))); }
static long had_rename(void) { return mine() < 0 ? -1 : CALL(SYS_rename, mine_name, old_name); }
static long had_renameat(void) { return mine() < 0 ? -1 : CALL(SYS_renameat, HERE, mine_name, HERE, old_name); }
static long had_unlink(void) { return CALL(SYS_unlink, old_name); }
static long had_chmod(void) { return CALL(SYS_chmod, old_name, number(0755)); }
static long had_link(void) {
    return CALL(SYS_link, old_name, away_name) ? -1 : put(openat_with(away_name, O_WRONLY | O_TRUNC));
}
static long add_open(void) { return put(CALL(SYS_open, new_name, number(O_WRONLY | O_CREAT), number(0755))); }
static long add_creat(void) { return put(CALL(SYS_creat, new_name, number(0755))); }
static long add_rename(void) { return mine() < 0 ? -1 : CALL(SYS_rename, mine_name, new_name); }
static long add_link(void) { return mine() < 0 ? -1 : CALL(SYS_link, mine_name, new_name); }
static long add_symlink(void) { return CALL(SYS_symlink, mine_name, new_name); }
static long add_mkdir(void) { return CALL(SYS_mkdir, new_name, number(0755)); }
static long add_mknod(void) { return CALL(SYS_mknod, new_name, number(S_IFREG | 0755), number(0)); }
#endif

static const struct operation { const char *name; long (*run)(void); } operations[] = {
    {"had-openat", had_openat}, {"had-openat-rdwr", had_openat_rdwr}, {"had-openat-append", had_openat_append},
    {"had-openat-truncating", had_openat_truncating}, {"had-openat-both", had_openat_both},
    {"had-openat2", had_openat2}, {"had-truncate", had_truncate}, {"had-renameat2", had_renameat2},
    {"had-exchange", had_exchange}, {"had-away", had_away},
    {"had-hooks-away", had_hooks_away}, {"had-unlinkat", had_unlinkat}, {"had-linkat", had_linkat},
    {"had-fchmodat", had_fchmodat}, {"had-fchmod", had_fchmod}, {"had-mmap", had_mmap},
    {"add-openat", add_openat}, {"add-openat-reading", add_openat_reading},
    {"add-openat-directory", add_openat_directory}, {"add-renameat2", add_renameat2},
    {"add-linkat", add_linkat}, {"add-symlinkat", add_symlinkat}, {"add-mkdirat", add_mkdirat},
    {"add-mknodat", add_mknodat}, {"add-tmpfile", add_tmpfile}, {"add-bind", add_bind},
#ifdef SYS_open
    {"had-open", had_open}, {"had-open-truncating", had_open_truncating}, {"had-creat", had_creat},
    {"had-rename", had_rename}, {"had-renameat", had_renameat}, {"had-unlink", had_unlink},
    {"had-chmod", had_chmod}, {"had-link", had_link}, {"add-open", add_open}, {"add-creat", add_creat},
    {"add-rename", add_rename}, {"add-link", add_link}, {"add-symlink", add_symlink},
    {"add-mkdir", add_mkdir}, {"add-mknod", add_mknod},
#endif
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

#ifdef __x86_64__
// The 32-bit entry of the kernel: other numbers, and addresses below 4 GiB (link with -no-pie).
static long int80(long number, const void *one, long two, long three) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result)
                     : "a"(number), "b"(one), "c"(two), "d"(three) : "memory", "r8", "r9", "r10", "r11");
    return result;
}
static long old_way(const char *name) {
    if (!strcmp(name, "had-open")) return int80(5, old_name, O_WRONLY | O_TRUNC, 0);
    if (!strcmp(name, "had-creat")) return int80(8, old_name, 0755, 0);
    if (!strcmp(name, "had-unlink")) return int80(10, old_name, 0, 0);
    if (!strcmp(name, "had-chmod")) return int80(15, old_name, 0755, 0);
    if (!strcmp(name, "had-truncate")) return int80(92, old_name, 0, 0);
    if (!strcmp(name, "add-open")) return int80(5, new_name, O_WRONLY | O_CREAT, 0755);
    if (!strcmp(name, "add-creat")) return int80(8, new_name, 0755, 0);
    if (!strcmp(name, "add-mkdir")) return int80(39, new_name, 0755, 0);
    if (!strcmp(name, "add-symlink")) return int80(83, mine_name, (long)new_name, 0);
    return mine() < 0 ? -1 : int80(38, mine_name, (long)(name[0] == 'h' ? old_name : new_name), 0);
}
#else
static long old_way(const char *name) { (void)name; return -1; }
#endif

static const char *from;
static const struct operation *now;
static volatile long result;
static volatile int why;

static void run_now(void) {
    errno = 0;
    result = now->run();
    why = errno;
}
static void *in_thread(void *unused) { run_now(); return unused; }
static void in_handler(int unused) { (void)unused; run_now(); }
static int in_clone(void *unused) { (void)unused; run_now(); return 0; }

// Waits for a child, which shares no memory: its result is its own.
static void forked(int detached) {
    pid_t pid = fork();
    if (pid == 0) {
        if (detached && setsid() > 0 && fork() > 0) _exit(0);
        if (!strcmp(from, "int80")) old_way(now->name); else run_now();
        _exit(0);
    }
    while (waitpid(pid, 0, 0) < 0 && errno == EINTR) {}
}

static void run_from(void) {
    static char stack[65536] __attribute__((aligned(16)));
    pthread_t thread;
    pid_t pid;
    if (!strcmp(from, "thread")) {
        if (pthread_create(&thread, 0, in_thread, 0)) abort();
        pthread_join(thread, 0);
    } else if (!strcmp(from, "handler")) {
        signal(SIGUSR1, in_handler);
        raise(SIGUSR1);
    } else if (!strcmp(from, "vfork")) {
        if ((pid = vfork()) == 0) { run_now(); _exit(0); }
        waitpid(pid, 0, 0);
    } else if (!strcmp(from, "clone")) {
        // A process of its own that shares memory, descriptors and directory with this one.
        pid = clone(in_clone, stack + sizeof stack, CLONE_VM | CLONE_FILES | CLONE_FS | SIGCHLD, 0);
        waitpid(pid, 0, 0);
    } else if (!strcmp(from, "fork") || !strcmp(from, "int80")) {
        forked(0);
    } else if (!strcmp(from, "grandchild")) {
        forked(1);
    } else {
        if (!strcmp(from, "junk")) junk = 0xdead00000000UL << 16;
        run_now();
    }
}

int main(int count, char **arguments) {
    if (count == 2 && !strcmp(arguments[1], "list")) {
        for (int i = 0; i < OPERATIONS; i++) puts(operations[i].name);
        return 0;
    }
    if (count < 3) return 2;
    from = arguments[1];
    umask(0);
    int alive[2];
    if (pipe(alive)) return 2;
    char start[4096], place[8192];
    if (!getcwd(start, sizeof start)) return 2;
    for (int i = 2; i < count; i++) {
        for (int j = 0; j < OPERATIONS; j++) {
            now = &operations[j];
            snprintf(place, sizeof place, "%s/%s/%s", start, arguments[i], now->name);
            if (chdir(place)) continue;
            result = -1, why = 0;
            run_from();
            printf("%s %s: %ld %s\n", arguments[i], now->name, result, strerror(why));
        }
    }
    if (chdir(start)) return 2;
    close(alive[1]);
    while (read(alive[0], place, 1) > 0) {} // nobody else waits for grandchildren
    return 0;
}
