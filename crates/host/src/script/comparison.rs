// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the own reader finds in scripts beside what a full parser of bash's grammar finds.

use super::*;
use std::time::{Duration, Instant};

/// Directories with scripts of the machine.
const PLACES: &[&str] = &["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/etc", "/usr/share", "/usr/lib"];
/// So many of them are read.
const MOST: usize = 1_500;

/// The text of a file that is a script of a shell.
fn script(path: &Path) -> Option<String> {
    let mut start = [0; 64];
    let length = std::io::Read::read(&mut std::fs::File::open(path).ok()?, &mut start).ok()?;
    let first = String::from_utf8_lossy(start.get(2..length)?).into_owned();
    let first = first.lines().next()?;
    let mut words = first.split([' ', '\t', '/']).filter(|word| !word.is_empty());
    (start.starts_with(b"#!") && words.any(is_shell)).then_some(())?;
    let bytes = file::read(path, CAP, Links::Follow).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn collect(directory: &Path, depth: usize, found: &mut BTreeSet<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut entries: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if found.len() >= MOST {
            return;
        }
        let Ok(facts) = path.symlink_metadata() else { continue };
        if facts.is_dir() && depth < 6 {
            collect(&path, depth + 1, found);
        } else if facts.is_file() && script(&path).is_some() {
            found.insert(path);
        }
    }
}

fn measure<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    *total += started.elapsed();
    result
}

#[test]
fn explore() {
    let mut scripts = BTreeSet::new();
    for place in PLACES {
        collect(Path::new(place), 0, &mut scripts);
    }
    let (mut ours_time, mut theirs_time) = (Duration::ZERO, Duration::ZERO);
    let (mut both, mut ours_only, mut theirs_only, mut none) = (0, 0, 0, 0);
    let mut bytes = 0;
    for path in &scripts {
        let text = script(path).unwrap();
        bytes += text.len();
        let own = path.to_string_lossy();
        let theirs = measure(&mut theirs_time, || oracle::parse(&text, &own));
        let ours = measure(&mut ours_time, || naming::named(&text, &own));
        match (&ours, &theirs) {
            (Ok(ours), Ok(theirs)) => {
                both += 1;
                for (what, o, t) in [("command", paths(&ours.commands), paths(&theirs.commands)), ("sourced", ours.sourced.clone(), theirs.sourced.clone()), ("path", ours.paths.clone(), theirs.paths.clone())] {
                    for x in t.difference(&o) { println!("LACKS {what} {x:?} {own}"); }
                    for x in o.difference(&t) { println!("MORE {what} {x:?} {own}"); }
                }
            }
            (Ok(_), Err(e)) => { ours_only += 1; println!("OURSONLY {own} {e:?}"); }
            (Err(e), Ok(_)) => { theirs_only += 1; println!("THEIRSONLY {own} {e:?}"); }
            (Err(e), Err(_)) => { none += 1; println!("NONE {own} {e}"); }
        }
    }
    println!("COUNT {} scripts {bytes} bytes both {both} ours {ours_only} theirs {theirs_only} none {none}; {ours_time:?} {theirs_time:?}", scripts.len());
}

fn paths(s: &BTreeSet<String>) -> BTreeSet<PathBuf> { s.iter().map(PathBuf::from).collect() }
