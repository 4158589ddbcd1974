// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers in a sandbox. About paths and programs the kernel knows; about hosts and protected names the launch has left
//! its policy inside. Nothing is opened or connected to, so no answer is a refusal that the user sees.

use super::tools::{Access, Answer, Subject};
use palisade_event::Object;
use palisade_policy::NetworkMode;
use palisade_policy::names::NameStatus;
use palisade_policy::network::{Fallback, Judge, NetworkVerdict, host_port};
use palisade_policy::{Origin, Strength};
use palisade_sandbox::refusals::{FILE, InsidePolicy};
use palisade_text::quoted;
use rustix::fs::{Access as Mode, StatVfsMountFlags};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// More of the file of refusals isn't read.
const LARGEST: u64 = 4 << 20;
/// The most refusals in an answer.
const MOST: usize = 100;
/// What is missing where the launch told nothing.
const UNTOLD: &str =
    "the launch doesn't tell programs inside about its policy; the user can add --refusals to it";

/// What is known about a subject.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) verdict: NetworkVerdict,
    /// Why, in a sentence.
    pub(super) why: String,
    /// The place of the rule.
    rule: Option<Origin>,
    /// The command by which the user permits it.
    pub(super) command: Option<String>,
}

impl Known {
    fn new(allowed: bool, why: impl Into<String>) -> Self {
        let verdict = if allowed { NetworkVerdict::Allow } else { NetworkVerdict::Deny };
        Self { verdict, why: why.into(), rule: None, command: None }
    }

    fn permitted_by(self, command: String) -> Self {
        Self { command: Some(command), ..self }
    }
}

/// A command of the user's with one option. The options of the launch follow behind a command that launches.
fn command(verb: &str, option: &str, value: &str) -> String {
    let words = ["palisade", verb, option, &quoted(value)].join(" ");
    if verb == "run" { words + " …" } else { words }
}

/// Explains.
pub(super) fn explain(policy: Option<&InsidePolicy>, subject: &Subject) -> Answer {
    let known = match know(policy, subject) {
        Ok(known) => known,
        Err(why) => return Answer::error(&why),
    };
    let about = match subject {
        Subject::Path(path, access) => {
            json!({ "kind": "path", "path": path.to_string_lossy(), "access": word(*access) })
        }
        Subject::Host(host) => json!({ "kind": "host", "host": host }),
        Subject::Command(command) => json!({ "kind": "command", "command": command }),
    };
    Answer::new(json!({
        "about": about,
        "allowed": known.verdict == NetworkVerdict::Allow,
        "verdict": known.verdict,
        "why": known.why,
        "rule": known.rule,
        "user_command": known.command,
        "retry": false,
    }))
}

const fn word(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
        Access::Execute => "execute",
    }
}

/// Finds out.
pub(super) fn know(policy: Option<&InsidePolicy>, subject: &Subject) -> Result<Known, String> {
    match subject {
        Subject::Path(path, access) => Ok(of_path(policy, path, *access)),
        Subject::Host(host) => of_host(policy.ok_or(UNTOLD)?, host),
        Subject::Command(command) => Ok(of_command(policy, command)),
    }
}

/// What the launch's file of refusals has.
pub(super) fn refusals() -> Answer {
    let mut text = String::new();
    let read = File::open(FILE).and_then(|file| file.take(LARGEST).read_to_string(&mut text));
    if read.is_err() {
        return Answer::error(UNTOLD);
    }
    let all: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    listed(all)
}

/// The newest of these refusals.
pub(super) fn listed(mut all: Vec<Value>) -> Answer {
    let older = all.len().saturating_sub(MOST);
    let newest = all.split_off(older);
    Answer::new(json!({ "refusals": newest, "older": older, "next": "Do not retry any of these." }))
}

fn of_path(policy: Option<&InsidePolicy>, given: &Path, access: Access) -> Known {
    let path = real(given);
    let option = if access == Access::Write { "--rw" } else { "--ro" };
    let permit = command("run", option, &path.to_string_lossy());
    let exists = path.symlink_metadata().is_ok();
    if !exists && access != Access::Write {
        return Known::new(
            false,
            "nothing is there inside: it doesn't exist, or the sandbox doesn't show it",
        )
        .permitted_by(permit);
    }
    if access == Access::Write
        && let Some(known) = policy.and_then(|policy| of_name(policy, &path))
    {
        return known;
    }
    // What doesn't exist is made in the directory above it.
    let asked = if exists { Some(path.as_path()) } else { path.parent() };
    let mode = match access {
        Access::Read => Mode::READ_OK,
        Access::Write => Mode::WRITE_OK,
        Access::Execute => Mode::EXEC_OK,
    };
    let Some(asked) = asked else { return Known::new(false, "the path has no directory") };
    let flags = rustix::fs::statvfs(asked).map(|found| found.f_flag).unwrap_or(StatVfsMountFlags::empty());
    if access == Access::Write && flags.contains(StatVfsMountFlags::RDONLY) {
        return Known::new(false, "the sandbox shows it read-only").permitted_by(permit);
    }
    if access == Access::Execute && asked.is_file() && flags.contains(StatVfsMountFlags::NOEXEC) {
        return Known::new(false, "nothing there can be executed").permitted_by(permit);
    }
    match rustix::fs::access(asked, mode) {
        Ok(()) => Known::new(true, "the sandbox shows it with this access"),
        Err(errno) if asked.symlink_metadata().is_err() => {
            Known::new(false, format!("the directory above it isn't there inside: {errno}"))
                .permitted_by(permit)
        }
        Err(errno) => Known::new(
            false,
            format!("{errno}: by its mode and owner, or because the policy denies it; its owner decides"),
        ),
    }
}

