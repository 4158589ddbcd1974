// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a real palisaded with its default policy in the guest: what fanotify decides and labels, and what the LSM refuses
//! because fanotify isn't asked.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use palisade_bpf::Pins;
use palisade_protocol::Connection;
use palisade_protocol::guard::{Request, Response, SOCKET, Status};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use crate::archive::{DAEMON, SWITCHED};
use crate::scenario::{Outcome, Result, act, ensure, execute, expect, report, run};

pub(crate) const TRUSTED: &str = "/trusted";
pub(crate) const UNTRUSTED: &str = "/untrusted";
const ON_OVERLAY: &str = "/mnt/trusted";
const IN_LAYER: &str = "/work/lower/trusted";
const LOG: &str = "/log";
/// Without acceleration everything is slow, and slower if other processes use the processors.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Whether this is the second life of process 1, below.
pub(crate) fn is_switched() -> bool {
    Path::new(SWITCHED).exists()
}

/// fanotify doesn't watch an initramfs, so everything moves to a file system that it does watch, and this program starts again.
pub(crate) fn switch() -> io::Error {
    let root = "/switched";
    let make = || -> io::Result<()> {
        fs::create_dir_all(root)?;
        rustix::mount::mount("tmpfs", root, "tmpfs", MountFlags::empty(), Some(c"mode=0755"))?;
        copy_all(Path::new("/"), Path::new(root))?;
        for place in ["proc", "sys", "dev", "work", "mnt", "spared", "run", "tmp", "etc/palisade/trust.d"] {
            fs::create_dir_all(format!("{root}/{place}"))?;
        }
        File::create(format!("{root}{SWITCHED}"))?;
        for place in ["/proc", "/sys", "/dev"] {
            rustix::mount::mount_move(place, format!("{root}{place}").as_str())?;
        }
        std::env::set_current_dir(root)?;
        rustix::mount::mount_move(".", "/")?;
        rustix::process::chroot(".")?;
        std::env::set_current_dir("/")
    };
    match make() {
        Ok(()) => Command::new("/init").exec(),
        Err(error) => error,
    }
}

/// Copies files and directories of the initramfs, without other mounts.
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    use std::os::linux::fs::MetadataExt;
    let own = fs::metadata("/init")?.st_dev();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        let metadata = entry.metadata()?;
        if metadata.st_dev() != own || path == Path::new("/switched") {
            continue;
        }
        if metadata.is_dir() {
            fs::create_dir_all(&copied)?;
            copy_all(&path, &copied)?;
        } else if metadata.is_file() {
            fs::copy(&path, &copied)?;
        }
    }
    Ok(())
}

/// In the second life: makes what the daemon needs to find.
pub(crate) fn prepare() -> Result {
    let make = || -> io::Result<()> {
        fs::create_dir_all("/bin")?;
        for path in [TRUSTED, UNTRUSTED, "/bin/sh", crate::closed::ESSENTIAL, crate::closed::NEVER] {
            fs::copy("/init", path)?;
        }
        rustix::mount::mount("tmpfs", "/spared", "tmpfs", MountFlags::empty(), None)?;
        fs::copy("/init", "/spared/program")?;
        fs::copy("/init", "/dev/program")?;
        let mut trusted = Vec::new();
        all_files(Path::new("/"), &mut trusted)?;
        // Newer kernels ask about an overlay's file and then about the layer's file.
        trusted.extend([ON_OVERLAY, IN_LAYER].map(str::to_owned));
        trusted.retain(|path| path != UNTRUSTED);
        let size = |path: &str| {
            let found = if [ON_OVERLAY, IN_LAYER].contains(&path) { "/init" } else { path };
            fs::metadata(found).map(|metadata| metadata.len())
        };
        let mut text = String::new();
        for path in &trusted {
            // Trusted files are recognised by size.
            text.push_str(&format!("{path} {} {:064}\n", size(path)?, 0));
        }
        fs::write("/etc/palisade/guard.trust", text)
    };
    make().map_err(|error| format!("prepare: {error}"))
}

/// The programs and libraries of the root file system.
fn all_files(directory: &Path, found: &mut Vec<String>) -> io::Result<()> {
    use std::os::linux::fs::MetadataExt;
    let own = fs::metadata("/init")?.st_dev();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.st_dev() != own {
            continue;
        }
        if metadata.is_dir() {
            all_files(&entry.path(), found)?;
        } else if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
            found.push(entry.path().to_string_lossy().into_owned());
        }
    }
    Ok(())
}

