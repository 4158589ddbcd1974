// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guest's process 1: mounts what it needs, lets each scenario report, and powers off.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use palisade_bpf::{
    Absence, Access, Classes, Event, GuardPrograms, Matrix, Mode, ObjectClass, Proof, Reason, SubjectClass,
    Verdict,
};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::mount::MountFlags;

use crate::scenario::{Outcome, Result, act, copy, ensure, execute, expect, expect_each, report, run, told};

pub(crate) const TRUSTED: ObjectClass = ObjectClass::new(3).expect("it is a class of ours");
pub(crate) const SHELL: ObjectClass = ObjectClass::new(4).expect("it is a class of ours");
pub(crate) const CONFINED: SubjectClass = SubjectClass::new(1).expect("it is a class of ours");

pub(crate) fn main() -> ! {
    println!("{}", crate::machine::BEGUN);
    if crate::daemon::is_switched() {
        let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
        if line.contains("palisade=daemon") {
            crate::daemon::all()
        } else if line.contains("palisade=cost") {
            crate::cost::all()
        } else if line.contains("palisade=served") {
            crate::served::all()
        } else if line.contains("palisade=apparmor") {
            crate::apparmor::all()
        } else {
            crate::daemon::plain()
        }
        end();
    }
    let kind = prepare().unwrap_or_else(|error| {
        println!("cannot prepare the guest: {error}");
        String::new()
    });
    match kind.as_str() {
        "bpf" => all(),
        "plain" => {
            report("not-in-force-is-said", not_in_force);
            crate::learn::all();
            println!("cannot go on elsewhere: {}", crate::daemon::switch());
        }
        "scope" => crate::scope::all(),
        "scope-plain" => crate::scope::plain::all(),
        "daemon" | "cost" | "served" | "apparmor" => {
            println!("cannot go on elsewhere: {}", crate::daemon::switch())
        }
        _ => println!("no such kind of boot: {kind}"),
    }
    end()
}

fn end() -> ! {
    // If this fails, a missing report shows it.
    let _ = io::stdout().flush();
    let _ = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
    std::process::exit(0)
}

/// Returns the kind of boot.
fn prepare() -> io::Result<String> {
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/work")] {
        rustix::mount::mount(kind, place, kind, MountFlags::empty(), None)?;
    }
    // Fails if the kernel has no securityfs; the proof works without it.
    let _ =
        rustix::mount::mount("securityfs", "/sys/kernel/security", "securityfs", MountFlags::empty(), None);
    fs::create_dir("/dev/shm").ok();
    let line = fs::read_to_string("/proc/cmdline")?;
    let kind = line.split_whitespace().find_map(|word| word.strip_prefix("palisade="));
    if fs::exists("/dev/null")? {
        return Ok(kind.unwrap_or_default().to_owned());
    }
    rustix::mount::mount("devtmpfs", "/dev", "devtmpfs", MountFlags::empty(), None)?;
    Ok(kind.unwrap_or_default().to_owned())
}

/// Every task may execute and map trusted files, and map memory.
pub(crate) fn matrix() -> Matrix {
    let mut matrix = Matrix::default();
    matrix
        .allow(Access::Execute, SubjectClass::DEFAULT, TRUSTED)
        .allow(Access::Map, SubjectClass::DEFAULT, TRUSTED)
        .allow(Access::Map, SubjectClass::DEFAULT, ObjectClass::ANONYMOUS);
    matrix
}

pub(crate) fn load() -> Result<GuardPrograms> {
    let mut programs = GuardPrograms::load().map_err(|error| told("load")(&error))?;
    programs.attach().map_err(|error| told("attach")(&error))?;
    programs.set_matrix(&matrix(), Classes::Keep).map_err(|error| told("set the matrix")(&error))?;
    Ok(programs)
}

pub(crate) fn mode(programs: &GuardPrograms, mode: Mode) -> Result {
    programs.set_mode(mode).map_err(|error| told("set the mode")(&error))
}

