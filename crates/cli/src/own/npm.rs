// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program of the npm package for its platform: `node_modules/@palisade-sandbox/PLATFORM/bin/palisade`.

use super::installation::{Installation, PUBLISHED, Program, above, with_rights, word};
use std::path::Path;

pub(super) fn find(program: &Program<'_>) -> Option<Installation> {
    let scope = above(program, 3)?;
    let is_package = above(program, 2)?.join("package.json").is_file()
        && scope.file_name()?.to_str()?.strip_prefix('@') == Some(PUBLISHED)
        && scope.parent()?.ends_with("node_modules");
    is_package.then_some(())?;
    // Packages that others need can be below those, and below the directory of a package manager.
    let top = program.path.ancestors().filter(|directory| directory.ends_with("node_modules")).last()?;
    commands(top.parent()?)
}

/// The commands for a package in the `node_modules` of `owner`.
fn commands(owner: &Path) -> Option<Installation> {
    let place = word(owner);
    if owner.ends_with("lib") && !owner.join("package.json").is_file() {
        let prefix = owner.parent()?;
        let option = format!("--global --prefix {}", word(prefix));
        let command = |command: String| with_rights(&owner.join("node_modules"), command);
        return Some(Installation::new(
            "npm",
            format!("with npm, for all projects, in {place}"),
            command(format!("npm install {option} {PUBLISHED}@latest")),
            command(format!("npm uninstall {option} {PUBLISHED}")),
        ));
    }
    if owner.parent()?.ends_with("_npx") {
        return Some(Installation::new(
            "npx",
            format!("by npx, in its cache {place}"),
            format!("npx {PUBLISHED}@latest --version"),
            format!("rm -r {place}"),
        ));
    }
    let new = |by, update, remove| {
        Some(Installation::new(by, format!("with {by}, in the project {place}"), update, remove))
    };
    if owner.join("pnpm-lock.yaml").is_file() {
        let update = format!("pnpm --dir {place} update --latest {PUBLISHED}");
        return new("pnpm", update, format!("pnpm --dir {place} remove {PUBLISHED}"));
    }
    let update = format!("npm install --prefix {place} {PUBLISHED}@latest");
    new("npm", update, format!("npm uninstall --prefix {place} {PUBLISHED}"))
}
