// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The listener of a seccomp filter: calls that wait for an answer (`seccomp_unotify(2)`).

use crate::raw;
use core::ffi::c_int;
use rustix::io::{Errno, Result, retry_on_intr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The listener of a filter. Its holder answers the calls that the filter passes on. When no process holds it any
/// more, the kernel answers them with `ENOSYS`.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// A call that waits, as `struct seccomp_notif`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notification {
    /// Names this call in answers.
    pub id: u64,
    /// The calling thread, by its number in the PID namespace of the reader.
    pub thread: u32,
    flags: u32,
    /// The call's number.
    pub number: i32,
    /// `AUDIT_ARCH_*`.
    pub audit_arch: u32,
    /// Where the call was made.
    pub instruction: u64,
    /// The argument registers, unchanged.
    pub arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// `struct seccomp_notif_addfd`.
#[repr(C)]
struct AddDescriptor {
    id: u64,
    flags: u32,
    source: u32,
    target: u32,
    target_flags: u32,
}

/// What a waiting call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// This value.
    Value(i64),
    /// This error.
    Error(Errno),
    /// The kernel makes the call after all. It reads the caller's memory *then*, which may have changed: only for
    /// calls without pointers.
    Continue,
}

/// `_IOC(direction, '!', number, size)` of `linux/seccomp.h`.
const fn request(direction: u64, number: u64, size: usize) -> u64 {
    direction << 30 | (size as u64) << 16 | 0x21 << 8 | number
}
const READ_WRITE: u64 = 3;
const WRITE: u64 = 1;
const RECEIVE: u64 = request(READ_WRITE, 0, size_of::<Notification>());
const SEND: u64 = request(READ_WRITE, 1, size_of::<Response>());
const IS_VALID: u64 = request(WRITE, 2, size_of::<u64>());
const ADD: u64 = request(WRITE, 3, size_of::<AddDescriptor>());
const SET_FLAGS: u64 = request(WRITE, 4, size_of::<u64>());

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`, Linux 6.6.
const SYNCHRONOUS: usize = 1;
const CONTINUE: u32 = 1;
/// `SECCOMP_ADDFD_FLAG_SETFD`.
const AT_NUMBER: u32 = 1;
/// `PIDFD_THREAD`.
const OF_THREAD: rustix::process::PidfdFlags =
    rustix::process::PidfdFlags::from_bits_retain(libc::O_EXCL.unsigned_abs());

/// Issues an ioctl on the listener.
///
/// # Safety
/// `argument` is what the kernel expects of `request`: a number, or a pointer to the structure of
/// that request, valid for reading and writing.
unsafe fn ioctl(fd: BorrowedFd<'_>, request: u64, argument: usize) -> Result<usize> {
    #[expect(clippy::cast_possible_truncation, reason = "requests have 32 bits")]
    let request = request as usize;
    // SAFETY: needed because rustix has no ioctls of seccomp. Sound by the caller's promise.
    unsafe { raw::syscall(libc::SYS_ioctl, [raw::arg(fd.as_raw_fd()), request, argument, 0, 0, 0]) }
}

impl From<OwnedFd> for Listener {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Listener {
    /// Makes the kernel wake callers and the listener on the processor where the other side runs. A brokered call
    /// then costs 2.4 µs instead of 3 to 57.
    ///
    /// # Errors
    /// `EINVAL` before Linux 6.6: everything works without, only slower.
    pub fn wake_synchronously(&self) -> Result<()> {
        // SAFETY: needed, see `ioctl`. Sound: this request takes a number.
        unsafe { ioctl(self.as_fd(), SET_FLAGS, SYNCHRONOUS) }.map(drop)
    }

    /// Waits for a call.
    ///
    /// # Errors
    /// `ENOENT` when the caller died meanwhile, or when no process is left that could call (Linux 6.11; before that
    /// it blocks); `EINTR`.
    pub fn receive(&self) -> Result<Notification> {
        // The kernel insists on zeroes.
        let mut notification = Notification::default();
        // SAFETY: needed, see `ioctl`. Sound: the structure is the request's and outlives the call.
        unsafe { ioctl(self.as_fd(), RECEIVE, &raw mut notification as usize) }?;
        Ok(notification)
    }

    /// Whether the call still waits. If not, the data that was read from the caller's memory may be from another
    /// process with the same number.
    #[must_use]
    pub fn is_waiting(&self, id: u64) -> bool {
        // SAFETY: needed, see `ioctl`. Sound: the kernel reads eight bytes of a live `u64`.
        retry_on_intr(|| unsafe { ioctl(self.as_fd(), IS_VALID, &raw const id as usize) }).is_ok()
    }

    /// Answers a call.
    ///
    /// # Errors
    /// `ENOENT` when the call doesn't wait any more: its caller was killed.
    pub fn answer(&self, id: u64, answer: Reply) -> Result<()> {
        let mut response = Response { id, value: 0, error: 0, flags: 0 };
        match answer {
            Reply::Value(value) => response.value = value,
            Reply::Error(errno) => response.error = -errno.raw_os_error(),
            Reply::Continue => response.flags = CONTINUE,
        }
        // SAFETY: needed, see `ioctl`. Sound: the structure is the request's and outlives the call.
        retry_on_intr(|| unsafe { ioctl(self.as_fd(), SEND, &raw mut response as usize) }).map(drop)
    }

    /// Gives the caller a descriptor for `file`; returns its number there.
    ///
    /// The call still waits for its [`answer`](Self::answer), which wakes it synchronously.
    ///
    /// # Errors
    /// `ENOENT` as for an answer; `EMFILE` when the caller has too many.
    pub fn give(&self, id: u64, file: BorrowedFd<'_>, close_on_exec: bool) -> Result<c_int> {
        self.add(AddDescriptor {
            id,
            flags: 0,
            source: file.as_raw_fd().unsigned_abs(),
            target: 0,
            target_flags: if close_on_exec { libc::O_CLOEXEC.unsigned_abs() } else { 0 },
        })
    }

    /// Replaces the caller's descriptor `number` by `file`.
    ///
    /// # Errors
    /// `ENOENT` as for an answer; `EBADF` when no descriptor can have that number.
    pub fn replace(&self, id: u64, file: BorrowedFd<'_>, number: u32, close_on_exec: bool) -> Result<()> {
        self.add(AddDescriptor {
            id,
            flags: AT_NUMBER,
            source: file.as_raw_fd().unsigned_abs(),
            target: number,
            target_flags: if close_on_exec { libc::O_CLOEXEC.unsigned_abs() } else { 0 },
        })
        .map(drop)
    }

    fn add(&self, mut add: AddDescriptor) -> Result<c_int> {
        // The awaited file is there now. A signal that was to end the wait comes too late, and without a retry the
        // caller would lose the file. The kernel has taken the request back when it returns `EINTR`.
        // SAFETY: needed, see `ioctl`. Sound: the structure is the request's and outlives the call.
        let number = retry_on_intr(|| unsafe { ioctl(self.as_fd(), ADD, &raw mut add as usize) })?;
        c_int::try_from(number).map_err(|_too_large| Errno::OVERFLOW)
    }
}

/// A descriptor for what descriptor `number` of a process refers to.
///
/// # Errors
/// `EBADF`; `EPERM`, `ESRCH`.
pub fn descriptor_of(process: u32, number: c_int) -> Result<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    let process = c_int::try_from(process).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    pidfd_getfd(process, number, PidfdGetfdFlags::empty())
}

/// A descriptor for what descriptor `number` of a waiting thread refers to. Where the kernel has no descriptors of
/// threads (before Linux 6.9), this asks for the descriptor of its process.
///
/// # Errors
/// `EBADF`; `EPERM`, `ESRCH`; those of `process`.
pub fn descriptor_of_thread(
    thread: u32,
    number: c_int,
    process: impl FnOnce() -> Result<u32>,
) -> Result<OwnedFd> {
    use rustix::process::{Pid, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    let named = c_int::try_from(thread).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    match pidfd_open(named, OF_THREAD) {
        Ok(thread) => pidfd_getfd(thread, number, PidfdGetfdFlags::empty()),
        Err(Errno::INVAL) => descriptor_of(process()?, number),
        Err(errno) => Err(errno),
    }
}

/// A resource with a limit (`getrlimit(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// `RLIMIT_FSIZE`: the greatest file length in bytes to which the process can extend a file.
    FileSize,
    /// `RLIMIT_NOFILE`: greater by one than the highest descriptor number.
    OpenFiles,
}

