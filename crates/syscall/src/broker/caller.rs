// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a caller's data: strings from its memory, its directories, its umask.
//!
//! A caller may be killed at any moment, and its number may go to another process. The broker then reads that
//! process's data. It can read only processes of the same sandbox, and it judges whatever it reads. So it doesn't
//! check whether the call still waits (`SECCOMP_IOCTL_NOTIF_ID_VALID`): if the caller is dead, its answer is dropped.

use crate::broker::Worker;
use crate::broker::report::Program;
use crate::broker::resolve::is_in_proc;
use palisade_sys::notify::{self, Limited, Notification};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// The kernel's limit for a path, its null included.
pub(crate) const PATH_MAX: usize = 4096;
const PAGE: u64 = 4096;

/// Flags for a descriptor of a directory from which a relative path is resolved.
pub(crate) const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
pub(crate) const OBJECT: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// How many ancestors of a process are looked at.
const GENERATIONS: u32 = 4096;

/// How many threads are remembered, indexed by the low bits of their number.
const SLOTS: usize = 64;
/// How many processes with a changed umask are remembered.
const MASKS: usize = 32;

/// What earlier calls showed about callers.
pub(crate) struct Callers(Mutex<Known>);

struct Known {
    threads: [Option<Thread>; SLOTS],
    /// Whether any process has changed its umask. Until then all processes have the command's.
    masks_differ: bool,
    masks: Vec<Mask>,
    next_mask: usize,
}

#[derive(Clone)]
struct Thread {
    number: u32,
    /// `/proc/NUMBER` of the host. The descriptor stands for this one thread, never for a later thread with the same
    /// number.
    directory: Arc<OwnedFd>,
    process: Option<u32>,
}

struct Mask {
    process: u32,
    /// As long as this directory can be read, the process is the same.
    directory: Arc<OwnedFd>,
    value: u32,
}

impl Callers {
    pub(crate) fn new() -> Self {
        let known =
            Known { threads: [const { None }; SLOTS], masks_differ: false, masks: Vec::new(), next_mask: 0 };
        Self(Mutex::new(known))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies `length` bytes of a thread's memory.
pub(crate) fn memory_of(thread: u32, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0u8; length];
    let mut done = 0;
    while done < length {
        let at = address.checked_add(done as u64).ok_or(Errno::FAULT)?;
        let read = notify::read_memory(thread, at, &mut bytes[done..])?;
        if read == 0 {
            return Err(Errno::FAULT);
        }
        done += read;
    }
    Ok(bytes)
}

/// The thread that made a call.
pub(crate) struct Caller<'w> {
    worker: &'w Worker<'w>,
    pub(crate) call: &'w Notification,
}

impl<'w> Caller<'w> {
    pub(crate) const fn new(worker: &'w Worker<'w>, call: &'w Notification) -> Self {
        Self { worker, call }
    }

    /// Whether the broker is in the caller's tree and PID namespace.
    pub(crate) fn is_in_place(&self) -> bool {
        self.worker.shared.in_place
    }

    /// Whether a name in `/proc` is a process inside, or a thread of one. The broker is the ancestor of all of them, and
    /// adopts their orphans.
    pub(crate) fn is_inside(&self, name: &[u8]) -> bool {
        if name.is_empty() || !name.iter().all(u8::is_ascii_digit) {
            return false;
        }
        let mut number = name.to_vec();
        for _generation in 0..GENERATIONS {
            match self.parent_of(&number) {
                Ok(parent) if parent == std::process::id() => return true,
                Ok(parent) if parent > 1 => number = parent.to_string().into_bytes(),
                _ => return false,
            }
        }
        false
    }

