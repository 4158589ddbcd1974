// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends messages for the caller: `sendto` with an address, `sendmsg` and `sendmmsg`, where unix datagram sockets may
//! be made.
//!
//! A message to a unix datagram socket can name any path, and the path lies in memory that the caller can change at
//! any moment. So the broker copies the message once, judges a path in it like that of a connection, and sends the
//! copy on the caller's own socket. The kind of a socket doesn't tell whether this is necessary: by the time the
//! kernel looks, the descriptor number can mean another socket.
//!
//! A worker sends without waiting. Where the caller would wait, a separate thread sends.

use crate::broker::Worker;
use crate::broker::caller::{Caller, DecimalBuffer, memory_of};
use crate::broker::resolve::by_number;
use crate::broker::sockets::{LONGEST, file_of, is_abstract, unix_address};
use crate::broker::waiter::{Wait, What};
use crate::broker::{Call, Outcome, Shared};
use palisade_sys::notify::{self, Reply};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

/// Of a stream this much is copied at a time. Longer datagrams are refused; a datagram of this size fits into the
/// usual `net.core.wmem_max`. Waiting calls occupy the broker's memory.
const MOST_BYTES: usize = 1 << 19;
/// How many messages of one `sendmmsg` are sent. `sendmmsg` may always send fewer than asked.
const MOST_MESSAGES: usize = 64;
/// `UIO_MAXIOV`.
const MOST_PARTS: usize = 1024;
/// More than the kernel usually accepts (`net.core.optmem_max`).
const MOST_CONTROL: usize = 1 << 17;
/// `SCM_MAX_FD`.
const MOST_DESCRIPTORS: usize = 253;

const MSG_DONTWAIT: i32 = 0x40;
const MSG_NOSIGNAL: i32 = 0x4000;
const MSG_ZEROCOPY: i32 = 0x400_0000;
const MSG_FASTOPEN: i32 = 0x2000_0000;

/// `struct user_msghdr`; and `struct mmsghdr`, which adds the length of what was sent.
const HEADER: usize = 56;
const HEADER_AND_LENGTH: usize = 64;
/// `struct cmsghdr`.
const CONTROL_HEADER: usize = 16;
const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;

/// The caller's socket with its relevant properties.
struct Socket {
    file: OwnedFd,
    is_unix: bool,
    is_stream: bool,
    /// Its messages are delivered to the paths that they name.
    names_paths: bool,
    /// The call waits if necessary.
    waits: bool,
}

/// The receiver of a message.
enum To {
    /// The address that the caller gave. If it is empty: the socket's peer.
    Address(Vec<u8>),
    /// This socket, even if its path leads elsewhere meanwhile.
    File(OwnedFd),
    /// No receiver: the path leads to this error. The kernel may find another error first, which then counts.
    Nowhere(Errno),
}

/// A path that is never a descriptor's number.
const NO_NUMBER: &[u8] = b"nobody";

/// The data of a message, copied.
struct Text {
    data: Vec<u8>,
    /// This many bytes behind the data can't be read.
    unreadable: usize,
    /// Of a stream: the parts to copy when the data has been sent.
    rest: Vec<Part>,
}

/// An address in the caller's memory, and a length.
type Part = (u64, u64);

/// A message, copied.
struct Letter {
    to: To,
    text: Text,
    /// How many bytes of the data were sent.
    sent: usize,
    control: Vec<u8>,
    /// The descriptors behind the numbers in `control`.
    passed: Vec<OwnedFd>,
}

/// A call in progress.
struct Sending {
    socket: Socket,
    flags: i32,
    letters: Vec<Letter>,
    /// The address of the caller's `struct mmsghdr`s, where the sent lengths are written.
    vector: Option<u64>,
    /// How many bytes of each message were sent.
    sent: Vec<usize>,
    /// How many bytes of the present message were sent.
    done: usize,
    failed: Option<Errno>,
}