pub(crate) fn classify(programs: &GuardPrograms, path: &str, class: ObjectClass) -> Result {
    let file = File::open(path).map_err(|error| format!("open {path}: {error}"))?;
    programs.classify(file.as_fd(), class).map_err(|error| told(path)(&error))
}

pub(crate) fn class_of(programs: &GuardPrograms, path: &str) -> Result<Option<ObjectClass>> {
    let file = File::open(path).map_err(|error| format!("open {path}: {error}"))?;
    programs.class_of(file.as_fd()).map_err(|error| told(path)(&error))
}

/// Trusts everything in the archive: this program, its libraries and their loader.
pub(crate) fn trust_the_archive(programs: &GuardPrograms) -> Result {
    let mut directories = vec!["/".to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).map_err(|error| format!("{directory}: {error}"))?.flatten() {
            let path = entry.path().to_string_lossy().into_owned();
            let kind = entry.file_type().map_err(|error| format!("{path}: {error}"))?;
            if kind.is_file() {
                classify(programs, &path, TRUSTED)?;
            } else if kind.is_dir() && !["/proc", "/sys", "/dev", "/work"].contains(&path.as_str()) {
                directories.push(path);
            }
        }
    }
    Ok(())
}

pub(crate) fn loader() -> Result<String> {
    ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .map(str::to_owned)
        .ok_or_else(|| "no loader in the archive".to_owned())
}

/// Runs `attempt` in permissive mode, where it must happen, and in enforcing mode, where it must be refused.
fn only_permissively(programs: &GuardPrograms, what: &str, attempt: impl Fn() -> Outcome) -> Result {
    mode(programs, Mode::Permissive)?;
    let control = attempt();
    mode(programs, Mode::Enforce)?;
    expect(&format!("{what}, permissive"), &control, &Outcome::Done)?;
    expect(what, &attempt(), &Outcome::Refused)
}

/// The events that `act` causes.
pub(crate) fn watch(programs: &GuardPrograms, act: impl FnOnce() -> Result) -> Result<Vec<Event>> {
    let seen = RefCell::new(Vec::new());
    let events =
        programs.events(|event| seen.borrow_mut().push(event)).map_err(|error| told("listen")(&error))?;
    events.drain().map_err(|error| told("drain")(&error))?;
    seen.borrow_mut().clear();
    act()?;
    events.drain().map_err(|error| told("drain")(&error))?;
    drop(events);
    Ok(seen.into_inner())
}

/// Either the kernel refuses the programs with a known error, or the proof finds that it doesn't call them.
fn not_in_force() -> Result {
    match GuardPrograms::load() {
        Err(error) => {
            let absence = palisade_bpf::support::absence(&error);
            ensure(absence == Some(Absence::NotListed), told("load")(&error))?;
        }
        Ok(mut programs) => {
            programs.attach().map_err(|error| told("attach")(&error))?;
            mode(&programs, Mode::Enforce)?;
            let proof = programs.prove(&[Path::new("/work")]).map_err(|error| told("prove")(&error))?;
            ensure(
                proof == Proof::NotCalled { listed: Some(false) } && !proof.in_force(),
                format!("{proof:?}"),
            )?;
        }
    }
    expect("what has no class", &run(&copy("unclassified")?), &Outcome::Done)
}

/// The proof's result for programs that the kernel doesn't call.
fn unattached() -> Result {
    let programs = GuardPrograms::load().map_err(|error| told("load")(&error))?;
    mode(&programs, Mode::Enforce)?;
    let proof = programs.prove(&[Path::new("/work")]).map_err(|error| told("prove")(&error))?;
    ensure(proof == Proof::NotCalled { listed: Some(true) } && !proof.in_force(), format!("{proof:?}"))
}

fn all() {
    report("unattached-is-not-in-force", unattached);
    let programs = match load() {
        Ok(programs) => programs,
        Err(error) => {
            println!("cannot load: {error}");
            return;
        }
    };
    report("exempt-is-not-inherited", || exempt_is_not_inherited(&programs));
    report("proof-in-permissive", || prove(&programs, Mode::Permissive, Proof::Seen));
    report("proof-in-enforcing", || prove(&programs, Mode::Enforce, Proof::Refused));
    files(&programs);
    crate::changes::all(&programs);
    crate::overlay::all(&programs);
    crate::lives::modes(&programs);
    report("dropped-programs-are-gone", || {
        let program = copy("unclassified")?;
        expect("before", &run(&program), &Outcome::Refused)?;
        drop(programs);
        crate::lives::eventually("after", || run(&program), &Outcome::Done)
    });
    crate::lives::all();
}

