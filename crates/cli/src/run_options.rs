// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of `palisade run`, and their statements as the command line's layer of the policy.

use crate::network_options::NetworkOptions;
pub(crate) use crate::option_error::{OptionError, RequestError};
use crate::scan::Presentation;
use clap::builder::PossibleValuesParser;
use clap::{ArgMatches, Args, ValueEnum, ValueHint};
use palisade::{Request, Subject};
use palisade_policy::word::{Choice, List, Switch, Word};
use palisade_policy::{Access, Guarantee, LayerPolicy, Limit, Protect, View};
use palisade_sandbox::plan::planner::Isolation;
use palisade_sandbox::registry::entry::{Name, NameError as NameOfSandboxError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Starts a command in full isolation: it sees the system read-only, its working directory, and
/// private places; no other process, no network, no secret of yours.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Exit code: the command's own; 125 palisade failed; 126 not executable; 127 not found;
128+N the command was ended by signal N.

Examples:
  palisade run -- npm test
  palisade run --ro ~/data --net host -- python3 train.py
  palisade run --allow registry.npmjs.org -- npm install
  palisade run --name web -- npm start      listed by `palisade ps` under that name
  palisade run --dry-run -- make            what would be done, and why")]
pub(crate) struct RunOptions {
    /// Take the rules of a profile: a name, or a file
    #[arg(long, value_name = "NAME|FILE", display_order = 5)]
    pub(crate) profile: Option<OsString>,
    /// Name of the sandbox while it runs; no other running sandbox may have it
    #[arg(long = "name", value_name = "NAME", value_parser = sandbox_name, display_order = 9)]
    pub(crate) sandbox_name: Option<String>,
    #[command(flatten)]
    pub(crate) launch: LaunchOptions,
    /// Go on only if the plan is the one that --dry-run --json has printed for these options
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub(crate) plan: Option<PathBuf>,
    /// Run a line of shell
    #[arg(short = 'c', value_name = "LINE", conflicts_with = "command", display_order = 13)]
    pub(crate) line: Option<OsString>,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// What can be said of any launch.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LaunchOptions {
    /// Ask for a feature
    #[arg(long, value_name = "NAME", display_order = 6)]
    pub(crate) feature: Vec<String>,
    /// Do without a feature, and what only it needs
    #[arg(long, value_name = "NAME", help_heading = "Programs")]
    pub(crate) without: Vec<String>,
    /// What is the home: none, one that is empty and gone afterwards; private, one of its own that is
    /// kept under --home-name; read-only, that one without changes; overlay, with changes that are gone
    #[arg(long, value_name = "POLICY", value_parser = words(Choice::HomePolicy), help_heading = "Files")]
    pub(crate) home: Option<String>,
    /// What the home is called outside
    #[arg(long, value_name = "NAME", help_heading = "Files")]
    pub(crate) home_name: Option<String>,
    /// Keep no caches for the project
    #[arg(long, help_heading = "Files")]
    pub(crate) no_caches: bool,
    /// Show a device: a path below /dev
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, help_heading = "Files")]
    pub(crate) device: Vec<String>,
    /// A program that is started inside, for the view closure
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::CommandName, help_heading = "Programs")]
    pub(crate) with: Vec<String>,
    /// A library that is opened inside, for the view closure
    #[arg(long, value_name = "PATTERN", help_heading = "Programs")]
    pub(crate) library: Vec<String>,
    /// What of the session's bus is there: none, filtered, host
    #[arg(long, value_name = "MODE", value_parser = words(Choice::Session), help_heading = "Message buses")]
    pub(crate) bus: Option<String>,
    /// Let it see a name on the session's bus
    #[arg(long, value_name = "NAME", help_heading = "Message buses")]
    pub(crate) see: Vec<String>,
    /// Let it talk to a name on the session's bus
    #[arg(long, value_name = "NAME", help_heading = "Message buses")]
    pub(crate) talk: Vec<String>,
    /// Let it own a name on the session's bus
    #[arg(long, value_name = "NAME", help_heading = "Message buses")]
    pub(crate) own: Vec<String>,
    /// Let it use an interface of the desktop portal
    #[arg(long, value_name = "NAME", help_heading = "Message buses")]
    pub(crate) portal: Vec<String>,
    /// What may be done with files that arguments name: none, read, execute, write
    #[arg(long, value_name = "MODE", value_parser = words(Choice::PassFiles), help_heading = "Files")]
    pub(crate) pass_files: Option<String>,
    /// Let it make user namespaces of its own
    #[arg(long, help_heading = "System calls")]
    pub(crate) allow_namespaces: bool,
    /// Let it make unix datagram sockets; `sendmsg` and `sendmmsg` go through the broker then, and take longer
    #[arg(long, help_heading = "System calls")]
    pub(crate) allow_datagrams: bool,
    /// A shell inside, instead of the command
    #[arg(long, help_heading = "Programs")]
    pub(crate) shell: bool,
    /// At the end, say what was looked for inside, isn't there, and is on the host
    #[arg(long, display_order = 10)]
    pub(crate) trace: bool,
    /// At the end, say what was used
    #[arg(long, help_heading = "Output")]
    pub(crate) stats: bool,
    /// Add what is printed to a log of the application's, too
    #[arg(long, help_heading = "Output")]
    pub(crate) log: bool,
    /// Tell programs inside, such as an agent, what was refused and that only the user can permit it: on
    /// standard error, and in the file that PALISADE_REFUSALS names inside
    #[arg(long, help_heading = "Output")]
    pub(crate) refusals: bool,
    /// What is visible to begin with
    #[arg(long, value_name = "VIEW", value_parser = View::ALL.map(View::key), help_heading = "Files")]
    pub(crate) view: Option<String>,
    /// Show a path read-only; it may be executed. HOST=DEST shows it elsewhere; globs like
    /// '**/*.md' stand for what exists when the command starts
    #[arg(long, value_name = "HOST[=DEST]", value_hint = ValueHint::AnyPath, display_order = 2)]
    pub(crate) ro: Vec<OsString>,
    /// Let the whole git repository of the working directory be written to: from a directory below its top,
    /// in a worktree or a submodule
    #[arg(long, display_order = 3)]
    pub(crate) repo: bool,
    /// Show a path, writable
    #[arg(long, value_name = "HOST[=DEST]", value_hint = ValueHint::AnyPath, display_order = 1)]
    pub(crate) rw: Vec<OsString>,
    /// Hide a path: absent, or empty where it lies in something shown
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, help_heading = "Files")]
    pub(crate) hide: Vec<OsString>,
    /// Refuse every access to a path
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, help_heading = "Files")]
    pub(crate) deny: Vec<OsString>,
    /// Files in the project that hold secrets (.env, keys, tokens in settings): hide, show
    #[arg(long, value_name = "MODE", value_parser = words(Choice::Secrets), help_heading = "Files")]
    pub(crate) secrets: Option<String>,
    /// A private, empty, writable directory
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    pub(crate) tmpfs: Vec<OsString>,
    /// What keeps names that programs outside obey (.git/hooks, .vscode, .bashrc, …) from being made
    /// and changed: broker; mounts, for those that exist; off
    #[arg(long, value_name = "MODE", value_parser = Protect::ALL.map(Protect::key), help_heading = "Files")]
    pub(crate) protect: Option<String>,
    /// Protect a name too, at any depth: 'deploy/keys', '*.key', 'a/**/b'; or the names of a group: 'group:ci'
    #[arg(long, value_name = "NAME", help_heading = "Files")]
    pub(crate) protect_name: Vec<String>,
    /// Don't protect a name, written as `palisade explain --names` lists it, or those of a group: 'group:editor'
    #[arg(long, value_name = "NAME", help_heading = "Files")]
    pub(crate) allow_name: Vec<String>,
    #[command(flatten)]
    pub(crate) network: NetworkOptions,
    /// What becomes of system calls that weren't learned of the profile's programs: learn remembers
    /// them, enforce refuses them, ask asks you, off lets them be made
    #[arg(long, value_name = "MODE", value_parser = words(Choice::SyscallMode), help_heading = "System calls")]
    pub(crate) syscalls: Option<String>,
    /// How they are refused: errno, the call fails; kill, the process is ended
    #[arg(long, value_name = "HOW", value_parser = words(Choice::SyscallRefusal), help_heading = "System calls")]
    pub(crate) syscall_refusal: Option<String>,
    /// Give a variable a value
    #[arg(long, value_name = "NAME=VALUE", display_order = 7)]
    pub(crate) env: Vec<String>,
    /// Keep variables that would be removed; a glob
    #[arg(long, value_name = "NAME", display_order = 8)]
    pub(crate) keep_env: Vec<String>,
    /// Start in this directory inside
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    pub(crate) cwd: Option<OsString>,
    /// The host name inside
    #[arg(long, value_name = "NAME", help_heading = "Identity and limits")]
    pub(crate) hostname: Option<String>,
    /// Limit a resource: memory=512M, processes=100, cpu_time=60, open_files, file_size,
    /// core_size, stack, address_space, locked_memory
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Identity and limits")]
    pub(crate) limit: Vec<String>,
    /// Launch as another user: a command that breaks out has only the rights of this user; for root
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Username, help_heading = "Identity and limits")]
    pub(crate) account: Option<String>,
    /// The user id inside
    #[arg(long, value_name = "ID", help_heading = "Identity and limits")]
    pub(crate) uid: Option<u32>,
    /// The group id inside
    #[arg(long, value_name = "ID", help_heading = "Identity and limits")]
    pub(crate) gid: Option<u32>,
    /// Which namespaces to make; none: Landlock and seccomp only, for hosts that have no
    /// user namespaces or when every fraction of a millisecond counts
    #[arg(long, value_name = "WHICH", default_value = "all", help_heading = "Identity and limits")]
    pub(crate) namespaces: WhichNamespaces,
    /// Go on without guarantees that this host can't give, saying which
    #[arg(long, overrides_with = "no_best_effort", help_heading = "Identity and limits")]
    pub(crate) best_effort: bool,
    /// Launch with at least these guarantees; go on without others that this host can't give, saying which
    #[arg(
        long,
        value_name = "GUARANTEE",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(Guarantee::ALL.map(Guarantee::name)),
        hide_possible_values = true,
        help_heading = "Identity and limits"
    )]
    pub(crate) require: Vec<String>,
    /// Stop when a guarantee can't be given (the default)
    #[arg(long, overrides_with = "best_effort", help_heading = "Identity and limits")]
    pub(crate) no_best_effort: bool,
    /// Print the plan instead of applying it
    #[arg(long, display_order = 11)]
    pub(crate) dry_run: bool,
    /// With --dry-run: as JSON
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Write JSON lines about the command's start and end, and about refusals, to this descriptor
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub(crate) status_fd: Option<i32>,
    /// Say on standard error where the launch's time went
    #[arg(long, overrides_with = "no_timings", help_heading = "Output")]
    pub(crate) timings: bool,
    /// Don't (the default)
    #[arg(long, overrides_with = "timings", hide = true, help_heading = "Output")]
    pub(crate) no_timings: bool,
    /// Say nothing but errors
    #[arg(long, short, overrides_with_all = ["verbose", "no_quiet"], display_order = 12)]
    pub(crate) quiet: bool,
    /// Say notes too (the default)
    #[arg(long, overrides_with = "quiet", hide = true, help_heading = "Output")]
    pub(crate) no_quiet: bool,
    /// Say what is done
    #[arg(long, short, overrides_with_all = ["quiet", "no_verbose"], help_heading = "Output")]
    pub(crate) verbose: bool,
    /// Don't (the default)
    #[arg(long, overrides_with = "verbose", hide = true, help_heading = "Output")]
    pub(crate) no_verbose: bool,
}

