// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares our own reader of scripts with a full parser of bash's grammar. The reader must find everything that the
//! parser finds. Where either finds more, there must be a reason; a difference without a reason fails.

use super::*;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Directories of this machine that contain scripts.
const PLACES: &[&str] =
    &["/usr/bin", "/usr/sbin", "/usr/local/bin", "/etc", "/usr/share", "/usr/lib/git-core", "/usr/lib"];
/// The most scripts of this machine that are read.
const MOST: usize = 1_500;
/// The most files of each directory that are examined.
const FILES: usize = 8_000;

/// Commands, sourced files and paths, each with its kind.
type Names = BTreeSet<(&'static str, PathBuf)>;

fn names(script: &Script) -> Names {
    let commands = script.commands.iter().map(|name| ("command", PathBuf::from(name)));
    let sourced = script.sourced.iter().map(|path| ("sourced", path.clone()));
    let paths = script.paths.iter().map(|path| ("path", path.clone()));
    commands.chain(sourced).chain(paths).collect()
}

/// The text of a file if it is a shell script.
fn text_of(path: &Path) -> Option<String> {
    let mut start = [0; 64];
    let length = std::io::Read::read(&mut std::fs::File::open(path).ok()?, &mut start).ok()?;
    let first = String::from_utf8_lossy(start.get(2..length)?).into_owned();
    let mut words = first.lines().next()?.split([' ', '\t', '/']);
    (start.starts_with(b"#!") && words.any(is_shell)).then_some(())?;
    let bytes = file::read(path, CAP, Links::Follow).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn collect(directory: &Path, depth: usize, left: &mut usize, found: &mut BTreeMap<PathBuf, String>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut entries: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if *left == 0 || found.len() >= MOST {
            return;
        }
        let Ok(facts) = path.symlink_metadata() else { continue };
        if facts.is_dir() && depth < 6 {
            collect(&path, depth + 1, left, found);
        } else if facts.is_file() {
            *left -= 1;
            found.extend(text_of(&path).map(|text| (path, text)));
        }
    }
}

/// Why the parser finds a name that the reader doesn't find.
fn reason_for_less(name: &str) -> Option<&'static str> {
    if name.starts_with('\\') {
        Some("a backslash in backquotes is no part of a name")
    } else if name.contains('[') {
        Some("an index with blanks in it is no command")
    } else {
        None
    }
}

/// Why the reader finds a name that the parser doesn't find. The name must be in the text, or be the script itself.
/// So it must be in a part of the parser's tree that the oracle's code doesn't examine.
fn reason_for_more(name: &Path, text: &str, own: &str) -> Option<&'static str> {
    let last = name.file_name()?.to_string_lossy();
    let last = last.rsplit([':', ',', ' ']).next()?;
    if text.contains("$'") {
        // It may be written with numeric escapes.
        return Some("text in `$'…'`");
    }
    if !text.contains(last) && !own.ends_with(last) {
        return None;
    }
    let expands = |signs: &[&str]| {
        text.match_indices("${").any(|(at, _)| {
            let rest = text.get(at + 2..).unwrap_or_default();
            let rest =
                rest.trim_start_matches(|sign: char| sign.is_ascii_alphanumeric() || "_@*".contains(sign));
            signs.iter().any(|sign| rest.starts_with(sign))
        })
    };
    if text.contains("((") {
        Some("commands that a sum substitutes")
    } else if expands(&[":+", "+"]) {
        Some("words of `${name:+word}`")
    } else if expands(&["#", "%", "/"]) {
        Some("commands in the patterns of `${name%pattern}`")
    } else if expands(&[":-", "-", ":=", "="]) {
        Some("defaults of the script's arguments, `${1:-word}`")
    } else if text.contains("<<") {
        Some("what a here-document with quotes substitutes")
    } else if text.contains('`') && text.contains('\\') {
        Some("commands in backquotes with backslashes")
    } else {
        None
    }
}

/// Whether bash accepts a text; `None`: there is no bash.
fn bash_takes(text: &str) -> Option<bool> {
    let mut bash = Command::new("bash");
    bash.arg("-n").env("LC_ALL", "C").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut bash = bash.spawn().ok()?;
    // Bash may stop reading early.
    let _closed = std::io::Write::write_all(&mut bash.stdin.take()?, text.as_bytes());
    let said = bash.wait_with_output().ok()?;
    // For some errors bash prints a message but returns success.
    Some(said.status.success() && !String::from_utf8_lossy(&said.stderr).contains("syntax error"))
}

#[derive(Default)]
struct Counts {
    both: usize,
    ours_only: usize,
    theirs_only: Vec<String>,
    neither: usize,
    same: usize,
    reasons: BTreeMap<&'static str, usize>,
    unexplained: Vec<String>,
    our_time: Duration,
    their_time: Duration,
}

