// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What firejail shows and hides by itself, before and after the statements of a profile.

use super::path::{Base, Place};
use super::places::{Rule, Verb};
use super::{Home, Profile};
use std::rc::Rc;

const READ: Verb = Verb::Show { write: false, execute: false };
const EXECUTE: Verb = Verb::Show { write: false, execute: true };
const WRITE: Verb = Verb::Show { write: true, execute: false };
const ALL: Verb = Verb::Show { write: true, execute: true };

/// `/usr` without its programs and its libraries.
///
/// Programs are granted from two directories only. To remove what a profile takes away from all directories would need
/// many names, and the other directories hold games and programs for administrators. The profile's own program is
/// always there.
const REST_OF_USR: [&str; 6] = [
    "/usr/share",
    "/usr/libexec",
    "/usr/include",
    "/usr/local/share",
    "/usr/local/libexec",
    "/usr/local/etc",
];
const LIBRARIES: [&str; 5] = ["/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/local/lib"];
const PROGRAMS: [&str; 2] = ["/usr/bin", "/usr/local/bin"];

/// Devices, by the statement that takes them away.
const DEVICES: [(&str, &[&str]); 7] = [
    ("nosound", &["/dev/snd"]),
    (
        "no3d",
        &[
            "/dev/dri",
            "/dev/kfd",
            "/dev/nvidia[0-9]*",
            "/dev/nvidiactl",
            "/dev/nvidia-modeset",
            "/dev/nvidia-uvm",
        ],
    ),
    ("novideo", &["/dev/video[0-9]*"]),
    ("notv", &["/dev/dvb"]),
    ("nodvd", &["/dev/sr[0-9]*"]),
    ("nou2f", &["/dev/hidraw[0-9]*", "/dev/usb"]),
    ("noinput", &["/dev/input"]),
];

/// What firejail hides in granted directories, whatever a profile says.
const HIDDEN: [&str; 12] = [
    "/usr/src/linux",
    "/usr/lib/debug",
    "/usr/lib/modules",
    "/var/lib/dhcp",
    "/var/lib/nginx",
    "/var/lib/snmp",
    "/var/lib/sudo",
    "/var/cache/apache2",
    "/var/cache/lighttpd",
    "/etc/firejail/firejail.users",
    "/run/firejail",
    "/dev/port",
];
const HIDDEN_OF_SYS: [&str; 6] = [
    "/sys/firmware",
    "/sys/hypervisor",
    "/sys/power",
    "/sys/kernel/debug",
    "/sys/kernel/vmcoreinfo",
    "/sys/kernel/uevent_helper",
];

/// What `disable-mnt` hides.
const MOUNTS: [&str; 4] = ["/mnt", "/media", "/run/mount", "/run/media"];

/// The sockets of the display, of sound and of the buses.
pub(super) fn x11() -> Place {
    Place::new(Base::Root, "/tmp/.X11-unix")
}

pub(super) fn wayland() -> Place {
    Place::runtime_variable("${WAYLAND_DISPLAY}", "wayland-*")
}

pub(super) fn session_bus() -> Place {
    Place::new(Base::Runtime, "bus")
}

pub(super) fn system_bus() -> Place {
    Place::new(Base::Root, "/run/dbus/system_bus_socket")
}

const SOUND: [&str; 2] = ["pulse/native", "pipewire-0"];

fn root(verb: Verb, path: &str) -> Rule {
    Rule::new(verb, Place::new(Base::Root, path))
}

