// SPDX-License-Identifier: Apache-2.0 OR MIT
// Every way to make a process or a thread, and to execute a program in it: each must go on being interposed.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s (%s)\n", __LINE__, #what, strerror(errno)); \
            exit(1); \
        } \
    } while (0)

extern char **environ;
static char *echo[] = {"echo", "executed", 0};
static long here;

static void gone(pid_t child, int code) {
    int status;
    CHECK(waitpid(child, &status, __WALL) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code);
}
static void calls(void) {
    for (int i = 0; i < 10; i++) CHECK(getpgid(0) >= 0);
}
static int cloned(void *argument) {
    calls();
    return (int)(intptr_t)argument;
}
static void *thread(void *argument) {
    for (int i = 0; i < 40; i++) calls();
    __atomic_fetch_add(&here, 1, __ATOMIC_RELAXED);
    return argument;
}
static int made;
static void *executes(void *argument) {
    // A first thread that ends inside of clone3 has made a call that strace doesn't count.
    while (!__atomic_load_n(&made, __ATOMIC_ACQUIRE)) sched_yield();
    execv("/bin/echo", echo);
    return argument;
}
struct arguments3 {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

#pragma GCC diagnostic ignored "-Wclobbered"
int main(int count, char **arguments) {
    (void)arguments;
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (!child) calls(), _exit(7);
        gone(child, 7);
        child = vfork();
        if (!child) {
            if (getpgid(0) < 0) _exit(1);
            _exit(8);
        }
        gone(child, 8);
        struct arguments3 plain = {.exit_signal = SIGCHLD};
        child = syscall(SYS_clone3, &plain, sizeof plain);
        if (!child) calls(), _exit(9);
        gone(child, 9);
        struct arguments3 cleared = {.flags = 0x100000000ull /* CLONE_CLEAR_SIGHAND */, .exit_signal = SIGCHLD};
        child = syscall(SYS_clone3, &cleared, sizeof cleared);
        if (!child) calls(), _exit(10);
        gone(child, 10);
        char *stack = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        child = clone(cloned, stack + 65536, CLONE_VM | SIGCHLD, (void *)11);
        CHECK(child > 0);
        gone(child, 11);
        munmap(stack, 65536);
    }
    pthread_t threads[16];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 16; i++) CHECK(!pthread_create(&threads[i], 0, thread, 0));
        for (int i = 0; i < 16; i++) CHECK(!pthread_join(threads[i], 0));
    }
    CHECK(here == 64);

    // Programs: by vfork, by posix_spawn, by none that is there, by an interpreter's, from another thread.
    fflush(stdout);
    for (int i = 0; i < 3; i++) {
        pid_t child = vfork();
        if (!child) execv("/bin/echo", echo), _exit(1);
        gone(child, 0);
        CHECK(!posix_spawn(&child, "/bin/echo", 0, 0, echo, environ));
        gone(child, 0);
    }
    CHECK(posix_spawn(&(pid_t){0}, "/nonexistent", 0, 0, echo, environ) == ENOENT);
    CHECK(execv("/nonexistent", echo) < 0 && errno == ENOENT);
    CHECK(execv("/etc/passwd", echo) < 0 && errno == EACCES);
    pid_t child = fork();
    if (!child) execl("/bin/sh", "sh", "-c", "exec /bin/echo executed", (char *)0), _exit(1);
    gone(child, 0);
    if (count > 1) return 0;
    pthread_create(&threads[0], 0, executes, 0);
    __atomic_store_n(&made, 1, __ATOMIC_RELEASE);
    pthread_join(threads[0], 0);
    return 1;
}
