// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the kept plan for arguments, without the parser.
//!
//! A launch that was seen before needs no parser: the options are compared, byte by byte, with those that the plan was
//! made for, which clap accepted then. clap costs 0.09 ms, as much as all mounts of a launch. Arguments that this scan
//! doesn't recognise are left to the parser.

use crate::agent;
use crate::opened::This;
use palisade_sandbox::plan::cache::Key;
use palisade_sandbox::registry::entry::Name;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Options that don't influence the plan.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Presentation<'a> {
    pub(crate) timings: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    pub(crate) status_fd: Option<i32>,
    /// The sandbox's name.
    pub(crate) name: Option<&'a str>,
    /// The command's argument 0, if it isn't its first word.
    pub(crate) first_argument: Option<&'a OsStr>,
    /// The policy of `palisade bwrap`, whose hints are about that policy.
    pub(crate) policy: Option<&'a OsStr>,
    /// The application that is opened, which hints name.
    pub(crate) application: Option<This<'a>>,
}

/// Arguments of the form `run [OPTIONS] -- COMMAND…`.
#[derive(Debug)]
pub(crate) struct Scanned<'a> {
    /// Options that the plan depends on.
    pub(crate) options: Vec<&'a OsStr>,
    pub(crate) presentation: Presentation<'a>,
    /// The command and its arguments.
    pub(crate) command: &'a [OsString],
}

/// Options that the scan leaves to the parser.
const CLOSER: [&str; 10] =
    ["--shell", "--dry-run", "--json", "--plan", "--env", "--proxy", "--help", "-h", "-c", "--keep-env"];

/// Scans the arguments after the program's name. `None`: leave them to the parser.
pub(crate) fn scan(arguments: &[OsString]) -> Option<Scanned<'_>> {
    let (verb, rest) = arguments.split_first()?;
    let end = rest.iter().position(|argument| argument == "--")?;
    let (options, command) = (rest.get(..end)?, rest.get(end + 1..)?);
    if verb != "run" || command.is_empty() {
        return None;
    }
    let mut scanned = Scanned {
        options: Vec::with_capacity(options.len()),
        presentation: Presentation::default(),
        command,
    };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.to_str() {
            Some("--timings") => scanned.presentation.timings = true,
            Some("--quiet" | "-q") => scanned.presentation.quiet = true,
            Some("--status-fd") => {
                scanned.presentation.status_fd = Some(options.next()?.to_str()?.parse().ok()?)
            }
            Some(closer) if CLOSER.iter().any(|known| closer.starts_with(known)) => return None,
            Some("--verbose" | "-v") => return None,
            Some(option) if option == "--name" || option.starts_with("--name=") => {
                let name = match option.split_once('=') {
                    Some((_name, value)) => value,
                    None => options.next()?.to_str()?,
                };
                // The parser reports what is wrong with the name.
                if scanned.presentation.name.is_some() || Name::check(name).is_err() {
                    return None;
                }
                scanned.presentation.name = Some(name);
            }
            _ => scanned.options.push(option),
        }
    }
    Some(scanned)
}

/// Arguments of the form `open|agent [--config NAME] [--program PROGRAM] PROFILE ARGUMENTS…`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opened<'a> {
    /// `open` or `agent`. For a package, whose name is its hash, `package`.
    pub(crate) verb: &'static str,
    /// The profile.
    pub(crate) profile: &'a OsStr,
    /// Its configuration.
    pub(crate) configuration: Option<&'a OsStr>,
    /// Another program than the profile's.
    pub(crate) program: Option<&'a OsStr>,
    pub(crate) presentation: Presentation<'a>,
    /// The arguments of its application.
    pub(crate) arguments: &'a [OsString],
}

