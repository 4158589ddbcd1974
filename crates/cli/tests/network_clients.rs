// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests real clients in a filtered network: each does its job with an allowed host, and reaches no other. The hosts are
//! those of the simulated internet, and real registries if the machine reaches them.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::network::bed::Bed;
use crate::support::{self, Place, Run, everybody, go, has, job};
use std::io::Write;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/network/clients");
const SERVICES: (&str, &str) = ("services", include_str!("network/services.py"));
/// One has the addresses of the other.
const ALLOWED: &str = "www.allowed.example";
const NEIGHBOUR: &str = "other.example";

/// A line of a table: its first fields, and the rest.
fn lines<const N: usize>(table: &'static str) -> Vec<[&'static str; N]> {
    let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let split = |line: &'static str| line.splitn(N, " | ").collect::<Vec<_>>();
    lines
        .map(|line| split(line).try_into().unwrap_or_else(|_| panic!("not a line of a table: {line}")))
        .collect()
}

/// Whether the machine has each of some features, with commas between them.
fn has_all(features: &str) -> bool {
    features.split(',').all(has)
}

/// Prints at once, whether the test fails or not: the harness keeps only what is printed by macros.
fn tell(line: &str) {
    let _nobody_reads = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}

fn as_milliseconds(since: Instant) -> String {
    format!("{} ms", since.elapsed().as_millis())
}

/// What the lines need of a place: scripts, and tools that else are in the tester's home.
struct Kit {
    clients: PathBuf,
    tools: PathBuf,
}

impl Kit {
    fn new(place: &Place) -> Self {
        let kit = Self { clients: place.home.join("clients"), tools: place.home.join("tools") };
        for entry in std::fs::read_dir(SCRIPTS).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            place.write(&format!("clients/{name}"), std::fs::read(entry.path()).unwrap());
        }
        place.write("tools/bin/.keep", "");
        if has("rustup") {
            kit.install_cargo();
        }
        if has("go") {
            let program = place.write("clients/fetch", static_program());
            std::fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        if has("java") {
            place.write("clients/Fetch.class", java_class());
        }
        kit
    }

    /// As much of a toolchain as cargo needs to fetch, as links where that is possible.
    fn install_cargo(&self) {
        let own = std::env::var("HOME").unwrap();
        let cargo = std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{own}/.cargo"));
        let mut rustc = Command::new(format!("{cargo}/bin/rustc"));
        let said = rustc.args(["--print", "sysroot"]).current_dir("/").output().unwrap();
        let script = "set -e
mkdir -p \"$TOOLS/lib\"
for file in bin/cargo bin/rustc; do ln \"$FROM/$file\" \"$TOOLS/$file\" || cp \"$FROM/$file\" \"$TOOLS/$file\"; done
for file in \"$FROM\"/lib/*.so*; do ln \"$file\" \"$TOOLS/lib/\" || cp \"$file\" \"$TOOLS/lib/\"; done";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).env("TOOLS", &self.tools);
        job::finish(command.env("FROM", String::from_utf8(said.stdout).unwrap().trim_end())).ok();
    }

    fn path(&self) -> String {
        format!("{}/bin:/usr/local/go/bin:{}", self.tools.display(), support::PATH)
    }

    /// A line in an empty directory.
    fn line(&self, line: &str) -> String {
        format!(". {}/prelude.sh; mkdir job && cd job && {{ {line}\n}}", self.clients.display())
    }

    /// `command` in the environment of these lines.
    fn around(&self, command: &mut Command, variables: &[(&str, &str)]) {
        command.env("PATH", self.path()).env("CLIENTS", &self.clients).envs(variables.iter().copied());
    }

    /// Options that give these inside.
    fn options(&self, variables: &[(&str, &str)]) -> Vec<String> {
        let mut options = vec!["--ro".to_owned(), self.clients.display().to_string()];
        options.extend(["--ro".to_owned(), self.tools.display().to_string()]);
        options.extend(["--env".to_owned(), format!("CLIENTS={}", self.clients.display())]);
        for (name, value) in variables {
            options.extend(["--env".to_owned(), format!("{name}={value}")]);
        }
        options
    }
}

/// A static program that uses neither proxies nor the C library.
fn static_program() -> &'static [u8] {
    static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
    PROGRAM.get_or_init(|| go::built(include_str!("network/clients/fetch.go")))
}

/// Java's client. It compiles what it is given as a source each time, which takes as long as everything else it does.
fn java_class() -> &'static [u8] {
    static CLASS: OnceLock<Vec<u8>> = OnceLock::new();
    CLASS.get_or_init(|| {
        let made = tempfile::tempdir().unwrap();
        let mut javac = Command::new("javac");
        javac.args(["-J-XX:TieredStopAtLevel=1", "-d"]).arg(made.path()).arg(format!("{SCRIPTS}/Fetch.java"));
        job::finish(&mut javac).ok();
        std::fs::read(made.path().join("Fetch.class")).unwrap()
    })
}

