// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the directories to show so that a script runs: its own, and that of an interpreter that the system doesn't have.

use super::Way;
use crate::Situation;
use palisade_host::executable::{self, Kind};
use palisade_policy::{Access, LayerPolicy, PathPattern};
use palisade_sandbox::error::quoted;
use palisade_sandbox::plan::Plan;
use palisade_sandbox::plan::inside::{self, Seen};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The options that make a script run, tried before they are proposed.
pub(super) fn options(situation: &Situation, plan: &Plan<'_>, script: &Path) -> Option<String> {
    let Ok(Kind::Script(interpreter)) = executable::kind(script) else { return None };
    let ways = [Way::to(situation, script), Way::to(situation, &interpreter.program)];
    let home = &situation.facts.account.home;
    let mut trees: Vec<PathBuf> = Vec::new();
    for way in ways.iter().filter(|way| !runs(plan, way)) {
        // The given path of an interpreter may be a link in its own tree, as in a virtual environment of Python.
        let own = way.given.parent().and_then(|parent| parent.canonicalize().ok());
        let link = own.zip(way.given.file_name()).map(|(parent, name)| parent.join(name));
        trees.extend(link.map(|link| tree(&link, home)));
        trees.push(tree(&way.real, home));
    }
    trees.retain(|tree| !shows(plan, tree));
    trees.sort();
    // A directory is sorted before what is in it.
    trees.dedup_by(|inner, outer| inner.starts_with(&*outer));
    let mut layer = LayerPolicy::command_line();
    let mut options = Vec::new();
    for tree in &trees {
        let pattern = PathPattern::exactly(tree).ok()?;
        layer.add_path(Access::Execute, pattern.as_os_str(), 0).ok()?;
        options.push(format!("--ro {}", quoted(pattern.as_str()?)));
    }
    let plan = situation.plan_with(layer).ok()?;
    let all_run = !options.is_empty() && ways.iter().all(|way| runs(&plan, way));
    all_run.then(|| options.join(" "))
}

/// The tree that a program belongs to: `DIRECTORY` for `DIRECTORY/bin/PROGRAM`, because its libraries are there. Only the
/// program itself, where that directory holds other things of the user, too.
fn tree(program: &Path, home: &Path) -> PathBuf {
    let bin = program.parent().filter(|parent| parent.file_name() == Some(OsStr::new("bin")));
    let own =
        bin.and_then(Path::parent).filter(|tree| !home.starts_with(tree) && *tree != home.join(".local"));
    own.unwrap_or(program).to_owned()
}

fn runs(plan: &Plan<'_>, way: &Way) -> bool {
    way.lost_link(plan).is_none() && shows(plan, &way.real)
}

/// Whether what the host has there may be executed, and no private place is in front of it.
fn shows(plan: &Plan<'_>, path: &Path) -> bool {
    let inside = inside::look(plan, path);
    inside.can_execute() && matches!(inside.seen, Seen::Host { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_belongs_to_the_directory_above_bin_unless_more_is_there() {
        let of = |program: &str| tree(Path::new(program), Path::new("/home/me"));
        assert_eq!(of("/home/me/.aider/bin/python3"), Path::new("/home/me/.aider"));
        for alone in ["/home/me/bin/x", "/home/me/.local/bin/x", "/home/me/tool/x", "/home/bin/x"] {
            assert_eq!(of(alone), Path::new(alone));
        }
    }
}
