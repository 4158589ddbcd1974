/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Scopes: marked processes, and how an exec finds its mark. `scope/layout.rs` has the same layouts.
 *
 * A mark belongs to a process, not to a task: its place in the table is the process's number (tgid) in the first PID
 * namespace. All threads share the mark, also io workers, and it stays when a thread other than the first executes a
 * program. A mark contains the start time of its process, so a process that reuses the number isn't marked. So no program
 * has to run when a process ends; user space sweeps the marks of dead processes. The table is an array: the check of an
 * unmarked process costs one load, and the check of a marked process needs no lock and no hash. Two process numbers can
 * have the same place only if they are larger than the table; then the second process has its mark in task storage.
 */
#pragma once
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define SCOPES 4096 /* at once; a power of two */
#define GATES 4096 /* a power of two */
#define MARKS 65536 /* places in the table, a power of two; marks that find no place are in task storage */
#define MOST_HOPS 16
#define NAME_SPACE 64

#define PROFILE 3 /* these bits of scope.profile: 0 adds nothing, 1 and 2 act as REPORT, 3 as REPORT and STRICT */
#define PROFILE_STRICT 3

#define WATCH 0
#define WARN 1
#define KILL 2
#define REFUSE 3

#define INHERIT 1 /* of settings.flags: children of marked processes are marked */
#define CGROUP 2 /* the mark is on the control group */
#define OFF 4 /* no marks are found */
#define LSM 8 /* the security hook is called: what is refused gets EPERM */
#define REPORT 16 /* report each exec below a mark, not only those that are warned about, killed or refused */
#define STRICT 32 /* refuse denied files and names below each mark */
#define MEMORY 64 /* with STRICT: also refuse files that are only in memory */

/*
 * What the kernel lacks. User space sets this before the verifier runs. The verifier then removes unreachable code, and
 * ignores helpers there that it doesn't know. `lacks.rs` has the same bits.
 */
#define NO_TASK_BY_NUMBER 1 /* bpf_task_from_pid in programs that user space runs: since 6.10 */
#define NO_TASK_STORAGE 2 /* since 5.11 */
#define NO_RING_BUFFER 4 /* since 5.8 */
const volatile __u32 lacks = 0;

struct settings {
	__u32 flags;
	__u32 hops; /* how many ancestors are checked for a mark */
	__u32 cgroup_level; /* of the groups that are scopes */
	__u32 layout;
};

struct scope {
	__u32 id; /* 0: none. Its slot is id % SCOPES */
	__u32 verdict;
	__u32 owner;
	__u32 calls; /* rare calls are reported */
	__u64 beyond; /* how many of `ever` have their mark in task storage */
	__u64 ever; /* marked processes so far; counted after the mark is there */
	__u64 began; /* CLOCK_BOOTTIME, ns */
	__u32 root; /* the process that was marked first */
	__u32 profile; /* of this scope alone; the settings may be stricter. Bit 2 is used by user space only */
	char label[48]; /* used by user space only */
};

struct mark {
	__u64 born; /* start_boottime of the process; or: */
#define FREE 0
#define TAKEN 1 /* being written */
	__u32 process; /* its number, and ARMED */
#define ARMED 0x80000000 /* if not set, the next exec is the launch */
	__u32 scope;
};

struct place {
	__u64 inode;
	__u64 device;
};

struct name {
	char text[NAME_SPACE];
};

struct totals {
	__u64 execs; /* found below a mark */
	__u64 killed;
	__u64 refused;
	__u64 lost; /* events without room */
	__u64 unmarked; /* children that could not be marked */
	__u64 overflowed; /* children marked in task storage, because another process has their place in the table */
};

_Static_assert(sizeof(struct settings) == 16 && sizeof(struct scope) == 96 && sizeof(struct mark) == 16 &&
		       sizeof(struct place) == 16 && sizeof(struct totals) == 48,
	       "what layout.rs reads and writes");

