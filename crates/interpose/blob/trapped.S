# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Where a trap comes: rdi the signal, rsi what of, rdx the frame. Every register is in the frame, so all are free.
#
# What `handle` has left in the frame is put in force here, where that is enough: rt_sigreturn would do the same, and costs
# a quarter of a trap. It has to do it where more was changed (the mask, which `handle` says), where the kernel keeps count
# of what returns (shadow stacks, and stacks for signals that are disarmed meanwhile), and for flags and segments that
# aren't given back here. The frame's own stack is left as by a jump out of a handler, which the kernel knows as well.

# struct ucontext: its stack's flags, the registers in struct sigcontext (r8 first), some of these, the vector state.
.set FRAME_STACK_FLAGS, 24
.set FRAME, 40
.set FRAME_FLAGS, FRAME + 136
.set FRAME_CODE, FRAME + 144
.set FRAME_VECTORS, FRAME + 184
# struct _fpx_sw_bytes in it: a word that says that it is there, and which parts were saved.
.set VECTORS_MAGIC, 464
.set VECTORS_SAVED, 472

.globl trapped
trapped:
    mov %rdx, %rbx
    sub $8, %rsp
    call handle
    add $8, %rsp
    test %al, %al
    jz 9f
    xor %eax, %eax
    rdsspq %rax                         # nothing happens where there are no shadow stacks
    test %rax, %rax
    jnz 9f
    testl $1, (%rbx)                    # UC_FP_XSTATE
    jz 9f
    testl $0x80000000, FRAME_STACK_FLAGS(%rbx) # SS_AUTODISARM
    jnz 9f
    testl $0x10500, FRAME_FLAGS(%rbx)   # RF, DF, TF
    jnz 9f
    cmpw $0x33, FRAME_CODE(%rbx)        # 64-bit
    jne 9f
    mov FRAME_VECTORS(%rbx), %rcx
    cmpl $0x46505853, VECTORS_MAGIC(%rcx) # FP_XSTATE_MAGIC1: it is as xsave writes it
    jne 9f
    mov VECTORS_SAVED(%rcx), %eax
    mov VECTORS_SAVED + 4(%rcx), %edx
    xrstor64 (%rcx)
    mov %rbx, %r11
    mov FRAME + 0(%r11), %r8
    mov FRAME + 8(%r11), %r9
    mov FRAME + 16(%r11), %r10
    mov FRAME + 32(%r11), %r12
    mov FRAME + 40(%r11), %r13
    mov FRAME + 48(%r11), %r14
    mov FRAME + 56(%r11), %r15
    mov FRAME + 64(%r11), %rdi
    mov FRAME + 72(%r11), %rsi
    mov FRAME + 80(%r11), %rbp
    mov FRAME + 88(%r11), %rbx
    mov FRAME + 96(%r11), %rdx
    mov FRAME_FLAGS(%r11), %eax
    mov %eax, %ecx
    shr $11, %ecx
    and $1, %ecx
    mov %al, %ah
    mov %cl, %al
    add $0x7f, %al
    sahf
    mov FRAME + 104(%r11), %rax
    mov FRAME + 128(%r11), %rcx
    mov FRAME + 120(%r11), %rsp
    jmp *%rcx
9:  ret
