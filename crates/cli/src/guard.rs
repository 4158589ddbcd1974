// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade guard`: exec control, which decides what may execute on this host at all.
//!
//! - [`status`], [`metrics`], [`scrape`], [`timing`]: what the guard does
//! - [`change`]: requests that change what it does
//! - [`follow`]: its decisions, as they are made
//! - [`files`]: settings, rules and trust from the disk, without the daemon
//! - [`check`], [`lint`]: whether settings and rules are valid, and probably meant as written
//! - [`explain`]: the decision about one open or exec
//! - [`survey`]: kinds of files, programs that aren't trusted, file systems that aren't watched
//! - [`trust`]: which files are trusted
//! - [`doctor`](mod@doctor): which parts work on this kernel
//! - [`error`]: the errors

mod change;
mod check;
mod doctor;
mod error;
mod explain;
mod files;
mod follow;
mod lint;
mod metrics;
mod scrape;
mod status;
mod survey;
mod timing;
mod trust;

use crate::verb::{self, Exit, YES};
use clap::{Subcommand, ValueEnum, ValueHint};
pub(crate) use doctor::doctor;
pub(crate) use error::GuardError;
pub(crate) use follow::decided;
use palisade_guard::policies;
use palisade_protocol::guard::{Request, SOCKET};
use std::path::PathBuf;
use std::time::Duration;

/// Where an administrator's settings, rules and trust files are.
pub(crate) const CONFIG: &str = "/etc/palisade";

/// What of the guard.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code: 0 yes or done, 1 the answer is no, 2 error.

Examples:
  palisade guard status
  palisade guard try --for 60s          # enforce, and go back by itself
  palisade guard explain ~/bin/tool     # would it be allowed, and by which rule?
  palisade guard trust add ~/bin/tool")]
pub(crate) struct Options {
    #[command(flatten)]
    places: Places,
    #[command(subcommand)]
    what: What,
}

/// Where everything is.
#[derive(Debug, clap::Args)]
struct Places {
    /// Where palisaded answers
    #[arg(long, global = true, value_name = "SOCKET", default_value = SOCKET, value_hint = ValueHint::FilePath)]
    socket: PathBuf,
    /// Where settings, rules and trust files are
    #[arg(long, global = true, value_name = "DIR", default_value = CONFIG, value_hint = ValueHint::DirPath)]
    config: PathBuf,
    /// Where the trust database is
    #[arg(long, global = true, value_name = "DIR", default_value = "/var/lib/palisade", value_hint = ValueHint::DirPath)]
    state: PathBuf,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Say what is in force, and what isn't; answers 1 unless it enforces
    Status {
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what happened so far, counted
    Metrics(metrics::Options),
    /// Print the rules in force, each with how often it decided
    Rules {
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Have settings, rules and trust read again; what can't be understood changes nothing
    Reload {
        /// Also rules that would stop the host
        #[arg(long)]
        force: bool,
    },
    /// Have refused what the rules deny, until palisaded ends
    Enforce {
        /// Although the rules would stop the host
        #[arg(long)]
        force: bool,
    },
    /// Only report what the rules deny, until palisaded ends
    Permissive,
    /// Enforce for a while, then restore the earlier mode
    Try(change::Try),
    /// Leave in force what is being tried
    Keep,
    /// End now what is being tried
    Revert,
    /// Show what is refused, or would be, as it happens
    Watch {
        /// Also what is allowed; slower, because the kernel asks about everything meanwhile
        #[arg(long)]
        all: bool,
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Measure how long decisions take
    Timing {
        /// Begin, or end and print
        #[arg(value_enum)]
        what: timing::What,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// End palisaded: nothing is refused any more
    Stop,
    /// Say whether settings and rules can be understood
    Check {
        /// A guard.toml, a rule file, or a directory; otherwise what palisaded would read
        #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
        path: Option<PathBuf>,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what of the rules is probably not meant; answers 1 if anything is
    Lint {
        /// A rule file or a directory of them; otherwise the rules that palisaded would read
        #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
        path: Option<PathBuf>,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what would become of an open or exec, and why; answers 1 if it is denied
    Explain(explain::Options),
    /// Print files' kinds, as rules write them after `ftype=`
    Ftype {
        /// The files
        #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// List programs of your PATH that aren't trusted; answers 1 if there are any
    CheckPath {
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// List mounted file systems that the settings leave unwatched; answers 1 if there are any
    CheckWatchFs {
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print built-in rules, to be edited
    Default {
        /// Which
        #[arg(value_enum, value_name = "RULES")]
        rules: BuiltIn,
    },
    /// List, change and verify which files are trusted
    #[command(subcommand)]
    Trust(trust::What),
}

/// Rules that come with Palisade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BuiltIn {
    /// Programs and libraries must be trusted; shell scripts need not
    KnownLibs,
    /// Scripts of every language must be trusted, too
    Restrictive,
}

/// Returns the exit code: 0, 1 no, or 2 error.
pub(crate) fn run(options: &Options) -> u8 {
    let places = &options.places;
    let tell = |request: &Request| verb::finish(false, change::tell(places, request));
    match &options.what {
        What::Status { json } => verb::finish(*json, status::status(places, *json)),
        What::Metrics(options) => verb::finish(options.json, metrics::metrics(places, options)),
        What::Rules { json } => verb::finish(*json, metrics::rules(places, *json)),
        What::Reload { force } => tell(&Request::Reload { force: *force }),
        What::Enforce { force } => tell(&Request::Mode { enforce: true, force: *force }),
        What::Permissive => tell(&Request::Mode { enforce: false, force: false }),
        What::Try(options) => verb::finish(false, change::attempt(places, options)),
        What::Keep => tell(&Request::Keep),
        What::Revert => tell(&Request::Revert),
        What::Watch { all, json } => verb::finish(*json, follow::watch(places, *all, *json)),
        What::Timing { what, json } => verb::finish(*json, timing::timing(places, *what, *json)),
        What::Stop => tell(&Request::Stop),
        What::Check { path, json } => verb::finish(*json, check::check(places, path.as_deref(), *json)),
        What::Lint { path, json } => verb::finish(*json, lint::lint(places, path.as_deref(), *json)),
        What::Explain(options) => verb::finish(options.json, explain::explain(places, options)),
        What::Ftype { files, json } => verb::finish(*json, survey::kinds(places, files, *json)),
        What::CheckPath { json } => verb::finish(*json, survey::path(places, *json)),
        What::CheckWatchFs { json } => verb::finish(*json, survey::mounts(places, *json)),
        What::Default { rules } => verb::finish(false, built_in(*rules)),
        What::Trust(what) => verb::finish(what.json(), trust::run(places, what)),
    }
}

fn built_in(rules: BuiltIn) -> Exit {
    verb::print(match rules {
        BuiltIn::KnownLibs => policies::KNOWN_LIBS,
        BuiltIn::Restrictive => policies::RESTRICTIVE,
    })?;
    Ok(YES)
}

/// `1 rule`, `2 rules`.
fn count(number: u64, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

/// A duration for people: its two largest units.
fn lasting(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86400, seconds % 86400 / 3600),
    }
}
