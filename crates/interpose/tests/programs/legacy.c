// SPDX-License-Identifier: Apache-2.0 OR MIT
// Calls of 32-bit programs, made by a 64-bit program: they do what their numbers mean there, and keep every register
// but the first. The last call is exit, whose number means write in 64-bit calls.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static long call(long number, long b, long c, long d, int *kept) {
    long result = number, other = 0x1234567812345678, same = other;
    register long r11 __asm__("r11") = other, r10 __asm__("r10") = other, r9 __asm__("r9") = other;
    __asm__ volatile("int $0x80" : "+a"(result), "+b"(b), "+c"(c), "+d"(d), "+r"(r11), "+r"(r10), "+r"(r9)::"memory", "cc");
    *kept = r11 == same && r10 == same && r9 == same;
    return result;
}

int main(void) {
    int kept;
    char *low = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    strcpy(low, "written\n");
    for (int i = 0; i < 20; i++) {
        if (call(20, 0, 0, 0, &kept) != getpid() || !kept) return puts("getpid"), 1;
        if (call(64, 0, 0, 0, &kept) != getppid() || !kept) return puts("getppid"), 1;
        if (call(6, -1, 0, 0, &kept) != -EBADF || !kept) return puts("close"), 1;
        if (call(500, 0, 0, 0, &kept) != -ENOSYS || !kept) return puts("none"), 1;
    }
    if (call(4, 1, (long)low, 8, &kept) != 8) return puts("write"), 1;
    call(1, 7, (long)low, 8, &kept);
    puts("exit came back");
    return 1;
}
