// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line. Each suite is a verb and takes the same options; each suite in the registry becomes a verb
//! automatically.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Command, FromArgMatches};

use crate::agents::client::Inside;
use crate::guard::load::Load;
use crate::report::text::Style;
use crate::shell::relay::Relay;
use crate::suite::{More, SUITES, Suite};
use crate::syscalls::caller::Caller;
use crate::template::{Template, parse_named};

const ROUNDS: usize = 200;
const QUICK_ROUNDS: usize = 30;

/// Options of every suite.
#[derive(Args, Clone, Debug)]
pub(crate) struct Measure {
    /// The palisade to measure [default: the one beside this program, else on PATH]
    #[arg(long, visible_alias = "palisade", value_name = "PATH")]
    pub(crate) binary: Option<PathBuf>,
    /// Rounds; long workloads take fewer [default: 200; 30 if quick]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) runs: Option<usize>,
    /// 30 rounds, if --runs doesn't say how many, and smaller workloads: enough to see that it works, not to publish
    #[arg(long)]
    pub(crate) quick: bool,
    /// Exit with 1 as well if no peer could be compared with (a peer that fails is else only reported)
    #[arg(long)]
    pub(crate) need_peers: bool,
    /// Only rows whose WORKLOAD/NAME matches: a regular expression, or any text that is in it
    #[arg(long, value_name = "PATTERN")]
    pub(crate) filter: Option<String>,
    /// Another launcher, for example 'mine=mine run {}'; {} is the command (appended if absent), {W} the working directory
    #[arg(long, value_name = "NAME=CMD", value_parser = |text: &str| parse_named(text).map_err(|error| error.to_string()))]
    pub(crate) with: Vec<(String, Template)>,
    /// Rest after each launch, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2)]
    pub(crate) gap: u64,
    /// Measure bursts of N launches without a rest between them instead of single launches
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10", value_parser = at_least_one)]
    pub(crate) back_to_back: Option<usize>,
    /// Seed of the order of runs and of the resampling [default: from the clock; it is printed]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// End a run that takes longer than this, in seconds, and count it as failed
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) limit: u64,
    /// Where to make the working directory [default: the cache directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Write the results to FILE as well, by its ending: .json, .md, .svg, else text
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON in hyperfine's shape
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Print Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Draw the results
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Of the suites that take them.
    #[arg(skip)]
    pub(crate) profiles: Profiles,
    #[arg(skip)]
    pub(crate) agents: Agents,
    #[arg(skip)]
    pub(crate) guard: Guard,
    #[arg(skip)]
    pub(crate) scopes: Scopes,
    #[arg(skip)]
    pub(crate) again: Again,
    #[arg(skip)]
    pub(crate) gate: Gate,
}

/// More options of `gate`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Gate {
    /// Put what is counted now into the baseline
    #[arg(long)]
    pub(crate) renew: bool,
    /// The baseline [default: bench/gate.json in the repository]
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Count nothing: only compare times
    #[arg(long, conflicts_with = "renew")]
    pub(crate) no_counts: bool,
    /// Don't count instructions, which takes some seconds
    #[arg(long)]
    pub(crate) skip_instructions: bool,
    /// Build this commit as the palisade of now was built, and launch both in turns
    #[arg(long, value_name = "COMMIT", conflicts_with = "earlier")]
    pub(crate) against: Option<String>,
    /// The same with a palisade that is built already
    #[arg(long, value_name = "PATH")]
    pub(crate) earlier: Option<PathBuf>,
    /// By how much a launch may be slower than that, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = percent)]
    pub(crate) allow: f64,
    /// By which profile palisade was built [default: as its directory is called]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// The project's repository [default: the working directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) repository: Option<PathBuf>,
}
/// More options of `aa`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Again {
    /// Compare so many times: does at most one in twenty show a difference that there isn't?
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) times: Option<usize>,
}

/// More options of `guard`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Guard {
    /// The palisaded to measure [default: the one beside this program, else on PATH]
    #[arg(long, value_name = "PATH")]
    pub(crate) daemon: Option<PathBuf>,
    /// Programs, and texts, on each file system [default: 10000; 500 if quick]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) files: Option<usize>,
    /// For how many seconds files are opened again and again [default: 1; 0.1 if quick]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) window: Option<f64>,
    /// On ext4 in files, not on tmpfs (without fapolicyd, which would watch the host's own, too)
    #[arg(long)]
    pub(crate) ext4: bool,
    /// Cost by the number of rules and of trusted files
    #[arg(long)]
    pub(crate) curves: bool,
    /// Keep the results as JSON in bench/history
    #[arg(long)]
    pub(crate) save: bool,
}

