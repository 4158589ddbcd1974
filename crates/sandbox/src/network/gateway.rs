// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The launcher's side of the gateway: listening sockets without a server until a process inside uses the network.
//!
//! Init has made the sockets inside (`palisade_sys::network`). The first query or connection makes the kernel send a
//! signal, which the monitor receives with its other signals. Only then the gateway is forked, outside, with almost no
//! rights. A command that never uses the network has no cost. When the gateway ends, its sockets are closed: later
//! requests are refused, and there is no other way out.
//!
//! A sandbox without a network ([`Plan::offline`]) has a gateway, too. It gets the sockets for name queries only
//! and rules that allow nothing. So a program that looks up a name gets an answer at once, and the user a report.
//!
//! The caller provides the code of the gateway ([`ServeNetwork`]): this crate knows nothing of names and protocols.

use crate::apply::start::LaunchEvent;
use crate::error::StartError;
use crate::plan::{Approvals, Filter, IdentityKind, Network as Told, Offline, Plan};
use palisade_policy::network::NetworkRules;
use palisade_protocol::ProtocolError;
use palisade_protocol::network::{Frames, Instruction, frame};
use palisade_sys::fork::{self, Apart};
use palisade_sys::launch::Started;
use palisade_sys::network::{Made, Network};
use palisade_sys::seccomp::Instruction as FilterInstruction;
use palisade_sys::wait::{self, Change};
use palisade_syscall::{
    Action, Arch, Errno as Refusal, Rule, Rules as Calls, Syscall, Test, compile,
    rules::{Question, Width},
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// The input of the gateway.
#[derive(Debug)]
pub struct Served {
    /// The sockets inside.
    pub inside: Vec<Made>,
    /// Sockets of the host, and the ports inside that they lead to.
    pub publish: Vec<(OwnedFd, u16)>,
    /// The rules for hosts.
    pub rules: NetworkRules,
    /// Hosts that the user has approved earlier, for requests about which the rules say `ask`.
    pub answered: NetworkRules,
    /// The upstream proxy, as in [`Network::proxy`](crate::plan::Network::proxy).
    pub proxy: Option<String>,
    /// The caller's variables about proxies; empty if they don't count.
    pub variables: Vec<(&'static str, String)>,
    /// The name servers to query; if empty, those of `resolv_conf`.
    pub dns: Vec<SocketAddr>,
    /// The content of the host's `/etc/resolv.conf`, which the gateway can't read any more.
    pub resolv_conf: String,
    /// The content of the host's `/etc/hosts`.
    pub hosts: String,
    /// Without namespaces: the broker, which asks for each connection (`palisade_sys::connection`).
    pub broker: Option<OwnedFd>,
    /// The host's ports that the command may reach. With namespaces `inside` has a socket for each.
    pub reach: Vec<u16>,
    /// A stream of [`palisade_protocol::network`]. When its other end is closed, the launch has ended.
    pub control: OwnedFd,
    /// Makes sockets in the network inside, if there is one.
    pub maker: Option<Maker>,
}

/// Makes sockets that belong to the network inside.
#[derive(Debug)]
pub struct Maker(OwnedFd);

impl Maker {
    /// A nonblocking stream socket, of IPv6 or IPv4.
    ///
    /// # Errors
    /// When init has ended or can't make a socket.
    pub fn socket(&self, v6: bool) -> Result<OwnedFd, Errno> {
        palisade_sys::network::socket_inside(self.0.as_fd(), v6)
    }
}

/// Serves a network until the launch ends. Called in a process of its own.
pub type ServeNetwork = fn(Served);

/// For launches without a filtered network.
pub(crate) fn nobody(_served: Served) {}

/// A larger file isn't read as a file about names.
const LARGEST: usize = 1 << 20;
/// How long the end of a launch waits for the last reports.
const PATIENCE: Duration = Duration::from_millis(300);
/// The longest report.
const LONGEST: usize = 1 << 16;
/// How much is read at a time, and how often, before the launcher does other work.
const CHUNK: usize = 8192;
const CHUNKS: usize = 16;
/// The system calls of the gateway: sockets and waiting for them, memory, and the clock.
const OWN: &[&str] = &[
    "accept4",
    "bind",
    "brk",
    "clock_gettime",
    "clock_nanosleep",
    "close",
    "connect",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "eventfd2",
    "exit",
    "exit_group",
    "fcntl",
    "futex",
    "getpeername",
    "getpid",
    "getrandom",
    "getsockname",
    "getsockopt",
    "gettid",
    "listen",
    "madvise",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "pipe2",
    "poll",
    "ppoll",
    "read",
    "readv",
    "recvfrom",
    "recvmsg",
    "restart_syscall",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_yield",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "sigaltstack",
    "splice",
    "tgkill",
    "write",
    "writev",
];

/// Calls that depend on an argument: only internet sockets, only nonblocking mode, only the process's own limits.
const CONDITIONAL: [(&str, u8, &[u64], &str); 3] = [
    ("socket", 0, &[2, 10], "AF_INET, AF_INET6"),
    ("ioctl", 1, &[0x5421], "FIONBIO"),
    ("prlimit64", 0, &[0], "this process"),
];

/// The seccomp filter of the gateway.
///
/// # Errors
/// No error is known for this constant list.
pub(crate) fn filter() -> Result<palisade_syscall::Filter, palisade_syscall::Error> {
    let known = |name: &&&str| name.parse::<Syscall>().is_ok_and(|call| call.number(Arch::NATIVE).is_some());
    let calls: Vec<&str> = OWN.iter().filter(known).copied().collect();
    let mut rules = Calls::new(Action::Errno(Refusal::EPERM)).with(&calls, &[])?;
    for (call, argument, values, condition) in CONDITIONAL {
        let tests = Test::new(argument, Width::Low, Question::In(values.to_vec())).into_iter().collect();
        let reason = "what serves a network needs it so".to_owned();
        rules.add(
            call.parse()?,
            Rule { action: Action::Allow, tests, condition: condition.to_owned(), reason },
        );
    }
    compile(&rules, Arch::NATIVE)
}

/// The gateway of a launch, or its sockets before it is started.
#[derive(Debug)]
pub(crate) struct Gateway<'p> {
    /// `None`: there is nothing to serve.
    rules: Option<Rules<'p>>,
    identity: Option<[u32; 2]>,
    serve: ServeNetwork,
    state: State,
}

/// The gateway's part of a plan.
#[derive(Debug, Clone, Copy)]
enum Rules<'p> {
    /// Those of a filtered network.
    Filtered(&'p Told<'p>),
    /// Nothing is allowed.
    Closed(&'p Offline<'p>),
}