/*
 * The second cell belongs to the programs: its first word says whether any mark is in task storage; its second word is the
 * number of places in the table minus one. The third cell's first word says how many scopes are open.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 3);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCOPES);
	__type(key, __u32);
	__type(value, struct scope);
} scopes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MARKS);
	__uint(map_flags, BPF_F_MMAPABLE); /* user space sweeps it */
	__type(key, __u32);
	__type(value, struct mark);
} marks SEC(".maps");

/*
 * How many marks have process numbers with the same lowest bits; checked before the table. The table is so large that the
 * kernel maps it in small pages, and a lookup there often waits for an address translation. This array is in the kernel's
 * own large pages, where the translation is cached.
 */
struct gates {
	__u32 marks[GATES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gates);
} gates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct mark);
} overflow SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SCOPES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u32);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct place);
	__type(value, __u32);
} denied_files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct name);
	__type(value, __u32);
} denied_names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct totals);
} totals SEC(".maps");

static __always_inline struct settings *find_settings(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&settings, &zero);
}

static __always_inline struct totals *find_totals(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&totals, &zero);
}

/* The programs' own knowledge, in the same cache line as the settings. */
static __always_inline struct settings *find_known(void)
{
	__u32 one = 1;
	return bpf_map_lookup_elem(&settings, &one);
}

/* Without any open scope no mark has to be looked up. */
static __always_inline bool nothing_open(void)
{
	__u32 two = 2;
	struct settings *open = bpf_map_lookup_elem(&settings, &two);
	return open && !open->flags;
}

/* The place of a process number in the table. */
static __always_inline struct mark *place_of(__u32 process, const struct settings *known)
{
	__u32 place = process & known->hops;
	return bpf_map_lookup_elem(&marks, &place);
}

/* NULL: the scope was cleared after the process was marked. */
static __always_inline struct scope *find_scope(__u32 id)
{
	__u32 slot = id & (SCOPES - 1);
	struct scope *scope = bpf_map_lookup_elem(&scopes, &slot);
	return scope && id && scope->id == id ? scope : NULL;
}

static __always_inline __u32 *gate_of(__u32 process)
{
	__u32 zero = 0;
	struct gates *all = bpf_map_lookup_elem(&gates, &zero);
	return all ? &all->marks[process & (GATES - 1)] : NULL;
}

/* The mark of a task's process. */
static __always_inline struct mark *find_mark(struct task_struct *task, const struct settings *known)
{
	__u32 process = task->tgid, *gate = gate_of(process);
	if (gate && *gate) {
		struct mark *mark = place_of(process, known);
		if (mark && mark->born > TAKEN && (mark->process & ~ARMED) == process &&
		    mark->born == task->group_leader->start_boottime)
			return mark;
	}
	if (!(lacks & NO_TASK_STORAGE) && known->flags)
		return bpf_task_storage_get(&overflow, task, 0, 0);
	return NULL;
}

/*
 * The check that most of the host's processes pay: whether a task's process surely has no mark, without reading its place.
 */
static __always_inline bool unmarked(struct task_struct *task, const struct settings *known)
{
	__u32 *gate = gate_of(task->tgid);
	return gate && !*gate && !known->flags;
}

/*
 * Puts a mark into the table. 0: done; else there is no place. Only the process that has a place writes it, and a mark is
 * valid only once `born` is set.
 */
static __always_inline long put_mark(const struct mark *new, const struct settings *known)
{
	__u32 process = new->process & ~ARMED, *gate = gate_of(process);
	struct mark *mark = place_of(process, known);
	if (!mark || !gate)
		return -1;
	__u64 before = mark->born;
	/* A process that had the same number before is dead. A process with another number may still live. */
	if (before == TAKEN || (before != FREE && ((mark->process ^ new->process) & ~ARMED)))
		return -1;
	if (__sync_val_compare_and_swap(&mark->born, before, TAKEN) != before)
		return -1;
	if (before == FREE)
		__sync_fetch_and_add(gate, 1);
	mark->process = new->process;
	mark->scope = new->scope;
	__sync_lock_test_and_set(&mark->born, new->born);
	return 0;
}

