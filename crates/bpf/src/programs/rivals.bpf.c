// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Other designs, rebuilt to compare their cost: marks by process number in a hash table, looked up at the parent, up the
 * ancestry, or inherited at fork, as in atty's published design; and marks in task storage. All of them see an exec at the
 * tracepoint, as everywhere in this measurement. Never part of Palisade.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define ONE_LEVEL 0
#define ANCESTRY 1
#define PROPAGATE 2

struct config {
	__u32 mode;
	__u32 depth;
	__u32 watch;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u32);
} threats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u32);
} watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} stored SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} classified SEC(".maps");

struct seen {
	__u32 process;
	__u32 parent;
	char path[256];
};

static __always_inline struct config *find_config(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&config, &zero);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(rival_fork, struct task_struct *parent, struct task_struct *child)
{
	struct config *now = find_config();
	if (!now)
		return 0;
	__u32 from = parent->tgid, to = child->tgid;
	if (from == to)
		return 0;
	if (now->watch) {
		__u32 *mark = bpf_map_lookup_elem(&watched, &from);
		if (mark) {
			__u32 copy = *mark;
			bpf_map_update_elem(&watched, &to, &copy, BPF_ANY);
		}
	}
	if (now->mode != PROPAGATE)
		return 0;
	__u32 *mark = bpf_map_lookup_elem(&threats, &from);
	if (mark) {
		__u32 copy = *mark;
		bpf_map_update_elem(&threats, &to, &copy, BPF_ANY);
	}
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(rival_exec, struct task_struct *task, int thread, struct linux_binprm *bprm)
{
	struct config *now = find_config();
	if (!now)
		return 0;
	__u32 own = task->tgid;
	__u32 parent = task->real_parent->tgid;
	__u32 *mark = NULL;
	if (now->mode == PROPAGATE) {
		mark = bpf_map_lookup_elem(&threats, &own);
	} else if (now->mode == ONE_LEVEL) {
		mark = bpf_map_lookup_elem(&threats, &parent);
	} else {
		struct task_struct *above = task;
		for (__u32 i = 0; i < 16; i++) {
			if (i >= now->depth)
				break;
			above = above->real_parent;
			if (!above)
				break;
			__u32 process = above->tgid;
			mark = bpf_map_lookup_elem(&threats, &process);
			if (mark)
				break;
		}
	}
	if (now->watch && bpf_map_lookup_elem(&watched, &own)) {
		struct seen *seen = bpf_ringbuf_reserve(&classified, sizeof(*seen), 0);
		if (seen) {
			seen->process = own;
			seen->parent = parent;
			bpf_probe_read_kernel_str(seen->path, sizeof(seen->path), bprm->filename);
			bpf_ringbuf_submit(seen, 0);
		}
	}
	/* The measured load must never be stopped. */
	return mark && *mark == 0xffffffff;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(rival_exit, struct task_struct *task)
{
	struct config *now = find_config();
	if (!now)
		return 0;
	__u32 process = task->tgid;
	bpf_map_delete_elem(&threats, &process);
	if (now->watch)
		bpf_map_delete_elem(&watched, &process);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(stored_fork, struct task_struct *parent, struct task_struct *child)
{
	__u64 *mark = bpf_task_storage_get(&stored, parent, 0, 0);
	if (mark) {
		__u64 copy = *mark;
		bpf_task_storage_get(&stored, child, &copy, BPF_LOCAL_STORAGE_GET_F_CREATE);
	}
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(stored_exec, struct task_struct *task, int thread, struct linux_binprm *bprm)
{
	__u64 *mark = bpf_task_storage_get(&stored, task, 0, 0);
	return mark && *mark == ~0ULL;
}

/* The cost of the statistics themselves, which every figure includes. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(nothing_exec, struct task_struct *task, int thread, struct linux_binprm *bprm)
{
	return 0;
}
