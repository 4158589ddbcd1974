// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs libmagic in processes without rights, because libmagic is C code and reads files that any user can write.
//!
//! palisaded starts itself once more (`--tell-kinds`) as the [`Nursery`], which loads libmagic and its database and never
//! sees a file. Each thread that needs libmagic makes a pair of sockets and passes one of them to the nursery. The nursery
//! forks a child for that socket. The child has no capability and no other file, runs as a user who owns nothing, and may
//! make only the calls of `data/kinds.list`. The thread sends the beginning of a file to its child and receives the name of
//! a kind.
//!
//! If a file's content makes a child end, only that file is refused, and the next file gets another child. Children are
//! made without an exec, because the kernel would ask palisaded about it. A compromised child can lie about the files that
//! its thread asks about from then on, and can do nothing else. Without a nursery, palisaded determines kinds itself, as
//! well as it can.

use crate::saying::say_of_users;
use palisade_guard::kind::libmagic::Magic;
use palisade_guard::kind::{Ask, HEAD, Kind, Recognizer, Untold};
use palisade_protocol::connection::{pass, take};
use palisade_sys::child::spawn_tied;
use palisade_sys::fork::{Apart, apart, ends_when_left};
use palisade_sys::seccomp::Instruction;
use palisade_syscall::Arch;
use palisade_syscall::confined;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::process::{Resource, Rlimit, WaitOptions, getrlimit, setrlimit, wait};
use rustix::thread::CapabilitySet;
use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long an open may wait for libmagic. libmagic takes a quarter of a millisecond for most files, a quarter of a second
/// for 64 KiB of empty lines, and more on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a child may take to begin.
const BIRTH: Duration = Duration::from_millis(1500);
/// How long a thread waits that answers for all users. Other threads handle a file that takes longer, so only its own user
/// waits.
const QUICK: Duration = Duration::from_millis(20);
/// How long the nursery may take to begin: its database has some MiB.
const BEGINS: Duration = Duration::from_secs(30);
/// A child ends after this many seconds of processor time, less the part of a second that it had used before.
const SECONDS: u64 = 2;
/// The most memory of a child, in bytes; its database takes 8 MiB.
const MEMORY: u64 = 256 << 20;
/// The user and group of a child. No other process has this number, so a child can't send signals to other processes.
const ASKED: u32 = 65532;
/// What the nursery and each child send when they have begun. Anything else is the reason why the nursery can't begin.
const READY: &[u8] = b"!";

/// The connection to the nursery, through which threads get their children.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    /// The socket to the nursery, if there is one.
    link: Mutex<Option<UnixStream>>,
}

impl Kinds {
    fn link(&self) -> MutexGuard<'_, Option<UnixStream>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A recognizer for one thread, which also waits for files that take long.
    pub(crate) fn recognizer(self: &Arc<Self>) -> Recognizer {
        self.waiting(PATIENCE)
    }

    /// A recognizer for a thread that must not make others wait.
    pub(crate) fn quick_recognizer(self: &Arc<Self>) -> Recognizer {
        self.waiting(QUICK).without_waiting()
    }

    fn waiting(self: &Arc<Self>, patience: Duration) -> Recognizer {
        Recognizer::asking(Box::new(Asker { kinds: Arc::clone(self), child: RefCell::default(), patience }))
    }

    /// Whether there is a nursery.
    fn is_there(&self) -> bool {
        self.link().is_some()
    }

    /// Gets a new child, which waits for questions.
    fn child(&self) -> Result<OwnedFd, Untold> {
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, theirs) = pair.map_err(|_no_descriptor| Untold::Failed)?;
        let handed_over = match &*self.link() {
            Some(link) => pass(link, theirs.as_fd()),
            None => return Err(Untold::Nobody),
        };
        drop(theirs);
        if handed_over.is_ok() && hear(&ours, BIRTH).as_deref() == Ok(READY) {
            return Ok(ours);
        }
        // The nursery is at fault; the supervisor starts another one.
        *self.link() = None;
        Err(Untold::Nobody)
    }
}

/// One thread's recognizer, with its child.
struct Asker {
    kinds: Arc<Kinds>,
    child: RefCell<Option<OwnedFd>>,
    patience: Duration,
}

