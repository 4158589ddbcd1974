// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets a file's access and modification times, in the three forms that the kernel's calls use.

use crate::broker::attributes::Target;
use crate::broker::caller::Caller;
use crate::broker::open::CWD_NUMBER;
use crate::broker::{Outcome, Worker};
use rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;

/// The form in which a call gives the two times.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// `struct utimbuf`.
    Seconds,
    /// `struct timeval[2]`.
    Microseconds,
    /// `struct timespec[2]`.
    Nanoseconds,
}

impl Form {
    /// The size of both times, in bytes.
    const fn size(self) -> usize {
        if matches!(self, Self::Seconds) { 16 } else { 32 }
    }

    /// Reads the times from a call's memory.
    fn read(self, bytes: &[u8]) -> Result<Timestamps, Errno> {
        let mut words = bytes.chunks_exact(8).map_while(|word| word.try_into().ok()).map(i64::from_ne_bytes);
        let mut word = || words.next().ok_or(Errno::FAULT);
        let mut time = || -> Result<Timespec, Errno> {
            let tv_sec = word()?;
            let tv_nsec = match self {
                Self::Seconds => 0,
                Self::Microseconds => match word()? {
                    micro @ 0..1_000_000 => micro * 1000,
                    _ => return Err(Errno::INVAL),
                },
                // The kernel validates the values, including "now" and "omit".
                Self::Nanoseconds => word()?,
            };
            Ok(Timespec { tv_sec, tv_nsec })
        };
        Ok(Timestamps { last_access: time()?, last_modification: time()? })
    }
}

impl Worker<'_> {
    /// `utime`, `utimes`, `futimesat` and `utimensat`. Argument `times` points to the times; a null pointer means
    /// now.
    ///
    /// `path` is the index of the argument with the path. `None` means the descriptor itself.
    pub(crate) fn set_times(
        &self,
        caller: &Caller<'_>,
        descriptor: i32,
        path: usize,
        (times, form): (usize, Form),
        flags: u32,
    ) -> Result<Outcome, Errno> {
        let times = if caller.argument(times) == 0 {
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            Timestamps { last_access: now, last_modification: now }
        } else {
            form.read(&caller.bytes(times, form.size())?)?
        };
        if matches!(form, Form::Nanoseconds)
            && [times.last_access, times.last_modification].iter().all(|time| time.tv_nsec == UTIME_OMIT)
        {
            // The kernel doesn't even look at the path.
            return Ok(Outcome::Value(0));
        }
        let target = if caller.argument(path) == 0 && descriptor != CWD_NUMBER {
            if flags != 0 {
                return Err(Errno::INVAL);
            }
            Target::of(caller.open_file(descriptor)?)?
        } else {
            self.target_at(caller, (descriptor, path), flags)?
        };
        let _order = self.shared.read_order();
        self.permit_attributes(caller, &target)?;
        rustix::fs::utimensat(target.object(), c"", &times, AtFlags::EMPTY_PATH)?;
        Ok(Outcome::Value(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: Form, words: &[i64]) -> Result<[(i64, i64); 2], Errno> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let times = form.read(&bytes)?;
        let both = [times.last_access, times.last_modification];
        Ok(both.map(|time| (time.tv_sec, time.tv_nsec)))
    }

    #[test]
    fn each_form_has_its_unit() {
        assert_eq!(read(Form::Seconds, &[1, -2]), Ok([(1, 0), (-2, 0)]));
        assert_eq!(read(Form::Microseconds, &[1, 2, 3, 999_999]), Ok([(1, 2000), (3, 999_999_000)]));
        assert_eq!(read(Form::Nanoseconds, &[1, 2, 0, UTIME_OMIT]), Ok([(1, 2), (0, UTIME_OMIT)]));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        assert_eq!(read(Form::Microseconds, &[1, 1_000_000, 1, 1]), Err(Errno::INVAL));
        assert_eq!(read(Form::Microseconds, &[1, 1, 1, -1]), Err(Errno::INVAL));
        assert_eq!(read(Form::Seconds, &[1]), Err(Errno::FAULT));
    }
}
