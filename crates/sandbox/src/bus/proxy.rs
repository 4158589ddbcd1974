// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The launcher's side of filtered buses: sockets at which nobody answers until somebody connects.
//!
//! The kernel keeps connections waiting at a socket that listens. The first makes it send a signal, which the monitor
//! takes among the others, and only then is anything started: a *launcher* (`launcher`), a launcher for
//! `xdg-dbus-proxy`, which is given that very socket with everybody who waits at it. If the filter isn't ready in time
//! those who wait are sent away, and the next connection tries again. Nobody ever gets past it.

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

/// What the launcher says when those who wait are being served.
pub(crate) const READY: &[u8] = b"ready";
/// How this program is called to be one.
pub const ATTEND: &str = "--palisade-attend-bus";
/// How long those who connect wait for the filter.
const PATIENCE: Duration = Duration::from_secs(3);
/// A filter that has failed so often in a row isn't tried again.
const ATTEMPTS: u32 = 3;
/// One that served as long has not failed.
const STEADY: Duration = Duration::from_secs(1);
/// As many are sent away at once, and so often: 4096 may wait at a socket (`net.core.somaxconn`), while a process may
/// have 1024 descriptors.
const BATCH: usize = 256;
const BATCHES: usize = 16;
/// As much of what a failing filter says is kept.
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

/// What is at a bus's socket.
#[derive(Debug)]
struct Door {
    state: State,
    failures: u32,
}

#[derive(Debug)]
enum State {
    /// Nobody: the kernel tells when somebody connects.
    Alone,
    /// Somebody waits, the launcher is at work.
    Opening { launcher: ProxyLauncher, until: Instant },
    /// Whoever connects is served.
    Open { launcher: ProxyLauncher, since: Instant },
    /// Nobody ever will be.
    Shut,
}

#[derive(Debug)]
struct ProxyLauncher {
    child: Child,
    control: OwnedFd,
    words: File,
}

impl ProxyLauncher {
    /// Ends it, and with it everything it has started.
    fn end(&mut self) {
        let _dead_already = self.child.kill();
        let _reaped = self.child.wait();
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The last thing that it or the filter said.
    fn last_words(&self) -> String {
        let mut bytes = [0u8; 4096];
        let length = self.words.read_at(&mut bytes, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default());
        let mut lines = text.split(['\n', '\0']).map(str::trim).filter(|line| !line.is_empty());
        lines.next_back().unwrap_or("it ended without a word").to_owned()
    }
}

impl<'p> Buses<'p> {
    /// Makes the sockets of a plan's buses; of one without, nothing at all.
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

    /// The sockets, which the builder gives their names.
    pub(crate) fn sockets(&self) -> &[OwnedFd] {
        &self.sockets
    }

    /// The number by which portals tell this launch from others.
    pub(crate) fn number(&self) -> &str {
        &self.number
    }

    /// How long nothing has to be done that no signal tells of.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let ends = self.doors.iter().filter_map(|door| match &door.state {
            State::Opening { until, .. } => Some(until.saturating_duration_since(Instant::now())),
            _ => None,
        });
        ends.min()
    }

    /// A process has ended: perhaps a launcher.
    pub(crate) fn reap(&mut self, command: i32, tell: &mut dyn FnMut(LaunchEvent<'_>)) {
        if self.doors.iter().any(|door| !matches!(door.state, State::Alone | State::Shut)) {
            self.look(command, tell);
        }
    }

    /// Looks who has connected, who is ready, and who has ended.
    pub(crate) fn look(&mut self, command: i32, tell: &mut dyn FnMut(LaunchEvent<'_>)) {
        for nth in 0..self.doors.len() {
            // What one look comes to may call for the next.
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
                    // It has ended, and so has what it started.
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

    /// Starts the launcher.
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

    /// The filter has ended. Says why; who waits for it is sent away, unless it may be another's turn.
    fn fail(&mut self, nth: usize, why: &str, away: bool, tell: &mut dyn FnMut(LaunchEvent<'_>)) -> bool {
        let (Some(bus), Some(socket)) = (self.plan.get(nth), self.sockets.get(nth)) else { return false };
        let Some(door) = self.doors.get_mut(nth) else { return false };
        door.failures += 1;
        let last = door.failures >= ATTEMPTS;
        tell(LaunchEvent::Bus { which: bus.which, why, last });
        if last {
            // Refused from now on, rather than left waiting.
            door.state = State::Shut;
            let _nobody_listens = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        }
        if away || last {
            // Those who wait now, and only then told: who connects again at once isn't among them.
            let next = || rustix::net::accept_with(socket, SocketFlags::CLOEXEC).ok();
            let batch = || std::iter::from_fn(next).take(BATCH).collect::<Vec<OwnedFd>>();
            let _sent_away = (0..BATCHES).take_while(|_nth| batch().len() == BATCH).count();
        }
        !last && self.wait_again(nth)
    }

    /// Has the kernel tell of the next connection.
    fn wait_again(&mut self, nth: usize) -> bool {
        let (Some(door), Some(socket)) = (self.doors.get_mut(nth), self.sockets.get(nth)) else {
            return false;
        };
        let armed = wait::signal_when_readable(socket.as_fd());
        door.state = if armed.is_ok() { State::Alone } else { State::Shut };
        // Somebody may have come just before.
        armed.is_ok()
    }

    /// Ends what has been started. Nobody is left inside who could connect.
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

/// Whoever leaves early leaves nobody behind.
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

/// A number that no other launch has: Flatpak's are random and of 32 bits, too.
fn number() -> String {
    let hash = std::hash::RandomState::new().build_hasher().finish();
    (hash >> 32).to_string()
}

/// Starts a launcher for those who wait at `socket`.
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
        // What is typed at a terminal is meant for the command.
        .process_group(0)
        .spawn()?;
    let launcher = ProxyLauncher { child, control: ours, words };
    wait::signal_when_readable(launcher.control.as_fd())?;
    Ok(launcher)
}

/// A file of bounded size: what doesn't fit can't be written, and nobody waits for a reader.
fn words() -> std::io::Result<(File, OwnedFd)> {
    let file = rustix::fs::memfd_create("palisade-words", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, WORDS)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok((File::from(file.try_clone()?), file))
}
