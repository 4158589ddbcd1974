// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be wrong with rules.

/// Why rules can't be read or compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No supported architecture has a call of this name.
    #[error("unknown system call `{name}`{}", hint(.nearest.as_deref()))]
    UnknownCall {
        /// The name as it was given.
        name: String,
        /// A known name that is spelt almost so.
        nearest: Option<String>,
    },
    /// The launcher itself makes this call after the filter is loaded.
    #[error("system call `{name}` can't be denied: starting or ending the program itself needs it")]
    NeededCall {
        /// The name as it was given.
        name: String,
    },
    /// A call is allowed that would get around the broker.
    #[error("with `{name}` allowed, names can't be protected: it reaches files past the broker")]
    PastTheBroker {
        /// The call.
        name: &'static str,
    },
    /// A line of a rule list doesn't follow the format.
    #[error("rule list, line {line}: {problem}: `{text}`")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
        /// The part that is wrong.
        text: String,
    },
    /// More instructions than the kernel takes (`BPF_MAXINSNS`).
    #[error("the compiled filter has {length} instructions; the kernel takes {limit}")]
    TooLong {
        /// Instructions of the compiled filter.
        length: usize,
        /// The kernel's limit.
        limit: usize,
    },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}
