// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers on the host, about the launch that the options describe: as `palisade explain` answers.

use super::inside::listed;
use super::permission::Permission;
use super::tools::{Answer, Subject};
use crate::asked::Asked;
use crate::situation;
use crate::verb::{Exit, Failure};
use clap::ArgMatches;
use palisade::Situation;
use palisade::explanation::{CommandExplanation, Host, HostExplanation, PathExplanation};
use palisade_event::Refusal;
use palisade_events::{Filter, Store, StoreError};
use serde::Serialize;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The launch that answers are about.
#[derive(Debug)]
pub(super) struct Outside {
    asked: Asked,
    matches: ArgMatches,
    /// The store of events, and its end when this server was started.
    events: PathBuf,
    begun: i64,
}

/// The part of an explanation that every kind has.
struct Explained {
    allowed: bool,
    why: String,
    permit: Option<String>,
    body: Value,
}

impl Outside {
    pub(super) fn new(asked: Asked, matches: ArgMatches) -> Result<Self, Failure> {
        let events = situation::facts()?.places.events();
        let end = |store: Option<Store>| store.map_or(Ok(0), |store| store.end());
        let begun = Store::find(&events).and_then(end).map_err(Failure::Events)?;
        Ok(Self { asked, matches, events, begun })
    }

    /// With `--dry-run`: prints the plan that the answers are about.
    pub(super) fn dry_run(&self) -> Option<Exit> {
        self.asked.launch.dry_run.then(|| {
            let situation = self.situation()?;
            self.asked.dry_run(&situation).unwrap_or(Ok(crate::verb::YES))
        })
    }

    /// Read each time: the user may have changed the policy.
    fn situation(&self) -> Result<Situation, Failure> {
        Ok(self.asked.request(&self.matches)?.settle()?)
    }

    fn explained(&self, subject: &Subject) -> Result<Explained, String> {
        let mut situation = self.situation().map_err(|error| error.to_string())?;
        match subject {
            Subject::Path(path, access) => {
                let explanation = PathExplanation::of(&situation, path, (*access).into());
                let explanation = explanation.map_err(|error| error.to_string())?;
                let (allowed, why) = (explanation.allowed, explanation.why.clone());
                Ok(Explained { allowed, why, permit: explanation.permit.clone(), body: body(&explanation) })
            }
            Subject::Host(host) => {
                let host = Host::new(host).ok_or_else(|| format!("{host:?} is no host"))?;
                let explanation = HostExplanation::of(&situation, &host);
                let (allowed, why) = (explanation.allowed, explanation.why.clone());
                Ok(Explained { allowed, why, permit: explanation.permit.clone(), body: body(&explanation) })
            }
            Subject::Command(command) => {
                if situation.facts.command.is_empty() {
                    situation.facts.command = vec![OsString::from(command)];
                }
                let explanation = CommandExplanation::of(&situation, OsStr::new(command));
                let explanation = explanation.map_err(|error| error.to_string())?;
                let why = match (&explanation.found, explanation.searched.last()) {
                    (Some(found), _) => found.why.clone(),
                    (None, Some(last)) => last.why.clone(),
                    (None, None) => "no directory of PATH has a program of this name".to_owned(),
                };
                let allowed = explanation.allowed;
                Ok(Explained { allowed, why, permit: explanation.permit.clone(), body: body(&explanation) })
            }
        }
    }

    /// Explains.
    pub(super) fn explain(&self, subject: &Subject) -> Answer {
        match self.explained(subject) {
            Ok(explained) => Answer::new(explained.body),
            Err(why) => Answer::error(&why),
        }
    }

    /// Answers a request for a permission. No sandbox runs whose launcher could ask.
    pub(super) fn permission(&self, subject: &Subject) -> Answer {
        match self.explained(subject) {
            Ok(Explained { allowed, why, permit, body: _ }) => {
                Permission { permitted: allowed, asked_launcher: false, why, command: permit }.shown()
            }
            Err(why) => Answer::error(&why),
        }
    }

    /// What all sandboxes of this user were refused since this server was started.
    pub(super) fn refusals(&self) -> Answer {
        match self.recorded() {
            Ok(all) => listed(all),
            Err(error) => Answer::error(&error.to_string()),
        }
    }

    fn recorded(&self) -> Result<Vec<Value>, StoreError> {
        let Some(store) = Store::find(&self.events)? else { return Ok(Vec::new()) };
        let (mut all, mut position) = (Vec::new(), self.begun);
        loop {
            let page = store.after(position, &Filter::default())?;
            let refused = page.entries.iter().filter(|entry| Refusal::is_one(&entry.event));
            all.extend(refused.map(|entry| body(&Refusal::new(&entry.event, entry.event.count))));
            if !page.more {
                return Ok(all);
            }
            position = page.position;
        }
    }
}

fn body(explanation: &impl Serialize) -> Value {
    serde_json::to_value(explanation).unwrap_or_default()
}
