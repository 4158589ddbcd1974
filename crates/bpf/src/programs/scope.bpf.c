// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Scopes at tracepoints: marks processes, judges execs below a mark, and reports them.
 *
 * The tracepoint of a successful exec runs before the new program's first instruction, so a signal that is sent there ends
 * the process before that. These programs can't refuse. The program at the security hook can; it is in an object of its own
 * (scope_refuse.bpf.c), for kernels that accept it.
 */
#include "scope_event.h"

/* The kernel offers task storage and signals only to programs with a licence that is compatible with its own. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define SIGKILL 9

/* ---- marks ---- */

/* Runs before the child does, so the child can't act before its mark. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(palisade_scope_fork, struct task_struct *parent, struct task_struct *child)
{
	struct settings *now = find_settings(), *known = find_known();
	if (!now || !known || !(now->flags & INHERIT) || unmarked(parent, known))
		return 0;
	struct mark *mark = find_mark(parent, known);
	if (!mark)
		return 0;
	__u32 process = child->tgid;
	struct scope *scope = find_scope(mark->scope);
	if (!scope)
		return 0;
	/* A child that a launcher forks before its exec is armed: only the launcher's own exec is the launch. */
	struct mark copy = { child->start_boottime, process | ARMED, mark->scope };
	if (process == parent->tgid) {
		/* Threads share the mark in the table. A mark in task storage belongs to one task, so it is copied. */
		if (!(lacks & NO_TASK_STORAGE) && known->flags && bpf_task_storage_get(&overflow, parent, 0, 0))
			bpf_task_storage_get(&overflow, child, &copy, BPF_LOCAL_STORAGE_GET_F_CREATE);
		return 0;
	}
	if (!put_mark(&copy, known)) {
		__sync_fetch_and_add(&scope->ever, 1);
		return 0;
	}
	struct totals *totals = find_totals();
	if (!(lacks & NO_TASK_STORAGE)) {
		known->flags = 1;
		__sync_fetch_and_add(&scope->beyond, 1);
		if (bpf_task_storage_get(&overflow, child, &copy, BPF_LOCAL_STORAGE_GET_F_CREATE)) {
			__sync_fetch_and_add(&scope->ever, 1);
			if (totals)
				totals->overflowed++;
			return 0;
		}
	}
	if (totals)
		totals->unmarked++;
	struct event *event = begin_event(EVENT_UNMARKED, mark->scope, scope);
	if (event) {
		tell_parents(event, parent);
		bpf_ringbuf_submit(event, 0);
	}
	return 0;
}

struct task_struct *bpf_task_from_pid(__s32 pid) __ksym __weak;
void bpf_task_release(struct task_struct *task) __ksym __weak;

#define ORDER_MARK 0
#define ORDER_UNMARK 1
#define ORDER_REAP 2 /* remove the mark of a process that began at `born` */
#define ORDER_JUDGE 3
#define ORDER_FIND 4 /* the answer is the scope's number, or 0 */

/* An order of user space: only programs write marks. One order at a time. */
struct order {
	__u64 born;
	__u32 what;
	__u32 process;
	__u32 scope;
	__u32 value; /* armed, or the verdict */
};

/* Marks a task's process. 0: done; 1: already marked so; 2: no room; 4: belongs to another scope; 5: no process. */
static __always_inline int mark_task(struct task_struct *task, struct settings *known, struct scope *scope, __u32 armed)
{
	__u32 process = task->tgid, id = scope->id;
	struct mark *before = find_mark(task, known);
	if (before) {
		if (find_scope(before->scope))
			return before->scope == id ? 1 : 4;
		/* The mark is of a scope that was closed. */
		before->process = process | armed;
		before->scope = id;
	} else {
		struct mark mark = { task->start_boottime, process | armed, id };
		if (put_mark(&mark, known)) {
			/* Other threads that exist already would have no mark in their storage. */
			if ((lacks & NO_TASK_STORAGE) || task->signal->nr_threads != 1)
				return 2;
			known->flags = 1;
			__sync_fetch_and_add(&scope->beyond, 1);
			if (!bpf_task_storage_get(&overflow, task, &mark, BPF_LOCAL_STORAGE_GET_F_CREATE))
				return 2;
		}
	}
	__sync_fetch_and_add(&scope->ever, 1);
	return 0;
}

