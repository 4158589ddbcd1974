// SPDX-License-Identifier: Apache-2.0 OR MIT
// Makes and moves protected names by io_uring, whose operations no filter sees. Says what came of each.
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ring;
static struct io_uring_params parameters;
static char *submissions, *completions;
static struct io_uring_sqe *entries;

static unsigned *at(char *base, unsigned offset) { return (unsigned *)(void *)(base + offset); }

// One operation, waited for: its result, or minus an errno.
static int run(struct io_uring_sqe entry) {
    unsigned *tail = at(submissions, parameters.sq_off.tail), *head = at(completions, parameters.cq_off.head);
    unsigned slot = *tail & *at(submissions, parameters.sq_off.ring_mask);
    entries[slot] = entry;
    at(submissions, parameters.sq_off.array)[slot] = slot;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0) return -errno;
    struct io_uring_cqe *done = (void *)(completions + parameters.cq_off.cqes);
    int result = done[*head & *at(completions, parameters.cq_off.ring_mask)].res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return result;
}

static uint64_t address(const char *text) { return (uint64_t)(uintptr_t)text; }

int main(void) {
    if ((ring = (int)syscall(SYS_io_uring_setup, 8, &parameters)) < 0) {
        perror("io_uring_setup");
        return 0;
    }
    size_t size = parameters.sq_off.array + parameters.sq_entries * sizeof(unsigned);
    submissions = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    size = parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe);
    completions = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    entries = mmap(0, parameters.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (submissions == MAP_FAILED || completions == MAP_FAILED || (void *)entries == MAP_FAILED) return 2;

    printf("openat: %d\n", run((struct io_uring_sqe){.opcode = IORING_OP_OPENAT, .fd = AT_FDCWD,
        .addr = address(".git/hooks/pre-push"), .open_flags = O_WRONLY | O_CREAT, .len = 0755}));
    printf("mkdirat: %d\n", run((struct io_uring_sqe){.opcode = IORING_OP_MKDIRAT, .fd = AT_FDCWD,
        .addr = address("sub/.vscode"), .len = 0755}));
    printf("renameat: %d\n", run((struct io_uring_sqe){.opcode = IORING_OP_RENAMEAT, .fd = AT_FDCWD,
        .addr = address(".envrc"), .len = (unsigned)AT_FDCWD, .off = address("away")}));
    printf("unlinkat: %d\n", run((struct io_uring_sqe){.opcode = IORING_OP_UNLINKAT, .fd = AT_FDCWD,
        .addr = address(".npmrc")}));
    return 0;
}
