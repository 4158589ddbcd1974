// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that may have a name if their content is harmless, written by who doesn't write beside and rename: `cp`, `tar`,
//! `git worktree add`.
//!
//! They get a file without a name, which can never have one. When it is closed, what is in it then is judged, and a copy
//! goes to the name as if it had been renamed there ([`config`]): whoever goes on writing does so to a file that nobody
//! reads. So nothing can be brought about by this that couldn't be by a file beside it. The program isn't asked to wait:
//! the name is there a moment after it has closed the file, and before the next call that the broker answers is made.

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

/// So many are written at once: each takes two descriptors, of which a process has 1,024 as a rule.
const MOST: usize = 64;

/// One that is being written.
struct File {
    /// Where it is to be.
    place: Place,
    /// It itself.
    file: OwnedFd,
    /// Who opened it.
    thread: u32,
    program: Vec<u8>,
    call: &'static str,
}

/// Those that are being written.
#[derive(Default)]
pub(crate) struct BeingWritten {
    /// How many: most commands have none, and every call looks.
    number: AtomicUsize,
    /// By what the kernel calls the watch on it.
    files: Mutex<HashMap<i32, File>>,
    watch: OnceLock<OwnedFd>,
}

impl BeingWritten {
    fn files(&self) -> MutexGuard<'_, HashMap<i32, File>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What tells that one was closed; with the first there is a thread that hears it.
    fn watch(shared: &Arc<Shared>) -> Result<&OwnedFd, Errno> {
        let watch = &shared.being_written.watch;
        if watch.get().is_none() {
            let made = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            // The two workers may both be here.
            if watch.set(made).is_ok() {
                // It waits for the last of them at the end.
                shared.reporter.tell(&Report::Writing);
                let shared = Arc::clone(shared);
                let thread = std::thread::Builder::new().stack_size(128 * 1024);
                // Its filter comes from the worker that starts it.
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

    /// Those that have been closed.
    fn closed(&self) -> Vec<File> {
        let Some(watch) = self.watch.get() else { return Vec::new() };
        // Held while events are taken: who comes later finds either the event or that it is done.
        let mut files = self.files();
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = Reader::new(watch, &mut buffer);
        let mut closed = Vec::new();
        // Without an event it fails with `EAGAIN`.
        while let Ok(event) = events.next() {
            if event.events().contains(ReadFlags::CLOSE_WRITE) {
                closed.extend(files.remove(&event.wd()));
            }
        }
        self.number.store(files.len(), Ordering::Release);
        closed
    }
}

/// Puts what is closed in its place, as long as there is a broker.
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
    /// A file that is judged when it has been written, for a name that is refused for what might be in it.
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

    /// Whether one could be made there by renaming another to it: it isn't there, and what is refused is its content.
    pub(crate) fn may_be_judged(&self, refused: &Refused, path: &[u8], place: &Place, how: How) -> bool {
        refused.content
            && how.writes_alone()
            && place.stat().is_err_and(|errno| errno == Errno::NOENT)
            && self.shared.name_policy.host_path(path).as_ref() == Some(&refused.path)
    }

    /// Puts those in their places that have been closed. To be called with nothing held.
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

    /// The same for all: nobody is left to write to one.
    pub(crate) fn place_rest(&self) {
        if self.shared.being_written.watch.get().is_none() {
            return;
        }
        // Also waits for who puts one in its place just now.
        let _order = self.shared.write_order();
        let rest: Vec<File> = self.shared.being_written.files().drain().map(|(_watch, file)| file).collect();
        rest.iter().for_each(|file| self.place(file));
        self.locks.release();
    }

    /// Makes the name, as if what was written had been renamed to it at this moment.
    fn place(&self, file: &File) {
        let Ok(path) = file.place.path() else { return };
        // Somebody has given the name to another: as after a rename this one has none.
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
