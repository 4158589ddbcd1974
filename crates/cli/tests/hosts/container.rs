// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Containers: the configuration that an engine gives to its OCI runtime, for crun.

use super::table::Host;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Runs the configuration in the host's directory. In a user namespace the tree's owners are those of the namespace.
pub(super) const ENTER: &str = "one_cgroup_version; [ -z \"${MAPPED:-}\" ] || mapped; exec crun --root \"$PLACE/crun\" --cgroup-manager=disabled run --bundle \"$PLACE\" host";

impl Container {
    /// Whether users of the container are others outside.
    pub(super) fn is_mapped(&self) -> bool {
        self.user_namespace
    }
}

/// What differs between containers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Container {
    /// The engine's default profile: `docker`, `podman`, or `none`.
    seccomp: String,
    /// Capabilities besides the engine's default ones.
    #[serde(default)]
    more: Vec<String>,
    /// The root is read-only, with a tmpfs for /tmp, and a writable home.
    #[serde(default)]
    read_only: bool,
    /// As a rootless engine makes it.
    #[serde(default)]
    user_namespace: bool,
    /// The parts of /proc that an engine masks are there.
    #[serde(default)]
    unmasked: bool,
}

/// Docker's default capabilities; podman's are fewer.
const CAPABILITIES: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];
const MASKED: [&str; 9] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Docker's rules, as data of the tests.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    by_argument: Vec<Tested>,
    without_admin: Vec<Tested>,
    allowed: String,
    by_capability: BTreeMap<String, String>,
}

/// A call, the index of an argument, how that is compared, and with what.
type Tested = (String, u32, String, u64);

/// Writes `config.json`.
pub(super) fn write(
    container: &Container,
    host: &Host,
    environment: &BTreeMap<String, String>,
    bundle: &Path,
) {
    let capabilities: Vec<String> = CAPABILITIES
        .iter()
        .map(ToString::to_string)
        .chain(container.more.iter().cloned())
        .map(|name| format!("CAP_{name}"))
        .collect();
    let user =
        std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(bundle.join("tree/home/user")).unwrap());
    let user = if host.root { 0 } else { user };
    // An ordinary user's program has none of them.
    let effective = if host.root { capabilities.clone() } else { Vec::new() };
    let environment: Vec<String> = environment
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mount = |to: &str, kind: &str, options: &[&str]| json!({"destination": to, "type": kind, "source": kind, "options": options});
    let mut mounts = vec![
        mount("/proc", "proc", &["nosuid", "noexec", "nodev"]),
        mount("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        mount("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
        mount("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777"]),
        mount("/dev/mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
        mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
    ];
    if container.read_only {
        mounts.push(mount("/tmp", "tmpfs", &["nosuid", "nodev", "mode=1777"]));
        let home = if host.root { "root" } else { "home/user" };
        mounts.push(json!({"destination": format!("/{home}"), "type": "bind", "source": bundle.join("tree").join(home), "options": ["bind", "rw"]}));
    }
    let mut namespaces: Vec<Value> = ["pid", "network", "ipc", "uts", "mount", "cgroup"]
        .iter()
        .map(|kind| json!({"type": kind}))
        .collect();
    let mut linux = json!({"seccomp": seccomp(&container.seccomp, &capabilities)});
    if !container.unmasked {
        linux["maskedPaths"] = json!(MASKED);
        linux["readonlyPaths"] = json!(READ_ONLY);
    }
    if container.user_namespace {
        namespaces.push(json!({"type": "user"}));
        let map = json!([{"containerID": 0, "hostID": 100_000, "size": 65536}]);
        linux["uidMappings"] = map.clone();
        linux["gidMappings"] = map;
    }
    linux["namespaces"] = json!(namespaces);
    let config = json!({
        "ociVersion": "1.0.0",
        "process": {
            "terminal": false, "user": {"uid": user, "gid": user}, "args": ["/bin/sh", "/host/line.sh"], "env": environment, "cwd": "/",
            "capabilities": {"bounding": capabilities, "effective": effective, "permitted": effective, "inheritable": [], "ambient": []},
            "noNewPrivileges": false
        },
        "root": {"path": "tree", "readonly": container.read_only},
        "hostname": "host", "mounts": mounts, "linux": linux,
    });
    std::fs::write(bundle.join("config.json"), config.to_string()).unwrap();
}

fn seccomp(profile: &str, capabilities: &[String]) -> Value {
    match profile {
        "docker" => docker(capabilities),
        "none" => Value::Null,
        other => panic!("no profile {other}"),
    }
}

/// The rules that Docker's daemon makes of its default profile for these capabilities.
fn docker(capabilities: &[String]) -> Value {
    let rules: Rules = toml::from_str(include_str!("docker.toml")).unwrap();
    let has = |capability: &str| capabilities.iter().any(|one| one == capability);
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let allow = |names: Vec<String>, arguments: Value| json!({"names": names, "action": "SCMP_ACT_ALLOW", "args": arguments});
    let mut all = vec![allow(words(&rules.allowed), json!([]))];
    for (capability, names) in &rules.by_capability {
        if has(capability) {
            all.push(allow(words(names), json!([])));
        }
    }
    let mut tests = rules.by_argument;
    if !has("CAP_SYS_ADMIN") {
        tests.extend(rules.without_admin);
        // The C library goes on with `clone`.
        all.push(json!({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}));
    }
    for (call, index, comparison, value) in tests {
        let test =
            json!([{"index": index, "value": value, "valueTwo": 0, "op": format!("SCMP_CMP_{comparison}")}]);
        all.push(allow(vec![call], test));
    }
    json!({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "syscalls": all})
}