    /// The parent of a process.
    fn parent_of(&self, number: &[u8]) -> Result<u32, Errno> {
        let path = [number, b"/status"].concat();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.worker.shared.proc, &*path, flags, Mode::empty())?;
        let mut text = [0u8; 1024];
        let length = rustix::io::read(&file, &mut text)?;
        field(&text[..length], b"\nPPid:").and_then(|parent| parent.parse().ok()).ok_or(Errno::IO)
    }

    /// Whether an open file is in a process file system and isn't about a process inside. The kernel would let the broker
    /// write to its own memory, and lets root change settings.
    pub(crate) fn is_of_kernel(&self, file: BorrowedFd<'_>) -> Result<bool, Errno> {
        if !self.is_in_place() || !is_in_proc(file)? {
            return Ok(false);
        }
        let path = path_of(file)?;
        // In another mount of the file system, the path doesn't say whose file it is.
        Ok(path.strip_prefix(b"/proc/").is_none_or(|below| {
            !self.is_inside(below.split(|byte| *byte == b'/').next().unwrap_or_default())
        }))
    }

    /// Whether its call still waits.
    pub(crate) fn waits(&self) -> bool {
        self.worker.shared.listener.is_waiting(self.call.id)
    }

    /// Argument `index` as it is.
    pub(crate) fn argument(&self, index: usize) -> u64 {
        self.call.arguments.get(index).copied().unwrap_or(0)
    }

    /// Argument `index` where the kernel declares an `int`: the upper half is ignored.
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "the low half is meant")]
    pub(crate) fn int(&self, index: usize) -> i32 {
        self.argument(index) as u32 as i32
    }

    /// Like [`int`](Self::int), for an `unsigned int`.
    pub(crate) fn unsigned(&self, index: usize) -> u32 {
        self.int(index).cast_unsigned()
    }

    /// Copies the string that argument `index` points to. It is copied once, so that the judged string is the used
    /// one.
    ///
    /// # Errors
    /// `EFAULT`; `ENAMETOOLONG` without an end in 4096 bytes; `ENOENT` when it is empty.
    pub(crate) fn path(&self, index: usize) -> Result<CString, Errno> {
        let path = self.path_or_empty(index)?;
        if path.is_empty() { Err(Errno::NOENT) } else { Ok(path) }
    }

    /// Like [`path`](Self::path), but the string may be empty.
    pub(crate) fn path_or_empty(&self, index: usize) -> Result<CString, Errno> {
        self.string(index, PATH_MAX)
            .map_err(|errno| if errno == Errno::RANGE { Errno::NAMETOOLONG } else { errno })
    }

    /// The string that argument `index` points to; `ERANGE` if it has `limit` bytes or more.
    pub(crate) fn string(&self, index: usize, limit: usize) -> Result<CString, Errno> {
        let address = self.argument(index);
        let mut bytes: Vec<u8> = Vec::with_capacity(128);
        let mut chunk = [0u8; PATH_MAX];
        while bytes.len() < limit {
            let at = address.checked_add(bytes.len() as u64).ok_or(Errno::FAULT)?;
            // Read page by page: the string may end before a page that can't be read.
            let to_page_end = usize::try_from(PAGE - at % PAGE).unwrap_or(PATH_MAX);
            let wanted = to_page_end.min(limit - bytes.len());
            // Most paths are short, and copying less is faster.
            let wanted = if bytes.is_empty() { wanted.min(256) } else { wanted };
            let read = notify::read_memory(self.call.thread, at, &mut chunk[..wanted])?;
            if read == 0 {
                return Err(Errno::FAULT);
            }
            if let Some(end) = chunk[..read].iter().position(|byte| *byte == 0) {
                bytes.extend_from_slice(&chunk[..end]);
                return CString::new(bytes).map_err(|_no_null_inside| Errno::INVAL);
            }
            bytes.extend_from_slice(&chunk[..read]);
        }
        Err(Errno::RANGE)
    }

    /// Copies `length` bytes that argument `index` points to.
    pub(crate) fn bytes(&self, index: usize, length: usize) -> Result<Vec<u8>, Errno> {
        self.memory(self.argument(index), length)
    }

    /// Copies `length` bytes of the caller's memory.
    pub(crate) fn memory(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        memory_of(self.call.thread, address, length)
    }

    /// The directory from which relative paths are resolved, for a call with a directory descriptor.
    pub(crate) fn base(&self, descriptor: i32) -> Result<OwnedFd, Errno> {
        if descriptor == CWD.as_raw_fd() {
            return self.look(c"cwd", DIRECTORY);
        }
        self.descriptor(descriptor)
    }

    /// Whether the caller's root directory differs from the sandbox's.
    pub(crate) fn has_other_root(&self) -> Result<bool, Errno> {
        let own = rustix::fs::fstat(&self.look(c"root", DIRECTORY)?)?;
        let whole = rustix::fs::stat(c"/")?;
        Ok((own.st_dev, own.st_ino) != (whole.st_dev, whole.st_ino))
    }

    /// The file behind one of the caller's descriptors, for calls on an open file. Such calls fail on a descriptor
    /// that was opened by `O_PATH`.
    pub(crate) fn open_file(&self, number: i32) -> Result<OwnedFd, Errno> {
        let file = self.descriptor(number)?;
        let mut digits = DecimalBuffer::default();
        let path = [b"fd/", digits.write(number.unsigned_abs())].concat();
        // The mode of the link in `/proc` says how the file may be used.
        let link = rustix::fs::statat(&*self.directory(false)?, &*path, AtFlags::SYMLINK_NOFOLLOW)?;
        if link.st_mode & 0o600 == 0 && self.is_opened_by_path(number)? { Err(Errno::BADF) } else { Ok(file) }
    }

    /// Whether one of the caller's descriptors was opened by `O_PATH`. One for `ioctl` only has the same mode.
    fn is_opened_by_path(&self, number: i32) -> Result<bool, Errno> {
        Ok(self.flags_of(number)?.contains(OFlags::PATH))
    }

    /// The flags of one of the caller's descriptors, `O_CLOEXEC` among them.
    pub(crate) fn flags_of(&self, number: i32) -> Result<OFlags, Errno> {
        let mut digits = DecimalBuffer::default();
        let path = [b"fdinfo/", digits.write(number.unsigned_abs())].concat();
        let directory = self.directory(false)?;
        let file = rustix::fs::openat(&*directory, &*path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        // `pos:` and `flags:` come first.
        let mut text = [0; 128];
        let read = rustix::io::read(&file, &mut text)?;
        let text = String::from_utf8_lossy(&text[..read]);
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        flags.map(OFlags::from_bits_retain).ok_or(Errno::IO)
    }

    /// The file behind one of the caller's descriptors.
    pub(crate) fn descriptor(&self, number: i32) -> Result<OwnedFd, Errno> {
        if number < 0 {
            return Err(Errno::BADF);
        }
        let mut name = *b"fd/\0\0\0\0\0\0\0\0\0\0\0";
        let mut buffer = DecimalBuffer::default();
        let digits = buffer.write(number.unsigned_abs());
        name[3..3 + digits.len()].copy_from_slice(digits);
        let name = core::ffi::CStr::from_bytes_until_nul(&name).map_err(|_unterminated| Errno::INVAL)?;
        self.look(name, OBJECT).map_err(|errno| if errno == Errno::NOENT { Errno::BADF } else { errno })
    }

    /// Whether the caller has a free descriptor number. If that can't be found out, the answer is yes: the attempt
    /// will show it.
    pub(crate) fn has_room(&self) -> bool {
        let Ok(limit) = notify::limit_of(self.call.thread, Limited::OpenFiles) else { return true };
        let Ok(limit) = u32::try_from(limit) else { return true };
        let Ok(directory) = self.directory(false) else { return true };
        let is_taken = |number: u32| {
            let mut digits = DecimalBuffer::default();
            let path = [b"fd/", digits.write(number)].concat();
            rustix::fs::statat(&*directory, &*path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
        };
        // Processes rarely use the highest number. If it is in use, search for a free one from the lowest up, as the
        // kernel does. (The broker can't list the descriptors of other processes.)
        limit > 0 && (!is_taken(limit - 1) || (0..limit).any(|number| !is_taken(number)))
    }

    /// Whether the caller may make a file grow to `length`. If not, the caller gets the signal that the kernel would
    /// send (`inode_newsize_ok`).
    pub(crate) fn may_grow(&self, file: &OwnedFd, length: u64) -> Result<bool, Errno> {
        let has = u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
        let may = length <= has || length <= notify::limit_of(self.call.thread, Limited::FileSize)?;
        if !may {
            let receiver = (self.call.thread, self.process()?);
            notify::signal_caller(&self.worker.shared.listener, self.call.id, receiver, Signal::XFSZ)?;
        }
        Ok(may)
    }

    /// A directory, by its path from the caller's working directory. One single open, because nearly every call needs
    /// it.
    pub(crate) fn in_working_directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let mut whole = Vec::with_capacity(path.len() + 5);
        whole.extend_from_slice(b"cwd/");
        whole.extend_from_slice(path);
        whole.push(0);
        let whole = core::ffi::CStr::from_bytes_with_nul(&whole).map_err(|_null| Errno::INVAL)?;
        let directory = self.directory(false)?;
        rustix::fs::openat(&*directory, whole, DIRECTORY, Mode::empty())
    }

    /// Opens a file of `/proc/THREAD`.
    fn look(&self, name: &core::ffi::CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        let directory = self.directory(false)?;
        match rustix::fs::openat(&*directory, name, flags, Mode::empty()) {
            // The remembered thread ended, and this one got its number.
            Err(Errno::SRCH | Errno::NOENT) => {
                let directory = self.directory(true)?;
                rustix::fs::openat(&*directory, name, flags, Mode::empty())
            }
            other => other,
        }
    }

    /// `/proc/THREAD` of the host.
    pub(crate) fn directory(&self, afresh: bool) -> Result<Arc<OwnedFd>, Errno> {
        let number = self.call.thread;
        let slot = number as usize % SLOTS;
        let mut known = self.worker.shared.callers.known();
        if !afresh
            && let Some(thread) = &known.threads[slot]
            && thread.number == number
        {
            return Ok(Arc::clone(&thread.directory));
        }
        let mut buffer = DecimalBuffer::default();
        let digits = buffer.write(number);
        let directory =
            Arc::new(rustix::fs::openat(&self.worker.shared.proc, digits, DIRECTORY, Mode::empty())?);
        known.threads[slot] = Some(Thread { number, directory: Arc::clone(&directory), process: None });
        Ok(directory)
    }

    /// The file mode creation mask.
    pub(crate) fn umask(&self) -> Result<u32, Errno> {
        let shared = self.worker.shared;
        if !shared.callers.known().masks_differ {
            return Ok(shared.umask);
        }
        // A changed umask is remembered: the `umask` call may still be under way, and the kernel's value old.
        if let Some((directory, process)) = self.remembered_process()
            && is_alive(directory.as_fd())
            && let Some(value) = self.remembered_mask(process)
        {
            return Ok(value);
        }
        let (process, value) = self.status()?;
        Ok(self.remembered_mask(process).unwrap_or(value))
    }

    fn remembered_process(&self) -> Option<(Arc<OwnedFd>, u32)> {
        let known = self.worker.shared.callers.known();
        let thread = known.threads[self.call.thread as usize % SLOTS].as_ref()?;
        (thread.number == self.call.thread).then(|| Some((Arc::clone(&thread.directory), thread.process?)))?
    }

    fn remembered_mask(&self, process: u32) -> Option<u32> {
        let known = self.worker.shared.callers.known();
        let mask = known.masks.iter().find(|mask| mask.process == process)?;
        is_alive(mask.directory.as_fd()).then_some(mask.value)
    }

    /// Records that the caller is about to set its umask.
    pub(crate) fn set_umask(&self, value: u32) -> Result<(), Errno> {
        let (process, _before) = self.status()?;
        let directory = self.directory(false)?;
        let mut known = self.worker.shared.callers.known();
        known.masks_differ = true;
        let mask = Mask { process, directory, value: value & 0o777 };
        if let Some(place) = known.masks.iter().position(|mask| mask.process == process) {
            known.masks[place] = mask;
        } else if known.masks.len() < MASKS {
            known.masks.push(mask);
        } else {
            let place = known.next_mask % MASKS;
            known.next_mask = place + 1;
            known.masks[place] = mask;
        }
        Ok(())
    }

    /// The file that the caller executes. The unknown program if it can't be found out (undumpable, for example).
    pub(crate) fn executable(&self) -> Program {
        let of = |afresh| -> Result<Program, Errno> {
            let directory = self.directory(afresh)?;
            let found = rustix::fs::statat(&*directory, c"exe", rustix::fs::AtFlags::empty())?;
            let path = rustix::fs::readlinkat(&*directory, c"exe", Vec::new())?.into_bytes();
            Ok(Program { path, device: found.st_dev, inode: found.st_ino })
        };
        // The remembered thread may have ended, and this one got its number.
        of(false).or_else(|_gone| of(true)).unwrap_or_default()
    }

    /// The number of the caller's process.
    pub(crate) fn process(&self) -> Result<u32, Errno> {
        self.status().map(|(process, _mask)| process)
    }

    /// The numbers of the caller's process and thread inside the sandbox.
    pub(crate) fn numbers_inside(&self) -> Result<(u32, u32), Errno> {
        let text = self.status_text()?;
        // One number for each PID namespace, the outermost first.
        let innermost =
            |name| -> Option<u32> { field(&text, name)?.split_ascii_whitespace().last()?.parse().ok() };
        innermost(b"\nNStgid:").zip(innermost(b"\nNSpid:")).ok_or(Errno::IO)
    }

    fn status_text(&self) -> Result<Vec<u8>, Errno> {
        let file = self.look(c"status", OFlags::RDONLY | OFlags::CLOEXEC)?;
        let mut text = vec![0u8; 1024];
        let length = rustix::io::read(&file, &mut text[..])?;
        text.truncate(length);
        Ok(text)
    }

    /// Process number and umask, from `/proc/THREAD/status`.
    fn status(&self) -> Result<(u32, u32), Errno> {
        let text = self.status_text()?;
        let number = |name, radix| u32::from_str_radix(field(&text, name)?, radix).ok();
        let mask = number(b"\nUmask:", 8).ok_or(Errno::IO)?;
        let process = number(b"\nTgid:", 10).ok_or(Errno::IO)?;
        let mut known = self.worker.shared.callers.known();
        if let Some(thread) = &mut known.threads[self.call.thread as usize % SLOTS]
            && thread.number == self.call.thread
        {
            thread.process = Some(process);
        }
        Ok((process, mask))
    }

    /// The caller's name, as `ps` shows it. For messages.
    pub(crate) fn program(&self) -> Vec<u8> {
        let mut text = [0u8; 64];
        let read = self
            .look(c"comm", OFlags::RDONLY | OFlags::CLOEXEC)
            .and_then(|file| rustix::io::read(&file, &mut text));
        let text = &text[..read.unwrap_or(0)];
        text.strip_suffix(b"\n").unwrap_or(text).to_vec()
    }

    /// The device number of the caller's controlling terminal and the caller's session, from `/proc/THREAD/stat`.
    pub(crate) fn terminal(&self) -> Result<(u32, u32), Errno> {
        let file = self.look(c"stat", OFlags::RDONLY | OFlags::CLOEXEC)?;
        let mut text = [0u8; 512];
        let length = rustix::io::read(&file, &mut text)?;
        // The name in parentheses may contain any character. Only numbers follow the last parenthesis.
        let text = &text[..length];
        let after = text.iter().rposition(|byte| *byte == b')').ok_or(Errno::IO)? + 1;
        let text = core::str::from_utf8(&text[after..]).map_err(|_not_text| Errno::IO)?;
        let number = |index: usize| -> Option<i64> { text.split_ascii_whitespace().nth(index)?.parse().ok() };
        // The fields are: state, parent, group, session, terminal.
        let session = number(3).and_then(|number| u32::try_from(number).ok()).ok_or(Errno::IO)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "printed as a signed int"
        )]
        let device = number(4).ok_or(Errno::IO)? as u32;
        Ok((device, session))
    }
}

