// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides whether a reported exec is denied. The daemon uses this in the profiles `session` and `strict`.
//!
//! The daemon sees more than the programs in the kernel: contents, and files that a program was told to run, as in `sh
//! FILE`, `python FILE` or `ld.so FILE`. It learns of an exec only after the exec happened.

use crate::denied::{Denied, Hash};
use palisade_protocol::scope::Profile;

/// A file that an exec uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Its name, without directories.
    pub name: Option<String>,
    /// Whether it is one of the files that were denied by path.
    pub listed: bool,
    /// The hash of its content, if the settings deny contents.
    pub content: Option<Hash>,
    /// Whether it exists only in memory.
    pub memory: bool,
}

/// Why an exec is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The file is denied by path.
    File,
    /// The file's name is denied.
    Name,
    /// The file's content is denied.
    Content,
    /// The file exists only in memory.
    Memory,
    /// An argument names a denied file.
    Argument,
}

impl Reason {
    /// The reason in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::File => "the file is denied",
            Self::Name => "the name is denied",
            Self::Content => "the content is denied",
            Self::Memory => "programs that are only in memory are denied",
            Self::Argument => "an argument names something denied",
        }
    }
}

/// Programs that run files named in their arguments, by the beginnings of their names.
const INTERPRETERS: [&str; 22] = [
    "ld-linux", "ld-musl", "ld.so", "ld64", "sh", "bash", "dash", "zsh", "ksh", "mksh", "fish", "busybox",
    "python", "pypy", "perl", "ruby", "node", "bun", "deno", "php", "lua", "tclsh",
];

/// Whether a program runs files that its arguments name. For other programs, an argument that names something denied is no
/// reason to deny (`rm nc` is no attack). The name `sh` must match exactly; after the other names a version may follow.
#[must_use]
pub fn runs_arguments(program: &str) -> bool {
    INTERPRETERS.iter().any(|name| {
        program.strip_prefix(name).is_some_and(|rest| {
            rest.is_empty() || (*name != "sh" && rest.starts_with(|c: char| !c.is_ascii_alphabetic()))
        })
    })
}

/// Whether the daemon judges at all.
#[must_use]
pub fn judges(profile: Profile, denied: &Denied) -> bool {
    matches!(profile, Profile::Session | Profile::Strict) && !denied.is_nothing()
}

/// Why an exec is denied, if it is. Judges the executed files and the files that the arguments name.
#[must_use]
pub fn judge(denied: &Denied, executed: &[Candidate], arguments: &[Candidate]) -> Option<Reason> {
    let of = |candidate: &Candidate| {
        if candidate.listed {
            Some(Reason::File)
        } else if candidate.content.is_some_and(|content| denied.contents.contains(&content)) {
            Some(Reason::Content)
        } else if candidate.name.as_ref().is_some_and(|name| denied.names.contains(name)) {
            Some(Reason::Name)
        } else if candidate.memory && denied.memory {
            Some(Reason::Memory)
        } else {
            None
        }
    };
    executed.iter().find_map(of).or_else(|| arguments.iter().find_map(of).map(|_| Reason::Argument))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate() -> impl Strategy<Value = Candidate> {
        ("[ab]", any::<bool>(), prop::option::of(0u8..3), any::<bool>()).prop_map(
            |(name, listed, content, memory)| Candidate {
                name: Some(name),
                listed,
                content: content.map(|byte| Hash([byte; 32])),
                memory,
            },
        )
    }

    fn denied() -> impl Strategy<Value = Denied> {
        ("[a-c]", 0u8..4, any::<bool>()).prop_map(|(name, content, memory)| Denied {
            names: [name].into(),
            contents: [Hash([content; 32])].into(),
            memory,
            ..Denied::default()
        })
    }

    proptest! {
        #[test]
        fn another_denial_never_allows(denied in denied(), more in denied(), executed in candidate(), named in candidate()) {
            let mut both = denied.clone();
            both.names.extend(more.names);
            both.contents.extend(more.contents);
            both.memory |= more.memory;
            let (executed, named) = ([executed], [named]);
            if judge(&denied, &executed, &named).is_some() {
                prop_assert!(judge(&both, &executed, &named).is_some());
            }
        }

        #[test]
        fn where_nothing_is_denied_only_listed_files_are(executed in candidate()) {
            let verdict = judge(&Denied::default(), std::slice::from_ref(&executed), &[]);
            prop_assert_eq!(verdict, executed.listed.then_some(Reason::File));
        }
    }

    #[test]
    fn interpreters() {
        for yes in
            ["sh", "bash", "python3", "python3.11", "ld-linux-x86-64.so.2", "ld-musl-x86_64.so.1", "perl5.36"]
        {
            assert!(runs_arguments(yes), "{yes}");
        }
        for no in ["sha256sum", "cp", "nodejsx", "shred", "bashful", "", "perldoc"] {
            assert!(!runs_arguments(no), "{no}");
        }
    }

    #[test]
    fn only_session_and_strict_judge() {
        let denied = Denied { memory: true, ..Denied::default() };
        let all = [Profile::Prompt, Profile::Audit, Profile::Session, Profile::Strict];
        assert_eq!(all.map(|profile| judges(profile, &denied)), [false, false, true, true]);
        assert!(!judges(Profile::Strict, &Denied::default()));
    }
}
