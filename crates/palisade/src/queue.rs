// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps messages until the embedding program takes them.

use crate::{Message, Question};
use std::collections::VecDeque;

/// At most this many are kept; of further ones only the number. Programs inside can cause messages without end, and
/// memory is limited.
const KEPT: usize = 4096;

/// Messages in the order in which they came, and how many had no room.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    messages: VecDeque<Message>,
    lost: u64,
}

impl Queue {
    /// Keeps a message. A question is always kept, because the launcher asks few at a time.
    pub(crate) fn push(&mut self, message: Message) {
        match message {
            Message::Lost(count) => self.lost += count,
            Message::Question(_) => self.messages.push_back(message),
            _ if self.messages.len() < KEPT => self.messages.push_back(message),
            // One event may stand for many similar ones.
            Message::Event(event) => self.lost += event.count,
            Message::Note(_) => self.lost += 1,
        }
    }

    /// The next message. After the last one, how many were lost.
    pub(crate) fn pop(&mut self) -> Option<Message> {
        self.messages.pop_front().or_else(|| {
            let lost = std::mem::take(&mut self.lost);
            (lost > 0).then_some(Message::Lost(lost))
        })
    }

    /// Removes the questions from the queue and returns them.
    pub(crate) fn questions(&mut self) -> Vec<Question> {
        let mut questions = Vec::new();
        for message in std::mem::take(&mut self.messages) {
            match message {
                Message::Question(question) => questions.push(question),
                other => self.messages.push_back(other),
            }
        }
        questions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_takes_is_counted_but_for_questions() {
        let mut queue = Queue::default();
        for number in 0..=KEPT + 1 {
            queue.push(Message::Note(number.to_string()));
        }
        let question = Question {
            number: 7,
            program: "npm".to_owned(),
            action: "connect".to_owned(),
            why: "no answer allowed it".to_owned(),
            scope: None,
        };
        queue.push(Message::Question(question));
        queue.push(Message::Lost(3));
        assert_eq!(queue.questions().iter().map(|question| question.number).collect::<Vec<_>>(), [7]);
        let taken: Vec<Message> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(taken.len(), KEPT + 1);
        assert!(matches!(&taken[0], Message::Note(first) if first == "0"));
        assert!(matches!(taken.last(), Some(Message::Lost(5))), "{:?}", taken.last());
        assert!(queue.pop().is_none());
    }
}
