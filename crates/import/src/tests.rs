// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that each import results in a valid policy file that grants no more than the original.

use crate::draft::Draft;
use crate::profile::{Host, Kind};
use crate::{antimony, firejail};
use palisade_policy::{Context, Grant, Layer, merge, parse, parse_feature};
use std::path::Path;

const HOME: &str = "/home/ann";

fn host() -> Host<'static> {
    Host { home: Path::new(HOME), config: Path::new("/home/ann/.config"), uid: 1000 }
}

fn of_firejail(text: &str) -> Draft {
    let mut draft = Draft::default();
    draft.table("").text("name", "x");
    // This file isn't read: its path says where included files are looked for.
    let file = Path::new("/nonexistent/x.profile");
    firejail::import(file, text, &host(), &mut draft).unwrap_or_else(|error| panic!("{error}\n{text}"));
    draft
}

fn of_antimony(text: &str, kind: Kind) -> Option<Draft> {
    let mut draft = Draft::default();
    draft.table("").text("name", "x");
    antimony::import(Path::new("x.toml"), text, kind, &mut draft).ok().map(|()| draft)
}

fn accepted(draft: &Draft, kind: Kind, from: &str) {
    let text = draft.document.render();
    let parsed = match kind {
        Kind::Profile => parse(&text, None, Layer::User).map(drop),
        Kind::Feature => parse_feature(&text, None, Layer::User).map(drop),
    };
    if let Err(mistakes) = parsed {
        let mistakes: Vec<String> = mistakes.iter().map(|mistake| mistake.render(false)).collect();
        panic!("{}\n{text}\n---\n{from}", mistakes.join("\n"));
    }
    let table: toml::Table = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(table["schema"].as_integer(), Some(1));
}

/// Words that firejail's statements begin with.
const WORDS: [&str; 62] = [
    "blacklist",
    "noblacklist",
    "whitelist",
    "nowhitelist",
    "read-only",
    "read-write",
    "noexec",
    "tmpfs",
    "mkdir",
    "mkfile",
    "bind",
    "private",
    "private-bin",
    "private-etc",
    "private-lib",
    "private-opt",
    "private-srv",
    "private-home",
    "private-cwd",
    "private-dev",
    "private-tmp",
    "private-cache",
    "disable-mnt",
    "net",
    "netfilter",
    "protocol",
    "dns",
    "hosts-file",
    "dbus-user",
    "dbus-user.talk",
    "dbus-user.call",
    "dbus-system",
    "dbus-system.own",
    "seccomp",
    "seccomp.drop",
    "seccomp.keep",
    "env",
    "rmenv",
    "hostname",
    "machine-id",
    "x11",
    "nosound",
    "no3d",
    "caps.keep",
    "caps.drop",
    "nogroups",
    "noroot",
    "apparmor",
    "restrict-namespaces",
    "memory-deny-write-execute",
    "rlimit-as",
    "rlimit-nproc",
    "timeout",
    "join-or-start",
    "ignore",
    "?HAS_X11:",
    "?HAS_NOSUCH:",
    "whitelist-ro",
    "writable-var",
    "include",
    "quiet",
    "no-such-statement",
];

/// What may follow these words, and what shouldn't.
const REST: [&str; 48] = [
    "",
    "none",
    "all",
    "filter",
    "eth0",
    "${HOME}",
    "~",
    "${HOME}/.a",
    "${HOME}/.a/b",
    "${HOME}/.a*",
    "${HOME}/*",
    "${HOME}/.config/x y",
    "${HOME}/[[:digit:]]*",
    "${HOME}/[",
    "${RUNUSER}/bus",
    "${RUNUSER}/wayland-*",
    "${PATH}/python*",
    "${PATH}/env",
    "${DOWNLOADS}",
    "${NOSUCH}/x",
    "/usr/share/x",
    "/usr/bin",
    "/etc/**",
    "/dev/snd",
    "/",
    "/home/ann/.a",
    "/home/*/.a",
    "/tmp/.X11-unix",
    "/proc/cpuinfo",
    "a,b,../c",
    "@x11,@nosuch",
    "relative",
    "\"]\n[locked.network]",
    "'''",
    "\u{202e}x",
    "\u{1b}[2J",
    "a\u{0}b",
    "${HOME}/\u{7f}",
    "x=y",
    "A=\"\\\"",
    "=",
    "org.freedesktop.Notifications",
    "a.b=c.d@/e",
    "!chroot,keyctl",
    "@default,$1,nosuch:EPERM",
    "12G",
    "x.local",
    "unix,inet,inet6",
];

