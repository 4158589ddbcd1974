// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs lists through both programs, and compares what happened.

use super::ground::Ground;
use super::list::{List, Pass, Unit};
use super::mounts;
use crate::support::{Place, Run, job};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What happened: by aspect.
pub(super) type Seen = BTreeMap<String, String>;

/// The aspect of exit code and messages.
pub(super) const END: &str = "end";

/// An aspect of each program that looked around.
const STARTED: &str = "umask";

/// And what else each of them sees.
const WHOLE: [&str; 9] = [
    "argument-0",
    "numbers",
    "CapEff",
    "Seccomp",
    "uid-map",
    "namespace-user",
    "fd-0",
    "ancestors",
    "parent, group, session",
];

/// An aspect that isn't the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Difference {
    pub(super) aspect: String,
    pub(super) peer: String,
    pub(super) ours: String,
}

/// One person, with a ground.
pub(super) struct Arena<'p> {
    pub(super) place: &'p Place,
    ground: Ground,
    /// The program that passes descriptors and looks around.
    caller: PathBuf,
    peer: PathBuf,
    ours: PathBuf,
    /// The names of the options that the peer lists.
    pub(super) options: BTreeSet<String>,
    /// Such as `0.8.0`.
    pub(super) version: String,
    namespaces: BTreeMap<String, String>,
}

