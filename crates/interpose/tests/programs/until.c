// SPDX-License-Identifier: Apache-2.0 OR MIT
// Waits until a time of day by every call that can, repeatedly, by the clock that the program reads itself. By the
// monotonic clock each wait must take as long as the two times are apart, and must not take for ever.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 12, AHEAD = 20, NEAR = 1 }; // milliseconds

static struct timespec now(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time)) exit(10);
    return time;
}

static struct timespec in(clockid_t clock, long milliseconds) {
    struct timespec time = now(clock);
    time.tv_nsec += milliseconds * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static double monotonic(void) {
    struct timespec time = now(CLOCK_MONOTONIC);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

#define EXPECT(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s (%s)\n", __LINE__, #what, strerror(errno)); \
            exit(1); \
        } \
    } while (0)

// Checks that a wait took as long as it should; `clock` is the clock that it uses.
#define TAKES(clock, wait) \
    for (int round = 0; round < ROUNDS; round++) { \
        double begun = monotonic(); \
        struct timespec until = in(clock, AHEAD); \
        EXPECT(wait); \
        EXPECT(monotonic() - begun > AHEAD - NEAR); \
    }

static int timerfd(clockid_t clock, struct timespec until) {
    int file = timerfd_create(clock, TFD_CLOEXEC);
    struct itimerspec time = {.it_value = until}, left;
    uint64_t times = 0;
    EXPECT(file >= 0 && !timerfd_settime(file, TFD_TIMER_ABSTIME, &time, 0));
    EXPECT(!timerfd_gettime(file, &left) && left.it_value.tv_sec == 0);
    EXPECT(read(file, &times, sizeof times) == sizeof times);
    // Zero disarms the timer, and isn't a time in the past.
    struct itimerspec none = {0};
    EXPECT(!timerfd_settime(file, TFD_TIMER_ABSTIME, &none, 0) && !timerfd_gettime(file, &left));
    EXPECT(left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0);
    return !close(file) && times == 1;
}

static int timer(clockid_t clock, struct timespec until) {
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    EXPECT(!sigprocmask(SIG_BLOCK, &set, 0));
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t others, own;
    // A timer of another clock comes before the own timer in the list.
    EXPECT(!timer_create(CLOCK_MONOTONIC, &event, &others) && !timer_create(clock, &event, &own));
    struct itimerspec time = {.it_value = until};
    EXPECT(!timer_settime(own, TIMER_ABSTIME, &time, 0));
    return sigwaitinfo(&set, 0) == SIGUSR1 && !timer_delete(own) && !timer_delete(others);
}

// The process is stopped and continued meanwhile, after which the kernel repeats the call unchanged.
static int stopped(struct timespec until) {
    pid_t self = getpid(), other = fork();
    if (!other) {
        usleep(3000);
        kill(self, SIGSTOP);
        usleep(3000);
        kill(self, SIGCONT);
        _exit(0);
    }
    int answer = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, 0);
    return waitpid(other, 0, 0) == other && !answer;
}

static void nothing(int signal) { (void)signal; }

