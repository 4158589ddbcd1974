// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists, searches, counts and exports entries.

use super::{Form, HistoryError, count, read};
use crate::output;
use crate::verb::{self, Exit, Failure, NO, YES};
use clap::ValueHint;
use palisade_protocol::date;
use palisade_shell::history::import::{self, Kind};
use palisade_shell::history::{Filter, LOCAL, Row, Statistics, Store};
use palisade_text::{harmless, harmless_lines};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

const SECOND: i64 = 1_000_000_000;

/// Which entries.
#[derive(Debug, clap::Args)]
pub(super) struct List {
    /// At most so many, the newest; 0: all
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 100)]
    limit: usize,
    /// Only what was run in this directory
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    directory: Option<PathBuf>,
    /// Only what was run in this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only what led there: `local`, `ssh`, `ssh prod`, `sudo`, `docker web`
    #[arg(long, value_name = "CONTEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    context: Option<String>,
    /// Only what ended with another exit code than 0
    #[arg(long)]
    failed: bool,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

/// Which text, and in which entries.
#[derive(Debug, clap::Args)]
pub(super) struct Search {
    /// The text; letters are told apart by their case
    #[arg(value_name = "TEXT")]
    text: String,
    /// Only lines that begin with it
    #[arg(long)]
    prefix: bool,
    #[command(flatten)]
    list: List,
}

impl List {
    pub(super) fn json(&self) -> bool {
        self.json
    }

    fn filter(&self) -> Filter {
        // The shell records directories with the links in their paths, so links aren't resolved here.
        let directory = self.directory.as_ref().map(|path| {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            absolute.to_string_lossy().trim_end_matches('/').to_owned()
        });
        Filter {
            directory: directory.map(|path| if path.is_empty() { "/".to_owned() } else { path }),
            session: self.session.clone(),
            failed: self.failed.then_some(true),
            context: self.context.clone(),
            most: (self.limit > 0).then_some(self.limit),
            ..Filter::default()
        }
    }
}

impl Search {
    pub(super) fn json(&self) -> bool {
        self.list.json
    }
}

/// An entry in the JSON answer.
#[derive(Serialize)]
struct Shown<'a> {
    id: i64,
    line: &'a str,
    directory: Option<&'a str>,
    host: Option<&'a str>,
    user: Option<&'a str>,
    session: Option<&'a str>,
    /// The context to which its program took the terminal: `local`, `ssh prod`.
    context: Option<&'a str>,
    /// RFC 3339, UTC.
    started: String,
    started_ns: i64,
    duration_ns: Option<i64>,
    exit: Option<i32>,
    /// The program from whose history it was imported.
    source: Option<&'a str>,
}

