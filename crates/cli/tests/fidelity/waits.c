// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// waits CALL...: has a process wait in each of these calls, sends it each kind of signal, and prints the result:
// a line for each, with the call's result and how often a handler ran.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *call, *way;
static int said[2];          // the waiting process says `r` before it waits, `h` in a handler, and then its result
static volatile sig_atomic_t handled;
static time_t until;

static int is(const char *one, const char *other) { return strcmp(one, other) == 0; }
static void die(const char *what) { perror(what); exit(2); }
static void handle(int signal) { (void)signal; handled++; if (write(said[1], "h", 1) != 1) _exit(3); }
static void say(const char *text) { if (write(said[1], text, strlen(text)) < 0) _exit(3); }

static struct sockaddr_un address(void) {
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    strcpy(name.sun_path, "socket");
    return name;
}

static long wait_in_call(void) {
    if (is(call, "write")) return open("fifo", O_WRONLY);
    if (is(call, "read")) return open("fifo", O_RDONLY | O_CREAT, 0600);
    if (is(call, "lease")) return open("leased", O_WRONLY | O_TRUNC);
    if (is(call, "connect")) {
        struct sockaddr_un name = address();
        return connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&name, sizeof name);
    }
    struct timespec time = { .tv_sec = until };
    errno = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &time, NULL);
    return errno ? -1 : 0;
}

static void *in_thread(void *unused) {
    if (is(way, "thread") || is(way, "elsewhere")) {
        sigset_t set;
        sigemptyset(&set); sigaddset(&set, SIGUSR1);
        pthread_sigmask(is(way, "thread") ? SIG_UNBLOCK : SIG_SETMASK, &set, NULL);
        if (is(way, "elsewhere")) { sigemptyset(&set); pthread_sigmask(SIG_SETMASK, &set, NULL); }
    }
    say("r");
    long result = wait_in_call();
    static char text[64];
    struct stat found;
    int kept = is(call, "lease") && result >= 0 && (fstat((int)result, &found) || found.st_size != 0);
    snprintf(text, sizeof text, "=%s\n", result < 0 ? strerrorname_np(errno) : kept ? "done, and not emptied" : "done");
    say(text);
    return unused;
}

// The process that waits.
static void wait_so(void) {
    struct sigaction action = { .sa_handler = handle };
    sigset_t set;
    sigemptyset(&set);
    if (is(way, "restart") || is(way, "again")) action.sa_flags = SA_RESTART;
    if (is(way, "ignored")) action.sa_handler = SIG_IGN;
    sigaction(SIGUSR1, &action, NULL);
    if (is(way, "timer")) {
        struct itimerval soon = { .it_value = { .tv_usec = 200000 } };
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    if (is(way, "blocked") || is(way, "thread")) {
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, NULL);
    }
    pthread_t thread;
    void *joined = NULL;
    if (is(way, "thread") || is(way, "elsewhere") || is(way, "stop-thread")) {
        pthread_create(&thread, NULL, in_thread, NULL);
        pthread_join(thread, NULL);
    } else if (is(way, "cancel")) {
        pthread_create(&thread, NULL, in_thread, NULL);
        struct timespec moment = { .tv_nsec = 200000000 };
        nanosleep(&moment, NULL);
        pthread_cancel(thread);
        pthread_join(thread, &joined);
        say(joined == PTHREAD_CANCELED ? "=cancelled\n" : "=not cancelled\n");
    } else {
        in_thread(NULL);
    }
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    exit(handled);
}

// Whether all threads of a process sleep in some call.
static int sleeps(pid_t process) {
    char path[320], text[512];
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *tasks = opendir(path);
    int all = 1;
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        if (task->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/stat", process, task->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
        char *state = strrchr(text, ')');
        if (state && state[2] == 'R') all = 0;
    }
    if (tasks) closedir(tasks);
    return all;
}

static void await_sleep(pid_t process) {
    for (int seen = 0; seen < 5; seen = sleeps(process) ? seen + 1 : 0) {
        struct timespec moment = { .tv_nsec = 10000000 };
        nanosleep(&moment, NULL);
    }
}

