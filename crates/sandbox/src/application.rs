// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a profile to the command that opens its application.

use crate::error::PlanError;
use crate::facts::Facts;
use crate::layers::Loaded;
use palisade_policy::word::{List, PassFiles, Switch, Word};
use palisade_policy::{Access, Application, Layer, LayerPolicy, Policy, template};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Shells that a user would want to look around with, the best first.
const SHELLS: [&str; 3] = ["/bin/bash", "/usr/bin/bash", "/bin/sh"];

/// What an application is called before its profile is known.
#[must_use]
pub fn named(profile: &OsStr) -> Application {
    // A file's is what it is called without its ending.
    let file = Path::new(profile).file_name().unwrap_or(profile).to_string_lossy();
    Application { name: file.strip_suffix(".toml").unwrap_or(&file).to_owned(), id: None }
}

/// Decides what is run: wrapper, program and arguments as the profile says, then the caller's arguments.
///
/// Returns the program. Files that the arguments name are added to the policy, as far as the profile has them passed.
///
/// # Errors
/// When there is no such program, or an argument can't be filled in.
pub fn compose(facts: &mut Facts, loaded: &mut Loaded, arguments: &[OsString]) -> Result<PathBuf, PlanError> {
    let id = loaded.policy.word(Word::Id).map(|id| id.value);
    if let Some(application) = &mut facts.application {
        application.id = id;
    }
    let context = crate::planner::context(facts, loaded.project.as_deref());
    let policy = &loaded.policy;
    let filled = |list: List| -> Vec<OsString> {
        // One that refers to what isn't there is left out, as a rule would be.
        policy.list(list).iter().filter_map(|entry| template::fill(&entry.value, &context).ok()).collect()
    };
    let mut prefix = filled(List::Wrapper);
    let wrapped = !prefix.is_empty();
    let packed = facts.package().map(|package| package.program.clone());
    let program = if let Some(program) = packed {
        program
    } else if policy.switch(Switch::Shell).value {
        shell()
    } else {
        program(facts, loaded)?
    };
    if wrapped {
        facts.programs.push(program.clone().into_os_string());
    }
    prefix.push(program.clone().into_os_string());
    if !policy.switch(Switch::Shell).value {
        prefix.extend(filled(List::Arguments));
    }
    let passed = passed(policy.pass_files().value, &facts.cwd, arguments);
    if let Some(passed) = passed {
        loaded.policy = loaded.policy.clone().combine(Policy::from(passed.layer));
        prefix.extend(passed.arguments);
        facts.complete = true;
        facts.command.clone_from(&prefix);
    } else {
        facts.command = prefix.iter().chain(arguments).cloned().collect();
    }
    facts.prefix = prefix;
    Ok(program)
}

/// A shell to look around with.
#[must_use]
pub fn shell() -> PathBuf {
    SHELLS.into_iter().map(PathBuf::from).find(|shell| shell.exists()).unwrap_or_else(|| "/bin/sh".into())
}

/// The first of a profile's programs that is there.
fn program(facts: &Facts, loaded: &Loaded) -> Result<PathBuf, PlanError> {
    let name = facts.application.as_ref().map(|application| application.name.clone()).unwrap_or_default();
    program_of(facts, &name, &loaded.policy).ok_or_else(|| {
        let package = loaded.profile.as_ref().and_then(|profile| profile.launch.as_ref()?.package.clone());
        let tried = candidates(&name, &loaded.policy);
        PlanError::NotInstalled { profile: name, tried, package }
    })
}

/// What a profile's program may be called.
fn candidates(name: &str, policy: &Policy) -> Vec<String> {
    let stated = policy.word(Word::Program).map_or_else(|| name.to_owned(), |word| word.value);
    let alternatives = policy.list(List::Alternatives);
    std::iter::once(stated).chain(alternatives.into_iter().map(|entry| entry.value)).collect()
}

/// The first of a profile's programs that is on this host.
#[must_use]
pub fn program_of(facts: &Facts, name: &str, policy: &Policy) -> Option<PathBuf> {
    let context = crate::planner::context(facts, None);
    candidates(name, policy).iter().find_map(|candidate| {
        let filled = match candidate.strip_prefix('~') {
            Some(rest) => [context.home.as_os_str(), rest.as_ref()].concat_os(),
            None => template::fill(candidate, &context).ok()?,
        };
        facts.program(&filled)
    })
}

