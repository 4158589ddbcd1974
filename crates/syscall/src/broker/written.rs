// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handles files that may have a name if their content is harmless, when a program writes such a file directly
//! instead of writing another and renaming it: `cp`, `tar`, `git worktree add`.
//!
//! The program gets a file without a name, which can never get one. When the file is closed, the broker judges its
//! content and puts a copy at the name, as if it had been renamed there ([`config`]). A process that goes on writing
//! then writes to a file that no program reads. So this permits nothing that writing another file and renaming it
//! wouldn't. The program doesn't wait: the name exists a moment after the file is closed, and before the broker makes
//! the next call that it answers.

use crate::broker::caller::{Caller, DecimalBuffer};
use crate::broker::how::{How, Opened};
use crate::broker::name_policy::{Operation, Refused};
use crate::broker::report::Report;
use crate::broker::resolve::{Place, by_number};
use crate::broker::{Outcome, Shared, Worker, config};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// How many files may be written at once. Each takes two descriptors, of which a process usually has 1,024.
const MOST: usize = 64;

/// A file that is being written.
struct File {
    /// The name that it will get.
    place: Place,
    /// The file itself.
    file: OwnedFd,
    /// The thread that opened it.
    thread: u32,
    program: Vec<u8>,
    call: &'static str,
}

/// The files that are being written.
#[derive(Default)]
pub(crate) struct BeingWritten {
    /// How many there are. Most commands have none, and every call checks.
    number: AtomicUsize,
    /// The files, by the number of the kernel's watch on each.
    files: Mutex<HashMap<i32, File>>,
    watch: OnceLock<OwnedFd>,
}

impl BeingWritten {
    fn files(&self) -> MutexGuard<'_, HashMap<i32, File>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The inotify descriptor that reports closed files. The first use also starts the thread that reads it.
    fn watch(shared: &Arc<Shared>) -> Result<&OwnedFd, Errno> {
        let watch = &shared.being_written.watch;
        if watch.get().is_none() {
            let made = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            // Both workers may be here at the same time.
            if watch.set(made).is_ok() {
                // The launcher then waits at the end until the last file is in place.
                shared.reporter.tell(&Report::Writing);
                let shared = Arc::clone(shared);
                let thread = std::thread::Builder::new().stack_size(128 * 1024);
                // The thread inherits the filter of the worker that starts it.
                thread.spawn(move || listen(&shared)).map_err(|_limit| Errno::AGAIN)?;
            }
        }
        watch.get().ok_or(Errno::AGAIN)
    }

    fn add(shared: &Arc<Shared>, file: File) -> Result<(), Errno> {
        let watch = Self::watch(shared)?;
        let this = &shared.being_written;
        let mut files = this.files();
        if files.len() >= MOST {
            return Err(Errno::MFILE);
        }
        let mut buffer = DecimalBuffer::default();
        let number = by_number(file.file.as_fd(), &mut buffer);
        let known_as = inotify::add_watch(watch, number, WatchFlags::CLOSE_WRITE | WatchFlags::ONESHOT)?;
        files.insert(known_as, file);
        this.number.store(files.len(), Ordering::Release);
        Ok(())
    }

    /// The files that have been closed.
    fn closed(&self) -> Vec<File> {
        let Some(watch) = self.watch.get() else { return Vec::new() };
        // The lock is held while events are read. So another thread finds either the event, or the file in place.
        let mut files = self.files();
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = Reader::new(watch, &mut buffer);
        let mut closed = Vec::new();
        // Without an event this fails with `EAGAIN`.
        while let Ok(event) = events.next() {
            if event.events().contains(ReadFlags::CLOSE_WRITE) {
                closed.extend(files.remove(&event.wd()));
            }
        }
        self.number.store(files.len(), Ordering::Release);
        closed
    }
}

/// Puts closed files in place. Runs as long as the broker.
fn listen(shared: &Arc<Shared>) {
    if shared.own_directory().is_err() {
        return;
    }
    let worker = Worker::new(shared);
    while let Some(watch) = shared.being_written.watch.get() {
        let _closed_or_interrupted = poll(&mut [PollFd::new(watch, PollFlags::IN)], None);
        worker.place_written();
    }
}

impl Worker<'_> {
    /// Gives a file to the caller that is judged when it has been written, for a name whose refusal depends on the
    /// content.
    pub(crate) fn give_to_be_judged(
        &self,
        caller: &Caller<'_>,
        place: &Place,
        how: How,
    ) -> Result<Outcome, Errno> {
        let made = rustix::fs::openat(&place.parent, c".", how.without_name(), how.mode())?;
        let mut buffer = DecimalBuffer::default();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(CWD, by_number(made.as_fd(), &mut buffer), flags, Mode::empty())?;
        let place =
            Place { parent: rustix::io::fcntl_dupfd_cloexec(&place.parent, 0)?, name: place.name.clone() };
        let (thread, program) = (caller.call.thread, caller.program());
        let call = crate::broker::calls::name_of(caller.call);
        BeingWritten::add(self.shared, File { place, file, thread, program, call })?;
        self.hand_over(caller, Opened { file: made, new: true }, how)
    }

    /// Whether renaming a file to this name could be permitted: no file is there yet, and only the content decides.
    pub(crate) fn may_be_judged(&self, refused: &Refused, path: &[u8], place: &Place, how: How) -> bool {
        refused.content
            && how.writes_alone()
            && place.stat().is_err_and(|errno| errno == Errno::NOENT)
            && self.shared.name_policy.host_path(path).as_ref() == Some(&refused.path)
    }

    /// Puts the closed files in place. Call this without holding a lock.
    pub(crate) fn place_written(&self) {
        if self.shared.being_written.number.load(Ordering::Acquire) == 0 {
            return;
        }
        let _order = self.shared.write_order();
        for file in self.shared.being_written.closed() {
            self.place(&file);
        }
        self.locks.release();
    }

    /// The same for all files, at the end: no process is left that could write to one.
    pub(crate) fn place_rest(&self) {
        if self.shared.being_written.watch.get().is_none() {
            return;
        }
        // This also waits for a thread that is putting a file in place.
        let _order = self.shared.write_order();
        let rest: Vec<File> = self.shared.being_written.files().drain().map(|(_watch, file)| file).collect();
        rest.iter().for_each(|file| self.place(file));
        self.locks.release();
    }

    /// Puts the file in place, as if it were renamed to its name at this moment.
    fn place(&self, file: &File) {
        let Ok(path) = file.place.path() else { return };
        // Another file has got the name meanwhile. As after a rename over this file, this file gets no name.
        if file.place.stat().is_ok() {
            return;
        }
        let name_policy = &self.shared.name_policy;
        let judged = name_policy
            .check(Operation::MoveTo { directory: false }, &path, &file.place, &self.locks)
            .and_then(|()| self.may_begin(&path, &file.place));
        let refused = match judged {
            Ok(()) => return drop(config::put_new(&file.file, &file.place)),
            Err(refused) => refused,
        };
        let judges = refused.content && name_policy.host_path(&path).as_ref() == Some(&refused.path);
        let detail = if judges {
            let fresh = name_policy.is_fresh(&file.place);
            let baselines = &self.shared.baselines;
            match config::make(baselines, &file.file, &file.place, &refused.path, fresh) {
                Ok(()) => return,
                Err(error) => error.to_string(),
            }
        } else {
            refused.detail.clone()
        };
        self.shared.reporter.tell(&Report::Refused {
            thread: file.thread,
            program: file.program.clone(),
            call: file.call.to_owned(),
            refused: Refused { detail: format!("{detail}; the file isn't there"), ..*refused },
        });
    }
}
