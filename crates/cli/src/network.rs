// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filtered network of a launch: what serves it, and what is said of what it reports.

use palisade_event::{Detail, Event, Mechanism, Network, Object, Operation, Outcome, Subject, Verdict, Why};
use palisade_network::{
    Inside, Instruction, ProxyVariables, Remedy, Report, Resolving, Route, Told, Upstream, What,
};
use palisade_policy::NetworkRule;
use palisade_policy::layer::Strength;
use palisade_sandbox::network::gateway::{self, Maker, Served};
use palisade_sys::network::Use;
use std::fmt::Write;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::SystemTime;

/// Serves the network of a launch, in a process of its own: [`palisade_sandbox::network::gateway::ServeNetwork`].
pub(crate) fn serve(served: Served) {
    let mut inside = Inside { publish: served.publish, ..Inside::default() };
    for made in served.inside {
        match made.used {
            Use::Connections => inside.tcp.push(made.socket),
            Use::Questions => inside.dns.push(made.socket),
            Use::LongQuestions => inside.dns_tcp.push(made.socket),
            Use::Reach(port) => inside.reach.push((made.socket, port)),
        }
    }
    let stated = served.proxy.as_deref().map(str::parse::<palisade_policy::network::Upstream>).transpose();
    let route = match stated {
        Ok(None | Some(palisade_policy::network::Upstream::Direct)) => Route::Direct,
        Ok(Some(palisade_policy::network::Upstream::Proxy(proxy))) => Route::Proxy(proxy),
        Ok(Some(palisade_policy::network::Upstream::Environment)) => {
            Route::Variables(ProxyVariables::read(&served.variables))
        }
        // What the policy took for a proxy is one.
        Err(_error) => return,
    };
    let upstream = Upstream { route, dns: served.dns };
    let resolving = Resolving { resolv_conf: served.resolv_conf, hosts: served.hosts };
    let mut sockets = Sockets(served.maker);
    // Its end is seen by the launcher, whatever the reason.
    let _ended = palisade_network::serve(
        inside,
        &served.rules,
        &served.answered,
        &upstream,
        &resolving,
        &mut sockets,
        served.control,
    );
}

struct Sockets(Maker);

impl palisade_network::Maker for Sockets {
    fn socket(&mut self, v6: bool) -> std::io::Result<OwnedFd> {
        Ok(self.0.socket(v6)?)
    }
}

/// A report in the server's own words; none if it makes no sense, which takes a server that was talked into it.
pub(crate) fn told(report: &[u8]) -> Option<Told> {
    Told::read(report).ok()
}

/// Lets whoever serves go on with a refusal, once it is known who asked.
pub(crate) fn noted(number: u64, control: BorrowedFd<'_>) {
    if let Ok(words) = Instruction::Noted(number).to_bytes() {
        gateway::instruct(control, &words);
    }
}

/// Tells whoever serves when the host's files about names have changed: another network, a name server less.
#[derive(Debug, Default)]
pub(crate) struct Renewal {
    seen: Option<[Option<SystemTime>; 2]>,
}

impl Renewal {
    /// Something didn't work: perhaps because of that.
    pub(crate) fn look(&mut self, report: &Report, control: BorrowedFd<'_>) {
        let changed = |path: &str| std::fs::metadata(path).and_then(|found| found.modified()).ok();
        let now = || Some(FILES.map(changed));
        if report.what != What::Failed {
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
        if let Ok(words) = Instruction::Resolving(Resolving { resolv_conf, hosts }).to_bytes() {
            gateway::instruct(control, &words);
        }
    }
}

const FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// Whether the caller's variables name a proxy.
pub(crate) fn environment_names_proxy() -> bool {
    gateway::variables().iter().any(|(name, _value)| !name.eq_ignore_ascii_case("no_proxy"))
}

/// A report as an event, and the command that would permit what was refused. None for what only counts together with
/// what follows.
///
/// `overlooked`: the caller has variables about proxies, and nobody has said whether they count.
pub(crate) fn event(report: &Report, (program, pid): (&str, Option<u32>), overlooked: bool) -> Option<Event> {
    let (outcome, verdict, text) = match report.what {
        What::Opened => return None,
        What::Closed => (Outcome::Closed, Verdict::Allowed, account(report)),
        What::Refused => (Outcome::Refused, Verdict::Refused, report.why.clone()),
        // It was allowed; why it didn't work is worth a line all the same.
        What::Failed => (Outcome::Failed, Verdict::Allowed, format!("it failed: {}", report.why)),
        What::Strained => (Outcome::Strained, Verdict::Refused, report.why.clone()),
    };
    let detail = Network {
        address: report.address,
        sent: report.sent,
        received: report.received,
        duration: report.duration,
        ..Network::new(outcome)
    };
    let subject = Subject {
        pid,
        uid: Some(rustix::process::getuid().as_raw()),
        program: program.to_owned(),
        ..Subject::default()
    };
    let event = Event::new(
        report.time,
        Detail::Network(detail),
        subject,
        (Operation::Connect, Object::host(&*report.host, report.port)),
        (verdict, Mechanism::Gateway),
        Why { origin: report.rule.as_ref().map(|rule| rule.origin.clone()), text },
    );
    let hint = match report.what {
        What::Refused => permit(report),
        What::Failed if overlooked => Some(
            "palisade run --proxy environment …   # by HTTPS_PROXY and the like, which are set here"
                .to_owned(),
        ),
        _ => None,
    };
    Some(event.with_hint(hint))
}

/// `example.com:443`; the name alone where it was only looked up.
pub(crate) fn object(host: &str, port: u16) -> String {
    Object::host(host, port).to_string()
}

/// What became of a connection.
fn account(report: &Report) -> String {
    let mut text = String::new();
    if let Some(address) = report.address {
        let _infallible = write!(text, "{address}, ");
    }
    let seconds = report.duration.as_secs_f64();
    let _infallible = write!(text, "{} bytes out, {} in, {seconds:.3} s", report.sent, report.received);
    text
}

/// What to type to permit what was refused; nothing where a lock stands against it.
fn permit(report: &Report) -> Option<String> {
    let locked = |rule: &NetworkRule| rule.strength == Strength::Locked;
    if report.rule.as_ref().is_some_and(locked) || report.host.is_empty() {
        return None;
    }
    let target = match report.remedy {
        Remedy::Nothing => return None,
        Remedy::Host => object(&report.host, report.port),
        Remedy::Address(address) => object(&address.to_string(), report.port),
    };
    Some(format!("palisade run --allow {target} …"))
}
