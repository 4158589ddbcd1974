// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of refusals that aren't about protected names: refusals of paths by their view, and of system calls.

use crate::error::quoted;
use palisade_event::{Detail, Event, Mechanism, Object, Operation, Sandbox, Subject, Verdict, Why};
use palisade_policy::names::NameRule;
use palisade_syscall::broker::report::Denial;
use palisade_syscall::{Arch, Errno, Syscall, refusal};
use std::path::Path;
use std::time::SystemTime;

/// The event of a refused name, with what would permit it. `rules`: the name rules to which a border refusal refers.
pub(crate) fn of_name(subject: Subject, path: &[u8], denial: &Denial, rules: &[NameRule]) -> Event {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // A name that isn't text can't be typed.
    let word = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(quoted);
    let mut origin = None;
    let (why, enforced_by, hint) = match denial {
        Denial::Pinned { about } => (
            format!("the directory can't be renamed: the policy has a rule about {}", text(about)),
            Mechanism::Broker,
            None,
        ),
        Denial::Border { to, rule } => {
            let rule = usize::try_from(*rule).ok().and_then(|rule| rules.get(rule));
            origin = rule.map(|rule| rule.origin.clone());
            let name = rule.map_or("a protected name", |rule| rule.path.as_str());
            let why = format!(
                "a directory can't be moved to {}: {} is protected on one side only; a copy is judged name by name",
                text(to),
                name,
            );
            (why, Mechanism::Broker, None)
        }
        Denial::Mode => (
            "the set-group-id bit would give away the rights of the file's group".to_owned(),
            Mechanism::Broker,
            None,
        ),
        Denial::ReadOnly { grant, landlock } => (
            "it is shown, and no rule makes it writable".to_owned(),
            if *landlock { Mechanism::Landlock } else { Mechanism::Mount },
            grant.as_deref().and_then(word).map(|path| format!("palisade run --rw {path} …")),
        ),
        Denial::Covered => (
            "the policy hides or denies the path, or Palisade has made the file".to_owned(),
            Mechanism::Mount,
            word(path).map(|path| format!("palisade explain --access write {path}")),
        ),
        Denial::Above { directory } => (
            "the directory above the working directory isn't shown, so the file would be gone with the sandbox".to_owned(),
            Mechanism::Mount,
            word(directory).map(|path| format!("palisade run --rw {path} …")),
        ),
    };
    Event::new(
        SystemTime::now(),
        Detail::Sandbox(Sandbox::default()),
        subject,
        (Operation::Write, Object::file(text(path))),
        (Verdict::Refused, enforced_by),
        Why { origin, text: why },
    )
    .with_hint(hint)
}

/// System calls, the errors with which the filter refuses them, and the option that allows them.
const OPTIONS: [(&str, Errno, &str); 8] = [
    ("clone", Errno::EPERM, "--allow-namespaces"),
    ("perf_event_open", Errno::EPERM, "--feature profiler"),
    ("process_vm_readv", Errno::EPERM, "--feature debugger"),
    ("process_vm_writev", Errno::EPERM, "--feature debugger"),
    ("ptrace", Errno::EPERM, "--feature debugger"),
    ("socket", Errno::EACCES, "--allow-datagrams"),
    ("socketpair", Errno::EACCES, "--allow-datagrams"),
    ("unshare", Errno::EPERM, "--allow-namespaces"),
];

/// Programs that make a sandbox. With `--allow-namespaces` they fail at their first mount: Landlock refuses mounts in every
/// namespace inside.
const SANDBOXES: [&str; 9] =
    ["buildah", "bwrap", "crun", "firejail", "flatpak", "nsjail", "podman", "runc", "systemd-nspawn"];

/// The name of the program, if it makes a sandbox and the call is one that it does so by.
fn sandbox_of(subject: &Subject, call: Syscall) -> Option<&'static str> {
    let name = Path::new(&subject.program).file_name()?;
    let makes = matches!(call.name(), "clone" | "unshare");
    SANDBOXES.into_iter().find(|known| makes && name == *known)
}

