// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade import --from fapolicyd`: imports a host's fapolicyd, and says what is written where.

use crate::guard::{CONFIG, GuardError};
use crate::output;
use crate::verb::{self, Failure, YES};
use palisade_import::fapolicyd::{FapolicydError, Item, Note, Takeover};
use palisade_text::Show as _;
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct Document<'a> {
    from: &'static str,
    written: bool,
    rules: usize,
    trusted: usize,
    files: Vec<Copied<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Copied<'a> {
    #[serde(serialize_with = "lossy")]
    from: &'a Path,
    #[serde(serialize_with = "lossy")]
    to: &'a Path,
    /// The new text, if the file isn't a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

fn lossy<S: serde::Serializer>(path: &&Path, to: S) -> Result<S::Ok, S::Error> {
    verb::lossy(path, to)
}

impl From<FapolicydError> for Failure {
    fn from(error: FapolicydError) -> Self {
        match error {
            FapolicydError::Import(error) => error.into(),
            FapolicydError::Rules(error) => GuardError::Setup(error).into(),
            FapolicydError::Trust(error) => GuardError::Edit(error).into(),
            FapolicydError::Filter { path, source } => GuardError::Filter { path, source }.into(),
        }
    }
}

/// Imports the files in `place` into the directory `into`.
pub(super) fn import(place: &Path, into: &Path, force: bool, dry: bool, json: bool) -> Result<u8, Failure> {
    if !dry && into == Path::new(CONFIG) && !rustix::process::geteuid().is_root() {
        return Err(Failure::RootOnly { what: "what may execute on this host" });
    }
    let takeover = Takeover::read(place, into, force)?;
    if !dry {
        takeover.write(force)?;
    }
    say(&takeover, dry, json)?;
    Ok(YES)
}

fn words(note: &Note) -> String {
    match note {
        Note::NoRules => {
            "there are no rules: the built-in ones apply (palisade guard default known-libs)".into()
        }
        Note::Mistake(mistake) => format!("{mistake}; the line has no effect"),
        Note::OldFilter => {
            "rpm-filter.conf isn't imported: fapolicyd itself reads fapolicyd-filter.conf now".into()
        }
        Note::NoSettings => "there is no fapolicyd.conf: the settings are Palisade's own, permissive".into(),
        Note::Unneeded(line) => format!("not imported: {line}"),
        Note::OtherRules(path) => format!("{} stays, and its rules apply, too", path.shown()),
    }
}

fn say(takeover: &Takeover, dry: bool, json: bool) -> Result<(), Failure> {
    let &Takeover { rules, trusted, .. } = takeover;
    let notes: Vec<String> = takeover.notes.iter().map(words).collect();
    if json {
        let files = takeover.items.iter().map(|item| Copied {
            from: &item.from,
            to: &item.to,
            text: item.translated.then(|| String::from_utf8_lossy(&item.content).into_owned()),
        });
        let (files, notes) = (files.collect(), notes.as_slice());
        return verb::print_json(&Document {
            from: "fapolicyd",
            written: !dry,
            rules,
            trusted,
            files,
            notes,
        });
    }
    let verb = if dry { "would write" } else { "wrote" };
    let line = |item: &Item| format!("{verb} {} from {}\n", item.to.shown(), item.from.shown());
    verb::print(&takeover.items.iter().map(line).collect::<String>())?;
    notes.iter().for_each(|note| output::note(note));
    output::say(&format!("{rules} rules and {trusted} trusted files\n"));
    if !dry {
        output::say("hint: palisade guard check && palisade guard lint\n");
    }
    Ok(())
}
