// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Identifies one start of a sandbox.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use palisade_text::{harmless, quoted};

use crate::event::{LONGEST, shorten};

/// One start of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Launch {
    /// Its number: short enough to type and never used twice. It consists of the launcher's process number and a part
    /// of the time.
    pub sandbox: Arc<str>,
    /// The command line, on one line, without control characters.
    pub command: Arc<str>,
}

impl Launch {
    /// A launch of `command` by the launcher with the process number `pid`, at `time`.
    #[must_use]
    pub fn new<S: AsRef<OsStr>>(command: &[S], pid: u32, time: SystemTime) -> Self {
        let micros = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let mut line = String::new();
        for word in command {
            if line.len() > LONGEST {
                break;
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&quoted(&word.as_ref().to_string_lossy()));
        }
        let mut line = harmless(&line);
        shorten(&mut line, LONGEST);
        Self {
            // Process numbers are reused, but not within the same microsecond of a period of 16 seconds.
            sandbox: format!("{pid}-{:06x}", micros & 0xff_ffff).into(),
            command: line.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_launch_is_one_harmless_line() {
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let launch = Launch::new(&["sh", "-c", "echo 'a'\n\x1b[2J", ""], 7, now);
        assert_eq!(&*launch.command, r"sh -c 'echo '\''a'\''\n\u{1b}[2J' ''");
        let long = Launch::new(&["ä".repeat(5000)], 7, now);
        assert!(long.command.len() <= LONGEST + '…'.len_utf8() && long.command.ends_with('…'));
        assert!(launch.sandbox.starts_with("7-"));
        let later = Launch::new(&["sh"], 7, now + Duration::from_micros(5));
        assert_ne!(launch.sandbox, later.sandbox);
    }
}
