// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides whether a connection may be made: by the policy, and by the user where the policy says so.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use palisade_event::Outcome;
use palisade_policy::network::{NetworkRule, NetworkVerdict, Ruling};
use palisade_protocol::network::{Answer, Asker, Held, Question, Told, Unasked};
use tokio::sync::{oneshot, watch};

use crate::engine::Engine;
use crate::host::Host;
use crate::report;

/// How often the same refusal is reported.
const DAMPED: Duration = Duration::from_secs(1);
/// How many refusals are remembered for that.
const REMEMBERED: usize = 1024;
/// How many answers are remembered, and how many questions are asked at once. A program that opens more connections to
/// different hosts would only flood the user.
const ANSWERS: usize = 4096;
const QUESTIONS: usize = 64;

/// The result of a question.
pub(crate) type Said = Result<Answer, Unasked>;

/// What a rule must name to allow what was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// No rule would change it.
    Nothing,
    /// The host that the connection is to.
    Host,
    /// The address that the name leads to.
    Address(IpAddr),
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    /// [`Outcome::Refused`] or [`Outcome::Failed`].
    pub(crate) outcome: Outcome,
    pub(crate) why: String,
    pub(crate) rule: Option<Box<NetworkRule>>,
    pub(crate) remedy: Remedy,
}

impl Fault {
    /// A refusal that no rule changes.
    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Self { outcome: Outcome::Refused, why: why.into(), rule: None, remedy: Remedy::Nothing }
    }

    /// A refusal because the user refused or gave no answer.
    fn unanswered(why: &str) -> Self {
        Self { remedy: Remedy::Host, ..Self::refused(why) }
    }

    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failed, why: why.into(), rule: None, remedy: Remedy::Nothing }
    }

    /// A message for a person at the other end.
    pub(crate) fn text(&self, host: &Host, port: u16) -> String {
        let done = if self.outcome == Outcome::Refused { "refuses" } else { "can't reach" };
        let mut text = format!("palisade {done} {host} port {port}: {}\n", self.why);
        let allow = match self.remedy {
            _ if self.rule.is_some() => None,
            Remedy::Nothing => None,
            Remedy::Host => Some(host.to_string()),
            Remedy::Address(address) => Some(address.to_string()),
        };
        if let Some(allow) = allow {
            text.push_str(&format!("hint: palisade run --allow {allow} ...\n"));
        }
        text
    }
}

/// A host and a port.
type Place = (Host, u16);
/// A question's number, and the channel for those that wait for its answer.
type Asked = (u64, watch::Sender<Option<Said>>);

/// The user's answers, and the refusals that were reported lately.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    answers: RefCell<HashMap<Place, bool>>,
    waiting: RefCell<HashMap<Place, Asked>>,
    number: Cell<u64>,
    told: RefCell<HashMap<Place, Instant>>,
    /// Refusals that wait until the launcher has noted them.
    held: RefCell<HashMap<u64, oneshot::Sender<()>>>,
}

impl Decisions {
    /// Passes on the user's answer to a question, or why the user can't be asked.
    pub(crate) fn answered(&self, number: u64, said: Said) {
        let mut waiting = self.waiting.borrow_mut();
        let Some(place) = waiting.iter().find(|(_place, (asked, _answer))| *asked == number) else { return };
        let place = place.0.clone();
        if let Some((_number, sender)) = waiting.remove(&place) {
            if let Ok(answer) = said
                && answer.session
                && self.answers.borrow().len() < ANSWERS
            {
                self.answers.borrow_mut().insert(place, answer.allow);
            }
            let _nobody_waits = sender.send(Some(said));
        }
    }

    /// Adds a refusal that waits until the launcher has noted it.
    fn hold(&self) -> (u64, oneshot::Receiver<()>) {
        let number = self.number.get();
        self.number.set(number + 1);
        let (sender, noted) = oneshot::channel();
        self.held.borrow_mut().insert(number, sender);
        (number, noted)
    }

    /// A refusal was noted, or doesn't need to be any more.
    pub(crate) fn noted(&self, number: u64) {
        if let Some(sender) = self.held.borrow_mut().remove(&number) {
            let _nobody_waits = sender.send(());
        }
    }

    /// Whether a refusal is to be reported; false if the same was reported a moment ago.
    fn tells(&self, host: &Host, port: u16) -> bool {
        let now = Instant::now();
        let mut told = self.told.borrow_mut();
        if told.len() >= REMEMBERED {
            told.retain(|_place, before| now.duration_since(*before) < DAMPED);
            if told.len() >= REMEMBERED {
                return false;
            }
        }
        let place = (host.clone(), port);
        let tells = told.get(&place).is_none_or(|before| now.duration_since(*before) >= DAMPED);
        if tells {
            told.insert(place, now);
        }
        tells
    }
}

