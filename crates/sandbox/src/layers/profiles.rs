// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The profiles and features that are part of the binary.

/// A profile that Palisade brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Embedded {
    /// Its name.
    pub name: &'static str,
    /// The text of its policy file.
    pub text: &'static str,
    /// How messages name the file.
    pub file: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/profiles.rs"));

/// The embedded profile called `name`.
#[must_use]
pub fn embedded(name: &str) -> Option<&'static Embedded> {
    EMBEDDED.iter().find(|profile| profile.name == name)
}

/// Profiles that a test has launched, by name. The test maintains the list.
const TESTED: &str = include_str!("../data/profiles/tested.list");

/// Whether a test has launched the embedded profile of this name successfully.
#[must_use]
pub fn is_tested(name: &str) -> bool {
    TESTED.lines().any(|line| line == name)
}

/// The features.
pub mod features {
    use super::Embedded;

    include!(concat!(env!("OUT_DIR"), "/features.rs"));

    /// The embedded feature called `name`.
    #[must_use]
    pub fn embedded(name: &str) -> Option<&'static Embedded> {
        EMBEDDED.iter().find(|feature| feature.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::environment::Fate;
    use palisade_policy::{
        Amount, Context, Grant, Layer, LayerPolicy, Limit, NetworkMode, ParseError, Policy, built_in, merge,
    };
    use std::path::Path;

    type Parse = fn(&str, Option<&Path>, Layer) -> Result<LayerPolicy, Vec<ParseError>>;

    /// The definitions that others refer to exist, so no launch stops because of a misspelt name.
    #[test]
    fn what_each_builds_on_is_there() {
        let feature = |name: &str| features::embedded(name).is_some();
        for profile in EMBEDDED {
            let parsed = palisade_policy::parse(profile.text, None, Layer::BuiltIn).unwrap();
            let wants = parsed.configurations.iter().flat_map(|configuration| &configuration.features);
            for want in parsed.features.iter().chain(wants) {
                assert!(feature(&want.value.name), "{}: {}", profile.name, want.value.name);
            }
            for inherited in &parsed.inherits {
                assert!(embedded(&inherited.value).is_some(), "{}: {}", profile.name, inherited.value);
            }
        }
        for one in features::EMBEDDED {
            let parsed = palisade_policy::parse_feature(one.text, None, Layer::BuiltIn).unwrap();
            for want in &parsed.features {
                assert!(feature(&want.value.name), "{}: {}", one.name, want.value.name);
            }
            for conflict in &parsed.conflicts {
                assert!(feature(&conflict.value), "{}: {}", one.name, conflict.value);
            }
        }
    }

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
        let profiles = EMBEDDED.iter().map(|profile| (profile, palisade_policy::parse as Parse));
        let features =
            features::EMBEDDED.iter().map(|feature| (feature, palisade_policy::parse_feature as Parse));
        for (profile, parse) in profiles.chain(features) {
            let parsed = parse(profile.text, None, Layer::BuiltIn)
                .unwrap_or_else(|errors| panic!("{}: {}", profile.name, errors[0].render(false)));
            assert_eq!(parsed.name.unwrap().value, profile.name);
            assert!(parsed.description.is_some());
            assert_eq!(profile.file, format!("built-in:{}.toml", profile.name));
        }
    }

    #[test]
    fn each_application_says_how_it_is_seen_to_work() {
        // Profiles for any command, or for applications to inherit.
        const NO_APPLICATIONS: [&str; 5] = ["agent", "default", "offline-build", "read-only", "strict"];
        for profile in EMBEDDED {
            let parsed = palisade_policy::parse(profile.text, None, Layer::BuiltIn).unwrap();
            let is_application = !NO_APPLICATIONS.contains(&profile.name);
            assert_eq!(parsed.launch.is_some(), is_application, "{}", profile.name);
        }
    }

    #[test]
    fn registries_are_talked_to_by_name_and_encrypted_with_a_reason_each() {
        use palisade_policy::network::{HostPattern, Judge, NetworkVerdict};
        let listing = [
            "dev-browser",
            "dev-containers",
            "dev-data",
            "dev-go",
            "dev-java",
            "dev-node",
            "dev-php",
            "dev-python",
            "dev-ruby",
            "dev-rust",
            "github",
            "model-anthropic",
            "model-google",
            "model-openai",
            "model-openrouter",
            "registry-crates",
            "registry-go",
            "registry-maven",
            "registry-npm",
            "registry-pypi",
        ];
        let mut layers = vec![built_in()];
        for feature in features::EMBEDDED {
            let parsed = palisade_policy::parse_feature(feature.text, None, Layer::BuiltIn).unwrap();
            assert_eq!(
                !parsed.settings.hosts.is_empty(),
                listing.contains(&feature.name),
                "{}",
                feature.name
            );
            for rule in &parsed.settings.hosts {
                assert!(rule.allow && rule.reason.is_some(), "{rule}");
                assert!(matches!(rule.target.host, HostPattern::Name(_) | HostPattern::Below(_)), "{rule}");
                assert!([22, 443].contains(&rule.target.ports.first), "{rule}");
                assert_eq!(rule.target.ports.first, rule.target.ports.last, "{rule}");
            }
            if listing.contains(&feature.name) {
                layers.push(parsed);
            }
        }
        let policy = merge(layers);
        assert_eq!(policy.network().value, NetworkMode::Filtered);
        let rules = policy.network_rules();
        let judge = Judge::new(&rules);
        let verdict = |name: &str, port| judge.name(&name.parse().unwrap(), port).verdict;
        assert_eq!(verdict("registry.npmjs.org", 443), NetworkVerdict::Allow);
        assert_eq!(verdict("objects.githubusercontent.com", 443), NetworkVerdict::Allow);
        assert_eq!(verdict("registry.npmjs.org", 80), NetworkVerdict::Deny);
        assert_eq!(verdict("example.com", 443), NetworkVerdict::Deny);
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
