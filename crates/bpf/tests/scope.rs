// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the scopes' programs on this kernel: what each depth finds, which processes are marked, and what stays when no
//! process holds the programs. They affect only processes that these tests mark. Needs root.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use palisade_bpf::Pins;
use palisade_bpf::scope::event::{Event, Kind, Why};
use palisade_bpf::scope::{ANY_ARGUMENT, Depth, Outcome, Scope, ScopePrograms, Settings, Verdict};

/// Whether these tests can run here.
pub(crate) fn root() -> bool {
    // Marks are by process number in the first PID namespace, which has a fixed inode number (`PROC_PID_INIT_INO`).
    let first = std::fs::read_link("/proc/self/ns/pid")
        .is_ok_and(|namespace| namespace.ends_with("pid:[4026531836]"));
    let root = rustix::process::geteuid().is_root();
    if !root || !first {
        eprintln!("not tried: programs are for root, and for the first process namespace");
    }
    root && first
}

pub(crate) fn programs(depth: Depth) -> ScopePrograms {
    let programs = ScopePrograms::load().unwrap();
    programs.change(|settings| *settings = Settings { depth, report: true, ..Settings::default() }).unwrap();
    programs
}

/// Opens a scope with a number of its own.
pub(crate) fn scope(programs: &ScopePrograms, verdict: Verdict) -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    programs.open_scope(&Scope { id, verdict, label: format!("test {id}"), ..Scope::default() }).unwrap();
    id
}

/// A program that reports that it runs and then waits for a line.
pub(crate) struct Waiting(Child, BufReader<ChildStdout>);

impl Waiting {
    fn shell(script: &str) -> Self {
        Self::start("/bin/sh", &["-c", &format!("echo ready\nread line\n{script}")])
    }

    fn python(script: &str) -> Self {
        let before = "import os, sys, threading, time\nprint('ready', flush=True)\ninput()";
        Self::start("/usr/bin/python3", &["-c", &format!("{before}\n{script}")])
    }

    pub(crate) fn start(program: &str, words: &[&str]) -> Self {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", "30", program]).args(words);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child, said)
    }

    /// The program's process number: the child of `timeout`, which limits its run time.
    pub(crate) fn pid(&self) -> u32 {
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.0.id())).unwrap();
        children.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Lets it continue. Returns its exit code and everything that it and its descendants wrote.
    pub(crate) fn go(mut self) -> (Option<i32>, String) {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        let mut said = String::new();
        self.1.read_to_string(&mut said).unwrap();
        let output = self.0.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said + &errors.replace("Killed\n", ""))
    }
}

/// Marks the shell that runs `script`, in a scope that kills. Returns the script's output.
fn under(depth: Depth, script: &str) -> String {
    let programs = programs(depth);
    let id = scope(&programs, Verdict::Kill);
    let waiting = Waiting::shell(script);
    assert_eq!(programs.mark(waiting.pid(), id, true).unwrap(), Outcome::Done);
    waiting.go().1
}

/// A command this many processes below the shell: each subshell is one, and the command itself is the last.
fn below(levels: usize) -> String {
    let mut script = "/bin/true; echo $?".to_owned();
    for _ in 1..levels {
        script = format!("( {script}; : )");
    }
    script
}

const RAN: &str = "0\n";
const KILLED: &str = "137\n";

#[test]
fn one_level_kills_a_child_and_allows_a_grandchild() {
    if root() {
        assert_eq!(under(Depth::OneLevel, &below(1)), KILLED);
        assert_eq!(under(Depth::OneLevel, &below(2)), RAN);
        // A program that replaces the shell is no child, but is found as well.
        assert_eq!(under(Depth::OneLevel, "exec /bin/echo around"), "");
    }
}

#[test]
fn ancestry_reaches_as_far_as_it_is_told() {
    if root() {
        assert_eq!(under(Depth::Ancestry(2), &below(1)), KILLED);
        assert_eq!(under(Depth::Ancestry(2), &below(2)), KILLED);
        assert_eq!(under(Depth::Ancestry(2), &below(4)), RAN);
        assert_eq!(under(Depth::Ancestry(16), &below(16)), KILLED);
        assert_eq!(under(Depth::Ancestry(16), &below(17)), RAN);
    }
}