/// The value of a field in a `status` file. `name` includes the line break before it: the process chooses its own
/// name, which comes first in the file, but can't put a line break into it.
pub(crate) fn field<'t>(text: &'t [u8], name: &[u8]) -> Option<&'t str> {
    let start = text.windows(name.len()).position(|window| window == name)? + name.len();
    let end = text[start..].iter().position(|byte| *byte == b'\n')? + start;
    core::str::from_utf8(&text[start..end]).ok().map(str::trim)
}

/// Whether the thread behind a directory of `/proc` still exists.
fn is_alive(directory: BorrowedFd<'_>) -> bool {
    rustix::fs::openat(directory, c"cwd", OBJECT, Mode::empty()).is_ok()
}

/// Formats a number in decimal without an allocation. rustix accepts the result as a path.
#[derive(Default)]
pub(crate) struct DecimalBuffer([u8; 10]);

impl DecimalBuffer {
    pub(crate) fn write(&mut self, mut number: u32) -> &[u8] {
        let mut at = self.0.len();
        loop {
            at -= 1;
            self.0[at] = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
            if number == 0 {
                return &self.0[at..];
            }
        }
    }
}

/// The kernel's path of an open directory or file, as seen from the sandbox's root.
///
/// # Errors
/// The errors of the lookup; `ENAMETOOLONG` for files (not directories) with a path beyond 4095 bytes.
pub(crate) fn path_of(file: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    match short_path_of(file) {
        Err(Errno::NAMETOOLONG) => long_path_of(file)
            .map_err(|errno| if errno == Errno::NOTDIR { Errno::NAMETOOLONG } else { errno }),
        other => other,
    }
}

