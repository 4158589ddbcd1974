// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages from the broker to the launcher, one datagram each.
//!
//! The broker runs inside the sandbox's walls: it can't write to the user's state directory and has no terminal to
//! print to. The launcher has both. The launcher only shows what the broker reports, and doesn't trust it further.

use crate::broker::name_policy::Refused;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// One message. Paths are the host's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Report {
    /// A call was refused because it would have written a protected name.
    Refused {
        /// The calling thread, as the host numbers it.
        thread: u32,
        /// The thread's name.
        program: Vec<u8>,
        /// The call.
        call: String,
        /// The judgement.
        refused: Refused,
    },
    /// A call was refused because of the way the sandbox shows a name; no rule protects the name.
    Denied {
        /// The calling thread, as the host numbers it.
        thread: u32,
        /// The thread's name.
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
        /// The program that the thread executes.
        program: Program,
        /// The call's number.
        call: u32,
        /// The error with which the call failed.
        errno: u16,
    },
    /// A connection to a socket from outside the sandbox was refused.
    Socket {
        /// The calling thread, as the host numbers it.
        thread: u32,
        /// The thread's name.
        program: Vec<u8>,
        /// The socket's path, as seen inside.
        path: Vec<u8>,
    },
    /// A file or address was used in this way for the first time. Sent only while a command is being learned.
    Used {
        /// How.
        how: Used,
        /// The result.
        came: Came,
        /// The path, as seen inside. For the network: `ADDRESS:PORT`.
        path: Vec<u8>,
        /// The name of the calling thread.
        program: Vec<u8>,
    },
    /// A program made a call for the first time. Sent only while its calls are being learned.
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
        /// The program that the thread executes.
        program: Program,
        /// The call's number.
        call: u32,
        /// The process was ended because of the call.
        killed: bool,
    },
    /// Asks whether a call that wasn't learned may be made. The broker waits for an [`Answer`].
    Asked {
        /// The question's number.
        number: u64,
        /// The calling thread, as the host numbers it.
        thread: u32,
        /// The program that the thread executes.
        program: Program,
        /// The call's number.
        call: u32,
    },
    /// A repository was made inside.
    Repository {
        /// Its git directory, or the file `.git` that leads to one.
        path: Vec<u8>,
    },
    /// Files are being written that are put in place when they are closed. Sent once, before the first such file.
    Writing,
    /// The broker couldn't answer a call as the kernel would have: it ran out of descriptors or threads.
    Overload {
        /// The call.
        call: String,
        /// Why.
        errno: i32,
    },
    /// Messages were lost, because the launcher was busy and the socket was full.
    Lost {
        /// How many.
        count: u64,
    },
}

/// Why a call on an unprotected name is refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Denial {
    /// A directory must keep its name.
    Pinned {
        /// The path in it, as seen inside, about which the policy states a rule.
        about: Vec<u8>,
    },
    /// A directory can't cross the border of a directory in which protected names are written freely.
    Border {
        /// The target of the move.
        to: Vec<u8>,
        /// Index of a rule that applies on one side of the border only.
        rule: u32,
    },
    /// The mode would give away the rights of the file's group.
    Mode,
    /// The file is shown read-only, although its owner and mode allow writing.
    ReadOnly {
        /// The path to grant for writing, if the file has the same path inside as on the host.
        grant: Option<Vec<u8>>,
        /// Landlock or another security module refused the call, not the mount.
        landlock: bool,
    },
    /// A placeholder covers the host's file, or no file is shown there.
    Covered,
    /// The file would lie in a directory above the working directory that exists only inside.
    Above {
        /// The directory.
        directory: Vec<u8>,
    },
}

/// The file that a thread executes. Without a path it is unknown.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Program {
    /// Its path inside, as the kernel reports it.
    pub path: Vec<u8>,
    /// Its file system, as in `st_dev`.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

/// The launcher's answer to [`Report::Asked`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The question's number.
    pub number: u64,
    /// The call may be made.
    pub allow: bool,
    /// The answer also holds when this program makes this call again.
    pub keep: bool,
}