impl Worker<'_> {
    pub(crate) fn send_to(&self, caller: &Caller<'_>) -> Result<Outcome, Errno> {
        let flags = caller.int(3);
        let socket = self.sending_socket(caller, flags)?;
        let name = match caller.argument(4) {
            0 => Vec::new(),
            address => {
                let length = usize::try_from(caller.int(5)).map_err(|_negative| Errno::INVAL)?;
                if length > LONGEST {
                    return Err(Errno::INVAL);
                }
                caller.memory(address, length)?
            }
        };
        let part = (caller.argument(1), caller.argument(2));
        let letter = self.letter(caller, &socket, name, &[part], Vec::new())?;
        self.send(caller, Sending::new(socket, flags, vec![letter], None))
    }

    pub(crate) fn send_message(&self, caller: &Caller<'_>) -> Result<Outcome, Errno> {
        let flags = caller.int(2);
        let socket = self.sending_socket(caller, flags)?;
        let letter = self.letter_at(caller, &socket, caller.argument(1))?;
        self.send(caller, Sending::new(socket, flags, vec![letter], None))
    }

    pub(crate) fn send_messages(&self, caller: &Caller<'_>) -> Result<Outcome, Errno> {
        let flags = caller.int(3);
        let socket = self.sending_socket(caller, flags)?;
        let count = usize::try_from(caller.unsigned(2)).unwrap_or(usize::MAX).min(MOST_MESSAGES);
        let vector = caller.argument(1);
        let (mut letters, mut bytes, mut passed, mut failed) = (Vec::new(), 0, 0, None);
        for index in 0..count {
            let read = address_of(vector, index).and_then(|at| self.letter_at(caller, &socket, at));
            match read {
                Ok(letter) => {
                    bytes += letter.text.data.len() + letter.control.len();
                    passed += letter.passed.len();
                    letters.push(letter);
                }
                // The messages before it are still sent.
                Err(errno) => failed = Some(errno),
            }
            if failed.is_some() || bytes > MOST_BYTES || passed > MOST_DESCRIPTORS {
                break;
            }
        }
        let mut sending = Sending::new(socket, flags, letters, Some(vector));
        sending.failed = failed;
        self.send(caller, sending)
    }

    fn sending_socket(&self, caller: &Caller<'_>, flags: i32) -> Result<Socket, Errno> {
        let file = self.file_at(caller, caller.int(0))?;
        let is_unix = socket_domain(&file)? == AddressFamily::UNIX;
        let kind = socket_type(&file)?;
        let waits = flags & MSG_DONTWAIT == 0 && !rustix::fs::fcntl_getfl(&file)?.contains(OFlags::NONBLOCK);
        let names_paths = is_unix && kind == SocketType::DGRAM;
        Ok(Socket { file, is_unix, is_stream: kind == SocketType::STREAM, names_paths, waits })
    }

    /// Reads the message with the `struct user_msghdr` at `address`.
    fn letter_at(&self, caller: &Caller<'_>, socket: &Socket, address: u64) -> Result<Letter, Errno> {
        let header = caller.memory(address, HEADER)?;
        let word = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let length = header[8..].first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
        let length = usize::try_from(length).map_err(|_negative| Errno::INVAL)?;
        // The kernel cuts off a longer address.
        let name = match word(0) {
            0 => Vec::new(),
            name => caller.memory(name, length.min(LONGEST))?,
        };
        let parts = usize::try_from(word(24)).unwrap_or(usize::MAX);
        if parts > MOST_PARTS {
            return Err(Errno::MSGSIZE);
        }
        let parts = caller.memory(word(16), parts * 16)?;
        let parts: Vec<Part> = parts
            .chunks_exact(16)
            .map(|part| {
                let word = |at: usize| part[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
                (word(0), word(8))
            })
            .collect();
        let control = usize::try_from(word(40)).unwrap_or(usize::MAX);
        if control > MOST_CONTROL {
            return Err(Errno::NOBUFS);
        }
        let control = caller.memory(word(32), control)?;
        self.letter(caller, socket, name, &parts, control)
    }

    fn letter(
        &self,
        caller: &Caller<'_>,
        socket: &Socket,
        name: Vec<u8>,
        parts: &[Part],
        mut control: Vec<u8>,
    ) -> Result<Letter, Errno> {
        let text = Text::copy(caller.call.thread, parts, socket.is_stream)?;
        let passed = if socket.is_unix { self.take_passed(caller, &mut control)? } else { Vec::new() };
        let path = file_of(&name).filter(|_| socket.names_paths);
        let to = match path {
            Some(path) => self.socket_file(caller, path).map_or_else(To::Nowhere, To::File),
            None => To::Address(name),
        };
        Ok(Letter { to, text, sent: 0, control, passed })
    }

    /// Takes the caller's descriptors that a message passes. Their numbers are replaced by the broker's.
    fn take_passed(&self, caller: &Caller<'_>, control: &mut [u8]) -> Result<Vec<OwnedFd>, Errno> {
        let mut passed = Vec::new();
        let mut at = 0;
        while let Some(header) = control.get(at..at + CONTROL_HEADER) {
            let int = |at: usize| header[at..].first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
            let (level, kind) = (int(8), int(12));
            let length = header.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            // The kernel fails in the same way. It must never read numbers here that the caller wrote and the broker
            // didn't replace.
            let end = at.checked_add(length).filter(|end| length >= CONTROL_HEADER && *end <= control.len());
            let end = end.ok_or(Errno::INVAL)?;
            if (level, kind) == (SOL_SOCKET, SCM_RIGHTS) {
                if (length - CONTROL_HEADER) / 4 > MOST_DESCRIPTORS {
                    return Err(Errno::INVAL);
                }
                for number in control[at + CONTROL_HEADER..end].chunks_exact_mut(4) {
                    let theirs = number.first_chunk().map_or(-1, |bytes| i32::from_ne_bytes(*bytes));
                    let file = self.file_at(caller, theirs)?;
                    number.copy_from_slice(&file.as_raw_fd().to_ne_bytes());
                    passed.push(file);
                }
            }
            at = end.next_multiple_of(8);
        }
        Ok(passed)
    }

    fn send(&self, caller: &Caller<'_>, mut sending: Sending) -> Result<Outcome, Errno> {
        // If the call no longer waits, the thread was killed while its memory was read. The memory may be another
        // thread's with the same number.
        if !caller.waits() {
            return Err(Errno::SRCH);
        }
        if sending.flags & MSG_ZEROCOPY != 0 {
            // The kernel would pin the broker's pages. Programs send a copy after this error.
            return Err(Errno::NOBUFS);
        }
        // This flag also connects. The result depends on whether the call waits.
        let connects = sending.flags & MSG_FASTOPEN != 0 && sending.socket.waits;
        let call: Call = caller.call.into();
        if !connects && sending.go(self.shared, call, false) {
            let process = if sending.is_signalled() { caller.process()? } else { 0 };
            return sending.value(self.shared, (call, process)).map(Outcome::Value);
        }
        let process = caller.process()?;
        let shared = Arc::clone(self.shared);
        let wait = (call, What::Call);
        self.shared.waiters.start(Arc::clone(self.shared), wait, process, move |wait: &Wait| {
            let _sent_or_failed = sending.go(&shared, call, true);
            let answer = match sending.value(&shared, (call, process)) {
                Ok(value) => Reply::Value(value),
                Err(errno) => wait.answer(Reply::Error(errno)),
            };
            let _nobody_waits = shared.listener.answer(call.id, answer);
        })?;
        Ok(Outcome::Later)
    }
}