/// More options of `scopes`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Scopes {
    /// The program that measures [default: examples/scopes beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) measurer: Option<PathBuf>,
    /// Commands a round, of which 40 of --runs are one [default: 4000; 400 if quick]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) commands: Option<usize>,
    /// Keep the results as JSON in bench/history
    #[arg(long)]
    pub(crate) save: bool,
}

/// More options of `agents`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Agents {
    /// Connections that are held at once
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    pub(crate) connections: usize,
    /// Keep the results as JSON in bench/history
    #[arg(long)]
    pub(crate) save: bool,
}

/// More options of `profiles`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Profiles {
    /// Profiles [default: chromium, okular, syncthing, sh, vim, python3, git, libreoffice where they are installed]
    #[arg(value_name = "PROFILE")]
    pub(crate) names: Vec<String>,
    /// Cost by the number of files, of profiles, and by where the cache is
    #[arg(long)]
    pub(crate) curves: bool,
    /// Time to the first window, plain and inside (needs Xvfb and xdotool)
    #[arg(long)]
    pub(crate) windows: bool,
    /// Keep the results as JSON in bench/history
    #[arg(long)]
    pub(crate) save: bool,
}

/// Options of `compare`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Compare {
    /// Results of the first run, as --json or --output wrote them, or hyperfine
    pub(crate) a: PathBuf,
    /// Results of the second run
    pub(crate) b: PathBuf,
    /// Print Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// What was asked for.
pub(crate) enum Request {
    Measure(&'static dyn Suite, Box<Measure>),
    Compare(Compare),
    Inside(Inside),
    Load(Load),
    Relay(Relay),
    Calls(Caller),
    List,
}

impl Measure {
    pub(crate) fn rounds(&self) -> usize {
        self.runs.unwrap_or(if self.quick { QUICK_ROUNDS } else { ROUNDS })
    }

    pub(crate) fn seed_or_clock(&self) -> u64 {
        self.seed.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            // Short enough to be typed again.
            u64::from(now.subsec_nanos()) ^ (now.as_secs() & 0xffff_ffff)
        })
    }

    /// Whether results are kept in the history.
    pub(crate) fn save(&self) -> bool {
        self.profiles.save || self.agents.save || self.guard.save || self.scopes.save
    }

    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.limit)
    }

    pub(crate) fn style(&self) -> Style {
        style(self.markdown)
    }
}

impl Compare {
    pub(crate) fn style(&self) -> Style {
        style(self.markdown)
    }
}

fn style(markdown: bool) -> Style {
    if markdown { Style::Markdown } else { Style::Aligned }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1 is needed".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(percent),
        Ok(_) => Err("it is between 0 and 1000".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=3600.0).contains(&seconds) => Ok(seconds),
        Ok(_) => Err("it is between 0.001 and 3600".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}

/// The grammar of the command line.
pub(crate) fn command() -> Command {
    let mut command = Command::new("palisade-bench")
        .about("Measures Palisade against its peers: paired, interleaved, and every run verified")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true);
    for suite in SUITES {
        let verb = Measure::augment_args(Command::new(suite.name()).about(suite.about()));
        command = command.subcommand(match suite.more() {
            More::Nothing => verb,
            More::Profiles => Profiles::augment_args(verb),
            More::Agents => Agents::augment_args(verb),
            More::Guard => Guard::augment_args(verb),
            More::Scopes => Scopes::augment_args(verb),
            More::Again => Again::augment_args(verb),
            More::Gate => Gate::augment_args(verb),
        });
    }
    command
        .subcommand(Compare::augment_args(Command::new("compare").about("Ratios between two result files")))
        .subcommand(Inside::augment_args(Command::new("inside").hide(true)))
        .subcommand(Load::augment_args(Command::new("load").hide(true)))
        .subcommand(Relay::augment_args(Command::new("relay").hide(true)))
        .subcommand(Caller::augment_args(Command::new("calls").hide(true)))
        .subcommand(Command::new("list").about("The suites, and which peers are here"))
}