#[test]
fn inheriting_reaches_everything() {
    if root() {
        assert_eq!(under(Depth::Inherit, &below(1)), KILLED);
        assert_eq!(under(Depth::Inherit, &below(4)), KILLED);
        assert_eq!(under(Depth::Inherit, &below(30)), KILLED);
        assert_eq!(under(Depth::Off, &below(1)), RAN);
    }
}

#[test]
fn double_forks_lose_ancestry_and_keep_what_is_inherited() {
    if root() {
        let daemon = "
def child():
    if os.fork():
        return
    os.setsid()
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == middle:
        time.sleep(0.001)
    if os.fork() == 0:
        os.execv('/bin/echo', ['echo', 'ran'])
    os.wait()
    os._exit(0)
child()
# Whoever holds the pipe is read to the end.
";
        for (depth, expected) in [(Depth::Ancestry(16), "ran\n"), (Depth::Inherit, "")] {
            let programs = programs(depth);
            let id = scope(&programs, Verdict::Kill);
            let waiting = Waiting::python(daemon);
            let pid = waiting.pid();
            programs.mark(pid, id, true).unwrap();
            let mut said = String::new();
            let seen = events(&programs, || said = waiting.go().1);
            assert_eq!(said, expected, "{depth:?}: {seen:#?}");
        }
    }
}

#[test]
fn threads_are_their_process() {
    if root() {
        let from_a_thread = "
def run():
    os.execv('/bin/echo', ['echo', 'ran'])
thread = threading.Thread(target=run)
thread.start()
thread.join()
";
        let child_of_a_thread = "
def run():
    if os.fork() == 0:
        os.execv('/bin/echo', ['echo', 'ran'])
    os.wait()
thread = threading.Thread(target=run)
thread.start()
thread.join()
";
        // After a thread other than the first executes a program, the process is still marked.
        let after = "
def run():
    os.execv('/bin/sh', ['sh', '-c', '/bin/echo child; exec /bin/echo ran'])
thread = threading.Thread(target=run)
thread.start()
thread.join()
";
        for depth in [Depth::OneLevel, Depth::Ancestry(8), Depth::Inherit] {
            for script in [from_a_thread, child_of_a_thread] {
                let programs = programs(depth);
                let id = scope(&programs, Verdict::Kill);
                let waiting = Waiting::python(script);
                programs.mark(waiting.pid(), id, true).unwrap();
                assert_eq!(waiting.go().1, "", "{depth:?}{script}");
            }
            let programs = programs(depth);
            let id = scope(&programs, Verdict::Kill);
            let waiting = Waiting::python(after);
            // The first exec is the launch.
            programs.mark(waiting.pid(), id, false).unwrap();
            assert_eq!(waiting.go().1, "", "{depth:?}");
        }
    }
}

/// The events that are reported while `act` runs.
fn events(programs: &ScopePrograms, act: impl FnOnce()) -> Vec<Event> {
    let seen = RefCell::new(Vec::new());
    let events = programs.events(|event| seen.borrow_mut().push(event)).unwrap();
    act();
    events.drain().unwrap();
    drop(events);
    seen.into_inner()
}

