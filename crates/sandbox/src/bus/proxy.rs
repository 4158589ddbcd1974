// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The launcher's side of filtered buses: listening sockets without a server until a process connects.
//!
//! The kernel queues connections at a listening socket. The first connection makes the kernel send a signal, which the monitor
//! receives with its other signals. Only then a D-Bus proxy launcher (module `launcher`) is started. It starts `xdg-dbus-proxy`
//! and gives it that same socket, with connections queued. If the filter isn't ready in time, the queued connections are
//! closed, and the next connection tries again. No connection reaches the bus without the filter.

use crate::apply::start::LaunchEvent;
use crate::bus::metadata::InstanceMetadata;
use crate::error::StartError;
use crate::plan::{Bus, Plan};
use palisade_sys::wait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::{IoSlice, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What the D-Bus proxy launcher sends when the filter serves the socket.
pub(crate) const READY: &[u8] = b"ready";
/// The argument that makes this program a D-Bus proxy launcher.
pub const ATTEND: &str = "--palisade-attend-bus";
/// How long queued connections wait for the filter.
const PATIENCE: Duration = Duration::from_secs(3);
/// After this number of failures in a row the filter isn't started again.
const ATTEMPTS: u32 = 3;
/// A filter that served for this long counts as not failed.
const STEADY: Duration = Duration::from_secs(1);
/// How many connections are closed at once, and how often: 4096 may be queued at a socket (`net.core.somaxconn`), while
/// a process may have 1024 descriptors.
const BATCH: usize = 256;
const BATCHES: usize = 16;
/// How many bytes of a failing filter's messages are kept.
const WORDS: u64 = 4096;

/// The filtered buses of a launch.
#[derive(Debug, Default)]
pub(crate) struct Buses<'p> {
    plan: &'p [Bus<'p>],
    sockets: Vec<OwnedFd>,
    doors: Vec<Door>,
    number: String,
    instance: Option<InstanceMetadata>,
}

/// A bus's socket, and the process that serves it.
#[derive(Debug)]
struct Door {
    state: State,
    failures: u32,
}

#[derive(Debug)]
enum State {
    /// No filter runs. The kernel sends a signal when a process connects.
    Alone,
    /// A connection is queued, and the filter is being started.
    Opening { launcher: ProxyLauncher, until: Instant },
    /// The filter serves connections.
    Open { launcher: ProxyLauncher, since: Instant },
    /// The filter failed for the last time. Connections are refused.
    Shut,
}

#[derive(Debug)]
struct ProxyLauncher {
    child: Child,
    control: OwnedFd,
    words: File,
}

impl ProxyLauncher {
    /// Ends the D-Bus proxy launcher, and with it everything that it started.
    fn end(&mut self) {
        let _dead_already = self.child.kill();
        let _reaped = self.child.wait();
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The last line that it or the filter printed.
    fn last_words(&self) -> String {
        let mut bytes = [0u8; 4096];
        let length = self.words.read_at(&mut bytes, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default());
        let mut lines = text.split(['\n', '\0']).map(str::trim).filter(|line| !line.is_empty());
        lines.next_back().unwrap_or("it ended without a message").to_owned()
    }
}

impl<'p> Buses<'p> {
    /// Makes the sockets of a plan's buses. Makes nothing for a plan without buses.
    pub(crate) fn open(plan: &'p Plan<'_>) -> Result<Self, StartError> {
        if plan.buses.is_empty() {
            return Ok(Self::default());
        }
        let failed = |source| StartError::Launch { action: "make a socket for a message bus", source };
        let mut buses = Self::default();
        buses.plan = &plan.buses;
        buses.number = number();
        for _bus in buses.plan {
            let socket =
                rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                    .map_err(failed)?;
            wait::signal_when_readable(socket.as_fd()).map_err(failed)?;
            buses.sockets.push(socket);
            buses.doors.push(Door { state: State::Alone, failures: 0 });
        }
        Ok(buses)
    }

    /// The sockets, which the builder binds to their paths.
    pub(crate) fn sockets(&self) -> &[OwnedFd] {
        &self.sockets
    }

    /// The number by which portals distinguish this launch from others.
    pub(crate) fn number(&self) -> &str {
        &self.number
    }

