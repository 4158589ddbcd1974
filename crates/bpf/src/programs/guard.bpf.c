// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Decides what may execute on this host: the class matrix at the hooks of the BPF LSM.
 *
 * An object's class is in inode storage. It is valid as long as no process could have changed the file. An open for
 * writing, a truncation or a change of extended attributes removes the class at once; a change of owner or mode removes it
 * within two seconds. While the file is open for writing no class is valid. A file without class is `unclassified`, and the
 * table says what that means.
 *
 * All programs are of the kind that doesn't sleep. Such programs may pass pointers that they followed to helpers, and may
 * still ask for paths at hooks that could sleep.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "matrix.h"

/* The kernel offers the helpers for storage only to programs with a licence that is compatible with its own. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Why an object has the class it has. */
#define REASON_CLASSIFIED 0
#define REASON_NEVER 1 /* user space never classified it, or the class was removed */
#define REASON_STALE 2 /* classified under an older generation of the policy */
#define REASON_WRITER 3 /* open for writing right now */
#define REASON_UNCONFIRMED 4 /* user space is reading it to classify it */
#define REASON_FOREIGN 5 /* on a file system that was mounted in another user namespace */
#define REASON_MEMORY 6 /* no file of a file system that can be named */
#define REASON_SPARED 7 /* on a file system that user space exempts */

/* How many seconds a class stays valid after its file's owner or mode was changed; a started second counts. */
#define CHANGED_GRACE 2

#define PATH_SPACE 1024

struct event {
	__u64 time; /* CLOCK_BOOTTIME, ns */
	__u64 inode;
	__u32 device; /* the kernel's encoding: 12 bits major, 20 bits minor */
	__u32 pid;
	__u32 tgid;
	__u32 uid;
	__u32 access;
	__u32 refused; /* 0: allowed, 1: refused, 2: would have been */
	__u32 subject;
	__u32 object;
	__u32 reason;
	__s32 path_length; /* with the zero; negative: why there is none */
	char comm[16];
	char path[PATH_SPACE];
};
/* `layout.rs` relies on these offsets. */
_Static_assert(sizeof(struct event) == 1096 && __builtin_offsetof(struct event, device) == 16 &&
		       __builtin_offsetof(struct event, path_length) == 52 &&
		       __builtin_offsetof(struct event, comm) == 56 && __builtin_offsetof(struct event, path) == 72,
	       "struct event");

struct {
	__uint(type, BPF_MAP_TYPE_INODE_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct record);
} objects SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} losses SEC(".maps");

struct judged {
	__u32 class;
	__u32 reason;
};

static __always_inline struct judged without_class(struct super_block *fs, __u32 reason)
{
	__u32 device = fs->s_dev;
	if (bpf_map_lookup_elem(&spared, &device))
		return (struct judged){ OBJECT_SPARED, REASON_SPARED };
	return (struct judged){ OBJECT_UNCLASSIFIED, reason };
}

static __always_inline struct judged object_class(struct inode *inode, const struct settings *now)
{
	struct super_block *fs = inode->i_sb;
	/* These are written through descriptors whose opening our hooks didn't see. */
	if (fs->s_flags & SB_KERNMOUNT)
		return (struct judged){ OBJECT_MEMORY_FILE, REASON_MEMORY };
	/* The user who mounted the file system controls its content. */
	if (fs->s_user_ns->level > 0)
		return (struct judged){ OBJECT_UNCLASSIFIED, REASON_FOREIGN };
	if (inode->i_writecount.counter > 0)
		return without_class(fs, REASON_WRITER);
	struct record *record = bpf_inode_storage_get(&objects, inode, 0, 0);
	if (!record)
		return without_class(fs, REASON_NEVER);
	if (!counts_now(record->generation, now))
		return without_class(fs, REASON_STALE);
	if (!record->confirmed)
		return without_class(fs, REASON_UNCONFIRMED);
	if (record->until && second() >= record->until)
		return without_class(fs, REASON_NEVER);
	return (struct judged){ record->class & (CLASSES - 1), REASON_CLASSIFIED };
}

