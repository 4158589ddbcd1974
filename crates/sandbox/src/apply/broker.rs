// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The launcher's side of the broker: what the launcher gives to the broker, and the reports that it receives.

use crate::apply::start::LaunchEvent;
use crate::error::{StartError, quoted};
use crate::facts::broker::unreadable;
use crate::filter::calls::{self, Unanswered};
use crate::filter::denials;
use crate::network::sockets;
use crate::plan::{Broker as Told, Calls, Filter, Plan, Root, SyscallReplies};
use palisade_event::{Detail, Event, Mechanism, Object, Operation, Sandbox, Subject, Verdict, Why};
use palisade_policy::names::{NameRule, NameRules};
use palisade_sys::launch::{Broker, Station};
use palisade_syscall::broker::Server;
use palisade_syscall::broker::name_policy::{self, ProtectedPaths, Refused};
use palisade_syscall::broker::report::{self, Denial, Program, Report};
use palisade_syscall::{Arch, Errno as Refusal, Syscall};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The launcher receives at most this many batches before it does other work.
const BATCHES: usize = 16;

/// Receives the broker's reports.
#[derive(Debug)]
pub(crate) struct ReportReceiver<'p> {
    socket: OwnedFd,
    told: &'p Told<'p>,
    rules: OnceCell<Vec<NameRule>>,
    /// `BrokerEnded` has been reported.
    ended: Cell<bool>,
    /// The broker moves files into place after programs have written them.
    writing: Cell<bool>,
    /// The thread that made the last reported call, and its process.
    asked: Cell<(u32, u32)>,
}

/// Prepares a broker for a plan that has one.
pub(crate) fn prepare<'p>(
    plan: &'p Plan<'p>,
    umask: u32,
) -> Result<Option<(Broker, ReportReceiver<'p>)>, StartError> {
    let Some(told) = &plan.broker else { return Ok(None) };
    // The setting may have changed since the plan was made.
    if let Some(reason) = unreadable(plan.namespaces.is_empty()) {
        return Err(StartError::Unreadable { reason });
    }
    let failed = |action| move |source| StartError::Launch { action, source };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc =
        rustix::fs::open("/proc", flags, Mode::empty()).map_err(failed("open /proc for the broker"))?;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(failed("make a socket pair for the broker"))?;
    palisade_sys::wait::signal_when_readable(ours.as_fd())
        .map_err(failed("ask for signals of the broker's socket"))?;
    let told_to_it = told.clone().into_owned();
    let command = Filter(Cow::Owned(plan.filter.0.to_vec()));
    let learn = told.learn;
    let in_place = plan.namespaces.is_empty();
    let given = given(told)?;
    let answers = told.answers.as_ref();
    let answers = answers.map(|answers| answers.told(plan.hostname.as_ref().map(|name| name.as_bytes())));
    // 0 when the session's leader is in an outer PID namespace. A `stat` file shows 0 in that case, too.
    let session = palisade_sys::process::session().unsigned_abs();
    let serve = move |station: Station| {
        // Decoded in the broker only, which is forked at the first call: most launches never need it.
        let Some(protected_paths) = protected_paths(&told_to_it) else { palisade_sys::process::exit_now(1) };
        let program = told_to_it.filter.instructions();
        let filter = palisade_syscall::Filter { program };
        let command = palisade_syscall::Filter { program: command.instructions() };
        let unlearned = told_to_it.calls.as_ref().map(Calls::unlearned);
        Server {
            protected_paths,
            command,
            filter,
            umask,
            session,
            in_place,
            learn,
            unlearned,
            answers: answers.clone(),
        }
        .serve(station);
    };
    let terminal = terminal();
    let broker = Broker::giving(Box::new(serve), proc, theirs, terminal, given);
    let has_clock = told.answers.as_ref().is_some_and(|answers| answers.start.is_some());
    let broker = if has_clock { broker.watching() } else { broker };
    let receiver = ReportReceiver {
        socket: ours,
        told,
        rules: OnceCell::new(),
        ended: Cell::new(false),
        writing: Cell::new(false),
        asked: Cell::default(),
    };
    Ok(Some((broker, receiver)))
}

