// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Notification groups of `fanotify(7)`: the kernel asks a process before a file is opened or executed, or reports a
//! change of a file.
//!
//! There are two kinds of groups. The kernel asks a [`Gate`] and waits for its answer. It tells a
//! [`NotificationGroup`] afterwards that a file was changed.

use crate::raw;
use core::ffi::CStr;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

mod handle;

pub use handle::{Handle, open_handle};

/// The accesses about which the kernel asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Questions {
    /// Opening a file for any purpose (`FAN_OPEN_PERM`).
    pub open: bool,
    /// Opening a file to execute it (`FAN_OPEN_EXEC_PERM`); [`Questions::open`] is asked about it as well.
    pub execute: bool,
}

impl Questions {
    fn mask(self) -> u64 {
        let bit = |wanted: bool, bit: u64| if wanted { bit } else { 0 };
        bit(self.open, libc::FAN_OPEN_PERM) | bit(self.execute, libc::FAN_OPEN_EXEC_PERM)
    }

    /// No access.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.mask() == 0
    }
}

/// An open or exec that waits for an answer.
#[derive(Debug)]
pub struct Question {
    /// The file, open for reading. Reading from it causes no question.
    pub file: OwnedFd,
    /// The process that asks (its thread group), by its number in the PID namespace where the gate was made.
    pub pid: u32,
    /// Whether the file is to be executed.
    pub execute: bool,
}

/// What a buffer of the gate contained.
#[derive(Debug)]
pub enum Event {
    /// A process waits for an answer.
    Question(Question),
    /// The queue overflowed: the kernel has allowed opens and execs without a question.
    Overflow,
    /// The kernel couldn't make a descriptor for the file (for example because this process reached a limit).
    Unreadable,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whether the open or exec goes on; otherwise it fails with `EPERM`.
    pub allow: bool,
    /// Whether the audit system records it (the gate must have been made with `audit`), and by which rule.
    pub audit: Option<AuditRule>,
}

/// What the audit system gets together with an answer (Linux 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditRule {
    /// The rule's number.
    pub rule: u32,
    /// Whether the process's program is trusted: 0 no, 1 yes, 2 unknown.
    pub subject_trust: u32,
    /// Whether the file is trusted: 0 no, 1 yes, 2 unknown.
    pub object_trust: u32,
}

/// A group that the kernel asks (`FAN_CLASS_CONTENT`). When no process holds it any more, the kernel allows every
/// access.
#[derive(Debug)]
pub struct Gate {
    group: OwnedFd,
    audited: bool,
}

/// `struct fanotify_event_metadata`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Metadata {
    length: u32,
    version: u8,
    reserved: u8,
    metadata_length: u16,
    mask: u64,
    file: i32,
    pid: i32,
}

/// `struct fanotify_response`, with `struct fanotify_response_info_audit_rule` behind it.
#[repr(C)]
struct Response {
    file: i32,
    response: u32,
    info_type: u8,
    info_pad: u8,
    info_length: u16,
    rule: u32,
    subject_trust: u32,
    object_trust: u32,
}

/// How much of [`Response`] is `struct fanotify_response` alone.
const PLAIN: usize = 8;

/// How many bytes a reader's buffer should have: space for some dozens of events.
pub const BUFFER: usize = 4096;

fn init(flags: u32, file_flags: i32) -> Result<OwnedFd> {
    #[expect(clippy::cast_sign_loss, reason = "flags of open(2) are bits")]
    let arguments = [(flags | libc::FAN_CLOEXEC) as usize, file_flags as u32 as usize, 0, 0, 0, 0];
    // SAFETY: needed because rustix has no fanotify. Sound: the call takes numbers.
    let group = unsafe { raw::syscall(libc::SYS_fanotify_init, arguments) }?;
    // SAFETY: needed to own what the kernel returned. Sound: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor(group)) })
}

