// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests of `palisade run` share: the users that run them, their directories, and the result of a run.
//!
//! The binary is `PALISADE_BIN`, else the one that cargo has built. As root every test runs twice,
//! as root and as an ordinary user made for the tests; otherwise once, as the user that started it.
//! `PALISADE_TEST_HAS` and `tests/acceptance/features.toml` declare what the machine has.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may die of what the machine should give"
)]

pub mod go;
pub mod home;
pub mod job;
pub mod terminal;

use palisade_acceptance::case::data_directory;
use palisade_acceptance::feature::Features;
use palisade_acceptance::patience::Patience;
use palisade_acceptance::person::Person as Made;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

pub use job::Run;

/// Writes past libtest's capture: the figures are worth reading when nothing failed, too.
pub fn say(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

/// Lets all people play at the same time: each has a directory and launches of its own. `play` gets the number of the person and
/// how many there are, and returns what it found, which must be nothing.
pub fn each_plays(people: &[Place], play: impl Fn(&Place, (u64, u64)) -> Vec<String> + Sync) {
    let all = u64::try_from(people.len()).unwrap();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let play = &play;
        let games = (0..).zip(people).map(|(number, place)| scope.spawn(move || play(place, (number, all))));
        let games: Vec<_> = games.collect();
        games.into_iter().flat_map(|game| game.join().unwrap()).collect()
    });
    assert!(
        failures.is_empty(),
        "\n{}\n(how calls are written: crates/cli/tests/explorer/player.c)",
        failures.join("\n")
    );
}

/// The path of a plain login; a developer's own may be unreachable for others.
pub const PATH: &str = palisade_acceptance::process::SYSTEM_PATH;

/// The ordinary user and the binary's copy: removed when the last test that uses them ends, by
/// success or panic.
struct Crew {
    user: Made,
    top: PathBuf,
    binary: PathBuf,
    /// Where the ordinary user's places are: in a home, not in a public directory.
    base: PathBuf,
}

impl Drop for Crew {
    fn drop(&mut self) {
        for path in [&self.top, &self.base, &self.root_base()] {
            let _removed = std::fs::remove_dir_all(path);
        }
    }
}

impl Crew {
    /// Where root's places are.
    fn root_base(&self) -> PathBuf {
        PathBuf::from(format!("/home/{}-root", self.user.name))
    }
}

fn crew() -> Arc<Crew> {
    static LIVING: Mutex<Weak<Crew>> = Mutex::new(Weak::new());
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let mut living = LIVING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(crew) = living.upgrade() {
        return crew;
    }
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let label = format!("run{number}");
    let user = if is_root() { Made::ordinary(&label) } else { Made::myself(&label) };
    let user = user.unwrap_or_else(|error| panic!("{error}"));
    let top = PathBuf::from(format!("/var/tmp/palisade-run-{}-{number}", std::process::id()));
    std::fs::create_dir(&top).unwrap();
    std::fs::set_permissions(&top, Permissions::from_mode(0o755)).unwrap();
    // The checkout may lie where an ordinary user can't reach it.
    let given =
        std::env::var_os("PALISADE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_palisade").into(), PathBuf::from);
    let binary = top.join("palisade");
    std::fs::copy(&given, &binary).unwrap_or_else(|error| panic!("{}: {error}", given.display()));
    std::fs::set_permissions(&binary, Permissions::from_mode(0o755)).unwrap();
    let base = match std::env::var_os("HOME") {
        Some(home) if !is_root() => {
            Path::new(&home).join(format!("palisade-run-{}-{number}", std::process::id()))
        }
        _ => user.base.clone(),
    };
    let crew = Arc::new(Crew { user, top, binary, base });
    *living = Arc::downgrade(&crew);
    crew
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether the machine has `feature`; what is declared and missing fails here.
pub fn has(feature: &str) -> bool {
    static FEATURES: OnceLock<Features> = OnceLock::new();
    let features =
        FEATURES.get_or_init(|| Features::find(&data_directory()).unwrap_or_else(|error| panic!("{error}")));
    let has = features.has(feature);
    if !has {
        eprintln!("not tried: no {feature} here");
    }
    has
}

/// All users as which a test runs, each in a place of its own.
pub fn everybody() -> Vec<Place> {
    let mut places = vec![ordinary()];
    places.extend(root());
    places
}

/// A place of the ordinary user.
pub fn ordinary() -> Place {
    let crew = crew();
    let (base, uid, gid) = (crew.base.clone(), crew.user.uid, crew.user.gid);
    Place::new(crew, &base, uid, gid)
}

/// A place of root, if this process is root.
pub fn root() -> Option<Place> {
    is_root().then(|| {
        let crew = crew();
        let base = crew.root_base();
        Place::new(crew, &base, 0, 0)
    })
}

/// A home with a working directory in it, and its owner. It is removed at the end.
pub struct Place {
    pub uid: u32,
    pub gid: u32,
    pub home: PathBuf,
    pub work: PathBuf,
    /// In the environment of everything started here, to find what is left of it.
    pub mark: String,
    crew: Arc<Crew>,
}

