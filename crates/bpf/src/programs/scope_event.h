/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The events that the scopes' programs report. `scope/layout.rs` has the same layout.
 */
#pragma once
#include "scope.h"

#define PARENTS 8
#define PATH_SPACE 256
#define ARGUMENT_SPACE 1024

#define EVENT_BEGAN 0 /* the exec that the mark was made for */
#define EVENT_EXEC 1
#define EVENT_CALL 3 /* a rare system call */
#define EVENT_UNMARKED 4 /* a child could not be marked */

struct event {
	__u64 time; /* CLOCK_BOOTTIME, ns */
	__u64 inode;
	__u64 call; /* system call: number in the upper half, first argument in the lower */
	__u32 device;
	__u32 kind;
	__u32 scope;
	__u32 owner;
	__u32 verdict;
	__u32 why;
	__u32 distance;
	__u32 memory; /* the file is only in memory */
	__u32 thread;
	__u32 process;
	__u32 uid;
	__s32 path_length; /* with the zero at its end */
	__s32 arguments_length; /* bytes that were read; negative: not readable */
	__u32 arguments_all; /* their full length */
	__u32 parents[PARENTS]; /* nearest first; 0: no more */
	char comm[16];
	char path[PATH_SPACE]; /* as it was given to exec */
	char arguments[ARGUMENT_SPACE]; /* each with the zero at its end */
};
_Static_assert(sizeof(struct event) == 1408 && __builtin_offsetof(struct event, device) == 24 &&
		       __builtin_offsetof(struct event, parents) == 80 &&
		       __builtin_offsetof(struct event, comm) == 112 && __builtin_offsetof(struct event, path) == 128 &&
		       __builtin_offsetof(struct event, arguments) == 384,
	       "struct event");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} events SEC(".maps");

/* NULL: there is no room, which is counted. */
static __always_inline struct event *begin_event(__u32 kind, __u32 id, const struct scope *scope)
{
	if (lacks & NO_RING_BUFFER)
		return NULL;
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		struct totals *totals = find_totals();
		/* Atomic: another task may have run on this processor in between. */
		if (totals)
			__sync_fetch_and_add(&totals->lost, 1);
		return NULL;
	}
	__u64 ids = bpf_get_current_pid_tgid();
	event->time = bpf_ktime_get_boot_ns();
	event->inode = 0;
	event->call = 0;
	event->device = 0;
	event->kind = kind;
	event->scope = id;
	event->owner = scope ? scope->owner : 0;
	event->verdict = scope ? scope->verdict : 0;
	event->why = WHY_WATCHED;
	event->distance = 0;
	event->memory = 0;
	event->thread = (__u32)ids;
	event->process = ids >> 32;
	event->uid = (__u32)bpf_get_current_uid_gid();
	event->path_length = 0;
	event->arguments_length = 0;
	event->arguments_all = 0;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	return event;
}

static __always_inline void tell_parents(struct event *event, struct task_struct *task)
{
	for (int i = 0; i < PARENTS; i++) {
		__u32 process = 0;
		if (task)
			task = task->real_parent;
		if (task)
			process = task->tgid;
		event->parents[i] = process;
		/* The first process is its own parent. */
		if (!process)
			task = NULL;
	}
}

static __always_inline void tell_file(struct event *event, struct linux_binprm *bprm)
{
	struct inode *inode = bprm->file->f_inode;
	struct super_block *fs = inode->i_sb;
	event->inode = inode->i_ino;
	event->device = fs->s_dev;
	event->memory = !!(fs->s_flags & SB_KERNMOUNT);
	event->path_length = bpf_probe_read_kernel_str(event->path, sizeof(event->path), bprm->filename);
}