/* Carries out an order for a task's process. The result is as below. */
static __always_inline int carry_out(struct task_struct *task, struct settings *known, __u32 what, __u32 id, __u32 value)
{
	__u32 process = task->tgid;
	if (what == ORDER_FIND) {
		struct mark *mark = find_mark(task, known);
		return mark && find_scope(mark->scope) ? mark->scope : 0;
	}
	if (what == ORDER_UNMARK) {
		struct mark *mark = find_mark(task, known);
		if (!mark)
			return 1;
		/* The mark stays in the task's storage, without effect. */
		mark->scope = 0;
		struct mark *place = place_of(process, known);
		if (place && (place->process & ~ARMED) == process)
			free_mark(place, process, task->group_leader->start_boottime);
		return 0;
	}
	struct scope *scope = find_scope(id);
	return scope ? mark_task(task, known, scope, value ? ARMED : 0) : 3;
}

/*
 * 0: done; 1: already so; 2: no room; 3: no such scope; 4: belongs to another scope; 5: no such process; or the number of
 * the scope that was found. BY_SEARCH: processes can't be found by number, so `request` must be carried out by an iteration
 * over all tasks.
 */
#define BY_SEARCH 0xffffffff

SEC("syscall")
int palisade_scope_order(struct order *order)
{
	/* Read each member once: the verifier accepts the context's address only unchanged. */
	__u64 born = *(volatile __u64 *)&order->born;
	__u32 what = *(volatile __u32 *)&order->what, process = *(volatile __u32 *)&order->process;
	__u32 id = *(volatile __u32 *)&order->scope, value = *(volatile __u32 *)&order->value;
	struct settings *known = find_known();
	if (!known)
		return 5;
	if (what == ORDER_JUDGE) {
		struct scope *scope = find_scope(id);
		if (!scope)
			return 3;
		scope->verdict = value;
		return 0;
	}
	if (what == ORDER_REAP) {
		struct mark *left = place_of(process, known);
		if (!left || (left->process & ~ARMED) != process)
			return 1;
		/* Do nothing if another process has the number by now and is marked. */
		return free_mark(left, process, born) ? 0 : 1;
	}
	if (lacks & NO_TASK_BY_NUMBER)
		return BY_SEARCH;
	struct task_struct *task = bpf_task_from_pid(process);
	if (!task)
		return what == ORDER_MARK ? 5 : what == ORDER_UNMARK;
	int answer = what == ORDER_MARK && task->tgid != process ? 5 : carry_out(task, known, what, id, value);
	bpf_task_release(task);
	return answer;
}

/* An order for kernels where a program can't find a process by number: it iterates over all tasks. */
struct request {
	__u32 what;
	__u32 process;
	__u32 scope;
	__u32 value;
	__u32 answer; /* as above; unchanged if there is no such process */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct request);
} request SEC(".maps");

SEC("iter/task")
int palisade_scope_search(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	__u32 zero = 0;
	struct request *wanted = bpf_map_lookup_elem(&request, &zero);
	struct settings *known = find_known();
	if (!task || !wanted || !known || (__u32)task->pid != wanted->process)
		return 0;
	if (wanted->what == ORDER_MARK && (__u32)task->tgid != wanted->process)
		return 0;
	wanted->answer = carry_out(task, known, wanted->what, wanted->scope, wanted->value);
	return 0;
}

/* ---- execs ---- */

