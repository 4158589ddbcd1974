// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads and writes seccomp profiles of containers (OCI runtime specification, `linux.seccomp`; also with the
//! conditions that Docker and Podman add).
//!
//! A profile of Palisade either allows a call or doesn't. A call that the file allows or refuses only under a condition
//! (for certain arguments, capabilities, kernels) isn't imported, and a warning names it: importing never allows what
//! the file would have refused.

use super::{ExchangeError, Imported, Warning};
use palisade_syscall::store::Learned;
use palisade_syscall::table::names;
use palisade_syscall::{Arch, Syscall, group};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const ALLOW: &str = "SCMP_ACT_ALLOW";
const ERRNO: &str = "SCMP_ACT_ERRNO";
/// Allows the call, and the kernel logs it.
const LOG: &str = "SCMP_ACT_LOG";
const EPERM: u32 = 1;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    default_action: &'static str,
    default_errno_ret: u32,
    architectures: [&'static str; 1],
    syscalls: [Allowed; 1],
}

#[derive(Serialize)]
struct Allowed {
    names: Vec<&'static str>,
    action: &'static str,
}

/// The name that libseccomp gives to the architecture.
const fn architecture(arch: Arch) -> &'static str {
    match arch {
        Arch::Aarch64 => "SCMP_ARCH_AARCH64",
        _ => "SCMP_ARCH_X86_64",
    }
}

/// A profile that allows these calls and the base, which no program can do without.
pub(super) fn export(calls: BTreeSet<Syscall>) -> Result<String, ExchangeError> {
    let allowed = &calls | group::base();
    let written = Written {
        default_action: ERRNO,
        default_errno_ret: EPERM,
        architectures: [architecture(Arch::NATIVE)],
        syscalls: [Allowed { names: names(&allowed), action: ALLOW }],
    };
    Ok(serde_json::to_string_pretty(&written)? + "\n")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    default_action: String,
    default_errno_ret: Option<u32>,
    #[serde(default)]
    architectures: Vec<String>,
    /// Docker's form of `architectures`.
    #[serde(default)]
    arch_map: Vec<ArchMap>,
    #[serde(default)]
    flags: Vec<String>,
    listener_path: Option<String>,
    #[serde(default)]
    syscalls: Vec<Rule>,
}

#[derive(Deserialize)]
struct ArchMap {
    architecture: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    #[serde(default)]
    names: Vec<String>,
    /// Docker's earlier form for a single name.
    name: Option<String>,
    action: String,
    errno_ret: Option<u32>,
    args: Option<Vec<Value>>,
    includes: Option<BTreeMap<String, Value>>,
    excludes: Option<BTreeMap<String, Value>>,
}

/// What a file says about one call.
#[derive(Default)]
struct Said {
    allowed: bool,
    refused: bool,
    conditional: bool,
    /// It is allowed only under a condition.
    sometimes: bool,
}

impl Rule {
    fn is_conditional(&self) -> bool {
        let some = |conditions: &Option<BTreeMap<String, Value>>| {
            conditions.as_ref().is_some_and(|conditions| !conditions.is_empty())
        };
        self.args.as_ref().is_some_and(|args| !args.is_empty())
            || some(&self.includes)
            || some(&self.excludes)
    }
}

/// The calls that a profile allows without a condition. Calls that the base allows anyway aren't stated.
pub(super) fn import(value: Value) -> Result<Imported, ExchangeError> {
    let profile: Profile = serde_json::from_value(value)?;
    let mut warnings = Vec::new();
    let default = allows(&profile.default_action)?;
    let mut said: BTreeMap<Syscall, Said> = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    let mut actions = BTreeSet::from([profile.default_action.as_str()]);
    for rule in &profile.syscalls {
        let allowed = allows(&rule.action)?;
        actions.insert(&rule.action);
        for name in rule.names.iter().chain(&rule.name) {
            let Ok(call) = name.parse::<Syscall>() else {
                unknown.insert(name.clone());
                continue;
            };
            let said = said.entry(call).or_default();
            match (rule.is_conditional(), allowed) {
                // A call that is allowed or refused under a condition isn't allowed.
                (true, allowed) => {
                    said.conditional = true;
                    said.sometimes |= allowed;
                }
                (false, true) => said.allowed = true,
                (false, false) => said.refused = true,
            }
        }
    }
    warnings.extend(Warning::of_unknown(unknown));
    warnings.extend(profile.peculiarities(&actions));
    let (calls, left_out) = decide(default, &said);
    if !left_out.is_empty() {
        warnings.push(Warning::Conditional(left_out));
    }
    if default {
        warnings.push(Warning::AllowsTheRest { stated: calls.len() });
    }
    let calls = &calls - group::base();
    let learned = if calls.is_empty() { Vec::new() } else { vec![Learned { binary: None, calls }] };
    Ok(Imported { learned, warnings })
}

/// The calls that are allowed, and the calls that would be allowed without a condition.
fn decide(default: bool, said: &BTreeMap<Syscall, Said>) -> (BTreeSet<Syscall>, BTreeSet<Syscall>) {
    let mut allowed = BTreeSet::new();
    let mut left_out = BTreeSet::new();
    let silent = Said::default();
    for call in Syscall::all() {
        let said = said.get(&call).unwrap_or(&silent);
        if said.refused {
            continue;
        }
        if said.conditional {
            if said.sometimes || said.allowed || default {
                left_out.insert(call);
            }
        } else if said.allowed || default {
            allowed.insert(call);
        }
    }
    (allowed, left_out)
}

