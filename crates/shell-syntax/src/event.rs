// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events that a reader produces for a text, in order.

use std::ops::Range;

/// One event. All ranges are in the text, in bytes.
///
/// A command is its [`Assignment`](Event::Assignment)s, [`Word`](Event::Word)s and [`Redirect`](Event::Redirect)s, up
/// to the [`End`](Event::End) after them. A group of commands lies between [`Open`](Event::Open) and
/// [`Shut`](Event::Shut). Redirections after `Shut` belong to the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A command's name, or one of its arguments.
    Word(Range<usize>),
    /// `name=value` before a command's name; see [`Assignment`](crate::Assignment).
    Assignment(Range<usize>),
    /// A redirection of a command's input or output.
    Redirect(Redirect),
    /// The content of `(…)` among a command's words. For fish these are commands, for zsh patterns; for bash it is an
    /// error.
    Foreign(Range<usize>),
    /// The content of `((…))`.
    Sum(Range<usize>),
    /// `[[`: the words of a test follow as arguments, without brackets and operators.
    Test(Range<usize>),
    /// The variable of a loop; its values follow as items.
    Variable(Range<usize>),
    /// A value of a loop's variable, or the word of `case`. The items end with the next `End`.
    Item(Range<usize>),
    /// A pattern of `case`.
    Pattern(Range<usize>),
    /// The name of a function. The function's body follows.
    Function(Range<usize>),
    /// A group of commands begins.
    Open,
    /// The group ends.
    Shut,
    /// A command ends. It may be empty.
    End(End),
}

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By `;`, a line's end, `&&`, `||`, or the end of its group.
    Plain,
    /// By `&`.
    Background,
    /// By `|`: its output is the input of the next command.
    Pipe,
}

/// A redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// What it does.
    pub operator: Operator,
    /// The number before the operator. For `{name}`, a number that no script uses.
    pub descriptor: Option<u32>,
    /// The word after the operator.
    pub target: Range<usize>,
    /// The lines of a here-document.
    pub document: Option<Document>,
}

/// The lines of a here-document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The range of the lines.
    pub body: Range<usize>,
    /// Variables and substitutions in the lines are expanded.
    pub is_expanded: bool,
    /// Tabs at the beginning of a line are removed.
    pub without_tabs: bool,
}

/// What a redirection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `<`
    Read,
    /// `<>`
    ReadWrite,
    /// `>`, `>|`, `&>`
    Write,
    /// `>>`, `&>>`
    Append,
    /// `<&`
    DuplicateInput,
    /// `>&`
    DuplicateOutput,
    /// `<<`, `<<-`
    Document,
    /// `<<<`
    Text,
}

impl Operator {
    /// The operator at the beginning of a text, and its length.
    pub(crate) fn of(text: &[u8]) -> (Self, usize) {
        const ALL: [(&[u8], Operator); 12] = [
            (b"&>>", Operator::Append),
            (b"&>", Operator::Write),
            (b"<<<", Operator::Text),
            (b"<<-", Operator::Document),
            (b"<<", Operator::Document),
            (b"<>", Operator::ReadWrite),
            (b"<&", Operator::DuplicateInput),
            (b">>", Operator::Append),
            (b">&", Operator::DuplicateOutput),
            (b">|", Operator::Write),
            (b"<", Operator::Read),
            (b">", Operator::Write),
        ];
        let found = ALL.into_iter().find(|(sign, _)| text.starts_with(sign));
        found.map_or((Self::Write, 1), |(sign, operator)| (operator, sign.len()))
    }
}