#[test]
fn a_launch_happens_and_what_it_starts_is_told_with_its_arguments() {
    if !root() {
        return;
    }
    use std::os::linux::fs::MetadataExt;
    let programs = programs(Depth::Inherit);
    let id = scope(&programs, Verdict::Warn);
    let waiting = Waiting::shell("exec /bin/sh -c '/bin/echo one \"t w o\"; :'");
    let pid = waiting.pid();
    let seen = events(&programs, || {
        programs.mark(pid, id, false).unwrap();
        assert_eq!(waiting.go(), (Some(0), "one t w o\n".into()));
    });
    let [launch, echo] = seen.as_slice() else { panic!("{seen:#?}") };
    assert_eq!((launch.kind, launch.process, launch.scope), (Kind::Began, pid, id));
    assert_eq!(launch.arguments.as_ref().unwrap()[0], b"/bin/sh");
    assert_eq!(
        (echo.kind, echo.verdict, echo.why, echo.distance),
        (Kind::Exec, Verdict::Warn, Why::Watched, 0)
    );
    assert_eq!(echo.arguments.as_ref().unwrap(), &[&b"/bin/echo"[..], b"one", b"t w o"]);
    assert!(echo.arguments_whole && echo.path == b"/bin/echo" && echo.comm == b"echo", "{echo:?}");
    assert_eq!(echo.parents[0], pid);
    assert_eq!(echo.inode, std::fs::metadata("/bin/echo").unwrap().st_ino());
    assert_eq!(programs.sweep().unwrap(), []);
    assert_eq!(programs.scope(id).unwrap().unwrap().ever, 2);
}

#[test]
fn long_arguments_are_cut_off_and_nothing_else() {
    if root() {
        let programs = programs(Depth::Inherit);
        let id = scope(&programs, Verdict::Watch);
        let waiting = Waiting::shell("/bin/true $(seq 1 2000); :");
        let seen = events(&programs, || {
            programs.mark(waiting.pid(), id, true).unwrap();
            assert_eq!(waiting.go().0, Some(0));
        });
        let event = seen.iter().find(|event| event.path == b"/bin/true").unwrap();
        let arguments = event.arguments.as_ref().unwrap();
        assert!(!event.arguments_whole && arguments.len() > 100, "{event:?}");
        assert_eq!(arguments.iter().map(|argument| argument.len() + 1).sum::<usize>(), 1024 + 1);
    }
}

#[test]
fn denied_files_and_names_do_not_run() {
    if !root() {
        return;
    }
    use std::os::linux::fs::MetadataExt;
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::copy("/bin/echo", at("denied-file")).unwrap();
    std::fs::copy("/bin/echo", at("denied-name")).unwrap();
    std::fs::copy("/bin/echo", at("fine")).unwrap();
    let programs = programs(Depth::Inherit);
    programs.change(|settings| (settings.strict, settings.memory) = (true, true)).unwrap();
    let metadata = std::fs::metadata(at("denied-file")).unwrap();
    let device = (rustix::fs::major(metadata.st_dev()), rustix::fs::minor(metadata.st_dev()));
    programs.deny_file(device, metadata.st_ino()).unwrap();
    assert!(programs.deny_name(b"denied-name").unwrap());
    assert!(!programs.deny_name(&[b'x'; 64]).unwrap());
    let run = |script: &str| {
        let id = scope(&programs, Verdict::Watch);
        let waiting = Waiting::shell(&format!("cd {}\n{script}", directory.path().display()));
        programs.mark(waiting.pid(), id, true).unwrap();
        waiting.go().1
    };
    assert_eq!(run("./fine ran"), "ran\n");
    assert_eq!(run("./denied-file ran; echo $?"), KILLED);
    assert_eq!(run("./denied-name ran; echo $?"), KILLED);
    assert_eq!(
        run("ln denied-file linked; ln -s denied-name soft; ./linked ran; ./soft ran; echo $?"),
        KILLED
    );
    assert_eq!(run("mv denied-file renamed; ./renamed ran; echo $?"), KILLED);
    let memory = "
memory = os.memfd_create('x')
os.write(memory, open('/bin/echo', 'rb').read())
if os.fork() == 0:
    os.execve(memory, ['echo', 'ran'], {})
print(os.wait()[1])
";
    let id = scope(&programs, Verdict::Watch);
    let waiting = Waiting::python(memory);
    programs.mark(waiting.pid(), id, true).unwrap();
    assert_eq!(waiting.go().1, "9\n");
    programs.deny_only(&[], std::iter::empty()).unwrap();
    assert_eq!(run("./denied-name ran"), "ran\n");
}