fn prove(programs: &GuardPrograms, with: Mode, expected: Proof) -> Result {
    mode(programs, with)?;
    let proof = programs
        .prove(&[Path::new("/nowhere"), Path::new("/proc"), Path::new("/work")])
        .map_err(|error| told("prove")(&error))?;
    ensure(proof == expected && proof.in_force(), format!("{proof:?}"))
}

fn exempt_is_not_inherited(programs: &GuardPrograms) -> Result {
    trust_the_archive(programs)?;
    let stranger = copy("unclassified")?;
    mode(programs, Mode::Enforce)?;
    let map = || {
        let file = File::open(&stranger)?;
        // SAFETY: needed because the test makes a mapping. Sound: a new mapping at any address replaces none of ours.
        unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                4096,
                ProtFlags::READ | ProtFlags::EXEC,
                MapFlags::PRIVATE,
                &file,
                0,
            )
        }
        .map_err(io::Error::from)
    };
    ensure(map().is_err_and(|error| error.raw_os_error() == Some(libc::EPERM)), "not exempt, yet it mapped")?;
    programs.exempt_this_process().map_err(|error| told("exempt")(&error))?;
    map().map_err(|error| format!("exempt: {error}"))?;
    let thread = std::thread::scope(|scope| scope.spawn(|| map().is_ok()).join().unwrap_or(false));
    ensure(thread, "a thread is not exempt")?;
    expect("a child", &act(&["map", &stranger]), &Outcome::Refused)?;
    expect("what is executed by a child", &run(&stranger), &Outcome::Refused)
}