/// The limit in force for the process that thread `thread` belongs to; `u64::MAX`: none.
///
/// # Errors
/// `EPERM`, `ESRCH`.
pub fn limit_of(thread: u32, limited: Limited) -> Result<u64> {
    // The type of the constants differs between C libraries.
    let resource: usize = match limited {
        Limited::FileSize => 1,
        Limited::OpenFiles => 7,
    };
    let mut limit = [0u64; 2];
    let arguments = [thread as usize, resource, 0, (&raw mut limit) as usize, 0, 0];
    // SAFETY: needed because rustix asks and sets in one. Sound: the kernel writes two words to a live array.
    unsafe { raw::syscall(libc::SYS_prlimit64, arguments) }?;
    Ok(limit[0])
}

/// Sends a signal to a thread whose call waits, as the kernel does for a call that exceeds a limit. `process` is the
/// thread's process. Where the kernel has no descriptors of threads (before Linux 6.9), the process gets the signal.
///
/// # Errors
/// `ESRCH` when it doesn't wait any more, `EPERM`.
pub fn signal_caller(
    listener: &Listener,
    id: u64,
    (thread, process): (u32, u32),
    signal: rustix::process::Signal,
) -> Result<()> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
    let open = |number: u32, flags| {
        let number = c_int::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        pidfd_open(number, flags)
    };
    let receiver = match open(thread, OF_THREAD) {
        Err(Errno::INVAL) => open(process, PidfdFlags::empty()),
        other => other,
    }?;
    // While the call waits, the number can't belong to another thread.
    if !listener.is_waiting(id) {
        return Err(Errno::SRCH);
    }
    pidfd_send_signal(&receiver, signal)
}

