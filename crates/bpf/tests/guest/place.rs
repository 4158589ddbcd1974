// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What several runs of this program share: `target/guest`, with kernels and archives that one of them makes, and two
//! seats.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

/// How many machines run at a time on this host, in all runs: each has two processors and 768 MB.
pub(crate) const AT_ONCE: usize = 2;

/// `target/guest` of the repository clone in which this program was built.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is target/tmp").join("guest")
}

fn lock(name: &str, operation: FlockOperation) -> io::Result<Option<File>> {
    fs::create_dir_all(directory())?;
    let file = File::options().create(true).append(true).open(directory().join(name))?;
    match flock(&file, operation) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Does work that only one run may do at a time; the others find it done.
pub(crate) fn prepare<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let locked = lock("lock", FlockOperation::LockExclusive);
    let _locked = locked.map_err(|error| format!("lock {}: {error}", directory().display()))?;
    work()
}

/// Waits for one of the seats. The seat is held until the result is dropped. A seat always becomes free, because a machine
/// has a time limit.
pub(crate) fn seat() -> File {
    loop {
        for number in 0..AT_ONCE {
            let seat = lock(&format!("seat-{number}"), FlockOperation::NonBlockingLockExclusive);
            if let Some(seat) = seat.expect("it was locked a moment ago to prepare") {
                return seat;
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
