// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many threads that make files at the same time. Each thread creates, writes, closes and removes its own files in the
//! working directory.

use std::io;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags};

use super::caller::CallerError;

/// This many threads, also on few processors.
const THREADS: usize = 16;
/// The content of each file.
const TEXT: &[u8] = b"text\n";

/// The result of a storm.
pub(super) struct Passed {
    /// The time from the first call to the last, per file.
    pub(super) of_file: f64,
    /// The time, in seconds, within which 99 of 100 calls that create or remove a name ended.
    pub(super) percentile: f64,
    /// The number of files that were created, checked and removed.
    pub(super) files: usize,
}

fn failed(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> CallerError {
    move |errno| CallerError::Call { what, source: errno.into() }
}

/// Creates and removes this many files.
pub(super) fn make(count: u32) -> Result<Passed, CallerError> {
    let each = usize::try_from(count).unwrap_or(usize::MAX).div_ceil(THREADS);
    let barrier = Barrier::new(THREADS + 1);
    let (elapsed, made) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let barrier = &barrier;
                std::thread::Builder::new().stack_size(64 * 1024).spawn_scoped(scope, move || {
                    barrier.wait();
                    of_thread(thread, each)
                })
            })
            .collect();
        barrier.wait();
        let begun = Instant::now();
        let made: Vec<_> = threads.into_iter().map(|thread| thread.map(|thread| thread.join())).collect();
        (begun.elapsed(), made)
    });
    let mut calls = Vec::with_capacity(2 * THREADS * each);
    for thread in made {
        let cant = |source| CallerError::Call { what: "start a thread", source };
        let joined = thread.map_err(cant)?;
        calls.extend(joined.map_err(|_panicked| cant(io::ErrorKind::Other.into()))??);
    }
    calls.sort_unstable();
    let files = calls.len() / 2;
    let percentile = calls.get(calls.len() * 99 / 100).copied().unwrap_or_default().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    let of_file = elapsed.as_secs_f64() / files.max(1) as f64;
    Ok(Passed { of_file, percentile, files })
}

/// The duration of each call about a name.
fn of_thread(thread: usize, files: usize) -> Result<Vec<Duration>, CallerError> {
    let how = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut calls = Vec::with_capacity(2 * files);
    for number in 0..files {
        let name = format!("storm-{thread}-{number}");
        let begun = Instant::now();
        let file =
            rustix::fs::openat(CWD, &name, how, Mode::RUSR | Mode::WUSR).map_err(failed("make a file"))?;
        calls.push(begun.elapsed());
        if rustix::io::write(&file, TEXT).map_err(failed("write"))? != TEXT.len() {
            return Err(CallerError::Call { what: "write", source: io::ErrorKind::WriteZero.into() });
        }
        drop(file);
        let begun = Instant::now();
        rustix::fs::unlink(&name).map_err(failed("remove a file"))?;
        calls.push(begun.elapsed());
    }
    Ok(calls)
}
