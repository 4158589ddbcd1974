// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Measures the cost of a verdict on a kernel whose security hooks accept no programs. It uses the same settings, tables,
 * subjects and counters at the tracepoint of a successful exec. Only LSM programs can use inode storage, so the object's
 * class comes from a hash table by device and inode, which costs more than the guard's lookup. Never part of the guard.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "matrix.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct place {
	__u64 inode;
	__u64 device;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct place);
	__type(value, struct record);
} places SEC(".maps");

SEC("tp_btf/sched_process_exec")
int BPF_PROG(cost_nothing, struct task_struct *task, int pid, struct linux_binprm *bprm)
{
	return 0;
}

/* Settings, table, subject, verdict and its counter; the object's class is a constant. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(cost_verdict, struct task_struct *task, int pid, struct linux_binprm *bprm)
{
	struct settings *now = find_settings();
	if (!now || now->mode == MODE_OFF)
		return 0;
	struct table *table = find_table(now);
	if (!table)
		return 0;
	return allows(table, ACCESS_EXECUTE, subject_class(now), 3);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(cost_all, struct task_struct *task, int pid, struct linux_binprm *bprm)
{
	struct settings *now = find_settings();
	if (!now || now->mode == MODE_OFF)
		return 0;
	struct table *table = find_table(now);
	if (!table)
		return 0;
	struct inode *inode = bprm->file->f_inode;
	struct super_block *fs = inode->i_sb;
	__u32 class = OBJECT_UNCLASSIFIED;
	if (!(fs->s_flags & SB_KERNMOUNT) && fs->s_user_ns->level == 0 && inode->i_writecount.counter <= 0) {
		struct place place = { inode->i_ino, fs->s_dev };
		struct record *record = bpf_map_lookup_elem(&places, &place);
		if (record && record->generation == now->generation && record->confirmed)
			class = record->class;
	}
	return allows(table, ACCESS_EXECUTE, subject_class(now), class);
}
