// SPDX-License-Identifier: Apache-2.0 OR MIT
// Reads clocks in every way, many times, and says how far the time of day is from the argument: no second, or another
// number. The monotonic clock and the processor's are never moved.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 1000, NEAR = 600 };

static long expected;
static int wrong;

static void is(long seconds) { wrong += labs(seconds - expected) > NEAR; }

int main(int count, char **arguments) {
    if (count < 2) return 2;
    expected = atol(arguments[1]);
    struct timespec before, now;
    struct timeval day;
    time_t seconds;
    if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &before)) return 2;
    for (int i = 0; i < TIMES; i++) {
        if (clock_gettime(CLOCK_REALTIME, &now)) return 2;
        is(now.tv_sec);
        if (syscall(SYS_clock_gettime, CLOCK_REALTIME_COARSE, &now)) return 2;
        is(now.tv_sec);
        if (gettimeofday(&day, 0) || syscall(SYS_gettimeofday, 0, 0)) return 2;
        is(day.tv_sec);
        if (syscall(SYS_gettimeofday, &day, 0)) return 2;
        is(day.tv_sec);
        is(time(0));
        is(time(&seconds));
        is(seconds);
        is(syscall(SYS_time, &seconds));
        is(seconds);
        is(syscall(SYS_time, 0));
        // An error is one, and nothing is written.
        if (syscall(SYS_clock_gettime, 99, &now) != -1 || syscall(SYS_clock_gettime, CLOCK_REALTIME, 1) != -1) return 3;
        if (syscall(SYS_gettimeofday, 1, 0) != -1 || syscall(SYS_time, 1) != -1) return 3;
        if (clock_gettime(CLOCK_MONOTONIC, &now)) return 2;
        if (now.tv_sec < before.tv_sec || now.tv_sec - before.tv_sec > NEAR) return 4;
        // By way of the vDSO, where there is one, which makes a system call for it.
        if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) || now.tv_sec > NEAR) return 5;
    }
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