impl Sending {
    fn new(socket: Socket, flags: i32, letters: Vec<Letter>, vector: Option<u64>) -> Self {
        Self { socket, flags, letters, vector, sent: Vec::new(), done: 0, failed: None }
    }

    /// Sends the messages. Returns false if sending would wait and `wait` is false.
    fn go(&mut self, shared: &Shared, call: Call, wait: bool) -> bool {
        let flags = self.flags | MSG_NOSIGNAL | if wait { 0 } else { MSG_DONTWAIT };
        while let Some(letter) = self.letters.get_mut(self.sent.len()) {
            if letter.is_spent() {
                // Copying more can go on as long as the receiver reads, so it needs a separate thread.
                if !wait {
                    return false;
                }
                if !letter.copy_more(shared, call) {
                    self.sent.push(std::mem::take(&mut self.done));
                    continue;
                }
            }
            match letter.send(&self.socket.file, flags) {
                Ok(sent) => {
                    self.done += sent;
                    letter.sent += sent;
                    // Control data is sent with the first byte.
                    letter.control.clear();
                    let goes_on = self.socket.is_stream && self.socket.waits && sent > 0;
                    if goes_on && (letter.is_unsent() || letter.is_spent()) {
                        continue;
                    }
                    self.sent.push(std::mem::take(&mut self.done));
                }
                Err(Errno::AGAIN) if self.socket.waits && !wait => return false,
                Err(_) if self.done > 0 => {
                    self.sent.push(std::mem::take(&mut self.done));
                    return true;
                }
                Err(errno) => {
                    self.failed = Some(errno);
                    return true;
                }
            }
        }
        true
    }

    /// Whether the caller gets `SIGPIPE`.
    fn is_signalled(&self) -> bool {
        self.failed == Some(Errno::PIPE)
            && self.sent.is_empty()
            && self.socket.is_stream
            && self.flags & MSG_NOSIGNAL == 0
    }

