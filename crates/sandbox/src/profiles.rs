// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The profiles that come inside the binary.

/// A profile of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Embedded {
    /// What it is called.
    pub name: &'static str,
    /// The text of its policy file.
    pub text: &'static str,
    /// How messages name the file.
    pub file: &'static str,
}

/// All of them, by name.
pub const EMBEDDED: [Embedded; 3] = [
    Embedded {
        name: "offline-build",
        text: include_str!("profiles/offline-build.toml"),
        file: "built-in:offline-build.toml",
    },
    Embedded {
        name: "read-only",
        text: include_str!("profiles/read-only.toml"),
        file: "built-in:read-only.toml",
    },
    Embedded { name: "strict", text: include_str!("profiles/strict.toml"), file: "built-in:strict.toml" },
];

/// The embedded profile called `name`.
#[must_use]
pub fn embedded(name: &str) -> Option<&'static Embedded> {
    EMBEDDED.iter().find(|profile| profile.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::environment::Fate;
    use palisade_policy::{Amount, Context, Grant, Layer, Limit, NetworkMode, Policy, built_in, merge};
    use std::path::Path;

    fn policy(names: &[&str]) -> Policy {
        let mut layers = vec![built_in()];
        for name in names {
            let profile = embedded(name).unwrap();
            layers.push(
                palisade_policy::parse(profile.text, Some(Path::new(profile.file)), Layer::BuiltIn).unwrap(),
            );
        }
        merge(layers)
    }

    fn grant(policy: &Policy, path: &str) -> Grant {
        let context = Context {
            home: "/home/ann".into(),
            cwd: "/home/ann/app".into(),
            project: None,
            user: "ann".into(),
            uid: 1000,
            runtime_dir: None,
            ..Context::default()
        };
        policy.resolve(&context).unwrap().decide(Path::new(path)).grant
    }

    #[test]
    fn each_parses_and_is_called_as_its_file() {
        for profile in EMBEDDED {
            let parsed = palisade_policy::parse(profile.text, None, Layer::BuiltIn).unwrap();
            assert_eq!(parsed.name.unwrap().value, profile.name);
            assert!(parsed.description.is_some());
            assert_eq!(profile.file, format!("built-in:{}.toml", profile.name));
        }
    }

    #[test]
    fn read_only_takes_writing_away() {
        let policy = policy(&["read-only"]);
        assert_eq!(grant(&policy, "/home/ann/app/x"), Grant::Allowed { write: false, execute: true });
        assert_eq!(grant(&policy, "/tmp/x"), Grant::Tmpfs);
    }

    #[test]
    fn an_offline_build_writes_where_it_works_and_reads_caches() {
        let policy = policy(&["offline-build"]);
        assert_eq!(grant(&policy, "/home/ann/app/x"), Grant::Allowed { write: true, execute: true });
        assert_eq!(
            grant(&policy, "/home/ann/.cargo/registry/x"),
            Grant::Allowed { write: false, execute: false }
        );
        assert_eq!(grant(&policy, "/home/ann/.cargo/credentials.toml"), Grant::Absent);
        assert_eq!(policy.network().value, NetworkMode::None);
        assert_eq!(policy.environment().judge(b"CARGO_NET_OFFLINE").0, Fate::Set("true"));
    }

    #[test]
    fn strict_keeps_few_variables_and_bounds_what_it_can() {
        let policy = policy(&["read-only", "strict"]);
        let environment = policy.environment();
        assert_eq!(environment.judge(b"PATH").0, Fate::Kept);
        assert_eq!(environment.judge(b"LC_TIME").0, Fate::Kept);
        assert_eq!(environment.judge(b"EDITOR").0, Fate::Removed);
        assert!(!policy.inherit_terminal().value);
        assert_eq!(policy.limits()[&Limit::CpuTime].value, Amount::AtMost(600));
        assert_eq!(grant(&policy, "/home/ann/app/x"), Grant::Allowed { write: false, execute: true });
    }
}