/// Joining pieces of names.
trait ConcatOs {
    fn concat_os(&self) -> OsString;
}

impl ConcatOs for [&OsStr; 2] {
    fn concat_os(&self) -> OsString {
        let mut whole = self[0].to_owned();
        whole.push(self[1]);
        whole
    }
}

/// Files that arguments name.
struct Passed {
    /// What shows them.
    layer: LayerPolicy,
    /// All arguments, those files by absolute paths: inside the program may start elsewhere.
    arguments: Vec<OsString>,
}

/// Whether an argument may name a file, and which.
fn file_of(argument: &OsStr, cwd: &Path) -> Option<PathBuf> {
    let bytes = argument.as_bytes();
    let path = match bytes.strip_prefix(b"file://") {
        Some(rest) => PathBuf::from(OsString::from_vec(percent_decoded(rest)?)),
        None if bytes.is_empty() || bytes.starts_with(b"-") => return None,
        None => cwd.join(argument),
    };
    path.is_absolute().then(|| path.canonicalize().ok()).flatten()
}

/// Whether one of the arguments names a file.
#[must_use]
pub fn names_files(arguments: &[OsString], cwd: &Path) -> bool {
    arguments.iter().any(|argument| file_of(argument, cwd).is_some())
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

/// Shows the files that arguments name; nothing if they aren't passed or none is named.
fn passed(mode: PassFiles, cwd: &Path, arguments: &[OsString]) -> Option<Passed> {
    let accesses: &[Access] = match mode {
        PassFiles::None => return None,
        PassFiles::Read => &[Access::Read],
        PassFiles::Execute => &[Access::Execute],
        PassFiles::Write => &[Access::Write],
    };
    let mut layer = LayerPolicy::command_line();
    let mut whole = Vec::with_capacity(arguments.len());
    let mut any = false;
    for (nth, argument) in arguments.iter().enumerate() {
        let Some(file) = file_of(argument, cwd) else {
            whole.push(argument.clone());
            continue;
        };
        let at = u32::try_from(nth).unwrap_or(u32::MAX);
        let Ok(pattern) = palisade_policy::PathPattern::exactly(&file) else {
            whole.push(argument.clone());
            continue;
        };
        for access in accesses {
            // The pattern was just made from the path.
            let _fits = layer.add_path(*access, pattern.as_os_str(), at);
        }
        any = true;
        whole.push(file.into_os_string());
    }
    debug_assert_eq!(layer.layer, Layer::CommandLine);
    any.then_some(Passed { layer, arguments: whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_passed_by_their_real_paths() {
        let directory = tempfile::tempdir().unwrap();
        let cwd = directory.path().canonicalize().unwrap();
        std::fs::write(cwd.join("a b*.pdf"), "").unwrap();
        std::os::unix::fs::symlink("a b*.pdf", cwd.join("link")).unwrap();
        let arguments: Vec<OsString> =
            ["-x", "a b*.pdf", "link", "none", "https://x/a", ""].map(OsString::from).into();
        let passed = passed(PassFiles::Read, &cwd, &arguments).unwrap();
        let real = cwd.join("a b*.pdf").into_os_string();
        assert_eq!(passed.arguments[1], real);
        assert_eq!(passed.arguments[2], real);
        assert_eq!(passed.arguments[3..], ["none", "https://x/a", ""]);
        assert_eq!(passed.layer.settings.paths.len(), 2);
        assert!(passed.layer.settings.paths.iter().all(|rule| !rule.pattern.is_glob()));
        let url = format!("file://{}/a%20b%2A.pdf", cwd.display());
        assert_eq!(file_of(url.as_ref(), &cwd), Some(cwd.join("a b*.pdf")));
        assert!(!names_files(&["-x".into(), "none".into(), "file://%zz".into()], &cwd));
        assert!(super::passed(PassFiles::None, &cwd, &arguments).is_none());
    }
}
