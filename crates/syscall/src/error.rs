// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors in rules.

/// Why rules can't be read or compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No supported architecture has a call of this name.
    #[error("unknown system call `{name}`{}", hint(.nearest.as_deref()))]
    UnknownCall {
        /// The name as it was given.
        name: String,
        /// The most similar known name.
        nearest: Option<String>,
    },
    /// The launcher itself makes this call after the filter is loaded.
    #[error("system call `{name}` can't be denied: starting or ending the program itself needs it")]
    NeededCall {
        /// The name as it was given.
        name: String,
    },
    /// The policy allows a call that would bypass the broker.
    #[error("with `{name}` allowed, names can't be protected: `{name}` reaches files without the broker")]
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
    /// No error has this name.
    #[error("unknown error `{name}`{}", hint(.nearest.as_deref()))]
    UnknownErrno {
        /// The name as it was given.
        name: String,
        /// The most similar known name.
        nearest: Option<String>,
    },
    /// A condition on arguments can't be read.
    #[error(
        "invalid condition on the arguments of `{name}`: `{text}`; write `arg0 in 1,2`, `arg1 not in 0` or `arg2 has 0x40`"
    )]
    Condition {
        /// The call.
        name: String,
        /// The part that is wrong.
        text: String,
    },
    /// A condition is on an argument that the call doesn't have.
    #[error("`{name}` {}, and no argument {argument}", having(*.count))]
    NoArgument {
        /// The call.
        name: String,
        /// From 0.
        argument: u8,
        /// How many arguments the call has.
        count: u8,
    },
    /// A condition is on an argument that is an address.
    #[error(
        "argument {argument} of `{name}` is an address: the data at an address can change after a check, \
         so no condition can test it"
    )]
    Address {
        /// The call.
        name: String,
        /// From 0.
        argument: u8,
    },
    /// Without the call, no program could start or end.
    #[error("system call `{name}` can't be {word}: starting or ending a program needs it")]
    Needed {
        /// The call.
        name: String,
        /// What the policy does with it.
        word: &'static str,
    },
    /// Programs get this call's result without making the call (from the vDSO).
    #[error(
        "`{name}` can't be {word}: the kernel's vDSO answers it in the program's own memory, without a system call; \
         to change the time of day, set `time` in [process], or outside of a sandbox run \
         `palisade interpose --fake time=2030-01-01 -- COMMAND`"
    )]
    Vdso {
        /// The call.
        name: String,
        /// What the policy does with it.
        word: &'static str,
    },
    /// The broker judges this call, so a reply can't allow it.
    #[error(
        "`{name}` is judged by its path or address: state in [filesystem] or [network] what it may reach"
    )]
    Judged {
        /// The call.
        name: String,
    },
    /// The filter has more instructions than the kernel accepts (`BPF_MAXINSNS`).
    #[error("the compiled filter has {length} instructions; the kernel takes {limit}")]
    TooLong {
        /// Instructions of the compiled filter.
        length: usize,
        /// The kernel's limit.
        limit: usize,
    },
}

fn having(count: u8) -> String {
    match count.checked_sub(1) {
        None => "has no arguments".to_owned(),
        Some(last) => format!("has arguments 0 to {last}"),
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}
