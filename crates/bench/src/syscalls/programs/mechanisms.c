// SPDX-License-Identifier: Apache-2.0 OR MIT
// Measures each mechanism by itself, without Palisade: `mechanisms HOW CALL COUNT` makes a call again and again, and prints
// the seconds per call and the last result. The bench compiles it if there is a C compiler.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP 1UL
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#define PR_SET_DISPATCH 59
enum { ANSWER = 4242, RULES = 300 };

static long number, arguments[3];

static void must(int fine, const char *what) {
    if (fine) return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(3);
}

// The only place that makes calls for a mechanism to intercept.
static long made(long which, long a, long b, long c) {
    long result;
    asm volatile("syscall" : "=a"(result) : "0"(which), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

// Calls from here belong to a mechanism itself: the dispatch excludes this page.
asm(".text\n.p2align 12\n.globl own\nown: mov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %rdx\nsyscall\nret\n"
    ".globl restorer\nrestorer: mov $15, %eax\nsyscall\n.p2align 12\n.globl own_end\nown_end:\n");
extern long own(long which, long a, long b, long c);
extern char own_end[], restorer[];

// No patcher knows the form `mov; nop; syscall`, so the call traps each time.
static long unpatchable(void) {
    long result;
    asm volatile("mov $110, %%eax\n nop\n syscall" : "=a"(result) : : "rcx", "r11", "memory");
    return result;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static enum { BY_SITE, BY_LIBRARY, BY_UNPATCHABLE, BY_OWN } by;

static long once(void) {
    switch (by) {
    case BY_LIBRARY:
        if (number == SYS_write) return write((int)arguments[0], (void *)arguments[1], (size_t)arguments[2]);
        return number == SYS_getpid ? getpid() : getppid();
    case BY_UNPATCHABLE: return unpatchable();
    case BY_OWN: return own(number, arguments[0], arguments[1], arguments[2]);
    case BY_SITE: break;
    }
    long result = made(number, arguments[0], arguments[1], arguments[2]);
    if (number == SYS_openat && result >= 0) made(SYS_close, result, 0, 0);
    return result;
}

static void repeat(long count) {
    long last = 0;
    for (long i = 0; i < count / 10; i++) once();
    double begun = now();
    for (long i = 0; i < count; i++) last = once();
    double each = (now() - begun) / (double)count;
    const char *seen = last == ANSWER ? "answered" : last < 0 ? "failed" : "made";
    char line[64];
    int length = snprintf(line, sizeof line, "%e %s\n", each, seen);
    if (write(1, line, (size_t)length) != length) exit(3);
}

// ---- filters

static struct sock_filter text[4 * RULES];
static unsigned short length;

static void add(struct sock_filter one) { text[length++] = one; }
static void load_word(unsigned at) { add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at)); }
static void equals(unsigned value, unsigned char yes, unsigned char no) {
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no));
}
static void answer(unsigned value) { add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, value)); }

static int load(unsigned long flags) {
    struct sock_fprog program = {length, text};
    must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges");
    long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    must(result >= 0, "seccomp");
    return (int)result;
}

static void begin(void) {
    length = 0;
    load_word(offsetof(struct seccomp_data, arch));
    equals(AUDIT_ARCH_X86_64, 1, 0);
    answer(SECCOMP_RET_KILL_PROCESS);
    load_word(offsetof(struct seccomp_data, nr));
}

// Handles one call with this action; all others are allowed.
static int filter_one(unsigned action, unsigned long flags) {
    begin();
    equals((unsigned)number, 0, 1);
    answer(action);
    answer(SECCOMP_RET_ALLOW);
    return load(flags);
}

// Comparisons one after the other, with the measured call as the last; optionally also with its argument.
static void filter_linear(int argument) {
    begin();
    for (unsigned other = 1000; other < 1000 + RULES - 1; other++) {
        equals(other, 0, 1);
        answer(SECCOMP_RET_ERRNO | EPERM);
    }
    if (argument) {
        equals((unsigned)number, 0, 3);
        load_word(offsetof(struct seccomp_data, args) + 4);
        equals(0x7fffffff, 0, 1);
        answer(SECCOMP_RET_ERRNO | EPERM);
    }
    answer(SECCOMP_RET_ALLOW);
    load(0);
}

// ---- traps

struct action {
    void *handler;
    unsigned long flags;
    void *restorer;
    unsigned long mask;
};

static void on_trap(void *handler, unsigned long flags) {
    struct action action = {handler, flags | SA_SIGINFO | 0x04000000, restorer, 0};
    must(!own(SYS_rt_sigaction, SIGSYS, (long)&action, 0) || !syscall(SYS_rt_sigaction, SIGSYS, &action, 0, 8), "sigaction");
}

