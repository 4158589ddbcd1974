// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the broker tells the launcher, one datagram each.
//!
//! The broker is behind the sandbox's walls: it can't write the user's state, and has nothing to
//! write on. The launcher, which has both, doesn't trust what it hears further than to show it.

use crate::broker::name_policy::Refused;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// One message. Paths are the host's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Report {
    /// A call was refused that would have written a protected name.
    Refused {
        /// The calling thread, as the host numbers it.
        thread: u32,
        /// Its name.
        program: Vec<u8>,
        /// The call.
        call: String,
        /// What was judged.
        refused: Refused,
    },
    /// A call was refused for how the sandbox shows a name, whatever it is.
    Denied {
        /// The calling thread, as the host numbers it.
        thread: u32,
        /// Its name.
        program: Vec<u8>,
        /// The path.
        path: Vec<u8>,
        /// Why.
        denial: Denial,
    },
    /// The filter refused a call.
    Call {
        /// The calling thread, as the host numbers it.
        thread: u32,
        /// Its program.
        program: Program,
        /// The call's number.
        call: u32,
        /// The error that it failed with.
        errno: u16,
    },
    /// A connection to a socket of others was refused.
    Socket {
        /// The calling thread, as the host numbers it.
        thread: u32,
        /// Its name.
        program: Vec<u8>,
        /// The socket, as it is inside.
        path: Vec<u8>,
    },
    /// Something was used, for the first time in this way; only while a command is being learned.
    Used {
        /// How.
        how: Used,
        /// What came of it.
        came: Came,
        /// The path, as it is inside; of the network `ADDRESS:PORT`.
        path: Vec<u8>,
        /// Whose name it was: that of the calling thread.
        program: Vec<u8>,
    },
    /// A program made a call for the first time; only while its calls are being learned.
    Called {
        /// The program.
        program: Program,
        /// The call's number.
        call: u32,
    },
    /// A call that wasn't learned was refused.
    Unlearned {
        /// The calling thread, as the host numbers it.
        thread: u32,
        /// Its program.
        program: Program,
        /// The call's number.
        call: u32,
        /// Its process was ended for it.
        killed: bool,
    },
    /// Whether a call that wasn't learned may be made: an [`Answer`] is waited for.
    Asked {
        /// The question's number.
        number: u64,
        /// The calling thread, as the host numbers it.
        thread: u32,
        /// Its program.
        program: Program,
        /// The call's number.
        call: u32,
    },
    /// A repository was made inside.
    Repository {
        /// Its directory of git's own, or the file `.git` that leads to one.
        path: Vec<u8>,
    },
    /// Files are being written that are put in their places when they are closed: said once, before the first.
    Writing,
    /// A call couldn't be answered as the kernel would have: descriptors or threads ran out.
    Overload {
        /// The call.
        call: String,
        /// Why.
        errno: i32,
    },
    /// Messages that didn't fit: the launcher was busy.
    Lost {
        /// How many.
        count: u64,
    },
}

/// Why a call is refused that is about a name which no rule protects.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Denial {
    /// A directory keeps its name.
    Pinned {
        /// The path in it, as it is inside, of which the policy says something.
        about: Vec<u8>,
    },
    /// A directory doesn't pass the border of one in which protected names are written freely.
    Border {
        /// Where it was to go.
        to: Vec<u8>,
        /// Index of the rule for such a name.
        rule: u32,
    },
    /// The mode would give away the rights of the file's group.
    Mode,
    /// It is shown read-only, and its owner and mode let it be written to.
    ReadOnly {
        /// What would have to be granted for writing, if it is granted by its path on the host.
        grant: Option<Vec<u8>>,
        /// Landlock or another security module refused it, not the mount.
        landlock: bool,
    },
    /// Something covers what the host has there, or there is nothing.
    Covered,
}

/// The file that a thread executes; without a path it is unknown.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Program {
    /// Its path inside, as the kernel knows it.
    pub path: Vec<u8>,
    /// Its file system, as `st_dev` has it.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

/// What the launcher answers to [`Report::Asked`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The question's number.
    pub number: u64,
    /// It may be made.
    pub allow: bool,
    /// The same holds when this program makes this call again.
    pub keep: bool,
}

impl Answer {
    /// Sends it, by the socket that the question came from. Whoever asked may be gone.
    pub fn send(&self, socket: BorrowedFd<'_>) {
        if let Ok(bytes) = postcard::to_allocvec(self) {
            let _gone = send(socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }
}

/// How something was used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Used {
    /// Looked whether it is there, and what it is.
    Look,
    /// Opened for reading.
    Read,
    /// Executed.
    Execute,
    /// Opened for writing where it was, or its attributes changed.
    Change,
    /// Its name was made, moved or removed: the directory it lies in was changed.
    Name,
    /// Its name was made where there was none.
    Make,
    /// Connected to: a socket in the file tree.
    Socket,
    /// Connected or sent to: an address of the network.
    Network,
}

/// What came of a use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Came {
    /// It was there; what was done was done.
    Done,
    /// It wasn't there.
    Absent,
    /// It was refused.
    Refused,
}

