// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The output of `palisade desktop` for people: what happened to an application's files, and notes about them.

use palisade_desktop::note::{Lost, Note};
use palisade_desktop::status::{Report, State};
use palisade_desktop::{Kind, Outcome};
use palisade_text::Show as _;
use palisade_text::harmless;
use std::path::Path;

const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Link => "link",
        Kind::DesktopEntry => "desktop entry",
        Kind::BusService => "bus service",
        Kind::Unit => "unit",
        Kind::Icon => "icon",
    }
}

const fn state(state: State) -> &'static str {
    match state {
        State::Ours => "",
        State::Changed => "  changed since",
        State::Missing => "  missing",
        State::Dangling => "  its target is missing",
        State::Outdated => "  made from a file that has changed",
    }
}

/// Says what happened to the files.
pub(crate) fn outcome(name: &str, word: &str, outcome: &Outcome) -> String {
    let mut text = format!("{}: {word}\n", harmless(name));
    let mut line = |what: &str, path: &Path| {
        text.push_str(&format!("  {what:<14} {}\n", path.shown()));
    };
    for (made, path) in &outcome.made {
        line(kind(*made), path);
    }
    for (_from, to) in &outcome.aside {
        line("kept aside", to);
    }
    for path in outcome.removed.iter().filter(|path| !outcome.restored.contains(path)) {
        line("removed", path);
    }
    for path in &outcome.restored {
        line("put back", path);
    }
    for path in &outcome.left {
        line("changed: stays", path);
    }
    text
}

/// The text of one note.
pub(crate) fn note(note: &Note) -> String {
    match note {
        Note::NotOnPath { directory, name } => {
            format!("{directory:?} isn't on your PATH: typing {name:?} doesn't find the link")
        }
        Note::Shadowed { by, name } => {
            format!("{by:?} comes before the link on your PATH: typing {name:?} starts that")
        }
        Note::NoEntry { name, again } => format!(
            "the system has no desktop entry of {name}, so there is only the link; `{again}` makes one"
        ),
        Note::FromNothing(error) => format!("the entry uses nothing of the system's: {error}"),
        Note::Unusable { path, source } => {
            format!("the entry uses nothing of the system's: {path:?}: {source}")
        }
        Note::Lost(Lost::Exec(exec)) => {
            format!("the desktop entry lacks the other parts of the original Exec: {exec}")
        }
        Note::Lost(Lost::Action(id)) => {
            format!("the desktop entry lacks the action {id}, which starts another program")
        }
        Note::Stays { path, source } => format!("{path:?} stays as it is: {source}"),
        Note::Others { entries, again } => {
            const SHOWN: usize = 3;
            let names: Vec<_> = entries.iter().take(SHOWN).map(|path| path.to_string_lossy()).collect();
            let more = if entries.len() > names.len() { ", …" } else { "" };
            let start = if entries.len() == 1 { "entry starts" } else { "entries start" };
            format!(
                "{} other desktop {start} its program without Palisade ({}{more}); `{again}` overrides them, too",
                entries.len(),
                names.join(", "),
            )
        }
    }
}

/// Says what is enabled, and whether it is still as it was made.
pub(super) fn report(report: &Report) -> String {
    let mut text = format!(
        "{}: {}\n",
        harmless(&report.name),
        match (report.enabled, report.intact) {
            (false, _) => "not enabled",
            (true, true) => "enabled",
            (true, false) => "enabled, but changed since",
        }
    );
    for file in &report.files {
        let path = harmless(&file.path.to_string_lossy());
        text.push_str(&format!("  {:<14} {path}{}\n", kind(file.kind), state(file.state)));
        if let Some(aside) = &file.aside {
            text.push_str(&format!("  {:<14} {}\n", "kept aside", harmless(&aside.to_string_lossy())));
        }
    }
    for default in &report.defaults {
        let words = if default.holds { "" } else { "  another application now" };
        text.push_str(&format!("  {:<14} {}{words}\n", "default for", harmless(&default.mime)));
    }
    if let Some(again) = &report.again {
        text.push_str(&format!("  to renew it    {}\n", harmless(again)));
    }
    text
}
