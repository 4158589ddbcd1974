// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a launch of a coding agent depends on besides its policy: its home, its login, and its keys.

use crate::facts::Facts;
use crate::view::resources::home_directory;
use palisade_policy::agent::Agent;
use palisade_policy::environment::EnvironmentRule;
use palisade_policy::{LayerPolicy, Policy};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

/// The host's directory for the agent's home, if the policy keeps one.
#[must_use]
pub fn home(facts: &Facts, policy: &Policy) -> Option<PathBuf> {
    home_directory(facts, policy).map(|(_policy, directory)| directory)
}

/// The names of the keys that the policy passes on, of an API or an account.
#[must_use]
pub fn keys(policy: &Policy) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for rule in &policy.settings().environment {
        if let EnvironmentRule::Keep(name) = &rule.value
            && !name.contains('*')
            && (name.ends_with("_KEY") || name.ends_with("_TOKEN"))
            && !names.contains(name)
        {
            names.push(name.clone());
        }
    }
    names
}

/// A note about an agent that has neither a login nor a key. The plan depends on both.
pub(super) fn notes(facts: &Facts, profile: &LayerPolicy, policy: &Policy) -> Vec<String> {
    let Some(agent) = &profile.agent else { return Vec::new() };
    let Some(home) = home(facts, policy) else { return Vec::new() };
    let logged_in = has_login(facts, agent, &home);
    let keys = keys(policy);
    keys.iter().for_each(|key| facts.depends_on_variable(key));
    if logged_in || keys.iter().any(|key| facts.environment.get(key).is_some()) {
        return Vec::new();
    }
    let name = profile.name.as_ref().map(|name| name.value.as_str()).unwrap_or_default();
    let key = keys.first().map(|key| format!(", or set {key}")).unwrap_or_default();
    vec![format!(
        "{name} has no login in its own home: log in inside, or copy yours with `palisade agent setup {name}`{key}"
    )]
}

/// Whether the home has one of the files of a login.
fn has_login(facts: &Facts, agent: &Agent, home: &Path) -> bool {
    let there: Vec<bool> = agent.login.iter().map(|file| facts.is_there(&home.join(file))).collect();
    agent.login.is_empty() || there.contains(&true)
}

/// Writes a file into a home, whatever programs inside have left there: no link is followed, and the file that was there
/// is replaced as a whole. Only the user can read the new one.
///
/// # Errors
/// When a directory can't be made, something else has its name, or the file can't be written.
pub fn put(home: &Path, name: &Path, content: &[u8]) -> std::io::Result<()> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(home)?;
    let mut at = rustix::fs::open(home, directory, Mode::empty())?;
    let mut names = name.components().peekable();
    while let Some(name) = names.next() {
        let Component::Normal(name) = name else { return Err(Errno::INVAL.into()) };
        if names.peek().is_some() {
            match mkdirat(&at, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            at = openat(&at, name, directory, Mode::empty())?;
            continue;
        }
        let temporary = format!(".palisade-{}", std::process::id());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let made = openat(&at, &temporary, flags, Mode::RUSR | Mode::WUSR)?;
        let mut made = std::fs::File::from(made);
        let written = made.write_all(content).and_then(|()| made.sync_all());
        let written = written.and_then(|()| Ok(renameat(&at, &temporary, &at, name)?));
        if written.is_err() {
            let _nothing_left = unlinkat(&at, &temporary, AtFlags::empty());
        }
        return written;
    }
    Ok(())
}
