// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs libseccomp in a separate process: `export.c`, which is compiled here.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::LazyLock;

use palisade_acceptance::case::data_directory;
use palisade_acceptance::feature::Features;
use palisade_syscall::{Arch, Instruction, Rules, Syscall};

use crate::regions::{Condition, Region};
use crate::samples::verdict;

/// The process that answers requests.
pub(crate) struct Library {
    _process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// libseccomp's numbers of the calls that it knows, on x86-64 and on aarch64.
    numbers: BTreeMap<Syscall, [Option<u32>; 2]>,
}

/// The compiled program. `None` if the machine has no libseccomp and doesn't claim the feature.
static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let features = Features::find(&data_directory()).unwrap_or_else(|error| panic!("{error}"));
    if !features.has("libseccomp") {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libseccomp/export.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libseccomp-export");
    // Another run of this test may be executing the program.
    let new = program.with_extension(std::process::id().to_string());
    let gcc =
        Command::new("gcc").args(["-O1", "-Wall", "-o"]).args([&new, &source]).arg("-lseccomp").output();
    let gcc = gcc.unwrap();
    assert!(gcc.status.success(), "{}", String::from_utf8_lossy(&gcc.stderr));
    std::fs::rename(new, &program).unwrap();
    Some(program)
});

impl Library {
    /// `None` if the machine has no libseccomp and doesn't claim the feature.
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = &*PROGRAM else {
            eprintln!("not tried: no libseccomp here");
            return None;
        };
        let mut process = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let requests = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let mut library = Self { _process: process, requests, answers, numbers: BTreeMap::new() };
        for call in Syscall::all() {
            let answer = library.ask(&format!("number {call}\n"));
            let (x86_64, aarch64) = answer.split_once(' ').unwrap();
            let numbers = [x86_64, aarch64].map(|number| u32::try_from(number.parse::<i32>().unwrap()).ok());
            library.numbers.insert(call, numbers);
        }
        Some(library)
    }

    /// Sends lines and reads the answer to the last one.
    fn ask(&mut self, request: &str) -> String {
        let mut answer = String::new();
        let sent = self.requests.write_all(request.as_bytes()).and_then(|()| self.requests.flush());
        let read = self.answers.read_line(&mut answer);
        assert!(sent.is_ok() && read.unwrap() > 0, "libseccomp has given up: {sent:?}");
        answer.trim_end().to_owned()
    }

    /// libseccomp's number of a call. `None` if it has none.
    pub(crate) fn number(&self, arch: Arch, call: Syscall) -> Option<u32> {
        self.numbers[&call][usize::from(arch == Arch::Aarch64)]
    }

    /// libseccomp's name for a number.
    pub(crate) fn name(&mut self, arch: Arch, number: u32) -> Option<String> {
        let answer = self.ask(&format!("name {} {number:x}\n", name(arch)));
        (answer != "-").then_some(answer)
    }

    /// libseccomp's filter for these rules. `regions` is what to tell it about each call.
    ///
    /// Its default action is our action for unknown numbers. All known calls then have rules, except those with the
    /// same action.
    pub(crate) fn export(
        &mut self,
        rules: &Rules,
        arch: Arch,
        regions: &[(Syscall, Vec<Region>)],
    ) -> Vec<Instruction> {
        let mut request =
            format!("policy {} {:x} {:x}\n", name(arch), verdict(rules.unknown), verdict(rules.foreign));
        for (call, regions) in regions {
            // libseccomp refuses a rule that equals its default action.
            for region in regions.iter().filter(|region| region.action != rules.unknown) {
                let number = call.number(arch).unwrap();
                request += &format!("rule {:x} {call} {number:x}", verdict(region.action));
                for (argument, condition) in region.conditions.iter().enumerate() {
                    request += &match condition {
                        Condition::Fits(pattern) if pattern.mask == 0 => continue,
                        Condition::Fits(pattern) => {
                            format!(" {argument} eq {:x} {:x}", pattern.mask, pattern.value)
                        }
                        Condition::Differs(value) => format!(" {argument} ne {:x} {value:x}", u64::MAX),
                    };
                }
                request += "\n";
            }
        }
        request += "export\n";
        let answer = self.ask(&request);
        let part = |instruction: &[u8], at: std::ops::Range<usize>| {
            u32::from_str_radix(str::from_utf8(&instruction[at]).unwrap(), 16).unwrap()
        };
        answer
            .as_bytes()
            .chunks(16)
            .map(|instruction| Instruction {
                code: part(instruction, 0..4).try_into().unwrap(),
                jt: part(instruction, 4..6).try_into().unwrap(),
                jf: part(instruction, 6..8).try_into().unwrap(),
                k: part(instruction, 8..16),
            })
            .collect()
    }
}

fn name(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "x86_64",
        Arch::Aarch64 => "aarch64",
        other => panic!("{other:?}"),
    }
}
