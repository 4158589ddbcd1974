/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The class matrix: the maps that user space writes, and the verdict. `layout.rs` has the same layouts.
 */
#pragma once

#define CLASSES 64

/* Accesses: rows of the matrix, 64 subjects each. */
#define ACCESS_EXECUTE 0
#define ACCESS_MAP 1
#define ACCESSES 2

/* Object classes that the kernel side assigns itself. */
#define OBJECT_UNCLASSIFIED 0
#define OBJECT_ANONYMOUS 1 /* executable memory that no file backs, or that differs from its file */
#define OBJECT_MEMORY_FILE 2 /* memfd, shared anonymous memory, SysV shared memory */
#define OBJECT_SPARED 62 /* without class, on a file system that user space exempts */

/* Subject classes. */
#define SUBJECT_DEFAULT 0
#define SUBJECT_EXEMPT 63

#define MODE_OFF 0
#define MODE_PERMISSIVE 1
#define MODE_ENFORCE 2

#define REPORT_ALLOWED 1

/* The first eight bytes are written in one store, so mode, table and generation change together. */
struct settings {
	__u8 mode;
	__u8 active; /* which of the two tables */
	__u16 reports;
	__u32 generation;
	__u32 layout; /* the number of this layout; written once */
	__u32 grace_until; /* until this second of CLOCK_BOOTTIME generations from `grace_from` on are valid, too */
	__u32 grace_from;
	__u32 unused;
};

struct table {
	__u64 allowed[ACCESSES * CLASSES]; /* [access][subject], a bit for each object class */
	__u32 becomes[CLASSES]; /* by object class: a task's class after it executed a file of that class; KEEP: unchanged */
};
#define KEEP 0xffffffffu

/* An object's or a subject's class. */
struct record {
	__u32 class;
	__u32 generation;
	__u32 confirmed; /* objects: 0 while user space still reads the file */
	__u32 until; /* objects: valid until this second of CLOCK_BOOTTIME; 0: for ever */
};

struct counts {
	__u64 allowed;
	__u64 refused;
};

_Static_assert(sizeof(struct settings) == 24 && sizeof(struct table) == 1280 && sizeof(struct record) == 16 &&
		       sizeof(struct counts) == 16,
	       "what layout.rs writes");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct table);
} tables SEC(".maps");

/* File systems that user space exempts, by device in the kernel's encoding. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} spared SEC(".maps");

/* By access and object class: how often each verdict was reached, whatever the mode is. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ACCESSES * CLASSES);
	__type(key, __u32);
	__type(value, struct counts);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct record);
} subjects SEC(".maps");

static __always_inline struct settings *find_settings(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&settings, &zero);
}

static __always_inline struct table *find_table(const struct settings *now)
{
	__u32 slot = now->active & 1;
	return bpf_map_lookup_elem(&tables, &slot);
}

static __always_inline __u32 second(void)
{
	return bpf_ktime_get_boot_ns() / 1000000000;
}

/*
 * Whether classes of this generation are valid. For a while, the classes of the policy before are valid as well: a process
 * that opened a file before the policy was replaced may map it now, and no question is asked at that mapping that could
 * give the file its new class.
 */
static __always_inline bool counts_now(__u32 generation, const struct settings *now)
{
	if (generation == now->generation)
		return true;
	return generation - now->grace_from < now->generation - now->grace_from &&
	       second() < now->grace_until;
}

/* A task's class of an older policy is invalid under this one, except that the daemon stays exempt. */
static __always_inline __u32 subject_class(const struct settings *now)
{
	struct record *record = bpf_task_storage_get(&subjects, bpf_get_current_task_btf(), 0, 0);
	if (!record)
		return SUBJECT_DEFAULT;
	__u32 class = record->class & (CLASSES - 1);
	if (class != SUBJECT_EXEMPT && record->generation != now->generation)
		return SUBJECT_DEFAULT;
	return class;
}

/* Whether the table lets `subject` have `access` to `object`. Counts the verdict. */
static __always_inline bool allows(const struct table *table, __u32 access, __u32 subject, __u32 object)
{
	__u32 row = access * CLASSES + (subject & (CLASSES - 1));
	__u32 cell = access * CLASSES + (object & (CLASSES - 1));
	bool allowed = subject == SUBJECT_EXEMPT;
	if (!allowed && row < ACCESSES * CLASSES)
		allowed = (table->allowed[row] >> (object & (CLASSES - 1))) & 1;
	struct counts *counts = bpf_map_lookup_elem(&counters, &cell);
	if (counts) {
		if (allowed)
			counts->allowed++;
		else
			counts->refused++;
	}
	return allowed;
}