#[test]
fn a_cleared_scope_means_nothing_and_another_can_take_its_processes() {
    if root() {
        let programs = programs(Depth::Inherit);
        let id = scope(&programs, Verdict::Kill);
        let waiting = Waiting::shell("/bin/echo ran");
        let pid = waiting.pid();
        assert_eq!(programs.mark(pid, id, true).unwrap(), Outcome::Done);
        assert_eq!(programs.mark(pid, id, true).unwrap(), Outcome::Already);
        let other = scope(&programs, Verdict::Watch);
        assert_eq!(programs.mark(pid, other, true).unwrap(), Outcome::Taken);
        assert_eq!(programs.scope_of(pid).unwrap(), Some(id));
        programs.close_scope(id).unwrap();
        assert_eq!(programs.scope_of(pid).unwrap(), None);
        assert_eq!(programs.mark(pid, other, true).unwrap(), Outcome::Done);
        assert_eq!(programs.judge(other, Verdict::Kill).unwrap(), Outcome::Done);
        assert_eq!(programs.unmark(pid).unwrap(), Outcome::Done);
        assert_eq!(programs.unmark(pid).unwrap(), Outcome::Already);
        assert_eq!(programs.mark(pid, 4000, true).unwrap(), Outcome::NoScope);
        assert_eq!(waiting.go().1, "ran\n");
    }
}

#[test]
fn numbers_that_are_used_again_are_not_marked() {
    if root() {
        let programs = programs(Depth::Inherit);
        let id = scope(&programs, Verdict::Kill);
        let mut child = Command::new("true").spawn().unwrap();
        let dead = child.id();
        child.wait().unwrap();
        assert_eq!(programs.mark(dead, id, true).unwrap(), Outcome::NoProcess);
        let waiting = Waiting::python(
            "
for _ in range(300):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    print(child, end=' ')
print('done')",
        );
        programs.mark(waiting.pid(), id, true).unwrap();
        let (_, said) = waiting.go();
        let numbers = said.trim().strip_suffix(" done").unwrap().replace(' ', ",");
        assert_eq!(programs.scope(id).unwrap().unwrap().ever, 301);
        // All are dead, and their marks are still in the table: a process that gets one of these numbers must not be
        // marked. Numbers that other processes have by now are left out.
        let unmarked = Waiting::python(&format!(
            "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
names = 'flags pidfd child_tid parent_tid exit_signal stack stack_size tls set_tid set_tid_size cgroup'
class Arguments(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in names.split()]
given = 0
for number in [{numbers}]:
    wanted = (ctypes.c_int * 1)(number)
    arguments = Arguments(exit_signal=17, set_tid=ctypes.addressof(wanted), set_tid_size=1)
    child = libc.syscall(435, ctypes.byref(arguments), ctypes.c_size_t(ctypes.sizeof(arguments)))
    if child == 0:
        os.execv('/bin/true', ['true'])
    if child < 0:
        continue
    assert child == number and os.waitpid(child, 0)[1] == 0, (child, number)
    given += 1
print(given)"
        ));
        let (code, said) = unmarked.go();
        assert!(code == Some(0), "{said}");
        assert!(said.trim().parse::<u32>().unwrap() >= 100, "{said} of 300 numbers could be had again");
        assert_eq!(programs.sweep().unwrap(), []);
    }
}

