// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a profile from a summary of what was used.

use super::hosts::{self, Hosts, Refused};
use super::{Programs, UsageSummary, Wanted};
use crate::facts::Facts;
use palisade_policy::network::{HostPattern, NetworkRule};
use palisade_policy::render::Remarks;
use palisade_policy::word::{Chosen, SyscallMode};
use palisade_policy::{Access, LayerPolicy, NetworkMode, PathPattern, View};
use palisade_text::Show as _;
use std::ffi::OsString;
use std::path::Path;

/// The most remarks of one kind. Further ones are only counted.
const REMARKS: usize = 12;

/// What was learned about a command.
#[derive(Debug)]
pub struct Learned<'l> {
    /// The profile's name.
    pub name: &'l str,
    /// The command.
    pub command: &'l [OsString],
    /// Its exit code.
    pub code: u8,
    /// The summary of what it used.
    pub account: &'l UsageSummary,
    /// The hosts that it connected to.
    pub hosts: &'l Hosts,
    /// The view: it shows no more of the host than was shown while the command was learned.
    pub view: View,
}

/// The start of a profile: the profile that it refines and the command line, without their grants. What they hide,
/// limit and set is a decision of their author, which the trace doesn't show.
#[must_use]
pub fn own(refined: Option<LayerPolicy>, command_line: &LayerPolicy) -> LayerPolicy {
    let mut own = refined.unwrap_or_else(|| LayerPolicy::empty(command_line.layer, None));
    let more = command_line.settings.clone();
    own.settings.view.clear();
    own.settings.network.clear();
    // Denied hosts are an author's decision. Needed hosts are in the trace.
    own.settings.fallback.clear();
    own.settings.hosts.extend(more.hosts);
    // Which addresses names may lead to is stated by rules for addresses, and the trace doesn't show it.
    own.settings.hosts.retain(|rule| !rule.allow || is_of_addresses(rule));
    own.settings.closed.extend(more.closed);
    own.settings.upstream_proxy.extend(more.upstream_proxy);
    own.settings.upstream_dns.extend(more.upstream_dns);
    own.settings.publish.extend(more.publish);
    own.settings.reach.extend(more.reach);
    own.settings.paths.extend(more.paths);
    own.settings
        .paths
        .retain(|rule| matches!(rule.access, Access::Hide | Access::Deny | Access::Tmpfs | Access::Protect));
    own.settings.protect.extend(more.protect);
    own.settings.names.extend(more.names);
    own.settings.syscalls.extend(more.syscalls);
    own.settings.answers.extend(more.answers);
    own.settings.chosen.extend(more.chosen.into_iter().filter(|chosen| refuses_calls(chosen.value)));
    own.settings.processors.extend(more.processors);
    own.settings.time.extend(more.time);
    own.settings.hostname.extend(more.hostname);
    own.settings.uid.extend(more.uid);
    own.settings.gid.extend(more.gid);
    own.settings.cwd.extend(more.cwd);
    own.settings.best_effort.extend(more.best_effort);
    own.settings.inherit_terminal.extend(more.inherit_terminal);
    own.settings.environment.extend(more.environment);
    own.settings.limits.extend(more.limits);
    own
}

/// Whether the value says which system calls are refused. `learn` refuses none: it only concerned this run.
const fn refuses_calls(chosen: Chosen) -> bool {
    match chosen {
        Chosen::SyscallMode(mode) => !matches!(mode, SyscallMode::Learn),
        Chosen::SyscallRefusal(_) => true,
        _ => false,
    }
}

fn is_of_addresses(rule: &NetworkRule) -> bool {
    matches!(rule.target.host, HostPattern::Addresses(_))
}

