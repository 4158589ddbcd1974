// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--account`: launches as another user. [`palisade_sandbox::apply::account`] changes the user. This module computes
//! the arguments with which this program starts again.

use crate::output;
use clap::{Command as Parser, CommandFactory};
use palisade_sandbox::apply::account::{self, BecomeError};
use std::ffi::OsString;

const OPTION: &str = "account";

fn hint(error: &BecomeError, arguments: &[OsString]) -> Option<String> {
    Some(match error {
        BecomeError::Unknown { name } if is_for_useradd(name) => {
            format!("sudo useradd --system --create-home --shell /usr/sbin/nologin {name}")
        }
        BecomeError::Unknown { .. } => "getent passwd   # lists the accounts".to_owned(),
        BecomeError::NotRoot { name } => {
            let verb = arguments.first().map(|verb| verb.to_string_lossy()).unwrap_or_default();
            format!("sudo palisade {verb} --{OPTION} {name} …")
        }
        BecomeError::Start { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            "install palisade where every user may execute it: /usr/local/bin".to_owned()
        }
        _ => return None,
    })
}

/// Whether `useradd` makes an account of this name.
fn is_for_useradd(name: &str) -> bool {
    let begins = |first: char| first.is_ascii_lowercase() || first == '_';
    name.len() <= 32
        && name.starts_with(begins)
        && name.chars().all(|c| begins(c) || c.is_ascii_digit() || c == '-')
}

/// Becomes the user `name`, unless the caller is that user already: this program executes itself again, and this
/// function doesn't return. Returns whether the launch may go on. If not, the error has been printed.
pub(crate) fn ensure(name: Option<&str>, arguments: &[OsString]) -> bool {
    let anew = || without_option(arguments, &<crate::Cli as CommandFactory>::command());
    let became = name.map_or(Ok(()), |name| account::ensure(name, env!("CARGO_BIN_NAME"), anew));
    if let Err(error) = &became {
        output::error(error, hint(error, arguments).as_deref());
    }
    became.is_ok()
}

/// The launcher's own arguments without the option `--account`, then the rest unchanged.
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
    use std::ffi::OsStr;

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
