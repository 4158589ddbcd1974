// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a text comes to, in order.

use std::ops::Range;

/// A step through a text. Places are in the text, in bytes.
///
/// A command is its [`Assignment`](Event::Assignment)s, [`Word`](Event::Word)s and [`Redirect`](Event::Redirect)s up to
/// the [`End`](Event::End) after them. Groups of commands lie between [`Open`](Event::Open) and [`Shut`](Event::Shut);
/// what is redirected behind `Shut` is of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A command's name or, after it, an argument.
    Word(Range<usize>),
    /// `name=value` before a command's name; see [`Assignment`](crate::Assignment).
    Assignment(Range<usize>),
    /// Where a command's input comes from, or its output goes.
    Redirect(Redirect),
    /// `(…)` among a command's words, and what is in it: commands to fish, patterns to zsh, nothing to bash.
    Foreign(Range<usize>),
    /// `((…))`, what is in it.
    Sum(Range<usize>),
    /// `[[`: the words of a test follow, without its operators' brackets and signs, as arguments.
    Test(Range<usize>),
    /// The variable of a loop: its values follow as items.
    Variable(Range<usize>),
    /// A value of a loop's variable, or what `case` looks at. Until the next `End`.
    Item(Range<usize>),
    /// A pattern of `case`.
    Pattern(Range<usize>),
    /// The name of a function, whose body follows.
    Function(Range<usize>),
    /// A group of commands begins.
    Open,
    /// It ends.
    Shut,
    /// A command ends, or would have ended.
    End(End),
}

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By `;`, a line's end, `&&`, `||`, or the end of its group.
    Plain,
    /// By `&`.
    Background,
    /// By `|`: what it writes is what the next one reads.
    Pipe,
}

/// A redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// What it does.
    pub operator: Operator,
    /// The number before it; for `{name}` a number that no script uses.
    pub descriptor: Option<u32>,
    /// The word behind it.
    pub target: Range<usize>,
    /// The lines of a here-document.
    pub document: Option<Document>,
}

/// The lines of a here-document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Where they are.
    pub body: Range<usize>,
    /// Variables and substitutions in them count.
    pub is_expanded: bool,
    /// Tabs at the beginning of a line don't count.
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
    /// The operator that a text begins with, and its length.
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