impl Profile<'_> {
    fn has(&self, switch: &str) -> bool {
        self.switches.contains(switch)
    }

    fn has_list(&self, list: &str) -> bool {
        self.lists.contains_key(list)
    }

    /// Whether programs reach the network.
    pub(super) fn network(&self) -> bool {
        let inet = ["inet", "inet6"].iter().any(|family| self.protocols.contains(*family));
        !self.no_network && (self.protocols.is_empty() || inet)
    }

    /// What firejail shows, if Palisade grants it.
    pub(super) fn shown(&self) -> Vec<Rule> {
        let mut rules = Vec::new();
        rules.extend(REST_OF_USR.iter().map(|path| root(EXECUTE, path)));
        if !self.has_list("private-lib") {
            rules.extend(LIBRARIES.iter().map(|path| root(EXECUTE, path)));
        }
        if !self.has_list("private-bin") {
            rules.extend(PROGRAMS.iter().map(|path| root(EXECUTE, path)));
        }
        for (list, directory, verb) in [("private-opt", "/opt", EXECUTE), ("private-srv", "/srv", EXECUTE)] {
            if !self.has_list(list) {
                rules.push(root(verb, directory));
            }
        }
        if !self.has_list("private-etc") {
            rules.push(root(if self.has("writable-etc") { WRITE } else { READ }, "/etc"));
        }
        rules.push(root(if self.has("writable-var") { WRITE } else { READ }, "/var"));
        rules.extend(["/mnt", "/media"].iter().map(|path| root(ALL, path)));
        if self.network() {
            // Without the host's network, firejail shows a /sys of its own, without interfaces.
            rules.push(root(READ, "/sys"));
        }
        if self.home != Home::Empty {
            rules.push(Rule::new(ALL, Place { base: Base::Home, names: Vec::new() }));
        }
        for (_switch, devices) in DEVICES.iter().filter(|(switch, _devices)| !self.has(switch)) {
            rules.extend(devices.iter().map(|device| root(WRITE, device)));
        }
        rules.push(Rule::new(READ, x11()));
        // A process that may write to a socket may connect to it.
        rules.push(Rule::new(WRITE, wayland()));
        rules.push(Rule::new(WRITE, session_bus()));
        rules.push(Rule::new(WRITE, system_bus()));
        if !self.has("nosound") {
            rules.extend(SOUND.iter().map(|name| Rule::new(WRITE, Place::new(Base::Runtime, name))));
        }
        rules
    }

    /// What `whitelist` allows with a place that isn't shown otherwise.
    pub(super) fn lone(place: &Place) -> Verb {
        match place.base {
            Base::Home => ALL,
            Base::Runtime => WRITE,
            Base::Root if place.is_below(&["tmp"]) => ALL,
            Base::Root if place.is_below(&["run"]) || place.is_below(&["dev"]) => WRITE,
            Base::Root => READ,
        }
    }

    /// What firejail hides, whatever a profile says.
    pub(super) fn taken_away(&self) -> Vec<Rule> {
        let mut rules: Vec<Rule> = HIDDEN.iter().map(|path| root(Verb::Hide, path)).collect();
        if self.has("allow-debuggers") {
            rules.retain(|rule| !rule.place.is_below(&["usr"]));
        }
        rules.extend(HIDDEN_OF_SYS.iter().map(|path| root(Verb::Hide, path)));
        rules.push(Rule::new(Verb::Hide, Place::new(Base::Home, ".config/firejail")));
        if !self.has("writable-run-user") {
            rules.extend(
                ["gnupg", "systemd"].map(|name| Rule::new(Verb::Hide, Place::new(Base::Runtime, name))),
            );
        }
        if !self.has("writable-var-log") {
            rules.push(root(Verb::Hide, "/var/log"));
        }
        if !self.has("keep-var-tmp") {
            rules.push(root(Verb::Empty, "/var/tmp"));
        }
        // `noblacklist` makes exceptions from these.
        let mounts: &[&str] = if self.has("disable-mnt") { &MOUNTS } else { &[] };
        let except: Rc<[Place]> = self.not_hidden.as_slice().into();
        for path in ["/sys/fs", "/sys/module"].iter().chain(mounts) {
            rules.push(Rule { except: Rc::clone(&except), ..root(Verb::Hide, path) });
        }
        if self.has("private-cache") {
            rules.push(Rule::new(Verb::Empty, Place::new(Base::Home, ".cache")));
        }
        if self.has("x11") {
            rules.push(Rule::new(Verb::Hide, x11()));
            rules.push(Rule::new(Verb::Hide, Place::new(Base::Home, ".Xauthority")));
        }
        if self.has("noprinters") {
            rules.extend(["/dev/lp*", "/run/cups/cups.sock"].map(|path| root(Verb::Hide, path)));
        }
        if self.has("nosound") {
            rules.extend(
                ["pulse", "pipewire-*"].map(|name| Rule::new(Verb::Hide, Place::new(Base::Runtime, name))),
            );
            rules.push(Rule::new(Verb::Hide, Place::new(Base::Home, ".config/pulse")));
        } else if !self.has("keep-config-pulse") && !self.has("noautopulse") {
            rules.push(Rule::new(Verb::Empty, Place::new(Base::Home, ".config/pulse")));
        }
        if self.has("apparmor") {
            // The only rule of firejail's AppArmor profile that Palisade doesn't enforce anyway.
            let places = ["/etc", "/var", "/srv", "/mnt", "/media", "/run", "/tmp"];
            rules.extend(places.map(|path| root(Verb::NoExecute, path)));
            rules.push(root(Verb::NoExecute, "/usr/share"));
            rules.push(Rule::new(Verb::NoExecute, Place { base: Base::Home, names: Vec::new() }));
        }
        rules
    }

    /// The directory in which `whitelist` hides everything else.
    pub(super) fn top(place: &Place) -> Option<Place> {
        let depth = match place.base {
            Base::Home | Base::Runtime => 0,
            Base::Root if place.is_below(&["usr"]) || place.is_below(&["sys", "module"]) => 2,
            Base::Root => 1,
        };
        (place.names.len() > depth).then(|| place.above(depth))
    }
}