impl Engine {
    /// Whether a connection to a host is allowed, and by which rule.
    pub(crate) async fn permit(&self, host: &Host, port: u16) -> Result<Option<Box<NetworkRule>>, Fault> {
        let ruling = match host {
            Host::Name(name) => self.judge.name(name, port),
            Host::Address(address) => self.judge.address(*address, port),
        };
        match ruling.verdict {
            NetworkVerdict::Allow => Ok(ruling.rule.map(|rule| Box::new(rule.clone()))),
            NetworkVerdict::Deny => Err(refusal(&ruling, host)),
            NetworkVerdict::Ask if let Some(rule) = self.answered_before(host, port) => Ok(Some(rule)),
            NetworkVerdict::Ask => match self.ask(host, port).await {
                Some(Ok(true)) => Ok(None),
                Some(Ok(false)) => Err(Fault::unanswered("you said no")),
                Some(Err(why)) => Err(Fault::unanswered(&format!(
                    "no rule allows it, and the user couldn't be asked: {why}"
                ))),
                None => Err(Fault::unanswered("the user didn't answer the question about it")),
            },
        }
    }

    /// The rule by which the user has allowed this host before.
    fn answered_before(&self, host: &Host, port: u16) -> Option<Box<NetworkRule>> {
        let ruling = match host {
            Host::Name(name) => self.answered.name(name, port),
            Host::Address(address) => self.answered.address(*address, port),
        };
        let rule = ruling.rule.filter(|_rule| ruling.verdict == NetworkVerdict::Allow)?;
        Some(Box::new(rule.clone()))
    }

    /// Asks the user. All connections to the same host and port wait for one answer.
    async fn ask(&self, host: &Host, port: u16) -> Option<Result<bool, Unasked>> {
        let place = (host.clone(), port);
        let decisions = &self.decisions;
        if let Some(answer) = decisions.answers.borrow().get(&place) {
            return Some(Ok(*answer));
        }
        let mut answer = {
            let mut waiting = decisions.waiting.borrow_mut();
            match waiting.get(&place) {
                Some((_number, answer)) => answer.subscribe(),
                None if waiting.len() >= QUESTIONS => return Some(Err(Unasked::TooMany)),
                None => {
                    let number = decisions.number.get();
                    decisions.number.set(number + 1);
                    let (sender, answer) = watch::channel(None);
                    waiting.insert(place.clone(), (number, sender));
                    let question = Question { number, host: host.to_string(), port };
                    self.outbox.tell(Told::Question(question));
                    answer
                }
            }
        };
        let answered = answer.wait_for(Option::is_some);
        let answered = match tokio::time::timeout(self.limits.answer, answered).await {
            Ok(Ok(said)) => said.map(|said| said.map(|answer| answer.allow)),
            _ => None,
        };
        if answered.is_none() {
            decisions.waiting.borrow_mut().remove(&place);
        }
        answered
    }

    /// Reports a connection that wasn't made, unless the same was reported a moment ago.
    ///
    /// The client's refusal waits until the launcher has noted it. Otherwise the client's process would often have
    /// ended before the launcher could look up which process it is.
    pub(crate) async fn fault(&self, asker: Option<Asker>, host: &Host, port: u16, fault: &Fault) {
        self.fault_at(asker, host, port, None, fault).await;
    }

    /// The same for a connection that has an address already.
    pub(crate) async fn fault_at(
        &self,
        asker: Option<Asker>,
        host: &Host,
        port: u16,
        address: Option<IpAddr>,
        fault: &Fault,
    ) {
        if !self.decisions.tells(host, port) {
            return;
        }
        let asker = asker.filter(|_asker| fault.outcome == Outcome::Refused);
        let (held, noted) = match asker.map(|asker| (asker, self.decisions.hold())) {
            Some((asker, (number, noted))) => (Some(Held { number, asker }), Some((number, noted))),
            None => (None, None),
        };
        self.report(report::fault(host, port, address, fault), held);
        if let Some((number, noted)) = noted {
            let _late = tokio::time::timeout(self.limits.noted, noted).await;
            self.decisions.noted(number);
        }
    }
}

/// The message for a ruling against a host.
pub(crate) fn refusal(ruling: &Ruling<'_>, host: &Host) -> Fault {
    let why = match (ruling.rule, ruling.private) {
        (Some(rule), _) => rule.to_string(),
        (None, true) => format!("{host} isn't an address of the public internet"),
        (None, false) => "no rule allows it".to_owned(),
    };
    let rule = ruling.rule.map(|rule| Box::new(rule.clone()));
    Fault { outcome: Outcome::Refused, why, rule, remedy: Remedy::Host }
}