impl Ask for Asker {
    fn kind(&self, head: &[u8]) -> Result<Kind, Untold> {
        let head = &head[..head.len().min(HEAD)];
        let mut kept = self.child.borrow_mut();
        let ask =
            |child: &OwnedFd| if put(child, head) { hear(child, self.patience) } else { Err(Untold::Failed) };
        let before = kept.take().map(|child| (ask(&child), child));
        let (told, child) = match before {
            Some((told, child)) if told != Err(Untold::Failed) => (told, child),
            // The previous child may have been ending for another reason.
            _ => {
                let child = self.kinds.child()?;
                (ask(&child), child)
            }
        };
        if told == Err(Untold::Slow) && self.patience < PATIENCE {
            return Err(Untold::Slow);
        }
        let Some(kind) = told.ok().and_then(|name| Kind::told(&name)) else {
            say_of_users(
                "palisaded: libmagic ended or took too long while it read the beginning of a file; the file is refused",
            );
            return Err(Untold::Failed);
        };
        *kept = Some(child);
        Ok(kind)
    }
}

/// Sends a child a question. Returns whether the child accepts it, which means that it hasn't ended.
fn put(child: &OwnedFd, head: &[u8]) -> bool {
    send(child, head, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_ok()
}

/// Receives a child's answer, in time.
fn hear(child: &OwnedFd, patience: Duration) -> Result<Vec<u8>, Untold> {
    let patience = Timespec::try_from(patience).ok();
    let mut polled = [PollFd::new(child, PollFlags::IN)];
    if !matches!(rustix::io::retry_on_intr(|| poll(&mut polled, patience.as_ref())), Ok(1..)) {
        return Err(Untold::Slow);
    }
    let mut said = [0; 128];
    let (_, count) = recv(child, &mut said, RecvFlags::DONTWAIT).map_err(|_has_ended| Untold::Failed)?;
    Ok(said.get(..count).unwrap_or_default().to_vec())
}

/// The process that makes the children, as palisaded sees it.
#[derive(Debug)]
pub(crate) struct Nursery {
    process: Child,
    link: UnixStream,
    is_ready: bool,
}

impl Nursery {
    /// Starts the nursery. It ends with the calling thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (link, theirs) = UnixStream::pair()?;
        let process = spawn_tied(
            Command::new("/proc/self/exe")
                .arg("--tell-kinds")
                .env_clear()
                .current_dir("/")
                .stdin(OwnedFd::from(theirs))
                .stdout(Stdio::null()),
        )?;
        // A thread that asks must not block while the nursery is stopped.
        link.set_nonblocking(true)?;
        Ok(Self { process, link, is_ready: false })
    }

    /// Waits until the nursery has begun, while no thread asks anything yet.
    ///
    /// # Errors
    /// Why the nursery can't begin.
    pub(crate) fn begin(&mut self, kinds: &Kinds) -> Result<(), String> {
        let patience = Timespec::try_from(BEGINS).ok();
        let _said = poll(&mut [PollFd::new(&self.link, PollFlags::IN)], patience.as_ref());
        let mut said = [0; 4096];
        let count = recv(&self.link, &mut said, RecvFlags::DONTWAIT).map_or(0, |(_, count)| count);
        match said.get(..count).unwrap_or_default() {
            READY => self.offer(kinds).map_err(|error| error.to_string()),
            [] => Err("the libmagic process doesn't start".to_owned()),
            reason => Err(String::from_utf8_lossy(reason).into_owned()),
        }
    }

    fn offer(&mut self, kinds: &Kinds) -> io::Result<()> {
        *kinds.link() = Some(self.link.try_clone()?);
        self.is_ready = true;
        Ok(())
    }

    /// Whether the nursery lives. If it has just begun, threads can use it from now on.
    pub(crate) fn is_there(&mut self, kinds: &Kinds) -> bool {
        if !matches!(self.process.try_wait(), Ok(None)) {
            *kinds.link() = None;
            return false;
        }
        if self.is_ready {
            return kinds.is_there();
        }
        let mut said = [0; 4096];
        match recv(&self.link, &mut said, RecvFlags::DONTWAIT) {
            Ok((_, count)) if said.get(..count) == Some(READY) => self.offer(kinds).is_ok(),
            Err(Errno::AGAIN | Errno::INTR) => true,
            _ => false,
        }
    }

    /// Whether the nursery has begun.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Becomes readable when the nursery has begun, and when it has ended.
    pub(crate) fn news(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        // The nursery's children end with it.
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// The main function of `--tell-kinds`. Its standard input is the link.
pub(crate) fn run() -> ExitCode {
    let _named = rustix::thread::set_name(c"kinds");
    // As in the standby: a signal that should end palisaded may be sent to all its processes.
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let _ends_before = signal_hook::flag::register(signal, Arc::default());
    }
    // A process that reads untrusted bytes may be ended before palisaded when memory is short.
    let _sooner = std::fs::write("/proc/self/oom_score_adj", "0");
    let Ok(link) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::FAILURE;
    };
    match begin() {
        Ok((magic, filter)) => {
            if send(&link, READY, SendFlags::NOSIGNAL).is_ok() {
                serve(&link, &magic, &filter);
            }
            ExitCode::SUCCESS
        }
        Err(reason) => {
            let _nobody_waits = send(&link, reason.as_bytes(), SendFlags::NOSIGNAL);
            ExitCode::FAILURE
        }
    }
}

