// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Records which system calls each program of a marked subtree makes: a bit for each call number, by program. Single calls
 * aren't reported, so no report can be lost; what finds no room is counted.
 *
 * The mark is on the launcher's task, not on its number, which another process may get later. Processes that the launcher
 * forks inherit the mark, and are recorded from their next exec on, because the launcher's own helpers and the processes
 * between it and the command aren't the command. The kernel's tracepoint runs after the seccomp filters, so calls that they
 * refuse aren't recorded.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* The kernel offers task storage only to programs with a licence that is compatible with its own. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The numbers of system calls are below this. */
#define CALLS 512
#define WORDS (CALLS / 64)
/* The names of a path, the last one first; a longer path is recorded as unknown. */
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
	__u64 parts; /* how many names; if more than PARTS, the path is unknown */
	char names[PARTS][NAME];
};

struct watched {
	struct program program;
	__u64 seen[WORDS]; /* what is recorded already: most calls aren't new */
	__u32 session;
	__u32 executed;
};

/* On the first thread of a launcher. It ends with the process. */
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
	__type(value, __u64); /* how many calls found no room */
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
 * A cache of calls that need no recording, by task and number; it includes tasks that aren't recorded. A task is identified
 * by the address of its saved registers, which is at the top of its own kernel stack, so no lookup of the task is needed.
 * The upper half of a word is this identity, and the lower half has a bit for each of 32 calls. A word is read and written
 * as a whole, so tasks that share a place can only evict each other's words. A task's words are cleared at the fork that
 * makes it (stacks are reused) and at its exec. The cache is only for speed: every system call of the machine runs this
 * program, and a lookup in task storage takes 40 ns more.
 */
#define PLACES 16384
#define HALVES (CALLS / 32)

struct familiar {
	__u64 words[HALVES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32); /* the last bits of a task's identity */
	__type(value, struct familiar);
} familiar SEC(".maps");

/* The base for addresses: the verifier accepts the difference of two pointers as a number, but not a pointer. */
static const __u64 origin = 1;

/*
 * Stacks are at least this far apart. The kernel uses the lowest free address first, and no machine has 2^46 bytes of
 * stacks.
 */
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

/* A value that is too large for the stack. */
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

/* Runs before the child does, so the child can't make calls before its mark. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(palisade_learn_fork, struct task_struct *parent, struct task_struct *child)
{
	forget(child);
	struct watched *known = bpf_task_storage_get(&tasks, parent, 0, 0);
	__u32 *session = known ? &known->session : bpf_task_storage_get(&launchers, parent->group_leader, 0, 0);
	/* A launcher's other threads aren't marked. If they fork, the mark of the first thread is found. */
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

/* Adds one name, or goes from the root of a mount to its mount point. */
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

/* Collects the names up to the root of the mount namespace, as processes there see the path. */
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
	/* The other threads are gone, and this task is another program now: its calls belong to that program. */
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
	/*
	 * If another task was faster, it has recorded the same program. If there is no room, each call that isn't recorded is
	 * counted.
	 */
	bpf_map_update_elem(&programs, &program, new, BPF_NOEXIST);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(palisade_learn_call, void *registers, long number)
{
	__u64 call = number;
	if (call >= CALLS) {
		/* No call of this machine: -1 is a call that a tracer cancelled, and all others fail. */
		return 0;
	}
	__u64 own = task_of(registers);
	struct familiar *place = place_of(own);
	if (!place)
		return 0;
	/* The mask is for the verifier, which doesn't infer the bound from the division. */
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
