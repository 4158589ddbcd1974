// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The replies that a policy states for certain system calls, or for opening certain paths.

use crate::suggest;
use serde::Serialize;

pub(crate) mod order;

/// An entry of `syscalls.answers`.
///
/// The filter compiler checks whether the call exists and which arguments it has.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct SyscallReply {
    /// What gets the reply.
    #[serde(flatten)]
    pub question: Question,
    /// The reply.
    #[serde(flatten)]
    pub action: Action,
}

/// What a reply is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// A system call.
    Call {
        /// Its name.
        call: String,
        /// A condition on its arguments. If empty, any arguments match.
        #[serde(skip_serializing_if = "String::is_empty")]
        when: String,
    },
    /// Opening a path, as seen inside.
    Open {
        /// The path; must be absolute.
        open: String,
    },
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// The call is made.
    Allow,
    /// The user is asked.
    Ask,
    /// The call isn't made, and returns this value.
    Return {
        /// The value.
        value: i64,
    },
    /// The call isn't made, and fails.
    Deny {
        /// The error's name.
        errno: String,
    },
    /// Another path (as seen inside) is opened.
    Redirect {
        /// The path; must be absolute.
        to: String,
    },
    /// The caller gets one of the descriptors with which palisade was started.
    Give {
        /// Its number in palisade.
        descriptor: u32,
    },
}

/// The keys of an entry.
pub(crate) const KEYS: [&str; 8] = ["call", "when", "open", "action", "errno", "value", "to", "descriptor"];

/// The words for actions.
pub(crate) const ACTIONS: [&str; 6] = ["allow", "ask", "return", "deny", "redirect", "give"];

/// Errors in an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The entry names neither a call nor a path, or both.
    #[error("an answer needs either `call` or `open`")]
    Question,
    /// The action is missing.
    #[error("an answer needs an `action`")]
    NoAction,
    /// The action is unknown.
    #[error("`{word}` is no action")]
    Unknown {
        /// The word.
        word: String,
        /// The most similar known action.
        nearest: Option<&'static str>,
    },
    /// The action isn't possible for a call, or for a path.
    #[error("{what} can't be answered with `{action}`")]
    Misplaced {
        /// `a call` or `opening a path`.
        what: &'static str,
        /// The action.
        action: &'static str,
    },
    /// A key that the action needs is missing.
    #[error("the action `{action}` needs `{key}`")]
    Missing {
        /// The action.
        action: &'static str,
        /// The key.
        key: &'static str,
    },
    /// A key belongs to another action.
    #[error("the action `{action}` doesn't take `{key}`")]
    Foreign {
        /// The action.
        action: &'static str,
        /// The key.
        key: &'static str,
    },
    /// A path isn't absolute, or isn't plain.
    #[error("{path:?} isn't valid here: write an absolute path without patterns, `.` or `..`")]
    Path {
        /// The path.
        path: String,
    },
    /// A value that the kernel would treat as an error, or an invalid descriptor number.
    #[error("{number} isn't valid: {range}")]
    Range {
        /// The number.
        number: i64,
        /// The accepted range.
        range: &'static str,
    },
    /// The same call or path has another reply.
    #[error("{question} has another answer in line {line}")]
    Contradiction {
        /// The call or path.
        question: String,
        /// The line of the other reply.
        line: u32,
    },
    /// The list `deny` also contains the call.
    #[error("`{call}` is also in the list `deny` in line {line}")]
    Denied {
        /// The call.
        call: String,
        /// The line of that entry.
        line: u32,
    },
}

impl ReplyError {
    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Question | Self::NoAction => {
                "{ call = \"sethostname\", action = \"deny\", errno = \"EPERM\" }".to_owned()
            }
            Self::Unknown { nearest: Some(nearest), .. } => format!("did you mean `{nearest}`?"),
            Self::Unknown { nearest: None, .. } => format!("actions: {}", ACTIONS.join(", ")),
            Self::Misplaced { what: "a call", .. } => {
                "a call is answered with allow, ask, return or deny".to_owned()
            }
            Self::Misplaced { .. } => "a path is refused by [filesystem] hide or deny, and opening it is \
                answered with redirect or give"
                .to_owned(),
            Self::Missing { action: "redirect", .. } => {
                "{ open = \"/etc/machine-id\", action = \"redirect\", to = \"/srv/machine-id\" }".to_owned()
            }
            Self::Missing { action: "give", .. } => {
                "{ open = \"/run/token\", action = \"give\", descriptor = 3 }".to_owned()
            }
            Self::Missing { .. } => "{ call = \"chown\", action = \"return\", value = 0 }".to_owned(),
            Self::Contradiction { .. } | Self::Denied { .. } => "remove one of the two entries".to_owned(),
            _ => return None,
        })
    }
}