/// The event of a system call that the filter refused, with the option that allows it or the command that explains it.
pub(crate) fn of_call(subject: Subject, call: Syscall, errno: Errno) -> Event {
    let reason = refusal::reason(call, errno).unwrap_or("the policy denies it");
    // A kernel that lacks the call answers ENOSYS, and programs have an alternative for that.
    let expected = errno == Errno::ENOSYS;
    let sandbox = sandbox_of(&subject, call).filter(|_name| !expected);
    let (text, hint) = match sandbox {
        Some(name) => (
            format!(
                "it fails with {errno}: {name} makes a sandbox, and needs mounts, which no option allows"
            ),
            format!("palisade run -- COMMAND…   # the command without {name}: Palisade confines it already"),
        ),
        None => (
            format!("it fails with {errno}: {reason}"),
            match OPTIONS.iter().find(|(name, with, _option)| *name == call.name() && *with == errno) {
                Some((_name, _errno, option)) => format!("palisade run {option} …"),
                None => format!("palisade explain --syscall {}", call.name()),
            },
        ),
    };
    Event::new(
        SystemTime::now(),
        Detail::Sandbox(Sandbox { expected, ..Sandbox::default() }),
        subject,
        (Operation::Syscall, Object::syscall(call.name(), call.number(Arch::NATIVE))),
        (Verdict::Refused, Mechanism::Seccomp),
        Why::text(text),
    )
    .with_hint(Some(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_said_with_the_wall_and_the_way_out() {
        let told = |denial| {
            let subject = Subject { program: "mv".into(), ..Subject::default() };
            let event = of_name(subject, b"/w/a b", &denial, &[]);
            (event.to_string(), event.hint)
        };
        let (said, hint) = told(Denial::Pinned { about: b"/w/a b/key".to_vec() });
        assert_eq!(
            said,
            "refused: write /w/a b by mv: the directory can't be renamed: the policy has a rule about /w/a b/key (broker)"
        );
        assert_eq!(hint, None);
        let (said, hint) = told(Denial::ReadOnly { grant: Some(b"/w/a b".to_vec()), landlock: false });
        assert!(said.ends_with("no rule makes it writable (mount)"), "{said}");
        assert_eq!(hint.unwrap(), "palisade run --rw '/w/a b' …");
        let (said, hint) = told(Denial::ReadOnly { grant: None, landlock: true });
        assert!(said.ends_with("(landlock)") && hint.is_none(), "{said}");
        let (said, _hint) = told(Denial::Border { to: b"/w/m".to_vec(), rule: 9 });
        assert!(said.contains("to /w/m: a protected name is"), "{said}");
    }

    #[test]
    fn a_call_is_said_with_its_error_and_the_reason() {
        let subject = Subject { program: "a program".into(), ..Subject::default() };
        let event = of_call(subject.clone(), "ptrace".parse().unwrap(), Errno::EPERM);
        assert_eq!(
            event.to_string(),
            "refused: syscall ptrace by a program: it fails with EPERM: reads and steers other processes (seccomp)"
        );
        assert_eq!(event.hint.unwrap(), "palisade run --feature debugger …");
        let event = of_call(subject.clone(), "getpid".parse().unwrap(), Errno::EPERM);
        assert!(event.why.text.ends_with("the policy denies it"));
        assert_eq!(event.hint.unwrap(), "palisade explain --syscall getpid");
        let bwrap = Subject { program: "/usr/bin/bwrap".into(), ..Subject::default() };
        let event = of_call(bwrap.clone(), "clone".parse().unwrap(), Errno::EPERM);
        assert!(event.why.text.contains("which no option allows"), "{event}");
        assert!(event.hint.unwrap().contains("without bwrap"));
        let event = of_call(subject.clone(), "clone".parse().unwrap(), Errno::EPERM);
        assert_eq!(event.hint.unwrap(), "palisade run --allow-namespaces …");
        let expected = |errno| {
            let event = of_call(subject.clone(), "ptrace".parse().unwrap(), errno);
            matches!(event.detail, Detail::Sandbox(sandbox) if sandbox.expected)
        };
        assert!(expected(Errno::ENOSYS) && !expected(Errno::EPERM));
    }
}
