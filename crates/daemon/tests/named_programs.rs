// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the programs that default policies name. What a policy allows a single program, it allows every user who can load
//! code into that program. An ordinary user starts each program that an allow rule of the default policies names, in every
//! way that loads the user's own code.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::lines::tell;
use crate::support::{Bed, compile, has, host};
use palisade_guard::policies::{KNOWN_LIBS, RESTRICTIVE};
use std::collections::BTreeSet;
use std::path::Path;

/// Ways to make a program load `library.so`, or to run something else under its name. `PROGRAM` stands for it.
const WAYS: [(&str, &str); 7] = [
    ("LD_PRELOAD", "LD_PRELOAD=$PWD/library.so PROGRAM --version"),
    ("LD_AUDIT", "LD_AUDIT=$PWD/library.so PROGRAM --version"),
    (
        "LD_LIBRARY_PATH",
        "mkdir -p l; for name in $(ldd PROGRAM | sed -n 's/.*\\(lib[^ ]*\\) => .*/\\1/p' | grep -v 'libc[.]'); do ln -f library.so l/$name; done; \
         LD_LIBRARY_PATH=$PWD/l PROGRAM --version",
    ),
    ("the run-time linker", "/lib64/ld-linux-x86-64.so.2 --preload $PWD/library.so PROGRAM --version"),
    ("a bind mount over it", "unshare -Urm sh -c 'mount --bind ran PROGRAM && PROGRAM'"),
    (
        "LD_PRELOAD, as root of a user namespace",
        "unshare -Urm sh -c 'LD_PRELOAD=$PWD/library.so PROGRAM --version'",
    ),
    (
        "LD_PRELOAD, with another trusted program mounted over it",
        "unshare -Urm sh -c 'mount --bind /usr/bin/true PROGRAM && LD_PRELOAD=$PWD/library.so PROGRAM'",
    ),
];

/// The programs that allow rules name as their subjects, in all default policies.
fn named() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for policy in [KNOWN_LIBS, RESTRICTIVE] {
        let set = |name: &str| {
            policy.lines().find_map(|line| line.strip_prefix('%')?.strip_prefix(name)?.strip_prefix('='))
        };
        for rule in policy.lines().filter(|line| line.starts_with("allow")) {
            let subject = rule.split(" : ").next().unwrap();
            for programs in subject.split(' ').filter_map(|word| word.strip_prefix("exe=")) {
                let programs = programs.strip_prefix('%').map_or(programs, |name| set(name).unwrap());
                found.extend(programs.split(',').map(str::to_owned));
            }
        }
    }
    found
}

fn attempt(bed: &Bed, script: &str) -> bool {
    let script = script.replace('\'', "'\\''");
    let run = bed.run_as_user(&format!("cd /home/stranger; timeout 20 sh -c '{script}' < /dev/null"));
    bed.run("rm -rf /home/stranger/l").ok();
    run.out.lines().any(|line| line == "ran")
}

#[test]
fn nobody_ordinary_runs_code_in_a_program_that_a_policy_names() {
    if !["fanotify", "overlay", "gcc"].into_iter().all(has) {
        return;
    }
    let programs = named();
    assert!(programs.contains("/usr/bin/dpkg"), "{programs:?}");
    let (here, missing): (Vec<_>, Vec<_>) = programs
        .iter()
        .partition(|program| std::fs::canonicalize(program).is_ok_and(|real| real == Path::new(program)));
    tell(&format!("not on this host: {missing:?}"));
    let mut bed = host::unguarded(host::PYTHON);
    let at = |name: &str| Path::new("/home/stranger").join(name);
    bed.program(
        at("ran"),
        compile("#include <stdio.h>\nint main() { puts(\"ran\"); return 0; }", &["-static"]),
    );
    let library = "#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) void loaded() { puts(\"ran\"); exit(0); }
unsigned la_version(unsigned v) { return v; }";
    bed.program(at("library.so"), compile(library, &["-shared", "-fPIC"]));
    bed.run("chown -R 47110 /home/stranger").ok();
    let tried: Vec<(String, String)> = here
        .iter()
        .flat_map(|program| {
            WAYS.map(|(way, script)| (format!("{program}: {way}"), script.replace("PROGRAM", program)))
        })
        .collect();
    let before: Vec<bool> = tried.iter().map(|(_, script)| attempt(&bed, script)).collect();
    bed.start();
    let mut wrong = Vec::new();
    for ((name, script), works) in tried.iter().zip(&before) {
        let after = attempt(&bed, script);
        tell(&format!(
            "{} then {} {name}",
            if *works { "works" } else { "fails" },
            if after { "works" } else { "refused" }
        ));
        if after {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // A program without a run-time linker is only tried by mounting over it. A way that fails without a guard proves
    // nothing.
    for program in here {
        let count = tried
            .iter()
            .zip(&before)
            .filter(|((name, _), works)| **works && name.starts_with(&format!("{program}:")))
            .count();
        let wanted =
            if bed.run(&format!("ldd {program} | grep -q '=>'")).worked() { WAYS.len() - 1 } else { 1 };
        assert!(count >= wanted, "{program}: {count} ways of {wanted} work without a guard");
    }
}