/// The descriptors of the caller's that a command may be given.
fn given(told: &Told<'_>) -> Result<Vec<OwnedFd>, StartError> {
    let numbers = told.answers.as_ref().map(SyscallReplies::descriptors).unwrap_or_default();
    let duplicate = |number: u32| {
        let failed = |source| StartError::Given { number, source };
        let given = palisade_sys::process::inherited(number).map_err(failed)?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&given).map_err(failed)?.st_mode);
        // A directory of the host would make every other one reachable.
        if kind == FileType::Directory { Err(failed(Errno::ISDIR)) } else { Ok(given) }
    };
    numbers.into_iter().map(duplicate).collect()
}

fn protected_paths(told: &Told<'_>) -> Option<ProtectedPaths> {
    let roots = told
        .roots
        .iter()
        .map(|Root { inside, host, write, above }| name_policy::Root {
            inside: inside.as_bytes().to_vec(),
            host: host.as_ref().map(|host| host.as_bytes().to_vec()),
            write: *write,
            above: *above,
        })
        .collect();
    let pinned = told.pinned.iter().map(|pin| name_policy::Pin {
        path: pin.path.as_bytes().to_vec(),
        about: pin.about.as_bytes().to_vec(),
    });
    let pinned = pinned.collect();
    Some(ProtectedPaths { roots, names: told.names.get().ok()?, paths: told.paths.get().ok()?, pinned })
}

/// The terminal among the standard streams, if there is one: what `/dev/tty` means inside.
fn terminal() -> Option<OwnedFd> {
    [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()]
        .into_iter()
        .find(|stream| rustix::termios::isatty(stream))
        .and_then(|stream| rustix::io::fcntl_dupfd_cloexec(stream, 3).ok())
}