/* `with_path` is a constant of each hook: the verifier refuses bpf_d_path in hooks that can't sleep. */
static __always_inline void report(struct file *file, struct inode *inode, struct judged object, __u32 access,
				   __u32 subject, __u32 refused, bool with_path)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		__u32 zero = 0;
		__u64 *lost = bpf_map_lookup_elem(&losses, &zero);
		/* Atomic: another task may have run on this processor in between. */
		if (lost)
			__sync_fetch_and_add(lost, 1);
		return;
	}
	__u64 ids = bpf_get_current_pid_tgid();
	event->time = bpf_ktime_get_boot_ns();
	event->inode = inode ? inode->i_ino : 0;
	event->device = inode ? inode->i_sb->s_dev : 0;
	event->pid = (__u32)ids;
	event->tgid = ids >> 32;
	event->uid = (__u32)bpf_get_current_uid_gid();
	event->access = access;
	event->refused = refused;
	event->subject = subject;
	event->object = object.class;
	event->reason = object.reason;
	event->path_length = 0;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	if (with_path && file)
		event->path_length = bpf_d_path(&file->f_path, event->path, sizeof(event->path));
	bpf_ringbuf_submit(event, 0);
}

static __always_inline int judge(struct file *file, struct inode *inode, __u32 access, bool with_path)
{
	struct settings *now = find_settings();
	if (!now || now->mode == MODE_OFF)
		return 0;
	struct table *table = find_table(now);
	if (!table)
		return 0;
	struct judged object = { OBJECT_ANONYMOUS, REASON_MEMORY };
	if (inode)
		object = object_class(inode, now);
	__u32 subject = subject_class(now);
	if (allows(table, access, subject, object.class)) {
		if (now->reports & REPORT_ALLOWED)
			report(file, inode, object, access, subject, 0, with_path);
		return 0;
	}
	if (now->mode != MODE_ENFORCE) {
		report(file, inode, object, access, subject, 2, with_path);
		return 0;
	}
	report(file, inode, object, access, subject, 1, with_path);
	return -EPERM;
}

/* ---- verdicts ---- */

/* The kernel calls this for a script, and again for the script's interpreter. */
SEC("lsm/bprm_check_security")
int BPF_PROG(palisade_exec, struct linux_binprm *bprm, int before)
{
	if (before)
		return before;
	struct file *file = bprm->file;
	return judge(file, file->f_inode, ACCESS_EXECUTE, true);
}

/* Libraries, the program itself and its loader: ld.so started by hand maps the program that it should run. */
SEC("lsm/mmap_file")
int BPF_PROG(palisade_map, struct file *file, unsigned long asked, unsigned long prot, unsigned long flags, int before)
{
	if (before)
		return before;
	if (!(prot & PROT_EXEC))
		return 0;
	if (file) {
		int refused = judge(file, file->f_inode, ACCESS_MAP, true);
		if (refused || !(prot & PROT_WRITE))
			return refused;
	}
	/* No file, or private pages that will differ from it. */
	return judge(NULL, NULL, ACCESS_MAP, false);
}

SEC("lsm/file_mprotect")
int BPF_PROG(palisade_protect, struct vm_area_struct *vma, unsigned long asked, unsigned long prot, int before)
{
	if (before)
		return before;
	unsigned long had = vma->vm_flags;
	bool executable = !(had & VM_EXEC), writable = (prot & PROT_WRITE) && !(had & VM_WRITE);
	if (!(prot & PROT_EXEC) || !(executable || writable))
		return 0;
	struct file *file = vma->vm_file;
	if (file) {
		int refused = executable ? judge(file, file->f_inode, ACCESS_MAP, false) : 0;
		/* Private pages may hold anything, whatever the file contains. */
		if (refused || (!vma->anon_vma && !(prot & PROT_WRITE)))
			return refused;
	}
	return judge(NULL, NULL, ACCESS_MAP, false);
}

/* ---- subjects ---- */