impl Action {
    /// The word in a policy file.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Return { .. } => "return",
            Self::Deny { .. } => "deny",
            Self::Redirect { .. } => "redirect",
            Self::Give { .. } => "give",
        }
    }

    /// How firmly the reply prevents the call. All replies for paths are equally firm.
    const fn firmness(&self) -> u8 {
        match self {
            Self::Allow => 0,
            Self::Ask => 1,
            Self::Return { .. } | Self::Redirect { .. } | Self::Give { .. } => 2,
            Self::Deny { .. } => 3,
        }
    }
}

impl std::fmt::Display for Question {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call { call, when } if when.is_empty() => to.write_str(call),
            Self::Call { call, when } => write!(to, "{call} when {when}"),
            Self::Open { open } => write!(to, "opening {open}"),
        }
    }
}

/// `prctl when arg0 in 15: deny EPERM`
impl std::fmt::Display for SyscallReply {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}: {}", self.question, self.action.key())?;
        match &self.action {
            Action::Allow | Action::Ask => Ok(()),
            Action::Return { value } => write!(to, " {value}"),
            Action::Deny { errno } => write!(to, " {errno}"),
            Action::Redirect { to: path } => write!(to, " to {path}"),
            Action::Give { descriptor } => write!(to, " descriptor {descriptor}"),
        }
    }
}

impl Question {
    /// What the reply is for, whatever the arguments are.
    #[must_use]
    pub fn subject(&self) -> &str {
        match self {
            Self::Call { call, .. } => call,
            Self::Open { open } => open,
        }
    }

    const fn is_narrow(&self) -> bool {
        matches!(self, Self::Call { when, .. } if !when.is_empty())
    }
}

/// The keys of an entry, as a file states them.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) call: Option<String>,
    pub(crate) when: Option<String>,
    pub(crate) open: Option<String>,
    pub(crate) action: Option<String>,
    pub(crate) errno: Option<String>,
    pub(crate) value: Option<i64>,
    pub(crate) to: Option<String>,
    pub(crate) descriptor: Option<i64>,
}

impl Written {
    pub(crate) fn read(self) -> Result<SyscallReply, ReplyError> {
        let of_call = match (&self.call, &self.open) {
            (Some(_), None) => true,
            (None, Some(_)) => false,
            _ => return Err(ReplyError::Question),
        };
        let word = self.action.as_deref().ok_or(ReplyError::NoAction)?;
        let action = ACTIONS.iter().copied().find(|action| *action == word).ok_or_else(|| {
            ReplyError::Unknown { word: word.to_owned(), nearest: suggest::nearest(word, ACTIONS) }
        })?;
        let (own, calls): (Option<&'static str>, bool) = match action {
            "return" => (Some("value"), true),
            "deny" => (Some("errno"), true),
            "redirect" => (Some("to"), false),
            "give" => (Some("descriptor"), false),
            _ => (None, true),
        };
        if calls != of_call {
            let what = if of_call { "a call" } else { "opening a path" };
            return Err(ReplyError::Misplaced { what, action });
        }
        let has = [
            ("when", self.when.is_some() && !of_call),
            ("errno", self.errno.is_some()),
            ("value", self.value.is_some()),
            ("to", self.to.is_some()),
            ("descriptor", self.descriptor.is_some()),
        ];
        if let Some((key, _)) = has.iter().find(|(key, there)| *there && Some(*key) != own) {
            return Err(ReplyError::Foreign { action, key });
        }
        let missing = |key| ReplyError::Missing { action, key };
        let action = match action {
            "allow" => Action::Allow,
            "ask" => Action::Ask,
            "return" => {
                let value = self.value.ok_or_else(|| missing("value"))?;
                if (-4095..0).contains(&value) {
                    let range = "values from -4095 to -1 are errors, which need the action `deny`";
                    return Err(ReplyError::Range { number: value, range });
                }
                Action::Return { value }
            }
            "deny" => Action::Deny { errno: self.errno.unwrap_or_else(|| "EPERM".to_owned()) },
            "redirect" => Action::Redirect { to: plain(self.to.ok_or_else(|| missing("to"))?)? },
            _ => {
                let number = self.descriptor.ok_or_else(|| missing("descriptor"))?;
                let descriptor = u32::try_from(number).ok().filter(|number| *number < 1 << 20);
                let range = "a descriptor's number is 0 to 1048575";
                let descriptor = descriptor.ok_or(ReplyError::Range { number, range })?;
                Action::Give { descriptor }
            }
        };
        let question = match (self.call, self.open) {
            (Some(call), _) => Question::Call { call, when: self.when.unwrap_or_default() },
            (_, Some(open)) => Question::Open { open: plain(open)? },
            _ => return Err(ReplyError::Question),
        };
        Ok(SyscallReply { question, action })
    }
}