impl<'p> Rules<'p> {
    fn of(plan: &'p Plan<'_>) -> Option<Self> {
        match &plan.network {
            Some(told) => Some(Self::Filtered(told)),
            None => plan.offline.as_ref().map(Self::Closed),
        }
    }
}

/// The network that init makes. `None`: it makes only the namespace, or not even that.
pub(crate) fn network(plan: &Plan<'_>) -> Option<Network> {
    if plan.namespaces.is_empty() {
        return None;
    }
    Some(match Rules::of(plan)? {
        Rules::Filtered(told) => Network::new(&told.reach),
        Rules::Closed(offline) => Network::closed(&offline.servers),
    })
}

#[derive(Debug, Default)]
enum State {
    /// There is no gateway, or it has ended.
    #[default]
    Shut,
    /// The gateway isn't started, because nothing was requested yet.
    Alone(Sockets),
    /// The gateway serves requests.
    Open { process: i32, control: Control },
}

/// The launcher's end of the stream of reports.
#[derive(Debug)]
struct Control {
    socket: OwnedFd,
    frames: Frames,
}

#[derive(Debug)]
struct Sockets {
    inside: Vec<Made>,
    publish: Vec<(OwnedFd, u16)>,
    /// Of init, if there are namespaces.
    lifeline: Option<OwnedFd>,
    /// Of the broker, if there are none.
    broker: Option<OwnedFd>,
}