static void emulate(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = ANSWER;
}

// As in the seed of this work: a read is trapped, and the handler writes.
static void write_instead(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = own(SYS_write, arguments[0], arguments[1], arguments[2]);
}

// ---- another process answers

enum { PLAIN = 0, SYNC = 1, ADD = 2, ADD_SEND = 4 };

static void broker(int listener, int how, pid_t caller) {
    struct seccomp_notif_sizes sizes;
    must(!syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes), "sizes");
    struct seccomp_notif *asked = calloc(1, sizes.seccomp_notif + 64u);
    struct seccomp_notif_resp *said = calloc(1, sizes.seccomp_notif_resp + 64u);
    must(asked && said, "memory");
    if (how & SYNC)
        must(!ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP), "sync wake-up");
    for (;;) {
        memset(asked, 0, sizes.seccomp_notif);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, asked)) {
            struct pollfd gone = {listener, POLLIN, 0};
            if (errno != EINTR && (errno != ENOENT || (poll(&gone, 1, 0) > 0 && gone.revents & POLLHUP))) return;
            continue;
        }
        memset(said, 0, sizes.seccomp_notif_resp);
        said->id = asked->id;
        said->val = ANSWER;
        if (how & (ADD | ADD_SEND)) {
            char path[64];
            struct iovec here = {path, sizeof path}, there = {(void *)(uintptr_t)asked->data.args[1], sizeof path};
            if (process_vm_readv(caller, &here, 1, &there, 1, 0) <= 0) continue;
            if (ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &asked->id)) continue;
            int file = open(path, (int)asked->data.args[2] | O_CLOEXEC);
            struct seccomp_notif_addfd give = {.id = asked->id, .srcfd = (unsigned)file};
            if (how & ADD_SEND) give.flags = SECCOMP_ADDFD_FLAG_SEND;
            int given = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &give);
            must(file >= 0 && given >= 0, "give a descriptor");
            close(file);
            if (how & ADD_SEND) continue;
            said->val = given;
        }
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, said);
    }
}

// Forks a caller that loads a filter. Returns the filter's listener; in the caller, a negative number.
static int fork_filtered(int filter(void), pid_t *caller) {
    int ends[2];
    must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), "sockets");
    *caller = fork();
    must(*caller >= 0, "fork");
    if (!*caller) {
        close(ends[0]);
        int listener = filter();
        char byte = 0;
        if (write(ends[1], &listener, sizeof listener) < 0 || read(ends[1], &byte, 1) < 1) _exit(3);
        close(listener);
        return -1;
    }
    close(ends[1]);
    int theirs = -1;
    must(read(ends[0], &theirs, sizeof theirs) == sizeof theirs, "listener");
    int process = (int)syscall(SYS_pidfd_open, *caller, 0);
    int listener = (int)syscall(SYS_pidfd_getfd, process, theirs, 0);
    must(listener >= 0, "listener");
    must(write(ends[0], "", 1) == 1, "go on");
    return listener;
}

static void end_with(pid_t caller) {
    int status = 0;
    waitpid(caller, &status, 0);
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 4);
}

static int filter_call(void) { return filter_one(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER); }

static void notified(int how, long count) {
    pid_t caller;
    int listener = fork_filtered(filter_call, &caller);
    if (listener < 0) {
        repeat(count);
        _exit(0);
    }
    broker(listener, how, caller);
    end_with(caller);
}

// Calls that open for writing, and calls that remove names.
static int filter_names(void) {
    begin();
    equals(SYS_unlink, 4, 0);
    equals(SYS_unlinkat, 3, 0);
    equals(SYS_openat, 0, 3);
    load_word(offsetof(struct seccomp_data, args[2]));
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_ACCMODE, 0, 1));
    answer(SECCOMP_RET_USER_NOTIF);
    answer(SECCOMP_RET_ALLOW);
    return load(SECCOMP_FILTER_FLAG_NEW_LISTENER);
}

// The minimal way to make such a call for its caller: the path is relative to the working directory.
static void make_for(int listener, const struct seccomp_notif *asked, struct seccomp_notif_resp *said) {
    int opens = asked->data.nr == SYS_openat;
    char path[256], directory[64];
    struct iovec here = {path, sizeof path}, there = {(void *)(uintptr_t)asked->data.args[asked->data.nr != SYS_unlink], sizeof path};
    must(process_vm_readv((pid_t)asked->pid, &here, 1, &there, 1, 0) > 0, "a path");
    snprintf(directory, sizeof directory, "/proc/%d/cwd", asked->pid);
    int base = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    must(base >= 0, "a working directory");
    if (opens) {
        int file = openat(base, path, (int)asked->data.args[2] | O_CLOEXEC, (mode_t)asked->data.args[3]);
        struct seccomp_notif_addfd give = {.id = asked->id, .srcfd = (unsigned)file, .newfd_flags = O_CLOEXEC};
        said->val = file < 0 ? -1 : ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &give);
        if (said->val < 0) said->error = -errno;
        close(file);
    } else if (unlinkat(base, path, 0)) {
        said->error = -errno;
    }
    close(base);
}