/// Which namespaces to make.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhichNamespaces {
    /// All
    #[default]
    All,
    /// None
    None,
}

impl From<WhichNamespaces> for Isolation {
    fn from(which: WhichNamespaces) -> Self {
        match which {
            WhichNamespaces::All => Self::Full,
            WhichNamespaces::None => Self::InPlace,
        }
    }
}

impl std::ops::Deref for RunOptions {
    type Target = LaunchOptions;

    fn deref(&self) -> &LaunchOptions {
        &self.launch
    }
}

/// Checks a sandbox's name.
fn sandbox_name(text: &str) -> Result<String, NameOfSandboxError> {
    Name::check(text).map(|()| text.to_owned())
}

/// The possible words of a choice.
fn words(choice: Choice) -> Vec<&'static str> {
    choice.possible().into_iter().map(|(word, _)| word).collect()
}

impl RunOptions {
    /// The command to run.
    pub(crate) fn command(&self) -> Vec<OsString> {
        self.launch.command(self.line.as_ref(), &self.command)
    }

    /// The request.
    pub(crate) fn request(&self, matches: &ArgMatches) -> Result<Request, RequestError> {
        let mut request = self.launch.request(matches, self.subject())?;
        if let Some(program) = self.command.first().filter(|_| self.launch.shell) {
            // The shell's user wants to see the files of the command.
            let path = Path::new(program);
            let path = if path.components().count() > 1 { std::path::absolute(path).ok() } else { None };
            let program = path.map_or_else(|| program.clone(), PathBuf::into_os_string);
            if let Some(program) = program.to_str() {
                // A name that no list can state isn't a program's.
                let _not_shown = request.words.add_to(List::Programs, program, 0).is_ok();
            }
        }
        Ok(request)
    }