impl Learned<'_> {
    /// The profile, and the remarks in it. `own`: what it starts from.
    #[must_use]
    pub fn layer(&self, own: &LayerPolicy, facts: &Facts) -> (LayerPolicy, Remarks) {
        let mut layer = LayerPolicy::command_line();
        layer.settings = own.settings.clone();
        layer.inherits.clone_from(&own.inherits);
        let mut remarks = Remarks::default();
        self.header(&mut remarks);
        self.grants(&mut layer, &mut remarks, facts);
        self.wanted(&mut remarks, facts);
        self.network(&mut layer, &mut remarks);
        layer.set_view(self.view, 0);
        layer.name = Some(stated(self.name.to_owned()));
        layer.description = Some(stated(format!("Learned from `{}`.", self.line())));
        (layer, remarks)
    }

    /// The command without arguments that may be secrets.
    fn line(&self) -> String {
        let plain = |word: &str| {
            word.len() <= 20
                && word.starts_with(|c: char| c.is_ascii_alphanumeric())
                && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_:.".contains(c))
        };
        let mut words = self.command.iter().map(|word| word.to_string_lossy());
        let program = words.next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default().to_owned();
        match words.next() {
            Some(verb) if plain(&verb) => format!("{program} {verb}"),
            _ => program,
        }
    }

    fn header(&self, remarks: &mut Remarks) {
        remarks.header.push(format!("Learned from one run of `{}`.", self.line()));
        if self.code != 0 {
            remarks.header.push(format!(
                "The command failed (exit code {}): what it would have used later is missing here.",
                self.code
            ));
        }
        remarks.header.push(
            "Statements allow what it did. Comments say what it wanted and wasn't granted; nothing is granted"
                .to_owned(),
        );
        remarks.header.push("by itself: take the `#` away from what you want.".to_owned());
    }

    fn grants(&self, layer: &mut LayerPolicy, remarks: &mut Remarks, facts: &Facts) {
        let mut add = |access, inside: &Path, host: &Path| state(layer, remarks, facts, access, inside, host);
        let cwd = &facts.cwd;
        // The command starts in this directory.
        if !self.account.grants.contains_key(cwd) {
            add(Access::Read, cwd, cwd);
        }
        for (inside, (host, rights)) in &self.account.grants {
            if rights.write {
                add(Access::Write, inside, host);
            }
            if rights.execute {
                add(Access::Execute, inside, host);
            }
            if !rights.write && !rights.execute {
                add(Access::Read, inside, host);
            }
        }
        let wide = |path: &Path| self.account.grants.get(path).is_some_and(|(_host, rights)| rights.write);
        for made in few(&self.account.made) {
            if made.parent().is_some_and(wide) {
                let path = spelled(made, facts).unwrap_or_default();
                remarks.add(
                    key(Access::Write),
                    format!("{path:?} was made by the command; learning again may grant only this path"),
                );
            }
        }
    }

    fn wanted(&self, remarks: &mut Remarks, facts: &Facts) {
        for access in [Access::Read, Access::Write, Access::Execute] {
            let wanted: Vec<&Wanted> =
                self.account.wanted.iter().filter(|wanted| wanted.access == access).collect();
            for wanted in few(&wanted) {
                if let Some(path) = spelled(&wanted.path, facts) {
                    remarks.add(key(access), commented(&path, &by(&wanted.programs)));
                }
            }
            more(remarks, key(access), wanted.len());
        }
        for lost in few(&self.account.lost) {
            if let Some(path) = spelled(&lost.path, facts) {
                let why = format!(
                    "{} written to a private directory and lost{}",
                    counted(lost.count),
                    by(&lost.programs)
                );
                remarks.add(key(Access::Write), commented(&path, &why));
            }
        }
        more(remarks, key(Access::Write), self.account.lost.len());
        for name in few(&self.account.names) {
            remarks
                .add("filesystem.allow_names", commented(name, "protected; the command tried to change it"));
        }
    }

    /// States the hosts that it connected to, one by one.
    fn hosts(&self, layer: &mut LayerPolicy, remarks: &mut Remarks) {
        const KEY: &str = "network.allow";
        let none = self.hosts.reached.is_empty();
        if !self.hosts.reached.keys().any(|host| hosts::is_name(host)) {
            layer.settings.hosts.retain(|rule| !rule.allow);
        }
        layer.set_network(if none { NetworkMode::None } else { NetworkMode::Filtered }, 0);
        for host in self.hosts.reached.keys() {
            if layer.add_host(host, true, 0).is_err() {
                remarks.add(KEY, format!("{host:?} can't be written as a rule"));
            }
        }
        let refused: Vec<(&String, &Refused)> = self.hosts.refused.iter().collect();
        for (host, refused) in few(&refused) {
            remarks.add(KEY, commented(host, &palisade_text::harmless(&refused.why)));
        }
        more(remarks, KEY, refused.len());
    }

    fn network(&self, layer: &mut LayerPolicy, remarks: &mut Remarks) {
        const KEY: &str = "network.mode";
        if self.hosts.filtered {
            return self.hosts(layer, remarks);
        }
        let addresses: Vec<(&String, &Programs)> = self.account.addresses.iter().collect();
        let open = self.account.reached_the_network;
        layer.set_network(if open { NetworkMode::Host } else { NetworkMode::None }, 0);
        if !open && !addresses.is_empty() {
            remarks.add(
                KEY,
                "With `palisade learn --net-default allow` the hosts are learned. It tried to reach:"
                    .to_owned(),
            );
        } else if open {
            remarks.add(KEY, "It reached:".to_owned());
        }
        for (address, programs) in few(&addresses) {
            remarks.add(KEY, format!("  {address}{}", by(programs)));
        }
        more(remarks, KEY, addresses.len());
    }
}