/// Longer messages are cut: paths are shortened at the front.
const LIMIT: usize = 16 * 1024;

/// The broker's end.
pub(crate) struct Reporter {
    socket: OwnedFd,
    lost: AtomicU64,
}

impl Reporter {
    pub(crate) const fn new(socket: OwnedFd) -> Self {
        Self { socket, lost: AtomicU64::new(0) }
    }

    /// Sends, waiting until the launcher has made room: for what mustn't be lost and whose sender may wait.
    pub(crate) fn insist(&self, report: &Report) {
        let Ok(bytes) = postcard::to_allocvec(report) else { return };
        while send(&self.socket, &bytes, SendFlags::NOSIGNAL) == Err(Errno::INTR) {}
    }

    /// Waits for the answer to a question; none when the asking thread is interrupted. No launcher answers no.
    pub(crate) fn answer(&self, number: u64) -> Option<Answer> {
        let mut buffer = [0u8; 64];
        loop {
            match rustix::io::read(&self.socket, &mut buffer) {
                Err(Errno::INTR) => return None,
                Err(_) | Ok(0) => return Some(Answer { number, allow: false, keep: true }),
                Ok(length) => {
                    let answer: Option<Answer> =
                        buffer.get(..length).and_then(|bytes| postcard::from_bytes(bytes).ok());
                    // One to a question that nobody waits for any more is passed over.
                    if let Some(answer) = answer.filter(|answer| answer.number == number) {
                        return Some(answer);
                    }
                }
            }
        }
    }

    /// Says at the end how much was lost, if there is room for that.
    pub(crate) fn conclude(&self) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _no_room = self.send(&Report::Lost { count: lost });
        }
    }

    /// Sends without waiting: a launcher that doesn't listen must not stop the sandbox.
    pub(crate) fn tell(&self, report: &Report) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 && !self.send(&Report::Lost { count: lost }) {
            self.lost.fetch_add(lost, Ordering::Relaxed);
        }
        if !self.send(report) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn send(&self, report: &Report) -> bool {
        let Ok(bytes) = postcard::to_allocvec(report) else { return false };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        bytes.len() <= LIMIT && send(&self.socket, &bytes, flags).is_ok()
    }
}

/// So many are taken at once: whoever is told more than it can follow takes no more memory for it. What doesn't fit into
/// the socket meanwhile its sender counts as [`Report::Lost`].
pub const BATCH: usize = 256;

/// Takes what has been reported, without waiting, [`BATCH`] at most: if it is that many, there may be more. What isn't a
/// report is left out.
///
/// # Errors
/// What the socket gives, other than that there is nothing more.
pub fn receive(socket: BorrowedFd<'_>) -> Result<Vec<Report>, Errno> {
    let mut reports = Vec::new();
    let mut buffer = vec![0u8; LIMIT];
    loop {
        if reports.len() >= BATCH {
            return Ok(reports);
        }
        match recv(socket.as_fd(), &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((length, _whole)) if length > 0 => {
                if let Ok(report) = postcard::from_bytes(&buffer[..length.min(LIMIT)]) {
                    reports.push(report);
                }
            }
            // The other end is closed, or there is nothing more.
            Ok(_) | Err(Errno::AGAIN) => return Ok(reports),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (Reporter, OwnedFd) {
        let kind = SocketType::SEQPACKET;
        let (theirs, ours) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        (Reporter::new(theirs), ours)
    }

    fn repository(number: usize) -> Report {
        Report::Repository { path: format!("/{number}/.git").into_bytes() }
    }

    #[test]
    fn a_batch_has_a_limit_and_nothing_of_the_rest_is_lost() {
        let (reporter, ours) = pair();
        // More than one batch, and as much as a socket takes at once.
        (0..BATCH + 10).for_each(|number| reporter.tell(&repository(number)));
        assert_eq!(receive(ours.as_fd()).unwrap().len(), BATCH);
        let rest = receive(ours.as_fd()).unwrap();
        assert_eq!(rest, (BATCH..BATCH + 10).map(repository).collect::<Vec<_>>());
        assert_eq!(receive(ours.as_fd()), Ok(vec![]));
    }

    /// A reader that is behind makes nobody wait and nothing grow.
    #[test]
    fn what_does_not_fit_is_counted() {
        const TOLD: usize = 100_000;
        let (reporter, ours) = pair();
        (0..TOLD).for_each(|number| reporter.tell(&repository(number)));
        let mut heard = 0;
        let mut take = || loop {
            let batch = receive(ours.as_fd()).unwrap();
            heard += batch.iter().filter(|report| matches!(report, Report::Repository { .. })).count();
            let lost = batch.iter().find_map(|report| match report {
                Report::Lost { count } => Some(*count),
                _ => None,
            });
            if lost.is_some() || batch.is_empty() {
                return (lost, heard);
            }
        };
        let (lost, heard) = take();
        assert_eq!(lost, None);
        // The next that fits says it.
        reporter.tell(&repository(TOLD));
        let (lost, _heard) = take();
        assert_eq!(lost, Some(u64::try_from(TOLD - heard).unwrap()));
    }
}