fn descriptor(value: usize) -> RawFd {
    RawFd::try_from(value).unwrap_or(-1)
}

/// Where a mark goes.
#[derive(Clone, Copy)]
enum Target<'a> {
    Path(&'a CStr),
    File(BorrowedFd<'a>),
}

fn mark(group: BorrowedFd<'_>, flags: u32, mask: u64, target: Target<'_>) -> Result<()> {
    let mask = usize::try_from(mask).map_err(|_| Errno::INVAL)?;
    let (directory, path) = match target {
        Target::Path(path) => (libc::AT_FDCWD, path.as_ptr()),
        Target::File(file) => (file.as_raw_fd(), core::ptr::null()),
    };
    let arguments =
        [raw::arg(group.as_raw_fd()), flags as usize, mask, raw::arg(directory), path as usize, 0];
    // SAFETY: needed because rustix has no fanotify. Sound: the path is null or a string that outlives the call.
    unsafe { raw::syscall(libc::SYS_fanotify_mark, arguments) }.map(drop)
}

/// The events of one buffer, as the kernel laid them out.
fn each_event(buffer: &[u8], mut handle: impl FnMut(&Metadata, &[u8])) {
    let mut rest = buffer;
    while rest.len() >= size_of::<Metadata>() {
        // SAFETY: needed to read a structure out of bytes. Sound: there are enough of them, any bits are a value
        // of it, and it may be unaligned.
        let metadata = unsafe { rest.as_ptr().cast::<Metadata>().read_unaligned() };
        let length = metadata.length as usize;
        if length < size_of::<Metadata>() || length > rest.len() {
            return;
        }
        handle(&metadata, &rest[size_of::<Metadata>()..length]);
        rest = &rest[length..];
    }
}

impl Gate {
    /// Makes a gate with a queue and marks without limits. With `audit`, answers can be recorded by the audit system.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_ADMIN` in the first user namespace; `EINVAL` if the kernel doesn't support `audit`.
    pub fn new(audit: bool) -> Result<Self> {
        let flags = libc::FAN_CLASS_CONTENT | libc::FAN_UNLIMITED_QUEUE | libc::FAN_UNLIMITED_MARKS;
        let audit_flag = if audit { libc::FAN_ENABLE_AUDIT } else { 0 };
        let file_flags = libc::O_RDONLY | libc::O_LARGEFILE | libc::O_CLOEXEC | libc::O_NOATIME;
        Ok(Self { group: init(flags | audit_flag, file_flags)?, audited: audit })
    }

    /// A gate that another process has made and handed over. Every holder of the group can read questions and answer
    /// them.
    #[must_use]
    pub fn handed_over(group: OwnedFd) -> Self {
        Self { group, audited: false }
    }

    /// Whether answers can be recorded by the audit system.
    #[must_use]
    pub fn is_audited(&self) -> bool {
        self.audited
    }

    /// Makes the kernel ask about every file of the file system that contains `path`, wherever it is mounted.
    ///
    /// # Errors
    /// `ENODEV`, `EOPNOTSUPP` or `EXDEV` where the file system can't be watched; those of resolving `path`.
    pub fn watch(&self, path: &CStr, questions: Questions) -> Result<()> {
        let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
        mark(self.group.as_fd(), flags, questions.mask(), Target::Path(path))
    }

    /// Makes the kernel stop asking about the file system that contains `path`.
    ///
    /// # Errors
    /// `ENOENT` if it wasn't watched; those of resolving `path`.
    pub fn unwatch(&self, path: &CStr, questions: Questions) -> Result<()> {
        let flags = libc::FAN_MARK_REMOVE | libc::FAN_MARK_FILESYSTEM;
        mark(self.group.as_fd(), flags, questions.mask(), Target::Path(path))
    }

    /// Makes the kernel allow access to this file without a question, until `write(2)` or a similar call changes its
    /// content, or its inode leaves memory. The kernel doesn't notice a store through a writable mapping or a change
    /// of mode. While the file is open for writing, this call does nothing and returns no error.
    ///
    /// # Errors
    /// `EINVAL` before Linux 6.0.
    pub fn pass(&self, file: BorrowedFd<'_>, questions: Questions) -> Result<()> {
        let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_IGNORE | libc::FAN_MARK_EVICTABLE;
        mark(self.group.as_fd(), flags, questions.mask(), Target::File(file))
    }

    /// Ends what [`Gate::pass`] began for one file.
    ///
    /// # Errors
    /// Those of the call. It is no error if [`Gate::pass`] wasn't in effect.
    pub fn ask_again(&self, file: &CStr) -> Result<()> {
        let flags = libc::FAN_MARK_REMOVE | libc::FAN_MARK_IGNORE;
        let mask = Questions { open: true, execute: true }.mask();
        match mark(self.group.as_fd(), flags, mask, Target::Path(file)) {
            Err(Errno::NOENT) => Ok(()),
            result => result,
        }
    }

    /// Ends what [`Gate::pass`] began for every file.
    ///
    /// # Errors
    /// Those of the call.
    pub fn ask_about_all(&self) -> Result<()> {
        mark(self.group.as_fd(), libc::FAN_MARK_FLUSH, 0, Target::Path(c"/"))
    }

    /// Whether there are unread events now, or within that time.
    #[must_use]
    pub fn has_questions(&self, within: Duration) -> bool {
        let mut polled = [PollFd::new(&self.group, PollFlags::IN)];
        let within = Timespec::try_from(within).ok();
        matches!(rustix::event::poll(&mut polled, within.as_ref()), Ok(1..))
    }

    /// Waits for events and hands each over. A buffer of [`BUFFER`] bytes is enough.
    ///
    /// # Errors
    /// `EINTR`; `EAGAIN` never (the gate blocks); `EINVAL` if the buffer is too small.
    pub fn read(&self, buffer: &mut [u8], mut handle: impl FnMut(Event)) -> Result<()> {
        let length = raw::read(self.group.as_raw_fd(), buffer)?;
        each_event(&buffer[..length], |metadata, _| {
            if metadata.mask & libc::FAN_Q_OVERFLOW != 0 {
                return handle(Event::Overflow);
            }
            if metadata.file < 0 {
                return handle(Event::Unreadable);
            }
            // SAFETY: needed to own what the kernel made for this process. Sound: the descriptor is new.
            let file = unsafe { OwnedFd::from_raw_fd(metadata.file) };
            handle(Event::Question(Question {
                file,
                pid: metadata.pid.unsigned_abs(),
                execute: metadata.mask & libc::FAN_OPEN_EXEC_PERM != 0,
            }));
        });
        Ok(())
    }

    /// Answers a question.
    ///
    /// # Errors
    /// `ENOENT` if the asking process is gone.
    pub fn answer(&self, question: &Question, reply: Reply) -> Result<()> {
        self.answer_for(question.file.as_fd(), reply)
    }

    /// [`Gate::answer`], by the file that the question came with.
    ///
    /// # Errors
    /// `ENOENT` if the asking process is gone.
    pub fn answer_for(&self, file: BorrowedFd<'_>, reply: Reply) -> Result<()> {
        self.answer_number(file.as_raw_fd(), reply)
    }

    /// [`Gate::answer`], by the file's descriptor number in the process that has read the question.
    ///
    /// # Errors
    /// `ENOENT` if no question came with that number, or the asking process is gone.
    pub fn answer_number(&self, file: RawFd, reply: Reply) -> Result<()> {
        let mut response = Response {
            file,
            response: if reply.allow { libc::FAN_ALLOW } else { libc::FAN_DENY },
            info_type: libc::FAN_RESPONSE_INFO_AUDIT_RULE,
            info_pad: 0,
            #[expect(clippy::cast_possible_truncation, reason = "16 bytes")]
            info_length: (size_of::<Response>() - PLAIN) as u16,
            rule: 0,
            subject_trust: 2,
            object_trust: 2,
        };
        let mut length = PLAIN;
        if let Some(audit) = reply.audit.filter(|_| self.audited) {
            response.response |= libc::FAN_AUDIT | libc::FAN_INFO;
            response.rule = audit.rule;
            response.subject_trust = audit.subject_trust;
            response.object_trust = audit.object_trust;
            length = size_of::<Response>();
        }
        match self.write(&response, length) {
            // Before Linux 6.3 the kernel rejects an answer with audit information, and the asking process would wait
            // for ever.
            Err(Errno::INVAL) if length > PLAIN => {
                response.response &= !libc::FAN_INFO;
                self.write(&response, PLAIN)
            }
            result => result,
        }
    }

    fn write(&self, response: &Response, length: usize) -> Result<()> {
        debug_assert!(length <= size_of::<Response>(), "nothing behind it is written");
        let pointer = (&raw const *response) as usize;
        let arguments = [raw::arg(self.group.as_raw_fd()), pointer, length, 0, 0, 0];
        // SAFETY: needed to write a structure. Sound: it outlives the call and is `length` bytes long at least.
        unsafe { raw::syscall(libc::SYS_write, arguments) }.map(drop)
    }
}

impl AsFd for Gate {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.group.as_fd()
    }
}

