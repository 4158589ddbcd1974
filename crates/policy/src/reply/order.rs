// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sorts replies in the order in which they are tried, and finds those that are overridden.

use super::SyscallReply;
use crate::layer::{Sourced, Strength, prevailing};
use crate::value::SyscallRule;

/// The replies in the order in which they are tried.
///
/// Later layers come first. Inside a layer the order is: firmer statements, then replies with a condition on
/// arguments, then replies that prevent the call more firmly, then later statements. A reply of a later layer than a
/// lock's comes after the lock, unless it prevents the call more firmly. A reply that is less firm than a later
/// layer's lock comes after that lock.
pub(crate) fn in_order(stated: &[Sourced<SyscallReply>]) -> Vec<Sourced<SyscallReply>> {
    let mut all: Vec<&Sourced<SyscallReply>> = stated.iter().collect();
    // If the same place in the order is stated twice, the later statement comes first.
    all.reverse();
    all.sort_by_key(|answer| {
        let SyscallReply { question, action } = &answer.value;
        core::cmp::Reverse((answer.rank(), question.is_narrow(), action.firmness()))
    });
    let mut out: Vec<Sourced<SyscallReply>> = Vec::new();
    let mut late: Vec<&Sourced<SyscallReply>> = Vec::new();
    for answer in all {
        if stated.iter().any(|lock| yields(answer, lock)) {
            late.push(answer);
        } else {
            out.push(answer.clone());
        }
    }
    for answer in late.into_iter().rev() {
        let behind = out.iter().rposition(|lock| yields(answer, lock)).map_or(out.len(), |at| at + 1);
        out.insert(behind, answer.clone());
    }
    // A lock that was moved behind an earlier lock may now stand behind less firm replies.
    for at in 0..out.len() {
        let loosens = |answer: &Sourced<SyscallReply>, lock: &Sourced<SyscallReply>| {
            lock.strength == Strength::Locked
                && answer.origin.layer < lock.origin.layer
                && answer.value.question.subject() == lock.value.question.subject()
                && answer.value.action.firmness() < lock.value.action.firmness()
        };
        let lock = out[at].clone();
        let before: Vec<_> = out.extract_if(..at, |answer| loosens(answer, &lock)).collect();
        let behind = at + 1 - before.len();
        out.splice(behind..behind, before);
    }
    out
}

/// Whether a reply would loosen a lock of an earlier layer.
fn yields(answer: &Sourced<SyscallReply>, lock: &Sourced<SyscallReply>) -> bool {
    lock.strength == Strength::Locked
        && lock.origin.layer < answer.origin.layer
        && lock.value.question.subject() == answer.value.question.subject()
        && answer.value.action.firmness() <= lock.value.action.firmness()
        && answer.value.action != lock.value.action
}

