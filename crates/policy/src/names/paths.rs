// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts `protect_paths` to rules of the same kind as protected names.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use super::{Content, NameRule, glob};
use crate::expand::GlobPattern;
use crate::layer::Strength;
use crate::pattern::SPECIAL;
use crate::resolve::{Moved, Place, Placed, Resolved, join};

impl Resolved {
    /// The rules of `protect_paths`, for paths as seen inside.
    #[must_use]
    pub fn protected_paths(&self) -> Vec<NameRule> {
        let mut rules = Vec::new();
        for placed in &self.protect {
            for path in written(placed) {
                rules.push(NameRule {
                    path,
                    reason: "the policy protects it".to_owned(),
                    origin: placed.rule.origin.clone(),
                    carried: false,
                    except_below: Vec::new(),
                    content: Content::Never,
                    anchored: true,
                    locked: placed.rule.strength == Strength::Locked,
                });
            }
        }
        rules
    }
}

/// The paths inside that a rule protects, as patterns from the root.
fn written(placed: &Placed) -> Vec<String> {
    match (&placed.place, &placed.moved) {
        (Place::Path(path), _) => vec![exactly(path)],
        (Place::Glob(glob), None) => vec![below(glob.base(), glob.written())],
        (Place::Glob(glob), Some(moved)) => match glob.base().strip_prefix(&moved.from) {
            Ok(rest) => vec![below(&join(&moved.to, rest), glob.written())],
            Err(_above) => moved_from_below(glob, moved),
        },
    }
}

/// The rest of a pattern whose first components match the path to a directory that was mapped elsewhere.
fn moved_from_below(glob: &GlobPattern, moved: &Moved) -> Vec<String> {
    let Ok(rest) = moved.from.strip_prefix(glob.base()) else {
        return Vec::new();
    };
    let parts: Vec<&str> = glob.written().split('/').collect();
    // The positions in the pattern that may have been reached.
    let mut reached = vec![0];
    for name in rest {
        let mut next = Vec::new();
        for mut at in reached {
            while parts.get(at) == Some(&"**") {
                next.push(at);
                at += 1;
            }
            if parts.get(at).is_some_and(|part| glob::matches(part.as_bytes(), name.as_bytes())) {
                next.push(at + 1);
            }
        }
        next.sort_unstable();
        next.dedup();
        reached = next;
        if reached.contains(&parts.len()) {
            return vec![exactly(&moved.to)];
        }
    }
    reached.into_iter().map(|at| below(&moved.to, &parts[at..].join("/"))).collect()
}

fn below(base: &Path, tail: &str) -> String {
    let base = exactly(base);
    if base.is_empty() { tail.to_owned() } else { format!("{base}/{tail}") }
}

/// The pattern for exactly this path, without the leading slash. A byte that isn't UTF-8 becomes `?` (any byte): that
/// protects a few paths more, instead of none.
fn exactly(path: &Path) -> String {
    let mut text = String::new();
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        if !text.is_empty() {
            text.push('/');
        }
        for chunk in name.as_bytes().utf8_chunks() {
            for character in chunk.valid().chars() {
                if u8::try_from(character).is_ok_and(|byte| SPECIAL.contains(&byte)) {
                    text.push('\\');
                }
                text.push(character);
            }
            text.extend(chunk.invalid().iter().map(|_byte| '?'));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::{Access, Context, LayerPolicy, NameRules, NameStatus, PathPattern, merge};

    fn rules(protect: &[&str], write: &[&str]) -> NameRules {
        let mut layer = LayerPolicy::command_line();
        for path in protect {
            layer.add_path(Access::Protect, path, 1).unwrap();
        }
        for path in write {
            layer.add_path(Access::Write, path, 1).unwrap();
        }
        let context = Context {
            home: "/home/ann".into(),
            cwd: "/home/ann/app".into(),
            project: None,
            user: "ann".into(),
            uid: 1000,
            runtime_dir: None,
            ..Context::default()
        };
        let resolved = merge(vec![layer]).resolve(&context).unwrap();
        NameRules::default().and(resolved.protected_paths())
    }

    #[test]
    fn paths_and_patterns_hold_in_their_places() {
        let rules = rules(
            &["~/x*", "./build", "**/*.lock", "/srv/a[0-9!^-]/b?", r"/srv/\*", "/srv/**/[!x]z"],
            &["/srv/a=/m", "/srv/a1=/n", "/srv/q/w=/o"],
        );
        let protected = |path: &str| matches!(rules.judge(path.as_bytes(), 1), NameStatus::Protected(_));
        for path in [
            "/home/ann/xyz/1",
            "/home/ann/app/build/1",
            "/home/ann/app/a/b/c.lock",
            "/srv/a1/bc",
            "/srv/a-/bc",
            "/srv/a!/bc",
            "/srv/*",
            "/n/bc",
            "/o/az",
            "/o/1/2/az",
            "/m/yz",
        ] {
            assert!(protected(path), "{path} {rules:#?}");
        }
        for path in
            ["/home/ann/y", "/home/ann/build", "/home/ann/c.lock", "/srv/aa/bc", "/srv/x", "/o/xz", "/n/c"]
        {
            assert!(!protected(path), "{path} {rules:#?}");
        }
    }

    #[test]
    fn what_a_pattern_covers_is_covered_where_it_is_mapped() {
        let rules = rules(&["/srv/*/keys"], &["/srv/a/keys/deep=/k/d", "/srv/a=/m"]);
        let protected = |path: &str| matches!(rules.judge(path.as_bytes(), 1), NameStatus::Protected(_));
        assert!(protected("/k/d/x") && protected("/m/keys"), "{rules:#?}");
        assert!(!protected("/m/x"));
    }

    #[test]
    fn bytes_that_are_no_text_are_protected() {
        let mut layer = LayerPolicy::command_line();
        let path = PathPattern::exactly(OsStr::from_bytes(b"/a/\xff[1]")).unwrap();
        layer.add_path(Access::Protect, path.as_os_str(), 1).unwrap();
        let context = Context {
            home: "/h".into(),
            cwd: "/h".into(),
            project: None,
            user: "u".into(),
            uid: 1,
            runtime_dir: None,
            ..Context::default()
        };
        let resolved = merge(vec![layer]).resolve(&context).unwrap();
        let rules = NameRules::new(resolved.protected_paths());
        assert!(matches!(rules.judge(b"/a/\xff[1]/x", 1), NameStatus::Protected(_)));
        assert_eq!(rules.judge(b"/a/1", 1), NameStatus::Free);
    }
}