/// Checks that a path is absolute and plain, so that it has one meaning.
fn plain(path: String) -> Result<String, ReplyError> {
    let fine = path.len() < 4096
        && path.strip_prefix('/').is_some_and(|rest| {
            rest.split('/').all(|name| !matches!(name, "" | "." | "..") && !name.contains(['\0', '*', '?']))
        });
    if fine { Ok(path) } else { Err(ReplyError::Path { path }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Layer;
    use crate::parse::parse;

    fn policy(layer: Layer, text: &str) -> crate::settings::LayerPolicy {
        parse(&format!("schema = 1\n{text}"), None, layer).unwrap()
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (entry, message) in [
            ("action = \"deny\"", "an answer needs either `call` or `open`"),
            ("call = \"a\", open = \"/b\", action = \"deny\"", "an answer needs either"),
            ("call = \"a\"", "an answer needs an `action`"),
            ("call = \"a\", action = \"denny\"", "`denny` is no action"),
            ("call = \"a\", action = \"give\", descriptor = 1", "a call can't be answered with `give`"),
            ("open = \"/a\", action = \"deny\"", "opening a path can't be answered with `deny`"),
            ("call = \"a\", action = \"return\"", "the action `return` needs `value`"),
            ("call = \"a\", action = \"return\", value = -1", "-1 isn't valid"),
            ("call = \"a\", action = \"ask\", errno = \"EPERM\"", "the action `ask` doesn't take `errno`"),
            (
                "open = \"/a\", when = \"arg0 in 1\", action = \"give\", descriptor = 1",
                "the action `give` doesn't take `when`",
            ),
            ("open = \"a\", action = \"redirect\", to = \"/b\"", "\"a\" isn't valid here"),
            ("open = \"/a/../b\", action = \"redirect\", to = \"/b\"", "\"/a/../b\" isn't valid here"),
            ("open = \"/a\", action = \"redirect\", to = \"/*\"", "\"/*\" isn't valid here"),
            ("open = \"/a\", action = \"give\", descriptor = -1", "-1 isn't valid"),
            ("call = \"A\", action = \"deny\"", "`A` is no name of a system call"),
            ("call = \"a\", action = \"deny\", errn = \"EPERM\"", "unknown key `errn`"),
            ("call = 1, action = \"deny\"", "`call` takes a string, not a number"),
        ] {
            let text = format!("schema = 1\n[syscalls]\nanswers = [{{ {entry} }}]\n");
            let errors = parse(&text, None, Layer::User).unwrap_err();
            let said = errors[0].problem.to_string();
            assert!(said.contains(message), "{entry}: {said}");
            assert_eq!(errors[0].line, 3, "{entry}");
        }
    }

    #[test]
    fn a_file_that_contradicts_itself_is_none() {
        let contradicts = |body: &str| {
            let errors = parse(&format!("schema = 1\n[syscalls]\n{body}\n"), None, Layer::User).unwrap_err();
            errors[0].problem.to_string()
        };
        let said = contradicts(
            "answers = [\n{ call = \"a\", action = \"deny\" },\n{ call = \"a\", action = \"allow\" }]",
        );
        assert_eq!(said, "a has another answer in line 4");
        let said = contradicts(
            "answers = [\n{ open = \"/a\", action = \"redirect\", to = \"/b\" },\n{ open = \"/a\", action = \"redirect\", to = \"/c\" }]",
        );
        assert_eq!(said, "opening /a has another answer in line 4");
        let said = contradicts("deny = [\"a\"]\nanswers = [{ call = \"a\", action = \"allow\" }]");
        assert_eq!(said, "`a` is also in the list `deny` in line 3");
        // Other arguments, another strength, or the same reply again: no contradiction.
        policy(
            Layer::User,
            "[syscalls]\nanswers = [{ call = \"a\", when = \"arg0 in 1\", action = \"deny\" }, \
             { call = \"a\", action = \"allow\" }, { call = \"a\", action = \"allow\" }]\n\
             [default.syscalls]\nanswers = [{ call = \"a\", action = \"ask\" }]\n",
        );
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = "[syscalls]\nanswers = [{ call = \"a\", when = \"arg0 in 1\", action = \"return\", value = 7 }, \
            { call = \"b\", action = \"deny\", errno = \"ENOENT\" }, { call = \"c\", action = \"ask\" }, \
            { open = \"/a b\", action = \"redirect\", to = \"/c\\\"\" }, { open = \"/d\", action = \"give\", descriptor = 3 }]\n\
            [process]\nrelease = \"5.4.0\"\nprocessors = 3\ntime = 951868801\n";
        let first = policy(Layer::User, text);
        let again = parse(&crate::render::render(&first), None, Layer::User).unwrap();
        let values = |policy: &crate::settings::LayerPolicy| -> Vec<SyscallReply> {
            policy.settings.answers.iter().map(|answer| answer.value.clone()).collect()
        };
        assert_eq!(values(&first).len(), 5);
        assert_eq!(values(&first), values(&again));
        assert_eq!(again.settings.processors[0].value, 3);
        assert_eq!(again.settings.time[0].value.to_string(), "2000-03-01T00:00:01Z");
        assert_eq!(again.settings.words.len(), 1);
    }
}
