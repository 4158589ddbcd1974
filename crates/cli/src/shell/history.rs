// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade shell history`: shows and changes the lines that were typed before.
//!
//! - [`show`]: lists, searches, counts and exports
//! - [`change`]: imports other programs' histories, and forgets entries

mod change;
mod show;

use crate::situation;
use crate::verb::{self, Failure};
use clap::{Subcommand, ValueEnum, ValueHint};
use palisade_shell::history::import::{ImportError, Kind};
use palisade_shell::history::{Store, StoreError};
use palisade_text::quoted;
use std::path::PathBuf;

/// What of the history.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  palisade shell history import --from zsh       # take over what zsh remembers; again later: what is new
  palisade shell history search 'git rebase'     # which commands had that in them
  palisade shell history list --directory .      # what was run here
  palisade shell history list --context ssh      # what led to another machine
  palisade shell history delete --matching hunter2

Times are UTC. What `palisade shell` runs is taken down by itself, but lines that begin with a space or carry
a secret aren't.")]
pub(super) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List what was run, the newest last
    List(show::List),
    /// List what was run that contains a text; answers 1 if there is none
    Search(show::Search),
    /// Add what another program remembers; what is there already isn't added again
    Import(change::Import),
    /// Forget entries; a line of which nothing is left isn't imported again
    Delete(change::Delete),
    /// Count what there is
    Stats {
        /// How many of the most frequent lines and directories
        #[arg(long, value_name = "NUMBER", default_value_t = 10)]
        top: usize,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write all out, the oldest first
    Export {
        /// In which form
        #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Form::Json)]
        format: Form,
        /// Where to; otherwise to standard output
        #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
    },
}

/// How entries are written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// An object a line, with all that is known
    Json,
    /// For HISTFILE, with times
    Bash,
    /// For HISTFILE, extended
    Zsh,
    /// For ~/.local/share/fish/fish_history
    Fish,
}

/// Whose history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum From {
    /// ~/.bash_history, or HISTFILE
    Bash,
    /// ~/.zsh_history, or HISTFILE
    Zsh,
    /// ~/.local/share/fish/fish_history
    Fish,
    /// ~/.local/share/atuin/history.db, which is only read
    Atuin,
}

impl From {
    fn kind(self) -> Kind {
        match self {
            Self::Bash => Kind::Bash,
            Self::Zsh => Kind::Zsh,
            Self::Fish => Kind::Fish,
            Self::Atuin => Kind::Atuin,
        }
    }
}

/// Why the history can't be shown or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HistoryError {
    /// The store can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another program's history can't be read.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// There are no such entries.
    #[error("there is no entry {}", numbers(.ids))]
    Unknown {
        /// Their numbers.
        ids: Vec<i64>,
    },
    /// There is no terminal to ask on.
    #[error("there is no terminal to ask on")]
    NobodyToAsk,
}

fn numbers(ids: &[i64]) -> String {
    ids.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

impl HistoryError {
    /// Its class, for programs.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            Self::Store(_) => "store",
            Self::Import(_) => "read",
            Self::Unknown { .. } => "unknown-name",
            Self::NobodyToAsk => "nobody-to-ask",
        }
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            // A verb that reads leaves a damaged store in place. A verb that writes moves it aside.
            Self::Store(StoreError::Damaged { path, .. }) => {
                Some(format!("mv {0} {0}.damaged", quoted(&path.to_string_lossy())))
            }
            Self::Store(error) => error.hint(),
            Self::Import(error) => error.hint(),
            Self::Unknown { .. } => Some("palisade shell history list   # lists the entries".to_owned()),
            Self::NobodyToAsk => Some(verb::yes_hint()),
        }
    }
}

/// Returns the exit code: 0, 1 no, or 2 error.
pub(super) fn run(options: &Options) -> u8 {
    match &options.what {
        What::List(list) => verb::finish(list.json(), show::list(list)),
        What::Search(search) => verb::finish(search.json(), show::search(search)),
        What::Import(import) => verb::finish(import.json, change::import(import)),
        What::Delete(delete) => verb::finish(delete.json, change::delete(delete)),
        What::Stats { top, json } => verb::finish(*json, show::stats(*top, *json)),
        What::Export { format, output } => verb::finish(false, show::export(*format, output.as_deref())),
    }
}

fn file() -> Result<PathBuf, Failure> {
    Ok(situation::facts()?.places.history())
}

/// Opens the user's history for reading, if there is one.
fn read() -> Result<Option<Store>, Failure> {
    Ok(Store::read(&file()?).map_err(HistoryError::from)?)
}

/// Opens the user's history for writing, and makes it if there is none.
fn open() -> Result<Store, Failure> {
    let mut store = Store::open(&file()?).map_err(HistoryError::from)?;
    if let Some(aside) = store.take_aside() {
        crate::output::note(&format!(
            "the history was damaged, so a new one was started; the damaged file is now {aside:?}"
        ));
    }
    Ok(store)
}

/// `1 entry`, `2 entries`.
fn count(number: usize) -> String {
    format!("{number} {}", if number == 1 { "entry" } else { "entries" })
}
