# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# What runs in an interposed program without its registers being saved: all but rax, rcx and r11 are the program's,
# and so are the flags (inline assembly may say that a system call preserves them), the vector state, and the stack
# with its red zone. A system call itself overwrites rcx and r11.
#
# Flags are kept in ax: lahf and seto take them, add $0x7f,%al (which sets OF again) and sahf give them back.

.set SLOT_NUMBER, 0
.set SLOT_COMMON, 16
.set SLOT_BACK, 24
.set SLOT_COUNTER, 32
.set SLOT_AFTER, 40
.set SLOT_VALUE, 48
.set SLOT_PLAIN, 56
.set COUNTER_ERRORS, 8
.set COUNTER_TICKS, 16

.section .head,"ax"
    .quad init
    .quad body
    .quad body_fields
    .quad entrance
    .quad entrance_fields

.text

# ---- The body of slot 0. What is marked as a field is an address in slot 0, and grows by 64 from body to body.

.balign 128
body:                                   # from a patched site
    movl {SLOTS}, %eax
0:  jmp *{SLOTS} + 8
1:
    .balign 16
    movl ${SLOTS}, %r11d                # common
2:  jmp *SLOT_COMMON(%r11)
    .org body + 32
    syscall                             # plain
    mov %rax, %rcx
    lahf
    seto %al
    mov {SLOTS} + 32, %r11
3:  lock incq (%r11)
    cmp $-4095, %rcx
    jae 5f
4:  add $0x7f, %al
    sahf
    mov %rcx, %rax
    jmp *{SLOTS} + 24
5:  lock incq 8(%r11)
    jmp 4b
    .org body + 96
    syscall                             # pass
8:  jmp *{SLOTS} + 24
6:  int $0x80                           # legacy
    jmp 8b
    .org body + 112
    syscall                             # after
    movl ${SLOTS}, %r11d
7:  jmp *SLOT_AFTER(%r11)
    .org body + 128
body_fields:
    # The field is the last thing of the instruction before the label.
    .byte 0b - body - 4, 1b - body - 4, 2b - body - 4, 3b - body - 4, 5b - body - 4, 6b - body - 4, 7b - body - 4, 0

# ---- The entrance 0, of sites whose number varies.

.balign 16
entrance:
    movl ${VARIANTS}, %r11d
0:  jmp *(%r11)
    .org entrance + 16
entrance_fields:
    .byte 0b - entrance - 4, 0

# ---- Displaced instructions, and what they lead to.

.globl displaced_load
displaced_load:                         # syscall() of the GNU C library
    mov 8(%rsp), %r9
    jmp varying
.globl displaced_move
displaced_move:                         # Syscall6 of Go
    mov %rbx, %rdi
.globl varying
varying:
    mov %rax, %rcx
    lahf
    seto %al
    cmp ${CALLS}, %rcx
    jae 1f
    cmpl $0, 64(%r11, %rcx, 4)
    je 1f
    movl 64(%r11, %rcx, 4), %ecx
    add $0x7f, %al
    sahf
    jmp *%rcx                           # its body sets eax
1:  add $0x7f, %al
    sahf
    mov %rcx, %rax
    jmp *8(%r11)

# ---- What `common` leads to: r11 is the slot.

# The call is the handler's if the pointer to a signal mask isn't null.
.globl mask_in_r8
mask_in_r8:
    mov %r8, %rcx
    jrcxz 1f
    jmp *SLOT_VALUE(%r11)
1:  jmp *SLOT_PLAIN(%r11)
.globl mask_in_r9
mask_in_r9:
    mov %r9, %rcx
    jrcxz 1f
    jmp *SLOT_VALUE(%r11)
1:  jmp *SLOT_PLAIN(%r11)
.globl mask_in_r10
mask_in_r10:
    mov %r10, %rcx
    jrcxz 1f
    jmp *SLOT_VALUE(%r11)
1:  jmp *SLOT_PLAIN(%r11)

# ptrace: the call is the handler's if it is PTRACE_TRACEME, 0.
.globl trace_me
trace_me:
    mov %rdi, %rcx
    jrcxz 1f
    jmp *SLOT_PLAIN(%r11)