#[test]
fn what_comes_of_any_firejail_profile_is_a_policy_file() {
    bolero::check!().with_iterations(300).with_max_len(64).for_each(|bytes: &[u8]| {
        let mut text = String::new();
        for pair in bytes.chunks_exact(2) {
            let (word, rest) = (usize::from(pair[0]), usize::from(pair[1]));
            let (word, rest) = (WORDS[word % WORDS.len()], REST[rest % REST.len()]);
            if word != "include" || rest == "x.local" {
                text.push_str(&format!("{word} {rest}\n"));
            }
        }
        accepted(&of_firejail(&text), Kind::Profile, &text);
    });
}

const KEYS: [&str; 46] = [
    "path",
    "id",
    "dir",
    "name",
    "description",
    "caveat",
    "notes",
    "features",
    "requires",
    "conflicts",
    "inherits",
    "conditional",
    "seccomp",
    "lockdown",
    "preserve_env",
    "binaries",
    "devices",
    "namespaces",
    "arguments",
    "sandbox_args",
    "ignored_exit_codes",
    "environment.A",
    "environment.\"B C\"",
    "libraries.files",
    "libraries.directories",
    "libraries.roots",
    "libraries.no_sof",
    "home.policy",
    "home.name",
    "home.lock",
    "home.lock_policy",
    "ipc.disable",
    "ipc.portals",
    "ipc.talks",
    "ipc.calls",
    "ipc.user_bus",
    "files.passthrough",
    "files.temp",
    "files.user.rw",
    "files.platform.ro",
    "files.resources.rx",
    "files.direct.ro.\"/etc/x\"",
    "files.links.\"/a\"",
    "configuration.c.home.policy",
    "hooks.parent.content",
    "unknown.key",
];

const VALUES: [&str; 30] = [
    "true",
    "3",
    "1.5",
    "[]",
    "{}",
    "\"\"",
    "\"x\"",
    "[\"x\", 3]",
    "\"Enabled\"",
    "\"rw\"",
    "\"/a*b=/c$d\"",
    "\"$HOME/x\"",
    "[\"$XDG_CONFIG_HOME/x\", \"$AT_HOME/y\"]",
    "[\"/usr/share/x=/etc/y=z\"]",
    "[\"../x\", \"/a/../b\"]",
    "\"\\\"]\\n[locked.network]\\nmode = \\\"host\\\"\"",
    "\"\\u202e\\u001b[2J\"",
    "[\"\\u0000\"]",
    "\"\"\"a\nb ${X} $UID\"\"\"",
    "[\"User\", \"Net\", \"Nosuch\"]",
    "[\"#\", \"sh\", \"!\"]",
    "[\"--bind\", \"/\", \"/\"]",
    "[139, -1, 300]",
    "[\"FileChooser\", \"a.b\"]",
    "[\"org.x.{desktop}.*\", \"*\"]",
    "[\"a.b=c@/d\", \"x\"]",
    "\"command -v sh\"",
    "\"rm -rf /\"",
    "[\"/dev\", \"/dev/dri\", \"/x\"]",
    "[\"lib*.so\", \"/opt/x\"]",
];

#[test]
fn what_comes_of_any_antimony_file_is_a_policy_file() {
    bolero::check!().with_iterations(500).with_max_len(24).for_each(|bytes: &[u8]| {
        let mut lines: Vec<String> = Vec::new();
        for pair in bytes.chunks_exact(2) {
            let (key, value) = (usize::from(pair[0]), usize::from(pair[1]));
            lines.push(format!("{} = {}\n", KEYS[key % KEYS.len()], VALUES[value % VALUES.len()]));
        }
        // A key that occurs twice makes the file invalid. Then each line is tried by itself.
        let whole = lines.concat();
        for kind in [Kind::Profile, Kind::Feature] {
            match of_antimony(&whole, kind) {
                Some(draft) => accepted(&draft, kind, &whole),
                None => {
                    for line in &lines {
                        let draft = of_antimony(line, kind).unwrap_or_else(|| panic!("{line}"));
                        accepted(&draft, kind, line);
                    }
                }
            }
        }
    });
}

