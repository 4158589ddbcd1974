// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sorts events of several sources by their time, and prints them.

use super::Trouble;
use super::words::{Heading, since_midnight, words};
use crate::verb::{self, Failure};
use palisade_event::Event;
use palisade_events::{Clock, Entry, Filter, Style};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

/// Prints events.
pub(super) struct Printer {
    json: bool,
    style: Style,
    clock: Clock,
    /// Events of palisaded, oldest first. They wait until the store's earlier events are printed.
    held: VecDeque<Arc<Event>>,
    /// With a limit: all events of the beginning. Only the newest of them are printed.
    beginning: Option<Vec<Shown>>,
    limit: Option<usize>,
    printed: usize,
    /// The heading of the last line.
    heading: Option<Heading>,
}

/// An event of the store, which has a number, or an event of palisaded.
#[derive(Clone)]
enum Shown {
    Entry(Box<Entry>),
    Event(Arc<Event>),
}

impl Shown {
    fn event(&self) -> &Event {
        match self {
            Self::Entry(entry) => &entry.event,
            Self::Event(event) => event,
        }
    }
}

impl Printer {
    pub(super) fn new(
        json: bool,
        limit: Option<u32>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self {
            json,
            style: Style::of(&std::io::stdout()),
            clock: Clock::new()?,
            held: VecDeque::new(),
            beginning: limit.map(|_| Vec::new()),
            limit: limit.and_then(|limit| usize::try_from(limit).ok()),
            printed: 0,
            heading: None,
        })
    }

    /// How many events were printed.
    pub(super) const fn printed(&self) -> usize {
        self.printed
    }

    /// Whether as many events were printed as the user wants.
    pub(super) fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.printed >= limit)
    }

    /// Holds palisaded's events that the filter wants, until their time comes.
    pub(super) fn hold(&mut self, events: Vec<Arc<Event>>, filter: &Filter) {
        self.held.extend(events.into_iter().filter(|event| filter.wants(event)));
    }

    /// Prints events of the store, and the held events that happened before them.
    pub(super) fn print(&mut self, entries: Vec<Entry>) -> Result<(), Trouble> {
        let mut shown = Vec::with_capacity(entries.len());
        for entry in entries {
            while let Some(held) = self.held.pop_front_if(|held| held.time <= entry.event.time) {
                shown.push(Shown::Event(held));
            }
            shown.push(Shown::Entry(entry.into()));
        }
        match &mut self.beginning {
            Some(beginning) => {
                beginning.extend(shown);
                Ok(())
            }
            None => self.show(shown),
        }
    }

    /// Prints all held events. Events from now on don't belong to the beginning.
    pub(super) fn release(&mut self) -> Result<(), Trouble> {
        let held = self.held.drain(..).map(Shown::Event);
        let shown = match self.beginning.take() {
            Some(mut beginning) => {
                beginning.extend(held);
                let newest = self.limit.unwrap_or(usize::MAX);
                beginning.split_off(beginning.len().saturating_sub(newest))
            }
            None => held.collect(),
        };
        self.show(shown)
    }

    fn show(&mut self, shown: Vec<Shown>) -> Result<(), Trouble> {
        let left = self.limit.map_or(usize::MAX, |limit| limit.saturating_sub(self.printed));
        let today = self.time(SystemTime::now())?;
        let mut text = String::new();
        for one in shown.iter().take(left) {
            self.printed += 1;
            let event = one.event();
            if self.json {
                let line = match one {
                    Shown::Entry(entry) => serde_json::to_string(entry),
                    Shown::Event(event) => serde_json::to_string(event),
                };
                let line = line.map_err(|error| Failure::Output { source: error.into() })?;
                text.push_str(&palisade_text::json(line));
                text.push('\n');
                continue;
            }
            let heading = Heading::of(event);
            if self.heading.as_ref() != Some(&heading) {
                text.push_str(&heading.line(event, self.style));
                self.heading = Some(heading);
            }
            let clock = self.time(event.time)?;
            text.push_str(&words(event, since_midnight(&clock, &today), self.style));
        }
        if text.is_empty() { Ok(()) } else { Ok(verb::print_exactly(&text)?) }
    }

    fn time(&self, time: SystemTime) -> Result<String, Trouble> {
        self.clock.at(time).map_err(|error| Trouble::Clock(error.into()))
    }
}