/// Scans the arguments after the program's name. `None`: leave them to the parser.
pub(crate) fn scan_open(arguments: &[OsString]) -> Option<Opened<'_>> {
    let (verb, rest) = arguments.split_first()?;
    let verb = ["open", "agent"].into_iter().find(|known| verb == known)?;
    let (mut configuration, mut program, mut presentation) = (None, None, Presentation::default());
    let mut rest = rest;
    while let Some((option, after)) = rest.split_first().filter(|(word, _)| word.as_bytes().starts_with(b"-"))
    {
        rest = after;
        match option.to_str()? {
            "--timings" => presentation.timings = true,
            "--quiet" | "-q" => presentation.quiet = true,
            option @ ("--config" | "--program") => {
                let (value, after) = rest.split_first()?;
                let known = if option == "--config" { &mut configuration } else { &mut program };
                // The parser reports what is wrong with the value.
                if value.as_bytes().starts_with(b"-") || known.replace(value.as_os_str()).is_some() {
                    return None;
                }
                rest = after;
            }
            _ => return None,
        }
    }
    let (profile, mut arguments) = rest.split_first()?;
    if verb == "agent" && agent::VERBS.iter().any(|own| profile == own) {
        return None;
    }
    presentation.application = Some(This { verb, profile });
    if let Some((first, rest)) = arguments.split_first()
        && first == "--"
    {
        arguments = rest;
    }
    Some(Opened { verb, profile, configuration, program, presentation, arguments })
}

/// The key of an application's plan, and the directory that would keep it. `cwd` is empty for a plan that doesn't
/// depend on the working directory.
pub(crate) fn key_of_open(opened: &Opened<'_>, cwd: &Path) -> (Key, Option<PathBuf>) {
    let configuration = opened.configuration.unwrap_or_default();
    let words = [OsStr::new(opened.verb), opened.profile, configuration, opened.program.unwrap_or_default()];
    key(&words[..3 + usize::from(opened.program.is_some())], cwd)
}

/// Variables that a plan may depend on, in addition to those of toolchains.
const VARIABLES: [&[u8]; 10] = [
    b"HOME",
    b"USER",
    b"PATH",
    b"XDG_CONFIG_HOME",
    b"XDG_CACHE_HOME",
    b"XDG_STATE_HOME",
    b"XDG_DATA_HOME",
    b"XDG_RUNTIME_DIR",
    b"GIT_CONFIG_GLOBAL",
    b"PALISADE_REFUSALS",
];

