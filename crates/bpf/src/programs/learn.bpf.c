// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Which system calls each program of a marked subtree makes: a bit for each number, by program, in the kernel. Nothing
 * is told of single calls, so none can be lost on its way; what finds no room is counted.
 *
 * A launcher is marked itself, not by its number, which another process has once it is gone. What it forks inherits that, and is watched from its next exec on: its own helpers
 * and the processes between it and the command aren't the command. A call is seen where the kernel's tracepoint sees it,
 * behind the filters: what they refuse wasn't made.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* Task storage is for programs whose licence the kernel takes for compatible with its own. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Calls have numbers below this. */
#define CALLS 512
#define WORDS (CALLS / 64)
/* A path's names, the last one first; a longer path isn't known. */
#define PARTS 24
#define NAME 256

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct dentry___walked {
	struct dentry___walked *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry___walked *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry___walked *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path___walked {
	struct vfsmount *mnt;
	struct dentry___walked *dentry;
};

struct file___walked {
	struct path___walked f_path;
};
#pragma clang attribute pop

struct program {
	__u64 inode;
	__u32 device;
	__u32 session;
};

struct made {
	__u64 calls[WORDS];
	__u64 parts; /* how many names; more than there is room for: the path isn't known */
	char names[PARTS][NAME];
};

struct watched {
	struct program program;
	__u64 seen[WORDS]; /* what has been put down already: most calls are no news */
	__u32 session;
	__u32 executed;
};

/* Of a launcher's first thread. It goes with the process. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32); /* session */
} launchers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32); /* session */
	__type(value, __u64); /* what was lost */
} sessions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, struct program);
	__type(value, struct made);
} programs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct watched);
} tasks SEC(".maps");

/*
 * Calls that are no news, by task and number: of tasks that aren't watched, too. A task is known by where its registers are
 * saved, which is at the top of its own stack in the kernel, so that nobody has to be asked who it is. A word holds that
 * above and a bit for each of 32 calls below, and is read and written as a whole, so that tasks that share a place only push
 * each other out. A task's words are its own from the fork that makes it (stacks are used again) and from its exec on. This
 * is for speed alone: every call of the whole machine comes by, and asking for a task's storage takes 40 ns more.
 */
#define PLACES 16384
#define HALVES (CALLS / 32)

struct familiar {
	__u64 words[HALVES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32); /* a task, its last bits */
	__type(value, struct familiar);
} familiar SEC(".maps");

/* What addresses are counted from: the verifier wants pointers to be pointers, and their distance to be a number. */
static const __u64 origin = 1;

/* Stacks are this far apart at least. They are given out from the lowest free address up, and no machine has 2^46 bytes of them. */
#define STACK_BITS 14

static __always_inline __u32 task_of(const void *registers)
{
	return (registers - (const void *)&origin) >> STACK_BITS;
}

static __always_inline struct familiar *place_of(__u32 task)
{
	__u32 place = task % PLACES;
	return bpf_map_lookup_elem(&familiar, &place);
}

static __always_inline void forget(struct task_struct *task)
{
	struct familiar *place = place_of(task_of((void *)bpf_task_pt_regs(task)));
	if (place)
		__builtin_memset(place, 0, sizeof(*place));
}

/* A value too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct made);
} blank SEC(".maps");

static __always_inline void lost(__u32 session)
{
	__u64 *count = bpf_map_lookup_elem(&sessions, &session);
	if (count)
		__sync_fetch_and_add(count, 1);
}

static __always_inline void identify(struct program *program, struct file *file, __u32 session)
{
	struct inode *inode = file->f_inode;
	program->inode = inode->i_ino;
	program->device = inode->i_sb->s_dev;
	program->session = session;
}

/* Before the child runs: a mark can't be outrun. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(palisade_learn_fork, struct task_struct *parent, struct task_struct *child)
{
	forget(child);
	struct watched *known = bpf_task_storage_get(&tasks, parent, 0, 0);
	__u32 *session = known ? &known->session : bpf_task_storage_get(&launchers, parent->group_leader, 0, 0);
	/* A launcher's own threads aren't marked: they may fork, too, and are found by its first one then. */
	if (!session || (!known && child->tgid == parent->tgid))
		return 0;
	__u32 id = *session;
	if (!bpf_map_lookup_elem(&sessions, &id))
		return 0;
	struct watched *copy = bpf_task_storage_get(&tasks, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!copy) {
		lost(id);
		return 0;
	}
	if (known)
		*copy = *known;
	copy->session = id;
	return 0;
}