impl Place {
    fn new(crew: Arc<Crew>, base: &Path, uid: u32, gid: u32) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let home = base.join(number.to_string());
        let work = home.join("work");
        std::fs::create_dir_all(&work).unwrap();
        for path in [base, &home, &work] {
            chown(path, Some(uid), Some(gid)).unwrap();
        }
        let mark = format!("palisade-run-{}-{number}", std::process::id());
        Self { uid, gid, home, work, mark, crew }
    }

    /// Whether this is root's place. Root's commands run as another user.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// The user's name.
    pub fn name(&self) -> &str {
        if self.is_root() { "root" } else { &self.crew.user.name }
    }

    /// The binary.
    pub fn binary(&self) -> &Path {
        &self.crew.binary
    }

    /// `program` as the person of this place, in its working directory, with a plain environment.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.work)
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", &self.home)
            .env("USER", self.name())
            .env("LANG", "C.UTF-8")
            .env("PALISADE_TEST_MARK", &self.mark);
        if is_root() {
            command.uid(self.uid).gid(self.gid);
        }
        command
    }

    /// `palisade run OPTIONS -- COMMAND`, not started yet.
    pub fn palisade(&self, options: &[&str], command: &[&str]) -> Command {
        let mut palisade = self.command(self.binary());
        palisade.arg("run").args(options).arg("--").args(command);
        palisade
    }

    /// Runs `palisade run OPTIONS -- COMMAND` to its end.
    pub fn run(&self, options: &[&str], command: &[&str]) -> Run {
        job::finish(&mut self.palisade(options, command))
    }

    /// `palisade` where an administrator has stated `config`, in a view of `/etc` that only this run has. For root.
    pub fn administered(&self, config: &str) -> Command {
        let etc = self.home.join("etc");
        std::fs::create_dir_all(etc.join("palisade")).unwrap();
        std::fs::copy("/etc/passwd", etc.join("passwd")).unwrap();
        std::fs::write(etc.join("palisade/config.toml"), format!("schema = 1\n{config}")).unwrap();
        let mut bwrap = self.command("bwrap");
        bwrap.args(["--dev-bind", "/", "/", "--bind"]).args([etc.as_path(), Path::new("/etc")]);
        bwrap.arg(self.binary());
        bwrap
    }

    /// Runs a line of shell inside.
    pub fn sh(&self, options: &[&str], line: &str) -> Run {
        self.run(options, &["sh", "-c", line])
    }

    /// Runs a line of shell outside, which must succeed.
    pub fn outside(&self, line: &str) -> String {
        let run = job::finish(self.command("/bin/sh").args(["-c", line]));
        assert_eq!(run.code, 0, "outside: {line}\n{run:?}");
        run.out
    }

    /// Writes a file below the home, with the directories above it.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).unwrap();
        }
        std::fs::write(&path, content).unwrap();
        for made in path.ancestors().take_while(|made| *made != self.home) {
            chown(made, Some(self.uid), Some(self.gid)).unwrap();
        }
        path
    }

    /// A file's content below the home.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.home.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// What the plans of this place are made from outside of it, and how each was last changed.
    fn shared_inputs(&self) -> BTreeMap<String, String> {
        let plan = self.run(&["--dry-run", "--json"], &["true"]);
        let plan: serde_json::Value = serde_json::from_str(plan.ok()).unwrap();
        let paths = plan["inputs"].as_array().unwrap().iter().filter_map(|input| input["path"].as_str());
        let paths = paths.filter(|path| !Path::new(path).starts_with(&self.home));
        let state = |path: &str| match std::fs::metadata(path) {
            Ok(found) => {
                let (changed, modified) = (found.ctime_nsec(), found.mtime_nsec());
                format!("{} {}.{changed} {}.{modified}", found.ino(), found.ctime(), found.mtime())
            }
            Err(error) => error.to_string(),
        };
        paths.map(|path| (path.to_owned(), state(path))).collect()
    }

    /// Repeats an attempt that fails while another test changes what plans are made from, such as the names in
    /// `/home` while users are made and removed. Prints what was changed.
    #[track_caller]
    pub fn undisturbed(&self, mut attempt: impl FnMut() -> Result<(), String>) {
        let mut patience = Patience::new(Duration::from_secs(60));
        loop {
            let before = self.shared_inputs();
            let Err(why) = attempt() else { return };
            let after = self.shared_inputs();
            let changed: Vec<&String> = before
                .iter()
                .filter(|(path, was)| after.get(*path) != Some(*was))
                .map(|(path, _)| path)
                .collect();
            assert!(!changed.is_empty(), "{why}");
            assert!(!patience.is_spent(), "{why}; changed meanwhile: {changed:?}");
            eprintln!("once more, as somebody has changed {changed:?}: {why}");
        }
    }

    /// Removes what plans are kept.
    pub fn forget_plans(&self) {
        let _none_yet = std::fs::remove_dir_all(self.home.join(".cache/palisade/plans"));
    }

    /// Processes that were started from here and live.
    pub fn living(&self) -> Vec<String> {
        let mark = format!("PALISADE_TEST_MARK={}", self.mark);
        let mut living = Vec::new();
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let read = |file: &str| std::fs::read(process.path().join(file)).unwrap_or_default();
            if read("environ").split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
                let pid = process.file_name().to_string_lossy().into_owned();
                living
                    .push(format!("{pid} {}", String::from_utf8_lossy(&read("cmdline")).replace('\0', " ")));
            }
        }
        living
    }

    /// Waits until nothing that was started from here lives.
    pub fn assert_all_dead(&self) {
        let dead = eventually(|| self.living().is_empty());
        assert!(dead, "left behind: {:?}", self.living());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.home);
    }
}

/// Whether `condition` comes to hold within a bound that a busy machine keeps.
pub fn eventually(condition: impl FnMut() -> bool) -> bool {
    palisade_acceptance::patience::eventually(Duration::from_secs(20), condition)
}

/// Makes everything below `path` the place's own.
pub fn give(place: &Place, path: &Path) {
    chown(path, Some(place.uid), Some(place.gid)).unwrap();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap().flatten() {
            give(place, &entry.path());
        }
    }
}