int main(void) {
    // Ends a wait that lasts for years, or for ever.
    alarm(120);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, inherits;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    sem_t semaphore;
    uint32_t word = 0;
    EXPECT(!sem_init(&semaphore, 0, 0) && !pthread_mutex_lock(&mutex));

    TAKES(CLOCK_REALTIME, !clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, 0));
    TAKES(CLOCK_TAI, !clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &until, 0));
    TAKES(CLOCK_MONOTONIC, !clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0));
    TAKES(CLOCK_REALTIME, stopped(until));
    TAKES(CLOCK_REALTIME, pthread_cond_timedwait(&condition, &mutex, &until) == ETIMEDOUT);
    TAKES(CLOCK_REALTIME, pthread_mutex_timedlock(&mutex, &until) == ETIMEDOUT);
    TAKES(CLOCK_REALTIME, sem_timedwait(&semaphore, &until) && errno == ETIMEDOUT);
    TAKES(CLOCK_MONOTONIC, sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until) && errno == ETIMEDOUT);
    TAKES(CLOCK_REALTIME, timerfd(CLOCK_REALTIME, until));
    TAKES(CLOCK_MONOTONIC, timerfd(CLOCK_MONOTONIC, until));
    TAKES(CLOCK_REALTIME, timer(CLOCK_REALTIME, until));
    TAKES(CLOCK_MONOTONIC, timer(CLOCK_MONOTONIC, until));

    // A mutex that another thread or process holds, by FUTEX_LOCK_PI.
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_t *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(shared != MAP_FAILED && !pthread_mutex_init(shared, &attributes));
    EXPECT(!pthread_mutex_init(&inherits, &attributes));
    int ends[2];
    EXPECT(!pipe(ends));
    pid_t holder = fork();
    if (!holder) {
        char byte = 0;
        if (pthread_mutex_lock(shared) || write(ends[1], &byte, 1) != 1) _exit(1);
        pause();
    }
    char byte;
    EXPECT(read(ends[0], &byte, 1) == 1);
    TAKES(CLOCK_REALTIME, pthread_mutex_timedlock(shared, &until) == ETIMEDOUT);
    EXPECT(!kill(holder, SIGKILL) && waitpid(holder, 0, 0) == holder);

    // By call number, as a library in another language calls it.
    TAKES(CLOCK_REALTIME, syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &until, 0,
                                  FUTEX_BITSET_MATCH_ANY) == -1 && errno == ETIMEDOUT);
    TAKES(CLOCK_MONOTONIC, syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &until, 0,
                                   FUTEX_BITSET_MATCH_ANY) == -1 && errno == ETIMEDOUT);
    // A relative wait.
    struct timespec length = {0, AHEAD * 1000000};
    TAKES(CLOCK_MONOTONIC, syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &length, 0, 0) == -1 &&
                               errno == ETIMEDOUT && until.tv_nsec >= 0);
    struct { uint64_t value, address; uint32_t flags, reserved; } words = {0, (uintptr_t)&word, 2, 0};
    if (syscall(449, &words, 0, 0, 0, 0) == -1 && errno != ENOSYS) {
        TAKES(CLOCK_REALTIME, syscall(449, &words, 1, 0, &until, CLOCK_REALTIME) == -1 && errno == ETIMEDOUT);
        TAKES(CLOCK_MONOTONIC, syscall(449, &words, 1, 0, &until, CLOCK_MONOTONIC) == -1 && errno == ETIMEDOUT);
    }
    if (syscall(455, &word, 0, 0, 2, 0, 0) == -1 && errno != ENOSYS)
        TAKES(CLOCK_REALTIME, syscall(455, &word, 0, ~0u, 2, &until, CLOCK_REALTIME) == -1 && errno == ETIMEDOUT);
    char name[64], text[64];
    snprintf(name, sizeof name, "/until.%d", getpid());
    struct mq_attr small = {.mq_maxmsg = 1, .mq_msgsize = sizeof text};
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &small);
    EXPECT(queue >= 0 && !mq_unlink(name));
    TAKES(CLOCK_REALTIME, mq_timedreceive(queue, text, sizeof text, 0, &until) == -1 && errno == ETIMEDOUT);
    EXPECT(!mq_send(queue, "full", 4, 0));
    TAKES(CLOCK_REALTIME, mq_timedsend(queue, "more", 4, 0, &until) == -1 && errno == ETIMEDOUT);

    // A signal comes meanwhile: its handler runs, and the wait ends.
    struct sigaction action = {.sa_handler = nothing};
    struct itimerval soon = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};
    EXPECT(!sigaction(SIGALRM, &action, 0) && !setitimer(ITIMER_REAL, &soon, 0));
    struct timespec late = in(CLOCK_REALTIME, 60000);
    EXPECT(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &late, 0) == EINTR);
    action.sa_handler = SIG_DFL;
    EXPECT(!setitimer(ITIMER_REAL, &off, 0) && !sigaction(SIGALRM, &action, 0) && alarm(120) == 0);

    // A time in the past returns at once, an invalid time is an error, and the program's own times stay unchanged.
    struct timespec past = in(CLOCK_REALTIME, 0), first = {0, 0}, last = {INT64_MAX, 0}, kept = late;
    past.tv_sec -= 1;
    EXPECT(!clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &past, 0));
    EXPECT(!clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &first, 0));
    EXPECT(sem_timedwait(&semaphore, &past) && errno == ETIMEDOUT);
    EXPECT(!sem_post(&semaphore) && !sem_timedwait(&semaphore, &late) && !memcmp(&late, &kept, sizeof late));
    EXPECT(!sem_post(&semaphore) && !sem_timedwait(&semaphore, &last));
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec wrong = {now(CLOCK_REALTIME).tv_sec, 1000000000}, negative = {-1, 0};
        struct itimerspec soonest = {.it_value = in(CLOCK_REALTIME, 0)};
        EXPECT(syscall(SYS_clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, &wrong, 0) == -1 && errno == EINVAL);
        EXPECT(syscall(SYS_clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, &negative, 0) == -1 && errno == EINVAL);
        for (long address = -1; address <= 1; address++)
            EXPECT(syscall(SYS_clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, address, 0) == -1 && errno == EFAULT);
        EXPECT(syscall(SYS_timerfd_settime, 99, TFD_TIMER_ABSTIME, &soonest, 0) == -1 && errno == EBADF);
        EXPECT(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, 1, 0, ~0u) == -1 && errno == EFAULT);
        // No wait: the value has changed already.
        EXPECT(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 1, 0, 0, ~0u) == -1 && errno == EAGAIN);
    }
    puts("on time");
    return 0;
}
