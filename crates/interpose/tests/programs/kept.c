// SPDX-License-Identifier: Apache-2.0 OR MIT
// State that a trap could lose when it doesn't end by rt_sigreturn: calls from a site that is never patched, with the
// direction flag set, with states of the x87 and of the upper halves of the vector registers, with a signal stack
// that is disarmed meanwhile, with signals blocked and pending.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TIMES = 3000 };

static long parent(void) {
    long result;
    asm volatile("mov $110, %%eax\nnop\nsyscall" : "=a"(result) : : "rcx", "r11", "memory");
    return result;
}

static int direction(long expected) {
    long result;
    uint64_t flags;
    asm volatile("std\nmov $110, %%eax\nnop\nsyscall\npushfq\npop %1\ncld" : "=a"(result), "=r"(flags) : : "rcx", "r11", "memory", "cc");
    return result == expected && flags & 0x400;
}

static int numbers(long expected) {
    uint16_t control = 0x77f, was, back; // rounds down
    uint32_t vectors = 0x5f80, vectors_back;
    double pi = 0, one = 0;
    long result;
    asm volatile("fnstcw %0" : "=m"(was));
    asm volatile("fldcw %4\nldmxcsr %5\nfldpi\nfld1\nmov $110, %%eax\nnop\nsyscall\nfstpl %1\nfstpl %2\nfnstcw %3\nstmxcsr %6\n"
                 : "=&a"(result), "=m"(one), "=m"(pi), "=m"(back)
                 : "m"(control), "m"(vectors), "m"(vectors_back)
                 : "rcx", "r11", "memory");
    uint32_t usual = 0x1f80;
    asm volatile("fldcw %0\nldmxcsr %1" : : "m"(was), "m"(usual));
    return result == expected && one == 1 && pi > 3.1415926 && pi < 3.1415927 && back == control && vectors_back == vectors;
}

__attribute__((target("avx"))) static int halves(long expected) {
    uint8_t in[16][32], out[16][32];
    for (unsigned i = 0; i < sizeof in; i++) ((uint8_t *)in)[i] = (uint8_t)(i * 37 + 11);
    long result;
    asm volatile(".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nvmovups 32*\\n(%1), %%ymm\\n\n.endr\n"
                 "mov $110, %%eax\nnop\nsyscall\n"
                 ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nvmovups %%ymm\\n, 32*\\n(%2)\n.endr\nvzeroupper\n"
                 : "=&a"(result) : "r"(in), "r"(out)
                 : "rcx", "r11", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                   "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    return result == expected && !memcmp(in, out, sizeof in);
}

static char stack[65536];
static volatile int seen, on_it;
static sigjmp_buf away;

static void handler(int signal) {
    char here;
    on_it = &here >= stack && &here < stack + sizeof stack;
    for (int i = 0; i < 3; i++) parent();
    seen++;
    if (signal == SIGUSR2) siglongjmp(away, 1);
}

static int armed(void) {
    stack_t now;
    return !sigaltstack(0, &now) && now.ss_sp == (void *)stack && now.ss_size == sizeof stack;
}

#define EXPECT(what) \
    do { \
        if (!(what)) { \
            printf("line %d, round %d: %s\n", __LINE__, round, #what); \
            return 1; \
        } \
    } while (0)

int main(void) {
    long expected = getppid();
    int avx = __builtin_cpu_supports("avx");
    for (int round = 0; round < TIMES; round++) {
        EXPECT(parent() == expected);
        EXPECT(direction(expected));
        EXPECT(numbers(expected));
        EXPECT(!avx || halves(expected));
    }
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigset_t both, none, now;
    sigemptyset(&none), sigemptyset(&both), sigaddset(&both, SIGUSR1);
    for (int disarmed = 0; disarmed < 2; disarmed++) {
        stack_t given = {.ss_sp = stack, .ss_size = sizeof stack, .ss_flags = disarmed ? (int)(1u << 31) : 0};
        int round = -disarmed;
        EXPECT(!sigaltstack(&given, 0) && !sigaction(SIGUSR1, &action, 0) && !sigaction(SIGUSR2, &action, 0));
        for (round = 0; round < 100; round++) {
            seen = on_it = 0;
            EXPECT(parent() == expected && armed());
            EXPECT(!raise(SIGUSR1) && seen == 1 && on_it && armed());
            // The signal is blocked meanwhile, and pending. After a trap the mask is unchanged, and the signal comes
            // when it is unblocked.
            EXPECT(!sigprocmask(SIG_BLOCK, &both, 0) && !raise(SIGUSR1) && parent() == expected && seen == 1);
            EXPECT(!sigprocmask(SIG_SETMASK, 0, &now) && sigismember(&now, SIGUSR1));
            EXPECT(!sigprocmask(SIG_SETMASK, &none, 0) && seen == 2 && on_it && armed());
            // A handler that is left by a jump.
            if (!sigsetjmp(away, 1)) raise(SIGUSR2);
            EXPECT(seen == 3 && on_it && parent() == expected);
            EXPECT(!sigprocmask(SIG_SETMASK, 0, &now) && !sigismember(&now, SIGUSR2));
            // A jump leaves a stack that was disarmed as it is.
            EXPECT(!sigaltstack(&given, 0));
        }
    }
    puts("kept");
    return 0;
}