/// Whether the lists of calls override a reply. `lists`: their entries for its call. `answers`: all replies.
pub(crate) fn is_outdone(
    answer: &Sourced<SyscallReply>,
    lists: &[Sourced<SyscallRule>],
    answers: &[Sourced<SyscallReply>],
) -> bool {
    // The prevailing statement alone isn't enough: a later layer may repeat the refusal without the lock.
    if lists.iter().any(|said| !said.value.allow && said.strength == Strength::Locked) {
        return true;
    }
    match prevailing(lists) {
        None => false,
        Some(said) if said.value.allow => answer.strength != Strength::Locked && answer.rank() < said.rank(),
        // The list overrides these locks and takes their place. So a reply that would yield to one of them yields to
        // the list.
        Some(said) => {
            let outdone = |answer: &Sourced<SyscallReply>| answer.rank() <= said.rank();
            outdone(answer) || answers.iter().any(|lock| outdone(lock) && yields(answer, lock))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::layer::Layer;
    use crate::merge::merge;
    use crate::parse::parse;

    fn policy(layer: Layer, text: &str) -> crate::settings::LayerPolicy {
        parse(&format!("schema = 1\n{text}"), None, layer).unwrap()
    }

    fn order(layers: &[(Layer, &str)]) -> Vec<String> {
        let merged = merge(layers.iter().map(|(layer, text)| policy(*layer, text)).collect());
        merged.answers().iter().map(|answer| answer.value.to_string()).collect()
    }

    #[test]
    fn later_layers_come_first_and_locks_stand() {
        let answer = |when: &str, action: &str| {
            let when = if when.is_empty() { String::new() } else { format!("when = \"{when}\", ") };
            format!("syscalls]\nanswers = [{{ call = \"a\", {when}action = \"{action}\" }}]\n")
        };
        let set = |when: &str, action: &str| format!("[{}", answer(when, action));
        let locked = |when: &str, action: &str| format!("[locked.{}", answer(when, action));
        let (user, admin) = (Layer::User, Layer::Administrator);
        assert_eq!(
            order(&[(user, &set("", "allow")), (admin, &set("", "deny"))]),
            ["a: allow", "a: deny EPERM"]
        );
        let both = format!("{}[default.{}", set("", "ask"), answer("arg0 in 1", "deny"));
        assert_eq!(order(&[(user, &both)]), ["a: ask", "a when arg0 in 1: deny EPERM"]);
        // A lock may be tightened, but not loosened.
        for (stated, expected) in [("allow", ["a: ask", "a: allow"]), ("deny", ["a: deny EPERM", "a: ask"])] {
            assert_eq!(order(&[(admin, &locked("", "ask")), (user, &set("", stated))]), expected);
        }
        let narrow = order(&[
            (admin, &locked("arg0 in 1", "deny")),
            (admin, &set("", "ask")),
            (user, &set("", "allow")),
        ]);
        assert_eq!(narrow, ["a when arg0 in 1: deny EPERM", "a: allow", "a: ask"]);
    }

    /// The administrator's lock stands behind an earlier lock. The replies before it don't loosen it.
    #[test]
    fn a_lock_that_is_kept_back_is_one_still() {
        let answer = |when: &str, action: &str| {
            format!("[locked.syscalls]\nanswers = [{{ call = \"a\", {when}{action} }}]\n")
        };
        let distribution = "[locked.syscalls]\nanswers = [{ call = \"a\", when = \"arg0 in 1\", action = \"allow\" }, \
                            { call = \"a\", action = \"return\", value = 0 }]\n";
        assert_eq!(
            order(&[
                (Layer::Distribution, distribution),
                (Layer::Administrator, &answer("", "action = \"ask\""))
            ]),
            ["a: return 0", "a: ask", "a when arg0 in 1: allow"]
        );
    }

    #[test]
    fn a_lock_is_one_whatever_is_said_after_it() {
        let in_force = |lock: &str, answer: &str| {
            let merged = merge(vec![
                policy(Layer::Administrator, &format!("[locked.syscalls]\n{lock}\n")),
                policy(
                    Layer::User,
                    &format!(
                        "[default.syscalls]\ndeny = [\"a\"]\n[syscalls]\nanswers = [{{ call = \"a\", {answer} }}]\n"
                    ),
                ),
            ]);
            let answers = merged.answers();
            let users = answers.iter().find(|answer| answer.origin.layer == Layer::User).unwrap();
            !merged.is_outdone(users)
        };
        let (deny, some) =
            ("deny = [\"a\"]", "answers = [{ call = \"a\", when = \"arg0 in 1\", action = \"deny\" }]");
        for lock in [deny, some] {
            for answer in ["action = \"allow\"", "when = \"arg0 in 1\", action = \"ask\""] {
                assert!(!in_force(lock, answer), "{lock}: {answer}");
            }
        }
        // Without locks, a user's reply beats the user's default, and so does a reply of the same strength.
        assert!(in_force("allow = [\"a\"]", "action = \"allow\""));
        assert!(in_force(some, "action = \"deny\""));
    }
}