fn short_path_of(file: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let mut digits = DecimalBuffer::default();
    let number = digits.write(file.as_raw_fd().unsigned_abs());
    let mut buffer = [core::mem::MaybeUninit::<u8>::uninit(); PATH_MAX];
    // The worker's working directory is the list of the broker's descriptors.
    let (path, _rest) = rustix::fs::readlinkat_raw(CWD, number, &mut buffer)?;
    if path.len() >= PATH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    Ok(path.to_vec())
}

/// The path of a directory that lies too deep for the kernel to report. The end of the path is found name by name in
/// the directories above.
fn long_path_of(directory: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut here = rustix::fs::openat(directory, c".", DIRECTORY, Mode::empty())?;
    for _ in 0..PATH_MAX {
        let above = rustix::fs::openat(&here, c"..", DIRECTORY, Mode::empty())?;
        names.push(name_in(&above, &here)?);
        match short_path_of(above.as_fd()) {
            Err(Errno::NAMETOOLONG) => here = above,
            Err(errno) => return Err(errno),
            Ok(mut path) => {
                for name in names.iter().rev() {
                    path.push(b'/');
                    path.extend_from_slice(name);
                }
                return Ok(path);
            }
        }
    }
    Err(Errno::NAMETOOLONG)
}

/// The name of a directory in its parent.
fn name_in(above: &OwnedFd, directory: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let wanted = rustix::fs::fstat(directory)?;
    for entry in list(above.as_fd())? {
        let entry = entry?;
        let stat = rustix::fs::statat(above, entry.file_name(), rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
        if (stat.st_dev, stat.st_ino) == (wanted.st_dev, wanted.st_ino) {
            return Ok(entry.file_name().to_bytes().to_vec());
        }
    }
    Err(Errno::NOENT)
}

/// The entries of a directory that is open by `O_PATH` only.
pub(crate) fn list(directory: BorrowedFd<'_>) -> Result<rustix::fs::Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::Dir::new(rustix::fs::openat(directory, c".", flags, Mode::empty())?)
}