/// Parses the arguments of this process. Where help is requested or an argument is wrong, prints a message and ends the
/// process.
pub(crate) fn parse() -> Request {
    let matches = command().get_matches();
    request(&matches).unwrap_or_else(|error| error.exit())
}

fn request(matches: &clap::ArgMatches) -> Result<Request, clap::Error> {
    let Some((verb, matches)) = matches.subcommand() else {
        return Ok(Request::List);
    };
    if let Some(&suite) = SUITES.iter().find(|suite| suite.name() == verb) {
        let mut measure = Measure::from_arg_matches(matches)?;
        match suite.more() {
            More::Nothing => {}
            More::Profiles => measure.profiles = Profiles::from_arg_matches(matches)?,
            More::Agents => measure.agents = Agents::from_arg_matches(matches)?,
            More::Guard => measure.guard = Guard::from_arg_matches(matches)?,
            More::Scopes => measure.scopes = Scopes::from_arg_matches(matches)?,
            More::Again => measure.again = Again::from_arg_matches(matches)?,
            More::Gate => measure.gate = Gate::from_arg_matches(matches)?,
        }
        return Ok(Request::Measure(suite, Box::new(measure)));
    }
    match verb {
        "compare" => Ok(Request::Compare(Compare::from_arg_matches(matches)?)),
        "inside" => Ok(Request::Inside(Inside::from_arg_matches(matches)?)),
        "calls" => Ok(Request::Calls(Caller::from_arg_matches(matches)?)),
        "load" => Ok(Request::Load(Load::from_arg_matches(matches)?)),
        "relay" => Ok(Request::Relay(Relay::from_arg_matches(matches)?)),
        _ => Ok(Request::List),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Request, clap::Error> {
        command()
            .try_get_matches_from(std::iter::once(&"palisade-bench").chain(words))
            .and_then(|matches| request(&matches))
    }

    pub(crate) fn measure(words: &[&str]) -> Measure {
        match parse(words) {
            Ok(Request::Measure(_, measure)) => *measure,
            Ok(_) => panic!("another verb"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn the_grammar_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn options_of_a_suite() {
        let options = measure(&[
            "launch",
            "--quick",
            "--with",
            "a=b {}",
            "--with",
            "c=d",
            "--back-to-back",
            "--gap",
            "0",
        ]);
        assert_eq!(
            (options.rounds(), options.with.len(), options.back_to_back, options.gap),
            (30, 2, Some(10), 0)
        );
        assert_eq!(measure(&["aa", "--runs", "7", "--back-to-back", "3"]).back_to_back, Some(3));
        assert_eq!(measure(&["aa", "--seed", "9"]).seed_or_clock(), 9);
        let both = measure(&["scopes", "--quick", "--runs", "3"]);
        assert!(both.quick && both.rounds() == 3);
        assert_eq!(measure(&["launch"]).rounds(), 200);
    }

    #[test]
    fn only_profiles_takes_profiles() {
        let options = measure(&["profiles", "sh", "--quick", "vim", "--curves"]).profiles;
        assert_eq!(
            (options.names.as_slice(), options.curves, options.windows),
            (&["sh".into(), "vim".into()][..], true, false)
        );
        assert!(parse(&["launch", "sh"]).is_err());
    }

    #[test]
    fn only_agents_takes_connections() {
        assert_eq!(measure(&["agents"]).agents.connections, 1000);
        let options = measure(&["agents", "--connections", "10000", "--save"]);
        assert!(options.agents.connections == 10_000 && options.save() && !measure(&["agents"]).save());
        assert!(parse(&["agents", "--connections", "0"]).is_err());
        assert!(parse(&["launch", "--connections", "9"]).is_err());
    }

    #[test]
    fn only_guard_takes_a_window() {
        let options = measure(&["guard", "--window", "0.5", "--files", "100", "--curves"]).guard;
        assert_eq!(
            (options.window, options.files, options.curves, options.ext4),
            (Some(0.5), Some(100), true, false)
        );
        for words in
            [&["guard", "--window", "0"][..], &["guard", "--window", "nan"], &["agents", "--window", "1"]]
        {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn the_client_is_a_verb() {
        assert!(matches!(parse(&["inside", "bulk", "x:1", "5"]), Ok(Request::Inside(_))));
        assert!(parse(&["inside"]).is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        for words in [&["launch", "--runs", "0"][..], &["launch", "--with", "x"], &["compare", "a"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
