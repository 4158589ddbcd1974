# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Waits until a time of day, while that is moved: the kernel is given a copy of the time with that taken off. It lies on
# the program's stack, below the red zone, where it stays for as long as the call is made again after a signal. Which
# calls wait so is seen from their arguments; flags are in ax meanwhile. A pointer that points nowhere is the kernel's to
# refuse: it is asked by a wait for a word that has another value, which reads the time first.
.macro UNCHANGED
    add $0x7f, %al
    sahf
    mov SLOT_NUMBER(%r11), %eax
    jmp *SLOT_PLAIN(%r11)
.endm
.macro WAIT_UNTIL register
    test \register, \register
    jz 9f
    lea -128(%rsp), %rsp
    push %r11
    push %rax
    push %rdi
    push %rsi
    push %rdx
    push %r10
    mov \register, %r10
    mov ${WORD}, %edi
    mov $128, %esi                      # FUTEX_WAIT, FUTEX_PRIVATE_FLAG
    mov $-1, %edx
    mov $202, %eax
    syscall
    mov %rax, %rcx
    pop %r10
    pop %rdx
    pop %rsi
    pop %rdi
    pop %rax
    pop %r11
    lea 128(%rsp), %rsp
    cmp $-14, %rcx                      # EFAULT
    je 9f
    mov (\register), %rcx
    test %rcx, %rcx
    js 9f
    lea -128(%rsp), %rsp
    push %r11
    push \register
    push 8(\register)
    sub {AHEAD}, %rcx
    jo 7f
    jns 8f
    xor %ecx, %ecx                      # before 1970: long ago
    jmp 8f
7:  mov $-1, %rcx
    shr $1, %rcx
8:  push %rcx
    mov %rsp, \register
    add $0x7f, %al
    sahf
    mov SLOT_NUMBER(%r11), %eax
    syscall
    mov 16(%rsp), \register
    mov 24(%rsp), %r11
    lea 32 + 128(%rsp), %rsp
    jmp *SLOT_VALUE(%r11)
9:  UNCHANGED
.endm

.globl until_sleep                      # clock_nanosleep(clock, flags, time, rest)
until_sleep:
    lahf
    seto %al
    test $1, %sil                       # TIMER_ABSTIME
    jz 1f
    cmp $0, %edi                        # CLOCK_REALTIME
    je 2f
    cmp $8, %edi                        # CLOCK_REALTIME_ALARM
    je 2f
    cmp $11, %edi                       # CLOCK_TAI
    je 2f
1:  UNCHANGED
2:  WAIT_UNTIL %rdx
.globl until_futex                      # futex(word, operation, value, time, ...)
until_futex:
    lahf
    seto %al
    mov %esi, %ecx
    and $0x7f, %ecx
    cmp $6, %ecx                        # FUTEX_LOCK_PI goes by the time of day alone
    je 2f
    test $0x100, %esi                   # FUTEX_CLOCK_REALTIME
    jz 1f
    cmp $9, %ecx                        # FUTEX_WAIT_BITSET
    je 2f
    cmp $11, %ecx                       # FUTEX_WAIT_REQUEUE_PI
    je 2f
    cmp $13, %ecx                       # FUTEX_LOCK_PI2
    je 2f
1:  UNCHANGED
2:  WAIT_UNTIL %r10
.globl until_words                      # futex_waitv(words, number, flags, time, clock)
until_words:
    lahf
    seto %al
    test %r8d, %r8d
    jz 2f
    UNCHANGED
2:  WAIT_UNTIL %r10
.globl until_word                       # futex_wait(word, value, mask, flags, time, clock)
until_word:
    lahf
    seto %al
    test %r9d, %r9d
    jz 2f
    UNCHANGED
2:  WAIT_UNTIL %r8
.globl until_message                    # mq_timedsend and mq_timedreceive(queue, text, length, priority, time)
until_message:
    lahf
    seto %al
    WAIT_UNTIL %r8