impl Answer {
    /// Sends the answer on the socket from which the question came. The broker may have ended meanwhile.
    pub fn send(&self, socket: BorrowedFd<'_>) {
        if let Ok(bytes) = postcard::to_allocvec(self) {
            let _gone = send(socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }
}

/// How a file or address was used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Used {
    /// Its existence or attributes were looked up.
    Look,
    /// It was opened for reading.
    Read,
    /// It was executed.
    Execute,
    /// It was opened for writing, or its attributes were changed. Its name stayed.
    Change,
    /// Its name was made, moved or removed. That changed its directory.
    Name,
    /// Its name was made where no file was.
    Make,
    /// A connection to a socket in the file tree.
    Socket,
    /// A connection or message to a network address.
    Network,
}

/// The result of a use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Came {
    /// The file existed, and the call succeeded.
    Done,
    /// The file didn't exist.
    Absent,
    /// The call was refused.
    Refused,
}

/// The size limit of a message. Longer messages are cut: paths lose their beginning.
const LIMIT: usize = 16 * 1024;

/// The broker's end of the socket.
pub(crate) struct Reporter {
    socket: OwnedFd,
    lost: AtomicU64,
}

impl Reporter {
    pub(crate) const fn new(socket: OwnedFd) -> Self {
        Self { socket, lost: AtomicU64::new(0) }
    }

    /// Sends a message and waits until the launcher has made room. For messages that mustn't be lost, sent by threads
    /// that may wait.
    pub(crate) fn insist(&self, report: &Report) {
        let Ok(bytes) = postcard::to_allocvec(report) else { return };
        while send(&self.socket, &bytes, SendFlags::NOSIGNAL) == Err(Errno::INTR) {}
    }

    /// Waits for the answer to a question. `None` if the asking thread is interrupted. If the launcher is gone, the
    /// answer is no.
    pub(crate) fn answer(&self, number: u64) -> Option<Answer> {
        let mut buffer = [0u8; 64];
        loop {
            match rustix::io::read(&self.socket, &mut buffer) {
                Err(Errno::INTR) => return None,
                Err(_) | Ok(0) => return Some(Answer { number, allow: false, keep: true }),
                Ok(length) => {
                    let answer: Option<Answer> =
                        buffer.get(..length).and_then(|bytes| postcard::from_bytes(bytes).ok());
                    // Skip an answer to a question that no thread waits for any more.
                    if let Some(answer) = answer.filter(|answer| answer.number == number) {
                        return Some(answer);
                    }
                }
            }
        }
    }

    /// At the end: reports how many messages were lost, if there is room for that.
    pub(crate) fn conclude(&self) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _no_room = self.send(&Report::Lost { count: lost });
        }
    }

    /// Sends a message without waiting: a launcher that doesn't read must not stop the sandbox.
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

/// The number of messages that are taken at once. It limits the reader's memory when messages come faster than the
/// reader handles them. Messages that don't fit into the socket are counted by the sender as [`Report::Lost`].
pub const BATCH: usize = 256;

/// Takes the waiting messages, [`BATCH`] at most, and doesn't wait. If [`BATCH`] are returned, there may be more.
/// Invalid messages are skipped.
///
/// # Errors
/// The socket's errors, except `EAGAIN` (no message).
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
            // The other end is closed, or no message is left.
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
        // More than one batch, and as many as a socket takes at once.
        (0..BATCH + 10).for_each(|number| reporter.tell(&repository(number)));
        assert_eq!(receive(ours.as_fd()).unwrap().len(), BATCH);
        let rest = receive(ours.as_fd()).unwrap();
        assert_eq!(rest, (BATCH..BATCH + 10).map(repository).collect::<Vec<_>>());
        assert_eq!(receive(ours.as_fd()), Ok(vec![]));
    }

    /// A slow reader makes no sender wait, and its memory doesn't grow.
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
        // The next message that fits is preceded by the count.
        reporter.tell(&repository(TOLD));
        let (lost, _heard) = take();
        assert_eq!(lost, Some(u64::try_from(TOLD - heard).unwrap()));
    }
}
