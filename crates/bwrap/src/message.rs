// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors and warnings in bubblewrap's words.

use palisade_text::Show as _;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use crate::strerror;

/// `ENOSPC`
const NO_SPACE: i32 = 28;
/// What a mount that the kernel answers with `ENOSPC` is told as: it has nothing to do with the disk.
const TOO_MANY_MOUNTS: &str =
    "Limit exceeded (ENOSPC). (Hint: Check that /proc/sys/fs/mount-max is sufficient, typically 100000)";

/// How bad it is, in syslog's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The sandbox isn't started.
    Error,
    /// The sandbox is started, though something is odd.
    Warning,
}

/// One line for standard error. Its text may have any bytes, because arguments are repeated in it as they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    severity: Severity,
    prefixed: bool,
    text: Vec<u8>,
}

impl Message {
    /// A message without `--level-prefix`.
    #[must_use]
    pub fn new(severity: Severity, text: impl Into<Vec<u8>>) -> Self {
        Self { severity, prefixed: false, text: text.into() }
    }

    /// The same message, with its severity in front if `--level-prefix` is in force.
    #[must_use]
    pub fn prefixed(self, level_prefix: bool) -> Self {
        Self { prefixed: level_prefix, ..self }
    }

    /// How bad it is.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// The text alone.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// What is written to standard error, with the end of the line.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        let prefix: &[u8] = match (self.prefixed, self.severity) {
            (false, _) => b"",
            (true, Severity::Error) => b"<3>",
            (true, Severity::Warning) => b"<4>",
        };
        // The caller may have taken names from elsewhere, and a name must not change what a terminal shows.
        let text = OsStr::from_bytes(&self.text).shown().to_string();
        [prefix, b"bwrap: ", text.as_bytes(), b"\n"].concat()
    }
}

/// Why the sandbox isn't started. The program ends with [`Failure::EXIT_CODE`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    message: Message,
    is_refusal: bool,
}

impl Failure {
    /// With what the program ends.
    pub const EXIT_CODE: u8 = 1;

    /// A failure with this text.
    #[must_use]
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        Self { message: Message::new(Severity::Error, text), is_refusal: false }
    }

    /// A failure with this text and the kernel's reason.
    #[must_use]
    pub fn because(text: impl Into<Vec<u8>>, error: &io::Error) -> Self {
        Self::joined(text.into(), &reason(error))
    }

    /// A failed mount with this text and the kernel's reason.
    #[must_use]
    pub fn mount(text: impl Into<Vec<u8>>, error: &io::Error) -> Self {
        if error.raw_os_error() == Some(NO_SPACE) {
            return Self::joined(text.into(), TOO_MANY_MOUNTS);
        }
        Self::because(text, error)
    }

    fn joined(mut text: Vec<u8>, reason: &str) -> Self {
        text.extend_from_slice(b": ");
        text.extend_from_slice(reason.as_bytes());
        Self::new(text)
    }

    /// The same failure, with its severity in front if `--level-prefix` is in force.
    #[must_use]
    pub fn prefixed(self, level_prefix: bool) -> Self {
        Self { message: self.message.prefixed(level_prefix), ..self }
    }

    /// The same failure, of a call that the kernel refuses where a setting of the host forbids user namespaces or what is
    /// done in them.
    pub(crate) fn refused(self) -> Self {
        Self { is_refusal: true, ..self }
    }

    /// The same failure, for a process that leaves the explanation to the monitor.
    pub(crate) fn explained_elsewhere(self) -> Self {
        Self { is_refusal: false, ..self }
    }

    /// Whether a setting of the host may be the reason, and this process explains it.
    pub(crate) fn is_refusal(&self) -> bool {
        self.is_refusal
    }

    /// What is printed.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.message
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(self.message.text()))
    }
}

impl std::error::Error for Failure {}

/// glibc's text of the kernel's reason.
fn reason(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), strerror::text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_severity_only_when_asked() {
        let warning = Message::new(Severity::Warning, "a \u{e9}");
        assert_eq!(warning.line(), "bwrap: a \u{e9}\n".as_bytes());
        assert_eq!(warning.prefixed(true).line(), "<4>bwrap: a \u{e9}\n".as_bytes());
        let failure = Failure::new(b"\xff\x1b[31m".to_vec());
        assert_eq!(failure.message().line(), "bwrap: \\xff\\u{1b}[31m\n".as_bytes());
        assert_eq!(failure.prefixed(true).message().line(), "<3>bwrap: \\xff\\u{1b}[31m\n".as_bytes());
    }

    #[test]
    fn the_kernels_reason_is_in_glibcs_words() {
        let error = io::Error::from_raw_os_error(2);
        assert_eq!(Failure::because("Can't", &error).to_string(), "Can't: No such file or directory");
        assert_eq!(Failure::mount("Can't", &error).to_string(), "Can't: No such file or directory");
        let full = io::Error::from_raw_os_error(28);
        assert_eq!(Failure::because("Can't", &full).to_string(), "Can't: No space left on device");
        assert_eq!(Failure::mount("Can't", &full).to_string(), format!("Can't: {TOO_MANY_MOUNTS}"));
        let other = io::Error::other("odd");
        assert_eq!(Failure::because("Can't", &other).to_string(), "Can't: odd");
    }
}
