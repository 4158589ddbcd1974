// SPDX-License-Identifier: Apache-2.0 OR MIT
// A debugger: children ask to be traced after a fork and after a vfork, stop themselves, execute a program, and are
// continued or single-stepped. The debugger sees the signals that it would see without interposition. The children's
// own children are traced, too.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s\n", __LINE__, #what); \
            exit(1); \
        } \
    } while (0)

// A child's calls between asking and executing: from sites that are patched, and from sites that never are.
static int calls(void) {
    sigset_t none;
    sigemptyset(&none);
    struct timespec now = {0, 0};
    for (int i = 0; i < 20; i++)
        if (ppoll(0, 0, &now, &none) || syscall(SYS_getppid) != getppid() || sigprocmask(SIG_SETMASK, &none, 0)) return 0;
    return 1;
}
static int wait_for(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, __WALL) == child);
    return status;
}
// Continues the child until it ends; returns the signals that it stopped with.
static int go_on(pid_t child, int step, int *steps) {
    for (;;) {
        CHECK(!ptrace(step ? PTRACE_SINGLESTEP : PTRACE_CONT, child, 0, 0));
        int status = wait_for(child);
        if (WIFEXITED(status)) return WEXITSTATUS(status);
        CHECK(WIFSTOPPED(status));
        if (WSTOPSIG(status) != SIGTRAP) printf("stopped by %s\n", strsignal(WSTOPSIG(status)));
        CHECK(WSTOPSIG(status) == SIGTRAP);
        ++*steps;
        if (*steps == 3000) step = 0;
    }
}

int main(int count, char **arguments) {
    if (count == 2) return calls() ? 7 : 8;
    char *again[] = {arguments[0], "again", 0};
    CHECK(calls());

    // As debuggers test the kernel's abilities: the child stops itself, and its own child is traced without asking.
    pid_t child = fork();
    if (!child) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) || !calls()) _exit(1);
        kill(getpid(), SIGSTOP);
        pid_t grandchild = fork();
        if (!grandchild) _exit(calls() ? 3 : 4);
        int status;
        if (waitpid(grandchild, &status, 0) != grandchild) _exit(5);
        _exit(WEXITSTATUS(status));
    }
    int status = wait_for(child), steps = 0;
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(!ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL));
    CHECK(!ptrace(PTRACE_CONT, child, 0, 0));
    status = wait_for(child);
    CHECK(status >> 8 == (SIGTRAP | PTRACE_EVENT_FORK << 8));
    unsigned long grandchild;
    CHECK(!ptrace(PTRACE_GETEVENTMSG, child, 0, &grandchild));
    status = wait_for(grandchild);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(go_on(grandchild, 0, &steps) == 3);
    CHECK(!ptrace(PTRACE_CONT, child, 0, 0));
    status = wait_for(child);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGCHLD);
    CHECK(go_on(child, 0, &steps) == 3 && steps == 0);

    // As debuggers start a program.
    for (int step = 0; step < 2; step++) {
        child = vfork();
        if (!child) {
            if (ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(1);
            execv(again[0], again);
            _exit(2);
        }
        status = wait_for(child);
        CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
        steps = 0;
        CHECK(go_on(child, step, &steps) == 7);
        CHECK(step ? steps == 3000 : steps == 0);
    }

    // The parent works as before.
    CHECK(calls());
    child = fork();
    if (!child) execv(again[0], again);
    status = wait_for(child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    puts("traced");
    return 0;
}
