// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests of palisaded share: beds, in which a guard watches a file system that no other process uses.
//!
//! A bed is a mount namespace of its own. A small one has a tmpfs, and the guard watches only that. A host is an
//! overlay of this machine's files: it has a superblock of its own, so that a guard inside can watch `/` and enforce
//! with the machine's real package database, and nothing outside is asked about.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

pub mod host;
pub mod lines;
pub mod packages;

use palisade_acceptance::case::data_directory;
use palisade_acceptance::feature::Features;
use palisade_acceptance::patience::{Patience, crowd};
use palisade_protocol::Connection;
use palisade_protocol::guard::{Metrics, Request, Response, Status};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// An ordinary user without an account: the guard needs none.
pub const ORDINARY: u32 = 47_110;
/// The longest that a guard may run unless a test says otherwise, in seconds. After that it is ended, whatever the test does.
const LIFE: u64 = 230;
/// The longest that one command may take, in seconds.
const PATIENCE: &str = "60";

/// Whether the machine has `feature`. Panics if the feature is declared and missing.
pub fn has(feature: &str) -> bool {
    static FEATURES: OnceLock<Features> = OnceLock::new();
    let find = || Features::find(&data_directory()).unwrap_or_else(|error| panic!("{error}"));
    FEATURES.get_or_init(find).has(feature)
}

/// The time on this machine now that corresponds to so many seconds of an idle machine.
fn scaled(seconds: u64) -> u64 {
    Duration::from_secs(seconds).mul_f64(crowd().min(10.0)).as_secs()
}

/// How a command ended.
#[derive(Debug, Clone)]
pub struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Run {
    pub fn worked(&self) -> bool {
        self.code == Some(0)
    }

    /// Panics unless it worked. Returns its output.
    #[track_caller]
    pub fn ok(&self) -> String {
        assert!(self.worked(), "{self:#?}");
        self.out.clone()
    }

    /// Panics unless the guard refused it.
    #[track_caller]
    pub fn refused(&self) {
        let said = format!("{}{}", self.out, self.err);
        let known = [
            "not permitted",
            "Permission denied",
            "failed to map",
            "cannot open",
            "can't open",
            "Can't locate",
        ];
        assert!(!self.worked() && known.iter().any(|word| said.contains(word)), "{self:#?}");
    }
}

impl Run {
    /// Panics unless it failed for a reason other than the guard.
    #[track_caller]
    pub fn refused_by_itself(&self) {
        assert!(!self.worked() && !self.err.contains("not permitted"), "{self:#?}");
    }
}

/// The tables of `guard.toml`, each without its heading.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub guard: String,
    pub watch: String,
    pub trust: String,
    pub log: String,
    pub rules: String,
}

impl Settings {
    /// Enforces, with trust from files alone.
    pub fn enforce() -> Self {
        Self { guard: "mode = \"enforce\"".into(), trust: "sources = [\"files\"]".into(), ..Self::default() }
    }

    pub fn trust(self, more: &str) -> Self {
        Self { trust: format!("{}\n{more}", self.trust), ..self }
    }

    pub fn log(self, log: &str) -> Self {
        Self { log: log.into(), ..self }
    }
}

/// A mount namespace with its files.
#[derive(Debug)]
pub struct Bed {
    /// The bed's directory, outside.
    pub base: PathBuf,
    /// The watched directory, as the guard sees it: without a slash at the end.
    pub point: PathBuf,
    is_host: bool,
    keeper: Child,
    guard: Option<Child>,
    pub options: Vec<&'static str>,
    /// A command that starts the guard: the guard's own command follows. Usually empty.
    pub starter: Vec<&'static str>,
    /// The longest that a guard may run, in seconds.
    pub life: u64,
    /// Where the next guard writes its messages, if not to the log.
    pub said: Option<Stdio>,
}

impl Bed {
    /// A tmpfs, mounted with `options`.
    pub fn with(mount: &str) -> Self {
        let base = base();
        fs::create_dir(base.join("bed")).unwrap();
        let point = base.join("bed");
        let script = format!("mount -t tmpfs {mount} guard-bed '{}'", point.display());
        let keeper = keep(&base, &script);
        let bed = Self {
            base,
            point,
            is_host: false,
            keeper,
            guard: None,
            options: vec!["--force"],
            starter: Vec::new(),
            life: LIFE,
            said: None,
        };
        for directory in ["config", "config/guard.d", "config/trust.d", "state"] {
            fs::create_dir(bed.base.join(directory)).unwrap();
        }
        bed
    }