/// Scenarios of files that are executed and mapped.
fn files(programs: &GuardPrograms) {
    report("trusted-program-runs", || {
        let program = copy("trusted")?;
        expect("before", &run(&program), &Outcome::Refused)?;
        classify(programs, &program, TRUSTED)?;
        expect("after", &run(&program), &Outcome::Done)
    });
    report("unclassified-program-refused", || {
        let program = copy("unclassified")?;
        only_permissively(programs, "it", || run(&program))
    });
    report("event-names-the-file", || {
        use std::os::linux::fs::MetadataExt;
        let program = copy("unclassified")?;
        let events = watch(programs, || expect("it", &run(&program), &Outcome::Refused))?;
        let [event] = events.as_slice() else { return Err(format!("{events:?}")) };
        let metadata = fs::metadata(&program).map_err(|error| error.to_string())?;
        let device = (rustix::fs::major(metadata.st_dev()), rustix::fs::minor(metadata.st_dev()));
        let right = event.path.as_deref() == Some(program.as_bytes())
            && event.inode == metadata.st_ino()
            && event.device == device
            && event.verdict == Verdict::Refused
            && event.access == Access::Execute
            && event.subject == SubjectClass::DEFAULT
            && event.object == ObjectClass::UNCLASSIFIED
            && event.reason == Reason::Never
            && event.process > 1
            && event.uid == 0
            && event.comm.starts_with(b"init");
        ensure(right, format!("{event:?}"))
    });
    report("memfd-refused", || {
        only_permissively(programs, "memfd", || act(&["memfd", "/init"]))?;
        let events = watch(programs, || act(&["memfd", "/init"]).refused())?;
        let right = |event: &Event| {
            (event.object, event.reason) == (ObjectClass::MEMORY_FILE, Reason::Memory)
                && event.access == Access::Execute
        };
        ensure(events.len() == 1 && events.iter().all(right), format!("{events:?}"))
    });
    report("tmpfs-of-a-user-namespace-refused", || {
        only_permissively(programs, "tmpfs", || act(&["tmpfs", "/init"]))?;
        let events = watch(programs, || act(&["tmpfs", "/init"]).refused())?;
        let right = |event: &Event| {
            (event.object, event.reason) == (ObjectClass::UNCLASSIFIED, Reason::Foreign)
                && event.access == Access::Execute
        };
        ensure(events.len() == 1 && events.iter().all(right), format!("{events:?}"))
    });
    for (name, what) in [("library-map-refused", "map"), ("library-protect-refused", "protect")] {
        report(name, || {
            let library = copy("library")?;
            only_permissively(programs, what, || act(&[what, &library]))?;
            classify(programs, &library, TRUSTED)?;
            expect("classified", &act(&[what, &library]), &Outcome::Done)
        });
    }
    report("written-pages-are-anonymous", || {
        let library = copy("library")?;
        classify(programs, &library, TRUSTED)?;
        let all =
            || ["write-and-protect", "map-writable", "protect-writable"].map(|how| act(&[how, &library]));
        expect_each("memory allowed", &all(), &Outcome::Done)?;
        let mut strict = matrix();
        strict.refuse(Access::Map, SubjectClass::DEFAULT, ObjectClass::ANONYMOUS);
        set(programs, &strict)?;
        let refused = all();
        let unwritten = [act(&["map", &library]), act(&["protect", &library])];
        set(programs, &matrix())?;
        expect_each("memory refused", &refused, &Outcome::Refused)?;
        expect_each("memory refused, page not written", &unwritten, &Outcome::Done)
    });
    report("loader-by-hand-refused", || {
        let (loader, program) = (loader()?, copy("unclassified")?);
        let by_hand = || execute(&loader, &[&program, "act", "nothing"]);
        mode(programs, Mode::Permissive)?;
        let control = by_hand();
        mode(programs, Mode::Enforce)?;
        expect("permissive", &control, &Outcome::Done)?;
        // The loader's message is "failed to map segment from shared object".
        ensure(matches!(by_hand(), Outcome::Failed(said) if said.contains("map")), "it was not refused")?;
        classify(programs, &program, TRUSTED)?;
        expect("classified", &by_hand(), &Outcome::Done)
    });
    report("script-and-interpreter-are-both-asked", || {
        let interpreter = copy("interpreter")?;
        let script = "/work/script".to_owned();
        let _ = fs::remove_file(&script);
        // The kernel passes "act" and the script's own path. A path that is no act does `nothing`.
        fs::write(&script, format!("#!{interpreter} act\n")).map_err(|error| error.to_string())?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
        let started =
            |outcome: Outcome| matches!(&outcome, Outcome::Failed(said) if said.contains("no such act"));
        mode(programs, Mode::Permissive)?;
        let control = started(execute(&script, &[]));
        mode(programs, Mode::Enforce)?;
        ensure(control, "the script doesn't start even permissively")?;
        expect("neither", &execute(&script, &[]), &Outcome::Refused)?;
        classify(programs, &script, TRUSTED)?;
        expect("only the script", &execute(&script, &[]), &Outcome::Refused)?;
        classify(programs, &interpreter, TRUSTED)?;
        ensure(started(execute(&script, &[])), "both, and it doesn't start")?;
        let file = File::open(&script).map_err(|error| error.to_string())?;
        programs.declassify(file.as_fd()).map_err(|error| told("declassify")(&error))?;
        expect("only the interpreter", &execute(&script, &[]), &Outcome::Refused)
    });
    report("hard-link-runs-copy-refused", || {
        let program = copy("trusted")?;
        classify(programs, &program, TRUSTED)?;
        let _ = fs::remove_file("/work/link");
        fs::hard_link(&program, "/work/link").map_err(|error| error.to_string())?;
        expect("the link", &run("/work/link"), &Outcome::Done)?;
        fs::copy(&program, "/work/copy").map_err(|error| error.to_string())?;
        expect("the copy", &run("/work/copy"), &Outcome::Refused)
    });
}

pub(crate) fn set(programs: &GuardPrograms, matrix: &Matrix) -> Result {
    programs.set_matrix(matrix, Classes::Keep).map_err(|error| told("set the matrix")(&error))
}