fn begin() -> Result<(Magic, Vec<Instruction>), String> {
    let magic = Magic::load().map_err(|error| match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    })?;
    let filter = confined::kinds(Arch::NATIVE)
        .map_err(|error| format!("the list of system calls can't be used: {error}"))?;
    // Needed to run each child as another user.
    crate::privileges::keep_only(CapabilitySet::SETUID | CapabilitySet::SETGID)
        .map_err(|errno| format!("can't drop capabilities: {errno}"))?;
    Ok((magic, filter.program))
}

/// Makes a child for each socket that arrives, until palisaded has ended.
fn serve(link: &UnixStream, magic: &Magic, filter: &[Instruction]) {
    while let Ok(socket) = take(link) {
        while let Ok(Some(_ended)) = wait(WaitOptions::NOHANG) {}
        let kept = [socket.as_raw_fd()];
        let identity = Some([ASKED; 2]);
        // Pass `/dev/null` as an open file: opening it would be a question, and the thread that waits for the child may be
        // the thread that reads questions.
        let nothing = Some(1);
        let child = Apart { name: c"kind", kept: &kept, nothing, identity, filter };
        // If no child can be made, the socket is closed, and palisaded notices that.
        let _process = apart(&child, || tell(socket.as_fd(), magic));
    }
}