/// Statements on a small world of files, and all paths of that world.
const VERBS: [&str; 7] =
    ["read-only", "blacklist", "noblacklist", "whitelist", "read-write", "noexec", "tmpfs"];
const PATHS: [&str; 16] = [
    "${HOME}/ab/ab/ab",
    "${HOME}/a",
    "${HOME}/ab",
    "${HOME}/b",
    "${HOME}/a*",
    "${HOME}/*b",
    "${HOME}/?",
    "${HOME}/a/a",
    "${HOME}/a/ab",
    "${HOME}/a/b",
    "${HOME}/a/*",
    "${HOME}/*/b",
    "${HOME}/a*/a*",
    "${HOME}/a/a/a",
    "${HOME}/[ab]",
    "${HOME}",
];

#[test]
fn nothing_is_granted_that_firejail_does_not() {
    let mut world = vec![HOME.to_owned()];
    for depth in 0..3 {
        // All names in the first two levels, one below.
        let names: &[&str] = if depth < 2 { &["a", "ab", "b"] } else { &["a"] };
        let below: Vec<String> =
            world.iter().flat_map(|path| names.iter().map(move |name| format!("{path}/{name}"))).collect();
        world.extend(below);
        world.sort_unstable();
        world.dedup();
    }
    bolero::check!().with_iterations(150).with_max_len(16).for_each(|bytes: &[u8]| {
        let mut lines: Vec<(&str, &str)> = Vec::new();
        for byte in bytes {
            let byte = usize::from(*byte);
            lines.push((VERBS[byte % VERBS.len()], PATHS[byte / VERBS.len() % PATHS.len()]));
        }
        let text: String = lines.iter().map(|(verb, path)| format!("{verb} {path}\n")).collect();
        let draft = of_firejail(&text);
        accepted(&draft, Kind::Profile, &text);
        let policy = parse(&draft.document.render(), None, Layer::User).unwrap();
        let context = Context {
            home: HOME.into(),
            cwd: "/".into(),
            user: "ann".to_owned(),
            uid: 1000,
            runtime_dir: Some("/run/user/1000".into()),
            ..Context::default()
        };
        let resolved = merge(vec![policy]).resolve(&context).unwrap();
        for path in &world {
            let (there, write, execute) = simulated(&lines, path);
            if let Grant::Allowed { write: w, execute: x } = resolved.decide(Path::new(path)).grant {
                let more = !there || (w && !write) || (x && !execute);
                assert!(
                    !more,
                    "{path}: granted {w} {x}, of {there} {write} {execute}\n{text}{}",
                    draft.document.render()
                );
            }
        }
    });
}

/// What firejail makes of a path: it mounts one statement after the other.
fn simulated(lines: &[(&str, &str)], path: &str) -> (bool, bool, bool) {
    let real = |written: &str| written.replace("${HOME}", HOME);
    let names = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
    // Whether a pattern names the path itself or something above it; and which part of the path it names.
    let on = |pattern: &str| {
        let (pattern, path) = (names(&real(pattern)), names(path));
        let fits = pattern.len() <= path.len()
            && pattern.iter().zip(&path).all(|(pattern, name)| crate::pattern::matches(pattern, name));
        fits.then(|| path[..pattern.len()].join("/"))
    };
    let lone: Vec<&str> = lines
        .iter()
        .filter(|(verb, path)| *verb == "whitelist" && *path != "${HOME}")
        .map(|(_verb, path)| *path)
        .collect();
    let mut there = lone.is_empty() || lone.iter().any(|pattern| on(pattern).is_some());
    let (mut write, mut execute, mut spared) = (true, true, Vec::new());
    for (verb, pattern) in lines {
        if *verb == "noblacklist" {
            spared.push(names(&real(pattern)));
            continue;
        }
        let Some(part) = on(pattern) else { continue };
        let part = names(&part);
        let is_spared = || {
            spared.iter().any(|spared| {
                spared.len() == part.len()
                    && spared.iter().zip(&part).all(|(pattern, name)| crate::pattern::matches(pattern, name))
            })
        };
        match *verb {
            "blacklist" if !is_spared() => there = false,
            "read-only" => write = false,
            "read-write" => write = true,
            "noexec" => execute = false,
            "tmpfs" => there = false,
            _ => {}
        }
    }
    (there, write, execute)
}
