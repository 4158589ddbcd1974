// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts how much of the host a plan shows.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files that can be read inside; a file with two names counts once.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
}

impl Shown {
    /// Counts for a plan from `--dry-run --json`, except paths below `home` and devices.
    pub(crate) fn of(plan: &serde_json::Value, home: &Path) -> Option<Self> {
        let mut size = Self::default();
        let mut seen = BTreeSet::new();
        for step in plan["steps"].as_array()? {
            let (bind, allow) = (&step["bind"], &step["allow"]);
            let path = match (bind["source"].as_str(), allow["path"].as_str()) {
                (Some(source), _) => PathBuf::from(source),
                // What is allowed one by one is where it is on the host.
                (None, Some(path)) => Path::new("/").join(path),
                (None, None) => continue,
            };
            // Without the right to read files it is there for what is allowed in it, or for its names.
            let rights = bind["rights"].as_array().or(allow["rights"].as_array())?;
            let counts = rights.iter().any(|right| right == "read-file")
                && !path.starts_with(home)
                && ["/sys", "/proc", "/dev"].iter().all(|top| !path.starts_with(top));
            if counts {
                size.add(&path, &mut seen);
            }
        }
        Some(size)
    }

    fn add(&mut self, path: &Path, seen: &mut BTreeSet<(u64, u64)>) {
        let Ok(about) = path.symlink_metadata() else { return };
        if !seen.insert((about.dev(), about.ino())) {
            return;
        }
        if about.is_file() {
            self.files += 1;
            self.bytes += about.len();
        } else if about.is_dir() {
            for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
                self.add(&entry.path(), seen);
            }
        }
    }
}

#[test]
fn what_is_shown_counts_once() {
    let top = tempfile::tempdir().unwrap();
    let host = top.path().join("host");
    std::fs::create_dir_all(host.join("shut")).unwrap();
    std::fs::create_dir_all(host.join("home")).unwrap();
    for (name, content) in [("shut/a", "12"), ("shut/b", "345"), ("c", "6"), ("home/d", "7")] {
        std::fs::write(host.join(name), content).unwrap();
    }
    std::fs::hard_link(host.join("c"), host.join("shut/c")).unwrap();
    let path = |name: &str| host.join(name).to_str().unwrap().to_owned();
    let plan = serde_json::json!({"steps": [
        "enter",
        {"bind": {"source": path("shut"), "rights": []}},
        {"allow": {"path": path("shut/a").trim_start_matches('/'), "rights": ["read-file"]}},
        {"allow": {"path": path("shut/c").trim_start_matches('/'), "rights": ["read-file"]}},
        {"allow": {"path": ".", "rights": ["read-dir"]}},
        {"bind": {"source": path("c"), "rights": ["read-file"]}},
        {"bind": {"source": path("home"), "rights": ["read-file"]}},
        {"bind": {"source": path("gone"), "rights": ["read-file"]}},
    ]});
    assert_eq!(Shown::of(&plan, &host.join("home")), Some(Shown { files: 2, bytes: 3 }));
}
