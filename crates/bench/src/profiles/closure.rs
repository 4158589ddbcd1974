// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads what a plan shows, and finds the programs and libraries in it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The total number of directory entries that are examined. Some directories are shown as a whole: those of plugins, but also
/// those of manuals.
const MOST_ENTRIES: usize = 50_000;
/// The directories of programs and libraries.
const SYSTEM: [&str; 6] = ["/usr", "/lib", "/lib64", "/bin", "/sbin", "/opt"];

/// The paths that a plan shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The program that it starts.
    pub(crate) program: Option<String>,
    /// Files and directories of the system, by their paths on the host.
    pub(crate) paths: BTreeSet<PathBuf>,
}

impl Shown {
    /// Parses the output of `open --dry-run --json`.
    pub(crate) fn parse(plan: &[u8]) -> Option<Self> {
        let plan: Value = serde_json::from_slice(plan).ok()?;
        let steps = plan.get("steps")?.as_array()?;
        let texts = |kind: &'static str, field: &'static str| {
            steps.iter().filter_map(move |step| step.get(kind)?.get(field)?.as_str())
        };
        let allowed: BTreeSet<PathBuf> =
            texts("allow", "path").map(|path| Path::new("/").join(path)).collect();
        // If a plan binds a whole directory but allows only some paths in it, only these paths count.
        let whole = texts("bind", "source")
            .map(PathBuf::from)
            .filter(|source| !allowed.iter().any(|path| path != source && path.starts_with(source)));
        let paths = whole.chain(allowed.iter().cloned()).filter(|path| of_the_system(path)).collect();
        let program = plan.get("command").and_then(|command| Some(command.get(0)?.as_str()?.to_owned()));
        Some(Self { program, paths })
    }

    /// The ELF files among the paths, each once; and whether the limit was reached.
    pub(crate) fn elf_files(&self) -> (Vec<PathBuf>, bool) {
        let mut files = BTreeSet::new();
        let mut left = MOST_ENTRIES;
        for path in &self.paths {
            collect(path, &mut files, &mut left);
        }
        (files.into_iter().collect(), left == 0)
    }
}

fn of_the_system(path: &Path) -> bool {
    SYSTEM.iter().any(|directory| path.starts_with(directory))
}

/// A file that vanishes or can't be read isn't part of the closure.
fn collect(path: &Path, files: &mut BTreeSet<PathBuf>, left: &mut usize) {
    let Ok(path) = path.canonicalize() else { return };
    if path.is_dir() {
        let Ok(entries) = fs::read_dir(&path) else { return };
        for entry in entries.flatten() {
            if *left == 0 {
                return;
            }
            *left -= 1;
            // Links in a directory lead to files that are listed themselves, or that aren't shown.
            if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                collect(&entry.path(), files, left);
            }
        }
    } else if is_elf(&path) {
        files.insert(path);
    }
}

/// Whether it is a program or a library in ELF format. Object files have nothing to resolve.
fn is_elf(path: &Path) -> bool {
    let mut start = [0; 18];
    let read = path.is_file() && File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok());
    read && start.starts_with(b"\x7fELF") && matches!(start[16..], [2 | 3, 0] | [0, 2 | 3])
}

/// Up to `most` library files of the host that a profile can name, in a fixed order.
pub(crate) fn libraries(most: usize) -> Vec<PathBuf> {
    let paths = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from).into();
    let (files, _more) = Shown { program: None, paths }.elf_files();
    let plain = |path: &PathBuf| {
        path.to_str().is_some_and(|path| {
            path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/.-_+".contains(&byte))
                && path.contains(".so")
        })
    };
    files.into_iter().filter(plain).take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"{"command":["/usr/bin/vim","-e"],"steps":[
        {"root":{"size":"50%"}}, "enter",
        {"bind":{"source":"/usr","target":"usr"}},
        {"allow":{"path":"usr/bin/vim","rights":["execute"]}},
        {"bind":{"source":"/opt/x","target":"opt/x"}},
        {"bind":{"source":"/etc/passwd","target":"etc/passwd"}},
        {"file":{"path":"etc/hosts","content":""}}]}"#;

    #[test]
    fn what_is_shown_is_what_is_allowed_or_whole() {
        let shown = Shown::parse(PLAN.as_bytes()).unwrap();
        assert_eq!(shown.program.as_deref(), Some("/usr/bin/vim"));
        assert_eq!(shown.paths, ["/opt/x", "/usr/bin/vim"].map(PathBuf::from).into());
        assert_eq!(Shown::parse(b"{}"), None);
    }

    #[test]
    fn only_programs_and_libraries_are_resolved() {
        let directory = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        fs::copy(&own, directory.path().join("program")).unwrap();
        fs::write(directory.path().join("text"), "\x7fELF is not enough").unwrap();
        std::os::unix::fs::symlink("program", directory.path().join("link")).unwrap();
        let shown = Shown { program: None, paths: [directory.path().to_owned()].into() };
        let (files, more) = shown.elf_files();
        assert_eq!(files, [directory.path().canonicalize().unwrap().join("program")]);
        assert!(!more);
    }

    #[test]
    fn the_host_has_libraries() {
        let found = libraries(5);
        assert!(!found.is_empty() && found.len() <= 5, "{found:?}");
    }
}
