// SPDX-License-Identifier: Apache-2.0 OR MIT
// Makes calls at more places than there are bodies at first, and can't get more: the supervisor was stopped or killed
// before. Then it makes calls that only a body can make: a handler returns, threads and processes start.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SITES = 400, STRIDE = 16 };

static volatile sig_atomic_t handled;

static void handle(int signal) {
    (void)signal;
    handled++;
}

static void *thread(void *argument) {
    return argument;
}

// A program with its own filter asks the supervisor for nothing.
static int seal(void) {
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, all};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int count, char **arguments) {
    int stop = count > 1 && !strcmp(arguments[1], "stop");
    pid_t watcher = getppid();
    kill(watcher, stop ? SIGSTOP : SIGKILL);
    if (stop && seal())
        return 2;
    unsigned char *code = mmap(0, SITES * STRIDE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int site = 0; site < SITES; site++) // mov $110, %eax; syscall; ret
        memcpy(code + site * STRIDE, "\xb8\x6e\0\0\0\x0f\x05\xc3", 8);
    if (mprotect(code, SITES * STRIDE, PROT_READ | PROT_EXEC))
        return 3;
    for (int site = 0; site < SITES; site++)
        if (((int (*)(void))(code + site * STRIDE))() < 0)
            return 4;
    signal(SIGUSR1, handle);
    for (int time = 0; time < 20; time++) {
        raise(SIGUSR1);
        pthread_t other;
        if (pthread_create(&other, 0, thread, 0) || pthread_join(other, 0))
            return 5;
        pid_t child = fork();
        if (child == 0)
            _exit(7);
        int status = 0;
        if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7)
            return 6;
    }
    if (stop)
        kill(watcher, SIGCONT);
    puts(handled == 20 ? "kept" : "lost");
    return 0;
}