struct walk {
	struct made *made;
	struct dentry___walked *entry;
	struct mount *mount;
	__u64 parts;
	__u64 whole;
};

/* One name, or from a mount to where it is mounted. */
static long step(__u32 number, struct walk *walk)
{
	struct mount *mount = walk->mount;
	struct dentry___walked *entry = walk->entry;
	if (entry == BPF_CORE_READ(mount, mnt.mnt_root)) {
		struct mount *parent = BPF_CORE_READ(mount, mnt_parent);
		walk->whole = parent == mount;
		walk->entry = BPF_CORE_READ(mount, mnt_mountpoint);
		walk->mount = parent;
		return walk->whole;
	}
	__u64 part = walk->parts;
	if (part >= PARTS)
		return 1;
	bpf_probe_read_kernel_str(walk->made->names[part], NAME, BPF_CORE_READ(entry, d_name.name));
	walk->parts = part + 1;
	walk->entry = BPF_CORE_READ(entry, d_parent);
	return 0;
}

/* The names up to the root of the mount namespace, as its processes would say them. */
static __always_inline void walk(struct made *made, struct file *file)
{
	struct file___walked *opened = (void *)file;
	void *at = BPF_CORE_READ(opened, f_path.mnt);
	struct walk walk = {
		.made = made,
		.entry = BPF_CORE_READ(opened, f_path.dentry),
		.mount = at - bpf_core_field_offset(struct mount, mnt),
	};
	bpf_loop(2 * PARTS, step, &walk, 0);
	made->parts = walk.whole ? walk.parts : PARTS + 1;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(palisade_learn_exec, struct task_struct *task, int thread, struct linux_binprm *bprm)
{
	struct watched *known = bpf_task_storage_get(&tasks, task, 0, 0);
	if (!known)
		return 0;
	/* The other threads are gone, and this one is another program: what it calls is that one's. */
	forget(task);
	__builtin_memset(known->seen, 0, sizeof(known->seen));
	identify(&known->program, bprm->file, known->session);
	known->executed = 1;
	struct program program = known->program;
	if (bpf_map_lookup_elem(&programs, &program) || !bpf_map_lookup_elem(&sessions, &program.session))
		return 0;
	__u32 none = 0;
	struct made *new = bpf_map_lookup_elem(&blank, &none);
	if (!new)
		return 0;
	walk(new, bprm->file);
	/* Who was faster has put down the same. Where there is no room, each call that isn't put down is counted. */
	bpf_map_update_elem(&programs, &program, new, BPF_NOEXIST);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(palisade_learn_call, void *registers, long number)
{
	__u64 call = number;
	if (call >= CALLS) {
		/* No call of this machine: -1 is one that was taken back, all else fails. */
		return 0;
	}
	__u64 own = task_of(registers);
	struct familiar *place = place_of(own);
	if (!place)
		return 0;
	/* For the verifier: it doesn't know of the division. */
	volatile __u64 *half = &place->words[call / 32 & (HALVES - 1)];
	__u64 now = *half, familiar_bit = 1ULL << (call % 32);
	if (now >> 32 != own)
		now = own << 32;
	else if (now & familiar_bit)
		return 0;
	struct watched *task = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), 0, 0);
	if (!task) {
		*half = now | familiar_bit;
		return 0;
	}
	if (!task->executed)
		return 0;
	__u64 word = call / 64 & (WORDS - 1), bit = 1ULL << (call % 64);
	if (!(task->seen[word] & bit)) {
		struct made *made = bpf_map_lookup_elem(&programs, &task->program);
		if (!made) {
			lost(task->session);
			return 0;
		}
		__sync_fetch_and_or(&made->calls[word], bit);
		task->seen[word] |= bit;
	}
	*half = now | familiar_bit;
	return 0;
}