SEC("tp_btf/sched_process_exec")
int BPF_PROG(palisade_scope_exec, struct task_struct *task, int thread, struct linux_binprm *bprm)
{
	struct settings *now = find_settings(), *known = find_known();
	if (!now || !known || (now->flags & OFF))
		return 0;
	if ((now->flags & INHERIT) && unmarked(task, known))
		return 0;
	struct found found = find(task, now);
	if (!found.scope)
		return 0;
	if (has_more_rights(task, found.scope)) {
		/* From here on the process has rights that the owner of the scope hasn't, so the scope must not end it. */
		struct mark *own = find_mark(task, known);
		if (own) {
			own->process |= ARMED;
			own->scope = 0;
		}
		/*
		 * If this program itself gave the rights (set-user-ID or capabilities), this exec is still judged by the owner's
		 * scope.
		 */
		if (!(bprm->file->f_inode->i_mode & S_ISUID) && task->cred->euid.val != found.scope->owner)
			return 0;
	}
	struct totals *totals = find_totals();
	if (totals)
		totals->execs++;
	struct decided decided = { found.scope->verdict, WHY_WATCHED };
	if (found.launcher)
		found.launcher->process |= ARMED;
	else
		decided = decide(now, found.scope, bprm->file);
	bool ends = !found.launcher && (decided.verdict == KILL || decided.verdict == REFUSE);
	/* Send the signal first: it doesn't depend on room for an event. */
	if (ends) {
		bpf_send_signal(SIGKILL);
		decided.verdict = KILL;
		if (totals)
			totals->killed++;
	}
	if (!ends && decided.verdict == WATCH && !(now->flags & REPORT) &&
	    !(found.scope->profile & PROFILE))
		return 0;
	struct event *event = begin_event(found.launcher ? EVENT_BEGAN : EVENT_EXEC, found.id, found.scope);
	if (!event)
		return 0;
	event->verdict = decided.verdict;
	event->why = decided.why;
	event->distance = found.distance;
	tell_file(event, bprm);
	struct mm_struct *mm = task->mm;
	if (mm) {
		unsigned long from = mm->arg_start, length = mm->arg_end - from;
		event->arguments_all = length;
		/* Use one register from here on: the verifier knows the bound only of the register that was compared. */
		asm volatile("" : "+r"(length));
		if (length > ARGUMENT_SPACE)
			length = ARGUMENT_SPACE;
		if (bpf_probe_read_user(event->arguments, length, (void *)from))
			event->arguments_length = -1;
		else
			event->arguments_length = length;
	}
	tell_parents(event, task);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* ---- rare calls ---- */

#define CALLS 512
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CALLS);
	__type(key, __u32);
	/*
	 * A bit for each rare first argument (address family, request number). All ones: every argument is rare. 0: none is.
	 */
	__type(value, __u64);
} rare SEC(".maps");

/* Attached only while a scope asks for it, because it costs a little at every system call of the host. */
SEC("tp_btf/sys_enter")
int BPF_PROG(palisade_scope_call, void *registers, long number)
{
	__u32 call = number;
	__u64 *arguments = bpf_map_lookup_elem(&rare, &call);
	if (!arguments || !*arguments)
		return 0;
	struct settings *now = find_settings();
	if (!now || (now->flags & OFF))
		return 0;
	__u64 first = 0;
	struct pt_regs___x86_64 *x86 = registers;
	struct pt_regs___arm64 *arm = registers;
	if (bpf_core_field_exists(x86->di))
		first = BPF_CORE_READ(x86, di);
	else if (bpf_core_field_exists(arm->regs))
		first = BPF_CORE_READ(arm, regs[0]);
	if (*arguments != ~0ULL && (first > 63 || !((*arguments >> first) & 1)))
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct found found = find(task, now);
	if (!found.scope || found.launcher || !found.scope->calls)
		return 0;
	struct event *event = begin_event(EVENT_CALL, found.id, found.scope);
	if (!event)
		return 0;
	event->verdict = WATCH;
	event->distance = found.distance;
	event->call = (__u64)call << 32 | (__u32)first;
	tell_parents(event, task);
	bpf_ringbuf_submit(event, 0);
	return 0;
}
