// SPDX-License-Identifier: Apache-2.0 OR MIT
// Threads that all use the same new call sites at once, at every alignment. The sites are in a file that is mapped as
// a library's code is; each is used often enough to be patched while others are in it. First all threads are at the
// same site, so that several make it known at once; or each begins with another (`apart`), so that they patch
// different ones at once, in the same page too.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 4, SITES = 1200, CALLS = 24, STRIDE = 21 };
static unsigned char *code;
static long parent;
static pthread_barrier_t barrier;
static int wrong, apart;

static void *use(void *first) {
    for (int site = 0; site < SITES; site++) {
        int mine = apart ? (site + (int)(long)first) % SITES : site;
        long (*call)(void) = (long (*)(void))(code + STRIDE * mine);
        if (!apart) pthread_barrier_wait(&barrier);
        for (int i = 0; i < CALLS; i++)
            if (call() != parent) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    apart = count > 2;
    int file = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    size_t length = (STRIDE * SITES + 4095) & ~4095ul;
    if (file < 0 || ftruncate(file, length)) return 2;
    unsigned char *text = mmap(0, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (text == MAP_FAILED) return 2;
    memset(text, 0xcc, length);
    for (int site = 0; site < SITES; site++) // mov $110, %eax; syscall; ret
        memcpy(text + STRIDE * site, "\xb8\x6e\0\0\0\x0f\x05\xc3", 8);
    munmap(text, length);
    code = mmap(0, length, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    if (code == MAP_FAILED) return 2;
    parent = getppid();
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, 0, THREADS);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, use, (void *)(long)(5 * i));
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
