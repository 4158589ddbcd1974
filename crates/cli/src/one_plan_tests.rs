// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that the same request makes the same plan through every verb, byte by byte: what is explained is what runs.

use crate::{Cli, Verb};
use clap::{CommandFactory, FromArgMatches};
use palisade::{Request, Subject, Surroundings};
use palisade_host::environment::Environment;
use palisade_sandbox::plan::Plan;
use std::ffi::OsString;
use std::path::Path;

/// The request that a verb makes of these words.
fn asked(words: &[&str]) -> Request {
    let line = std::iter::once("palisade").chain(words.iter().copied()).map(OsString::from);
    let matches =
        Cli::command().try_get_matches_from(line).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let cli = Cli::from_arg_matches(&matches).unwrap();
    let (_verb, matches) = matches.subcommand().unwrap();
    match &cli.verb {
        Verb::Run(options) => options.request(matches).unwrap(),
        Verb::Open(options) => options.request(matches).unwrap(),
        Verb::Learn(options) => options.request(matches).unwrap(),
        Verb::Explain(options) => options.asked.request(matches).unwrap(),
        Verb::Check(options) => options.asked.request(matches).unwrap(),
        Verb::Doctor(options) => options.asked.request(matches).unwrap(),
        Verb::Mcp(options) => {
            let (_serve, matches) = matches.subcommand().unwrap();
            options.asked().unwrap().request(matches).unwrap()
        }
        Verb::Package(options) => {
            let mut request = options.request(matches, "web".as_ref()).unwrap();
            // Packing asks another question about the same request. Only the request is compared.
            let Subject::Pack(application) = request.subject else { panic!("{words:?}") };
            request.subject = Subject::Application(application);
            request
        }
        verb => panic!("{verb:?} asks for no plan"),
    }
}

/// The plan of a request, as it is cached and applied.
fn plan(mut request: Request, home: &Path) -> Plan<'static> {
    let home_text = home.to_str().unwrap();
    let environment = Environment::from_iter([("HOME", home_text), ("PATH", "/usr/bin:/bin")]);
    request.surroundings = Surroundings { directory: home.join("work"), environment };
    request.settle().unwrap().plan().unwrap()
}

/// The bytes of a plan, without its inputs: other tests share the host's directories and may change them meanwhile.
fn bytes(words: &[&str], home: &Path) -> Vec<u8> {
    let mut plan = plan(asked(words), home);
    plan.inputs = Vec::new();
    plan.to_bytes().unwrap()
}

#[test]
fn every_verb_comes_to_the_plan_that_runs() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join("work")).unwrap();
    let data = home.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let data = data.to_str().unwrap();
    let profile = home.path().join("web.toml");
    std::fs::write(
        &profile,
        "schema = 1\n[filesystem]\nread = [\"/usr/share\"]\n[network]\nmode = \"host\"\n",
    )
    .unwrap();
    let profile = profile.to_str().unwrap();
    let sets: [&[&str]; 9] = [
        &[],
        &["--view", "closure", "--net", "host"],
        &["--ro", "/usr/share", "--rw", data, "--hide", "/etc/hostname", "--tmpfs", "/opt"],
        &["--allow", "example.com:443", "--net-default", "ask", "--dns", "192.0.2.1"],
        &["--protect", "mounts", "--best-effort", "--hostname", "inside"],
        &["--env", "A=1", "--keep-env", "LANG", "--limit", "open_files=100", "--cwd", "/usr"],
        &["--profile", profile, "--allow-datagrams"],
        &["--syscalls", "learn", "--trace"],
        &["--namespaces", "none", "--best-effort", "--protect", "off", "--net", "host"],
    ];
    let mut seen = std::collections::BTreeSet::new();
    for options in sets {
        // A verb's additional options come last: a rule of the command line records the position of its word.
        let with = |verb: &str, more: &[&str]| {
            let words = [&[verb], options, more, &["--", "/bin/ls", "-l"]].concat();
            bytes(&words, home.path())
        };
        let run = with("run", &[]);
        for (verb, more) in
            [("explain", &["/etc/passwd"][..]), ("check", &[]), ("doctor", &[]), ("learn", &[])]
        {
            assert!(with(verb, more) == run, "{verb} {options:?}");
        }
        let served = [&["mcp", "serve"], options, &["--", "/bin/ls", "-l"]].concat();
        assert!(bytes(&served, home.path()) == run, "mcp serve {options:?}");
        seen.insert(run);
    }
    assert_eq!(seen.len(), sets.len(), "each set of options has a plan of its own");
}

#[test]
fn a_package_is_made_of_the_application_that_is_opened() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join("work")).unwrap();
    let profile = home.path().join("web.toml");
    let text = "schema = 1\nname = \"web\"\n[program]\npath = \"/bin/ls\"\n";
    std::fs::write(&profile, text).unwrap();
    let profile = profile.to_str().unwrap();
    for options in [&[][..], &["--ro", "/usr/share"], &["--program", "/bin/cat"]] {
        let opened = bytes(&[&["open"], options, &[profile]].concat(), home.path());
        let mut packed = asked(&[&["package", "--output", "x"], options, &[profile]].concat());
        let Subject::Application(application) = &mut packed.subject else { panic!() };
        application.profile = profile.into();
        let mut packed = plan(packed, home.path());
        packed.inputs = Vec::new();
        assert!(packed.to_bytes().unwrap() == opened, "{options:?}");
    }
}