impl ReportReceiver<'_> {
    /// Passes on the reports that have arrived. Returns whether there may be more: a broker that reports without end
    /// must not keep the launcher from its other work.
    pub(crate) fn hear(&self, tell: &mut dyn FnMut(LaunchEvent<'_>)) -> bool {
        (0..BATCHES).all(|_batch| match report::receive(self.socket.as_fd()) {
            Ok(reports) => {
                let may_be_more = reports.len() == report::BATCH;
                self.pass_on(reports, tell);
                may_be_more
            }
            Err(errno) => {
                self.ended(Some(errno), tell);
                false
            }
        })
    }

    fn pass_on(&self, reports: Vec<Report>, tell: &mut dyn FnMut(LaunchEvent<'_>)) {
        for report in reports {
            match report {
                Report::Refused { thread, program, call, refused } => {
                    let Some(rule) = self.rules().get(refused.rule) else { continue };
                    let subject = self.subject(thread, &program);
                    tell(LaunchEvent::Refused { event: &event(subject, call, &refused, rule), rule });
                }
                Report::Denied { thread, program, path, denial } => {
                    let subject = self.subject(thread, &program);
                    let event = denials::of_name(subject, &path, &denial, self.rules());
                    let event = match &denial {
                        Denial::ReadOnly { .. } if self.is_repository(&path) => {
                            event.with_hint(Some("palisade run --repo …".to_owned()))
                        }
                        _ => event,
                    };
                    tell(LaunchEvent::Denied(&event));
                }
                Report::Call { thread, program, call, errno } => {
                    let Some((call, errno)) = call_of(call).zip(Refusal::new(errno)) else { continue };
                    let subject = self.subject(thread, named(&program));
                    tell(LaunchEvent::Denied(&denials::of_call(subject, call, errno)));
                }
                Report::Socket { thread, program, path } => {
                    let subject = self.subject(thread, &program);
                    tell(LaunchEvent::Denied(&sockets::event(subject, &path)));
                }
                Report::Used { how, came, path, program } => {
                    tell(LaunchEvent::Used { how, came, path: &lossless(path), program: &program });
                }
                Report::Called { program, call } => {
                    if let Some(call) = call_of(call) {
                        tell(LaunchEvent::Called { program: &program, call });
                    }
                }
                Report::Unlearned { thread, program, call, killed } => {
                    let Some(call) = call_of(call) else { continue };
                    let subject = self.subject(thread, named(&program));
                    let event = calls::event(subject, call, killed, self.told.calls.as_ref());
                    tell(LaunchEvent::Unlearned { event: &event, call });
                }
                Report::Asked { number, thread, program, call } => {
                    let Some(call) = call_of(call) else { continue };
                    let question = Unanswered { number, thread, call, program: &program };
                    tell(LaunchEvent::Asked { question: &question, answers: self.socket.as_fd() });
                }
                Report::Repository { path } => tell(LaunchEvent::Repository(&lossless(path))),
                Report::Writing => self.writing.set(true),
                Report::Overload { call, errno } => {
                    tell(LaunchEvent::Overload { call: &call, source: Errno::from_raw_os_error(errno) });
                }
                Report::Lost { count } => tell(LaunchEvent::Lost(count)),
            }
        }
    }

    /// Whether the broker still has files to move into place after the last process inside has ended.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.get()
    }

    /// Reports that the broker has ended although the command runs.
    pub(crate) fn ended(&self, _why: Option<Errno>, tell: &mut dyn FnMut(LaunchEvent<'_>)) {
        if !self.ended.replace(true) {
            tell(LaunchEvent::BrokerEnded);
        }
    }

    /// The process that made a call. The last one is kept, because a loop of refusals comes from one thread.
    fn subject(&self, thread: u32, program: &[u8]) -> Subject {
        let (known, process) = self.asked.get();
        let process = if known == thread { process } else { process_of(thread).unwrap_or(thread) };
        self.asked.set((thread, process));
        Subject {
            pid: Some(process),
            uid: Some(rustix::process::getuid().as_raw()),
            program: String::from_utf8_lossy(program).into_owned(),
            thread: (process != thread).then_some(thread),
            ..Subject::default()
        }
    }

    /// Whether a path lies in the part of the working directory's repository that can't be written to.
    fn is_repository(&self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        self.told.repository.iter().any(|tree| path.starts_with(tree.as_path()))
    }

    fn rules(&self) -> &[NameRule] {
        self.rules.get_or_init(|| {
            let of = |rules: Result<NameRules, _>| {
                rules.map_or_else(|_damaged| Vec::new(), |rules| rules.rules().to_vec())
            };
            let mut rules = of(self.told.names.get());
            rules.extend(of(self.told.paths.get()));
            rules
        })
    }
}

/// The call of this number. None: no such system call exists; the broker that reported it is compromised.
fn call_of(number: u32) -> Option<Syscall> {
    Syscall::from_number(Arch::NATIVE, number)
}

fn lossless(path: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    PathBuf::from(std::ffi::OsString::from_vec(path))
}

/// The file that a thread executes, in words.
fn named(program: &Program) -> &[u8] {
    if program.path.is_empty() { b"a program" } else { &program.path }
}

/// The process of a thread, as the host numbers it. `None` when the thread has ended.
fn process_of(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// A protected name that wasn't written, and what permits it.
fn event(subject: Subject, call: String, refused: &Refused, rule: &NameRule) -> Event {
    let text = match (refused.holder, refused.detail.as_str()) {
        (true, "") => {
            format!("{call} would move names that {} protects, or put other names in their place", rule.path)
        }
        (true, detail) => format!("{} protects names below this path: {detail}", rule.path),
        (false, "") => format!("{} is protected: {}", rule.path, rule.reason),
        (false, detail) => format!("{} is protected: {detail}", rule.path),
    };
    let permitted = !rule.locked && !rule.anchored;
    let detail = Sandbox { call: Some(call), protected: Some(rule.path.clone()), expected: false };
    Event::new(
        SystemTime::now(),
        Detail::Sandbox(detail),
        subject,
        (Operation::Write, Object::file(String::from_utf8_lossy(&refused.path))),
        (Verdict::Refused, Mechanism::Broker),
        Why { origin: Some(rule.origin.clone()), text },
    )
    .with_hint(permitted.then(|| format!("palisade run --allow-name {} …", quoted(&rule.path))))
}
