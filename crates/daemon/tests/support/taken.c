// SPDX-License-Identifier: Apache-2.0 OR MIT
// Removes the calls and devices that systemd removes by SystemCallFilter= and DeviceAllow=, in the same way, and executes
// another program.
//
//   taken CGROUP DEVICE... -- CALL... -- PROGRAM ARGUMENT...
//
// CGROUP is a directory of the cgroup v2 hierarchy; DEVICE is TYPE:MAJOR:MINOR:ACCESS in numbers, -1 for all; CALL is a
// number.
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void fail(const char *what) { perror(what); _exit(90); }

static struct bpf_insn code[4096];
static int length;
static void add(unsigned char op, int to, int from, int off, int imm) {
    code[length++] = (struct bpf_insn){.code = op, .dst_reg = to, .src_reg = from, .off = off, .imm = imm};
}

int main(int argc, char **argv) {
    const char *group = argv[1];
    int at = 2;
    add(BPF_LDX | BPF_MEM | BPF_W, 2, 1, 0, 0);
    add(BPF_ALU | BPF_AND | BPF_K, 2, 0, 0, 0xffff);
    add(BPF_LDX | BPF_MEM | BPF_W, 3, 1, 0, 0);
    add(BPF_ALU | BPF_RSH | BPF_K, 3, 0, 0, 16);
    add(BPF_LDX | BPF_MEM | BPF_W, 4, 1, 4, 0);
    add(BPF_LDX | BPF_MEM | BPF_W, 5, 1, 8, 0);
    for (; strcmp(argv[at], "--"); at++) {
        int type, major, minor, access;
        if (sscanf(argv[at], "%d:%d:%d:%d", &type, &major, &minor, &access) != 4) fail(argv[at]);
        int first = length, jumps[4], count = 0;
        add(BPF_ALU | BPF_MOV | BPF_X, 0, 3, 0, 0);
        add(BPF_ALU | BPF_AND | BPF_K, 0, 0, 0, ~access);
        jumps[count++] = length, add(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 0, 0);
        jumps[count++] = length, add(BPF_JMP | BPF_JNE | BPF_K, 2, 0, 0, type);
        if (major >= 0) jumps[count++] = length, add(BPF_JMP | BPF_JNE | BPF_K, 4, 0, 0, major);
        if (minor >= 0) jumps[count++] = length, add(BPF_JMP | BPF_JNE | BPF_K, 5, 0, 0, minor);
        add(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1);
        add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
        (void)first;
        for (int i = 0; i < count; i++) code[jumps[i]].off = length - jumps[i] - 1;
    }
    add(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
    add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
    union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE,
                           .insns = (unsigned long)code,
                           .insn_cnt = length,
                           .license = (unsigned long)"GPL"};
    int program = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr);
    if (program < 0) fail("the devices' program");
    int directory = open(group, O_RDONLY | O_DIRECTORY);
    if (directory < 0) fail(group);
    memset(&attr, 0, sizeof attr);
    attr.target_fd = directory, attr.attach_bpf_fd = program, attr.attach_type = BPF_CGROUP_DEVICE;
    attr.attach_flags = BPF_F_ALLOW_MULTI;
    if (syscall(SYS_bpf, BPF_PROG_ATTACH, &attr, sizeof attr)) fail("attach the devices' program");
    int members = openat(directory, "cgroup.procs", O_WRONLY);
    if (members < 0 || write(members, "0", 1) != 1) fail("enter the group");
    close(members), close(directory), close(program);

    static struct sock_filter filter[1024];
    int size = 0;
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    for (at++; strcmp(argv[at], "--"); at++) {
        filter[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(argv[at]), 0, 1);
        filter[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog all = {size, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &all)) fail("the filter");

    // Both restrictions must be in force: otherwise the test proves nothing.
    if (mount(0, 0, 0, 0, 0) != -1 || errno != EPERM) fail("mount isn't refused");
    if (open("/dev/kmsg", O_WRONLY) != -1 || errno != EPERM) fail("/dev/kmsg isn't refused");
    execvp(argv[at + 1], argv + at + 1);
    fail(argv[at + 1]);
}