/// A group that learns afterwards which files were changed, by their handles.
#[derive(Debug)]
pub struct NotificationGroup(OwnedFd);

/// `struct fanotify_event_info_header`, `fsid` and the head of `struct file_handle`.
const FID_HEAD: usize = 4 + 8 + 8;

impl NotificationGroup {
    /// Makes one, with a queue and marks without limits.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_ADMIN` in the first user namespace.
    pub fn new() -> Result<Self> {
        let flags = libc::FAN_CLASS_NOTIF
            | libc::FAN_REPORT_FID
            | libc::FAN_NONBLOCK
            | libc::FAN_UNLIMITED_QUEUE
            | libc::FAN_UNLIMITED_MARKS;
        init(flags, libc::O_RDONLY | libc::O_CLOEXEC).map(Self)
    }

    /// Reports the end of writing to this file and changes of its mode, owner and attributes, for as long as its
    /// inode stays in memory.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, `ENODEV`, `EXDEV` where files have no handles.
    pub fn listen(&self, file: BorrowedFd<'_>) -> Result<()> {
        let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_EVICTABLE;
        mark(self.0.as_fd(), flags, libc::FAN_CLOSE_WRITE | libc::FAN_ATTRIB, Target::File(file))
    }

    /// [`NotificationGroup::listen`] for every file of the file system that contains `path`.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, `ENODEV`, `EXDEV` where files have no handles.
    pub fn listen_everywhere(&self, path: &CStr) -> Result<()> {
        let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
        mark(self.0.as_fd(), flags, libc::FAN_CLOSE_WRITE | libc::FAN_ATTRIB, Target::Path(path))
    }

    /// Passes the changed files' handles to `handle`; `None` where some events were lost, so that any file may have
    /// changed.
    ///
    /// # Errors
    /// `EAGAIN` when there is no event.
    pub fn read(&self, buffer: &mut [u8], mut handle: impl FnMut(Option<Handle>)) -> Result<()> {
        let length = raw::read(self.0.as_raw_fd(), buffer)?;
        each_event(&buffer[..length], |metadata, info| {
            if metadata.mask & libc::FAN_Q_OVERFLOW != 0 {
                return handle(None);
            }
            let known = info.len() > FID_HEAD && info[0] == libc::FAN_EVENT_INFO_TYPE_FID;
            handle(known.then(|| Handle::parse(&info[4..])).flatten());
        });
        Ok(())
    }
}

impl AsFd for NotificationGroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
