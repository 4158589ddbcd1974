// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares closures with the loader's own list, for every program of this machine. The loader lists what it would
//! load instead of running the program (`LD_TRACE_LOADED_OBJECTS`, as `ldd` uses it).
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use palisade_acceptance::case::data_directory;
use palisade_acceptance::feature::Features;
use palisade_host::closure::{Closure, Libraries};
use palisade_host::elf;

/// Files by their real paths, and names that aren't found.
type Files = (BTreeSet<PathBuf>, BTreeSet<String>);

/// The loader's list; `None` if the loader says that it doesn't load such a file.
fn listed(loader: &Path, program: &Path) -> Option<Files> {
    let list =
        Command::new(loader).arg(program).env_clear().env("LD_TRACE_LOADED_OBJECTS", "1").output().unwrap();
    let text = String::from_utf8_lossy(&list.stdout);
    let (mut files, mut missing) = (BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        let line = line.trim();
        let path = line.split(" => ").last()?.split(" (0x").next()?;
        if path == "not found" {
            missing.insert(line.split(" => ").next()?.to_owned());
        } else if path.starts_with('/') {
            files.insert(Path::new(path).canonicalize().unwrap());
        }
    }
    (list.status.success() && !files.is_empty()).then_some((files, missing))
}

/// The same from our closure, without the program itself.
fn ours(closure: &Closure) -> Files {
    let files = closure.objects[1..].iter().map(|path| path.canonicalize().unwrap()).collect();
    let missing = closure.missing.iter().map(|missing| missing.name.to_string_lossy().into_owned()).collect();
    (files, missing)
}

/// The programs of these directories, each once, by their real paths.
fn programs(directories: &[&str]) -> Vec<PathBuf> {
    let entries = directories.iter().filter_map(|directory| std::fs::read_dir(directory).ok()).flatten();
    let found: BTreeSet<PathBuf> =
        entries.filter_map(|entry| entry.ok()?.path().canonicalize().ok()).collect();
    found.into_iter().filter(|path| path.is_file()).collect()
}

/// The differences between the two, in words; the number of objects if there are none. `None`: the loader doesn't
/// load the program.
fn compare(libraries: &Libraries, program: &Path) -> Option<Result<usize, String>> {
    let loader = elf::read(program).ok()?.interpreter?;
    // Only this loader can list.
    if !loader.file_name()?.to_string_lossy().starts_with("ld-linux") {
        return None;
    }
    let theirs = listed(&loader, program)?;
    Some(match libraries.closure(program) {
        Err(error) => Err(error.to_string()),
        Ok(closure) if ours(&closure) == theirs => Ok(closure.objects.len()),
        Ok(closure) => {
            let ours = ours(&closure);
            let lacks: Vec<_> = theirs.0.difference(&ours.0).collect();
            let more: Vec<_> = ours.0.difference(&theirs.0).collect();
            let program = program.display();
            Err(format!(
                "{program}: lacks {lacks:?}, has {more:?} more; missing {:?}, not {:?}",
                ours.1, theirs.1
            ))
        }
    })
}

#[test]
fn every_program_is_loaded_with_what_we_say() {
    let programs = programs(&["/usr/bin", "/usr/sbin", "/usr/games", "/usr/local/bin"]);
    let libraries = Libraries::default();
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    results.lock().unwrap().extend(compare(&libraries, program));
                }
            });
        }
    });
    let results = results.into_inner().unwrap();
    let objects: usize = results.iter().filter_map(|result| result.as_ref().ok()).sum();
    println!("{} programs, {objects} objects", results.len());
    let differences: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(differences.is_empty(), "{differences:#?}");
    assert!(results.len() > 100, "{}", results.len());
}

/// All kinds of library paths, with libraries made for this test.
#[test]
fn paths_are_searched_as_the_loader_does() {
    let features = Features::find(&data_directory()).unwrap_or_else(|error| panic!("{error}"));
    if !features.has("gcc") {
        eprintln!("not tried: no gcc here");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    let gcc = |arguments: &[&str]| {
        let run = Command::new("gcc").current_dir(&top).args(arguments).output().unwrap();
        assert!(run.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
    };
    for place in ["a", "b", "c/glibc-hwcaps/x86-64-v2", "d"] {
        std::fs::create_dir_all(top.join(place)).unwrap();
    }
    std::fs::write(top.join("leaf.c"), "int leaf(void) { return 1; }").unwrap();
    std::fs::write(top.join("middle.c"), "int leaf(void); int middle(void) { return leaf(); }").unwrap();
    std::fs::write(top.join("main.c"), "int middle(void); int main(void) { return middle(); }").unwrap();
    for place in ["a", "b", "c", "c/glibc-hwcaps/x86-64-v2"] {
        gcc(&["-shared", "-fPIC", "-o", &format!("{place}/libleaf.so"), "leaf.c"]);
    }
    // A library for another machine doesn't prevent finding the right one.
    let mut other = std::fs::read(top.join("a/libleaf.so")).unwrap();
    other[18] = 2; // e_machine: SPARC
    std::fs::write(top.join("d/libleaf.so"), other).unwrap();
    let middle = |name: &str, options: &[&str]| {
        gcc(&[&["-shared", "-fPIC", "-o", name, "middle.c"], options, &["-Lb", "-lleaf"]].concat());
    };
    middle("a/libmiddle.so", &["-Wl,--disable-new-dtags,-rpath,$ORIGIN/../d:$ORIGIN/../b"]);
    middle("b/libmiddle.so", &["-Wl,--enable-new-dtags,-rpath,${ORIGIN}/../c"]);
    middle("c/libmiddle.so", &[]);
    let absolute = top.join("c").display().to_string();
    for (name, tags, path, library) in [
        ("rpath", "--disable-new-dtags", "$ORIGIN/a", "-La"),
        ("runpath", "--enable-new-dtags", "$ORIGIN/b", "-Lb"),
        ("inherited", "--disable-new-dtags", &absolute, "-Lc"),
        ("not-inherited", "--enable-new-dtags", &absolute, "-Lc"),
        ("nowhere", "--enable-new-dtags", "/none", "-La"),
    ] {
        let path = format!("-Wl,{tags},-rpath,{path}");
        gcc(&["-o", name, "main.c", &path, library, "-lmiddle", "-Wl,--allow-shlib-undefined"]);
        let program = top.join(name);
        let loader = elf::read(&program).unwrap().interpreter.unwrap();
        let theirs = listed(&loader, &program).unwrap();
        let closure = Libraries::default().closure(&program).unwrap();
        assert_eq!(ours(&closure), theirs, "{name}");
        let missing: Vec<_> = closure.missing.iter().map(|missing| missing.name.as_os_str()).collect();
        let expected: &[&OsStr] = match name {
            "nowhere" => &[OsStr::new("libmiddle.so")],
            "not-inherited" => &[OsStr::new("libleaf.so")],
            _ => &[],
        };
        assert_eq!(missing, expected, "{name}");
    }
}