/// The simulated internet of one user, and what its clients need.
struct Town {
    bed: Bed,
    kit: Kit,
}

impl Town {
    fn new(place: Place) -> Self {
        let kit = Kit::new(&place);
        Self { bed: Bed::serving(place, &[SERVICES]), kit }
    }

    /// Does a job in an empty directory, and says what has been reached.
    fn attempt(&self, line: &str, host: &str, inside: bool) -> (Run, Vec<String>) {
        let keys = self.bed.directory.display().to_string();
        let variables = [("HOST", host), ("KEYS", &keys), ("LOGIN", self.bed.place.name())];
        let line = self.kit.line(line);
        let job = self.bed.place.work.join("job");
        let _none_yet = std::fs::remove_dir_all(&job);
        self.bed.reached();
        let mut command = if inside {
            let mut options = self.kit.options(&variables);
            options.extend([
                "--ro".to_owned(),
                keys.clone(),
                "--allow".to_owned(),
                "*.allowed.example".to_owned(),
            ]);
            self.bed.palisade(&options.iter().map(String::as_str).collect::<Vec<_>>(), &line)
        } else {
            let mut command = self.bed.command("/bin/sh");
            command.args(["-c", &line]).env("CA", self.bed.authority());
            command
        };
        self.kit.around(&mut command, &variables);
        let run = job::finish(&mut command);
        (run, self.bed.reached())
    }

    /// What a client gets done, in words; or what is wrong with that.
    fn pair(&self, fate: &str, line: &str) -> Result<String, String> {
        let (outside, seen) = self.attempt(line, NEIGHBOUR, false);
        if outside.code != 0 || seen.is_empty() {
            return Err(format!("outside: {outside:?}, reached {seen:?}"));
        }
        let start = Instant::now();
        let (allowed, seen) = self.attempt(line, ALLOWED, true);
        let mut told = as_milliseconds(start);
        let right = match fate {
            "reached" => allowed.code == 0 && !seen.is_empty(),
            // The name server may be asked about names that a rule allows.
            "refused" => allowed.code != 0 && seen.iter().all(|line| line.starts_with("dns ")),
            other => panic!("what is {other}?"),
        };
        if !right {
            return Err(format!("allowed: {allowed:?}, reached {seen:?}"));
        }
        let start = Instant::now();
        let (refused, seen) = self.attempt(line, NEIGHBOUR, true);
        told = format!("{told:>9} {:>9}", as_milliseconds(start));
        let hinted = refused.err.contains(&format!("palisade run --allow {NEIGHBOUR}"));
        // What there is no way for fails before a name is looked up, perhaps.
        if refused.code == 0 || !seen.is_empty() || (fate == "reached" && !hinted) {
            return Err(format!("neighbour: {refused:?}, reached {seen:?}"));
        }
        Ok(told)
    }
}