1:  jmp *SLOT_VALUE(%r11)

# An answer that is known.
.globl answer
answer:
    mov SLOT_VALUE(%r11), %rax
    jmp *SLOT_BACK(%r11)
.globl counted_answer
counted_answer:
    lahf
    seto %al
    mov SLOT_COUNTER(%r11), %rcx
    lock incq (%rcx)
    add $0x7f, %al
    sahf
    mov SLOT_VALUE(%r11), %rax
    jmp *SLOT_BACK(%r11)

# munmap: who takes away its own stack (a detached thread that ends, by musl) finds nothing there afterwards, so nothing
# may be left there, and no trap can come any more: there is no place for its frame. All that such a thread can do is
# end, so its dispatch ends before. What is written lies within 256 bytes below the stack pointer.
.globl unmapping
unmapping:
    lahf
    seto %al
    mov %rsp, %rcx
    sub %rdi, %rcx
    jb 1f
    sub %rsi, %rcx
    jb 2f
    cmp $256, %rcx
    jb 2f
1:  add $0x7f, %al
    sahf
    mov SLOT_NUMBER(%r11), %eax
    jmp *SLOT_VALUE(%r11)
2:  lea -128(%rsp), %rsp
    push %rdi
    push %rax
    push %rsi
    push %rdx
    push %r10
    push %r8
    push %r11
    mov $157, %eax                      # prctl(PR_SET_SYSCALL_USER_DISPATCH, OFF, 0, 0, 0)
    mov $59, %edi
    xor %esi, %esi
    xor %edx, %edx
    xor %r10d, %r10d
    xor %r8d, %r8d
    syscall
    pop %r11
    pop %r8
    pop %r10
    pop %rdx
    pop %rsi
    pop %rax
    pop %rdi
    lea 128(%rsp), %rsp
    add $0x7f, %al
    sahf
    mov SLOT_NUMBER(%r11), %eax
    jmp *SLOT_PLAIN(%r11)

# Makes the call, and counts it and what it took. The stack pointer is another one meanwhile: not for calls that go by
# it. Clocks of different processors may differ by some ticks; what would be negative is nothing.
.globl timed
timed:
    lea -128(%rsp), %rsp
    push %r11
    mov %rdx, %rcx
    rdtsc
    push %rdx
    push %rax
    mov %rcx, %rdx
    mov SLOT_NUMBER(%r11), %eax
    syscall
    mov %rax, %rcx
    lahf
    seto %al
    push %rax
    push %rdx
    rdtsc
    shl $32, %rdx
    or %rdx, %rax
    mov 24(%rsp), %r11
    shl $32, %r11
    or 16(%rsp), %r11
    xor %edx, %edx
    sub %r11, %rax
    cmovb %rdx, %rax
    mov 32(%rsp), %r11
    mov SLOT_COUNTER(%r11), %rdx
    lock add %rax, COUNTER_TICKS(%rdx)
    lock incq (%rdx)
    cmp $-4095, %rcx
    jb 1f
    lock incq COUNTER_ERRORS(%rdx)
1:  pop %rdx
    pop %rax
    lea 24 + 128(%rsp), %rsp
    add $0x7f, %al
    sahf
    mov %rcx, %rax
    jmp *SLOT_BACK(%r11)

# The same for calls that go by the stack pointer. The time is kept in the slot: of two threads that fork at one site at
# once, both take the later beginning. No flags are changed.
.globl fork_begins
fork_begins:
    mov %rdx, %rcx
    rdtsc
    mov %eax, SLOT_PLAIN(%r11)
    mov %edx, SLOT_PLAIN + 4(%r11)
    mov %rcx, %rdx
    mov SLOT_NUMBER(%r11), %eax
    lea {AFTER}(, %r11, 2), %rcx
    jmp *%rcx

# rt_sigreturn doesn't come back, and wants the stack pointer as it is. It restores every register.
.globl sigreturn
sigreturn:
    mov SLOT_COUNTER(%r11), %rcx
    lock incq (%rcx)
    andl $0xbfffffff, 296(%rsp)         # uc_sigmask, which the program may have changed: SIGSYS stays deliverable
    mov $15, %eax
    syscall
    ud2