    /// The time until the next task of which no signal tells.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let ends = self.doors.iter().filter_map(|door| match &door.state {
            State::Opening { until, .. } => Some(until.saturating_duration_since(Instant::now())),
            _ => None,
        });
        ends.min()
    }

    /// A child has ended: perhaps a D-Bus proxy launcher.
    pub(crate) fn reap(&mut self, command: i32, tell: &mut dyn FnMut(LaunchEvent<'_>)) {
        if self.doors.iter().any(|door| !matches!(door.state, State::Alone | State::Shut)) {
            self.look(command, tell);
        }
    }

    /// Checks for new connections, filters that became ready, and filters that ended.
    pub(crate) fn look(&mut self, command: i32, tell: &mut dyn FnMut(LaunchEvent<'_>)) {
        for nth in 0..self.doors.len() {
            // One check may make another one necessary.
            while self.look_at(nth, command, tell) {}
        }
    }

    fn look_at(&mut self, nth: usize, command: i32, tell: &mut dyn FnMut(LaunchEvent<'_>)) -> bool {
        let (Some(door), Some(socket)) = (self.doors.get_mut(nth), self.sockets.get(nth)) else {
            return false;
        };
        match &mut door.state {
            State::Alone => {
                if !is_readable(socket) {
                    return false;
                }
                self.begin(nth, command, tell)
            }
            State::Opening { launcher, until } => {
                let mut said = [0u8; READY.len()];
                let late = Instant::now() >= *until;
                let why = match rustix::net::recv(&launcher.control, &mut said[..], RecvFlags::DONTWAIT) {
                    Ok((_, length)) if said.get(..length) == Some(READY) => {
                        if let State::Opening { launcher, .. } =
                            std::mem::replace(&mut door.state, State::Shut)
                        {
                            door.state = State::Open { launcher, since: Instant::now() };
                        }
                        return true;
                    }
                    Err(Errno::AGAIN | Errno::INTR) if !launcher.has_ended() && !late => return false,
                    Err(Errno::AGAIN | Errno::INTR) if late => {
                        format!("it isn't ready after {} s", PATIENCE.as_secs())
                    }
                    // It has ended, and so has everything that it started.
                    _ => launcher.last_words(),
                };
                launcher.end();
                self.fail(nth, &why, true, tell)
            }
            State::Open { launcher, since } => {
                if !launcher.has_ended() {
                    return false;
                }
                if since.elapsed() > STEADY {
                    door.failures = 0;
                }
                let why = launcher.last_words();
                self.fail(nth, &why, false, tell)
            }
            State::Shut => false,
        }
    }

    /// Starts the D-Bus proxy launcher.
    fn begin(&mut self, nth: usize, command: i32, tell: &mut dyn FnMut(LaunchEvent<'_>)) -> bool {
        let (Some(bus), Some(socket)) = (self.plan.get(nth), self.sockets.get(nth)) else { return false };
        if let Some(id) = &bus.portals
            && self.instance.is_none()
        {
            self.instance = InstanceMetadata::make(&self.number, &id.to_string(), command);
        }
        let started = wait::no_signal_when_readable(socket.as_fd())
            .map_err(std::io::Error::from)
            .and_then(|()| start(bus, socket, &self.number));
        match started {
            Ok(launcher) => {
                if let Some(door) = self.doors.get_mut(nth) {
                    door.state = State::Opening { launcher, until: Instant::now() + PATIENCE };
                }
                true
            }
            Err(error) => self.fail(nth, &error.to_string(), true, tell),
        }
    }

    /// The filter has ended: reports why. If `away`, queued connections are closed; otherwise a new filter may serve them.
    fn fail(&mut self, nth: usize, why: &str, away: bool, tell: &mut dyn FnMut(LaunchEvent<'_>)) -> bool {
        let (Some(bus), Some(socket)) = (self.plan.get(nth), self.sockets.get(nth)) else { return false };
        let Some(door) = self.doors.get_mut(nth) else { return false };
        door.failures += 1;
        let last = door.failures >= ATTEMPTS;
        tell(LaunchEvent::Bus { which: bus.which, why, last });
        if last {
            // Connections are refused from now on, and aren't left waiting.
            door.state = State::Shut;
            let _nobody_listens = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        }
        if away || last {
            // Accepted now and closed together at the end: a client that connects again at once isn't among them.
            let next = || rustix::net::accept_with(socket, SocketFlags::CLOEXEC).ok();
            let batch = || std::iter::from_fn(next).take(BATCH).collect::<Vec<OwnedFd>>();
            let _sent_away = (0..BATCHES).take_while(|_nth| batch().len() == BATCH).count();
        }
        !last && self.wait_again(nth)
    }

    /// Arms the kernel's signal for the next connection.
    fn wait_again(&mut self, nth: usize) -> bool {
        let (Some(door), Some(socket)) = (self.doors.get_mut(nth), self.sockets.get(nth)) else {
            return false;
        };
        let armed = wait::signal_when_readable(socket.as_fd());
        door.state = if armed.is_ok() { State::Alone } else { State::Shut };
        // A connection may have arrived just before, so the caller checks again.
        armed.is_ok()
    }

    /// Ends the filters. No process is left inside that could connect.
    pub(crate) fn end(&mut self) {
        for door in &mut self.doors {
            if let State::Opening { launcher, .. } | State::Open { launcher, .. } = &mut door.state {
                launcher.end();
            }
            door.state = State::Shut;
        }
        self.sockets.clear();
        self.instance = None;
    }
}

/// On drop: ends and reaps the helper processes.
impl Drop for Buses<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

fn is_readable(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// A number that no other launch has. As with Flatpak's numbers, it is random and has 32 bits.
fn number() -> String {
    let hash = std::hash::RandomState::new().build_hasher().finish();
    (hash >> 32).to_string()
}

/// Starts a D-Bus proxy launcher for the connections that are queued at `socket`.
fn start(bus: &Bus<'_>, socket: &OwnedFd, number: &str) -> std::io::Result<ProxyLauncher> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let plan = rustix::fs::memfd_create("palisade-plan", MemfdFlags::CLOEXEC)?;
    File::from(plan.try_clone()?).write_all(bus.proxy.bytes())?;
    let (words, their_words) = words()?;

    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [socket.as_fd(), plan.as_fd()];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(Errno::NOBUFS.into());
    }
    rustix::net::sendmsg(&ours, &[IoSlice::new(number.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;

    let child = Command::new("/proc/self/exe")
        .arg(ATTEND)
        .env_clear()
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::from(their_words))
        // A process group of its own: keys at the terminal send signals to the command only.
        .process_group(0)
        .spawn()?;
    let launcher = ProxyLauncher { child, control: ours, words };
    wait::signal_when_readable(launcher.control.as_fd())?;
    Ok(launcher)
}

/// A file of bounded size. Text beyond that size can't be written, so a writer never waits for a reader.
fn words() -> std::io::Result<(File, OwnedFd)> {
    let file = rustix::fs::memfd_create("palisade-words", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, WORDS)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok((File::from(file.try_clone()?), file))
}
