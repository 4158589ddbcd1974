// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints a plan: in words, or as JSON that can be applied.

use palisade_policy::environment::{Fate, Reason};
use palisade_sandbox::error::{describe, quoted};
use palisade_sandbox::guarantee;
use palisade_sandbox::plan::{GroupLimit, IdentityKind, Network, Plan};
use palisade_syscall::store::key::shown;
use palisade_text::harmless;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;

/// Prints the plan on standard output.
pub(crate) fn print(plan: &Plan<'_>, command: &[OsString], json: bool) {
    let mut text = if json {
        palisade_text::json(serde_json::to_string_pretty(plan).unwrap_or_default())
    } else {
        words(plan, command)
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    // A closed output (`| head`) is no error: its reader has seen enough.
    let _seen_enough = std::io::stdout().write_all(text.as_bytes());
}

/// The plan in words, one line for each step.
pub(crate) fn words(plan: &Plan<'_>, command: &[OsString]) -> String {
    let mut text = String::new();
    let mut line = |words: &str| {
        text.push_str(&harmless(words));
        text.push('\n');
    };
    let namespaces: Vec<String> =
        plan.namespaces.iter().map(|namespace| format!("{namespace:?}").to_lowercase()).collect();
    line(&if namespaces.is_empty() {
        "namespaces: none".to_owned()
    } else {
        format!("namespaces: {}", namespaces.join(", "))
    });
    let who = plan.identity;
    line(&match who.kind {
        IdentityKind::Unchanged => format!("identity: user {} as outside", who.uid),
        IdentityKind::Own => {
            format!("identity: user {} inside is {} outside, without capabilities", who.uid, who.host_uid)
        }
        IdentityKind::Mapped => {
            format!(
                "identity: user {} inside is {} outside, who owns nothing; owners of writable files are mapped",
                who.uid, who.host_uid
            )
        }
    });
    line("guarantees:");
    for held in guarantee::held(plan) {
        line(&match held.by {
            Some(by) => format!("  {}: {} ({by})", held.guarantee.name(), held.words),
            None => format!("  MISSING {}: {}", held.guarantee.name(), held.words),
        });
    }
    line("steps:");
    for step in &plan.steps {
        line(&format!("  {}", describe(step)));
    }
    if let Some(name) = &plan.hostname {
        line(&format!("host name: {name}"));
    }
    line(&match plan.landlock {
        Some(landlock) => format!(
            "landlock: ABI {}, {} file rights, scopes {:#x}",
            landlock.abi,
            landlock.files.0.count_ones(),
            landlock.scoped
        ),
        None => "landlock: not on this host".to_owned(),
    });
    line(&format!("seccomp: {} instructions", plan.filter.0.len() / 8));
    if let Some(calls) = plan.broker.as_ref().and_then(|broker| broker.calls.as_ref()) {
        let profile = shown(&calls.profile.to_string());
        line(&format!("  system calls that weren't learned for {profile}: {}", calls.words()));
    }
    if let Some(answers) = plan.broker.as_ref().and_then(|broker| broker.answers.as_ref()) {
        line("system call replies of the policy:");
        for words in answers.words() {
            line(&format!("  {words}"));
        }
    }
    for bus in &plan.buses {
        // A plan that was made or read has been decoded before.
        let command = bus.proxy.get().map(|proxy| {
            let words = proxy.command.iter().map(|word| quoted(&word.to_string()));
            words.collect::<Vec<_>>().join(" ")
        });
        line(&format!("{}: on the first connection {}", bus.which, command.unwrap_or_default()));
    }
    if let Some(network) = &plan.network {
        describe_network(network, &mut line);
    }
    if plan.offline.is_some() {
        line("network: none; each look-up of a name is refused at once and reported");
    }
    for limit in &plan.limits {
        line(&format!("limit: resource {} to {}", limit.resource, limit.value));
    }
    for limit in &plan.group_limits {
        line(&match limit {
            GroupLimit::Memory(bytes) => format!("limit: {bytes} bytes of memory, by a control group"),
            GroupLimit::Processes(most) => format!("limit: {most} processes, by a control group"),
        });
    }
    describe_environment(plan, &mut line);
    line(&format!("directory: {}", plan.directory));
    for note in &plan.notes {
        line(&format!("note: {note}"));
    }
    if !command.is_empty() {
        let command: Vec<String> = command.iter().map(|word| quoted(&word.to_string_lossy())).collect();
        let _infallible = writeln!(text, "command: {}", harmless(&command.join(" ")));
    }
    text
}

/// Describes which variables of this process the command doesn't get, and which it gets instead. The value of a variable
/// that the user has set may be a secret, so it isn't printed.
fn describe_environment(plan: &Plan<'_>, line: &mut dyn FnMut(&str)) {
    let environment = &plan.environment;
    let given = plan.offline.iter().flat_map(|offline| offline.variables.iter().map(ToString::to_string));
    let stated = environment.values().map(|(name, value, origin)| match origin.line {
        // No file and no argument states it.
        0 => format!("{name}={}", quoted(value)),
        _ => name.to_owned(),
    });
    let values: Vec<String> = stated.chain(given).collect();
    if !values.is_empty() {
        line(&format!("variables that are set: {}", values.join(" ")));
    }
    let inherited: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let bytes = inherited.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let removed: Vec<String> = environment
        .changed(bytes)
        .into_iter()
        .filter_map(|(name, fate, reason)| {
            let name = String::from_utf8_lossy(name);
            match (fate, reason) {
                (Fate::Removed, Reason::Secret(what)) => Some(format!("{name} ({what})")),
                (Fate::Removed, _) => Some(name.into_owned()),
                _ => None,
            }
        })
        .collect();
    if !removed.is_empty() {
        line(&format!("variables that are removed: {}", removed.join(", ")));
    }
}

/// Describes which hosts the command may reach.
fn describe_network(network: &Network<'_>, line: &mut dyn FnMut(&str)) {
    // A plan that was made or read has been decoded before.
    let rules = network.rules.get().unwrap_or_default();
    line(&format!("network: filtered, {} if no rule matches", rules.fallback));
    for rule in &rules.rules {
        line(&format!("  {rule}"));
    }
    for port in &network.reach {
        line(&format!("  port {port} of the host can be reached"));
    }
    for publish in &network.publish {
        let address = std::net::SocketAddr::new(publish.address, publish.host_port);
        line(&format!("  {address} of the host is port {}", publish.port));
    }
    if let Some(proxy) = &network.proxy {
        let proxy = proxy.to_string();
        match proxy.as_str() {
            "direct" => line("  through no proxy"),
            "environment" => line("  through the proxies that HTTPS_PROXY and the like name"),
            _ => line(&format!("  through {}", palisade_policy::network::masked(&proxy))),
        }
    }
    if let Some(answers) = &network.answers {
        line(&format!("  saved approvals are in {}", answers.file));
    }
    for server in &network.dns {
        line(&format!("  names are resolved by {server}"));
    }
}
