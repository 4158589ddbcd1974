// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Refuses execs in scopes at the security hook: the exec fails with EPERM, and the calling program continues. The maps are
 * those of scope.bpf.c.
 */
#include "scope_event.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The kernel calls this for a script, and again for the script's interpreter. */
SEC("lsm/bprm_check_security")
int BPF_PROG(palisade_scope_refuse, struct linux_binprm *bprm, int before)
{
	if (before)
		return before;
	struct settings *now = find_settings();
	if (!now || (now->flags & OFF))
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct found found = find(task, now);
	if (!found.scope || found.launcher || has_more_rights(task, found.scope))
		return 0;
	struct decided decided = decide(now, found.scope, bprm->file);
	if (decided.verdict != REFUSE)
		return 0;
	struct totals *totals = find_totals();
	if (totals)
		totals->refused++;
	struct event *event = begin_event(EVENT_EXEC, found.id, found.scope);
	if (event) {
		event->verdict = REFUSE;
		event->why = decided.why;
		event->distance = found.distance;
		/* The arguments are being moved from the old memory to the new, so they can't be read here. */
		event->arguments_length = -1;
		tell_file(event, bprm);
		tell_parents(event, task);
		bpf_ringbuf_submit(event, 0);
	}
	return -EPERM;
}