/// A hundred thousand processes start and end: their marks are swept out, no process is lost, and nothing grows.
#[test]
fn a_hundred_thousand_marks() {
    if !root() {
        return;
    }
    let programs = ScopePrograms::load().unwrap();
    programs.change(|settings| settings.depth = Depth::Inherit).unwrap();
    let id = scope(&programs, Verdict::Watch);
    let bytes = || -> Vec<String> {
        let of = |(_, map): (_, std::os::fd::BorrowedFd<'_>)| {
            use std::os::fd::AsRawFd;
            let said = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_raw_fd())).unwrap();
            said.lines().find(|line| line.starts_with("memlock:")).unwrap().to_owned()
        };
        programs.tables().filter(|(name, _)| ["marks", "gates"].contains(name)).map(of).collect()
    };
    let before = bytes();
    let many = "i=0; while [ $i -lt 50000 ]; do ( : ); i=$((i+1)); done";
    let script = format!("read line; {many} & {many}; wait; echo done; read line; /bin/echo ran; echo $?");
    let mut shell = Command::new("/bin/sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(programs.mark(shell.id(), id, true).unwrap(), Outcome::Done);
    let mut input = shell.stdin.take().unwrap();
    let mut said = BufReader::new(shell.stdout.take().unwrap());
    input.write_all(b"\n").unwrap();
    let (sender, done) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        let reader = &mut said;
        threads.spawn(move || {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            sender.send(line).unwrap();
        });
        let mut sweeps = 0;
        loop {
            match done.recv_timeout(std::time::Duration::from_millis(100)) {
                Ok(line) => break assert_eq!(line, "done\n"),
                Err(_) => {
                    let live = programs.sweep().unwrap();
                    assert!(live.contains(&(shell.id(), id)), "{live:?}");
                    sweeps += 1;
                    assert!(sweeps < 6000, "ten minutes");
                }
            }
        }
    });
    // Both loops, the one in the background, and the shell itself.
    assert_eq!(programs.scope(id).unwrap().unwrap().ever, 100_002);
    let totals = programs.totals().unwrap();
    assert_eq!(totals.unmarked, 0, "{totals:?}");
    assert_eq!(programs.sweep().unwrap(), [(shell.id(), id)]);
    assert_eq!(before, bytes());
    assert_eq!(programs.judge(id, Verdict::Kill).unwrap(), Outcome::Done);
    input.write_all(b"\n").unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, KILLED);
    shell.wait().unwrap();
    programs.close_scope(id).unwrap();
    assert_eq!(programs.sweep().unwrap(), []);
}

#[test]
fn beyond_the_table_marks_are_in_the_tasks() {
    if root() {
        let programs = ScopePrograms::load_with_table_of(Some(4)).unwrap();
        programs
            .change(|settings| *settings = Settings { depth: Depth::Inherit, ..Settings::default() })
            .unwrap();
        let id = scope(&programs, Verdict::Kill);
        let script = "
read_end, write_end = os.pipe()
for number in range(40):
    if os.fork() == 0:
        def run():
            if os.fork() == 0:
                os.execv('/bin/echo', ['echo', 'ran'])
            os.wait()
            os.execv('/bin/echo', ['echo', 'ran'])
        os.close(write_end)
        os.read(read_end, 1)
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        os._exit(0)
os.close(write_end)
print(sorted(set(os.wait()[1] for _ in range(40))))
";
        let waiting = Waiting::python(script);
        programs.mark(waiting.pid(), id, true).unwrap();
        assert_eq!(waiting.go().1, "[9]\n", "each was killed, its child before it");
        let found = programs.scope(id).unwrap().unwrap();
        assert_eq!(found.ever, 81);
        assert!(found.beyond >= 36, "{found:?}");
        assert_eq!(programs.totals().unwrap().unmarked, 0);
    }
}

#[test]
fn rare_calls_are_told_while_they_are_watched() {
    if root() {
        let programs = programs(Depth::Inherit);
        // socket(AF_ALG)
        programs.watch_call(41, 1 << 38).unwrap();
        programs.watch_call(250, ANY_ARGUMENT).unwrap();
        programs.watch_calls(cfg!(target_arch = "x86_64")).unwrap();
        let id = 3000;
        programs.open_scope(&Scope { id, calls: true, ..Scope::default() }).unwrap();
        let waiting = Waiting::python(
            "import socket\nsocket.socket(socket.AF_INET)\ntry: socket.socket(38, 5)\nexcept OSError: pass",
        );
        let seen = events(&programs, || {
            programs.mark(waiting.pid(), id, true).unwrap();
            assert_eq!(waiting.go().0, Some(0));
        });
        let calls: Vec<Kind> =
            seen.iter().map(|event| event.kind).filter(|kind| matches!(kind, Kind::Call { .. })).collect();
        if cfg!(target_arch = "x86_64") {
            assert_eq!(calls, [Kind::Call { number: 41, argument: 38 }]);
        }
    }
}

