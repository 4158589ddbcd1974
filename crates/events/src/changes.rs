// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects when another process writes to a store or creates one.

use std::ffi::OsString;
use std::io::Error;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// A wait without news ends after this time. The kernel doesn't report what other machines write on a shared file
/// system, nor renames of directories further up.
const FALLBACK: Duration = Duration::from_secs(2);
/// The same if the kernel can't watch.
const POLL: Duration = Duration::from_millis(250);
/// The log is written before its index. A reader that the log's change wakes may come too early for the index, so it
/// looks again after this time.
const SETTLING: Duration = Duration::from_millis(10);

/// Watches a store's directory, or the nearest existing directory above it.
#[derive(Debug)]
pub struct Changes {
    directory: PathBuf,
    name: OsString,
    watch: Option<Watch>,
    settling: bool,
}

#[derive(Debug)]
struct Watch {
    inotify: OwnedFd,
    directory: Option<(PathBuf, i32)>,
}

impl Changes {
    /// Starts to watch for the store at `path`.
    ///
    /// # Errors
    /// When the kernel can't watch. If only a limit prevents it, the store is checked often instead.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let watch = match inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) {
            Ok(inotify) => Some(Watch { inotify, directory: None }),
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOSYS) => None,
            Err(errno) => return Err(errno.into()),
        };
        let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
        let name = path.file_name().unwrap_or_default().to_owned();
        let mut changes = Self { directory, name, watch, settling: false };
        changes.renew();
        Ok(changes)
    }

    /// This descriptor is readable when there is news.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(|watch| watch.inotify.as_fd())
    }

    /// How long to wait for news before the store must be checked anyway.
    #[must_use]
    pub const fn patience(&self) -> Duration {
        match &self.watch {
            Some(_) if self.settling => SETTLING,
            Some(_) => FALLBACK,
            None => POLL,
        }
    }

    /// Reads the news after the wait. Check the store afterwards, whatever the news was.
    pub fn take(&mut self) {
        let heard = self.drain();
        self.renew();
        self.settling = heard;
    }

    /// Reads all events. Returns whether one is about the store's files.
    fn drain(&mut self) -> bool {
        let Some(watch) = &self.watch else { return false };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&watch.inotify, &mut buffer);
        let mut heard = false;
        // Ends when no event is left. After an error, the regular check still finds changes.
        while let Ok(event) = reader.next() {
            let ours =
                event.file_name().is_some_and(|name| name.to_bytes().starts_with(self.name.as_bytes()));
            heard |= ours || event.events().contains(ReadFlags::QUEUE_OVERFLOW);
        }
        heard
    }

    /// Watches the present directory at the path, or the nearest one above.
    fn renew(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        // A nearer directory may be created during the search. So search again until the result stays the same.
        for _attempt in 0..8 {
            let Some(nearest) = self.directory.ancestors().find(|directory| directory.is_dir()) else {
                return;
            };
            match watch.on(nearest, nearest == self.directory) {
                Ok(()) => {}
                Err(Errno::NOENT | Errno::NOTDIR) => continue,
                Err(_limit) => {
                    self.watch = None;
                    return;
                }
            }
            let now = self.directory.ancestors().find(|directory| directory.is_dir());
            if now == Some(nearest) {
                return;
            }
        }
    }
}

impl Watch {
    fn on(&mut self, directory: &Path, own: bool) -> Result<(), Errno> {
        let mut flags = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        if own {
            flags |= WatchFlags::MODIFY | WatchFlags::DELETE | WatchFlags::MOVED_FROM;
        }
        // If the directory is watched already, this returns the same number.
        let number = inotify::add_watch(&self.inotify, directory, flags)?;
        let before = self.directory.replace((directory.to_owned(), number));
        if let Some((_, before)) = before
            && before != number
        {
            // If the directory is gone, the kernel has removed the watch already.
            let _gone = inotify::remove_watch(&self.inotify, before);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::fs;

    fn hears(changes: &mut Changes, action: impl FnOnce()) -> bool {
        action();
        let timeout = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        let heard = {
            let mut descriptors = [PollFd::new(&changes.watch.as_ref().unwrap().inotify, PollFlags::IN)];
            poll(&mut descriptors, Some(&timeout)).unwrap() == 1
        };
        changes.take();
        heard
    }

    #[test]
    fn a_store_that_comes_to_be_several_directories_down() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/events.sqlite");
        let mut changes = Changes::new(&path).unwrap();
        assert!(!hears(&mut changes, || ()));
        assert!(hears(&mut changes, || fs::create_dir_all(path.parent().unwrap()).unwrap()));
        assert!(!changes.settling);
        assert!(hears(&mut changes, || fs::write(&path, "x").unwrap()));
        assert!(changes.settling && changes.patience() < FALLBACK);
        assert!(!hears(&mut changes, || ()));
        assert!(!changes.settling);
        assert!(hears(&mut changes, || fs::write(dir.path().join("a/b/events.sqlite-wal"), "x").unwrap()));
    }

    #[test]
    fn a_directory_that_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/events.sqlite");
        fs::create_dir(dir.path().join("a")).unwrap();
        let mut changes = Changes::new(&path).unwrap();
        fs::rename(dir.path().join("a"), dir.path().join("b")).unwrap();
        changes.take();
        assert!(hears(&mut changes, || fs::create_dir(dir.path().join("a")).unwrap()));
        assert!(hears(&mut changes, || fs::write(&path, "x").unwrap()));
    }
}