# ---- What a body's `after` leads to.

# Of clone, clone3, fork, vfork. A new task has no dispatch of its own. Below the red zone the stack is free, in the
# parent and in the child, as it would be for a signal's handler. The parent of a vfork comes here when the child has
# gone, so what it pushes was pushed after anything that the child did.
.globl forked
forked:
    mov %rax, %rcx
    lahf
    seto %al
    test %rcx, %rcx
    jz 2f
    add $0x7f, %al
    sahf
    mov %rcx, %rax
    jmp *SLOT_VALUE(%r11)
2:  lea -128(%rsp), %rsp
    push %rdi
    push %rax
    push %rsi
    push %rdx
    push %r10
    push %r8
    push %r11
    cmpl $0, {LEFT}
    jne 5f
4:  cmpl $435, SLOT_NUMBER(%r11)        # clone3 can clear handlers (CLONE_CLEAR_SIGHAND)
    jne 3f
    mov $13, %eax
    mov $31, %edi
    mov ${ACTION}, %esi
    xor %edx, %edx
    mov $8, %r10d
    syscall
3:  mov $157, %eax                      # prctl(PR_SET_SYSCALL_USER_DISPATCH, ON, from, length, NULL)
    mov $59, %edi
    mov $1, %esi
    mov ${CODE}, %edx
    mov ${FREE_LENGTH}, %r10d
    xor %r8d, %r8d
    syscall
6:  pop %r11
    pop %r8
    pop %r10
    pop %rdx
    pop %rsi
    pop %rax
    pop %rdi
    lea 128(%rsp), %rsp
    add $0x7f, %al
    sahf
    mov $0, %eax
    jmp *SLOT_BACK(%r11)
5:  mov $110, %eax                      # getppid: whose child it is
    syscall
    cmp %eax, {LEFT}
    je 6b
    mov $39, %eax                       # getpid: whose thread
    syscall
    cmp %eax, {LEFT}
    je 6b
    mov (%rsp), %r11
    jmp 4b

# In the parent: counts the call.
.globl counted
counted:
    mov %rax, %rcx
    lahf
    seto %al
    lea -128(%rsp), %rsp
    push %rdi
    mov SLOT_COUNTER(%r11), %rdi
    lock incq (%rdi)
    cmp $-4095, %rcx
    jb 1f
    lock incq 8(%rdi)
1:  pop %rdi
    lea 128(%rsp), %rsp
    add $0x7f, %al
    sahf
    mov %rcx, %rax
    jmp *SLOT_BACK(%r11)

# The same, and what it took since fork_begins.
.globl counted_since
counted_since:
    mov %rax, %rcx
    lahf
    seto %al
    lea -128(%rsp), %rsp
    push %rdi
    push %rdx
    push %rax
    rdtsc
    shl $32, %rdx
    or %rdx, %rax
    xor %edx, %edx
    sub SLOT_PLAIN(%r11), %rax
    cmovb %rdx, %rax
    mov SLOT_COUNTER(%r11), %rdi
    lock add %rax, COUNTER_TICKS(%rdi)
    lock incq (%rdi)
    cmp $-4095, %rcx
    jb 1f
    lock incq COUNTER_ERRORS(%rdi)
1:  pop %rax
    pop %rdx
    pop %rdi
    lea 128(%rsp), %rsp
    add $0x7f, %al
    sahf
    mov %rcx, %rax
    jmp *SLOT_BACK(%r11)

# The time of day moved, of clock_gettime, gettimeofday and time: what the kernel has just written, and time's result.
.globl moved_clock
moved_clock:
    mov %rax, %rcx
    lahf
    seto %al
    test %rcx, %rcx
    jnz 2f
    cmp $0, %edi                        # CLOCK_REALTIME
    je 1f
    cmp $5, %edi                        # CLOCK_REALTIME_COARSE
    je 1f
    cmp $11, %edi                       # CLOCK_TAI
    jne 2f