/// Runs `work` for all users at once, and returns the errors that it found.
fn as_everybody(work: impl Fn(Place) -> Vec<String> + Sync) -> Vec<String> {
    std::thread::scope(|scope| {
        let places = everybody().into_iter();
        let threads: Vec<_> = places.map(|place| scope.spawn(|| work(place))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Tells a line of the table that is printed; what is wrong is kept for the end.
fn account(place: &Place, what: &str, came: Result<String, String>) -> Option<String> {
    let whose = if place.is_root() { "root" } else { "user" };
    tell(&format!("{whose} | {what} | {}", came.as_deref().unwrap_or("FAILED")));
    came.err().map(|why| format!("{whose}, {}: {why}", what.trim()))
}

#[test]
fn each_client_does_its_job_with_an_allowed_host_and_reaches_nothing_of_its_neighbour() {
    let only = std::env::var("PALISADE_CLIENTS_ONLY").unwrap_or_default();
    let clients = lines::<4>(include_str!("network/clients.list"));
    let failures = as_everybody(|place| {
        let (town, mut failures) = (Town::new(place), Vec::new());
        for [client, features, fate, line] in clients.iter().filter(|[client, ..]| client.contains(&only)) {
            let came = if has_all(features) { town.pair(fate, line) } else { Ok("not tried".to_owned()) };
            failures.extend(account(&town.bed.place, &format!("{client:30} | {fate:7}"), came));
        }
        failures
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What the tester's own clients say about their registry: nothing if that is the usual one.
fn configured(client: &str) -> String {
    let said = |program: &str, arguments: &[&str]| {
        let path = format!("{}:/usr/local/go/bin", std::env::var("PATH").unwrap());
        let run = job::finish(Command::new(program).args(arguments).current_dir("/").env("PATH", path));
        if run.code == 0 { run.out.trim().to_owned() } else { String::new() }
    };
    match client {
        "npm install" => said("npm", &["config", "get", "registry"]),
        "pip download" => said("/usr/bin/python3", &["-m", "pip", "config", "get", "global.index-url"]),
        "go mod download" => said("go", &["env", "GOPROXY"]),
        _ => {
            let home =
                std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| home + "/.cargo"));
            std::fs::read_to_string(Path::new(&home.unwrap()).join("config.toml")).unwrap_or_default()
        }
    }
}

/// The hosts of the URLs in `text`.
fn hosts(text: &str) -> Vec<String> {
    let end = |c: char| !c.is_ascii_alphanumeric() && !"-.".contains(c);
    let host = |rest: &str| {
        let authority = rest.split(['/', '"', ',']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        host.split(end).next().unwrap_or_default().to_owned()
    };
    text.split("://").skip(1).map(host).collect()
}

fn is_reachable(host: &str) -> bool {
    let addresses = (host, 443).to_socket_addrs().into_iter().flatten();
    addresses.into_iter().any(|address| TcpStream::connect_timeout(&address, Duration::from_secs(3)).is_ok())
}

/// A real registry, and what a client needs of it.
struct Registry {
    client: &'static str,
    line: &'static str,
    configured: String,
    hosts: Vec<String>,
}

impl Registry {
    /// The registries for which this machine has clients, if it reaches them.
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for [client, features, usual, line] in lines::<4>(include_str!("network/registries.list")) {
            if !has_all(features) {
                continue;
            }
            let configured = configured(client);
            let usual = usual.split(' ').map(str::to_owned);
            let hosts: Vec<String> = usual.chain(hosts(&configured)).collect();
            if hosts.iter().any(|host| is_reachable(host)) {
                all.push(Self { client, line, configured, hosts });
            } else {
                tell(&format!("{client:30} | not tried: no registry here"));
            }
        }
        all
    }

    /// Does the job in an empty directory; inside if there are rules.
    fn attempt(&self, place: &Place, kit: &Kit, rules: Option<&[String]>) -> Run {
        let _none_yet = std::fs::remove_dir_all(place.work.join("job"));
        let (variables, line) = ([("REGISTRY", self.configured.as_str())], kit.line(self.line));
        let mut command = if let Some(rules) = rules {
            let mut options = kit.options(&variables);
            options.extend(["--net".to_owned(), "filtered".to_owned()]);
            options.extend(rules.iter().flat_map(|host| ["--allow".to_owned(), host.clone()]));
            place.palisade(&options.iter().map(String::as_str).collect::<Vec<_>>(), &["sh", "-c", &line])
        } else {
            let mut command = place.command("timeout");
            command.args(["-k", "1", "60", "/bin/sh", "-c", &line]);
            command
        };
        kit.around(&mut command, &variables);
        job::finish(&mut command)
    }

    /// Runs the job outside and inside. Returns the result in words.
    fn pair(&self, place: &Place, kit: &Kit) -> Result<String, String> {
        let outside = self.attempt(place, kit, None);
        if outside.code != 0 {
            return Ok("not tried: no registry here".to_owned());
        }
        let mut rules = self.hosts.clone();
        let mut start = Instant::now();
        let mut allowed = self.attempt(place, kit, Some(&rules));
        // In some networks the name server gives private addresses for public names. Each such address needs a rule of its own.
        for _each in &self.hosts {
            let Some((_, hint)) = allowed.err.split_once("isn't an address of the public internet") else {
                break;
            };
            let address = hint.split("--allow ").nth(1).and_then(|rest| rest.split(' ').next());
            rules.push(address.unwrap_or_default().to_owned());
            start = Instant::now();
            allowed = self.attempt(place, kit, Some(&rules));
        }
        if allowed.code != 0 {
            return Err(format!("allowed {rules:?}: {allowed:?}"));
        }
        let told = as_milliseconds(start);
        let start = Instant::now();
        let refused = self.attempt(place, kit, Some(&["www.allowed.example".to_owned()]));
        if refused.code == 0 || !refused.err.contains("palisade run --allow ") {
            return Err(format!("refused: {refused:?}"));
        }
        Ok(format!("{told:>9} {:>9}", as_milliseconds(start)))
    }
}

#[test]
fn registries_are_reached_by_their_hosts_alone() {
    let registries = Registry::all();
    let failures = as_everybody(|place| {
        let (kit, mut failures) = (Kit::new(&place), Vec::new());
        for registry in &registries {
            let came = registry.pair(&place, &kit);
            failures.extend(account(&place, &format!("{:30}", registry.client), came));
        }
        failures
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
