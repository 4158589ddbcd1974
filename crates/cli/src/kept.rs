// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of a launch that are kept for launches that others begin: an agent, a shell, a server's configuration.

use crate::hook_error::HookError;
use crate::verb::Failure;
use clap::{Args, ValueHint};
use palisade_settings::Loaded;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

const SCHEMA: u32 = 1;
/// More than any list of options has.
const LARGEST: u64 = 1 << 20;

/// Options of a launch, as they are given to the verbs that keep them.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct KeptOptions {
    /// Take the rules of a profile: a name, or a file
    #[arg(long, value_name = "NAME|FILE", help_heading = "Launch")]
    pub(crate) profile: Option<String>,
    /// Let it talk to a host
    #[arg(long, value_name = "HOST[:PORTS]", help_heading = "Launch")]
    allow: Vec<String>,
    /// Show a path, writable
    #[arg(long, value_name = "HOST[=DEST]", value_hint = ValueHint::AnyPath, help_heading = "Launch")]
    rw: Vec<String>,
    /// Show a path read-only
    #[arg(long, value_name = "HOST[=DEST]", value_hint = ValueHint::AnyPath, help_heading = "Launch")]
    ro: Vec<String>,
    /// What of the network is there: none, filtered or host
    #[arg(long, value_name = "MODE", help_heading = "Launch")]
    net: Option<String>,
    /// Ask for a feature
    #[arg(long, value_name = "NAME", help_heading = "Launch")]
    feature: Vec<String>,
    /// Keep variables that would be removed; a glob
    #[arg(long, value_name = "NAME", help_heading = "Launch")]
    keep_env: Vec<String>,
}

impl KeptOptions {
    /// The options as words of a command line, without the profile.
    pub(crate) fn words(&self) -> Vec<String> {
        let lists: [(&str, &[String]); 5] = [
            ("--allow", &self.allow),
            ("--rw", &self.rw),
            ("--ro", &self.ro),
            ("--feature", &self.feature),
            ("--keep-env", &self.keep_env),
        ];
        let listed =
            lists.iter().flat_map(|(option, values)| values.iter().map(move |value| (*option, value)));
        let net = self.net.iter().map(|mode| ("--net", mode));
        // One word each: a value can't be taken for an option.
        net.chain(listed).map(|(option, value)| format!("{option}={value}")).collect()
    }

    /// The same with the profile.
    pub(crate) fn words_with_profile(&self) -> Vec<String> {
        let profile = self.profile.iter().map(|profile| format!("--profile={profile}"));
        profile.chain(self.words()).collect()
    }
}

/// Checks options as a launch would: that they can be parsed, and that the profile and the features exist.
pub(crate) fn check(options: &[String]) -> Result<(), Failure> {
    let words = ["run".to_owned()].into_iter().chain(options.iter().cloned());
    let words: Vec<OsString> = words.chain(["--", "true"].map(str::to_owned)).map(OsString::from).collect();
    let (matches, cli) = crate::parse(&words).map_err(|error| {
        let said = crate::usage(&error, &words);
        let line = said.lines().next().unwrap_or_default();
        HookError::Options { said: line.strip_prefix("error: ").unwrap_or(line).to_owned() }
    })?;
    if let (crate::Verb::Run(run), Some((_run, matches))) = (&cli.verb, matches.subcommand()) {
        run.request(matches)?.settle()?.plan()?;
    }
    Ok(())
}

/// How a link's command is launched, in a file beside the link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Launch {
    schema: u32,
    /// The profile that is opened. Without one, the command is run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) open: Option<String>,
    /// Options of the launch.
    pub(crate) options: Vec<String>,
    /// The command isn't launched in a sandbox, but finds programs in this directory first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_on_path: Option<PathBuf>,
}

impl Launch {
    /// With these options.
    pub(crate) const fn new(options: Vec<String>) -> Self {
        Self { schema: SCHEMA, open: None, options, first_on_path: None }
    }

    /// For a command that isn't confined, but finds programs in this directory first.
    pub(crate) fn beside(directory: PathBuf, options: Vec<String>) -> Self {
        Self { first_on_path: Some(directory), ..Self::new(options) }
    }

    /// For a profile's application.
    pub(crate) fn opening(profile: &str, options: Vec<String>) -> Self {
        Self { open: Some(profile.to_owned()), ..Self::new(options) }
    }

    /// Reads the file of a link. `None`: there is none.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, HookError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(source) => return Err(HookError::Read { path: path.to_owned(), source }),
        };
        // What a launch may do is in it.
        crate::link::check_trust(path)?;
        let mut text = String::new();
        file.take(LARGEST)
            .read_to_string(&mut text)
            .map_err(|source| HookError::Read { path: path.to_owned(), source })?;
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|source| HookError::Damaged { path: path.to_owned(), source })
    }

    /// Writes the file of a link. Returns whether it was another one.
    pub(crate) fn write(&self, path: &Path) -> Result<bool, HookError> {
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|source| HookError::Damaged { path: path.to_owned(), source })?;
        text.push(b'\n');
        let loaded = Loaded::read(path)?;
        if loaded.content.as_deref() == Some(text.as_slice()) {
            return Ok(false);
        }
        loaded.replace(&text, 0o600)?;
        Ok(true)
    }
}