/// `bind(2)` with an address in the form in which another process has given it.
///
/// # Errors
/// The kernel's.
pub fn bind(socket: BorrowedFd<'_>, address: &[u8]) -> Result<()> {
    let arguments = [raw::arg(socket.as_raw_fd()), address.as_ptr() as usize, address.len(), 0, 0, 0];
    // SAFETY: needed because rustix takes only addresses that it understands. Sound: the kernel
    // reads `address.len()` bytes of `address`.
    unsafe { raw::syscall(libc::SYS_bind, arguments) }.map(drop)
}

/// `connect(2)`, likewise.
///
/// # Errors
/// The kernel's.
pub fn connect(socket: BorrowedFd<'_>, address: &[u8]) -> Result<()> {
    let arguments = [raw::arg(socket.as_raw_fd()), address.as_ptr() as usize, address.len(), 0, 0, 0];
    // SAFETY: needed and sound as in `bind`.
    unsafe { raw::syscall(libc::SYS_connect, arguments) }.map(drop)
}

/// `sendmsg(2)`: a message with an address in the form in which another process has given it, if it isn't empty, and
/// with control messages.
///
/// Descriptors in the control messages are numbers of this process. After the readable bytes, `unreadable` more bytes
/// may follow that can't be read. The kernel returns an error when it reaches them.
///
/// # Errors
/// The kernel's.
pub fn send(
    socket: BorrowedFd<'_>,
    address: &[u8],
    (bytes, unreadable): (&[u8], usize),
    control: &[u8],
    flags: c_int,
) -> Result<usize> {
    // An address in the first page, which is never mapped.
    const NOWHERE: usize = 8;
    let pointer = |bytes: &[u8]| if bytes.is_empty() { core::ptr::null() } else { bytes.as_ptr() };
    let vectors = [
        raw::Vector { base: bytes.as_ptr(), length: bytes.len() },
        raw::Vector { base: core::ptr::without_provenance(NOWHERE), length: unreadable },
    ];
    let message = raw::Message {
        name: pointer(address),
        name_length: u32::try_from(address.len()).map_err(|_too_long| Errno::INVAL)?,
        vector: vectors.as_ptr(),
        vectors: if unreadable == 0 { 1 } else { 2 },
        control: pointer(control),
        control_length: control.len(),
        flags: 0,
    };
    // SAFETY: needed because rustix takes only addresses and control messages that it understands. Sound: address,
    // bytes and control messages outlive the call and are given with their lengths; where no memory is mapped the
    // kernel reads nothing, and returns an error.
    unsafe { raw::send_message(socket.as_raw_fd(), &message, flags) }
}

