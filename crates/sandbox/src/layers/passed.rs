// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which files that an application's arguments name are shown, and how.
//!
//! A passed file is a grant that the user didn't state, so the grant is narrow. Only a regular file is passed. A
//! directory is passed only if the profile passes directories, and never the home or a directory above it. A link that
//! a sandboxed command may have made grants nothing: if it leads out of its directory, its target is shown only if a
//! rule shows it. Paths that the policy hides or denies stay hidden or denied.

use crate::error::{PlanError, quoted};
use crate::facts::Facts;
use palisade_host::links;
use palisade_policy::decide::Decision;
use palisade_policy::hint::{Hint, Wanted};
use palisade_policy::resolve::Resolved;
use palisade_policy::word::{PassFiles, Switch};
use palisade_policy::{Access, Context, Grant, Layer, LayerPolicy, PathPattern, PathRule, Policy, Strength};
use rustix::fs::FileType;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The result for a list of arguments.
pub(crate) struct Passed {
    /// The grants for the files that they name.
    pub(crate) grants: Policy,
    /// All arguments. Files and directories have absolute paths, because inside the program may start in another directory.
    pub(crate) arguments: Vec<OsString>,
    /// Notes for the user.
    pub(crate) notes: Vec<String>,
}

/// The absolute path of an argument that may name a file. It may contain links, or not exist.
fn path_of(argument: &OsStr, cwd: &Path) -> Option<PathBuf> {
    let bytes = argument.as_bytes();
    let path = match bytes.strip_prefix(b"file://") {
        Some(rest) => PathBuf::from(OsString::from_vec(percent_decoded(rest)?)),
        None if bytes.is_empty() || bytes.starts_with(b"-") => return None,
        None => cwd.join(argument),
    };
    path.is_absolute().then_some(path)
}

/// Whether one of the arguments names an existing file.
#[must_use]
pub(crate) fn names_files(arguments: &[OsString], cwd: &Path) -> bool {
    arguments.iter().any(|argument| path_of(argument, cwd).is_some_and(|path| path.canonicalize().is_ok()))
}

fn percent_decoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

/// Decides which files that arguments name are shown; `None` if the policy passes no files, or no argument names one.
/// The plan depends on which files exist and on the targets of links.
///
/// # Errors
/// When the policy refuses one of them, or the path to it passes a link that a sandboxed command may have made.
pub(crate) fn pass(
    facts: &Facts,
    policy: &Policy,
    context: &Context,
    arguments: &[OsString],
) -> Result<Option<Passed>, PlanError> {
    let mode = policy.pass_files().value;
    if mode == PassFiles::None || !names_files(arguments, &facts.cwd) {
        return Ok(None);
    }
    let resolved = policy.resolve(context)?;
    let judge =
        Judge { facts, resolved: &resolved, mode, directories: policy.switch(Switch::PassDirectories).value };
    let mut files = LayerPolicy::command_line();
    // A passed directory's grant is weaker than rules about its content: the user named the directory, and not each file in it.
    let mut directories = LayerPolicy::command_line();
    directories.layer = Layer::Distribution;
    let mut passed = Passed { grants: Policy::default(), arguments: Vec::new(), notes: Vec::new() };
    for (nth, argument) in arguments.iter().enumerate() {
        let Some(path) = path_of(argument, &facts.cwd) else {
            passed.arguments.push(argument.clone());
            continue;
        };
        // A missing file may exist at the next launch, and an existing one may be another file then.
        facts.is_there(&path);
        let Some((real, verdict)) = judge.verdict(&path)? else {
            passed.arguments.push(argument.clone());
            continue;
        };
        let layer = match verdict {
            Verdict::File => Some(&mut files),
            Verdict::Directory => Some(&mut directories),
            Verdict::Ruled => None,
            Verdict::NotPassed(note) => {
                passed.notes.extend(note);
                None
            }
        };
        let at = u32::try_from(nth).unwrap_or(u32::MAX);
        if let Some(layer) = layer
            && let Ok(pattern) = PathPattern::exactly(&real)
        {
            // The pattern was just made from the path.
            let _fits = layer.add_path(judge.access(), pattern.as_os_str(), at);
        }
        passed.arguments.push(real.into_os_string());
    }
    passed.grants = Policy::from(directories).combine(Policy::from(files));
    Ok(Some(passed))
}

