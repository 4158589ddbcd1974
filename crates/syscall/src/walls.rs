// SPDX-License-Identifier: Apache-2.0 OR MIT
//! States what happens to a call behind the filter: which other walls judge it, and by what.

use crate::{Errno, Error, Syscall};
use std::fmt;
use std::sync::LazyLock;

/// The wall that judges a call which the filter allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The broker, for calls that the filter passes on to it.
    Broker,
    /// Landlock.
    Landlock,
    /// A namespace of the sandbox.
    Namespace,
    /// The kernel's own checks: no process inside has capabilities.
    Kernel,
}

/// What one wall does with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wall {
    /// The wall.
    pub by: By,
    /// The error, if every such call fails.
    pub errno: Option<Errno>,
    /// A description.
    pub words: String,
    calls: Vec<Syscall>,
}

static WALLS: LazyLock<Vec<Wall>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the text is part of the program, and a test parses it")]
    parse(include_str!("data/walls.list")).expect("data/walls.list parses")
});

/// The walls that judge a call, in their order.
pub fn of(call: Syscall) -> impl Iterator<Item = &'static Wall> {
    WALLS.iter().filter(move |wall| wall.calls.contains(&call))
}

impl By {
    /// `broker`, `landlock`, `namespace` or `kernel`.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Landlock => "landlock",
            Self::Namespace => "namespace",
            Self::Kernel => "kernel",
        }
    }

    fn from_key(key: &str) -> Option<Self> {
        [Self::Broker, Self::Landlock, Self::Namespace, Self::Kernel].into_iter().find(|by| by.key() == key)
    }
}

/// `Landlock refuses it with EACCES: no rule can be about queues`
impl fmt::Display for Wall {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = match self.by {
            By::Broker => "the broker",
            By::Landlock => "Landlock",
            By::Namespace => "the namespace",
            By::Kernel => "the kernel",
        };
        match self.errno {
            Some(errno) => write!(to, "{who} refuses it with {errno}: {}", self.words),
            None => write!(to, "{who} {}", self.words),
        }
    }
}

fn parse(text: &str) -> Result<Vec<Wall>, Error> {
    let mut walls = Vec::new();
    for (index, whole) in
        text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
    {
        let wrong = |problem| Error::Line { line: index + 1, problem, text: whole.to_owned() };
        let (line, words) = whole.split_once('#').ok_or_else(|| wrong("no words after `#`"))?;
        let mut parts = line.split_whitespace();
        let by = parts.next().and_then(By::from_key).ok_or_else(|| wrong("unknown wall"))?;
        let errno = match parts.next() {
            Some("judges") => None,
            Some(name) => Some(Errno::from_name(name).ok_or_else(|| wrong("not an error"))?),
            None => return Err(wrong("no answer")),
        };
        let calls = parts.map(str::parse).collect::<Result<Vec<Syscall>, _>>()?;
        walls.push(Wall { by, errno, words: words.trim().to_owned(), calls });
    }
    Ok(walls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Action;
    use crate::rules::{BROKER_LIST, DATAGRAM_LIST};

    #[test]
    fn what_the_broker_is_asked_about_is_said() {
        for (call, rule) in
            BROKER_LIST.iter().chain(DATAGRAM_LIST.iter()).filter(|(_, rule)| rule.action == Action::Notify)
        {
            assert!(of(*call).any(|wall| wall.by == By::Broker), "{call}: {}", rule.reason);
        }
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, message) in [
            ("landlock EPERM mount", "no words after `#`"),
            ("\nfirewall EPERM mount # x", "line 2: unknown wall"),
            ("landlock ENO mount # x", "not an error"),
            ("kernel # x", "no answer"),
            ("kernel judges muont # x", "did you mean `mount`?"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