    /// The command and its profile.
    pub(crate) fn subject(&self) -> Subject {
        Subject::Command { words: self.command(), profile: self.profile.clone() }
    }

    /// The options that don't influence the plan.
    pub(crate) fn presentation(&self) -> Presentation<'_> {
        Presentation { name: self.sandbox_name.as_deref(), ..self.launch.presentation() }
    }

    /// Whether the plan holds nothing that may not be written to disk.
    pub(crate) fn may_be_kept(&self) -> bool {
        self.env.is_empty() && self.network.proxy.is_none() && self.plan.is_none()
    }
}

impl LaunchOptions {
    /// The command to run: a shell, a line for a shell, or words.
    pub(crate) fn command(&self, line: Option<&OsString>, words: &[OsString]) -> Vec<OsString> {
        if self.shell {
            return vec![palisade_sandbox::layers::application::shell().into()];
        }
        match line {
            Some(line) => vec!["/bin/sh".into(), "-c".into(), line.clone()],
            None => words.to_vec(),
        }
    }

    /// The request, with this process's surroundings.
    pub(crate) fn request(&self, matches: &ArgMatches, subject: Subject) -> Result<Request, RequestError> {
        let words = self.layer(matches)?;
        let argument = || matches.indices_of("repo").and_then(|mut indices| indices.next());
        let repository =
            self.repo.then(|| argument().and_then(|index| u32::try_from(index).ok()).unwrap_or_default());
        Ok(Request { words, repository, isolation: self.namespaces.into(), ..Request::here(subject)? })
    }