impl<'p> Arena<'p> {
    pub(super) fn new(place: &'p Place, peer: &Path) -> Self {
        place.write("caller.c", include_str!("caller.c"));
        place.outside("cd && cc -O1 -static -o caller caller.c && rm caller.c && chmod 755 caller");
        let ours = place.home.join("bwrap");
        symlink(place.binary(), &ours).unwrap();
        let help = job::finish(place.command(peer).arg("--help"));
        let words = help.ok().split_whitespace();
        let options = words
            .filter(|word| word.starts_with("--"))
            .map(|word| word.trim_end_matches([',', ';']).to_owned())
            .collect();
        let version = job::finish(place.command(peer).arg("--version"))
            .ok()
            .trim_start_matches("bubblewrap ")
            .to_owned();
        let kinds = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];
        let namespace = |kind: &str| {
            fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().to_string_lossy().into_owned()
        };
        Self {
            ground: Ground::new(place),
            caller: place.home.join("caller"),
            peer: peer.to_owned(),
            ours,
            options,
            version,
            namespaces: kinds.iter().map(|kind| (format!("namespace-{kind}"), namespace(kind))).collect(),
            place,
        }
    }

    /// Whether a program looked around, and what differs between the two.
    pub(super) fn compare(&self, list: &List) -> (bool, Vec<Difference>) {
        let (peer, ours) = (self.run(&self.peer, list), self.run(&self.ours, list));
        let aspects: BTreeSet<&String> = peer.keys().chain(ours.keys()).collect();
        let of = |seen: &Seen, aspect: &str| seen.get(aspect).cloned().unwrap_or_else(|| "-".to_owned());
        let difference = |aspect: &String| Difference {
            aspect: aspect.clone(),
            peer: of(&peer, aspect),
            ours: of(&ours, aspect),
        };
        let mut differences: Vec<Difference> =
            aspects.into_iter().map(difference).filter(|one| one.peer != one.ours).collect();
        // How it ended says most.
        differences.sort_by_key(|one| one.aspect != END);
        (peer.contains_key(STARTED), differences)
    }

    /// The list without the options for which the peer refuses it.
    pub(super) fn mended(&self, list: List) -> List {
        let starts = |list: &List| self.run(&self.peer, list).contains_key(STARTED);
        if starts(&list) {
            return list;
        }
        let mut mended = List { units: Vec::new(), ..list.clone() };
        let mut good = 0;
        for unit in list.units {
            let is_for_the_next = matches!(unit.0[0].as_slice(), b"--perms" | b"--size" | b"--overlay-src");
            mended.units.push(unit);
            // The first options alone start nothing.
            if is_for_the_next || !Self::has_program(&mended) {
                continue;
            }
            if starts(&mended) {
                good = mended.units.len();
            } else {
                mended.units.truncate(good);
            }
        }
        mended
    }

    fn has_program(list: &List) -> bool {
        let shows =
            |unit: &Unit| matches!(unit.0.as_slice(), [_, source, _] if source == b"@P" || source == b"/");
        list.units.iter().any(shows)
    }

    /// The words with the paths of this arena.
    fn filled(&self, word: &[u8]) -> OsString {
        let names: [(&[u8], &Path); 3] =
            [(b"@G", &self.ground.files), (b"@C", &self.ground.control), (b"@P", &self.caller)];
        let mut filled = Vec::new();
        let mut rest = word;
        while let Some(first) = rest.first() {
            match names.iter().find(|(name, _)| rest.starts_with(name)) {
                Some((name, path)) => {
                    filled.extend_from_slice(path.as_os_str().as_bytes());
                    rest = &rest[name.len()..];
                }
                None => {
                    filled.push(*first);
                    rest = &rest[1..];
                }
            }
        }
        OsString::from_vec(filled)
    }

    fn passed(&self, pass: &Pass) -> OsString {
        let value = self.filled(&pass.value);
        let mut word = OsString::from(pass.number.to_string());
        if pass.how == b'A' {
            let file = self.ground.control.join(format!("arguments-{}", pass.number));
            fs::write(&file, value.as_bytes()).unwrap();
            word.push("<");
            word.push(file);
        } else {
            word.push(OsStr::from_bytes(&[pass.how]));
            word.push(value);
        }
        word
    }

    /// The command line of a list.
    fn command(&self, program: &Path, list: &List) -> Command {
        let mut command = self.place.command(&self.caller);
        command.current_dir(&self.ground.files).arg("launch").arg("200//proc");
        command.args(list.passed.iter().map(|pass| self.passed(pass)));
        command.arg("--").arg(program).arg("bwrap");
        command.args(list.arguments().map(|word| self.filled(word)));
        if list.looks {
            command.args(list.dests().iter().map(|path| self.filled(path)));
        }
        command
    }

    fn run(&self, program: &Path, list: &List) -> Seen {
        self.ground.renew();
        let mut command = self.command(program, list);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let launcher = child.id().to_string();
        let run = job::wait(child);
        let mut seen = self.seen(&run, &launcher);
        seen.insert("ground".to_owned(), self.ground.describe());
        for name in ["info", "status"] {
            if let Ok(document) = fs::read_to_string(self.ground.control.join(name)) {
                seen.insert(name.to_owned(), without_numbers(&document));
            }
        }
        seen
    }

    fn seen(&self, run: &Run, launcher: &str) -> Seen {
        let mut seen = Seen::new();
        seen.insert(END.to_owned(), format!("{}: {}", run.code, self.said(&run.err)));
        if run.code != 0 {
            // Process 1 may have died, and the program with it.
            return seen;
        }
        let mut mounts = Vec::new();
        let mut own = "";
        for line in run.out.lines() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            match name {
                "mount" => mounts.push(value),
                "numbers" => {
                    seen.insert(name.to_owned(), value.to_owned());
                }
                "family" => {
                    own = value;
                }
                "path" => {
                    let (path, found) = value.split_once('\t').unwrap_or((value, ""));
                    seen.insert(format!("path {}", self.unfilled(path)), self.unfilled(found));
                }
                "status" => {
                    let (field, value) = value.split_once(':').unwrap_or((value, ""));
                    let value = if field == "NSpid" { below(value) } else { value.to_owned() };
                    seen.insert(field.to_owned(), value);
                }
                _ if name.starts_with("namespace-") => {
                    let is_host = self.namespaces.get(name).is_some_and(|host| host == value);
                    seen.insert(name.to_owned(), if is_host { "the caller's" } else { "another" }.to_owned());
                }
                _ if name.starts_with("fd-") => {
                    seen.insert(name.to_owned(), without_numbers(&self.unfilled(value)));
                }
                // One after the other: their order counts.
                _ => {
                    let entry = seen.entry(name.to_owned()).or_default();
                    entry.push_str(&self.unfilled(value));
                    entry.push_str(" | ");
                }
            }
        }
        self.relate(&mut seen, own, launcher);
        let is_whole = |seen: &Seen| WHOLE.iter().all(|aspect| seen.contains_key(*aspect));
        assert!(!seen.contains_key(STARTED) || is_whole(&seen), "the program has seen only {seen:?}");
        for (point, what) in mounts::reachable(&mounts) {
            seen.insert(format!("mount {}", self.unfilled(&point)), self.unfilled(&what));
        }
        seen
    }

    /// Says which process is whose, instead of numbers.
    fn relate(&self, seen: &mut Seen, family: &str, launcher: &str) {
        let family: Vec<&str> = family.split(' ').collect();
        let [own, parent, group, session] = family[..] else { return };
        let own_session = palisade_sys::process::session().to_string();
        let own_group = palisade_sys::process::group().to_string();
        let whose = |number: &str| match number {
            _ if number == own => "own",
            _ if number == launcher => "launcher",
            _ if number == own_group || number == own_session => "caller",
            "0" => "none",
            _ => "other",
        };
        let is_apart = seen.get("NSpid").is_some_and(|below| !below.is_empty());
        if let Some(numbers) = seen.get_mut("numbers").filter(|_| !is_apart) {
            let words: Vec<&str> = numbers
                .split(' ')
                .enumerate()
                .map(|(at, word)| if at < 4 { whose(word) } else { word })
                .collect();
            *numbers = words.join(" ");
        }
        let related: Vec<&str> = [parent, group, session].map(whose).into();
        seen.insert("parent, group, session".to_owned(), related.join(" "));
    }

    /// A text with the names of this arena instead of its paths.
    fn unfilled(&self, text: &str) -> String {
        let names = [("@G", &self.ground.files), ("@C", &self.ground.control), ("@P", &self.caller)];
        names.iter().fold(text.to_owned(), |text, (name, path)| text.replace(path.to_str().unwrap(), name))
    }

    /// Standard error, without what no caller can rely on.
    fn said(&self, err: &str) -> String {
        let lines = err.lines().map(|line| mounts::unnamed(&without_process(&self.unfilled(line))));
        let lines: Vec<String> = lines.collect();
        // Process 1 takes locks while the command starts, which ends with it. Their messages may be mixed, letter by letter.
        if let Some(lock) =
            ["Unable to open lock file", "Unable to lock file"].iter().find(|text| err.contains(*text))
        {
            return (*lock).to_owned();
        }
        // The descriptions of the options are others.
        let usage = lines.iter().any(|line| line.starts_with("usage: "));
        lines
            .into_iter()
            .filter(|line| !usage || !line.trim_start().starts_with("--") && !line.starts_with("      "))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// The numbers of a process, of the inner namespaces alone.
fn below(numbers: &str) -> String {
    numbers.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
}

/// Every number is `N`.
fn without_numbers(text: &str) -> String {
    let mut result = String::new();
    for letter in text.chars() {
        let is_digit = letter.is_ascii_digit();
        if !is_digit {
            result.push(letter);
        } else if !result.ends_with('N') {
            result.push('N');
        }
    }
    result
}

/// `/proc/NUMBER/` has no number.
fn without_process(line: &str) -> String {
    match line.split_once("/proc/") {
        Some((before, after)) if after.starts_with(|first: char| first.is_ascii_digit()) => {
            format!("{before}/proc/N{}", after.trim_start_matches(|letter: char| letter.is_ascii_digit()))
        }
        _ => line.to_owned(),
    }
}
