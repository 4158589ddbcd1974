// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Named groups of calls; the list is `data/groups.list`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::Syscall;

/// Calls with one purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name, with `@` in front.
    pub name: &'static str,
    /// What the calls have in common.
    pub reason: &'static str,
    /// The calls. A call may be in several groups and is in at least one.
    pub calls: BTreeSet<Syscall>,
}

/// The name of the group that nearly every program needs.
pub const BASE: &str = "@base";

static GROUPS: LazyLock<Vec<Group>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the text is part of the program, and a test parses it")]
    parse(include_str!("data/groups.list")).expect("data/groups.list parses")
});

/// Every group, in the order of the list: [`base`] first.
pub fn groups() -> impl Iterator<Item = &'static Group> {
    GROUPS.iter()
}

/// The group of this name; `@` may be left out.
#[must_use]
pub fn group(name: &str) -> Option<&'static Group> {
    let name = name.strip_prefix('@').unwrap_or(name);
    groups().find(|group| group.name.strip_prefix('@') == Some(name))
}

/// The calls that execute a program.
pub const EXECUTING: [&str; 2] = ["execve", "execveat"];

/// The calls that nearly every program needs and that give access to nothing new. They are always allowed and never
/// learned.
#[must_use]
pub fn base() -> &'static BTreeSet<Syscall> {
    &GROUPS[0].calls
}

/// The groups of a call.
pub fn groups_of(call: Syscall) -> impl Iterator<Item = &'static Group> {
    groups().filter(move |group| group.calls.contains(&call))
}

fn parse(text: &'static str) -> Result<Vec<Group>, String> {
    let mut groups: Vec<Group> = Vec::new();
    for line in text.lines() {
        if line.starts_with('@') {
            let (name, reason) =
                line.split_once('#').ok_or_else(|| format!("no reason after `#`: {line}"))?;
            groups.push(Group { name: name.trim(), reason: reason.trim(), calls: BTreeSet::new() });
        } else if !line.starts_with('#') && !line.trim().is_empty() {
            let group = groups.last_mut().ok_or_else(|| format!("in no group: {line}"))?;
            for name in line.split_whitespace() {
                let call = name.parse().map_err(|error| format!("{error}"))?;
                if !group.calls.insert(call) {
                    return Err(format!("twice in {}: {name}", group.name));
                }
            }
        }
    }
    match groups.first() {
        Some(first) if first.name == BASE => Ok(groups),
        _ => Err(format!("{BASE} isn't first")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_in_a_group() {
        let missing: Vec<Syscall> = Syscall::all().filter(|call| groups_of(*call).next().is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn names_and_reasons() {
        let mut names: Vec<&str> = groups().map(|group| group.name).collect();
        assert!(names.iter().all(|name| name.starts_with('@') && name.len() > 2));
        assert!(groups().all(|group| group.reason.len() > 10 && !group.calls.is_empty()));
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before, "a name is there twice");
        assert_eq!(group("@network"), group("network"));
        assert_eq!(group("@networks"), None);
    }

    #[test]
    fn the_base_gives_access_to_nothing_that_the_deny_list_takes() {
        let rules = crate::Rules::deny_list();
        for call in base() {
            assert!(rules.of(*call).is_empty(), "{call}");
        }
        for name in ["openat", "socket", "connect", "kill", "ptrace", "ioctl", "prctl", "clone", "mount"] {
            assert!(!base().contains(&name.parse().unwrap()), "{name}");
        }
        for name in ["read", "write", "execve", "exit_group", "rt_sigreturn", "futex", "mmap"] {
            assert!(base().contains(&name.parse().unwrap()), "{name}");
        }
    }

    #[test]
    fn a_wrong_list_is_refused() {
        for (text, problem) in [
            ("read", "in no group: read"),
            ("@base", "no reason after `#`: @base"),
            ("@base # x\nread read", "twice in @base: read"),
            ("@base # x\nraed", "unknown system call `raed`; did you mean `read`?"),
            ("@files # x\nopen", "@base isn't first"),
        ] {
            assert_eq!(parse(text).unwrap_err(), problem);
        }
    }
}