/// The child's main function: answers until the other end of its socket is closed.
fn tell(socket: BorrowedFd<'_>, magic: &Magic) {
    let limited = setrlimit(Resource::As, Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) });
    let mut head = vec![0; HEAD];
    if limited.is_err() || send(socket, READY, SendFlags::NOSIGNAL).is_err() {
        return;
    }
    while let Ok((_, count @ 1..)) = rustix::io::retry_on_intr(|| recv(socket, &mut head, RecvFlags::empty()))
    {
        // Don't work for a thread that has given up.
        if !limit_time() || ends_when_left(socket, true).is_err() {
            return;
        }
        let kind = magic.kind(head.get(..count).unwrap_or_default()).unwrap_or(Kind::UNKNOWN);
        if ends_when_left(socket, false).is_err() {
            return;
        }
        if send(socket, kind.as_str().as_bytes(), SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
}

/// Limits this process to some seconds of processor time. Returns whether that worked.
fn limit_time() -> bool {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec.unsigned_abs();
    setrlimit(Resource::Cpu, Rlimit { current: Some(used + SECONDS), ..getrlimit(Resource::Cpu) }).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, kill_process, waitpid};
    use std::io::Read;
    use std::path::{Path, PathBuf};

    /// A child that runs `work` with its socket, and the other end of the socket.
    fn child(work: impl FnOnce(BorrowedFd<'_>)) -> (Pid, OwnedFd) {
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, theirs) = pair.expect("a pair of sockets");
        let filter = confined::kinds(Arch::NATIVE).expect("the list");
        let kept = [theirs.as_raw_fd()];
        let identity = rustix::process::geteuid().is_root().then_some([ASKED; 2]);
        let child = Apart { name: c"kind", kept: &kept, nothing: None, identity, filter: &filter.program };
        let pid = apart(&child, || work(theirs.as_fd())).expect("a process");
        (Pid::from_raw(pid).expect("its number"), ours)
    }

    fn ended(pid: Pid) -> (Option<i32>, Option<i32>) {
        let (_, status) = waitpid(Some(pid), WaitOptions::empty()).expect("it is ours").expect("it ends");
        (status.exit_status(), status.terminating_signal())
    }

    /// How long a test waits for a child: a machine that runs many tests gives it no processor for a while.
    const TEST_PATIENCE: Duration = Duration::from_secs(100);

    /// Collects the beginnings of some of the files below `directory`, with their paths.
    fn heads(directory: &Path, heads: &mut Vec<(PathBuf, Vec<u8>)>) {
        for (number, entry) in std::fs::read_dir(directory).into_iter().flatten().flatten().enumerate() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && heads.len() < 1500 {
                self::heads(&entry.path(), heads);
            } else if kind.is_file()
                && number < 4
                && let Ok(file) = std::fs::File::open(entry.path())
            {
                let mut head = Vec::new();
                let read = file.take(HEAD as u64).read_to_end(&mut head);
                heads.extend((read.is_ok() && !head.is_empty()).then(|| (entry.path(), head)));
            }
        }
    }

    #[test]
    fn whoever_is_asked_says_what_libmagic_says() {
        let magic = Magic::load().expect("libmagic");
        // It is made before the files are read: its memory is limited, and it has a copy of this process's.
        let (pid, socket) = child(|socket| tell(socket, &magic));
        assert_eq!(hear(&socket, TEST_PATIENCE).as_deref(), Ok(READY));
        let mut all = Vec::new();
        for directory in ["/usr/share", "/usr/lib", "/etc"] {
            let mut some = Vec::new();
            heads(Path::new(directory), &mut some);
            all.extend(some);
        }
        assert!(all.len() > 500, "{}", all.len());
        for (path, head) in &all {
            let said = if put(&socket, head) { hear(&socket, TEST_PATIENCE) } else { Err(Untold::Failed) };
            let said = match said {
                Ok(said) => said,
                Err(Untold::Slow) => panic!("{}: no answer", path.display()),
                Err(error) => panic!("{}: {error:?}: the child ended: {:?}", path.display(), ended(pid)),
            };
            assert_eq!(
                magic.kind(head).expect("told").as_str(),
                String::from_utf8_lossy(&said),
                "{}",
                path.display()
            );
        }
        drop(socket);
        assert_eq!(ended(pid), (Some(0), None));
    }

    type Attack = fn() -> bool;

    /// What an attacker could make libmagic do; each function returns whether it worked.
    const ATTACKS: &[(&str, Attack)] = &[
        ("opens a file", || std::fs::File::open("/etc/passwd").is_ok()),
        ("makes a socket", || UnixStream::pair().is_ok()),
        ("makes a process", || {
            let made = Command::new("/bin/true").status();
            made.is_ok_and(|status| status.success())
        }),
        ("signals", || {
            kill_process(rustix::process::getppid().expect("a parent"), rustix::process::Signal::CONT).is_ok()
        }),
        ("looks for files", || std::fs::metadata("/etc/passwd").is_ok()),
        ("makes a thread", || {
            std::thread::Builder::new().spawn(|| ()).is_ok_and(|thread| thread.join().is_ok())
        }),
        ("waits for ever", || poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 1 })).is_ok()),
        ("lets others look into it", || {
            rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable).is_ok()
        }),
    ];

    #[test]
    fn who_takes_it_over_can_do_nothing_with_it() {
        for (name, attack) in ATTACKS {
            assert!(attack(), "{name}: outside it works");
            let (pid, socket) = child(|socket| {
                let worked = attack();
                let _told = send(socket, &[u8::from(worked)], SendFlags::NOSIGNAL);
            });
            assert_eq!(ended(pid), (None, Some(31)), "{name}");
            drop(socket);
        }
    }

    #[test]
    fn whoever_isnt_waited_for_ends() {
        let (pid, socket) = child(|socket| {
            let _from_now = ends_when_left(socket, true);
            let _begun = send(socket, READY, SendFlags::NOSIGNAL);
            loop {
                std::hint::spin_loop();
            }
        });
        assert_eq!(hear(&socket, PATIENCE).as_deref(), Ok(READY));
        drop(socket);
        // SIGIO
        assert_eq!(ended(pid), (None, Some(29)));
    }

    #[test]
    fn who_works_for_ever_ends() {
        let (pid, socket) = child(|socket| {
            limit_time();
            let _begun = send(socket, READY, SendFlags::NOSIGNAL);
            loop {
                std::hint::spin_loop();
            }
        });
        assert_eq!(hear(&socket, PATIENCE).as_deref(), Ok(READY));
        // SIGXCPU
        assert_eq!(ended(pid), (None, Some(24)));
    }
}