/// A BPF file system of its own.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let directory = PathBuf::from(format!("/var/tmp/palisade-scope-pins-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("bpf", &directory, "bpf", flags, None).unwrap();
        Self(directory)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _gone = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
        let _gone = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn pinned_they_outlive_who_made_them_and_cleared_nothing_stays() {
    if !root() {
        return;
    }
    let place = Place::new();
    let pins = Pins::below(place.0.join("scope"));
    let waiting = Waiting::shell("/bin/echo ran; echo $?");
    {
        let mut programs = programs(Depth::Inherit);
        programs.pin(&pins).unwrap();
        let id = scope(&programs, Verdict::Kill);
        programs.mark(waiting.pid(), id, true).unwrap();
    }
    assert_eq!(waiting.go().1, KILLED, "nobody holds them, and they work");
    let again = ScopePrograms::open(&pins).unwrap().expect("they are pinned");
    assert_eq!(again.settings().unwrap().depth, Depth::Inherit);
    let id = scope(&again, Verdict::Kill);
    let waiting = Waiting::shell("/bin/echo ran; echo $?");
    assert_eq!(again.mark(waiting.pid(), id, true).unwrap(), Outcome::Done);
    again.clear(&pins).unwrap();
    assert_eq!(waiting.go().1, "ran\n0\n");
    assert!(!Path::new(pins.directory()).exists());
    assert!(ScopePrograms::open(&pins).unwrap().is_none());
}

#[test]
fn the_hook_is_there_or_its_absence_is_known() {
    if root() {
        let mut programs = programs(Depth::Inherit);
        match programs.refuse_at_hook() {
            Ok(()) => assert!(programs.settings().unwrap().lsm),
            Err(error) => {
                assert!(palisade_bpf::support::absence(&error).is_some(), "{error:?}");
                assert!(!programs.settings().unwrap().lsm);
            }
        }
        // Without the security hook, what would be refused is killed.
        let id = scope(&programs, Verdict::Refuse);
        let waiting = Waiting::shell("/bin/echo ran; echo $?");
        programs.mark(waiting.pid(), id, true).unwrap();
        let (_, said) = waiting.go();
        assert!(said.ends_with(KILLED) || said.ends_with("126\n"), "{said}");
    }
}

#[test]
fn who_is_marked_where_another_is_has_its_mark_in_its_task() {
    if root() {
        // The table has one place: the second process finds it used.
        let programs = ScopePrograms::load_with_table_of(Some(1)).unwrap();
        programs.change(|settings| settings.depth = Depth::Inherit).unwrap();
        let id = scope(&programs, Verdict::Kill);
        let script = "/bin/echo ran; echo $?";
        let [first, second] = [Waiting::shell(script), Waiting::shell(script)];
        assert_eq!(programs.mark(first.pid(), id, true).unwrap(), Outcome::Done);
        let pid = second.pid();
        assert_eq!(programs.mark(pid, id, true).unwrap(), Outcome::Done);
        assert_eq!(programs.mark(pid, id, true).unwrap(), Outcome::Already);
        assert_eq!(programs.scope_of(pid).unwrap(), Some(id));
        let held = programs.scope(id).unwrap().unwrap();
        assert_eq!((held.ever, held.beyond), (2, 1));
        assert_eq!([first.go().1, second.go().1], [KILLED; 2]);
        // An unmarked process is gone from task storage as well as from the table.
        let third = Waiting::shell(script);
        assert_eq!(programs.mark(third.pid(), id, true).unwrap(), Outcome::Done);
        assert_eq!(programs.unmark(third.pid()).unwrap(), Outcome::Done);
        assert_eq!(programs.scope_of(third.pid()).unwrap(), None);
        assert_eq!(third.go().1, "ran\n0\n");
    }
}