impl<'a> Shown<'a> {
    fn new(row: &'a Row) -> Self {
        let known = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        let Row { id, entry, source } = row;
        Self {
            id: *id,
            line: &entry.line,
            directory: known(&entry.directory),
            host: known(&entry.host),
            user: known(&entry.user),
            session: known(&entry.session),
            context: known(&entry.context),
            started: moment(entry.started, 'T', "Z"),
            started_ns: entry.started,
            duration_ns: entry.duration,
            exit: entry.exit,
            source: source.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct Entries<'a> {
    entries: Vec<Shown<'a>>,
}

pub(super) fn list(list: &List) -> Exit {
    print(&list.filter(), list.json)?;
    Ok(YES)
}

pub(super) fn search(search: &Search) -> Exit {
    let text = Some(search.text.clone());
    let filter = search.list.filter();
    let filter =
        if search.prefix { Filter { begins: text, ..filter } } else { Filter { contains: text, ..filter } };
    Ok(if print(&filter, search.list.json)? { YES } else { NO })
}

/// Prints entries. Returns whether there are any.
fn print(filter: &Filter, json: bool) -> Result<bool, Failure> {
    let rows = match read()? {
        Some(store) => store.rows(filter).map_err(HistoryError::from)?,
        None => Vec::new(),
    };
    if json {
        verb::print_json(&Entries { entries: rows.iter().map(Shown::new).collect() })?;
    } else {
        let width = rows.last().map_or(0, |row| row.id.to_string().len());
        let contexts = rows.iter().map(|row| elsewhere(row).chars().count()).max().unwrap_or(0);
        let text: String = rows.iter().map(|row| line(row, width, contexts)).collect();
        verb::print(&text)?;
    }
    Ok(!rows.is_empty())
}

/// The context of an entry, if it isn't local.
fn elsewhere(row: &Row) -> &str {
    Some(row.entry.context.as_str()).filter(|context| *context != LOCAL).unwrap_or_default()
}

/// An entry for people, with its number first, and its context in a column of `contexts` characters.
pub(super) fn line(row: &Row, width: usize, contexts: usize) -> String {
    let exit = match row.entry.exit {
        None => "  ?".to_owned(),
        Some(0) => "   ".to_owned(),
        Some(code) => format!("{code:>3}"),
    };
    let context = match contexts {
        0 => String::new(),
        _ => format!("{:<contexts$}  ", harmless(elsewhere(row))),
    };
    // Further lines are aligned below the first.
    let indent = format!("\n{}", " ".repeat(width + 27 + context.chars().count()));
    let text = harmless_lines(row.entry.line.trim_end()).replace('\n', &indent);
    format!("{:>width$}  {}  {exit}  {context}{text}\n", row.id, moment(row.entry.started, ' ', ""))
}

#[derive(Serialize)]
struct Numbers {
    entries: i64,
    lines: i64,
    failed: i64,
    imported: i64,
    first: Option<String>,
    last: Option<String>,
    frequent: Vec<Often>,
    directories: Vec<Often>,
}

#[derive(Serialize)]
struct Often {
    what: String,
    count: i64,
}

pub(super) fn stats(top: usize, json: bool) -> Exit {
    let statistics = match read()? {
        Some(store) => store.statistics(top).map_err(HistoryError::from)?,
        None => Statistics::default(),
    };
    let Statistics { entries, lines, failed, imported, span, frequent, directories } = statistics;
    let often =
        |all: Vec<(String, i64)>| all.into_iter().map(|(what, count)| Often { what, count }).collect();
    let of = |time: Option<i64>| time.map(|time| moment(time, 'T', "Z"));
    let (first, last) = (of(span.map(|span| span.0)), of(span.map(|span| span.1)));
    let (frequent, directories) = (often(frequent), often(directories));
    let numbers = Numbers { entries, lines, failed, imported, first, last, frequent, directories };
    if json {
        verb::print_json(&numbers)?;
        return Ok(YES);
    }
    let mut text =
        format!("entries   {entries}\nlines     {lines}\nfailed    {failed}\nimported  {imported}\n");
    if let (Some(first), Some(last)) = (&numbers.first, &numbers.last) {
        text.push_str(&format!("first     {first}\nlast      {last}\n"));
    }
    for (title, all) in [("most frequent", &numbers.frequent), ("most used in", &numbers.directories)] {
        if !all.is_empty() {
            text.push_str(&format!("\n{title}\n"));
        }
        for Often { what, count } in all {
            text.push_str(&format!("{count:>8}  {}\n", harmless_lines(what).replace('\n', " ⏎ ")));
        }
    }
    verb::print(&text)?;
    Ok(YES)
}

pub(super) fn export(form: Form, output: Option<&Path>) -> Exit {
    let rows = match read()? {
        Some(store) => all(&store)?,
        None => Vec::new(),
    };
    let mut bytes = Vec::new();
    for row in &rows {
        match form {
            Form::Json => {
                serde_json::to_writer(&mut bytes, &Shown::new(row))
                    .map_err(|error| Failure::Output { source: error.into() })?;
                bytes.push(b'\n');
            }
            Form::Bash => import::print(Kind::Bash, &row.entry, &mut bytes),
            Form::Zsh => import::print(Kind::Zsh, &row.entry, &mut bytes),
            Form::Fish => import::print(Kind::Fish, &row.entry, &mut bytes),
        }
    }
    match output {
        Some(path) => {
            write(path, &bytes).map_err(|source| Failure::Write { path: path.to_owned(), source })?;
            output::say(&format!("{} in {path:?}\n", count(rows.len())));
        }
        None => print_bytes(&bytes)?,
    }
    Ok(YES)
}

fn all(store: &Store) -> Result<Vec<Row>, Failure> {
    Ok(store.rows(&Filter::default()).map_err(HistoryError::from)?)
}

/// Prints bytes: zsh's history files aren't text.
fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|source| match source.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::Output { source },
    })
}

/// Replaces the file at once. No other user can read the new file.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// A time in nanoseconds since 1970 as day and time of day, to the second.
fn moment(time: i64, between: char, end: &str) -> String {
    let seconds = u64::try_from(time / SECOND).unwrap_or(0);
    format!("{}{between}{}{end}", date::day(seconds), date::time(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_763_833_634, "2025-11-22T17:47:14Z"),
            (-1, "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(moment(seconds * SECOND, 'T', "Z"), expected);
        }
    }
}
