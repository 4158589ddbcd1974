// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guard's programs in a guest of their own: a virtual machine without acceleration, a distribution's kernel, and
//! this program as process 1. Hosts whose kernel refuses programs for its security hooks can test them so.
//!
//! Each boot is a test, `guest::KERNEL::KIND`, by the options of libtest (`--list`, `--exact`): a runner may start
//! several of this program at once, of which two boot at a time. Everything that `scenarios.list` has for the kind must
//! be reported `ok`. `PALISADE_TEST_HAS` without `guest`: not run.
//!
//! `PALISADE_GUEST_KERNELS=all` boots the distribution's oldest kernel too, `PALISADE_GUEST_KERNEL` names an image
//! instead, `PALISADE_GUEST_BOOT` the only kind of boot.
#![expect(clippy::expect_used, reason = "a test dies of what it doesn't find")]

mod act;
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
mod place;
mod quota;
mod scenario;
mod scope;
mod served;
mod verity;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == "act") {
        return act::main(&arguments[2..]);
    }
    if std::process::id() == 1 {
        inside::main();
    }
    boots::main(&arguments[1..])
}