    /// The result for the caller. Also sends the signal that the caller gets, if any.
    fn value(&self, shared: &Shared, (call, process): (Call, u32)) -> Result<i64, Errno> {
        if self.is_signalled() {
            notify::signal_caller(&shared.listener, call.id, (call.thread, process), Signal::PIPE)?;
        }
        match (self.vector, self.sent.first(), self.failed) {
            (None, Some(sent), _) => i64::try_from(*sent).map_err(|_too_long| Errno::INVAL),
            (_, None, Some(errno)) => Err(errno),
            (None, None, None) => Ok(0),
            (Some(vector), _, _) => self.tell_lengths(shared, call, vector),
        }
    }

    /// Writes the sent length of each message. Returns for how many messages.
    fn tell_lengths(&self, shared: &Shared, call: Call, vector: u64) -> Result<i64, Errno> {
        let mut told = 0;
        for (index, sent) in self.sent.iter().enumerate() {
            if !shared.listener.is_waiting(call.id) {
                return Err(Errno::SRCH);
            }
            let length = u32::try_from(*sent).map_err(|_too_long| Errno::INVAL)?.to_ne_bytes();
            let at = address_of(vector, index)?.checked_add(HEADER as u64).ok_or(Errno::FAULT)?;
            match notify::write_memory(call.thread, at, &length) {
                Ok(4) => told += 1,
                _ if told == 0 => return Err(Errno::FAULT),
                _ => break,
            }
        }
        Ok(told)
    }
}

impl Text {
    /// Copies the memory that `parts` describe. Of a stream, not more than is sent at once.
    fn copy(thread: u32, parts: &[Part], is_stream: bool) -> Result<Self, Errno> {
        if parts.iter().any(|(_address, length)| i64::try_from(*length).is_err()) {
            return Err(Errno::INVAL);
        }
        let mut text = Self { data: Vec::new(), unreadable: 0, rest: Vec::new() };
        for (index, (address, length)) in parts.iter().enumerate() {
            let room = MOST_BYTES - text.data.len();
            let length = usize::try_from(*length).unwrap_or(usize::MAX);
            if length > room && !is_stream {
                return Err(Errno::MSGSIZE);
            }
            match memory_of(thread, *address, length.min(room)) {
                Ok(read) if text.unreadable == 0 => text.data.extend_from_slice(&read),
                Err(Errno::FAULT) => text.unreadable = length,
                Err(errno) => return Err(errno),
                Ok(_behind_what_cant_be_read) => {}
            }
            if length > room && text.unreadable == 0 {
                text.rest.push((address.saturating_add(room as u64), (length - room) as u64));
                text.rest.extend_from_slice(&parts[index + 1..]);
                break;
            }
        }
        Ok(text)
    }
}

impl Letter {
    fn is_unsent(&self) -> bool {
        self.sent < self.text.data.len()
    }

    /// Whether all copied data was sent and more is left to copy.
    fn is_spent(&self) -> bool {
        !self.is_unsent() && !self.text.rest.is_empty()
    }

    /// Copies the next piece of the data.
    fn copy_more(&mut self, shared: &Shared, call: Call) -> bool {
        let copied = Text::copy(call.thread, &self.text.rest, true);
        // If the call no longer waits, the thread was killed. The memory may be another thread's with the same
        // number.
        if let (Ok(text), true) = (copied, shared.listener.is_waiting(call.id)) {
            (self.text, self.sent) = (text, 0);
            return true;
        }
        false
    }

    /// Sends the unsent data.
    fn send(&self, socket: &OwnedFd, flags: i32) -> Result<usize, Errno> {
        let data = (&self.text.data[self.sent..], self.text.unreadable);
        let send = |name: &[u8]| notify::send(socket.as_fd(), name, data, &self.control, flags);
        match &self.to {
            To::Address(address) => match send(address) {
                // As for a connection: the command must see that no receiver exists.
                Err(Errno::PERM) if is_abstract(address) => Err(Errno::CONNREFUSED),
                other => other,
            },
            To::File(file) => {
                // The path is relative to the thread's working directory, the list of descriptors.
                let mut digits = DecimalBuffer::default();
                send(&unix_address(by_number(file.as_fd(), &mut digits)))
            }
            To::Nowhere(errno) => match send(&unix_address(NO_NUMBER)) {
                Ok(_) | Err(Errno::NOENT) => Err(*errno),
                Err(sooner) => Err(sooner),
            },
        }
    }
}

/// The address of the `struct mmsghdr` at `index`.
fn address_of(vector: u64, index: usize) -> Result<u64, Errno> {
    vector.checked_add((index * HEADER_AND_LENGTH) as u64).ok_or(Errno::FAULT)
}