/// A protected name, whose writing the broker refuses.
fn of_name(policy: &InsidePolicy, path: &Path) -> Option<Known> {
    let tree = policy.writable.iter().filter(|tree| path.starts_with(tree));
    let root = tree.map(|tree| tree.components().count() - 1).max()?;
    match policy.names.judge(path.as_os_str().as_bytes(), root) {
        NameStatus::Protected(rule) => {
            let known = Known::new(false, format!("{} is protected: {}", rule.path, rule.reason));
            let known = Known { rule: Some(rule.origin.clone()), ..known };
            Some(match rule.locked {
                true => known,
                false => known.permitted_by(command("run", "--allow-name", &rule.path)),
            })
        }
        NameStatus::Free | NameStatus::Holder(_) => None,
    }
}

/// The path with the links on it followed, as far as it exists.
fn real(given: &Path) -> PathBuf {
    let absolute = std::path::absolute(given).unwrap_or_else(|_gone| given.to_owned());
    let Some((above, name)) = absolute.parent().zip(absolute.file_name()) else { return absolute };
    match absolute.canonicalize() {
        Ok(real) => real,
        Err(_missing) => above.canonicalize().unwrap_or_else(|_missing| above.to_owned()).join(name),
    }
}

fn of_host(policy: &InsidePolicy, text: &str) -> Result<Known, String> {
    let (whom, port) = host_port(text).ok_or_else(|| format!("{text:?} is no host"))?;
    // The text may be a URL.
    let shown = match &whom {
        Ok(name) => Object::host(name.as_str(), port.unwrap_or_default()),
        Err(address) => Object::host(address.to_string(), port.unwrap_or_default()),
    };
    let permit = command("run", "--allow", &shown.to_string());
    let is_loopback = match &whom {
        Ok(name) => name.as_str() == "localhost",
        Err(address) => address.is_loopback(),
    };
    match policy.network {
        NetworkMode::Host => return Ok(Known::new(true, "the sandbox has the host's network")),
        NetworkMode::None if is_loopback => {}
        NetworkMode::None => {
            let known = Known::new(false, "the sandbox has no network");
            // A lock that a command can't change is no reason to propose one.
            return Ok(if policy.network_locked { known } else { known.permitted_by(permit) });
        }
        NetworkMode::Filtered => {}
    }
    if is_loopback {
        return Ok(Known::new(true, "it is the sandbox's own loopback; the host's can't be reached"));
    }
    let judge = Judge::new(&policy.rules);
    let ruling = match (&whom, port) {
        (Ok(name), Some(port)) => judge.name(name, port),
        (Ok(name), None) => judge.lookup(name),
        (Err(address), Some(port)) => judge.address(*address, port),
        (Err(address), None) => judge.any_port(*address),
    };
    let why = match (ruling.rule, ruling.private, policy.rules.fallback) {
        (Some(rule), _, _) => {
            let word = if rule.allow { "allows" } else { "denies" };
            let reason = rule.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("a rule {word} {}{reason}", rule.target)
        }
        (None, true, _) => "it isn't an address of the public internet, and no rule allows it".to_owned(),
        (None, false, Fallback::Deny) => "no rule allows it".to_owned(),
        (None, false, Fallback::Ask) => {
            "no rule matches it: the user is asked when it is connected to".to_owned()
        }
        (None, false, Fallback::Allow) => "no rule denies it".to_owned(),
    };
    let is_locked = ruling.rule.is_some_and(|rule| !rule.allow && rule.strength == Strength::Locked);
    let command = (ruling.verdict != NetworkVerdict::Allow && !is_locked).then_some(permit);
    Ok(Known { verdict: ruling.verdict, why, rule: ruling.rule.map(|rule| rule.origin.clone()), command })
}

fn of_command(policy: Option<&InsidePolicy>, name: &str) -> Known {
    if name.contains('/') {
        return of_path(policy, Path::new(name), Access::Execute);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .filter(|file| file.is_file())
        .find(|file| of_path(policy, file, Access::Execute).verdict == NetworkVerdict::Allow);
    match found {
        Some(file) => Known::new(true, format!("it is {}", quoted(&file.to_string_lossy()))),
        None => {
            Known::new(false, "no directory of PATH has a program of this name that can be executed inside")
                .permitted_by(command("explain", "--command", name))
        }
    }
}
