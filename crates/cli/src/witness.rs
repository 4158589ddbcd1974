// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `palisade run` says while and after the command runs: refusals and what was made inside.

use crate::output;
use crate::situation;
use palisade_events::{Launch, Notices, Recorder};
use palisade_policy::event::Event;
use palisade_policy::names::NameRule;
use palisade_sandbox::start::Happening;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Listens to a launch.
#[derive(Debug)]
pub(crate) struct Witness<'c> {
    command: &'c [OsString],
    quiet: bool,
    /// Made at the first refusal: most launches have none.
    recorder: Option<Recorder>,
    lost: u64,
    repositories: Vec<PathBuf>,
}

impl<'c> Witness<'c> {
    pub(crate) fn new(command: &'c [OsString], quiet: bool) -> Self {
        Self { command, quiet, recorder: None, lost: 0, repositories: Vec::new() }
    }

    /// Something happened.
    pub(crate) fn tell(&mut self, happening: &Happening<'_>) {
        match happening {
            // Of what is used `palisade learn` keeps account.
            Happening::Started(_) | Happening::Used { .. } => {}
            Happening::Refused { event, rule } => self.refused(event, permit(rule)),
            Happening::Socket { event } => {
                self.refused(event, Some(format!("palisade run --rw {:?} …", event.object)));
            }
            Happening::Repository(path) => self.repositories.push((*path).to_owned()),
            Happening::Overload { call, source } => {
                output::error(&format_args!("the broker can't make the call {call}: {source}"), None);
            }
            Happening::Lost(count) => self.lost += count,
            Happening::Uncovered => {
                output::error(
                    &"a hidden or protected name was replaced outside and couldn't be covered again: everything inside has been ended",
                    Some("palisade run --hide DIRECTORY …   # the directory rather than the file"),
                );
            }
            Happening::BrokerEnded => {
                output::error(
                    &"the broker has ended: whatever writes a name or connects fails from here on",
                    Some("palisade run --protect mounts …   # protects what exists, without a broker"),
                );
            }
        }
    }

    fn refused(&mut self, event: &Event, hint: Option<String>) {
        let recorder = self.recorder.get_or_insert_with(|| {
            let place = || situation::facts().ok().map(|facts| facts.places.events());
            Recorder::new(Launch::new(self.command), Notices::stderr(self.quiet), place)
        });
        recorder.record(event.clone(), hint);
    }

    /// The command has ended.
    pub(crate) fn conclude(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            recorder.finish();
        }
        if self.quiet {
            return;
        }
        if self.lost > 0 {
            output::note(&format_args!("{} more refusals came too fast to be heard", self.lost));
        }
        self.repositories.sort();
        self.repositories.dedup();
        for path in &self.repositories {
            match kind(path) {
                // Removed again.
                None => {}
                Some(Made::Repository) => {
                    let tree = path.parent().unwrap_or(path);
                    output::note(&format_args!("a repository was made inside: {}", tree.display()));
                }
                Some(Made::LeadsTo(target)) => output::note(&format_args!(
                    "{} was made inside and leads git to {target}: look at what is there before you use git here",
                    path.display()
                )),
            }
        }
    }
}

/// What git will find.
enum Made {
    /// A repository.
    Repository,
    /// A file that says where it is.
    LeadsTo(String),
}

/// What is there now. The file is the command's: not more of it is read than git would.
fn kind(path: &Path) -> Option<Made> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    if metadata.is_dir() {
        return Some(Made::Repository);
    }
    if !metadata.is_file() {
        return None;
    }
    let mut text = Vec::new();
    File::open(path).ok()?.take(4096).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.strip_prefix("gitdir:").map(|target| Made::LeadsTo(target.trim().to_owned()))
}

/// What to type to permit what a rule refuses.
fn permit(rule: &NameRule) -> Option<String> {
    (!rule.locked && !rule.anchored).then(|| format!("palisade run --allow-name {:?} …", rule.path))
}