1:  mov {AHEAD}, %rcx
    add %rcx, (%rsi)
    xor %ecx, %ecx
2:  add $0x7f, %al
    sahf
    mov %rcx, %rax
    jmp *SLOT_VALUE(%r11)
.globl moved_day
moved_day:
    mov %rax, %rcx
    lahf
    seto %al
    test %rcx, %rcx
    jnz 1f
    test %rdi, %rdi
    jz 1f
    mov {AHEAD}, %rcx
    add %rcx, (%rdi)
    xor %ecx, %ecx
1:  add $0x7f, %al
    sahf
    mov %rcx, %rax
    jmp *SLOT_VALUE(%r11)
.globl moved_time
moved_time:
    mov %rax, %rcx
    lahf
    seto %al
    cmp $-4095, %rcx
    jae 1f
    add {AHEAD}, %rcx
    test %rdi, %rdi
    jz 1f
    mov %rcx, (%rdi)
1:  add $0x7f, %al
    sahf
    mov %rcx, %rax
    jmp *SLOT_VALUE(%r11)
.globl through
through:
    jmp *SLOT_BACK(%r11)

# Counts the call, and writes a record. There may be no room: a program isn't kept waiting for who reads.
.globl logged
logged:
    mov %rax, %rcx
    lahf
    seto %al
    lea -128(%rsp), %rsp
    push %rdx
    push %rbx
    push %rax
    mov SLOT_COUNTER(%r11), %rdx
    lock incq (%rdx)
    cmp $-4095, %rcx
    jb 1f
    lock incq 8(%rdx)
1:  mov {HEAD}, %rdx
    sub {TAIL}, %rdx
    cmp ${ROOM}, %rdx
    jae 3f
    mov $1, %ebx
    lock xadd %rbx, {HEAD}
    and ${LAST}, %ebx
    shl $6, %rbx
    add ${RING}, %rbx
    mov %rcx, 56(%rbx)
    mov 16(%rsp), %rdx
    mov %rdi, 8(%rbx)
    mov %rsi, 16(%rbx)
    mov %rdx, 24(%rbx)
    mov %r10, 32(%rbx)
    mov %r8, 40(%rbx)
    mov %r9, 48(%rbx)
    push %rcx
    push %r11
    mov $186, %eax                      # gettid
    syscall
    pop %r11
    pop %rcx
    mov %eax, 4(%rbx)
    mov SLOT_NUMBER(%r11), %edx
    inc %edx
    mov %edx, (%rbx)
2:  pop %rax
    pop %rbx
    pop %rdx
    lea 128(%rsp), %rsp
    add $0x7f, %al
    sahf
    mov %rcx, %rax
    jmp *SLOT_BACK(%r11)
3:  lock incq {DROPPED}
    jmp 2b

# ---- Where a program begins: r15 its entry, r14 the shared segment, r13 the number of the call that brought
# it. The kernel gave all registers but rsp as 0, and so does this.

.globl init
init:
    mov %rsp, %rbx
    and $-16, %rsp
    mov %r14, %rdi
    mov %r13, %rsi
    call setup
    mov %rbx, %rsp
    mov %r15, -8(%rsp)
    xor %eax, %eax
    xor %ebx, %ebx
    xor %ecx, %ecx
    xor %edx, %edx
    xor %esi, %esi
    xor %edi, %edi
    xor %ebp, %ebp
    xor %r8d, %r8d
    xor %r9d, %r9d
    xor %r10d, %r10d
    xor %r11d, %r11d
    xor %r12d, %r12d
    xor %r13d, %r13d
    xor %r14d, %r14d
    xor %r15d, %r15d
    jmp *-8(%rsp)

.globl restorer
restorer:
    mov $15, %eax
    syscall
    ud2

.globl memcpy
memcpy:
    mov %rdi, %rax
    mov %rdx, %rcx
    rep movsb
    ret
.globl memset
memset:
    mov %rdi, %r8
    mov %esi, %eax
    mov %rdx, %rcx
    rep stosb
    mov %r8, %rax
    ret
