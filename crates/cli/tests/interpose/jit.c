// SPDX-License-Identifier: Apache-2.0 OR MIT
// Code that is written while the program runs: its calls trap, are counted, and are never patched; also when other
// code takes its place, and when there are more sites than bodies.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void) {
    unsigned char *code = mmap(0, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED) return 2;
    long (*call)(void) = (long (*)(void))code;
    for (int round = 0; round < 2; round++) {
        memcpy(code, "\xb8\x6e\0\0\0\x0f\x05\xc3", 8); // getppid
        for (int i = 0; i < 50; i++)
            if (call() != getppid()) return 1;
        memcpy(code, "\xb8\x6f\0\0\0\x0f\x05\xc3", 8); // getpgrp
        for (int i = 0; i < 50; i++)
            if (call() != getpgrp()) return 1;
        if (memcmp(code, "\xb8\x6f\0\0\0\x0f\x05\xc3", 8)) return 3;
    }
    for (int site = 0; site < 4000; site++) { // getpgrp
        memcpy(code + 16 * site, "\xb8\x6f\0\0\0\x0f\x05\xc3", 8);
        if (((long (*)(void))(code + 16 * site))() != getpgrp()) return 1;
    }
    puts("called");
    return 0;
}