/// What happens to the path that an argument names.
enum Verdict {
    /// A file is shown.
    File,
    /// A directory is shown.
    Directory,
    /// Existing rules decide about it.
    Ruled,
    /// It isn't shown. The text is a note for the user, if one is needed.
    NotPassed(Option<String>),
}

struct Judge<'j> {
    facts: &'j Facts,
    resolved: &'j Resolved,
    mode: PassFiles,
    directories: bool,
}

impl Judge<'_> {
    const fn access(&self) -> Access {
        match self.mode {
            PassFiles::None | PassFiles::Read => Access::Read,
            PassFiles::Execute => Access::Execute,
            PassFiles::Write => Access::Write,
        }
    }

    /// The path without links, and what happens to it; `None` if it doesn't exist.
    fn verdict(&self, path: &Path) -> Result<Option<(PathBuf, Verdict)>, PlanError> {
        let Ok(way) = links::walk(&self.facts.names, path) else { return Ok(None) };
        let Ok(stat) = rustix::fs::stat(&way.end) else { return Ok(None) };
        let kind = FileType::from_raw_mode(stat.st_mode);
        let decision = self.resolved.decide(&way.end);
        let shown = matches!(decision.grant, Grant::Allowed { .. });
        let is_passed = match kind {
            FileType::RegularFile => true,
            FileType::Directory => self.directories,
            _ => false,
        };
        if !is_passed {
            let note = (!shown).then(|| self.not_passed(&way.end, kind)).flatten();
            return Ok(Some((way.end, Verdict::NotPassed(note))));
        }
        let trees = self.trees();
        let trees: Vec<&Path> = trees.iter().map(PathBuf::as_path).collect();
        if let Some(link) = way.escape(&trees) {
            if shown {
                return Ok(Some((way.end, Verdict::Ruled)));
            }
            let option = self.option(&way.end);
            return Err(PlanError::PassedLink { link: link.place.clone(), target: way.end, option });
        }
        if kind == FileType::Directory && self.holds_the_home(&way.end) {
            let note = (!shown).then(|| self.not_passed(&way.end, kind)).flatten();
            return Ok(Some((way.end, Verdict::NotPassed(note))));
        }
        if let Some(rule) = self.refusal(&way.end, decision) {
            let option = match rule.strength {
                // The locked rule may also name the path through a link, which a comparison of names doesn't find.
                Strength::Locked => Err(Some(Box::new(rule.clone()))),
                _ => self.option(&way.end),
            };
            return Err(PlanError::PassedRefused { path: way.end, rule: Box::new(rule), option });
        }
        let verdict = if kind == FileType::Directory { Verdict::Directory } else { Verdict::File };
        Ok(Some((way.end, verdict)))
    }

    /// Whether a directory is the user's home or one above it. It holds keys, and files that programs outside obey. A
    /// user who wants to show it states a rule.
    fn holds_the_home(&self, directory: &Path) -> bool {
        self.home().starts_with(directory)
    }

    /// The user's home, without links.
    fn home(&self) -> PathBuf {
        let home = &self.facts.account.home;
        self.facts.names.canonical(home).unwrap_or_else(|| home.clone())
    }

    /// The directories in which a sandboxed command may have made links: the working directory of the launch, and the
    /// directories that the policy makes writable.
    fn trees(&self) -> Vec<PathBuf> {
        let mut trees = vec![self.facts.cwd.clone()];
        for path in self.resolved.effective() {
            if matches!(path.grant, Grant::Allowed { write: true, .. }) {
                trees.extend(self.facts.names.canonical(&path.source));
            }
        }
        trees
    }

    /// The rule that hides or denies a path without links.
    fn refusal(&self, path: &Path, decision: Decision) -> Option<PathRule> {
        match decision.grant {
            Grant::Hidden | Grant::Denied => decision.because.into_iter().next(),
            Grant::Allowed { .. } => None,
            // A rule may name a link to a directory above the path.
            Grant::Absent | Grant::Tmpfs => {
                let refused = |grant| matches!(grant, Grant::Hidden | Grant::Denied);
                let effective = self.resolved.effective();
                let found = effective.into_iter().find(|one| {
                    refused(one.grant)
                        && self
                            .facts
                            .names
                            .canonical(&one.destination)
                            .is_some_and(|real| path.starts_with(real))
                });
                found.map(|one| one.rule)
            }
        }
    }

    /// The option that shows the path. If no option does, the error has the lock that forbids it.
    fn option(&self, path: &Path) -> Result<String, Option<Box<PathRule>>> {
        let wanted = match self.mode {
            PassFiles::None | PassFiles::Read => Wanted::Read,
            PassFiles::Execute => Wanted::Execute,
            PassFiles::Write => Wanted::Write,
        };
        match self.resolved.hint(path, wanted) {
            Hint::Option(option) => Ok(option),
            Hint::Locked(rule) => Err(Some(rule)),
            Hint::Allowed | Hint::Impossible => Err(None),
        }
    }

    /// The note about a path that isn't passed.
    fn not_passed(&self, path: &Path, kind: FileType) -> Option<String> {
        let what = match kind {
            FileType::Directory if self.facts.layout.shows(path) => return None,
            FileType::Directory if self.directories && path == self.home() => {
                "is your home, which isn't passed"
            }
            FileType::Directory if self.directories => "holds your home, and isn't passed",
            FileType::Directory => "is a directory, and only files are passed",
            FileType::Socket => "is a socket, and only files are passed",
            FileType::Fifo => "is a FIFO, and only files are passed",
            // Other rules show devices.
            _ => return None,
        };
        let how = self.option(path).map(|option| format!("; to show it: palisade open {option} …"));
        Some(format!("{} {what}{}", quoted(&path.to_string_lossy()), how.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_host::environment::Environment;

    fn facts(cwd: &Path) -> Facts {
        let environment = Environment::from_iter([("HOME", cwd)]);
        Facts::gather(environment, cwd.to_owned()).unwrap()
    }

    fn policy(mode: &str, more: &str) -> Policy {
        let text = format!("schema = 1\n[program]\npass_files = \"{mode}\"\n{more}");
        Policy::from(palisade_policy::parse(&text, None, Layer::User).unwrap())
    }

    fn passed(facts: &Facts, policy: &Policy, arguments: &[&str]) -> Result<Option<Passed>, PlanError> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        pass(facts, policy, &crate::plan::planner::context(facts, None), &arguments)
    }

    #[test]
    fn files_are_passed_by_their_real_paths() {
        let directory = tempfile::tempdir().unwrap();
        let cwd = directory.path().canonicalize().unwrap();
        std::fs::write(cwd.join("a b*.pdf"), "").unwrap();
        std::fs::create_dir(cwd.join("directory")).unwrap();
        std::os::unix::fs::symlink("a b*.pdf", cwd.join("link")).unwrap();
        let facts = facts(&cwd);
        let arguments = ["-x", "a b*.pdf", "link", "directory", "none", "https://x/a", ""];
        let found = passed(&facts, &policy("read", ""), &arguments).unwrap().unwrap();
        let real = cwd.join("a b*.pdf").into_os_string();
        assert_eq!(found.arguments[1], real);
        assert_eq!(found.arguments[2], real);
        assert_eq!(found.arguments[3], cwd.join("directory"));
        assert_eq!(found.arguments[4..], ["none", "https://x/a", ""]);
        let rules = found.grants.path_rules();
        assert_eq!(rules.len(), 2);
        assert!(rules.iter().all(|rule| !rule.pattern.is_glob()));
        assert!(found.notes.iter().any(|note| note.contains("is a directory")), "{:?}", found.notes);
        let url = format!("file://{}/a%20b%2A.pdf", cwd.display());
        assert_eq!(path_of(url.as_ref(), &cwd), Some(cwd.join("a b*.pdf")));
        assert!(!names_files(&["-x".into(), "none".into(), "file://%zz".into()], &cwd));
        assert!(passed(&facts, &policy("none", ""), &arguments).unwrap().is_none());
        let found =
            passed(&facts, &policy("read", "pass_directories = true\n"), &arguments).unwrap().unwrap();
        assert_eq!(found.grants.path_rules().len(), 3);
    }

    #[test]
    fn what_a_policy_refuses_is_not_passed() {
        let directory = tempfile::tempdir().unwrap();
        let cwd = directory.path().canonicalize().unwrap();
        std::fs::create_dir(cwd.join("private")).unwrap();
        std::fs::write(cwd.join("private/file"), "").unwrap();
        std::os::unix::fs::symlink("private", cwd.join("other")).unwrap();
        let facts = facts(&cwd);
        for name in ["private", "other"] {
            let policy = policy("write", &format!("[filesystem]\ndeny = [\"~/{name}\"]\n"));
            for argument in ["private/file", "other/file"] {
                let error = passed(&facts, &policy, &[argument]).err().unwrap();
                assert!(matches!(&error, PlanError::PassedRefused { .. }), "{error}");
            }
        }
    }
}
