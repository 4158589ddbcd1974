// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates what firejail's filters refuse into changes of Palisade's deny list.

use super::sets;
use palisade_syscall::{Action, Arch, Rules, Syscall};
use std::collections::BTreeSet;

/// How deep sets may contain other sets.
const DEEPEST: usize = 4;

/// What all statements on system calls result in.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// `seccomp` was stated: the default list is refused.
    pub(super) list: bool,
    refused: BTreeSet<String>,
    excepted: BTreeSet<String>,
    /// Only these calls are allowed.
    kept: Option<BTreeSet<String>>,
}

/// What couldn't be imported from a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unknown {
    pub(super) names: bool,
    pub(super) answers: bool,
}

impl Calls {
    /// Adds a list of `seccomp` or `seccomp.drop`.
    pub(super) fn refuse(&mut self, list: &str) -> Unknown {
        let mut unknown = Unknown::default();
        for word in list.split(',').filter(|word| !word.is_empty()) {
            let (word, excepted) = word.strip_prefix('!').map_or((word, false), |word| (word, true));
            // `NAME:ERRNO` returns another error.
            let name = word.split(':').next().unwrap_or_default();
            unknown.answers |= name != word;
            let mut names = BTreeSet::new();
            unknown.names |= !expand(name, &mut names, 0);
            if excepted { &mut self.excepted } else { &mut self.refused }.append(&mut names);
        }
        unknown
    }

    /// Adds a list of `seccomp.keep`.
    pub(super) fn keep(&mut self, list: &str) -> Unknown {
        let mut unknown = Unknown::default();
        let kept = self.kept.get_or_insert_default();
        for name in list.split(',').filter(|name| !name.is_empty()) {
            // A name that isn't known means one allowed call less.
            unknown.names |= !expand(name.trim_start_matches('!'), kept, 0);
        }
        unknown
    }

    /// Whether a call is an exception from what is refused.
    pub(super) fn excepts(&self, name: &str) -> bool {
        self.excepted.contains(name)
    }

    /// Names to add to the deny list, names to remove from it, and names that can't be removed from it while names of
    /// files are protected.
    pub(super) fn changes(&self, debuggers: bool) -> (Vec<String>, Vec<String>, Vec<String>) {
        /// Without these calls, no program begins or ends.
        const NEEDED: [&str; 6] = ["execve", "execveat", "exit", "exit_group", "rt_sigreturn", "prctl"];
        let mut refused = self.refused.clone();
        if self.list {
            let set = if debuggers { "@default" } else { "@default-nodebuggers" };
            expand(set, &mut refused, 0);
        }
        if let Some(kept) = &self.kept {
            refused.extend(
                Syscall::all().map(|call| call.name().to_owned()).filter(|name| !kept.contains(name)),
            );
        }
        refused.retain(|name| !self.excepted.contains(name) && !NEEDED.contains(&name.as_str()));
        let refused = refused.into_iter().filter(|name| known(name).is_some_and(|call| !is_refused(call)));
        let mut allowed: BTreeSet<String> =
            self.excepted.iter().filter(|name| known(name).is_some_and(is_refused)).cloned().collect();
        if debuggers {
            allowed.extend(["ptrace", "process_vm_readv"].map(str::to_owned));
        }
        let (allowed, kept_back) = allowed.into_iter().partition(|name| goes_with_the_broker(name));
        (refused.collect(), allowed, kept_back)
    }
}

fn known(name: &str) -> Option<Syscall> {
    name.parse().ok()
}

/// Whether the deny list refuses a call outright.
fn is_refused(call: Syscall) -> bool {
    let rules = Rules::deny_list();
    let explanation = rules.explain(call, Arch::NATIVE);
    explanation.rules.iter().any(|rule| rule.tests.is_empty() && rule.action != Action::Allow)
}

/// Whether names of files can be protected although a call is allowed.
fn goes_with_the_broker(name: &str) -> bool {
    Rules::deny_list().with(&[name], &[]).is_ok_and(|rules| rules.brokered().is_ok())
}

/// Adds the calls that a name stands for. Returns whether the name is known.
fn expand(name: &str, to: &mut BTreeSet<String>, depth: usize) -> bool {
    if name.starts_with('@') {
        return match sets::calls(name) {
            Some(names) if depth < DEEPEST => {
                let mut all = true;
                for name in names {
                    all &= expand(name, to, depth + 1);
                }
                all
            }
            _ => false,
        };
    }
    let name = match name.strip_prefix('$') {
        Some(number) => {
            let call = number.parse().ok().and_then(|number| Syscall::from_number(Arch::NATIVE, number));
            let Some(call) = call else { return false };
            call.name()
        }
        None => name,
    };
    if known(name).is_some() {
        to.insert(name.to_owned());
        return true;
    }
    sets::FOREIGN.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_list_is_refused_but_for_exceptions() {
        let mut calls = Calls { list: true, ..Calls::default() };
        assert_eq!(calls.refuse("!chroot,!ioprio_set"), Unknown::default());
        let (refused, allowed, kept_back) = calls.changes(false);
        assert!(
            refused.contains(&"io_setup".to_owned()) && refused.contains(&"modify_ldt".to_owned()),
            "{refused:?}"
        );
        assert!(refused.contains(&"personality".to_owned()), "refused here only with some arguments");
        assert!(!refused.contains(&"ptrace".to_owned()), "refused anyway");
        assert!(!refused.contains(&"ioprio_set".to_owned()) && !refused.contains(&"chroot".to_owned()));
        assert!(allowed.is_empty() && kept_back == ["chroot"], "{allowed:?} {kept_back:?}");
        assert_eq!(calls.refuse("!keyctl"), Unknown::default());
        assert_eq!(calls.changes(false).1, ["keyctl"]);
        let text: Vec<&str> = refused.iter().map(String::as_str).collect();
        assert!(Rules::deny_list().with(&["keyctl"], &text).is_ok());
    }

    #[test]
    fn all_sets_are_known() {
        for set in [
            "@default-nodebuggers",
            "@default",
            "@default-keep",
            "@chown",
            "@clock",
            "@cpu-emulation",
            "@debug",
            "@keyring",
            "@module",
            "@mount",
            "@obsolete",
            "@raw-io",
            "@reboot",
            "@swap",
            "@privileged",
            "@network-io",
            "@resources",
            "@setuid",
            "@aio",
            "@memlock",
        ] {
            let unknown: Vec<&&str> = sets::calls(set)
                .unwrap()
                .iter()
                .filter(|name| !expand(name, &mut BTreeSet::new(), 0))
                .collect();
            assert!(unknown.is_empty(), "{set}: {unknown:?}");
        }
        let mut calls = Calls::default();
        assert!(
            calls.refuse("@nosuch").names
                && calls.refuse("nosuch").names
                && calls.refuse("mkdir:ENOSYS").answers
        );
    }

    #[test]
    fn a_list_of_what_is_kept_refuses_all_else() {
        let mut calls = Calls::default();
        // A list without the calls that load a program: under it, no program would start in firejail.
        let loading = "brk,mmap,mprotect,munmap,openat,close,newfstatat,fstat,pread64,access,arch_prctl,set_tid_address";
        assert_eq!(calls.keep(&format!("read,write,@default-keep,{loading}")), Unknown::default());
        let (refused, ..) = calls.changes(false);
        assert!(refused.contains(&"open".to_owned()) && !refused.contains(&"read".to_owned()));
        let text: Vec<&str> = refused.iter().map(String::as_str).collect();
        assert!(Rules::deny_list().with(&[], &text).is_ok());
    }
}
