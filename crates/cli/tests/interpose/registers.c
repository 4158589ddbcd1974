// SPDX-License-Identifier: Apache-2.0 OR MIT
// Calls from three forms of sites, many times, so that they are unpatched first and then patched. All that a system
// call keeps must be kept: registers but rax, rcx, r11; flags; vector registers; 128 bytes below the stack pointer.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct state {
    uint64_t registers[12]; // rdi rsi rdx r8 r9 r10 rbx rbp r12 r13 r14 r15
    uint64_t red[16];
    uint8_t vector[16][16];
    uint64_t flags;
    uint64_t result;
};

#define SITE(name, text) \
    asm(".text\n.balign 16\n" name ":\n" \
        "push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\n" \
        "push %rdi\npush %rsi\n" /* in, out */ \
        "mov %rdi, %rax\n" \
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nmovups 224+16*\\n(%rax), %xmm\\n\n.endr\n" \
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nmov 96+8*\\n(%rax), %rcx\nmov %rcx, -128+8*\\n(%rsp)\n.endr\n" \
        "mov 480(%rax), %rcx\n" \
        "mov 0(%rax), %rdi\nmov 8(%rax), %rsi\nmov 16(%rax), %rdx\nmov 24(%rax), %r8\nmov 32(%rax), %r9\n" \
        "mov 40(%rax), %r10\nmov 48(%rax), %rbx\nmov 56(%rax), %rbp\nmov 64(%rax), %r12\nmov 72(%rax), %r13\n" \
        "mov 80(%rax), %r14\nmov 88(%rax), %r15\n" \
        "lea -128(%rsp), %rsp\npush %rcx\npopfq\nlea 128(%rsp), %rsp\n" \
        text "\n" \
        "lea -1024(%rsp), %rsp\npushfq\npop %rcx\nlea 1024(%rsp), %rsp\n" \
        "xchg (%rsp), %rsi\n" /* rsi: out */ \
        "mov %rdi, 0(%rsi)\nmov %rdx, 16(%rsi)\nmov %r8, 24(%rsi)\nmov %r9, 32(%rsi)\nmov %r10, 40(%rsi)\n" \
        "mov %rbx, 48(%rsi)\nmov %rbp, 56(%rsi)\nmov %r12, 64(%rsi)\nmov %r13, 72(%rsi)\nmov %r14, 80(%rsi)\n" \
        "mov %r15, 88(%rsi)\nmov (%rsp), %rdx\nmov %rdx, 8(%rsi)\nmov %rcx, 480(%rsi)\nmov %rax, 488(%rsi)\n" \
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nmovups %xmm\\n, 224+16*\\n(%rsi)\n.endr\n" \
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nmov -128+8*\\n(%rsp), %rcx\nmov %rcx, 96+8*\\n(%rsi)\n.endr\n" \
        "pop %rsi\npop %rdi\npop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n")
SITE("short_site", "mov $110, %eax\nsyscall");
SITE("wide_site", "mov $110, %rax\nsyscall");
SITE("other_site", "mov $110, %eax\nnop\nsyscall");
extern void short_site(struct state *, struct state *), wide_site(struct state *, struct state *),
    other_site(struct state *, struct state *);

static uint64_t random64(void) {
    static uint64_t x = 88172645463325252ull;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x;
}

int main(void) {
    void (*sites[])(struct state *, struct state *) = {short_site, wide_site, other_site};
    uint64_t parent = getppid();
    for (int i = 0; i < 30000; i++) {
        struct state in, out;
        for (unsigned j = 0; j < sizeof in / 8; j++) ((uint64_t *)&in)[j] = random64();
        in.flags = 0x202 | (random64() & 0x8d5); // carry, parity, adjust, zero, sign, overflow
        memset(&out, 0, sizeof out);
        sites[i % 3](&in, &out);
        in.result = parent;
        if (memcmp(&in, &out, sizeof in)) {
            for (unsigned j = 0; j < sizeof in / 8; j++)
                if (((uint64_t *)&in)[j] != ((uint64_t *)&out)[j])
                    printf("call %d, site %d, word %u: %lx became %lx\n", i, i % 3, j, ((uint64_t *)&in)[j],
                           ((uint64_t *)&out)[j]);
            return 1;
        }
    }
    puts("kept");
    return 0;
}
