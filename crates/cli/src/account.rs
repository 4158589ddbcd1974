// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Launching as another user: whoever breaks out is an account that owns nothing of yours.
//!
//! All of the launcher becomes that user before it looks at anything, for good, and starts anew: its home, its policy
//! files and its kept plans are the account's. Only root can.

use crate::output;
use crate::run::FAILURE;
use clap::{Command as Parser, CommandFactory};
use palisade_host::account::{self, AccountError, Databases};
use rustix::fs::Access;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const OPTION: &str = "account";
/// What of the caller's environment the account gets: how the terminal and the language are.
const KEPT: [&str; 5] = ["TERM", "COLORTERM", "LANG", "LANGUAGE", "TZ"];
const KEPT_PREFIX: &[u8] = b"LC_";
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

#[derive(Debug, thiserror::Error)]
enum BecomeError {
    #[error("there is no account {name:?} in /etc/passwd")]
    Unknown { name: String },
    #[error("{name} is root, who is nobody to run as")]
    Root { name: String },
    #[error("only root can launch as {name}")]
    NotRoot { name: String, verb: String },
    #[error(transparent)]
    Database(#[from] AccountError),
    #[error("can't become {name}: {source}")]
    Become { name: String, source: rustix::io::Errno },
    #[error("can't start {program:?} as {name}: {source}")]
    Start { name: String, program: PathBuf, source: std::io::Error },
}

impl BecomeError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unknown { name } => {
                format!("useradd --system --create-home --shell /usr/sbin/nologin {name}")
            }
            Self::NotRoot { name, verb } => format!("sudo palisade {verb} --{OPTION} {name} …"),
            Self::Start { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                "install palisade where every user may execute it: /usr/local/bin".to_owned()
            }
            _ => return None,
        })
    }
}

/// Becomes `name`, if the caller isn't: then this program is started anew and this doesn't return. Otherwise, or when
/// it can't, the exit code to end with, if any.
pub(crate) fn ensure(name: Option<&str>, arguments: &[OsString]) -> Option<u8> {
    let error = become_account(name?, arguments).err()?;
    output::error(&error, error.hint().as_deref());
    Some(FAILURE)
}

fn become_account(name: &str, arguments: &[OsString]) -> Result<(), BecomeError> {
    let name = name.to_owned();
    let Some((uid, gid, home)) = account::by_name(&name, &Databases::default())? else {
        return Err(BecomeError::Unknown { name });
    };
    if uid == 0 {
        return Err(BecomeError::Root { name });
    }
    let own = rustix::process::geteuid();
    if own.as_raw() == uid {
        return Ok(());
    }
    if !own.is_root() {
        let verb = arguments.first().map(|verb| verb.to_string_lossy().into_owned()).unwrap_or_default();
        return Err(BecomeError::NotRoot { name, verb });
    }
    let program = std::env::current_exe().unwrap_or_else(|_unknown| PathBuf::from("palisade"));
    let failed = |source| BecomeError::Become { name: name.clone(), source };
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
    // There is one thread. Groups first: afterwards nobody may change them. None but its own: membership is what an
    // account would have in common with others.
    set_thread_groups(&[group]).map_err(failed)?;
    set_thread_res_gid(group, group, group).map_err(failed)?;
    set_thread_res_uid(user, user, user).map_err(failed)?;
    enter(&home);
    let parser = <crate::Cli as CommandFactory>::command();
    let mut anew = Command::new("/proc/self/exe");
    anew.arg0(env!("CARGO_BIN_NAME")).args(without_option(arguments, &parser)).env_clear();
    let kept =
        |name: &OsStr| KEPT.iter().any(|kept| name == *kept) || name.as_bytes().starts_with(KEPT_PREFIX);
    anew.envs(std::env::vars_os().filter(|(name, _value)| kept(name)));
    anew.env("HOME", &home).env("USER", &name).env("LOGNAME", &name).env("PATH", SYSTEM_PATH);
    Err(BecomeError::Start { name, program, source: anew.exec() })
}

/// Goes where the account can be: a directory of somebody else's is no place to start in.
fn enter(home: &Path) {
    if rustix::fs::access(".", Access::READ_OK | Access::EXEC_OK).is_err() {
        let _or_there = rustix::process::chdir(home).or_else(|_| rustix::process::chdir("/"));
    }
}

/// The arguments without this option, as far as they are the launcher's.
fn without_option(arguments: &[OsString], parser: &Parser) -> Vec<OsString> {
    let Some((verb, rest)) = arguments.split_first() else { return Vec::new() };
    let options = verb.to_str().and_then(|verb| parser.find_subcommand(verb));
    let takes_value = |long: &str| {
        options
            .and_then(|options| options.get_arguments().find(|option| option.get_long() == Some(long)))
            .is_some_and(|option| option.get_action().takes_values())
    };
    let short_takes_value = |short: char| {
        options
            .and_then(|options| options.get_arguments().find(|option| option.get_short() == Some(short)))
            .is_some_and(|option| option.get_action().takes_values())
    };
    let mut kept = vec![verb.clone()];
    let mut rest = rest.iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        if text == "--" || !text.starts_with('-') || text == "-" {
            kept.push(argument.clone());
            break;
        }
        let (long, own_value) = match text.strip_prefix("--") {
            Some(long) => long.split_once('=').map_or((long, false), |(long, _value)| (long, true)),
            None => ("", false),
        };
        let value = !own_value
            && (takes_value(long)
                || (long.is_empty()
                    && text.chars().nth(1).is_some_and(short_takes_value)
                    && text.len() == 2));
        let value = if value { rest.next() } else { None };
        if long != OPTION {
            kept.push(argument.clone());
            kept.extend(value.cloned());
        }
    }
    kept.extend(rest.cloned());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_goes_and_everything_else_stays() {
        let parser = <crate::Cli as CommandFactory>::command();
        for (given, expected) in [
            ("run --account a true", "run true"),
            ("run --account=a --ro /x -- ls --account b", "run --ro /x -- ls --account b"),
            ("run --ro --account --account a -c x", "run --ro --account -c x"),
            ("run -q --net host --account a ls -l --account c", "run -q --net host ls -l --account c"),
            ("open --account a --config x p --account y", "open --config x p --account y"),
            ("run -c --account --account a", "run -c --account"),
        ] {
            let given: Vec<OsString> = given.split(' ').map(OsString::from).collect();
            let kept = without_option(&given, &parser);
            assert_eq!(kept.join(OsStr::new(" ")), expected);
        }
    }
}
