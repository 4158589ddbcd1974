// SPDX-License-Identifier: Apache-2.0 OR MIT
// SIGSYS in masks: a thread that has blocked it sees it blocked, receives none meanwhile, and its calls still work.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s\n", __LINE__, #what); \
            fflush(stdout); \
            _exit(1); \
        } \
    } while (0)

static volatile int met, ticks;
static volatile long value;
static int parent;
static void on_sys(int signal, siginfo_t *info, void *context) {
    met++, value = info->si_value.sival_int, (void)signal, (void)context;
}
// The number varies, so that the site is never patched.
static void calls(void) {
    for (int i = 0; i < 50; i++) CHECK(getppid() == parent && syscall(i & 1 ? SYS_getuid : SYS_geteuid) >= 0);
}
static void tick(int signal) {
    calls();
    ticks++, (void)signal;
}
static int is_blocked(int how, const sigset_t *set) {
    sigset_t old;
    CHECK(!sigprocmask(how, set, &old));
    return sigismember(&old, SIGSYS);
}
// Makes the handler return to a mask in which everything is blocked that can be.
static void blocks_by_return(int signal, siginfo_t *info, void *context) {
    sigaddset(&((ucontext_t *)context)->uc_sigmask, SIGSYS);
    (void)signal, (void)info;
}
static void *thread(void *nothing) {
    sigset_t all;
    sigfillset(&all);
    CHECK(!pthread_sigmask(SIG_BLOCK, &all, 0) && is_blocked(SIG_BLOCK, 0));
    int before = met;
    CHECK(!pthread_kill(pthread_self(), SIGSYS));
    calls();
    CHECK(met == before);
    return nothing;
}

int main(void) {
    parent = getppid();
    struct sigaction action = {.sa_sigaction = on_sys, .sa_flags = SA_SIGINFO};
    CHECK(!sigaction(SIGSYS, &action, 0));
    sigset_t sys, all, none, pends;
    sigemptyset(&sys), sigemptyset(&none), sigaddset(&sys, SIGSYS), sigfillset(&all);

    // A blocked SIGSYS waits, and arrives once, with the data that it was sent with.
    CHECK(!is_blocked(SIG_BLOCK, &sys) && is_blocked(SIG_BLOCK, 0));
    for (int i = 0; i < 3; i++) CHECK(!sigqueue(getpid(), SIGSYS, (union sigval){.sival_int = 7 + i}));
    calls();
    CHECK(met == 0 && !sigpending(&pends) && sigismember(&pends, SIGSYS));
    CHECK(is_blocked(SIG_UNBLOCK, &sys) && met == 1 && value == 7);
    CHECK(!is_blocked(SIG_BLOCK, 0) && !sigpending(&pends) && !sigismember(&pends, SIGSYS));
    CHECK(!raise(SIGSYS) && met == 2);
    CHECK(!is_blocked(SIG_SETMASK, &all) && !raise(SIGSYS) && met == 2);
    calls();
    CHECK(is_blocked(SIG_BLOCK, &none) && is_blocked(SIG_UNBLOCK, &none) && is_blocked(SIG_SETMASK, &none));
    CHECK(met == 3 && !is_blocked(SIG_BLOCK, 0));

    // A pending signal runs its handler as soon as a mask permits it, although that mask has SIGSYS.
    CHECK(signal(SIGALRM, tick) != SIG_ERR && !sigprocmask(SIG_SETMASK, &all, 0) && !raise(SIGALRM) && !ticks);
    CHECK(!sigprocmask(SIG_SETMASK, &sys, 0) && ticks == 1 && is_blocked(SIG_SETMASK, &none));

    // Threads that end with SIGSYS blocked, more than can be stored at once.
    for (int i = 0; i < 200; i++) {
        pthread_t one;
        CHECK(!pthread_create(&one, 0, thread, 0) && !pthread_join(one, 0));
    }
    met = 0;
    CHECK(!raise(SIGSYS) && met == 1);

    // A handler changes the mask that it returns to.
    struct sigaction changes = {.sa_sigaction = blocks_by_return, .sa_flags = SA_SIGINFO};
    CHECK(!sigaction(SIGUSR1, &changes, 0) && !raise(SIGUSR1));
    calls();

    // More masks than are stored, each in force while a handler makes calls.
    int poll = epoll_create1(0);
    struct itimerval soon = {{0, 0}, {0, 200}};
    struct epoll_event event;
    for (int i = 0; i < 300; i++) {
        sigset_t mask = sys;
        for (int bit = 0; bit < 10; bit++)
            if (i >> bit & 1) sigaddset(&mask, 40 + bit);
        ticks = 0;
        CHECK(!sigprocmask(SIG_BLOCK, &all, 0) && !setitimer(ITIMER_REAL, &soon, 0));
        CHECK(epoll_pwait(poll, &event, 1, -1, &mask) < 0 && errno == EINTR && ticks == 1);
        CHECK(!sigprocmask(SIG_SETMASK, &none, 0));
    }
    // By rarely used calls.
    aio_context_t context = 0;
    if (!syscall(SYS_io_setup, 1, &context)) {
        struct io_event done;
        struct { const void *mask; size_t size; } given = {&sys, 8};
        ticks = 0;
        CHECK(!sigprocmask(SIG_BLOCK, &all, 0) && !setitimer(ITIMER_REAL, &soon, 0));
        CHECK(syscall(SYS_io_pgetevents, context, 1, 1, &done, 0, &given) < 0 && errno == EINTR && ticks == 1);
        CHECK(!sigprocmask(SIG_SETMASK, &none, 0));
    }

    // Processes that are started with everything blocked.
    CHECK(!sigprocmask(SIG_SETMASK, &all, 0));
    for (int i = 0; i < 3; i++) {
        pid_t child = 0;
        char *arguments[] = {"true", 0};
        int status = -1;
        if (i == 0) CHECK(!posix_spawn(&child, "/bin/true", 0, 0, arguments, 0));
        if (i == 1 && !(child = fork())) parent = getppid(), calls(), execv("/bin/true", arguments), _exit(9);
        if (i == 2 && !(child = vfork())) execv("/bin/true", arguments), _exit(9);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    CHECK(!sigprocmask(SIG_SETMASK, &none, 0));
    puts("masked");
    return 0;
}
