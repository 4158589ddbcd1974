// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workloads that create or open many files. Each creates its files, prints how many there are, and removes them. A later
//! launch couldn't remove them if some have protected names.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::bench::BenchError;
use crate::entry::Missing;
use crate::programs;
use crate::workload::{Check, Workload, first_line};

/// Why a workload can't be prepared.
#[derive(Debug, thiserror::Error)]
enum Unprepared {
    #[error("{0} is not installed")]
    Missing(&'static str),
    #[error("can't write its files: {0}")]
    Write(#[from] io::Error),
    #[error("`{command}` failed: {said}")]
    Failed { command: String, said: String },
}

/// A workload: its name, the divisor of its rounds, its preparation, its expected output.
struct Kind {
    name: &'static str,
    rounds_divisor: usize,
    /// Creates the workload's files in a directory of its own, and returns the shell command line to run there.
    prepare: fn(&Path) -> Result<String, Unprepared>,
    /// The output of that line.
    output: &'static str,
}

const KINDS: [Kind; 6] = [
    Kind { name: "2,000 small files", rounds_divisor: 4, prepare: small_files, output: "2000\n" },
    Kind { name: "20,000 opens for reading", rounds_divisor: 4, prepare: opens, output: "20000\n" },
    Kind { name: "tar x, 20,000 files", rounds_divisor: 10, prepare: tar, output: "20000\n" },
    Kind { name: "git clone, 5,000 files", rounds_divisor: 10, prepare: clone, output: "5000\n" },
    Kind { name: "npm install, 40 packages", rounds_divisor: 10, prepare: npm, output: "2440\n" },
    Kind { name: "cargo build", rounds_divisor: 10, prepare: cargo, output: "built\n" },
];

/// The workloads that are wanted by name and that can be prepared below `work`.
pub(crate) fn workloads(
    work: &Path,
    wanted: impl Fn(&str) -> bool,
) -> Result<(Vec<Workload>, Vec<Missing>), BenchError> {
    let mut workloads = Vec::new();
    let mut missing = Vec::new();
    for kind in KINDS.iter().filter(|kind| wanted(kind.name)) {
        let directory = work.join(kind.name.replace([' ', ','], "-"));
        let prepared =
            fs::create_dir(&directory).map_err(Unprepared::from).and_then(|()| (kind.prepare)(&directory));
        match (prepared, programs::of_the_system("sh")) {
            (Ok(line), Some(shell)) => {
                let line = format!("cd {} && {line}", shell_words::quote(&directory.to_string_lossy()));
                workloads.push(Workload {
                    name: kind.name,
                    command: vec![shell.to_string_lossy().into_owned(), "-ec".to_owned(), line],
                    check: Check::Output(kind.output.as_bytes().to_vec()),
                    rounds_divisor: kind.rounds_divisor,
                });
            }
            (Ok(_), None) => return Err(BenchError::NoWorkload { reasons: "there is no sh".to_owned() }),
            (Err(error), _) => {
                missing.push(Missing { name: format!("workload {}", kind.name), how: error.to_string() });
            }
        }
    }
    Ok((workloads, missing))
}

fn small_files(_directory: &Path) -> Result<String, Unprepared> {
    let script = "import os\nos.mkdir('d')\nfor n in range(2000):\n f = os.open(f'd/{n}', os.O_WRONLY | os.O_CREAT, 0o644)\n os.write(f, b'x')\n os.close(f)\nprint(len(os.listdir('d')))";
    Ok(format!("{} -c {}; rm -r d", program("python3")?, shell_words::quote(script)))
}

fn opens(directory: &Path) -> Result<String, Unprepared> {
    fs::write(directory.join("file"), "x")?;
    let script = "import os\nfor n in range(20000):\n os.close(os.open('file', os.O_RDONLY))\nprint(n + 1)";
    Ok(format!("{} -c {}", program("python3")?, shell_words::quote(script)))
}

fn tar(directory: &Path) -> Result<String, Unprepared> {
    let tar = program("tar")?;
    many(&directory.join("tree"), 20_000)?;
    done(Command::new(&tar).args(["cf", "tree.tar", "tree"]).current_dir(directory))?;
    fs::remove_dir_all(directory.join("tree"))?;
    Ok(format!("mkdir out; {tar} xf tree.tar -C out; find out -type f | wc -l; rm -r out"))
}

fn clone(directory: &Path) -> Result<String, Unprepared> {
    let git = program("git")?;
    let source = directory.join("source");
    many(&source, 5000)?;
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&git);
        command.args(["-c", "user.name=bench", "-c", "user.email=bench@invalid"]).args(arguments);
        done(
            command
                .current_dir(&source)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CONFIG_NOSYSTEM", "1"),
        )
    };
    run(&["init", "--quiet"])?;
    run(&["add", "."])?;
    run(&["commit", "--quiet", "--message", "start"])?;
    Ok(format!(
        "{git} clone --quiet --no-hardlinks source clone; find clone -type f -name '*.txt' | wc -l; rm -rf clone"
    ))
}

