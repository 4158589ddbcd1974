// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the guard's programs in a guest: a virtual machine without acceleration, with a distribution's kernel, and this
//! program as process 1. So the tests also run on hosts whose own kernel accepts no programs for its security hooks.
//!
//! Each boot is a test, `guest::KERNEL::KIND`, with the options of libtest (`--list`, `--exact`). A test runner may start
//! this program several times at once; two boots run at a time. Everything that `scenarios.list` names for the kind must be
//! reported `ok`. If `PALISADE_TEST_HAS` lacks `guest`, the tests don't run.
//!
//! `PALISADE_GUEST_KERNELS=all` boots the distribution's oldest kernel too; `PALISADE_GUEST_KERNEL` names an image to boot
//! instead; `PALISADE_GUEST_BOOT` names the only kind of boot.
#![expect(clippy::expect_used, reason = "a test dies of what it doesn't find")]

mod act;
mod apparmor;
mod archive;
mod audit;
mod boots;
mod changes;
mod clock;
mod closed;
mod cost;
mod daemon;
mod disk;
mod groups;
mod inside;
mod kernel;
mod learn;
mod lives;
mod machine;
mod overlay;
mod parser;
mod place;
mod quota;
mod scenario;
mod scope;
mod served;
mod verity;
mod yama;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == "act") {
        return act::main(&arguments[2..]);
    }
    // Copies of this program in the guest stand in for these two.
    let name = arguments.first().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    if name == parser::PARSER || name == "sudo" {
        let error = if name == "sudo" { apparmor::sudo } else { parser::execute }(&arguments[1..]);
        eprintln!("{name}: {error}");
        return ExitCode::FAILURE;
    }
    if std::process::id() == 1 {
        inside::main();
    }
    boots::main(&arguments[1..])
}
