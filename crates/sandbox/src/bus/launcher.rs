// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The D-Bus proxy launcher: starts a bus's filter in a sandbox of its own and gives it the listening socket, with
//! connections queued.
//!
//! `xdg-dbus-proxy` makes its own socket and can't be given one. So its seccomp filter passes on `bind` and `listen`:
//! when it binds, the broker replaces its socket by the existing one, and the proxy continues without noticing this. No
//! bytes have to be relayed, and the first connection is served like every other one (ADR 0020).

use crate::apply::start::{self, Attended, Invocation};
use crate::bus::proxy::READY;
use crate::error::StartError;
use crate::plan::Plan;
use crate::registry::Number;
use palisade_sys::launch::{Broker, Station};
use palisade_sys::notify::Reply;
use palisade_syscall::{Arch, Syscall};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};
use rustix::process::Signal;
use std::fs::File;
use std::io::{IoSliceMut, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};

/// Why a bus can't be served.
#[derive(Debug, thiserror::Error)]
pub enum AttendError {
    /// A launcher didn't start this process.
    #[error("standard input isn't a launcher's socket: {source}")]
    NoLauncher {
        /// What the kernel said.
        source: Errno,
    },
    /// The plan can't be read.
    #[error("can't read the filter's plan: {reason}")]
    Plan {
        /// Why.
        reason: String,
    },
    /// The filter can't be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Serves a bus until the filter ends, or until the launcher at the other end of standard input ends.
///
/// # Errors
/// When it can't.
pub fn attend() -> Result<(), AttendError> {
    let lost = |source| AttendError::NoLauncher { source };
    // Set before the launcher is asked for anything: if the launcher ends in between, this process ends, too.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(lost)?;
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(lost)?;
    let (number, socket, plan) = receive(&control).map_err(lost)?;
    // Standard input is the control socket. The filter must not inherit it.
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()).map_err(lost)?;
    rustix::stdio::dup2_stdin(&nothing).map_err(lost)?;
    drop(nothing);
    // The working directory is mounted inside, too. This one always exists, and holds no files of a user.
    rustix::process::chdir("/proc/self/fd").map_err(lost)?;

    let unreadable = |reason: String| AttendError::Plan { reason };
    let mut bytes = Vec::new();
    let mut file = File::from(plan);
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .map_err(|error| unreadable(error.to_string()))?;
    drop(file);
    let plan = Plan::from_bytes(&bytes).map_err(|error| unreadable(error.to_string()))?;
    let invocation = Invocation {
        first_argument: None,
        command: &plan.command,
        environment: &plan.environment,
        timings: false,
        serve_network: crate::network::gateway::nobody,
        may_replace: false,
        parent: None,
        // Not listed: it is part of a launch that is listed.
        number: Number::now(),
        name: None,
        refusals: None,
    };
    start::attended(&plan, &invocation, Attended { number, socket, control })?;
    Ok(())
}

/// Receives from the launcher: the launch's number, the socket, the plan.
fn receive(control: &OwnedFd) -> Result<(String, OwnedFd, OwnedFd), Errno> {
    let mut number = [0u8; 32];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let message = rustix::net::recvmsg(control, &mut [IoSliceMut::new(&mut number)], &mut ancillary, flags)?;
    let mut descriptors = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let number = number.get(..message.bytes).filter(|text| text.iter().all(u8::is_ascii_digit));
    match (number, descriptors.next(), descriptors.next()) {
        (Some(number), Some(socket), Some(plan)) if !number.is_empty() => {
            Ok((String::from_utf8_lossy(number).into_owned(), socket, plan))
        }
        _ => Err(Errno::BADMSG),
    }
}

/// The broker that answers the filter's `bind` and `listen`. `reports` is the socket on which it tells the launcher
/// that the filter is ready.
pub(crate) fn broker(socket: OwnedFd, reports: OwnedFd) -> Result<Broker, StartError> {
    let failed = |source| StartError::Launch { action: "open /proc for a bus's filter", source };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = rustix::fs::open("/proc", flags, Mode::empty()).map_err(failed)?;
    let number = |name: &str| name.parse::<Syscall>().ok().and_then(|call| call.number(Arch::NATIVE));
    let (bind, listen) = (number("bind"), number("listen"));
    let serve = move |station: Station| hand_over(&station, bind, listen);
    Ok(Broker::new(Box::new(serve), proc, reports, Some(socket)))
}

/// Answers until the filter listens. Later calls of these two fail, because this broker has ended.
fn hand_over(station: &Station, bind: Option<u32>, listen: Option<u32>) {
    let Some(socket) = &station.extra else { return };
    loop {
        let call = match station.listener.receive() {
            Ok(call) => call,
            Err(Errno::INTR) => continue,
            Err(_it_has_ended) => return,
        };
        let called = u32::try_from(call.number).ok();
        if called == bind {
            let [descriptor, ..] = call.arguments;
            let answer = u32::try_from(descriptor)
                .map_err(|_too_large| Errno::BADF)
                .and_then(|descriptor| station.listener.replace(call.id, socket.as_fd(), descriptor, true))
                .map_or_else(Reply::Error, |()| Reply::Value(0));
            let _it_has_ended = station.listener.answer(call.id, answer);
        } else if called == listen {
            // The socket listens already, with a longer queue than the filter asks for.
            let answered = station.listener.answer(call.id, Reply::Value(0));
            if answered.is_ok() {
                let _launcher_has_ended = rustix::net::send(&station.reports, READY, SendFlags::NOSIGNAL);
            }
            return;
        } else {
            let _it_has_ended = station.listener.answer(call.id, Reply::Error(Errno::NOSYS));
        }
    }
}
