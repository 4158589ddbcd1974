// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a line for each call: thread, name, arguments as numbers, result.

use super::error::InterposeError;
use super::report::name;
use crate::output;
use palisade_interpose::launch::{Call, Outcome};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The log file.
pub(super) struct Log {
    path: PathBuf,
    file: BufWriter<File>,
    /// The first error.
    failed: Option<io::Error>,
}

impl Log {
    /// Makes the file.
    pub(super) fn create(path: &Path) -> Result<Self, InterposeError> {
        let file =
            File::create(path).map_err(|source| InterposeError::Write { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file: BufWriter::with_capacity(1 << 16, file), failed: None })
    }

    /// Writes a call.
    pub(super) fn write(&mut self, call: &Call) {
        if self.failed.is_none() {
            self.failed = line(&mut self.file, call).err();
        }
    }

    /// Completes the log, and returns the first error.
    pub(super) fn finish(mut self, outcome: &Outcome) -> Result<(), InterposeError> {
        if outcome.dropped > 0 {
            let calls = if outcome.dropped == 1 { "call isn't" } else { "calls aren't" };
            output::note(&format_args!(
                "{} {calls} in {:?}: they came faster than they could be written",
                outcome.dropped, self.path
            ));
        }
        let written = match self.failed.take() {
            Some(error) => Err(error),
            None => self.file.flush(),
        };
        written.map_err(|source| InterposeError::Write { path: self.path, source })
    }
}

fn line(to: &mut impl Write, call: &Call) -> io::Result<()> {
    let [a, b, c, d, e, f] = call.arguments;
    write!(to, "{} {}({a:#x}, {b:#x}, {c:#x}, {d:#x}, {e:#x}, {f:#x}) = ", call.thread, name(call.number))?;
    match u16::try_from(-call.result) {
        Ok(number @ 1..4096) => {
            writeln!(to, "-1 {}", io::Error::from_raw_os_error(i32::from(number)))
        }
        _ if (0..0x1_0000_0000).contains(&call.result) => writeln!(to, "{}", call.result),
        _ => writeln!(to, "{:#x}", call.result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_result_or_the_error() {
        let written = |result| {
            let mut text = Vec::new();
            let call = Call { number: 257, thread: 7, arguments: [1, 2, 3, 4, 5, 0xffff], result };
            line(&mut text, &call).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(written(3), "7 openat(0x1, 0x2, 0x3, 0x4, 0x5, 0xffff) = 3\n");
        assert!(written(-2).ends_with(" = -1 No such file or directory (os error 2)\n"), "{}", written(-2));
        assert!(written(0x7fff_0000_0000).ends_with(" = 0x7fff00000000\n"));
    }
}
