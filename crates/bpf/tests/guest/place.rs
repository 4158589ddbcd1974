// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What several of this program share: `target/guest` with kernels and archives, made by one of them, and two seats.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

/// So many machines run at a time, whoever started them: each has two processors and 768 MB.
pub(crate) const AT_ONCE: usize = 2;

/// `target/guest` of the clone that this was built in.
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

/// Does what only one may do at a time; the others find it done.
pub(crate) fn prepare<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let locked = lock("lock", FlockOperation::LockExclusive);
    let _locked = locked.map_err(|error| format!("lock {}: {error}", directory().display()))?;
    work()
}

/// Waits for one of the seats, which is taken as long as the result lives. Its holder ends by itself: a machine has a
/// limit.
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
