/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The kernel's structures that the programs read. Only these fields are declared; they are found by name at load time
 * (CO-RE), so that one object fits every kernel with BTF from 6.1 on. A generated vmlinux.h has three megabytes and the
 * layout of one kernel.
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed short __s16;
typedef signed int __s32;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

/* include/uapi/linux/bpf.h */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_INODE_STORAGE = 28,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
#define BPF_F_NO_PREALLOC 1
#define BPF_F_MMAPABLE 1024
#define BPF_ANY 0
#define BPF_NOEXIST 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

/* include/uapi/linux/stat.h, include/linux/fs.h, include/linux/mm.h, include/uapi/asm-generic/mman-common.h */
#define S_IFMT 0170000
#define S_IFREG 0100000
#define S_ISUID 04000
#define FMODE_WRITE 2
#define SB_KERNMOUNT (1UL << 22)
#define ATTR_MODE 1
#define ATTR_UID 2
#define ATTR_GID 4
#define ATTR_SIZE 8
#define PROT_WRITE 2
#define PROT_EXEC 4
#define VM_WRITE 2UL
#define VM_EXEC 4UL
#define CLONE_THREAD 0x10000
#define EPERM 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	__u32 val;
} kuid_t;

struct user_namespace {
	int level;
};

/* 64 bits: a number, or two halves before 6.3. */
typedef struct {
	__u64 val;
} kernel_cap_t;

struct cred {
	kuid_t euid;
	kuid_t fsuid;
	kernel_cap_t cap_effective;
	struct user_namespace *user_ns;
};

struct signal_struct {
	atomic_t live;
	int nr_threads;
};

struct mm_struct {
	unsigned long arg_start;
	unsigned long arg_end;
};

struct task_struct {
	const struct cred *cred;
	__s32 pid;
	__u32 tgid;
	__u64 start_boottime;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	struct mm_struct *mm;
};

/* The context of a program that iterates over all tasks. No task means that the last one was passed. */
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct super_block {
	__u32 s_dev;
	unsigned long s_flags;
	struct user_namespace *s_user_ns;
};

struct inode {
	__u16 i_mode;
	kuid_t i_uid;
	struct super_block *i_sb;
	unsigned long i_ino;
	atomic_t i_writecount;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct inode *d_inode;
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct file {
	__u32 f_mode;
	struct inode *f_inode;
	struct path f_path;
};

struct linux_binprm {
	struct file *file;
	const char *filename;
};

struct vm_area_struct {
	unsigned long vm_flags;
	void *anon_vma;
	struct file *vm_file;
};

struct iattr {
	unsigned int ia_valid;
};

/* For each machine on which system calls are recorded: the register that holds the first argument. */
struct pt_regs___x86_64 {
	unsigned long di;
};

struct pt_regs___arm64 {
	__u64 regs[31];
};

#pragma clang attribute pop
