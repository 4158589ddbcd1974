// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The mask refresher: the process that mounts a mask again after a program of the host has replaced the file beneath
//! it.
//!
//! A program of the host that saves atomically renames a new file over the old one. The kernel then removes the
//! mounts over the old file, in every mount namespace. The *refresher* watches the directories of the masked names
//! and masks the new file, too. Between the two moments a process inside can open the file. That window is as long as
//! it takes to wake a process.
//!
//! The refresher is in the sandbox's user namespace and file tree, but outside its PID namespace and Landlock domain.
//! It keeps one capability and accepts no requests: its only input is that a directory has changed. It shares the
//! launcher's memory, so it costs no copy. Launches without such masks have no refresher.

use crate::clone::{self, Stack};
use crate::init::{Event, die_with_parent};
use crate::operation::Attributes;
use crate::raw::{self, Fd, MountAttr, Result};
use crate::seccomp::{self, Instruction};
use core::ffi::c_void;
use core::sync::atomic::{AtomicI32, Ordering};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// A name that is to stay masked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mask {
    /// The directory, relative to the new tree's root; no link is followed.
    pub parent: CString,
    /// The name in it.
    pub name: CString,
    /// What masks it.
    pub by: By,
}

/// What masks a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// A placeholder, by its number.
    Placeholder {
        /// Over a file that isn't a directory.
        file: usize,
        /// Over a directory.
        directory: usize,
    },
    /// The file itself, mounted with these attributes.
    Itself(Attributes),
}

/// How many placeholders a refresher can have.
pub const PLACEHOLDERS: usize = 4;

/// The mask refresher of one launch.
#[derive(Debug)]
pub struct MaskRefresher(pub(crate) Arc<Setup>);

/// What the refresher's process uses: kept until it has been reaped.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The launcher's process id.
    owner: i32,
    /// The host's `/proc`.
    proc: OwnedFd,
    placeholders: [CString; PLACEHOLDERS],
    masks: Vec<Watched>,
    filter: Vec<Instruction>,
    /// Set by the builder: a descriptor of init, in the table that it shares with the refresher.
    init: AtomicI32,
    /// Reported by the refresher: it watches every mask.
    ready: Event,
}

#[derive(Debug)]
struct Watched {
    mask: Mask,
    /// The refresher's descriptor of the directory: it stays the same if the directory is moved.
    directory: AtomicI32,
}

/// `CAP_SYS_ADMIN`: mounts.
const MOUNTS: u32 = 1 << 21;
const CHANGES: u32 = libc::IN_CREATE | libc::IN_MOVED_TO | libc::IN_ONLYDIR;
const READ_ONLY_FLAG: u64 = libc::ST_RDONLY;
const CLONE: u32 = 1 | libc::O_CLOEXEC.cast_unsigned();
const EMPTY_PATH: u32 = libc::AT_EMPTY_PATH.cast_unsigned();
const RECURSIVE: u32 = libc::AT_RECURSIVE.cast_unsigned();
/// `MOVE_MOUNT_F_EMPTY_PATH|MOVE_MOUNT_T_EMPTY_PATH`.
const BY_DESCRIPTORS: u32 = 0x4 | 0x40;
/// `RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS|RESOLVE_NO_MAGICLINKS`.
const STRAIGHT: u64 = 0x08 | 0x04 | 0x02;

impl MaskRefresher {
    /// A refresher for `masks`. `proc` is the host's `/proc`; `placeholders` are paths of the new tree, relative to
    /// its root; `filter` is the refresher's own seccomp filter.
    #[must_use]
    pub fn new(
        masks: Vec<Mask>,
        placeholders: [CString; PLACEHOLDERS],
        proc: OwnedFd,
        filter: Vec<Instruction>,
    ) -> Self {
        let watched = |mask| Watched { mask, directory: AtomicI32::new(-1) };
        Self(Arc::new(Setup {
            owner: raw::getpid(),
            proc,
            placeholders,
            masks: masks.into_iter().map(watched).collect(),
            filter,
            init: AtomicI32::new(-1),
            ready: Event::default(),
        }))
    }

    pub(crate) fn proc(&self) -> Fd {
        self.0.proc.as_raw_fd()
    }

    /// Makes the refresher, a child of the launcher, and waits until it watches; `born` gets its pid.
    ///
    /// # Safety
    /// `stack` must stay valid until the refresher has been reaped, and so must the setup.
    pub(crate) unsafe fn start(&self, init: Fd, stack: *mut Stack, born: *mut i32) -> Result<()> {
        self.0.init.store(init, Ordering::Release);
        let setup: *const Setup = Arc::as_ptr(&self.0);
        // SAFETY: needed to make a process that shares memory. Sound: by the caller's promise, and
        // of the setup both sides only read, but for atomics. `watch` uses raw calls only.
        unsafe {
            clone::sharing_memory_announced(
                libc::CLONE_PARENT | libc::CLONE_FILES,
                stack,
                watch,
                setup.cast_mut().cast(),
                born,
            )
        }?;
        self.0.ready.wait(|| raw::has_ended(init)).map(drop)
    }
}

/// The system calls that a refresher makes once it watches, by name.
pub const OWN: &[&str] = &[
    "close",
    "exit",
    "exit_group",
    "fstat",
    "fstatfs",
    "futex",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "openat2",
    "ppoll",
    "read",
    "rt_sigreturn",
];