/// The sockets of the host whose connections go inside, made before any process is started.
pub(crate) fn publish(plan: &Plan<'_>) -> Result<Vec<(OwnedFd, u16)>, StartError> {
    let Some(told) = &plan.network else { return Ok(Vec::new()) };
    let bound = told.publish.iter().map(|published| {
        let address = SocketAddr::new(published.address, published.host_port);
        let failed = |source| StartError::Publish { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok((OwnedFd::from(listener), published.port))
    });
    bound.collect()
}

/// Both ends of the way from the broker to the gateway of a command without namespaces: that of the broker first.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) broker: OwnedFd,
    pub(crate) gateway: OwnedFd,
}

impl Link {
    /// `None` for a plan that needs none.
    pub(crate) fn of(plan: &Plan<'_>) -> Result<Option<Self>, StartError> {
        if plan.network.is_none() || !plan.namespaces.is_empty() {
            return Ok(None);
        }
        let failed = |source| StartError::Launch { action: "make a socket pair for the gateway", source };
        let flags = SocketFlags::CLOEXEC;
        let (broker, gateway) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .map_err(failed)?;
        Ok(Some(Self { broker, gateway }))
    }
}

impl<'p> Gateway<'p> {
    /// Takes the sockets and waits for the first request. `broker` is the gateway's end of a [`Link`].
    pub(crate) fn of(
        plan: &'p Plan<'_>,
        (network, broker): (Option<&Network>, Option<OwnedFd>),
        publish: Vec<(OwnedFd, u16)>,
        started: &Started,
        serve: ServeNetwork,
        tell: &mut dyn FnMut(LaunchEvent<'_>),
    ) -> Self {
        let mapped = plan.identity.kind == IdentityKind::Mapped;
        let identity = mapped.then_some([plan.identity.host_uid, plan.identity.host_gid]);
        let mut gateway = Self { rules: Rules::of(plan), identity, serve, state: State::Shut };
        let sockets = match (network, &started.lifeline, broker) {
            (Some(network), Some(lifeline), _) => {
                if let Some(why) = network.unled() {
                    tell(LaunchEvent::Unled(why));
                }
                let inside = network.take();
                lifeline.try_clone().map(|lifeline| Sockets {
                    inside,
                    publish,
                    lifeline: Some(lifeline),
                    broker: None,
                })
            }
            (_, _, Some(broker)) => {
                Ok(Sockets { inside: Vec::new(), publish, lifeline: None, broker: Some(broker) })
            }
            _ => return gateway,
        };
        match sockets {
            Ok(sockets) => {
                for socket in sockets.all() {
                    // An earlier request is seen by the first look.
                    let _only_late = wait::signal_when_readable(socket);
                }
                gateway.state = State::Alone(sockets);
            }
            Err(error) => tell(LaunchEvent::NetworkEnded(&error.to_string())),
        }
        gateway
    }

    /// Starts the gateway at the first request, and passes on its reports. Returns whether there is more to read.
    pub(crate) fn look(&mut self, tell: &mut dyn FnMut(LaunchEvent<'_>)) -> bool {
        if let State::Alone(sockets) = &self.state {
            if !sockets.any_readable() {
                return false;
            }
            self.begin(tell);
        }
        match &mut self.state {
            State::Open { control, .. } => control.hear(tell) == Heard::Part,
            _ => false,
        }
    }

    /// A child has ended: perhaps the gateway.
    pub(crate) fn reap(&mut self, tell: &mut dyn FnMut(LaunchEvent<'_>)) {
        let State::Open { process, control } = &mut self.state else { return };
        let how = match wait::poll(*process) {
            Ok(Some(Change::Exited(code))) => format!("exited with code {code}"),
            Ok(Some(Change::Killed(signal))) => format!("was ended by signal {signal}"),
            Ok(_) => return,
            Err(errno) => format!("is gone: {errno}"),
        };
        // The gateway has ended and writes nothing more.
        while control.hear(tell) == Heard::Part {}
        self.state = State::Shut;
        tell(LaunchEvent::NetworkEnded(&format!("the process that served it {how}")));
    }

    fn begin(&mut self, tell: &mut dyn FnMut(LaunchEvent<'_>)) {
        let State::Alone(sockets) = std::mem::take(&mut self.state) else { return };
        let Some(rules) = self.rules else { return };
        let approvals = match rules {
            Rules::Filtered(told) => told.answers.as_ref(),
            Rules::Closed(_) => None,
        };
        let answered = match approvals.map(Approvals::read).transpose() {
            Ok(answered) => answered.unwrap_or_default(),
            Err(error) => {
                tell(LaunchEvent::Unanswered(&error));
                NetworkRules::default()
            }
        };
        match start(rules, self.identity, sockets, answered, self.serve) {
            Ok((process, socket)) => {
                self.state =
                    State::Open { process, control: Control { socket, frames: Frames::new(LONGEST) } };
            }
            Err(error) => tell(LaunchEvent::NetworkEnded(&error.to_string())),
        }
    }

    /// Ends the gateway. No process is left inside that could make a request.
    pub(crate) fn end(&mut self, tell: &mut dyn FnMut(LaunchEvent<'_>)) {
        if let State::Open { process, mut control } = std::mem::take(&mut self.state) {
            control.last_words(tell);
            let _dead_already = wait::send(process, 9);
            let _reaped = wait::blocking(process);
            while control.hear(tell) == Heard::Part {}
        }
    }
}

/// On drop: ends and reaps the helper processes.
impl Drop for Gateway<'_> {
    fn drop(&mut self) {
        self.end(&mut |_nobody_listens| {});
    }
}

impl Sockets {
    fn all(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let publish = self.publish.iter().map(|(socket, _port)| socket.as_fd());
        let broker = self.broker.iter().map(AsFd::as_fd);
        self.inside.iter().map(|made| made.socket.as_fd()).chain(publish).chain(broker)
    }

    fn any_readable(&self) -> bool {
        let mut polled: Vec<PollFd<'_>> =
            self.all().map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)).collect();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

/// How much of the reports was read.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// All that have arrived.
    All,
    /// There are more.
    Part,
    /// All, and the gateway has closed the stream.
    End,
}

impl Control {
    /// Passes on the reports that have arrived, up to a limit: a gateway that reports without end must not keep the
    /// launcher from its other work.
    fn hear(&mut self, tell: &mut dyn FnMut(LaunchEvent<'_>)) -> Heard {
        let mut bytes = [0u8; CHUNK];
        for _chunk in 0..CHUNKS {
            match rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((_, length)) if length > 0 => {
                    self.frames.push(bytes.get(..length).unwrap_or_default());
                    self.pass_on(tell);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Heard::All,
                // The stream is closed.
                Ok(_) | Err(_) => return Heard::End,
            }
        }
        Heard::Part
    }

    /// Lets the gateway send its last reports and end.
    fn last_words(&mut self, tell: &mut dyn FnMut(LaunchEvent<'_>)) {
        let _ended_already = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
            let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
            let ready = poll(&mut polled, Some(&left));
            if ready == Err(Errno::INTR) {
                continue;
            }
            if ready != Ok(1) || self.hear(tell) == Heard::End {
                return;
            }
        }
    }

    fn pass_on(&mut self, tell: &mut dyn FnMut(LaunchEvent<'_>)) {
        while let Some(told) = self.frames.take() {
            match told {
                Ok(told) => tell(LaunchEvent::Network { told: &told, control: self.socket.as_fd() }),
                // No message is this long: the gateway is compromised, so its reports don't count any more.
                Err(ProtocolError::TooLong(_)) => {
                    let _silenced = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
                    self.frames = Frames::new(LONGEST);
                    return;
                }
                // This message is invalid. The next one may be valid.
                Err(_strange) => {}
            }
        }
    }
}

/// Sends an instruction to the gateway.
pub fn instruct(control: BorrowedFd<'_>, instruction: &Instruction) {
    let Ok(message) = frame(instruction) else { return };
    // A message can't be sent in part. There is enough room, because instructions are few.
    let _it_has_ended = rustix::net::send(control, &message, SendFlags::NOSIGNAL);
}

/// Forks the gateway.
fn start(
    rules: Rules<'_>,
    identity: Option<[u32; 2]>,
    sockets: Sockets,
    answered: NetworkRules,
    serve: ServeNetwork,
) -> Result<(i32, OwnedFd), Box<dyn std::error::Error>> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    for socket in sockets.all() {
        wait::no_signal_when_readable(socket)?;
    }
    let mut kept: Vec<i32> = sockets.all().map(|socket| socket.as_raw_fd()).collect();
    kept.push(theirs.as_raw_fd());
    kept.extend(sockets.lifeline.as_ref().map(AsRawFd::as_raw_fd));
    let mut served = Served {
        inside: sockets.inside,
        publish: sockets.publish,
        rules: NetworkRules::default(),
        answered,
        variables: Vec::new(),
        proxy: None,
        dns: Vec::new(),
        resolv_conf: text(Path::new("/etc/resolv.conf")),
        hosts: text(Path::new("/etc/hosts")),
        broker: sockets.broker,
        reach: Vec::new(),
        control: theirs,
        maker: sockets.lifeline.map(Maker),
    };
    let filter: Vec<FilterInstruction> = match rules {
        Rules::Filtered(told) => {
            served.rules = told.rules.get()?;
            served.proxy = told.proxy.as_ref().map(ToString::to_string);
            served.dns.clone_from(&told.dns);
            served.reach.clone_from(&told.reach);
            if told.asks_environment() {
                served.variables = variables();
            }
            told.filter.instructions()
        }
        Rules::Closed(_) => Filter::from(&filter()?).instructions(),
    };
    let apart = Apart { name: c"palisade-net", kept: &kept, nothing: None, identity, filter: &filter };
    let process = fork::apart(&apart, move || serve(served))?;
    wait::signal_when_readable(ours.as_fd())?;
    Ok((process, ours))
}

/// The caller's variables about proxies that aren't empty.
#[must_use]
pub fn variables() -> Vec<(&'static str, String)> {
    let value = |name: &'static str| {
        std::env::var(name).ok().filter(|value| !value.is_empty()).map(|value| (name, value))
    };
    crate::network::VARIABLES.iter().filter_map(|(name, _inside)| value(name)).collect()
}

/// The content of a file about names; empty if it can't be read.
#[must_use]
pub fn text(path: &Path) -> String {
    let bytes = palisade_host::file::read(path, LARGEST, palisade_host::file::Links::Follow);
    bytes.map_or_else(|_unreadable| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::network::Told;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// The other end writes as fast as this end reads.
    #[test]
    fn reports_without_end_let_the_launcher_look_after_something_else() {
        let (socket, mut server) = UnixStream::pair().unwrap();
        let mut control = Control { socket: socket.into(), frames: Frames::new(LONGEST) };
        let report = frame(&Told::Lost { count: 1 }).unwrap();
        let size = report.len();
        let report = report.repeat(1000);
        let flood = std::thread::spawn(move || while server.write_all(&report).is_ok() {});
        let mut told = 0usize;
        let mut turns = 0;
        while turns < 100 {
            let before = told;
            turns += usize::from(control.hear(&mut |_report| told += 1) == Heard::Part);
            assert!(told - before <= CHUNKS * CHUNK / size + 1, "{} reports in one turn", told - before);
        }
        // The last reports would be without end, too.
        let before = Instant::now();
        control.last_words(&mut |_report| told += 1);
        assert!(before.elapsed() < 100 * PATIENCE, "{:?}", before.elapsed());
        drop(control);
        flood.join().unwrap();
    }

    /// An invalid message is skipped. After a message that is too long, no message counts.
    #[test]
    fn a_server_that_was_talked_into_something_is_not_believed() {
        let (socket, mut server) = UnixStream::pair().unwrap();
        let mut control = Control { socket: socket.into(), frames: Frames::new(LONGEST) };
        let lost = frame(&Told::Lost { count: 7 }).unwrap();
        let strange = [&3u32.to_le_bytes()[..], b"abc"].concat();
        let endless = u32::MAX.to_le_bytes();
        for part in [&strange[..], &lost, &endless, &lost] {
            server.write_all(part).unwrap();
        }
        let mut told = Vec::new();
        let mut hear = |control: &mut Control| {
            control.hear(&mut |launch_event| match launch_event {
                LaunchEvent::Network { told: Told::Lost { count }, .. } => told.push(*count),
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(hear(&mut control), Heard::End, "it is silenced");
        assert_eq!(hear(&mut control), Heard::End);
        assert_eq!(told, [7]);
        assert!(server.write_all(&lost).is_err(), "and hears it");
    }
}