static int next(void) {
    char byte;
    return read(said[0], &byte, 1) == 1 ? byte : -1;
}

static void expect(int byte) { int found = next(); if (found != byte) { printf("(%c for %c) ", found, byte); } }

static void run(void) {
    int listener = -1, first = -1, leased = -1, other = -1;
    unlink("fifo"); unlink("socket"); unlink("leased");
    if (pipe(said) || mkfifo("fifo", 0600)) die("prepare");
    int ends_it = is(way, "plain") || is(way, "term") || is(way, "cancel") || is(way, "timer") || is(way, "thread") || is(way, "again");
    until = time(NULL) + (ends_it ? 60 : 3);
    if (is(call, "connect")) {
        struct sockaddr_un name = address();
        listener = socket(AF_UNIX, SOCK_STREAM, 0); first = socket(AF_UNIX, SOCK_STREAM, 0);
        if (bind(listener, (struct sockaddr *)&name, sizeof name) || listen(listener, 0)) die("listen");
        if (connect(first, (struct sockaddr *)&name, sizeof name)) die("connect");
    }
    if (is(call, "lease")) {
        int made = open("leased", O_WRONLY | O_CREAT, 0600);
        if (write(made, "text", 4) != 4) die("write");
        close(made);
        signal(SIGIO, SIG_IGN);
        leased = open("leased", O_RDONLY);
        if (fcntl(leased, F_SETLEASE, F_RDLCK)) die("lease");
    }
    fflush(stdout);
    pid_t process = fork();
    if (process == 0) {
        close(said[0]); close(listener); close(first); close(leased);
        wait_so();
    }
    close(said[1]);
    expect('r');
    await_sleep(process);
    int status = 0, stops = is(way, "stop") || is(way, "stop-thread");
    if (stops) {
        kill(process, SIGSTOP);
        waitpid(process, &status, WUNTRACED);
        printf("%s ", WIFSTOPPED(status) ? "stopped" : "not stopped");
        kill(process, SIGCONT);
        waitpid(process, &status, WCONTINUED);
        printf("%s ", WIFCONTINUED(status) ? "continued" : "not continued");
    } else if (!is(way, "cancel") && !is(way, "timer")) {
        kill(process, is(way, "term") ? SIGTERM : SIGUSR1);
    }
    if (is(way, "restart") || is(way, "elsewhere") || is(way, "again")) expect('h');
    if (is(way, "again")) {
        // One that doesn't begin again after one that does.
        await_sleep(process);
        kill(process, SIGTERM);
    }
    // Let the waiting process continue.
    if (is(way, "restart") || is(way, "ignored") || is(way, "blocked") || is(way, "elsewhere") || stops) {
        if (is(call, "write")) other = open("fifo", O_RDONLY);
        if (is(call, "read")) other = open("fifo", O_WRONLY);
        if (is(call, "connect")) other = accept(listener, NULL, NULL);
        if (is(call, "lease")) fcntl(leased, F_SETLEASE, F_UNLCK);
    }
    char text[256] = "";
    for (int byte; (byte = next()) >= 0;) { size_t end = strlen(text); if (end + 2 < sizeof text) { text[end] = (char)(byte == '\n' ? ' ' : byte); } }
    waitpid(process, &status, 0);
    if (WIFSIGNALED(status)) printf("%skilled by %d\n", text, WTERMSIG(status));
    else printf("%shandled %d\n", text, WEXITSTATUS(status));
    close(said[0]); close(listener); close(first); close(leased); close(other);
}

int main(int count, char **calls) {
    static const char *ways[] = { "plain", "restart", "again", "ignored", "blocked", "term", "timer", "stop", "thread", "elsewhere", "stop-thread", "cancel" };
    signal(SIGPIPE, SIG_IGN);
    for (int at = 1; at < count; at++)
        for (size_t index = 0; index < sizeof ways / sizeof *ways; index++) {
            call = calls[at]; way = ways[index];
            printf("%s %s: ", call, way);
            run();
        }
    return 0;
}