// Runs a command with any number of threads under a supervisor, which lets the kernel make the call or makes it itself.
static void supervised(int makes, char **command) {
    pid_t caller;
    int listener = fork_filtered(filter_names, &caller);
    if (listener < 0) {
        execvp(command[0], command);
        must(0, "a command");
    }
    must(!ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP), "sync wake-up");
    for (;;) {
        struct seccomp_notif asked = {0};
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked)) {
            struct pollfd gone = {listener, POLLIN, 0};
            if (errno != EINTR && (errno != ENOENT || (poll(&gone, 1, 0) > 0 && gone.revents & POLLHUP))) break;
            continue;
        }
        struct seccomp_notif_resp said = {.id = asked.id};
        if (makes) make_for(listener, &asked, &said);
        else said.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &said);
    }
    end_with(caller);
}

// Each call stops and is answered; PTRACE_SYSEMU skips it. Calls outside the loop aren't answered: the caller marks the
// loop's begin and end by a signal.
static void traced(int emulated, long count) {
    pid_t caller = fork();
    must(caller >= 0, "fork");
    if (!caller) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        double begun = now();
        raise(SIGUSR1);
        long last = 0;
        for (long i = 0; i < count; i++) last = once();
        made(SYS_getpgid, 0, 0, 0); // the end
        double each = (now() - begun) / (double)count;
        printf("%e %s\n", each, last == ANSWER ? "answered" : "made");
        fflush(stdout);
        _exit(0);
    }
    int status, inside = 0;
    must(waitpid(caller, &status, 0) == caller, "wait");
    ptrace(PTRACE_SETOPTIONS, caller, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    ptrace(PTRACE_CONT, caller, 0, 0);
    for (;;) {
        if (waitpid(caller, &status, 0) < 0) exit(3);
        if (WIFEXITED(status) || WIFSIGNALED(status)) exit(WIFEXITED(status) ? WEXITSTATUS(status) : 4);
        int signal = WSTOPSIG(status);
        if (signal == SIGUSR1) {
            inside = 1;
        } else if (signal == (SIGTRAP | 0x80)) {
            struct user_regs_struct registers;
            ptrace(PTRACE_GETREGS, caller, 0, &registers);
            if (registers.orig_rax == SYS_getpgid) inside = 0;
            if (emulated && (long)registers.orig_rax != number && inside) {
                // A call at the loop's start (the return from the signal): make it.
                registers.rip -= 2;
                registers.rax = registers.orig_rax;
                ptrace(PTRACE_SETREGS, caller, 0, &registers);
                ptrace(PTRACE_SYSCALL, caller, 0, 0);
                waitpid(caller, &status, 0);
                ptrace(PTRACE_SYSCALL, caller, 0, 0);
                waitpid(caller, &status, 0);
            } else if (emulated && inside) {
                registers.rax = ANSWER;
                ptrace(PTRACE_SETREGS, caller, 0, &registers);
            }
        }
        ptrace(inside ? emulated ? PTRACE_SYSEMU : PTRACE_SYSCALL : PTRACE_CONT, caller, 0, 0);
    }
}

// ---- the kernel's own path rules

static void landlock(void) {
    struct landlock_ruleset_attr handled = {.handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
    must(rules >= 0, "landlock");
    const char *paths[] = {"/etc", "/usr", "/tmp", "/dev", "."};
    for (int i = 0; i < 5; i++) {
        struct landlock_path_beneath_attr rule = {LANDLOCK_ACCESS_FS_READ_FILE, open(paths[i], O_PATH | O_CLOEXEC)};
        must(!syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0), paths[i]);
    }
    must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges");
    must(!syscall(SYS_landlock_restrict_self, rules, 0), "landlock");
}

// ---- libseccomp, as programs use it: rules are added one by one, then loaded

