// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guard's programs in a guest of their own: a virtual machine without acceleration, a distribution's kernel, and
//! this program as process 1. Hosts whose kernel refuses programs for its security hooks can test them so.
//!
//! `PALISADE_TEST_HAS` without `guest`: not run. With it, or unset where there is QEMU: everything of
//! `scenarios.list` must be reported `ok`. `PALISADE_GUEST_KERNEL` names a kernel image instead of the packages',
//! `PALISADE_GUEST_BOOT` the only kind of boot.
#![expect(clippy::expect_used, reason = "a test dies of what it doesn't find")]

mod act;
mod archive;
mod audit;
mod changes;
mod clock;
mod closed;
mod daemon;
mod inside;
mod kernel;
mod learn;
mod lives;
mod machine;
mod overlay;
mod scenario;
mod scope;
mod verity;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

const LIST: &str = include_str!("scenarios.list");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == "act") {
        return act::main(&arguments[2..]);
    }
    if std::process::id() == 1 {
        inside::main();
    }
    // What cargo or a person asks of every test program.
    if arguments.iter().any(|word| word == "--list") {
        println!("guest: test");
        return ExitCode::SUCCESS;
    }
    let filter = arguments.iter().skip(1).find(|word| !word.starts_with('-'));
    if filter.is_some_and(|word| !"guest".contains(word.as_str())) {
        return ExitCode::SUCCESS;
    }
    let declared = std::env::var("PALISADE_TEST_HAS").ok();
    let declared = declared.map(|list| list.split(',').any(|feature| feature.trim() == "guest"));
    match (declared, machine::missing()) {
        (Some(false), _) => {
            println!("guest: not run: PALISADE_TEST_HAS doesn't name it");
            ExitCode::SUCCESS
        }
        (None, Some(what)) => {
            println!("guest: not run: this machine has no {what}");
            ExitCode::SUCCESS
        }
        (Some(true), Some(what)) => {
            println!("guest: declared by PALISADE_TEST_HAS, but this machine has no {what}");
            ExitCode::FAILURE
        }
        (_, None) => boot_all(),
    }
}

fn boot_all() -> ExitCode {
    let kernels = match kernel::find() {
        Ok(kernels) => kernels,
        Err(error) => {
            println!("guest: no kernel to boot: {error}");
            println!(
                "hint: apt-get update; or name an image in PALISADE_GUEST_KERNEL; or leave guest out of PALISADE_TEST_HAS"
            );
            return ExitCode::FAILURE;
        }
    };
    let (palisaded, palisade) =
        match archive::palisaded().and_then(|daemon| Ok((daemon, archive::palisade()?))) {
            Ok(programs) => programs,
            Err(error) => {
                println!("guest: no palisaded, or no palisade: {error}");
                return ExitCode::FAILURE;
            }
        };
    let end = Instant::now() + machine::LIMIT;
    let mut failed = 0;
    for kernel in &kernels {
        let image = archive::image(&kernel.drivers, &palisaded, &palisade)
            .expect("the programs and their libraries are there: they run");
        for boot in ["bpf", "plain", "daemon", "scope", "scope-plain"] {
            if std::env::var("PALISADE_GUEST_BOOT").is_ok_and(|only| only != boot) {
                continue;
            }
            let began = Instant::now();
            let output = machine::boot(&kernel.image, &image, boot, end);
            let seconds = began.elapsed().as_secs_f32();
            println!("guest: {} ({boot}), {seconds:.1} s", kernel.image.display());
            failed += judge(&output, boot);
        }
        // Nobody else has it.
        let _ = std::fs::remove_file(&image);
    }
    println!("guest: {failed} failures");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Compares what was reported with the list; returns how much is wrong.
fn judge(output: &str, boot: &str) -> usize {
    let reports: BTreeMap<&str, (bool, &str)> = output
        .lines()
        .filter_map(|line| line.split_once(scenario::MARK))
        .filter_map(|(_, report)| {
            let failed = report.strip_prefix("not ok ");
            let (name, words) = failed.or_else(|| report.strip_prefix("ok "))?.split_once(": ")?;
            Some((name, (failed.is_none(), words.trim())))
        })
        .collect();
    let listed = || {
        let lines = LIST.lines().filter_map(|line| line.split_once(' '));
        lines.filter(|(kind, _)| *kind == boot).map(|(_, name)| name)
    };
    let mut failed = 0;
    for name in listed() {
        match reports.get(name) {
            Some((true, seconds)) => println!("  ok {name} ({seconds})"),
            Some((false, why)) => {
                println!("  not ok {name}: {why}");
                failed += 1;
            }
            None => {
                println!("  not ok {name}: not reported");
                failed += 1;
            }
        }
    }
    for name in reports.keys().filter(|name| !listed().any(|listed| listed == **name)) {
        println!("  not ok {name}: not in scenarios.list");
        failed += 1;
    }
    if failed > 0 {
        println!("---- the guest's console\n{output}\n----");
    }
    failed
}
