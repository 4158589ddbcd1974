// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Suggests earlier lines as ghost text and in a pick list, and remembers new lines.

use crate::chain::{Action, Acts, Ended, Flow, Module, View};
use crate::foreground::Layer;
use crate::history::{
    Entry, Found, Id, Index, LIST, LOCAL, Loading, Privacy, Sources, Writer, import::Kind, load, now,
};
use crate::key::{Code, Input};
use crate::settings::{Name, Settings};
use std::path::{Path, PathBuf};

/// The module.
#[derive(Debug)]
pub struct History {
    index: Index,
    loading: Option<Loading>,
    writer: Option<Writer>,
    privacy: Privacy,
    /// The number of bytes from which on there is ghost text; `None`: there is none.
    from: Option<usize>,
    /// Whether there is a pick list.
    picks: bool,
    open: Vec<String>,
    host: String,
    user: String,
    session: String,
    current: Option<(Id, Entry)>,
    /// The kernel has named the program that took the terminal.
    seen: bool,
}

impl History {
    /// The module with the store in a state directory, and with the shells' own history files.
    #[must_use]
    pub fn with_store(state: &Path, privacy: Privacy) -> Self {
        let file = state.join("history.sqlite");
        let sources =
            Sources { store: Some(file.clone()), files: own_files(), privacy, ..Sources::default() };
        let mut history = Self::of(Index::default(), privacy);
        history.loading = Some(load(sources));
        history.writer = Some(Writer::new(&file));
        history
    }

    /// The module with an existing index, without a store.
    #[must_use]
    pub fn of(index: Index, privacy: Privacy) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            index,
            loading: None,
            writer: None,
            privacy,
            from: Some(1),
            picks: true,
            open: Vec::new(),
            host: host.trim_end().to_owned(),
            user: std::env::var("USER").unwrap_or_default(),
            session: format!("{}-{}", std::process::id(), now()),
            current: None,
            seen: false,
        }
    }

    /// Sets which of its functions are on.
    pub fn show(&mut self, ghost_from: Option<usize>, picks: bool) {
        self.from = ghost_from;
        self.picks = picks;
    }

    fn open(&mut self, view: &View<'_>) -> bool {
        let mut found: [Found<'_>; LIST] = [Found::default(); LIST];
        let count = self.index.list(view.line.text(), view.directory, &mut found);
        let usable = |found: &&Found<'_>| !found.line.chars().any(char::is_control);
        self.open = found.iter().take(count).filter(usable).map(|found| found.line.to_owned()).collect();
        !self.open.is_empty()
    }
}

/// The shells' own history files.
fn own_files() -> Vec<(Kind, PathBuf)> {
    let Some(home) = std::env::var_os("HOME").map(PathBuf::from) else { return Vec::new() };
    vec![
        (Kind::Bash, home.join(".bash_history")),
        (Kind::Zsh, home.join(".zsh_history")),
        (Kind::Fish, home.join(".local/share/fish/fish_history")),
    ]
}

impl Module for History {
    fn name(&self) -> &'static str {
        "history"
    }

    fn renew(&mut self, settings: &Settings) -> bool {
        self.privacy = Privacy {
            leading_space: settings.history.ignore_space,
            secrets: settings.history.ignore_secrets,
        };
        let has = |name| settings.modules.contains(&name);
        self.show(has(Name::Ghost).then_some(settings.ghost.from), has(Name::Pick));
        true
    }

    fn input(&mut self, input: &Input<'_>, _view: &View<'_>, acts: &mut Acts) -> Flow {
        if self.open.is_empty() {
            return Flow::Forward;
        }
        let open = core::mem::take(&mut self.open);
        match input {
            Input::Text(digit @ '1'..='9') => {
                let line = usize::try_from(u32::from(*digit) - u32::from('1'))
                    .ok()
                    .and_then(|index| open.get(index));
                let Some(line) = line else { return Flow::Swallow };
                // Moves to the line's end and deletes the line.
                acts.type_text("\x05\x15");
                acts.type_text(line);
                Flow::Replace
            }
            Input::Key(chord) if chord.code == Code::Escape => Flow::Swallow,
            _ => Flow::Forward,
        }
    }

    fn action(&mut self, action: Action, view: &View<'_>, acts: &mut Acts) -> bool {
        if !view.line.is_certain() {
            return false;
        }
        match action {
            Action::Pick if self.picks => {
                acts.renew = self.open(view);
                acts.renew
            }
            Action::Forget if !view.ghost.is_empty() => {
                let line = format!("{}{}", view.line.text(), view.ghost);
                self.index.delete(&line);
                if let Some(writer) = &self.writer {
                    writer.forget(&line);
                }
                acts.renew = true;
                true
            }
            _ => false,
        }
    }

    fn started(&mut self, line: &str, view: &View<'_>) {
        self.current = None;
        self.seen = false;
        // Text that is typed to another program isn't this shell's history.
        if view.foreground.is_foreign()
            || view.incognito
            || line.trim().is_empty()
            || self.privacy.keeps_out(line).is_some()
        {
            return;
        }
        let entry = Entry {
            line: line.to_owned(),
            directory: view.directory.to_owned(),
            host: self.host.clone(),
            user: self.user.clone(),
            session: self.session.clone(),
            // A guess until the kernel reports the layers. Many commands end before the kernel is asked.
            context: Layer::of_line(line).map(|layer| layer.to_string()).unwrap_or_default(),
            started: now(),
            duration: None,
            exit: None,
        };
        if let Some(writer) = &self.writer {
            self.current = Some((writer.started(entry.clone()), entry));
        } else {
            self.index.add(&entry);
        }
    }

    fn foreground(&mut self, view: &View<'_>) {
        // The first layer that is seen is what the line was for. Seeing none proves less than the line's words, because
        // the command may have ended before.
        if let Some((_, entry)) = self.current.as_mut().filter(|_| !self.seen && view.foreground.is_foreign())
        {
            self.seen = true;
            entry.context = view.foreground.to_string();
        }
    }

    fn ended(&mut self, ended: &Ended<'_>, _view: &View<'_>) {
        let Some((id, mut entry)) = self.current.take() else { return };
        if entry.context.is_empty() {
            LOCAL.clone_into(&mut entry.context);
        }
        if let Some(writer) = &self.writer {
            writer.finished(id, Some(ended.code), Some(ended.duration), &entry.context);
        }
        entry.exit = Some(ended.code);
        entry.duration = i64::try_from(ended.duration.as_nanos()).ok();
        self.index.add(&entry);
    }

    fn tick(&mut self, _view: &View<'_>, acts: &mut Acts) {
        if let Some(loaded) = self.loading.as_mut().and_then(Loading::take) {
            self.loading = None;
            self.index.adopt(loaded.index);
            for problem in loaded.problems {
                acts.say(&format!("palisade: {problem}"));
            }
        }
        if let Some(problem) = self.writer.as_ref().and_then(Writer::problem) {
            acts.say(&format!("palisade: {problem}"));
        }
    }

    fn awaits_tick(&self) -> bool {
        self.loading.is_some() || self.writer.as_ref().is_some_and(Writer::may_tell)
    }

    fn ghost<'a>(&'a self, view: &View<'_>) -> Option<&'a str> {
        let typed = view.line.text();
        (typed.len() >= self.from?).then(|| self.index.suggest(typed, view.directory)).flatten()
    }

    fn list(&self, _view: &View<'_>, into: &mut String) {
        use core::fmt::Write;
        for (number, line) in (1..).zip(&self.open) {
            let _a_string_takes_all = writeln!(into, "{number} {}", palisade_text::shown(line));
        }
    }
}