static void libseccomp(long rules) {
    void *library = dlopen("libseccomp.so.2", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(5);
    }
    void *(*init)(uint32_t) = (void *(*)(uint32_t))dlsym(library, "seccomp_init");
    int (*rule)(void *, uint32_t, int, unsigned, ...) = (int (*)(void *, uint32_t, int, unsigned, ...))dlsym(library, "seccomp_rule_add");
    int (*put)(const void *) = (int (*)(const void *))dlsym(library, "seccomp_load");
    must(init && rule && put, "symbols of libseccomp");
    double begun = now();
    void *context = init(SECCOMP_RET_ALLOW);
    must(context != 0, "seccomp_init");
    // Each rule has its own error, as in our filter: calls that this program doesn't make any more.
    long added = 0;
    for (int other = 20; added < rules && other < 1000; other++) {
        int needed = other == SYS_exit_group || other == SYS_brk || other == SYS_mprotect || other == SYS_getpid ||
                     other == SYS_prctl || other == SYS_seccomp || other == SYS_clock_gettime;
        if (!needed && !rule(context, SECCOMP_RET_ERRNO | (1 + (unsigned)other % 1000), other, 0)) added++;
    }
    must(added == rules, "seccomp_rule_add");
    int error = put(context);
    double each = now() - begun;
    if (error) {
        fprintf(stderr, "seccomp_load: %s\n", strerror(-error));
        exit(3);
    }
    char line[64];
    int size = snprintf(line, sizeof line, "%e loaded\n", each);
    if (write(1, line, (size_t)size) != size) exit(3);
    _exit(0);
}

int main(int count, char **words) {
    if (count < 4) return 2;
    const char *how = words[1];
    long times = atol(words[3]);
    const char *call_name = words[2];
    if (!strcmp(call_name, "number")) {
        number = SYS_getppid;
    } else if (!strcmp(call_name, "own")) {
        number = SYS_getpid;
    } else if (!strcmp(call_name, "write")) {
        number = SYS_write;
        arguments[0] = open("/dev/null", O_WRONLY | O_CLOEXEC);
        arguments[1] = (long)"x";
        arguments[2] = 1;
    } else if (!strcmp(call_name, "read")) {
        number = SYS_openat;
        arguments[0] = AT_FDCWD;
        arguments[1] = (long)"file";
        arguments[2] = O_RDONLY | O_CLOEXEC;
    } else {
        return 2;
    }
#define IS(name) !strcmp(how, name)
    if (IS("libseccomp")) libseccomp(times);
    if (IS("native")) {
    } else if (IS("library")) {
        by = BY_LIBRARY;
    } else if (IS("unpatchable")) {
        by = BY_UNPATCHABLE;
    } else if (IS("filter")) {
        number ^= 0x100; // another call is refused
        filter_one(SECCOMP_RET_ERRNO | EPERM, 0);
        number ^= 0x100;
    } else if (IS("filter-exec")) {
        number ^= 0x100;
        filter_one(SECCOMP_RET_ERRNO | EPERM, 0);
        if (count > 4) execvp(words[4], words + 4);
        must(0, "a command");
    } else if (IS("linear")) {
        filter_linear(0);
    } else if (IS("linear-argument")) {
        filter_linear(1);
    } else if (IS("trap")) {
        on_trap((void *)emulate, 0);
        filter_one(SECCOMP_RET_TRAP, 0);
    } else if (IS("trap-write")) {
        on_trap((void *)write_instead, 0);
        number = SYS_read;
        filter_one(SECCOMP_RET_TRAP, 0);
    } else if (IS("dispatch") || IS("dispatch-allowed")) {
        static volatile char selector;
        on_trap((void *)emulate, SA_NODEFER);
        if (IS("dispatch-allowed")) by = BY_OWN;
        must(!prctl(PR_SET_DISPATCH, 1, (long)own, (long)(own_end - (char *)own), &selector), "dispatch");
        // The C library's own calls are made natively, between the loops.
        double begun = now();
        long last = 0;
        selector = 1;
        for (long i = 0; i < times; i++) last = once();
        selector = 0;
        double each = (now() - begun) / (double)times;
        printf("%e %s\n", each, last == ANSWER ? "answered" : "made");
        return 0;
    } else if (IS("landlock")) {
        landlock();
    } else if (IS("notify")) {
        notified(PLAIN, times);
    } else if (IS("notify-sync")) {
        notified(SYNC, times);
    } else if (IS("add")) {
        notified(SYNC | ADD, times);
    } else if (IS("add-send")) {
        notified(SYNC | ADD_SEND, times);
    } else if (IS("supervise") || IS("supervise-make")) {
        must(count > 4, "a command");
        supervised(IS("supervise-make"), words + 4);
    } else if (IS("sysemu")) {
        traced(1, times);
    } else if (IS("ptrace")) {
        traced(0, times);
    } else {
        return 2;
    }
    repeat(times);
    return 0;
}