/// The key of a launch's plan, and the directory that would keep it.
pub(crate) fn key(options: &[&OsStr], cwd: &Path) -> (Key, Option<PathBuf>) {
    let mut key = Key::default();
    key.add(palisade_sandbox::plan::PROGRAM.as_bytes());
    for option in options {
        key.add(option.as_bytes());
    }
    key.add(b"");
    key.add(cwd.as_os_str().as_bytes());
    let ids = [
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
        rustix::process::getuid().as_raw(),
    ];
    key.add(ids.map(u32::to_le_bytes).as_flattened());
    // Another kernel may support other features of Landlock.
    let system = rustix::system::uname();
    key.add(system.release().to_bytes());
    key.add(system.version().to_bytes());

    let (mut home, mut cache) = (None, None);
    // Shells pass variables in different orders.
    let mut relevant: Vec<&[u8]> = Vec::with_capacity(VARIABLES.len());
    for variable in palisade_sys::process::environment() {
        let variable = variable.to_bytes();
        let Some(length) = variable.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = (&variable[..length], &variable[length + 1..]);
        if VARIABLES.contains(&name) || palisade_host::toolchain::is_variable(name) {
            relevant.push(variable);
            match name {
                b"HOME" => home = Some(value),
                b"XDG_CACHE_HOME" if value.first() == Some(&b'/') => cache = Some(value),
                _ => {}
            }
        }
    }
    relevant.sort_unstable();
    relevant.iter().for_each(|variable| key.add(variable));
    let base = match (cache, home) {
        (Some(cache), _) => Path::new(OsStr::from_bytes(cache)).to_owned(),
        (None, Some(home)) if home.first() == Some(&b'/') => {
            Path::new(OsStr::from_bytes(home)).join(".cache")
        }
        _ => return (key, None),
    };
    (key, Some(base.join("palisade/plans")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_command_is_what_follows_the_first_double_dash() {
        let arguments = arguments("run --ro /a --timings -- ls -- --json");
        let scanned = scan(&arguments).unwrap();
        assert_eq!(scanned.options, ["--ro", "/a"]);
        assert_eq!(scanned.command, ["ls", "--", "--json"]);
        assert!(scanned.presentation.timings);
    }

    #[test]
    fn a_name_is_no_part_of_what_a_plan_depends_on() {
        for line in ["run --name web --namespaces none -- ls", "run --name=web --namespaces none -- ls"] {
            let arguments = arguments(line);
            let scanned = scan(&arguments).unwrap();
            assert_eq!(scanned.presentation.name, Some("web"));
            assert_eq!(scanned.options, ["--namespaces", "none"]);
        }
    }

    #[test]
    fn what_is_opened_is_told_from_its_arguments() {
        let arguments = arguments("open --config clean --timings chromium -- --config other");
        let opened = scan_open(&arguments).unwrap();
        assert_eq!((opened.profile, opened.configuration), ("chromium".as_ref(), Some("clean".as_ref())));
        assert_eq!(opened.arguments, ["--config", "other"]);
        assert!(opened.presentation.timings);
        let arguments = super::tests::arguments("open --program /usr/bin/sh --config clean app x");
        let opened = scan_open(&arguments).unwrap();
        assert_eq!(
            (opened.program, opened.configuration),
            (Some("/usr/bin/sh".as_ref()), Some("clean".as_ref()))
        );
        assert_eq!((opened.profile, opened.arguments), ("app".as_ref(), &["x".into()][..]));
        for line in [
            "open",
            "open --config",
            "open --config --x y",
            "open --home none x",
            "open --config a",
            "run x",
            "open --program --x y",
            "open --program sh --program sh y",
        ] {
            assert_eq!(scan_open(&super::tests::arguments(line)), None, "{line}");
        }
    }

    #[test]
    fn what_needs_a_closer_look_goes_the_long_way() {
        for line in [
            "run ls",
            "run --",
            "explain -- x",
            "run --dry-run -- ls",
            "run --env=A=b -- ls",
            "run --proxy http://a:b@c:1 -- ls",
            "run --proxy=direct -- ls",
            "run --status-fd x -- ls",
            "run --name -x -- ls",
            "run --name= -- ls",
            "run --name a --name b -- ls",
            "run --name -- ls",
        ] {
            assert!(scan(&arguments(line)).is_none(), "{line}");
        }
    }

    /// The scan must read arguments as clap does, or the next launch with the same arguments would run something else
    /// than the first one. Arguments are drawn from words that mean something and from arbitrary bytes.
    #[test]
    fn the_scan_agrees_with_the_parser() {
        const WORDS: [&str; 41] = [
            "run",
            "--",
            "--name",
            "--name=web",
            "web",
            "--ro",
            "--rw=/a",
            "/tmp",
            "--timings",
            "-q",
            "--quiet",
            "-v",
            "--status-fd",
            "3",
            "-c",
            "echo hi",
            "--env",
            "A=b",
            "--net",
            "host",
            "filtered",
            "--allow",
            "*.example.com:443",
            "--deny-host=a.org",
            "--publish",
            "8080:80",
            "--reach=5432",
            "--net-default",
            "--proxy=http://a:b@c:1",
            "--dns",
            "--namespaces=none",
            "--protect",
            "--protect=off",
            "--allow-name",
            ".git/hooks",
            "ls",
            "-la",
            "--json",
            "-qc",
            "--",
            "",
        ];
        bolero::check!().with_iterations(3000).for_each(|bytes: &[u8]| {
            let arguments: Vec<OsString> = bytes
                .split(|byte| *byte == 0xff)
                .flat_map(|part| match part {
                    [choice] => vec![OsString::from(WORDS[usize::from(*choice) % WORDS.len()])],
                    [run, rest @ ..] if run % 2 == 0 => std::iter::once(OsString::from("run"))
                        .chain(
                            rest.iter().map(|byte| OsString::from(WORDS[usize::from(*byte) % WORDS.len()])),
                        )
                        .collect(),
                    other => vec![OsStr::from_bytes(other).to_owned()],
                })
                .collect();
            let Some(scanned) = scan(&arguments) else { return };
            let Ok(options) = crate::parse_run(&arguments) else { return };
            // `prepare` keeps a plan only if the commands agree. They always agree if every option begins with `--`.
            if scanned.options.iter().all(|option| option.as_bytes().starts_with(b"--")) {
                assert_eq!(scanned.command, options.command(), "{arguments:?}");
            }
        });
    }
}