fn npm(directory: &Path) -> Result<String, Unprepared> {
    let npm = program("npm")?;
    let mut wanted = Vec::new();
    for number in 0..40 {
        let package = directory.join("packages").join(format!("p{number}"));
        fs::create_dir_all(&package)?;
        many(&package.join("lib"), 60)?;
        fs::write(package.join("package.json"), format!("{{\"name\":\"p{number}\",\"version\":\"1.0.0\"}}"))?;
        done(Command::new(&npm).args(["pack", "--silent"]).current_dir(&package))?;
        wanted.push(format!("\"p{number}\":\"file:packages/p{number}/p{number}-1.0.0.tgz\""));
    }
    let manifest =
        format!("{{\"name\":\"bench\",\"version\":\"1.0.0\",\"dependencies\":{{{}}}}}", wanted.join(","));
    fs::write(directory.join("package.json"), manifest)?;
    Ok(format!(
        "{npm} install --silent --offline --no-audit --no-fund --cache ./cache; \
         find node_modules/p* -type f | wc -l; rm -r node_modules cache package-lock.json"
    ))
}

fn cargo(directory: &Path) -> Result<String, Unprepared> {
    let cargo = program("cargo")?;
    let source = directory.join("src");
    fs::create_dir(&source)?;
    fs::write(
        directory.join("Cargo.toml"),
        "[package]\nname = \"bench\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    )?;
    let mut main = String::new();
    for number in 0..30 {
        let body = format!(
            "use std::collections::BTreeMap;\npub fn run(n: u64) -> BTreeMap<u64, String> {{ (0..n).map(|i| (i * {number}, format!(\"{{i}}\"))).collect() }}\n"
        );
        fs::write(source.join(format!("m{number}.rs")), body)?;
        main += &format!("mod m{number};\n");
    }
    let calls: String = (0..30).map(|number| format!("+ m{number}::run(9).len() ")).collect();
    main +=
        &format!("fn main() {{ let n = 0 {calls}; assert_eq!(n, {}); println!(\"built\"); }}\n", 29 * 9 + 1);
    fs::write(source.join("main.rs"), main)?;
    Ok(format!("{cargo} build --quiet --offline; target/debug/bench; rm -r target"))
}

/// Creates a tree of small files, a hundred per directory.
fn many(directory: &Path, count: usize) -> io::Result<()> {
    for number in 0..count {
        let below = directory.join(format!("d{}", number / 100));
        if number % 100 == 0 {
            fs::create_dir_all(&below)?;
        }
        fs::write(below.join(format!("f{number}.txt")), format!("text {number}\n"))?;
    }
    Ok(())
}

fn program(name: &'static str) -> Result<String, Unprepared> {
    let path = programs::of_the_system(name).ok_or(Unprepared::Missing(name))?;
    Ok(shell_words::quote(&path.to_string_lossy()).into_owned())
}

fn done(command: &mut Command) -> Result<(), Unprepared> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let command = words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    Err(Unprepared::Failed { command, said: first_line(&output.stderr) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_line_prints_is_what_it_made() {
        let work = tempfile::tempdir().unwrap();
        let (workloads, _missing) = workloads(work.path(), |name| name.contains("small files")).unwrap();
        let [workload] = workloads.as_slice() else { panic!("{workloads:?}") };
        // A second run must behave like the first.
        for _ in 0..2 {
            let output = Command::new(&workload.command[0]).args(&workload.command[1..]).output().unwrap();
            assert_eq!(workload.check, Check::Output(output.stdout));
        }
    }
}