/// Grants a path of the host, at its path inside.
pub(super) fn state(
    layer: &mut LayerPolicy,
    remarks: &mut Remarks,
    facts: &Facts,
    access: Access,
    inside: &Path,
    host: &Path,
) {
    match mapping(inside, host, facts) {
        // Argument 0: an origin on the command line, without a particular argument.
        Some(text) if layer.add_path(access, &text, 0).is_ok() => {}
        _ => remarks.add(key(access), format!("{} can't be written in TOML", host.shown())),
    }
}

fn few<T>(all: &[T]) -> &[T] {
    &all[..all.len().min(REMARKS)]
}

fn more(remarks: &mut Remarks, key: &'static str, count: usize) {
    if count > REMARKS {
        remarks.add(key, format!("and {} more", count - REMARKS));
    }
}

fn counted(count: usize) -> String {
    if count == 1 { "1 name".to_owned() } else { format!("{count} names") }
}

fn by(programs: &Programs) -> String {
    let programs = programs.to_string();
    if programs.is_empty() { programs } else { format!(", by {programs}") }
}

/// A list entry that is commented out, and the reason why it may be wanted.
fn commented(entry: &str, why: &str) -> String {
    format!("{},   # {}", palisade_policy::render::string(entry), why.trim_start_matches(", "))
}

pub(super) const fn key(access: Access) -> &'static str {
    match access {
        Access::Read => "filesystem.read",
        Access::Write => "filesystem.write",
        Access::Execute => "filesystem.execute",
        Access::Hide => "filesystem.hide",
        Access::Deny => "filesystem.deny",
        Access::Tmpfs => "filesystem.tmpfs",
        Access::Protect => "filesystem.protect_paths",
    }
}

/// `HOST=DEST`, or one path if both are the same. `None` if a path can't be written in TOML.
fn mapping(inside: &Path, host: &Path, facts: &Facts) -> Option<String> {
    let source = spelled(host, facts)?;
    if inside == host {
        return Some(source);
    }
    Some(format!("{source}={}", spelled(inside, facts)?))
}

/// A path as a user writes it in a policy: relative to the working directory or the home, if it lies there.
fn spelled(path: &Path, facts: &Facts) -> Option<String> {
    let exactly =
        |path: &Path| PathPattern::exactly(path).ok().and_then(|path| path.as_str().map(str::to_owned));
    for (base, sign) in [(&facts.cwd, "."), (&facts.account.home, "~")] {
        if let Ok(rest) = path.strip_prefix(base) {
            if rest.as_os_str().is_empty() {
                return Some(sign.to_owned());
            }
            return Some(format!("{sign}/{}", exactly(rest)?));
        }
    }
    exactly(path)
}

fn stated<T>(value: T) -> palisade_policy::Sourced<T> {
    palisade_policy::Sourced {
        value,
        origin: palisade_policy::Origin::argument(0),
        strength: palisade_policy::Strength::Set,
    }
}
