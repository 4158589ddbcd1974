// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains what happens for a call and why, and prints a filter as text.

use std::fmt::{self, Write};

use crate::program::{ARCHITECTURE, IF_ANY_BIT, IF_AT_LEAST, IF_EQUAL, JUMP, LOAD, NUMBER, RETURN, half};
use crate::{Action, Arch, Errno, Filter, Rule, Rules, Syscall};

/// What happens for one call. Its text is shown to users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation<'a> {
    /// The call.
    pub call: Syscall,
    /// Its number, where the architecture has it.
    pub number: Option<u32>,
    /// The rules for the call. The first one that matches decides.
    pub rules: &'a [Rule],
    /// The action if no rule matches.
    pub otherwise: Action,
}

impl Rules {
    /// Explains what these rules do with one call.
    #[must_use]
    pub fn explain(&self, call: Syscall, arch: Arch) -> Explanation<'_> {
        Explanation { call, number: call.number(arch), rules: self.of(call), otherwise: self.default }
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => writeln!(f, "{} (system call {number})", self.call)?,
            None => return writeln!(f, "{}: this architecture has no such call", self.call),
        }
        for rule in self.rules {
            if rule.tests.is_empty() {
                return writeln!(f, "  {}: {}", rule.action, rule.reason);
            }
            writeln!(f, "  {} when {}: {}", rule.action, rule.condition, rule.reason)?;
        }
        let otherwise = if self.rules.is_empty() { "" } else { " otherwise" };
        writeln!(f, "  {}{otherwise}", self.otherwise)
    }
}

impl Filter {
    /// The program as text, one instruction per line. `arch` selects the names of the call numbers.
    #[must_use]
    pub fn listing(&self, arch: Arch) -> String {
        let mut text = String::new();
        let mut loaded = None;
        for (index, at) in self.program.iter().enumerate() {
            let next = index + 1;
            let yes = next + usize::from(at.jt);
            let no = next + usize::from(at.jf);
            let operation = match at.code {
                LOAD => {
                    loaded = Some(at.k);
                    format!("load {}", place(at.k))
                }
                JUMP => format!("goto {}", next + usize::try_from(at.k).unwrap_or(usize::MAX - next)),
                RETURN => format!("return {}", answer(at.k)),
                IF_EQUAL | IF_AT_LEAST | IF_ANY_BIT => {
                    let sign = match at.code {
                        IF_EQUAL => "==",
                        IF_AT_LEAST => ">=",
                        _ => "&",
                    };
                    let value = match Syscall::from_number(arch, at.k) {
                        Some(call) if loaded == Some(NUMBER) => format!("{} {call}", at.k),
                        _ => format!("{:#x}", at.k),
                    };
                    format!("if {sign} {value} goto {yes} else {no}")
                }
                other => format!("code {other:#x} {:#x} {} {}", at.k, at.jt, at.jf),
            };
            // Writing to a String can't fail.
            let _ok = writeln!(text, "{index:4}  {operation}");
        }
        text
    }
}

fn place(offset: u32) -> String {
    match offset {
        NUMBER => "number".into(),
        ARCHITECTURE => "architecture".into(),
        _ => (0..6)
            .flat_map(|argument| [(argument, false), (argument, true)])
            .find(|&(argument, high)| half(argument, high) == offset)
            .map_or_else(
                || format!("offset {offset}"),
                |(argument, high)| format!("argument {argument}, {} half", if high { "high" } else { "low" }),
            ),
    }
}

fn answer(verdict: u32) -> String {
    let [high, low] = [verdict >> 16, verdict & 0xffff];
    match (high, u16::try_from(low).ok().and_then(Errno::new)) {
        (0x7fff, _) => "allow".into(),
        (0x7fc0, _) => "ask the broker".into(),
        (0x8000, _) => "kill the process".into(),
        (0x0005, Some(errno)) => errno.to_string(),
        _ => format!("{verdict:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile;

    fn explain(name: &str) -> String {
        Rules::deny_list().explain(name.parse().unwrap(), Arch::X86_64).to_string()
    }

    #[test]
    fn what_happens_and_why() {
        assert_eq!(
            explain("ptrace"),
            "ptrace (system call 101)\n  refused with EPERM: reads and steers other processes\n"
        );
        assert_eq!(explain("read"), "read (system call 0)\n  allowed\n");
        assert_eq!(
            explain("socketpair"),
            "socketpair (system call 53)\n  refused with EAFNOSUPPORT when arg0 not in AF_UNIX=1: \
             pairs are local\n  allowed otherwise\n"
        );
        let absent = Rules::deny_list().explain("iopl".parse().unwrap(), Arch::Aarch64).to_string();
        assert_eq!(absent, "iopl: this architecture has no such call\n");
    }

    #[test]
    fn a_filter_as_text() {
        let filter =
            compile(&Rules::new(Action::Allow).with(&[], &["ptrace"]).unwrap(), Arch::X86_64).unwrap();
        let listing = filter.listing(Arch::X86_64);
        assert!(listing.starts_with("   0  load architecture\n   1  if == 0xc000003e goto "), "{listing}");
        assert!(listing.contains("if == 101 ptrace goto "), "{listing}");
        assert!(listing.contains("return EPERM\n"), "{listing}");
    }
}