pub(crate) struct Daemon(Child);

impl Daemon {
    /// Starts the daemon with these lines in `[guard]` (`watch.` and `trust.` are its tables), and waits until `ready`.
    pub(crate) fn start(settings: &str, ready: impl Fn(&Status) -> bool) -> Result<Self> {
        Self::start_with(&[], settings, ready)
    }

    /// The same, with options.
    pub(crate) fn start_with(
        options: &[&str],
        settings: &str,
        ready: impl Fn(&Status) -> bool,
    ) -> Result<Self> {
        let mut daemon = Self(spawn(options, settings)?);
        let end = Instant::now() + PATIENCE;
        let mut last = String::new();
        while Instant::now() < end {
            match status() {
                Ok(status) if ready(&status) => return Ok(daemon),
                Ok(status) => last = format!("{status:?}"),
                Err(error) => last = error,
            }
            if let Ok(Some(ended)) = daemon.0.try_wait() {
                return Err(format!("palisaded ended ({ended}): {}", said()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("palisaded isn't ready: {last}; it said: {}", said()))
    }

    pub(crate) fn end(self, signal: rustix::process::Signal) -> Result {
        self.signal(signal)?;
        self.wait()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) -> Result {
        let pid = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.ok_or("no process")?;
        rustix::process::kill_process(pid, signal).map_err(|error| format!("kill: {error}"))
    }

    /// Waits until the daemon has ended by itself.
    pub(crate) fn wait(mut self) -> Result {
        self.0.wait().map(drop).map_err(|error| format!("wait: {error}"))
    }
}

fn spawn(options: &[&str], settings: &str) -> Result<Child> {
    let text = format!(
        "schema = 1\n[guard]\nmode = \"enforce\"\ntrust.sources = [\"files\"]\nwatch.exclude = [\"/spared\"]\n\
         log.per-second = 1000\n{settings}\n"
    );
    fs::write("/etc/palisade/guard.toml", text).map_err(|error| format!("write settings: {error}"))?;
    let log = File::options().create(true).append(true).open(LOG).map_err(|error| format!("log: {error}"))?;
    Command::new(DAEMON)
        // A system call that the daemon should not need ends it.
        .args(["--other-calls", "kill"])
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(|error| format!("start palisaded: {error}"))
}

pub(crate) fn said() -> String {
    fs::read_to_string(LOG).unwrap_or_default()
}

pub(crate) fn ask(request: &Request) -> Result<Response> {
    let stream = UnixStream::connect(SOCKET).map_err(|error| format!("connect: {error}"))?;
    let mut connection = Connection::begin(stream, "guest").map_err(|error| error.to_string())?;
    connection.send(request).map_err(|error| error.to_string())?;
    connection.receive_within(Some(PATIENCE)).map_err(|error| error.to_string())
}

pub(crate) fn status() -> Result<Status> {
    match ask(&Request::Status)? {
        Response::Status(status) => Ok(*status),
        other => Err(format!("{other:?}")),
    }
}

pub(crate) fn done(request: &Request) -> Result {
    match ask(request)? {
        Response::Done { .. } => Ok(()),
        other => Err(format!("{request:?}: {other:?}")),
    }
}

fn lsm(status: &Status) -> Option<(bool, &str)> {
    let lsm = status.mechanisms.iter().find(|mechanism| mechanism.name == "bpf-lsm")?;
    Some((lsm.in_force, lsm.because.as_str()))
}

pub(crate) fn in_force(status: &Status) -> bool {
    status.enforcing && lsm(status).is_some_and(|(in_force, _)| in_force)
}

pub(crate) fn memfd() -> Outcome {
    act(&["memfd", "/init"])
}

fn tmpfs() -> Outcome {
    act(&["tmpfs", "/init"])
}

/// Maps a file as executable in this process.
pub(crate) fn map(file: &File) -> Outcome {
    // SAFETY: needed because the test makes a mapping. Sound: a new mapping at any address replaces none of ours.
    let mapped = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            4096,
            ProtFlags::READ | ProtFlags::EXEC,
            MapFlags::PRIVATE,
            file,
            0,
        )
    };
    match mapped {
        Ok(_) => Outcome::Done,
        Err(rustix::io::Errno::PERM) => Outcome::Refused,
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

pub(crate) fn open(path: &str) -> Result<File> {
    File::open(path).map_err(|error| format!("open {path}: {error}"))
}

/// What holds whenever the daemon enforces.
pub(crate) fn refuses_what_has_no_label() -> Result {
    expect("trusted", &run(TRUSTED), &Outcome::Done)?;
    expect("untrusted", &run(UNTRUSTED), &Outcome::Refused)?;
    expect("memfd", &memfd(), &Outcome::Refused)?;
    expect("tmpfs of a user namespace", &tmpfs(), &Outcome::Refused)
}

pub(crate) fn refuses_nothing() -> Result {
    expect("trusted", &run(TRUSTED), &Outcome::Done)?;
    expect("untrusted", &run(UNTRUSTED), &Outcome::Done)?;
    expect("memfd", &memfd(), &Outcome::Done)?;
    expect("tmpfs of a user namespace", &tmpfs(), &Outcome::Done)
}

pub(crate) fn all() {
    let mut daemon = None;
    let mut before = None;
    report("daemon-says-bpf-lsm-is-in-force", || {
        prepare()?;
        refuses_nothing()?;
        before = Some(open(UNTRUSTED)?);
        daemon = Some(Daemon::start("", in_force)?);
        let status = status()?;
        let closed = !status.blind.iter().any(|spot| spot.contains("memfd") || spot.contains("tmpfs"));
        ensure(closed, format!("blind spots: {:?}", status.blind))
    });
    report("daemon-trusted-program-runs", || expect("it", &run(TRUSTED), &Outcome::Done));
    report("daemon-untrusted-refused-by-fanotify", || {
        expect("it", &run(UNTRUSTED), &Outcome::Refused)?;
        // The journal has its own thread, so the line may come later.
        eventually_said("rule=", UNTRUSTED)
    });
    report("daemon-memfd-refused-by-lsm", || {
        expect("it", &memfd(), &Outcome::Refused)?;
        eventually_said("mechanism=bpf-lsm dec=deny_audit perm=execute", "a file in memory")
    });
    report("daemon-tmpfs-of-a-user-namespace-refused-by-lsm", || {
        expect("it", &tmpfs(), &Outcome::Refused)?;
        eventually_said("mechanism=bpf-lsm dec=deny_audit perm=execute", "user namespace")
    });
    report("daemon-library-opened-before-refused-by-lsm", || {
        let before = before.as_ref().ok_or("it wasn't opened")?;
        expect("opened before the guard began", &map(before), &Outcome::Refused)?;
        expect("trusted", &act(&["map", TRUSTED]), &Outcome::Done)
    });
    report("daemon-file-changed-after-its-question-refused-by-lsm", || {
        // Any user's scripts may be read and executed, so this one gets its label.
        fs::write("/script", format!("#!/bin/sh act\n{:4096}", ""))
            .map_err(|error| format!("write: {error}"))?;
        let script = open("/script")?;
        expect("unchanged", &map(&script), &Outcome::Done)?;
        drop(File::options().write(true).open("/script").map_err(|error| format!("open: {error}"))?);
        expect("opened for writing since", &map(&script), &Outcome::Refused)?;
        let again = || open("/script").map_or_else(Outcome::Failed, |script| map(&script));
        crate::lives::eventually("asked about again", again, &Outcome::Done)
    });
    report("daemon-script-runs-by-its-interpreter", || {
        fs::set_permissions("/script", fs::Permissions::from_mode(0o755))
            .map_err(|error| format!("{error}"))?;
        let outcome = execute("/script", &[]);
        let started = matches!(&outcome, Outcome::Failed(said) if said.contains("no such act"));
        ensure(started, format!("{outcome:?}"))
    });
    report("daemon-exec-by-descriptor", || {
        expect("/proc/self/exe", &act(&["execute", "/proc/self/exe"]), &Outcome::Done)
    });
    report("daemon-unwatched-type-refused-by-lsm", || {
        expect("on devtmpfs", &run("/dev/program"), &Outcome::Refused)
    });
    report("daemon-left-out-file-system-is-spared", || {
        expect("on an excluded tmpfs", &run("/spared/program"), &Outcome::Done)
    });
    report("daemon-overlay-file-is-labelled", overlay);
    report("daemon-changed-attributes-are-asked-about-again", || {
        for round in 0..20 {
            expect("before", &run(TRUSTED), &Outcome::Done)?;
            fs::set_permissions(TRUSTED, fs::Permissions::from_mode(0o755))
                .map_err(|error| format!("{error}"))?;
            expect(&format!("round {round}"), &run(TRUSTED), &Outcome::Done)?;
        }
        drop(File::options().append(true).open(TRUSTED).map_err(|error| format!("open: {error}"))?);
        crate::lives::eventually("opened for writing", || run(TRUSTED), &Outcome::Done)?;
        // By now its earlier class would have ended.
        std::thread::sleep(Duration::from_secs(3));
        expect("later", &run(TRUSTED), &Outcome::Done)
    });
    report("daemon-permissive-reports-both-and-allows", || {
        let from = said().len();
        done(&Request::Mode { enforce: false, force: false })?;
        let result = refuses_nothing();
        let told = || said().get(from..).unwrap_or_default().to_owned();
        result?;
        eventually_said("mechanism=bpf-lsm", "a file in memory")?;
        ensure(told().contains("path=/untrusted"), told())?;
        ensure(status().is_ok_and(|status| !status.enforcing), "it enforces")?;
        done(&Request::Mode { enforce: true, force: false })?;
        refuses_what_has_no_label()
    });
    report("daemon-reload-relabels", || {
        let library = open(TRUSTED)?;
        for _ in 0..5 {
            done(&Request::Reload { force: false })?;
            expect("opened before, mapped after", &map(&library), &Outcome::Done)?;
            refuses_what_has_no_label()?;
        }
        Ok(())
    });
    crate::audit::all();
    report("daemon-killed-on-death-open", || {
        daemon.take().ok_or("it doesn't run")?.end(rustix::process::Signal::KILL)?;
        crate::lives::eventually("memfd", memfd, &Outcome::Done)?;
        refuses_nothing()
    });
    report("daemon-killed-while-somebody-waits", || {
        let daemon = Daemon::start("", in_force)?;
        // fanotify reports the change to the guard, and then asks about the file again.
        expect("passed", &run(TRUSTED), &Outcome::Done)?;
        done(&Request::Reload { force: false })?;
        daemon.signal(rustix::process::Signal::STOP)?;
        let waiting = std::thread::spawn(|| run(TRUSTED));
        std::thread::sleep(Duration::from_millis(200));
        ensure(!waiting.is_finished(), "nobody waits")?;
        daemon.end(rustix::process::Signal::KILL)?;
        expect("waited", &waiting.join().map_err(|_| "a panic")?, &Outcome::Done)
    });
    report("daemon-killed-on-death-closed", || {
        let daemon = Daemon::start("on-death = \"closed\"", in_force)?;
        refuses_what_has_no_label()?;
        daemon.end(rustix::process::Signal::KILL)?;
        refuses_what_has_no_label()
    });
    report("daemon-restart-takes-over", || {
        daemon = Some(Daemon::start("on-death = \"closed\"", in_force)?);
        refuses_what_has_no_label()?;
        drop(File::options().append(true).open(TRUSTED).map_err(|error| format!("open: {error}"))?);
        crate::lives::eventually("labelled by the new one", || run(TRUSTED), &Outcome::Done)
    });
    report("daemon-term-clears", || {
        daemon.take().ok_or("it doesn't run")?.end(rustix::process::Signal::TERM)?;
        ensure(!Pins::default().exist(), "the pins are still there")?;
        refuses_nothing()
    });
    report("daemon-aborted-starts-no-program", || {
        let before = fs::read(CORE_PATTERN).map_err(|error| format!("{CORE_PATTERN}: {error}"))?;
        let aborted = no_program_gets_a_dump();
        fs::write(CORE_PATTERN, before).map_err(|error| format!("{CORE_PATTERN}: {error}"))?;
        aborted
    });
    crate::closed::all();
    crate::verity::all();
    crate::clock::all();
    // Printed for the case that something failed.
    println!("palisaded said:\n{}", said());
    if let Some(daemon) = daemon {
        let _ = daemon.end(rustix::process::Signal::KILL);
    }
}

const CORE_PATTERN: &str = "/proc/sys/kernel/core_pattern";
/// The file that the program makes which gets a core dump.
const DUMPED: &str = "/work/dumped";

/// The kernel starts the program that gets a core dump by a pipe, and would ask the dying guard about it.
fn no_program_gets_a_dump() -> Result {
    fs::write(CORE_PATTERN, format!("|/init act make {DUMPED}")).map_err(|error| format!("set: {error}"))?;
    let mut other = Command::new(TRUSTED)
        .args(["act", "wait"])
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("start: {error}"))?;
    let pid = i32::try_from(other.id()).ok().and_then(rustix::process::Pid::from_raw).ok_or("no process")?;
    rustix::process::kill_process(pid, rustix::process::Signal::ABORT).map_err(|error| format!("{error}"))?;
    other.wait().map_err(|error| format!("wait: {error}"))?;
    let dumped = || if Path::new(DUMPED).exists() { Outcome::Done } else { Outcome::Refused };
    crate::lives::eventually("a dump of another process", dumped, &Outcome::Done)?;
    fs::remove_file(DUMPED).map_err(|error| format!("remove: {error}"))?;
    Daemon::start("", |status| status.enforcing)?.end(rustix::process::Signal::ABORT)?;
    crate::lives::eventually("nothing is refused", || run(UNTRUSTED), &Outcome::Done)?;
    expect("a dump of the daemon", &dumped(), &Outcome::Refused)
}

/// The journal has its own thread, so lines may come later.
pub(crate) fn eventually_said(start: &str, what: &str) -> Result {
    let end = Instant::now() + PATIENCE;
    loop {
        let said = said();
        if said.lines().any(|line| line.starts_with(start) && line.contains(what)) {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("no line {start}…{what}: {said}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A container's file system: that it is watched, and which of a file's two inodes has the label.
fn overlay() -> Result {
    for name in ["lower", "upper", "scratch"] {
        fs::create_dir_all(format!("/work/{name}")).map_err(|error| format!("make {name}: {error}"))?;
    }
    for name in ["trusted", "other"] {
        fs::copy("/init", format!("/work/lower/{name}")).map_err(|error| format!("copy: {error}"))?;
    }
    crate::overlay::load_driver("overlay", c"")?;
    let layers = c"lowerdir=/work/lower,upperdir=/work/upper,workdir=/work/scratch";
    rustix::mount::mount("overlay", "/mnt", "overlay", MountFlags::empty(), Some(layers))
        .map_err(|error| format!("mount an overlay: {error}"))?;
    let end = Instant::now() + PATIENCE;
    while !status()?.watched.iter().any(|point| point == "/mnt") {
        ensure(Instant::now() < end, "the overlay isn't watched")?;
        std::thread::sleep(Duration::from_millis(50));
    }
    let result = expect("trusted", &run(ON_OVERLAY), &Outcome::Done)
        .and_then(|()| expect("mapped", &act(&["map", ON_OVERLAY]), &Outcome::Done))
        .and_then(|()| expect("untrusted", &run("/mnt/other"), &Outcome::Refused));
    rustix::mount::unmount("/mnt", UnmountFlags::DETACH).map_err(|error| format!("unmount: {error}"))?;
    result
}

/// A kernel without `bpf` in `lsm=`.
pub(crate) fn plain() {
    let refused = |settings: &str, words: &str| -> Result {
        let from = said().len();
        let mut child = spawn(&[], settings)?;
        let end = Instant::now() + PATIENCE;
        let ended = loop {
            match child.try_wait().map_err(|error| format!("wait: {error}"))? {
                Some(ended) => break ended,
                None if Instant::now() > end => {
                    let _ = child.kill();
                    return Err("it started".into());
                }
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        let said = said().get(from..).unwrap_or_default().to_owned();
        ensure(!ended.success() && said.contains(words) && said.contains("hint:"), format!("{ended}: {said}"))
    };
    report("daemon-says-that-only-fanotify-is-in-force", || {
        prepare()?;
        let daemon = Daemon::start("", |status| status.enforcing)?;
        let found = status()?;
        let right = matches!(lsm(&found), Some((false, because)) if because.contains("lsm="));
        ensure(right, format!("{:?}", found.mechanisms))?;
        ensure(found.blind.iter().any(|spot| spot.contains("memfd")), format!("{:?}", found.blind))?;
        expect("trusted", &run(TRUSTED), &Outcome::Done)?;
        expect("untrusted", &run(UNTRUSTED), &Outcome::Refused)?;
        expect("memfd, which fanotify doesn't see", &memfd(), &Outcome::Done)?;
        daemon.end(rustix::process::Signal::TERM)
    });
    report("daemon-backend-bpf-lsm-does-not-start", || refused("backend = \"bpf-lsm\"", "bpf-lsm"));
    report("daemon-on-death-closed-does-not-start", || refused("on-death = \"closed\"", "closed"));
    crate::groups::all();
    crate::quota::all();
}