/// `getsockname(2)`, or `getpeername(2)` for the other end: an address of any family, as the kernel writes it.
///
/// # Errors
/// The kernel's.
pub fn socket_name(socket: BorrowedFd<'_>, of_peer: bool) -> Result<Vec<u8>> {
    // As large as `struct sockaddr_storage`, into which every address fits.
    let mut address = vec![0_u8; 128];
    let mut length = libc::socklen_t::try_from(address.len()).map_err(|_too_long| Errno::INVAL)?;
    let number = if of_peer { libc::SYS_getpeername } else { libc::SYS_getsockname };
    let arguments = [
        raw::arg(socket.as_raw_fd()),
        address.as_mut_ptr() as usize,
        (&raw mut length).expose_provenance(),
        0,
        0,
        0,
    ];
    // SAFETY: needed because rustix takes only addresses that it understands. Sound: the kernel writes `length` bytes at
    // most to `address`, and the address's own length to `length`.
    unsafe { raw::syscall(number, arguments) }?;
    address.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    Ok(address)
}

/// Copies memory of the process that thread `thread` belongs to; returns how much could be read
/// before an unreadable page.
///
/// # Errors
/// `EFAULT` when nothing could, `EPERM`, `ESRCH`.
pub fn read_memory(thread: u32, address: u64, buffer: &mut [u8]) -> Result<usize> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    #[expect(clippy::cast_possible_truncation, reason = "both supported architectures have 64 bits")]
    let address = address as usize;
    let remote = libc::iovec { iov_base: address as *mut core::ffi::c_void, iov_len: buffer.len() };
    let arguments = [thread as usize, &raw const local as usize, 1, &raw const remote as usize, 1, 0];
    // SAFETY: needed because rustix has no process_vm_readv. Sound: the kernel writes at most
    // `buffer.len()` bytes to `buffer`, and checks the other process's addresses itself.
    unsafe { raw::syscall(libc::SYS_process_vm_readv, arguments) }
}

/// Writes to memory of the process that thread `thread` belongs to, where that process itself could write; returns
/// how much could be written before a page that can't be.
///
/// # Errors
/// `EFAULT` when nothing could, `EPERM`, `ESRCH`.
pub fn write_memory(thread: u32, address: u64, bytes: &[u8]) -> Result<usize> {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    #[expect(clippy::cast_possible_truncation, reason = "both supported architectures have 64 bits")]
    let address = address as usize;
    let remote = libc::iovec { iov_base: address as *mut core::ffi::c_void, iov_len: bytes.len() };
    let arguments = [thread as usize, &raw const local as usize, 1, &raw const remote as usize, 1, 0];
    // SAFETY: needed because rustix has no process_vm_writev. Sound: the kernel only reads `bytes`, and checks the
    // other process's addresses itself. A broker's caller can't refer to the broker's own memory: the broker makes no
    // call that is passed to itself.
    unsafe { raw::syscall(libc::SYS_process_vm_writev, arguments) }
}
