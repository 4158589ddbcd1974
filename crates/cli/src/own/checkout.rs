// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program in the directory `target` of a checkout, where cargo has built it.

use super::installation::{Installation, Program, word};
use std::path::Path;

/// Whether cargo has made the directory, in a checkout.
fn is_target(directory: &Path) -> bool {
    let has = |name: &str| directory.parent().is_some_and(|root| root.join(name).is_file());
    directory.join("CACHEDIR.TAG").is_file() && has("x") && has("crates/cli/Cargo.toml")
}

pub(super) fn find(program: &Program<'_>) -> Option<Installation> {
    let target = program.path.ancestors().skip(1).find(|directory| is_target(directory))?;
    let (root, target) = (word(target.parent()?), word(target));
    Some(Installation {
        by: "checkout",
        words: format!("by a build of the checkout {root}"),
        update: vec![format!("git -C {root} pull"), format!("{root}/x build palisade")],
        remove: vec![format!("rm -r {target}   # all that was built there")],
    })
}
