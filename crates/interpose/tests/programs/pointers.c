// SPDX-License-Identifier: Apache-2.0 OR MIT
// Passes pointers to memory that is unmapped, in part or in whole, or only readable, to calls whose arguments are
// examined before the kernel gets them. Prints each result: it must be the same as without interposition. It does so
// more than eight times, because sites are patched then.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static int turn;
static void say(const char *what, int pointer, long result) {
    if (turn == 0 || turn == 19) printf("%s %d: %ld %s\n", what, pointer, result, result < 0 ? strerrorname_np(errno) : "");
}
static unsigned long blocked(void) {
    unsigned long mask = 0;
    return syscall(SYS_rt_sigprocmask, 0, 0, &mask, 8) ? -1ul : mask;
}

int main(void) {
    char *page = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(page, 0, 2 * 4096);
    // After the second page there is no readable memory: the third can't be read; the first can't be written.
    mprotect(page + 8192, 4096, PROT_NONE);
    mprotect(page, 4096, PROT_READ);
    char *bad[] = {(char *)1, page + 8192, page + 8192 - 4, (char *)0x7ffffffff000, (char *)-4096l, page + 64, 0};
    int epoll = syscall(SYS_epoll_create1, 0), timer = timerfd_create(CLOCK_REALTIME, 0);
    struct timespec soon = {0, 1000};
    unsigned word = 1;
    timer_t posix;
    struct sigevent nothing = {.sigev_notify = SIGEV_NONE};
    timer_create(CLOCK_REALTIME, &nothing, &posix);
    for (turn = 0; turn < 20; turn++) {
        for (int i = 0; i < 7; i++) {
            char *at = bad[i];
            unsigned long full = 1ul << (SIGUSR1 - 1), none = 0;
            say("sigaction new", i, syscall(SYS_rt_sigaction, SIGUSR2, at, 0, 8));
            say("sigaction old", i, syscall(SYS_rt_sigaction, SIGUSR2, 0, at, 8));
            say("sigaction SIGSYS new", i, syscall(SYS_rt_sigaction, SIGSYS, at, 0, 8));
            say("sigaction SIGSYS old", i, syscall(SYS_rt_sigaction, SIGSYS, 0, at, 8));
            say("sigaction SIGKILL", i, syscall(SYS_rt_sigaction, SIGKILL, at, 0, 8));
            for (int how = 0; how < 4; how++) {
                say("sigprocmask new", i, syscall(SYS_rt_sigprocmask, how, at, 0, 8));
                say("sigprocmask old", i, syscall(SYS_rt_sigprocmask, how, &full, at, 8));
                say("mask", i, blocked());
                say("sigprocmask back", i, syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, at, 8));
                say("mask", i, blocked());
            }
            say("sigprocmask size", i, syscall(SYS_rt_sigprocmask, SIG_BLOCK, at, 0, 4));
            if (at) say("ppoll", i, syscall(SYS_ppoll, 0, 0, &soon, at, 8));
            say("ppoll size", i, syscall(SYS_ppoll, 0, 0, &soon, at, 4));
            if (at) say("epoll_pwait", i, syscall(SYS_epoll_pwait, epoll, page + 4096, 1, 1, at, 8));
            unsigned long pair[2] = {(unsigned long)at, 8};
            say("pselect6 pair", i, syscall(SYS_pselect6, 0, 0, 0, 0, &soon, at));
            say("pselect6 mask", i, syscall(SYS_pselect6, 0, 0, 0, 0, &soon, pair));
            // With a readable mask the call would wait for ever.
            if (i < 5) say("sigsuspend", i, syscall(SYS_rt_sigsuspend, at, 8));
            if (i < 5) say("sigtimedwait", i, syscall(SYS_rt_sigtimedwait, at, 0, &soon, 8));
            say("sigtimedwait time", i, syscall(SYS_rt_sigtimedwait, &none, 0, i == 6 ? (char *)&soon : at, 8));
            say("nanosleep", i, syscall(SYS_clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, at, 0));
            if (i < 6) say("futex", i, syscall(SYS_futex, &word, 9 | 256, 1, at, 0, -1));
            if (i < 6) say("futex private", i, syscall(SYS_futex, &word, 9 | 256 | 128, 1, at, 0, -1));
            say("timerfd", i, syscall(SYS_timerfd_settime, timer, 1, at, 0));
            say("timer", i, syscall(SYS_timer_settime, posix, 1, at, 0));
            say("clock", i, syscall(SYS_clock_gettime, CLOCK_REALTIME, at));
        }
    }
    puts("all");
    return 0;
}