    /// The options that don't influence the plan.
    pub(crate) const fn presentation(&self) -> Presentation<'_> {
        Presentation {
            timings: self.timings,
            quiet: self.quiet,
            verbose: self.verbose,
            status_fd: self.status_fd,
            name: None,
            first_argument: None,
            policy: None,
            application: None,
        }
    }

    /// The options' statements, each with the position of its argument.
    pub(crate) fn layer(&self, matches: &ArgMatches) -> Result<LayerPolicy, OptionError> {
        let mut layer = LayerPolicy::command_line();
        let at = |option: &str, nth: usize| {
            let index = matches.indices_of(option).and_then(|mut indices| indices.nth(nth));
            index.and_then(|index| u32::try_from(index).ok()).unwrap_or_default()
        };
        let paths: [(&'static str, &[OsString], &[Access]); 5] = [
            ("ro", &self.ro, &[Access::Execute]),
            ("rw", &self.rw, &[Access::Write, Access::Execute]),
            ("hide", &self.hide, &[Access::Hide]),
            ("deny", &self.deny, &[Access::Deny]),
            ("tmpfs", &self.tmpfs, &[Access::Tmpfs]),
        ];
        for (option, values, accesses) in paths {
            for (nth, value) in values.iter().enumerate() {
                for access in accesses {
                    layer.add_path(*access, value, at(option, nth)).map_err(|source| OptionError::Path {
                        option,
                        value: value.to_string_lossy().into_owned(),
                        source,
                    })?;
                }
            }
        }
        if let Some(view) = View::ALL.into_iter().find(|view| self.view.as_deref() == Some(view.key())) {
            layer.set_view(view, at("view", 0));
        }
        self.network.state(&mut layer, &at)?;
        self.add_names(&mut layer, &at)?;
        self.add_resources(&mut layer, &at)?;
        self.add_variables(&mut layer, &at)?;
        self.add_limits(&mut layer, &at)?;
        if let Some(cwd) = &self.cwd {
            layer.set_cwd(cwd, at("cwd", 0)).map_err(|source| OptionError::Path {
                option: "cwd",
                value: cwd.to_string_lossy().into_owned(),
                source,
            })?;
        }
        if let Some(hostname) = &self.hostname {
            layer.set_hostname(hostname, at("hostname", 0)).map_err(|source| OptionError::Value {
                option: "hostname",
                value: hostname.clone(),
                source,
            })?;
        }
        if let Some(uid) = self.uid {
            layer.set_uid(uid, at("uid", 0));
        }
        if let Some(gid) = self.gid {
            layer.set_gid(gid, at("gid", 0));
        }
        if self.best_effort || self.no_best_effort {
            layer.set_best_effort(self.best_effort, at("best_effort", 0));
        } else if !self.require.is_empty() {
            layer.set_best_effort(true, at("require", 0));
        }
        Ok(layer)
    }

    fn add_names(&self, layer: &mut LayerPolicy, at: &dyn Fn(&str, usize) -> u32) -> Result<(), OptionError> {
        let named = |given: &str| Protect::ALL.into_iter().find(|protect| protect.key() == given);
        if let Some(protect) = self.protect.as_deref().and_then(named) {
            layer.set_protect(protect, at("protect", 0));
        }
        let lists = [
            ("protect-name", "protect_name", &self.protect_name, true),
            ("allow-name", "allow_name", &self.allow_name, false),
        ];
        for (option, id, names, protect) in lists {
            for (nth, value) in names.iter().enumerate() {
                layer.add_name(value, protect, at(id, nth)).map_err(|source| OptionError::Name {
                    option,
                    value: value.clone(),
                    source,
                })?;
            }
        }
        Ok(())
    }

    fn add_variables(
        &self,
        layer: &mut LayerPolicy,
        at: &dyn Fn(&str, usize) -> u32,
    ) -> Result<(), OptionError> {
        for (nth, value) in self.keep_env.iter().enumerate() {
            layer.keep_env(value, at("keep_env", nth)).map_err(|source| OptionError::Value {
                option: "keep-env",
                value: value.clone(),
                source,
            })?;
        }
        for (nth, given) in self.env.iter().enumerate() {
            let Some((name, value)) = given.split_once('=') else {
                return Err(OptionError::NoValue { option: "env", value: given.clone() });
            };
            layer.set_env(name, value, at("env", nth)).map_err(|source| OptionError::Value {
                option: "env",
                value: name.to_owned(),
                source,
            })?;
        }
        Ok(())
    }

    /// Variables without a value. Only `palisade explain` knows what they mean.
    pub(crate) fn variables_asked_about(&self) -> impl Iterator<Item = &str> {
        self.env.iter().map(String::as_str).filter(|given| !given.contains('='))
    }

    fn add_limits(
        &self,
        layer: &mut LayerPolicy,
        at: &dyn Fn(&str, usize) -> u32,
    ) -> Result<(), OptionError> {
        for (nth, given) in self.limit.iter().enumerate() {
            let Some((key, amount)) = given.split_once('=') else {
                return Err(OptionError::NoValue { option: "limit", value: given.clone() });
            };
            let Some(limit) = Limit::ALL.into_iter().find(|limit| limit.key() == key) else {
                let names = Limit::ALL.iter().map(|limit| limit.key());
                let nearest = palisade_policy::suggest::nearest(key, names);
                return Err(OptionError::NoLimit { value: given.clone(), nearest });
            };
            layer
                .set_limit_text(limit, amount, at("limit", nth))
                .map_err(|source| OptionError::Amount { value: given.clone(), source })?;
        }
        Ok(())
    }

    /// Adds the statements that profiles can make, too.
    fn add_resources(
        &self,
        layer: &mut LayerPolicy,
        at: &dyn Fn(&str, usize) -> u32,
    ) -> Result<(), OptionError> {
        for (option, names, wanted) in [("feature", &self.feature, true), ("without", &self.without, false)] {
            for (nth, name) in names.iter().enumerate() {
                layer.want(name, wanted, at(option, nth));
            }
        }
        for (option, list, values) in [
            ("device", List::Devices, &self.device),
            ("with", List::Programs, &self.with),
            ("library", List::Libraries, &self.library),
            ("see", List::See, &self.see),
            ("talk", List::Talk, &self.talk),
            ("own", List::Own, &self.own),
            ("portal", List::Portals, &self.portal),
            ("require", List::Guarantees, &self.require),
        ] {
            for (nth, value) in values.iter().enumerate() {
                layer.add_to(list, value, at(option, nth)).map_err(|source| OptionError::Value {
                    option,
                    value: value.clone(),
                    source,
                })?;
            }
        }
        for (option, choice, word) in [
            ("home", Choice::HomePolicy, &self.home),
            ("bus", Choice::Session, &self.bus),
            ("pass_files", Choice::PassFiles, &self.pass_files),
            ("secrets", Choice::Secrets, &self.secrets),
            ("syscalls", Choice::SyscallMode, &self.syscalls),
            ("syscall_refusal", Choice::SyscallRefusal, &self.syscall_refusal),
        ] {
            if let Some(chosen) = word.as_deref().and_then(|word| choice.parse(word)) {
                layer.choose(chosen, at(option, 0));
            }
        }
        if let Some(name) = &self.home_name {
            layer.say(Word::HomeName, name, at("home_name", 0)).map_err(|source| OptionError::Value {
                option: "home-name",
                value: name.clone(),
                source,
            })?;
        }
        if self.no_caches {
            layer.set_switch(Switch::Caches, false, at("no_caches", 0));
        }
        for (option, switch, on) in [
            ("allow_namespaces", Switch::Namespaces, self.allow_namespaces),
            ("allow_datagrams", Switch::Datagrams, self.allow_datagrams),
            ("shell", Switch::Shell, self.shell),
            ("trace", Switch::Trace, self.trace),
            ("stats", Switch::Stats, self.stats),
            ("log", Switch::Log, self.log),
            ("refusals", Switch::Refusals, self.refusals),
        ] {
            if on {
                layer.set_switch(switch, true, at(option, 0));
            }
        }
        Ok(())
    }
}
