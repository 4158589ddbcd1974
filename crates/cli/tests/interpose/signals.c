// SPDX-License-Identifier: Apache-2.0 OR MIT
// Signals: a storm of them with calls in the handler and outside; SIGSYS blocked, handled, sent, and raised by a
// filter of the program's own; masks that are in force while a call waits.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s\n", __LINE__, #what); \
            exit(1); \
        } \
    } while (0)

static volatile long parent, ticks, sent, trapped;
static void tick(int signal) {
    int error = errno;
    if (getppid() != parent || syscall(SYS_getppid) != parent) _exit(3);
    ticks++, errno = error, (void)signal;
}
static void storm(int flags) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = flags};
    sigfillset(&action.sa_mask); // SIGSYS too
    CHECK(!sigaction(SIGALRM, &action, 0));
    struct itimerval fast = {{0, 100}, {0, 100}}, off = {{0, 0}, {0, 0}};
    CHECK(!setitimer(ITIMER_REAL, &fast, 0));
    int ends[2];
    CHECK(!pipe(ends));
    for (int i = 0; i < 20000; i++) {
        char c = i, d = 0;
        while (write(ends[1], &c, 1) != 1) CHECK(errno == EINTR);
        while (read(ends[0], &d, 1) != 1) CHECK(errno == EINTR);
        CHECK(c == d && getppid() == parent);
    }
    while (ticks < 50) getppid();
    CHECK(!setitimer(ITIMER_REAL, &off, 0));
    close(ends[0]), close(ends[1]);
}
static void on_sys(int signal, siginfo_t *info, void *context) {
    if (info->si_code == 1 /* SYS_SECCOMP */) {
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 4242;
        trapped++;
    } else {
        sent++;
    }
    if (getppid() != parent) _exit(3);
    (void)signal;
}

int main(int count, char **arguments) {
    (void)arguments;
    parent = getppid();
    storm(SA_RESTART);
    static char stack[1 << 16];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(!sigaltstack(&other, 0));
    ticks = 0, storm(SA_ONSTACK);
    stack_t now;
    CHECK(!sigaltstack(0, &now) && now.ss_sp == stack && !(now.ss_flags & SS_ONSTACK));

    // Everything blocked, and calls are made as ever.
    sigset_t all, before;
    sigfillset(&all);
    CHECK(!sigprocmask(SIG_SETMASK, &all, &before));
    for (int i = 0; i < 100; i++) CHECK(getppid() == parent && getuid() == geteuid());
    CHECK(!sigprocmask(SIG_SETMASK, 0, &all) && sigismember(&all, SIGUSR1) && sigismember(&all, SIGALRM));
    CHECK(!sigprocmask(SIG_SETMASK, &before, 0));

    // Block every signal but one. The handler of that one makes calls while the mask is in force.
    ticks = 0;
    struct itimerval soon = {{0, 0}, {0, 20000}};
    sigset_t alarm;
    sigemptyset(&alarm), sigaddset(&alarm, SIGALRM);
    CHECK(!sigprocmask(SIG_BLOCK, &alarm, 0));
    sigfillset(&all), sigdelset(&all, SIGALRM);
    CHECK(!setitimer(ITIMER_REAL, &soon, 0));
    CHECK(sigsuspend(&all) < 0 && errno == EINTR && ticks == 1);
    CHECK(!setitimer(ITIMER_REAL, &soon, 0));
    CHECK(ppoll(0, 0, 0, &all) < 0 && errno == EINTR && ticks == 2);
    CHECK(!setitimer(ITIMER_REAL, &soon, 0));
    CHECK(pselect(0, 0, 0, 0, 0, &all) < 0 && errno == EINTR && ticks == 3);
    CHECK(!sigprocmask(SIG_SETMASK, &before, 0));

    // SIGSYS is the program's to handle.
    struct sigaction action = {.sa_sigaction = on_sys, .sa_flags = SA_SIGINFO}, old;
    CHECK(!sigaction(SIGSYS, &action, &old) && old.sa_handler == SIG_DFL);
    CHECK(!sigaction(SIGSYS, 0, &old) && old.sa_sigaction == on_sys);
    CHECK(!raise(SIGSYS) && sent == 1 && getppid() == parent);
    CHECK(signal(SIGUSR2, SIG_IGN) == SIG_DFL && !raise(SIGUSR2));

    // A filter of its own.
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, rules};
    CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    for (int i = 0; i < 100; i++) CHECK(getsid(0) == 4242 && getppid() == parent);
    CHECK(trapped == 100);

    // No other code can disable the traps by accident. With an argument, the program knows that it is interposed.
    CHECK(count == 1 || (prctl(59, 0, 0, 0, 0) < 0 && errno == EINVAL));
    puts("well");
    fflush(stdout);
    signal(SIGSYS, SIG_DFL);
    raise(SIGSYS);
    return 1;
}
