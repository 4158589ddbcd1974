// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses replies to system calls, and the time and processors that a program sees.

use toml::de::{DeTable, DeValue};

use super::{Node, Problem, Reader, find};
use crate::clock::StartTime;
use crate::layer::Sourced;
use crate::reply::{Action, KEYS, Question, ReplyError, SyscallReply, Written};
use crate::value::{MOST_PROCESSORS, SyscallRule, ValueError};

impl Reader<'_> {
    /// Parses `syscalls.answers`.
    pub(super) fn answers(&mut self, name: &str, node: &Node<'_>) {
        let DeValue::Array(entries) = node.get_ref() else {
            return self.wrong_type(name, "a list of tables", node.get_ref(), node.span());
        };
        for entry in entries.iter() {
            if !self.count(&entry.span()) {
                return;
            }
            let Some(table) = self.table(name, entry) else { continue };
            let before = self.errors.len();
            let written = self.answer(table);
            if self.errors.len() > before {
                continue;
            }
            match written.read() {
                Ok(answer) => {
                    if let Question::Call { call, .. } = &answer.question
                        && self.checked(SyscallRule::new(call, true), &entry.span()).is_none()
                    {
                        continue;
                    }
                    if let Some(error) = self.contradiction(&answer) {
                        self.error(Problem::Answer(error), entry.span());
                        continue;
                    }
                    let answer = self.sourced(answer, entry.span());
                    self.policy.settings.answers.push(answer);
                }
                Err(error) => self.error(Problem::Answer(error), entry.span()),
            }
        }
    }

    fn answer(&mut self, table: &DeTable<'_>) -> Written {
        self.refuse_unknown(table, "syscalls.answers", &KEYS);
        let mut word = |key: &str| find(table, key).and_then(|node| self.string(key, node));
        let (call, when, open) = (word("call"), word("when"), word("open"));
        let (action, errno, to) = (word("action"), word("errno"), word("to"));
        let mut number =
            |key: &str| find(table, key).and_then(|node| self.integer(key, "a whole number", node));
        let (value, descriptor) = (number("value"), number("descriptor"));
        Written { call, when, open, action, errno, value, to, descriptor }
    }

    /// A statement of the same file and strength that contradicts this one.
    fn contradiction(&self, answer: &SyscallReply) -> Option<ReplyError> {
        let settings = &self.policy.settings;
        let same = |other: &&Sourced<SyscallReply>| {
            other.strength == self.strength
                && other.value.question == answer.question
                && other.value.action != answer.action
        };
        if let Some(earlier) = settings.answers.iter().find(same) {
            let question = answer.question.to_string();
            return Some(ReplyError::Contradiction { question, line: earlier.origin.line });
        }
        let Question::Call { call, .. } = &answer.question else { return None };
        let denied = settings
            .syscalls
            .iter()
            .find(|rule| rule.strength == self.strength && !rule.value.allow && rule.value.name == *call)?;
        let other = !matches!(answer.action, Action::Deny { .. });
        other.then(|| ReplyError::Denied { call: call.clone(), line: denied.origin.line })
    }

    /// Parses `process.time`.
    pub(super) fn time(&mut self, name: &str, node: &Node<'_>) {
        let time = match node.get_ref() {
            DeValue::String(text) => StartTime::parse(text),
            DeValue::Integer(_) => match self.integer(name, "", node) {
                Some(seconds) => StartTime::from_seconds(seconds),
                None => return,
            },
            // TOML has its own dates, with more forms than are accepted here.
            DeValue::Datetime(date) => Err(ValueError::Time { text: date.to_string() }),
            other => {
                let expected = "a time (`\"2030-01-01\"`, `\"2030-01-01T12:00:00Z\"`, seconds since 1970)";
                return self.wrong_type(name, expected, other, node.span());
            }
        };
        if let Some(time) = self.checked(time, &node.span()) {
            let time = self.sourced(time, node.span());
            self.policy.settings.time.push(time);
        }
    }

    /// Parses `process.processors`.
    pub(super) fn processors(&mut self, name: &str, node: &Node<'_>) {
        let Some(number) = self.integer(name, "a whole number", node) else { return };
        match u32::try_from(number).ok().filter(|number| (1..=MOST_PROCESSORS).contains(number)) {
            Some(count) => {
                let count = self.sourced(count, node.span());
                self.policy.settings.processors.push(count);
            }
            None => {
                let range = "the number of processors is 1 to 1024";
                self.error(Problem::Answer(ReplyError::Range { number, range }), node.span());
            }
        }
    }
}