/// The refresher's process. Its exit code is the number of the error that ended it, or 0 after init's end.
///
/// # Safety
/// `argument` points to a [`Setup`] that outlives the process.
unsafe extern "C" fn watch(argument: *mut c_void) -> ! {
    // SAFETY: needed because clone passes one pointer. Sound by the caller's promise.
    let setup = unsafe { &*argument.cast::<Setup>() };
    let prepared = prepare(setup);
    setup.ready.report(prepared.as_ref().map(|_watch| 0).map_err(|errno| *errno));
    let kept = prepared.and_then(|watch| watch.keep());
    raw::exit(kept.map_or_else(Errno::raw_os_error, |()| 0))
}

/// Gives up what a refresher doesn't need, and watches.
fn prepare(setup: &Setup) -> Result<Watch<'_>> {
    let _name_is_cosmetic = raw::prctl(libc::PR_SET_NAME, c"palisade-masks".as_ptr() as usize, 0);
    die_with_parent()?;
    if raw::getppid() != setup.owner {
        return Err(Errno::SRCH);
    }
    raw::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)?;
    raw::keep_capabilities(MOUNTS)?;
    let init = setup.init.load(Ordering::Acquire).unsigned_abs();
    // Its own descriptor table, with only init's descriptor in it.
    if init > 0 {
        raw::close_range(0, init - 1, libc::CLOSE_RANGE_UNSHARE)?;
    }
    raw::close_range(init + 1, u32::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    raw::raise_descriptor_limit()?;

    let root = raw::open(c".", libc::O_PATH | libc::O_DIRECTORY)?;
    let mut placeholders = [Placeholder::default(); PLACEHOLDERS];
    for (placeholder, path) in placeholders.iter_mut().zip(&setup.placeholders) {
        // There are no placeholders if every name is masked by itself.
        if let Ok(file) = raw::openat2(root, path, libc::O_PATH | libc::O_CLOEXEC, 0, STRAIGHT) {
            *placeholder = Placeholder { file, identity: raw::stat(file)?.identity };
        }
    }
    let changes = raw::inotify()?;
    for watched in &setup.masks {
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let directory = raw::openat2(root, &watched.mask.parent, flags, 0, STRAIGHT)?;
        watched.directory.store(directory, Ordering::Relaxed);
        // By path only: descriptors have no names for this process, because it has no `/proc`.
        raw::fchdir(directory)?;
        raw::inotify_add(changes, c".", CHANGES)?;
    }
    raw::fchdir(root)?;
    seccomp::install(&setup.filter)?;
    let watch = Watch { setup, init: init.cast_signed(), changes, placeholders };
    // Masks files that were replaced since the masks were mounted.
    watch.renew()?;
    Ok(watch)
}

#[derive(Clone, Copy, Default)]
struct Placeholder {
    file: Fd,
    identity: (u64, u64),
}

struct Watch<'s> {
    setup: &'s Setup,
    init: Fd,
    changes: Fd,
    placeholders: [Placeholder; PLACEHOLDERS],
}

impl Watch<'_> {
    /// Masks names again that have lost their mask, until init has ended.
    fn keep(&self) -> Result<()> {
        // Which directory has changed doesn't matter: there are few names to check.
        let mut events = [0u8; 4096];
        loop {
            if raw::poll_two(self.changes, self.init)? {
                return Ok(());
            }
            match raw::read(self.changes, &mut events) {
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
            self.renew()?;
        }
    }

    fn renew(&self) -> Result<()> {
        for watched in &self.setup.masks {
            match self.mask(&watched.mask, watched.directory.load(Ordering::Relaxed)) {
                // The file was moved or removed at this moment. If another file replaces it, another change will be
                // reported.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn mask(&self, mask: &Mask, directory: Fd) -> Result<()> {
        let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let there = raw::openat2(directory, &mask.name, flags, 0, 0)?;
        let covered = self.mask_open(mask, there);
        raw::close(there)?;
        covered
    }

    fn mask_open(&self, mask: &Mask, there: Fd) -> Result<()> {
        let stat = raw::stat(there)?;
        if stat.is(libc::S_IFLNK) {
            // The kernel can't mount over a symbolic link.
            return Err(Errno::LOOP);
        }
        let is_directory = stat.is(libc::S_IFDIR);
        let (source, attributes, recursive) = match mask.by {
            By::Placeholder { file, directory } => {
                if self.placeholders.iter().any(|placeholder| placeholder.identity == stat.identity) {
                    return Ok(());
                }
                let number = if is_directory { directory } else { file };
                let placeholder = self.placeholders.get(number).ok_or(Errno::INVAL)?;
                let all = Attributes::READ_ONLY.and(Attributes::NOEXEC).and(Attributes::NODEV);
                (placeholder.file, all, 0)
            }
            By::Itself(attributes) => {
                if raw::statfs_flags(there)? & READ_ONLY_FLAG != 0 {
                    return Ok(());
                }
                (there, attributes, if is_directory { RECURSIVE } else { 0 })
            }
        };
        let tree = raw::open_tree(source, c"", CLONE | EMPTY_PATH | recursive)?;
        let set = attributes.and(Attributes::NOSUID).0;
        let attr = MountAttr { set, clear: 0, propagation: libc::MS_PRIVATE, userns: 0 };
        let mounted = raw::mount_setattr(tree, recursive != 0, &attr)
            .and_then(|()| raw::move_mount(tree, c"", there, c"", BY_DESCRIPTORS));
        raw::close(tree)?;
        mounted
    }
}