/* Frees the place of a process that began at `born`. */
static __always_inline bool free_mark(struct mark *mark, __u32 process, __u64 born)
{
	__u32 *gate = gate_of(process);
	if (!gate || born <= TAKEN || __sync_val_compare_and_swap(&mark->born, born, FREE) != born)
		return false;
	__sync_fetch_and_add(gate, -1);
	return true;
}

/* The mark that an exec is below. */
struct found {
	struct scope *scope;
	__u32 id;
	__u32 distance; /* 0: the process itself is marked */
	struct mark *launcher; /* its own mark, if this exec is the launch that the mark was made for */
};

static __always_inline struct found find(struct task_struct *task, const struct settings *now)
{
	struct found found = {};
	const struct settings *known = find_known();
	if (!known || nothing_open())
		return found;
	if (now->flags & CGROUP) {
		__u64 group = bpf_get_current_ancestor_cgroup_id(now->cgroup_level);
		__u32 *id = bpf_map_lookup_elem(&groups, &group);
		if (!id)
			return found;
		found.id = *id;
		/* A process that was just moved into the group is still the launcher: its own mark says so. */
		struct mark *own = find_mark(task, known);
		if (own && !(own->process & ARMED))
			found.launcher = own;
		found.scope = find_scope(found.id);
		return found;
	}
	struct mark *mark = find_mark(task, known);
	__u32 distance = 0;
	if (!mark) {
		for (__u32 i = 0; i < MOST_HOPS; i++) {
			/* The first process has no ancestors. */
			if (i >= now->hops || task->tgid <= 1)
				break;
			task = task->real_parent;
			if (!task)
				break;
			mark = find_mark(task, known);
			if (mark) {
				distance = i + 1;
				break;
			}
		}
	}
	if (!mark)
		return found;
	found.id = mark->scope;
	found.distance = distance;
	if (!distance && !(mark->process & ARMED))
		found.launcher = mark;
	found.scope = find_scope(found.id);
	return found;
}

/*
 * Whether a task has rights that the owner of the scope hasn't: it runs as another user, or with capabilities. The owner's
 * scope may not end what such a task executes. In a user namespace below the first one, no process has more rights than the
 * namespace's maker.
 */
static __always_inline bool has_more_rights(struct task_struct *task, const struct scope *scope)
{
	if (!scope->owner)
		return false;
	const struct cred *cred = task->cred;
	if (cred->user_ns->level)
		return false;
	__u64 capabilities = 0;
	bpf_probe_read_kernel(&capabilities, sizeof(capabilities), &cred->cap_effective);
	return cred->euid.val != scope->owner || capabilities;
}

/* Why an exec is refused or killed. */
#define WHY_WATCHED 0
#define WHY_MARK 1 /* the scope's own verdict */
#define WHY_FILE 2
#define WHY_NAME 3
#define WHY_MEMORY 4

struct decided {
	__u32 verdict;
	__u32 why;
};

static __always_inline struct decided decide(const struct settings *now, const struct scope *scope, struct file *file)
{
	__u32 verdict = scope->verdict;
	if (verdict == KILL || verdict == REFUSE)
		return (struct decided){ verdict, WHY_MARK };
	if ((now->flags & STRICT) || (scope->profile & PROFILE) == PROFILE_STRICT) {
		struct inode *inode = file->f_inode;
		if ((now->flags & MEMORY) && (inode->i_sb->s_flags & SB_KERNMOUNT))
			return (struct decided){ REFUSE, WHY_MEMORY };
		struct place place = { inode->i_ino, inode->i_sb->s_dev };
		if (bpf_map_lookup_elem(&denied_files, &place))
			return (struct decided){ REFUSE, WHY_FILE };
		struct name name = {};
		const unsigned char *text = file->f_path.dentry->d_name.name;
		/* A truncated name is longer than any name that can be denied. */
		if (bpf_probe_read_kernel_str(&name, sizeof(name), text) > 0 &&
		    bpf_map_lookup_elem(&denied_names, &name))
			return (struct decided){ REFUSE, WHY_NAME };
	}
	return (struct decided){ verdict, WHY_WATCHED };
}
