// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the chain of modules that the settings ask for, and rebuilds it when the settings change.

use super::Session;
use crate::chain::{Chain, Module};
use crate::classify::Scope;
use crate::engine::Engine;
use crate::history::Privacy;
use crate::modules::{counts, ghost, history, incognito, keymap, line_guard, recorder};
use crate::settings::{Name, Settings, SettingsError};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::SystemTime;

pub(super) fn time_of(path: &PathBuf) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

fn privacy(settings: &Settings) -> Privacy {
    Privacy { leading_space: settings.history.ignore_space, secrets: settings.history.ignore_secrets }
}

impl Session<'_> {
    /// Installs the modules that the settings ask for.
    pub(super) fn set(&mut self, engine: &mut Engine, settings: &Settings) {
        let mut modules: Vec<Box<dyn Module>> = Vec::new();
        let mut kept: Vec<Box<dyn Module>> = ["history", "guard", counts::NAME]
            .iter()
            .filter_map(|name| engine.chain().take(name))
            .filter_map(|mut module| module.renew(settings).then_some(module))
            .collect();
        let mut keep = |name| Some(kept.remove(kept.iter().position(|module| module.name() == name)?));
        // A user who wants no history wants no counts. The module is first, so that it also sees the keys that other
        // modules keep.
        if !self.options.bare && settings.modules.contains(&Name::History) {
            modules.push(keep(counts::NAME).unwrap_or_else(|| Box::new(self.counting(settings))));
        }
        for name in settings.modules.iter().filter(|_| !self.options.bare) {
            match name {
                Name::Keymap => modules.push(Box::new(keymap::Keymap::new(&settings.keys))),
                Name::Incognito => modules.push(Box::new(incognito::Incognito)),
                Name::Ghost => modules.push(Box::new(ghost::Ghost)),
                // These two keep what they have learned since the start.
                Name::History => modules.push(match keep("history") {
                    Some(before) => before,
                    None => Box::new(self.history(settings)),
                }),
                Name::Guard => {
                    if let Some(before) = keep("guard") {
                        modules.push(before);
                        continue;
                    }
                    let mut wanted = settings.guard.clone();
                    wanted.state = Some(self.options.state.clone());
                    match line_guard::LineGuard::new(&wanted) {
                        Ok(guard) => {
                            if wanted.enabled && wanted.scope != Scope::Off {
                                self.link.borrow_mut().begin();
                            }
                            let guard =
                                guard.with_link(Rc::clone(&self.link)).with_tally(Rc::clone(&self.tally));
                            modules.push(Box::new(guard));
                        }
                        Err(error) => engine.say(&format!("palisade: the guard is off: {error}")),
                    }
                }
                // Parts of other modules: the pick list belongs to the history, and the status text comes from the
                // modules.
                Name::Pick | Name::Links | Name::Status => {}
            }
        }
        // A recording continues when the settings change.
        let begins = self.recorder.take().map(|recorder| Box::new(recorder) as Box<dyn Module>);
        modules.extend(begins.or_else(|| engine.chain().take(recorder::NAME)));
        let links = !self.options.bare && settings.modules.contains(&Name::Links);
        engine.set_links(links, settings.links.paths);
        engine.set_rows(settings.ghost.rows);
        engine.set_incognito(settings.history.incognito);
        engine.set_chain(Chain::of(modules));
        let bar = !self.options.bare && settings.modules.contains(&Name::Status) && settings.status.row;
        let screen = &mut self.screen;
        let before = engine.inner_size();
        engine.set_bar(bar.then_some(&settings.status.show), &mut |bytes| screen.put(bytes));
        if engine.inner_size() != before {
            self.tell_size(engine);
        }
    }

    fn counting(&self, settings: &Settings) -> counts::Counting {
        let tally = Rc::clone(&self.tally);
        counts::Counting::in_directory(&self.options.state, tally, privacy(settings))
    }

    fn history(&self, settings: &Settings) -> history::History {
        let mut history = history::History::with_store(&self.options.state, privacy(settings));
        let has = |name| settings.modules.contains(&name);
        history.show(has(Name::Ghost).then_some(settings.ghost.from), has(Name::Pick));
        history
    }

    pub(super) fn complain(&self, engine: &mut Engine, error: &SettingsError) {
        let mut words = format!("palisade: {error}");
        if let Some(hint) = error.hint() {
            words.push_str("\nhint: ");
            words.push_str(&hint);
        }
        engine.say(&words);
    }

    /// Reads the settings again if the file has changed.
    pub(super) fn heed_settings(&mut self, engine: &mut Engine) {
        let time = time_of(&self.options.settings);
        if time != self.settings_time {
            self.settings_time = time;
            match Settings::read(&self.options.settings) {
                Ok(settings) if !self.options.bare => {
                    self.set(engine, &settings);
                    engine.say("palisade: the settings are read again");
                }
                Ok(_) => {}
                Err(error) => self.complain(engine, &error),
            }
        }
    }
}