impl Profile {
    /// What Palisade's form can't hold of the file, other than calls.
    fn peculiarities(&self, actions: &BTreeSet<&str>) -> Vec<Warning> {
        let mut found = Vec::new();
        let of_map = self.arch_map.iter().map(|map| map.architecture.as_str());
        let architectures: Vec<&str> = self.architectures.iter().map(String::as_str).chain(of_map).collect();
        if !architectures.is_empty() && !architectures.contains(&architecture(Arch::NATIVE)) {
            found.push(Warning::Architectures(architectures.into_iter().map(str::to_owned).collect()));
        }
        let denied = |rule: &&Rule| rule.errno_ret.is_some_and(|errno| errno != EPERM);
        if self.default_errno_ret.is_some_and(|errno| errno != EPERM)
            || self.syscalls.iter().any(|rule| denied(&rule))
        {
            found.push(Warning::Errors);
        }
        if actions.contains(LOG) {
            found.push(Warning::Logged { action: LOG });
        }
        if !self.flags.is_empty() {
            found.push(Warning::Flags(self.flags.clone()));
        }
        if self.listener_path.is_some() {
            found.push(Warning::Listener);
        }
        found
    }
}

/// Whether the action lets the call happen.
fn allows(action: &str) -> Result<bool, ExchangeError> {
    match action {
        ALLOW | LOG => Ok(true),
        ERRNO
        | "SCMP_ACT_KILL"
        | "SCMP_ACT_KILL_PROCESS"
        | "SCMP_ACT_KILL_THREAD"
        | "SCMP_ACT_TRAP"
        | "SCMP_ACT_TRACE"
        | "SCMP_ACT_NOTIFY" => Ok(false),
        _ => Err(ExchangeError::Action { action: action.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn taken(value: Value) -> (Vec<&'static str>, Vec<String>) {
        let Imported { learned, warnings } = import(value).unwrap();
        let warnings = warnings.iter().map(ToString::to_string).collect();
        (learned.iter().flat_map(|learned| names(&learned.calls)).collect(), warnings)
    }

    fn profile(default: &str, rules: Value) -> Value {
        json!({ "defaultAction": default, "syscalls": rules })
    }

    proptest! {
        #[test]
        fn what_is_exported_is_imported_as_it_was(
            calls in proptest::collection::btree_set(
                proptest::sample::select(Syscall::all().collect::<Vec<_>>()), 0..40)
        ) {
            let value = serde_json::from_str(&export(calls.clone()).unwrap()).unwrap();
            let (found, warnings) = taken(value);
            prop_assert_eq!(found, names(&(&calls - group::base())));
            prop_assert_eq!(warnings.len(), 0);
        }
    }

    #[test]
    fn a_condition_is_never_widened() {
        let args = json!([{ "index": 0, "value": 1, "op": "SCMP_CMP_EQ" }]);
        for rules in [
            json!([{ "names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": args }]),
            json!([{ "names": ["socket"], "action": "SCMP_ACT_ALLOW", "includes": { "caps": ["CAP_X"] } }]),
            json!([{ "names": ["socket"], "action": "SCMP_ACT_ALLOW", "excludes": { "caps": ["CAP_X"] } }]),
            json!([
                { "names": ["socket"], "action": "SCMP_ACT_ALLOW" },
                { "names": ["socket"], "action": "SCMP_ACT_ERRNO", "args": args },
            ]),
        ] {
            let (found, warnings) = taken(profile("SCMP_ACT_ERRNO", rules));
            assert_eq!(found, [""; 0]);
            assert!(warnings.iter().any(|warning| warning.ends_with("only): socket")), "{warnings:?}");
        }
        let refused = json!([{ "names": ["socket"], "action": "SCMP_ACT_ERRNO", "args": args }]);
        assert_eq!(taken(profile("SCMP_ACT_ERRNO", refused.clone())), (vec![], vec![]), "never allowed");
        let (found, warnings) = taken(profile("SCMP_ACT_ALLOW", refused));
        assert!(found.contains(&"bind") && !found.contains(&"socket"), "{warnings:?}");
        let both = json!([
            { "names": ["socket"], "action": "SCMP_ACT_KILL" },
            { "names": ["socket", "bind"], "action": "SCMP_ACT_ALLOW" },
        ]);
        assert_eq!(taken(profile("SCMP_ACT_ERRNO", both)), (vec!["bind"], vec![]));
    }

    #[test]
    fn empty_conditions_are_none() {
        let rules = json!([{
            "names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": [], "includes": {}, "excludes": {},
        }, { "name": "bind", "action": "SCMP_ACT_ALLOW", "args": null }]);
        assert_eq!(taken(profile("SCMP_ACT_ERRNO", rules)), (vec!["bind", "socket"], vec![]));
    }

    #[test]
    fn what_has_no_place_is_named() {
        let value = json!({
            "defaultAction": "SCMP_ACT_ERRNO",
            "defaultErrnoRet": 38,
            "architectures": ["SCMP_ARCH_MIPS"],
            "flags": ["SECCOMP_FILTER_FLAG_LOG"],
            "listenerPath": "/run/x",
            "syscalls": [{ "names": ["bind", "socketcall"], "action": "SCMP_ACT_LOG" }],
        });
        let (found, warnings) = taken(value);
        assert_eq!(found, ["bind"]);
        for word in ["socketcall", "SCMP_ARCH_MIPS", "errnoRet", "SCMP_ACT_LOG", "FLAG_LOG", "listener"] {
            assert!(warnings.iter().any(|warning| warning.contains(word)), "{word}: {warnings:?}");
        }
        let problem = import(profile("SCMP_ACT_MAYBE", json!([]))).unwrap_err().to_string();
        assert_eq!(problem, "unknown action \"SCMP_ACT_MAYBE\"");
    }
}