    /// A tmpfs.
    pub fn new() -> Self {
        Self::with("-o mode=755")
    }

    /// This machine's files, as a separate host.
    pub fn host() -> Self {
        let base = base();
        let script = format!(
            "cd '{}' && mkdir layers root && mount -t tmpfs layers layers && mkdir layers/upper layers/work &&
mount -t overlay overlay -o lowerdir=/,upperdir=layers/upper,workdir=layers/work root && cd root &&
mount -t proc proc proc && mount --bind /dev dev && mount --bind /dev/pts dev/pts && mount -t sysfs sysfs sys &&
mount -t tmpfs -o mode=755 tmpfs run && mount -t tmpfs tmpfs tmp && mkdir run/palisade &&
rm -rf etc/palisade && mkdir -p etc/palisade/guard.d etc/palisade/trust.d var/lib/palisade &&
pivot_root . mnt && exec chroot . /bin/sh -c 'umount -l /mnt && echo ready && exec cat'",
            base.display()
        );
        let keeper = keep(&base, &script);
        let mut bed = Self {
            base,
            point: "/".into(),
            is_host: true,
            keeper,
            guard: None,
            options: Vec::new(),
            starter: Vec::new(),
            life: LIFE,
            said: None,
        };
        let own = bed.copy(env!("CARGO_BIN_EXE_palisaded"), "/usr/local/sbin/palisaded");
        bed.trust("10-own", &[&own]);
        bed.options.clear();
        bed
    }

    /// A path of the configuration, as the guard gets it.
    pub fn config(&self, name: &str) -> PathBuf {
        if self.is_host { "/etc/palisade".into() } else { self.base.join("config") }.join(name)
    }

    /// A path of the state, as the guard gets it.
    pub fn state(&self, name: &str) -> PathBuf {
        if self.is_host { "/var/lib/palisade".into() } else { self.base.join("state") }.join(name)
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        if self.is_host { "/run/palisade/guard.sock".into() } else { self.base.join("socket") }
    }

