// SPDX-License-Identifier: Apache-2.0 OR MIT
// An LD_PRELOAD library that replaces a function of the C library. `PRELOAD=pass` makes the call after all.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int pass;

__attribute__((constructor)) static void begin(void) { pass = getenv("PRELOAD") != 0; }

pid_t getppid(void) {
    if (!pass) return 4242;
    long result;
    asm volatile("syscall" : "=a"(result) : "0"(SYS_getppid) : "rcx", "r11", "memory");
    return (pid_t)result;
}
