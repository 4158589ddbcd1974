// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes or updates the trust database: palisaded does it if it runs, otherwise this process does.

use super::only_root;
use crate::guard::{GuardError, Places, change, count, files};
use crate::output;
use crate::progress::Bar;
use crate::verb::{Exit, Failure, YES};
use palisade_guard::settings::Settings;
use palisade_guard::setup::SetupError;
use palisade_guard::trust::edit::Mistake;
use palisade_guard::trust::filter::Filter;
use palisade_guard::trust::rebuild::{Sources, Told};
use palisade_guard::trust::store::{Location, Store, Writer};
use palisade_protocol::client::{self, DaemonError};
use palisade_protocol::guard::{Request as Asked, Response};
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;

/// Makes the database anew.
pub(super) fn rebuild(places: &Places, everything: bool) -> Exit {
    only_root(places, "what is trusted")?;
    match client::ask(&places.socket, &Asked::Trust { everything, files: false }) {
        Ok(response) => {
            change::said(response)?;
            output::say("hint: palisade guard status   # shows when it is ready\n");
            return Ok(YES);
        }
        Err(DaemonError::NotRunning { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let settings = files::setup(places, None)?.settings;
    let made = DirBuilder::new().mode(0o750).recursive(true).create(&places.state);
    made.map_err(|source| Failure::Write { path: places.state.clone(), source })?;
    let files = make(places, &settings, everything)?;
    output::say(&format!("{} trusted\n", count(files, "file is", "files are")));
    Ok(YES)
}

/// Waits until palisaded has read all changes. It prints nothing, because package managers call it.
pub(super) fn sync(places: &Places, seconds: u64, if_running: bool) -> Exit {
    only_root(places, "what is trusted")?;
    match client::ask::<Response>(&places.socket, &Asked::Sync { seconds }) {
        Err(DaemonError::NotRunning { .. }) if if_running => Ok(YES),
        asked => asked.map(|_said| YES).map_err(Failure::from),
    }
}

/// Updates the database with what the trust files say now.
pub(super) fn trust_files_changed(places: &Places) -> Result<(), Failure> {
    match client::ask::<Response>(&places.socket, &Asked::Trust { everything: false, files: true }) {
        Ok(_) => return Ok(()),
        Err(DaemonError::NotRunning { .. }) => {}
        Err(error) => {
            output::note(&format_args!("palisaded wasn't notified: {error}"));
            return Ok(());
        }
    }
    let location = Location::new(&places.state);
    if !location.base().exists() {
        output::note(&"there is no trust database yet: palisade guard trust rebuild makes it");
        return Ok(());
    }
    let mut writer = Writer::lock(&location).map_err(GuardError::from)?;
    let mut store = Store::open(&location).map_err(GuardError::from)?;
    let mut mistakes = 0;
    let files = files::trust_files(places);
    let replaced = writer.replace_files(&mut store, &files, |mistake| note_mistake(&mut mistakes, &mistake));
    Ok(replaced.map_err(GuardError::from)?)
}

/// Prints the first mistakes in trust files.
fn note_mistake(noted: &mut usize, mistake: &Mistake) {
    *noted += 1;
    if *noted <= 20 {
        output::note(mistake);
    }
}

fn make(places: &Places, settings: &Settings, everything: bool) -> Result<u64, GuardError> {
    let sources = Sources { settings: &settings.trust, files: &files::trust_files(places), everything };
    let mut mistakes = 0;
    let mut bar = Some(Bar::new());
    sources.rebuild(
        &Location::new(&places.state),
        || filter(places),
        |told| match told {
            Told::Mistake(mistake) => note_mistake(&mut mistakes, mistake),
            Told::Progress(progress) => {
                let words = format!("{} of {} files", progress.done, progress.total);
                if let Some(bar) = &mut bar {
                    bar.show(progress.done, progress.total, &words);
                }
            }
            Told::Differing(differing) => {
                bar = None;
                let files = count(differing, "file isn't", "files aren't");
                output::note(&format_args!(
                    "{files} as their packages state, so they aren't trusted: dpkg --verify"
                ));
            }
        },
    )
}

/// The filter of packages' files that matter: the administrator's, or the built-in one.
fn filter(places: &Places) -> Result<Filter, GuardError> {
    let path = places.config.join("guard-filter.conf");
    match std::fs::read(&path) {
        Ok(text) => Filter::parse(&text).map_err(|source| GuardError::Filter { path, source }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Filter::default()),
        Err(source) => Err(SetupError::Read { path, source }.into()),
    }
}
