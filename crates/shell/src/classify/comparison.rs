// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the reader with `brush-parser`, a full parser of bash's grammar, on the corpora: which commands each one
//! sees, and with how many words. Each difference must have a known reason; a difference without a reason fails the
//! test.

use super::command::{Reading, Word};
use super::reading;
use brush_parser::ast::{
    AndOr, Command, CommandPrefixOrSuffixItem, CompoundCommand, CompoundList, Pipeline, SimpleCommand,
};
use brush_parser::{Parser, ParserOptions};
use std::collections::BTreeMap;

/// A command as it is written: its first word, and its number of words.
type Seen = (String, usize);

#[derive(Default)]
struct Walk(Vec<Seen>);

impl Walk {
    fn list(&mut self, list: &CompoundList) {
        for item in &list.0 {
            self.pipeline(&item.0.first);
            for more in &item.0.additional {
                let (AndOr::And(pipeline) | AndOr::Or(pipeline)) = more;
                self.pipeline(pipeline);
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        pipeline.seq.iter().for_each(|command| self.command(command));
    }

    fn command(&mut self, command: &Command) {
        match command {
            Command::Simple(simple) => self.simple(simple),
            Command::Compound(compound, _) => self.compound(compound),
            Command::Function(function) => self.compound(&function.body.0),
            Command::ExtendedTest(..) => self.0.push(("[[".into(), 0)),
        }
    }

    fn simple(&mut self, simple: &SimpleCommand) {
        let Some(name) = &simple.word_or_name else { return };
        let declares = matches!(name.value.as_str(), "export" | "declare" | "typeset" | "local" | "readonly");
        let words = simple.suffix.iter().flat_map(|suffix| &suffix.0);
        // For the reader, what `export` and similar commands assign is an assignment and not a word.
        use CommandPrefixOrSuffixItem::{AssignmentWord, IoRedirect};
        let count = words
            .filter(|item| match item {
                IoRedirect(_) => false,
                AssignmentWord(..) => !declares,
                _ => true,
            })
            .count();
        self.0.push((name.value.clone(), count + 1));
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::Arithmetic(_) => {}
            CompoundCommand::ArithmeticForClause(clause) => self.list(&clause.body.list),
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(subshell) => self.list(&subshell.list),
            CompoundCommand::ForClause(clause) => self.list(&clause.body.list),
            CompoundCommand::CaseClause(clause) => {
                clause.cases.iter().filter_map(|case| case.cmd.as_ref()).for_each(|list| self.list(list));
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition);
                self.list(&clause.then);
                for other in clause.elses.iter().flatten() {
                    other.condition.iter().for_each(|list| self.list(list));
                    self.list(&other.body);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0);
                self.list(&clause.1.list);
            }
            CompoundCommand::Coprocess(coprocess) => self.command(&coprocess.body),
        }
    }
}

/// What the parser sees; `None` if the parser refuses the line.
fn parsed(line: &str) -> Option<Vec<Seen>> {
    let program = Parser::new(line.as_bytes(), &ParserOptions::default()).parse_program().ok()?;
    let mut walk = Walk::default();
    program.complete_commands.iter().for_each(|list| walk.list(list));
    Some(walk.0)
}

/// What the reader sees of the same line, without commands that are substituted, decoded or run by another command.
fn read(line: &str, reading: &Reading) -> Vec<Seen> {
    let written = |word: &Word| line.get(word.span.clone()).unwrap_or_default().to_owned();
    let own = reading.commands.iter().filter(|command| {
        !command.way.wrapped && !command.way.decoded && command.inside.is_none() && !command.words.is_empty()
    });
    own.map(|command| {
        // A word that expands to several words is written once.
        let mut spans: Vec<_> = command.words.iter().map(|word| word.span.clone()).collect();
        spans.dedup();
        let name = written(&command.words[0]);
        let count = if name == "[[" { 0 } else { spans.len() };
        (name, count)
    })
    .collect()
}

/// Why the two differ on a line.
fn reason(line: &str, ours: &[Seen], theirs: Option<&[Seen]>) -> Option<&'static str> {
    let Some(theirs) = theirs else {
        // The line has open quotes or brackets, `<` as part of a placeholder, or words of other shells.
        return Some("the parser refuses the line, and the reader goes on");
    };
    // A substitution in a loop's list belongs to no command's words; the reader lists it as a separate command.
    let mut left = ours.iter();
    let more = theirs.iter().all(|seen| left.any(|other| other == seen));
    (more && line.contains("for ") && line.contains("$("))
        .then_some("the reader also lists what is substituted in a loop's list")
}

#[test]
fn the_reader_sees_the_commands_that_a_parser_sees() {
    let corpora = [
        ("harmless", include_str!("../../tests/corpora/harmless.txt")),
        ("documentation", include_str!("../../tests/corpora/documentation.txt")),
        ("attacks", include_str!("../../tests/corpora/attacks.txt")),
    ];
    for (name, text) in corpora {
        let mut reasons: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
        let (mut all, mut unexplained) = (0, Vec::new());
        for line in text.lines() {
            let line = if name == "attacks" { line.split_once(' ').unwrap().1 } else { line };
            let reading = reading::read(line, false);
            let ours = read(line, &reading);
            let theirs = parsed(line);
            all += 1;
            if theirs.as_ref() == Some(&ours) {
                continue;
            }
            match reason(line, &ours, theirs.as_deref()) {
                Some(reason) => reasons.entry(reason).or_insert((0, line)).0 += 1,
                None => unexplained.push((line, ours, theirs)),
            }
        }
        println!("{name}: {all} lines");
        for (reason, (count, example)) in reasons {
            println!("  {count} because {reason}: {example}");
        }
        assert!(unexplained.is_empty(), "{name}: {unexplained:#?}");
    }
}