impl Counts {
    fn compare(&mut self, own: &str, text: &str) {
        let started = Instant::now();
        let theirs = oracle::parse(text, own);
        self.their_time += started.elapsed();
        let started = Instant::now();
        let ours = naming::named(text, own);
        self.our_time += started.elapsed();
        let (ours, theirs) = match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => (names(&ours), names(&theirs)),
            (Ok(_), Err(problem)) => {
                self.ours_only += 1;
                if bash_takes(text) == Some(false) {
                    self.unexplained
                        .push(format!("{own}: bash refuses it, and the reader doesn't: {problem}"));
                }
                return;
            }
            (Err(reason), Ok(_)) => return self.theirs_only.push(format!("{own}: {reason}")),
            (Err(_), Err(_)) => {
                self.neither += 1;
                return;
            }
        };
        let start: String = text.chars().take(80).collect();
        self.both += 1;
        self.same += ours.intersection(&theirs).count();
        for name in theirs.difference(&ours) {
            match reason_for_less(&name.1.to_string_lossy()) {
                Some(reason) => *self.reasons.entry(reason).or_default() += 1,
                None => self.unexplained.push(format!("{own}: lacks {name:?}: {start}")),
            }
        }
        for name in ours.difference(&theirs) {
            match reason_for_more(&name.1, text, own) {
                Some(reason) => *self.reasons.entry(reason).or_default() += 1,
                None => self.unexplained.push(format!("{own}: has {name:?}: {start}")),
            }
        }
    }

    fn report(&self, what: &str, bytes: usize) {
        println!(
            "{what}: {} scripts, {bytes} bytes; read by both {}, by the reader alone {}, by the parser alone {}, by \
             neither {}; {} names found by both; {:?} and {:?}",
            self.both + self.ours_only + self.theirs_only.len() + self.neither,
            self.both,
            self.ours_only,
            self.theirs_only.len(),
            self.neither,
            self.same,
            self.our_time,
            self.their_time,
        );
        for (reason, count) in &self.reasons {
            println!("  {count} differ: {reason}");
        }
        assert!(self.unexplained.is_empty(), "{what}: {:#?}", self.unexplained);
        assert!(self.theirs_only.is_empty(), "{what}: {:#?}", self.theirs_only);
    }
}

/// The scripts in the repository.
fn corpus() -> Vec<(PathBuf, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/script/corpus");
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let scripts = paths.filter(|path| path.extension().is_some_and(|extension| extension == "sh"));
    scripts.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn the_corpus_names_what_it_says() {
    let corpus = corpus();
    assert!(corpus.len() >= 25, "{}", corpus.len());
    for (path, text) in corpus {
        let expected = text.lines().find_map(|line| line.strip_prefix("# names: ")).unwrap();
        let found =
            naming::named(&text, "/opt/corpus/script").unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let found: Vec<String> = found.commands.into_iter().collect();
        assert_eq!(found.join(" "), expected, "{path:?}");
    }
}

#[test]
fn what_bash_refuses_is_refused() {
    let refused = include_str!("corpus/refused.txt").lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for line in refused {
        assert!(naming::named(line, "x").is_err(), "{line}");
        assert_ne!(bash_takes(line), Some(true), "{line}");
        count += 1;
    }
    assert!(count >= 15, "{count}");
}

#[test]
fn the_corpus_is_read_no_worse() {
    let (mut counts, mut bytes) = (Counts::default(), 0);
    for (_, text) in corpus() {
        counts.compare("/opt/corpus/script", &text);
        bytes += text.len();
    }
    counts.report("corpus", bytes);
}

#[test]
fn scripts_of_the_machine_are_read_no_worse() {
    let mut scripts = BTreeMap::new();
    for place in PLACES {
        collect(Path::new(place), 0, &mut FILES.clone(), &mut scripts);
    }
    let (mut counts, mut bytes) = (Counts::default(), 0);
    for (path, text) in &scripts {
        counts.compare(&path.to_string_lossy(), text);
        bytes += text.len();
    }
    counts.report("machine", bytes);
}

#[test]
fn lines_of_the_shells_corpora_are_read_no_worse() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shell/tests/corpora");
    let (mut counts, mut bytes) = (Counts::default(), 0);
    for name in ["harmless.txt", "documentation.txt", "attacks.txt"] {
        let text = std::fs::read_to_string(directory.join(name)).unwrap();
        for line in text.lines() {
            let line = if name == "attacks.txt" { line.split_once(' ').unwrap().1 } else { line };
            counts.compare("sh", line);
            bytes += line.len();
        }
    }
    counts.report("lines", bytes);
}

#[test]
fn a_large_script_is_read() {
    let mut text = String::new();
    let mut corpus = corpus();
    // Only scripts that the parser accepts, for measuring its time.
    corpus.retain(|(_, script)| oracle::parse(script, "x").is_ok());
    while text.len() < CAP - (32 << 10) {
        corpus.iter().for_each(|(_, script)| text.push_str(script));
    }
    let started = Instant::now();
    let script = naming::named(&text, "x").unwrap();
    let ours = started.elapsed();
    assert!(text.len() <= CAP && script.commands.contains("timeout"), "{}", text.len());
    let started = Instant::now();
    let theirs = oracle::parse(&text, "x").map(|_| ());
    println!("{} bytes: {ours:?}, by the parser {:?} {theirs:?}", text.len(), started.elapsed());
}
