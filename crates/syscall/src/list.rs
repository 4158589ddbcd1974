// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a rule list; `data/deny.list` describes the format.

use crate::rules::{Question, Width};
use crate::{Action, Errno, Error, Rule, Syscall, Test};

pub(crate) fn parse(text: &str) -> Result<Vec<(Syscall, Rule)>, Error> {
    let mut rules = Vec::new();
    for (index, whole) in text.lines().enumerate() {
        let wrong = |problem, text: &str| Error::Line { line: index + 1, problem, text: text.to_owned() };
        if whole.trim().is_empty() || whole.starts_with('#') {
            continue;
        }
        let (line, reason) = whole.split_once('#').ok_or_else(|| wrong("no reason after `#`", whole))?;
        let (name, rest) = word(line);
        let (answer, rest) = word(rest);
        let action = action(answer).ok_or_else(|| wrong("not an answer", answer))?;
        let condition = match word(rest) {
            ("", _) => "",
            ("when", condition) => condition.trim(),
            (other, _) => return Err(wrong("expected `when`", other)),
        };
        let tests = match condition {
            "" => Vec::new(),
            tests => self::condition(tests).map_err(|text| wrong("not a test", text))?,
        };
        let (condition, reason) = (condition.to_owned(), reason.trim().to_owned());
        rules.push((name.parse()?, Rule { action, tests, condition, reason }));
    }
    Ok(rules)
}

/// Parses tests with `and` between them. The error is the test that can't be parsed.
pub(crate) fn condition(text: &str) -> Result<Vec<Test>, &str> {
    text.split(" and ").map(|text| test(text).ok_or(text)).collect()
}

/// The first word, and the rest.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once(char::is_whitespace).unwrap_or((text, ""))
}

fn action(word: &str) -> Option<Action> {
    match word {
        "allow" => Some(Action::Allow),
        "kill" => Some(Action::KillProcess),
        "notify" => Some(Action::Notify),
        name => Errno::from_name(name).map(Action::Errno),
    }
}

/// `arg1 in NAME=0x5412,..`, `arg0 not in ..`, `arg0:64 has MASK`.
fn test(text: &str) -> Option<Test> {
    let (argument, rest) = word(text);
    let (index, width) = match argument.strip_prefix("arg")?.split_once(':') {
        Some((index, "64")) => (index, Width::Full),
        Some(_) => return None,
        None => (argument.strip_prefix("arg")?, Width::Low),
    };
    let question = match word(rest) {
        ("in", list) => Question::In(values(list)?),
        ("has", mask) => Question::Has(value(mask.trim())?),
        ("not", rest) => match word(rest) {
            ("in", list) => Question::NotIn(values(list)?),
            _ => return None,
        },
        _ => return None,
    };
    Test::new(index.parse().ok()?, width, question)
}

fn values(list: &str) -> Option<Vec<u64>> {
    list.trim().split(',').map(value).collect()
}

fn value(text: &str) -> Option<u64> {
    let number = text.rsplit_once('=').map_or(text, |(_, number)| number);
    match number.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_two_tests() {
        let rules = parse("# c\n\nsocket EPERM when arg0 in A=16 and arg2:64 not in 0,0xf # why\n").unwrap();
        let (call, rule) = &rules[0];
        assert_eq!(call.name(), "socket");
        assert_eq!(rule.reason, "why");
        assert_eq!(rule.condition, "arg0 in A=16 and arg2:64 not in 0,0xf");
        assert_eq!(
            rule.tests,
            [
                Test::new(0, Width::Low, Question::In(vec![16])).unwrap(),
                Test::new(2, Width::Full, Question::NotIn(vec![0, 15])).unwrap(),
            ]
        );
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, message) in [
            ("ptrace EPERM", "rule list, line 1: no reason after `#`: `ptrace EPERM`"),
            ("\nptrace EWHAT # x", "rule list, line 2: not an answer: `EWHAT`"),
            ("ptrace EPERM if # x", "rule list, line 1: expected `when`: `if`"),
            ("ioctl EPERM when arg6 in 1 # x", "rule list, line 1: not a test: `arg6 in 1`"),
            ("ioctl EPERM when arg1:32 in 1 # x", "rule list, line 1: not a test: `arg1:32 in 1`"),
            ("ioctl EPERM when arg1 in 1,,2 # x", "rule list, line 1: not a test: `arg1 in 1,,2`"),
            ("iotcl EPERM # x", "unknown system call `iotcl`; did you mean `ioctl`?"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message);
        }
    }
}
