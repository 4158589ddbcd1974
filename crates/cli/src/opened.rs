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
pub(crate) fn fail(error: &StartError, this: This<'_>, situation: Option<&Situation>) -> u8 {
    let hint = situation.and_then(|situation| permit(error, situation)).or_else(|| hint(error, this.profile));
    let hint = hint.map(|hint| if this.verb == "agent" { this.hint(hint) } else { hint });
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

/// The application that a launch opens, for hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct This<'a> {
    /// The verb that opens it: `open` or `agent`.
    pub(crate) verb: &'static str,
    /// Its profile.
    pub(crate) profile: &'a OsStr,
}

impl This<'_> {
    /// A hint about `palisade run` as one that opens this application again. Other hints stay as they are.
    pub(crate) fn hint(self, hint: String) -> String {
        let of = of_application(hint);
        match of.strip_prefix("palisade open ").and_then(|rest| rest.split_once('…')) {
            Some((options, rest)) if !options.contains(" -- ") && !options.contains('#') => {
                let profile = quoted(&self.profile.to_string_lossy());
                format!("palisade {} {}{profile} …{rest}", self.verb, options)
            }
            _ => of,
        }
    }
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
    use super::{This, of_application};

    #[test]
    fn hints_open_the_same_application_again() {
        let claude = This { verb: "agent", profile: "claude".as_ref() };
        let of = |hint: &str| claude.hint(hint.to_owned());
        assert_eq!(
            of("palisade run --allow example.org:443 …"),
            "palisade agent --allow example.org:443 claude …"
        );
        assert_eq!(of("palisade run --ro /x -- COMMAND…   # why"), "palisade agent --ro /x claude …   # why");
        assert_eq!(of("palisade doctor   # says"), "palisade doctor   # says");
    }

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