    /// A path in the bed, as seen inside.
    pub fn at(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    /// A path in the bed, as seen from outside.
    pub fn outside(&self, inside: impl AsRef<Path>) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.keeper.id()));
        root.join(inside.as_ref().strip_prefix("/").unwrap())
    }

    /// Writes a file, and makes its directories.
    pub fn write(&self, inside: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.outside(&inside);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        inside.as_ref().to_owned()
    }

    /// Writes an executable file.
    pub fn program(&self, inside: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let inside = self.write(inside, content);
        fs::set_permissions(self.outside(&inside), fs::Permissions::from_mode(0o755)).unwrap();
        inside
    }

    /// Copies one of the machine's programs.
    pub fn copy(&self, from: &str, inside: impl AsRef<Path>) -> PathBuf {
        self.program(inside, fs::read(from).unwrap())
    }

    /// Writes the settings.
    pub fn settings(&self, settings: &Settings) {
        let Settings { guard, watch, trust, log, rules } = settings;
        let only = if watch.contains("only") {
            String::new()
        } else {
            format!("only = [\"{}\"]", self.point.display())
        };
        let text = format!(
            "schema = 1\n[guard]\n{guard}\n[guard.watch]\n{only}\n{watch}\n[guard.trust]\n{trust}\n\
             [guard.log]\nper-second = 10000\n{log}\n{rules}\n"
        );
        self.write(self.config("guard.toml"), text);
    }

    /// Writes the only file of rules; `BED` stands for the watched directory.
    pub fn rules(&self, text: &str) {
        self.rule_file("50-test.rules", text);
    }

    /// Writes one file of rules.
    pub fn rule_file(&self, name: &str, text: &str) {
        let text = text.replace("BED", &self.point.display().to_string());
        self.write(self.config("guard.d").join(name), text);
    }

    /// The line of a trust file.
    pub fn trust_line(&self, inside: &Path) -> String {
        let content = fs::read(self.outside(inside)).unwrap();
        format!("{} {} {}\n", inside.display(), content.len(), sha256(&content))
    }

    /// Writes a trust file that names these files.
    pub fn trust(&self, name: &str, files: &[&Path]) {
        let lines: String = files.iter().map(|file| self.trust_line(file)).collect();
        self.write(self.config("trust.d").join(name), lines);
    }

    fn enter(&self, command: &mut Command) {
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.keeper.id())).arg("--");
    }

    /// A command in the bed, which isn't started yet.
    pub fn command(&self, uid: u32, seconds: &str, words: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        let seconds = scaled(seconds.parse().unwrap()).to_string();
        command.args(["-k", "2", &seconds, "nsenter"]);
        self.enter(&mut command);
        if uid != 0 {
            let (user, group) = (format!("--reuid={uid}"), format!("--regid={uid}"));
            command.args(["setpriv", &user, &group, "--clear-groups", "--"]);
        }
        command.args(words).env("LC_ALL", "C").env("BED", &self.point).stdin(Stdio::null());
        command.env("PATH", palisade_acceptance::process::SYSTEM_PATH).current_dir("/");
        command
    }

    fn run_words(&self, uid: u32, words: &[&str]) -> Run {
        let output = self.command(uid, PATIENCE, words).output().unwrap();
        Run {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs a script as root.
    pub fn run(&self, script: &str) -> Run {
        self.run_words(0, &["/bin/sh", "-c", &format!("cd \"$BED\"; {script}")])
    }

    /// Runs a script as an ordinary user.
    pub fn run_as_user(&self, script: &str) -> Run {
        self.run_words(ORDINARY, &["/bin/sh", "-c", &format!("cd \"$BED\"; {script}")])
    }

    /// Starts the guard without waiting.
    pub fn launch(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.base.join("log")).unwrap();
        let program =
            if self.is_host { "/usr/local/sbin/palisaded" } else { env!("CARGO_BIN_EXE_palisaded") };
        let (config, state, socket) = (self.config(""), self.state(""), self.socket());
        let mut words = self.starter.clone();
        words.extend([program, "--config", config.to_str().unwrap(), "--state", state.to_str().unwrap()]);
        words.extend(["--socket", socket.to_str().unwrap()]);
        // A system call that isn't on the list ends the guard, so that no test overlooks it.
        if !self.options.contains(&"--other-calls") {
            words.extend(["--other-calls", "kill"]);
        }
        words.extend(&self.options);
        let mut command = self.command(0, &self.life.to_string(), &words);
        command.stdout(Stdio::null()).stderr(self.said.take().unwrap_or_else(|| log.into()));
        self.guard = Some(command.spawn().unwrap());
    }

    /// Starts the guard, and waits until it decides by everything that was written.
    pub fn start(&mut self) {
        let before = self.imports();
        self.launch();
        let enforces = fs::read_to_string(self.outside(self.config("guard.toml")))
            .is_ok_and(|text| text.contains("mode = \"enforce\""))
            && !self.options.contains(&"--permissive");
        self.wait("the guard begins", |bed| {
            bed.imports() > before
                && matches!(bed.try_ask(&Request::Status), Some(Response::Status(status)) if status.enforcing == enforces)
        });
        self.settle();
    }

    fn imports(&self) -> usize {
        self.log().matches("files are trusted").count()
    }

    /// Waits until everything trusted was read once more.
    pub fn wait_for_import(&self, act: impl FnOnce()) {
        let before = self.imports();
        act();
        self.wait("the import ends", |bed| bed.imports() > before);
        self.settle();
    }

    /// Waits, because the database is in force only a moment after the guard reports it. If something can't be read, it never is:
    /// the guard reports that, and the test continues with what there is.
    fn settle(&self) {
        let _said = self.try_ask(&Request::Sync { seconds: scaled(5) });
    }

    /// Waits until a condition holds. Panics if that takes too long, or if the guard has ended.
    #[track_caller]
    pub fn wait(&self, what: &str, mut so: impl FnMut(&Self) -> bool) {
        let mut patience = Patience::new(Duration::from_secs(60));
        while !so(self) {
            assert!(!patience.is_spent(), "{what}: it takes too long\n{}", self.log());
            assert!(
                self.guard.is_none() || self.guard_lives(),
                "{what}: the guard has ended\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn guard_lives(&self) -> bool {
        let Some(guard) = &self.guard else { return false };
        let stat = fs::read_to_string(format!("/proc/{}/stat", guard.id())).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z")
    }

    /// The guard's messages so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.base.join("log")).unwrap_or_default()
    }

    /// Sends the guard a request, if it can be reached.
    pub fn try_ask(&self, request: &Request) -> Option<Response> {
        let mut connection = Connection::open(&self.outside(self.socket()), "test").ok()?;
        connection.send(request).ok()?;
        connection.receive().ok()
    }

    #[track_caller]
    pub fn ask(&self, request: &Request) -> Response {
        self.try_ask(request).unwrap_or_else(|| panic!("no answer to {request:?}\n{}", self.log()))
    }

    /// A conversation with the guard.
    pub fn talk(&self) -> Connection {
        Connection::open(&self.outside(self.socket()), "test").unwrap()
    }

    #[track_caller]
    pub fn status(&self) -> Status {
        match self.ask(&Request::Status) {
            Response::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub fn metrics(&self) -> Metrics {
        match self.ask(&Request::Metrics { reset: false }) {
            Response::Metrics(metrics) => *metrics,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub fn reload(&self) {
        let answer = self.ask(&Request::Reload { force: true });
        assert!(matches!(answer, Response::Done { .. }), "{answer:?}");
    }

    /// A reload that the guard may refuse as unsafe.
    #[track_caller]
    pub fn reload_gently(&self) {
        let answer = self.ask(&Request::Reload { force: false });
        assert!(matches!(answer, Response::Done { .. }), "{answer:?}");
    }

    /// Sends a signal to the guard itself.
    pub fn signal(&self, signal: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// The guard's process number: the child of `timeout`, which limits its life.
    pub fn pid(&self) -> u32 {
        let guard = self.guard.as_ref().unwrap().id();
        let children = fs::read_to_string(format!("/proc/{guard}/task/{guard}/children")).unwrap();
        children.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Waits until the guard has ended. Returns its exit code.
    #[track_caller]
    pub fn ended(&mut self) -> Option<i32> {
        let mut guard = self.guard.take().unwrap();
        if let Some(status) = palisade_acceptance::process::wait(&mut guard, Duration::from_secs(20)).unwrap()
        {
            return status.code();
        }
        end(&mut guard);
        panic!("the guard doesn't end\n{}", self.log());
    }

    /// Ends the guard as an administrator does.
    #[track_caller]
    pub fn stop(&mut self) {
        self.signal("-TERM");
        assert_eq!(self.ended(), Some(0), "{}", self.log());
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if let Some(guard) = &mut self.guard {
            end(guard);
        }
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(15)..].join("\n");
            let _nobody_reads = writeln!(std::io::stderr(), "the guard's last words:\n{last}");
        }
        drop(self.keeper.stdin.take());
        let _reaped = self.keeper.wait();
        let _removed = fs::remove_dir_all(&self.base);
    }
}

/// Ends the `timeout` that limits a guard's life, and the guard with it.
fn end(guard: &mut Child) {
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", guard.id())).unwrap_or_default();
    let _gone = Command::new("kill").arg("-TERM").arg(guard.id().to_string()).status();
    if matches!(palisade_acceptance::process::wait(guard, Duration::from_secs(5)), Ok(Some(_))) {
        return;
    }
    for pid in children.split_whitespace() {
        let _gone = Command::new("kill").args(["-KILL", pid]).status();
    }
    let _gone = guard.kill();
    let _reaped = guard.wait();
}

fn base() -> PathBuf {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let base = PathBuf::from(format!("/var/tmp/palisade-guard-{}-{number}", std::process::id()));
    fs::create_dir(&base).unwrap();
    fs::set_permissions(&base, fs::Permissions::from_mode(0o755)).unwrap();
    base
}

/// Makes a mount namespace that exists as long as the other end of the keeper's standard input is open.
fn keep(base: &Path, script: &str) -> Child {
    let script = format!("{script} && echo ready && exec cat");
    let mut keeper = Command::new("unshare")
        .args(["-m", "--propagation", "private", "/bin/sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line != "ready\n" {
        let _reaped = keeper.wait();
        let _removed = fs::remove_dir_all(base);
        panic!("no bed can be made here");
    }
    keeper
}

/// The SHA-256 in hexadecimal.
pub fn sha256(content: &[u8]) -> String {
    let mut child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()[..64].to_owned()
}

/// Compiles C code.
pub fn compile(source: &str, options: &[&str]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("a.c"), directory.path().join("a"));
    fs::write(&from, source).unwrap();
    let status = Command::new("gcc").args(["-w", "-O1", "-o"]).arg(&to).arg(&from).args(options).status();
    assert!(status.unwrap().success());
    fs::read(to).unwrap()
}
