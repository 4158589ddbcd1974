// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hints about a launch of an application: its policy isn't that of `palisade run`, so neither is the command that helps.

use crate::output;
use palisade::Situation;
use palisade::explanation::CommandExplanation;
use palisade_sandbox::error::{StartError, quoted};
use rustix::io::Errno;
use std::ffi::OsStr;

/// Options that only `palisade run` has.
const OF_RUN: [&str; 2] = ["--plan", "--profile"];

/// Reports why an application couldn't be started.
pub(crate) fn fail(error: &StartError, profile: &OsStr, situation: Option<&Situation>) -> u8 {
    let hint = situation.and_then(|situation| permit(error, situation)).or_else(|| hint(error, profile));
    output::error(error, hint.as_deref());
    error.exit_code()
}

/// The option that makes the program visible inside, as `palisade explain` finds it.
fn permit(error: &StartError, situation: &Situation) -> Option<String> {
    let (StartError::NotFound { command } | StartError::NoInterpreter { command, .. }) = error else {
        return None;
    };
    let permit = CommandExplanation::of(situation, OsStr::new(command)).ok()?.permit?;
    Some(of_application(permit))
}

fn hint(error: &StartError, profile: &OsStr) -> Option<String> {
    let (StartError::NotFound { command }
    | StartError::NoInterpreter { command, .. }
    | StartError::NotExecutable { command, .. }) = error
    else {
        return error.hint().map(of_application);
    };
    if matches!(error, StartError::NotExecutable { source: Errno::NOEXEC, .. }) {
        return Some(format!(
            "head -n 1 {} | cat -v   # a script needs a first line such as #!/bin/sh",
            quoted(command)
        ));
    }
    Some(format!(
        "palisade explain --open {} --command {}   # what it needs, and what of that is visible inside",
        quoted(&profile.to_string_lossy()),
        quoted(command)
    ))
}

/// A hint about `palisade run` as one about `palisade open`. Other hints stay as they are.
pub(crate) fn of_application(hint: String) -> String {
    let (command, comment) = hint.split_at(hint.find("   #").unwrap_or(hint.len()));
    let options = command.strip_prefix("palisade run ").and_then(|words| {
        let options = words.strip_suffix("-- COMMAND…").or_else(|| words.strip_suffix('…'))?.trim_end();
        let fits = !options.is_empty() && !OF_RUN.iter().any(|option| options.contains(option));
        fits.then_some(options)
    });
    options.map_or_else(|| hint.clone(), |options| format!("palisade open {options} …{comment}"))
}

#[cfg(test)]
mod tests {
    use super::of_application;

    #[test]
    fn only_hints_about_options_that_open_has_are_changed() {
        let of = |hint: &str| of_application(hint.to_owned());
        assert_eq!(of("palisade run --ro /x -- COMMAND…"), "palisade open --ro /x …");
        assert_eq!(
            of("palisade run --view system -- COMMAND…   # all of /usr"),
            "palisade open --view system …   # all of /usr"
        );
        assert_eq!(
            of("palisade run --best-effort …   # without"),
            "palisade open --best-effort …   # without"
        );
        for other in [
            "palisade run -- COMMAND…",
            "palisade doctor   # says",
            "palisade run --profile NAME -- COMMAND…",
        ] {
            assert_eq!(of(other), other);
        }
    }
}
