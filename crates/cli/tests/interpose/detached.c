// SPDX-License-Identifier: Apache-2.0 OR MIT
// Threads that no other thread joins: with musl each unmaps its own stack at its end.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 200 };
static sem_t done;

static void *work(void *unused) {
    (void)unused;
    getppid();
    sem_post(&done);
    return 0;
}

int main(void) {
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sem_init(&done, 0, 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &detached, work, 0)) return 1;
        while (sem_wait(&done)) {}
    }
    puts("done");
    return 0;
}