SEC("lsm/task_alloc")
int BPF_PROG(palisade_fork, struct task_struct *child, unsigned long flags, int before)
{
	if (before)
		return before;
	struct record *mine = bpf_task_storage_get(&subjects, bpf_get_current_task_btf(), 0, 0);
	if (!mine)
		return 0;
	/* The daemon's threads are exempt; its child processes aren't. */
	if (mine->class == SUBJECT_EXEMPT && !(flags & CLONE_THREAD))
		return 0;
	struct record copy = { mine->class, mine->generation, 1, 0 };
	bpf_task_storage_get(&subjects, child, &copy, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

SEC("lsm/bprm_committed_creds")
int BPF_PROG(palisade_became, struct linux_binprm *bprm)
{
	struct settings *now = find_settings();
	if (!now || now->mode == MODE_OFF)
		return 0;
	struct table *table = find_table(now);
	if (!table)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct record *mine = bpf_task_storage_get(&subjects, task, 0, 0);
	/* A program that the daemon executes in its own process isn't exempt. */
	if (mine && mine->class == SUBJECT_EXEMPT)
		mine->class = SUBJECT_DEFAULT;
	__u32 object = object_class(bprm->file->f_inode, now).class & (CLASSES - 1);
	__u32 becomes = table->becomes[object];
	if (becomes == KEEP || becomes >= SUBJECT_EXEMPT)
		return 0;
	if (!mine && becomes != SUBJECT_DEFAULT)
		mine = bpf_task_storage_get(&subjects, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (mine) {
		mine->class = becomes;
		mine->generation = now->generation;
		mine->confirmed = 1;
	}
	return 0;
}

/* ---- what removes a class ---- */

/* Called after the permission to write was checked, before the first write. */
SEC("lsm/file_open")
int BPF_PROG(palisade_open, struct file *file, int before)
{
	if (before)
		return before;
	if (file->f_mode & FMODE_WRITE)
		bpf_inode_storage_delete(&objects, file->f_inode);
	return 0;
}

/*
 * The kernel calls the hooks below before it checks the caller's permission. Without the same check here, any user could
 * remove the class of /bin/sh by a chmod that fails.
 */
static __always_inline bool may_change(struct inode *inode)
{
	const struct cred *cred = bpf_get_current_task_btf()->cred;
	__u32 who = cred->fsuid.val;
	return who == inode->i_uid.val || (who == 0 && cred->user_ns->level == 0);
}

static __always_inline int changes(struct dentry *dentry, unsigned int valid)
{
	struct inode *inode = dentry->d_inode;
	if (!inode)
		return 0;
	/* The kernel has already checked that a caller that truncates may write. */
	if (valid & ATTR_SIZE) {
		bpf_inode_storage_delete(&objects, inode);
		return 0;
	}
	if (!(valid & (ATTR_MODE | ATTR_UID | ATTR_GID)) || !may_change(inode))
		return 0;
	struct record *record = bpf_inode_storage_get(&objects, inode, 0, 0);
	if (!record)
		return 0;
	if (!record->confirmed)
		bpf_inode_storage_delete(&objects, inode);
	else if (!record->until)
		/* The content is unchanged. User space is told, and may give the class again meanwhile. */
		record->until = second() + CHANGED_GRACE;
	return 0;
}

/* The class may have been given because of an extended attribute. */
static __always_inline int says_else(struct dentry *dentry)
{
	struct inode *inode = dentry->d_inode;
	if (inode && may_change(inode))
		bpf_inode_storage_delete(&objects, inode);
	return 0;
}

/* For kernels up to Linux 6.8; the loader takes the program that fits. */
SEC("lsm/inode_setattr")
int BPF_PROG(palisade_attr_2, struct dentry *dentry, struct iattr *attr, int before)
{
	return before ? before : changes(dentry, attr->ia_valid);
}

SEC("lsm/inode_setattr")
int BPF_PROG(palisade_attr_3, void *mapping, struct dentry *dentry, struct iattr *attr, int before)
{
	return before ? before : changes(dentry, attr->ia_valid);
}

SEC("lsm/inode_setxattr")
int BPF_PROG(palisade_xattr, void *mapping, struct dentry *dentry, const char *name, const void *value,
	     unsigned long size, int flags, int before)
{
	return before ? before : says_else(dentry);
}

SEC("lsm/inode_removexattr")
int BPF_PROG(palisade_unxattr, void *mapping, struct dentry *dentry, const char *name, int before)
{
	return before ? before : says_else(dentry);
}
