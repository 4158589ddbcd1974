/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Scopes: marked processes, and how an exec finds the mark that it is below. `scope/layout.rs` has the same layouts.
 *
 * A mark belongs to a process, not to a task: its place is the process's number (tgid) in the first process namespace.
 * Threads share it, an exec by another thread than the first keeps it, and io workers have it. A mark says when its
 * process began: a number that is used again is not marked. So no program has to run when a process ends; what is left
 * of dead processes is swept by user space. The table is an array: whoever isn't marked pays a load for finding that out,
 * and whoever is needs no lock and no hash. Of two marked processes whose numbers have the same place, which only
 * numbers beyond the table's size can, the second has its mark in its task's storage.
 */
#pragma once
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define SCOPES 4096 /* at once; a power of two */
#define GATES 4096 /* a power of two */
#define MARKS 65536 /* places in the table, a power of two; what finds none is in the tasks' storage */
#define MOST_HOPS 16
#define NAME_SPACE 64

#define PROFILE 3 /* these bits of scope.profile: 0 nothing, 1 and 2 as REPORT, 3 as REPORT and STRICT */
#define PROFILE_STRICT 3

#define WATCH 0
#define WARN 1
#define KILL 2
#define REFUSE 3

#define INHERIT 1 /* of settings.flags: children of marked processes are marked */
#define CGROUP 2 /* the mark is the control group's */
#define OFF 4 /* nothing is found */
#define LSM 8 /* the security hook is called: what is refused gets EPERM */
#define REPORT 16 /* each exec below a mark, and not only what is warned about, killed or refused */
#define STRICT 32 /* files and names that are denied are refused below each mark */
#define MEMORY 64 /* so are files that are only in memory */

/*
 * What the kernel lacks, said before it verifies anything: it then removes what can't be reached, and helpers that it
 * doesn't know are not looked at. `lacks.rs` has the same bits.
 */
#define NO_TASK_BY_NUMBER 1 /* bpf_task_from_pid in programs that user space runs: since 6.10 */
#define NO_TASK_STORAGE 2 /* since 5.11 */
#define NO_RING_BUFFER 4 /* since 5.8 */
const volatile __u32 lacks = 0;

struct settings {
	__u32 flags;
	__u32 hops; /* how far up the mark is looked for */
	__u32 cgroup_level; /* of the groups that are scopes */
	__u32 layout;
};

struct scope {
	__u32 id; /* 0: none. Its slot is id % SCOPES */
	__u32 verdict;
	__u32 owner;
	__u32 calls; /* rare calls are reported */
	__u64 beyond; /* of `ever`, those whose mark is in their tasks' storage */
	__u64 ever; /* marked processes so far; counted after the mark is there */
	__u64 began; /* CLOCK_BOOTTIME, ns */
	__u32 root; /* the process that was marked first */
	__u32 profile; /* of this scope alone: the settings may make more of what happens. Bit 2 is user space's */
	char label[48]; /* user space's */
};

struct mark {
	__u64 born; /* start_boottime of the process; or: */
#define FREE 0
#define TAKEN 1 /* being written */
	__u32 process; /* its number, and: */
#define ARMED 0x80000000 /* without it the next exec is the launcher's */
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
	__u64 overflowed; /* children marked in their task's storage, because their place in the table is another's */
};

_Static_assert(sizeof(struct settings) == 16 && sizeof(struct scope) == 96 && sizeof(struct mark) == 16 &&
		       sizeof(struct place) == 16 && sizeof(struct totals) == 48,
	       "what layout.rs reads and writes");

/*
 * The second cell's first word is the programs' own and says whether any mark is in task storage; its second is the
 * number of places in the table less one. The third cell's first word says how many scopes are open.
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
 * How many marks have a number that ends so, looked at before the table. The table is so large that the kernel maps it in
 * small pages: whoever looks there is likely to wait for the translation of an address. This is in the kernel's own
 * large ones, which nobody waits for.
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

/* What the programs know beside the settings, in the same line of the cache. */
static __always_inline struct settings *find_known(void)
{
	__u32 one = 1;
	return bpf_map_lookup_elem(&settings, &one);
}

/* Without any scope nobody is looked for. */
static __always_inline bool nothing_open(void)
{
	__u32 two = 2;
	struct settings *open = bpf_map_lookup_elem(&settings, &two);
	return open && !open->flags;
}

/* Where the mark of a number is, if it is in the table. */
static __always_inline struct mark *place_of(__u32 process, const struct settings *known)
{
	__u32 place = process & known->hops;
	return bpf_map_lookup_elem(&marks, &place);
}

/* NULL: cleared since it was marked. */
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

/* What most of the host pays: whether a task's process can't be marked is known without looking at it. */
static __always_inline bool unmarked(struct task_struct *task, const struct settings *known)
{
	__u32 *gate = gate_of(task->tgid);
	return gate && !*gate && !known->flags;
}

/* In the table: 0; not: anything else. Only who has a place writes to it, and nobody believes it before it says `born`. */
static __always_inline long put_mark(const struct mark *new, const struct settings *known)
{
	__u32 process = new->process & ~ARMED, *gate = gate_of(process);
	struct mark *mark = place_of(process, known);
	if (!mark || !gate)
		return -1;
	__u64 before = mark->born;
	/* Who had the same number before is dead. Of who has another number nothing is known. */
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

/* Frees the place of a process that began then. */
static __always_inline bool free_mark(struct mark *mark, __u32 process, __u64 born)
{
	__u32 *gate = gate_of(process);
	if (!gate || born <= TAKEN || __sync_val_compare_and_swap(&mark->born, born, FREE) != born)
		return false;
	__sync_fetch_and_add(gate, -1);
	return true;
}

/* What an exec is below. */
struct found {
	struct scope *scope;
	__u32 id;
	__u32 distance; /* 0: the process itself is marked */
	struct mark *launcher; /* its own mark, if this is the exec that the mark was made for */
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
		/* Who was just moved into the group is still the launcher: that mark is its process's. */
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
			/* Above the first process there is nobody. */
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
 * Whether a task may do what the owner of a scope may not: it runs as somebody else, or with capabilities. What it goes on to
 * execute isn't the owner's to end. In a user namespace below the first one nobody may do more than its maker.
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

/* Why something is refused or killed. */
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
		/* A name that is cut off is no name that can be denied. */
		if (bpf_probe_read_kernel_str(&name, sizeof(name), text) > 0 &&
		    bpf_map_lookup_elem(&denied_names, &name))
			return (struct decided){ REFUSE, WHY_NAME };
	}
	return (struct decided){ verdict, WHY_WATCHED };
}
