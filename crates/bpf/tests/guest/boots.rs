// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Presents boots as tests: lists them, runs those that are selected, and reports each.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use crate::{archive, kernel, machine, place, scenario};

const LIST: &str = include_str!("scenarios.list");

/// The kinds of boot, the longest first, so that no long boot runs alone at the end.
const KINDS: [&str; 8] = ["daemon", "scope", "bpf", "cost", "served", "apparmor", "scope-plain", "plain"];

/// The options of the command line, as libtest understands them.
#[derive(Default)]
struct Asked {
    list: bool,
    exact: bool,
    names: Vec<String>,
    skip: Vec<String>,
}

impl Asked {
    fn parse(arguments: &[String]) -> Self {
        let mut asked = Self::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--list" => asked.list = true,
                "--exact" => asked.exact = true,
                "--skip" => asked.skip.extend(words.next().cloned()),
                "--format" | "--test-threads" | "--color" | "--logfile" | "--shuffle-seed" | "-Z" => {
                    let _its_value = words.next();
                }
                option if option.starts_with('-') => {}
                name => asked.names.push(name.to_owned()),
            }
        }
        asked
    }

    fn has(&self, name: &str) -> bool {
        let fits = |part: &String| if self.exact { name == part } else { name.contains(part.as_str()) };
        (self.names.is_empty() || self.names.iter().any(fits)) && !self.skip.iter().any(fits)
    }
}

/// One boot of one kernel.
struct Boot<'a> {
    kernel: &'a kernel::Named,
    kind: &'static str,
}

impl Boot<'_> {
    fn name(&self) -> String {
        format!("guest::{}::{}", self.kernel.version, self.kind)
    }
}

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let asked = Asked::parse(arguments);
    let declared = std::env::var("PALISADE_TEST_HAS").ok();
    let declared = declared.map(|list| list.split(',').any(|feature| feature.trim() == "guest"));
    let why = match (declared, machine::missing()) {
        (Some(false), _) => Some((true, "PALISADE_TEST_HAS doesn't name it".to_owned())),
        (None, Some(what)) => Some((true, format!("this machine has no {what}"))),
        (Some(true), Some(what)) => {
            Some((false, format!("declared by PALISADE_TEST_HAS, but this machine has no {what}")))
        }
        (_, None) => None,
    };
    if let Some((fine, why)) = why {
        return without(&asked, fine, &why);
    }
    let kernels = match kernel::named() {
        Ok(kernels) => kernels,
        Err(error) => {
            let hint = "apt-get update; or name an image in PALISADE_GUEST_KERNEL; or leave guest out of PALISADE_TEST_HAS";
            return without(&asked, false, &format!("no kernel to boot: {error}\nhint: {hint}"));
        }
    };
    // By default only the newest kernel. A kernel that is selected by its exact name is always included.
    let few = usize::from(!are_all_kernels_asked_for() && !asked.exact).min(kernels.len() - 1);
    let wanted = if few == 1 { &kernels[..1] } else { &kernels[..] };
    let only = std::env::var("PALISADE_GUEST_BOOT").ok();
    let mut boots = Vec::new();
    for kernel in wanted {
        for kind in KINDS.into_iter().filter(|kind| only.as_ref().is_none_or(|only| only == kind)) {
            boots.push(Boot { kernel, kind });
        }
    }
    boots.retain(|boot| asked.has(&boot.name()));
    boots.retain(|boot| boot.kind != "apparmor" || boot.kernel.mediates_namespaces());
    if asked.list {
        boots.iter().for_each(|boot| println!("{}: test", boot.name()));
        return ExitCode::SUCCESS;
    }
    for kernel in kernels.iter().skip(wanted.len()) {
        println!("guest: not run: {}; PALISADE_GUEST_KERNELS=all boots it", kernel.package);
    }
    run(&boots)
}

/// Whether to boot all kernels: in the long run, and when files of the guard have changed.
pub(crate) fn are_all_kernels_asked_for() -> bool {
    std::env::var("PALISADE_GUEST_KERNELS").is_ok_and(|kernels| kernels == "all")
}

/// If nothing can be booted, there is one test, which reports why.
fn without(asked: &Asked, fine: bool, why: &str) -> ExitCode {
    if !asked.has("guest") {
        return ExitCode::SUCCESS;
    }
    if asked.list {
        println!("guest: test");
        return ExitCode::SUCCESS;
    }
    println!("guest: not run: {why}");
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(boots: &[Boot<'_>]) -> ExitCode {
    println!("\nrunning {} tests", boots.len());
    let left = Mutex::new(boots.iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..place::AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = left.lock().ok().and_then(|mut left| left.next());
                    let Some(boot) = next else { return };
                    let (good, said) = one(boot);
                    let word = if good { "ok" } else { "FAILED" };
                    println!("{said}test {} ... {word}", boot.name());
                    if !good && let Ok(mut failed) = failed.lock() {
                        failed.push(boot.name());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no thread of ours panics while it holds it");
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    let passed = boots.len() - failed.len();
    println!(
        "\ntest result: {word}. {passed} passed; {} failed; 0 ignored; 0 measured; 0 filtered out",
        failed.len()
    );
    for name in &failed {
        println!("again: ./x test guest -- --exact {name}");
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Boots. Returns whether every report was as listed, and a text about it.
fn one(boot: &Boot<'_>) -> (bool, String) {
    let prepared = place::prepare(|| {
        let kernel = kernel::fetch(boot.kernel)?;
        let image = archive::image(&boot.kernel.version, &kernel.drivers)?;
        let image = if boot.kind == "apparmor" { archive::with_parser(&image)? } else { image };
        Ok((kernel, image))
    });
    let (kernel, image) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return (false, format!("guest: not prepared: {error}\n")),
    };
    let _seat = place::seat();
    let began = Instant::now();
    let output = machine::boot(&kernel.image, &image, boot.kind);
    let mut said = format!(
        "guest: {} ({}), {:.1} s\n",
        kernel.image.display(),
        boot.kind,
        began.elapsed().as_secs_f32()
    );
    // A test that passes prints nothing else of the console.
    for line in output.lines().filter(|line| line.starts_with("(booted again")) {
        said.push_str(line);
        said.push('\n');
    }
    let good = judge(&output, boot.kind, &mut said);
    (good, said)
}

/// Compares the reports with the list.
fn judge(output: &str, boot: &str, said: &mut String) -> bool {
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
    let mut good = true;
    // Writing to a string does not fail.
    for name in listed() {
        let _ = match reports.get(name) {
            Some((true, seconds)) => writeln!(said, "  ok {name} ({seconds})"),
            Some((false, why)) => {
                good = false;
                writeln!(said, "  not ok {name}: {why}")
            }
            None => {
                good = false;
                writeln!(said, "  not ok {name}: not reported")
            }
        };
    }
    for name in reports.keys().filter(|name| !listed().any(|listed| listed == **name)) {
        let _ = writeln!(said, "  not ok {name}: not in scenarios.list");
        good = false;
    }
    for figures in output.lines().filter(|line| line.starts_with(crate::cost::MARK)) {
        let _ = writeln!(said, "  {figures}");
    }
    if !good {
        let _ = writeln!(said, "---- the guest's console\n{output}\n----");
    }
    good
}
