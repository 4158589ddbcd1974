// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports other programs' histories, and forgets entries.

use super::{From, HistoryError, count, open, read, show};
use crate::verb::{self, Exit, NO, YES};
use crate::{output, situation};
use clap::ValueHint;
use palisade_shell::history::import::{self, Limits};
use palisade_shell::history::{Filter, Privacy, Row, redacted};
use serde::Serialize;
use std::path::PathBuf;

/// Whose, and where it is.
#[derive(Debug, clap::Args)]
pub(super) struct Import {
    /// Whose
    #[arg(long, value_enum, value_name = "PROGRAM")]
    from: From,
    /// The file, instead of the place where that program keeps it
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Also lines that carry what looks like a secret
    #[arg(long)]
    with_secrets: bool,
    /// Answer as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Serialize)]
struct Taken {
    file: String,
    /// How many usable entries the source has.
    found: usize,
    /// How many of them this history didn't have yet.
    new: usize,
    /// How many were left out because they look like a secret or begin with a space.
    kept_out: usize,
    /// How many were left out because they aren't UTF-8 or are too long.
    unusable: usize,
}

pub(super) fn import(options: &Import) -> Exit {
    let kind = options.from.kind();
    let file = match &options.file {
        Some(file) => file.clone(),
        None => {
            let facts = situation::facts()?;
            kind.file(&facts.account.home, |name| std::env::var_os(name))
        }
    };
    let mut imported = import::read(kind, &file, &Limits::default()).map_err(HistoryError::from)?;
    let (found, unusable) = (imported.entries.len(), imported.unusable);
    let privacy = Privacy { secrets: !options.with_secrets, ..Privacy::default() };
    let kept_out = imported.keep_out(&privacy);
    let new = open()?.import(kind.name(), &imported.entries).map_err(HistoryError::from)?;
    if options.json {
        let file = file.to_string_lossy().into_owned();
        verb::print_json(&Taken { file, found, new, kept_out, unusable })?;
        return Ok(YES);
    }
    output::say(&format!("{} new of {found} in {file:?}\n", count(new)));
    if kept_out > 0 {
        output::note(&format!(
            "left out {} with what looks like a secret, or a space in front (--with-secrets)",
            count(kept_out)
        ));
    }
    if unusable > 0 {
        output::note(&format!("left out {}: not UTF-8, or too long", count(unusable)));
    }
    if imported.cut || imported.older > 0 {
        output::note(&"the file is large: only its newest entries were read");
    }
    Ok(YES)
}

/// What to forget.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(group(clap::ArgGroup::new("which").required(true)))]
pub(super) struct Delete {
    /// The entries of these numbers
    #[arg(value_name = "NUMBER", group = "which")]
    ids: Vec<i64>,
    /// All entries whose line contains this; asks before
    #[arg(long, value_name = "TEXT", group = "which", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    matching: Option<String>,
    /// Don't ask
    #[arg(long, short)]
    yes: bool,
    /// Answer as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Serialize)]
struct Deleted {
    deleted: usize,
}

pub(super) fn delete(options: &Delete) -> Exit {
    let ids = match &options.matching {
        None => {
            let unknown = match read()? {
                Some(store) => store.unknown(&options.ids).map_err(HistoryError::from)?,
                None => options.ids.clone(),
            };
            if !unknown.is_empty() {
                return Err(HistoryError::Unknown { ids: unknown }.into());
            }
            options.ids.clone()
        }
        Some(text) => {
            let filter = Filter { contains: Some(text.clone()), ..Filter::default() };
            let rows = match read()? {
                Some(store) => store.rows(&filter).map_err(HistoryError::from)?,
                None => Vec::new(),
            };
            if rows.is_empty() {
                return tell(options, 0);
            }
            if !options.yes && !verb::confirmed(&question(&rows)).ok_or(HistoryError::NobodyToAsk)? {
                return Ok(NO);
            }
            rows.iter().map(|row| row.id).collect()
        }
    };
    let deleted = open()?.delete(&ids).map_err(HistoryError::from)?;
    tell(options, deleted)
}

/// The question. It shows the newest entries, with secrets removed: users often forget an entry because it holds a secret.
fn question(rows: &[Row]) -> String {
    const MOST: usize = 10;
    let newest = &rows[rows.len().saturating_sub(MOST)..];
    let width = newest.last().map_or(0, |row| row.id.to_string().len());
    let shown: String = newest
        .iter()
        .map(|row| {
            let mut row = row.clone();
            row.entry.line = redacted(&row.entry.line).into_owned();
            show::line(&row, width, 0)
        })
        .collect();
    let more =
        if rows.len() > MOST { format!("… and {} older\n", rows.len() - MOST) } else { String::new() };
    format!("{more}{shown}Forget {}? [y/N] ", count(rows.len()))
}

fn tell(options: &Delete, deleted: usize) -> Exit {
    if options.json {
        verb::print_json(&Deleted { deleted })?;
    } else {
        output::say(&format!("{} forgotten\n", count(deleted)));
    }
    Ok(if deleted > 0 { YES } else { NO })
}
