// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of a launch, for verbs that only read. These verbs accept the same options as `palisade run`.

use crate::run_options::{LaunchOptions, RequestError};
use crate::verb::{Failure, YES};
use clap::{ArgMatches, Args, ValueHint};
use palisade::{Request, Situation, Subject};
use palisade_policy::LayerPolicy;
use std::ffi::OsString;

/// A launch, as `palisade run` is told of it.
#[derive(Debug, Clone, Args)]
pub(crate) struct Asked {
    /// Take the rules of a profile too: a name, or a file
    #[arg(long, short, value_name = "NAME|FILE")]
    pub(crate) profile: Option<OsString>,
    #[command(flatten)]
    pub(crate) launch: LaunchOptions,
    /// The launch would run a line of shell
    #[arg(short = 'c', value_name = "LINE", conflicts_with = "words")]
    line: Option<OsString>,
    /// The command that would be launched, and its arguments
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    words: Vec<OsString>,
}

impl Asked {
    /// The command that would be launched.
    pub(crate) fn command(&self) -> Vec<OsString> {
        self.launch.command(self.line.as_ref(), &self.words)
    }

    /// The request that `palisade run` would make of these options.
    pub(crate) fn request(&self, matches: &ArgMatches) -> Result<Request, RequestError> {
        let subject = Subject::Command { words: self.command(), profile: self.profile.clone() };
        self.launch.request(matches, subject)
    }

    /// Whether any option describes a launch.
    pub(crate) fn asks_for_something(&self, matches: &ArgMatches) -> Result<bool, RequestError> {
        let says = |words: &LayerPolicy| palisade_policy::render(words);
        Ok(self.launch.dry_run
            || self.profile.is_some()
            || !self.command().is_empty()
            || says(&self.launch.layer(matches)?) != says(&LayerPolicy::command_line()))
    }

    /// With `--dry-run`: prints the plan that the verb uses, and nothing else.
    pub(crate) fn dry_run(&self, situation: &Situation) -> Option<Result<u8, Failure>> {
        self.launch.dry_run.then(|| {
            let plan = situation.plan()?;
            crate::dry_run::print(&plan, &situation.facts.command, self.launch.json);
            Ok(YES)
        })
    }
}
