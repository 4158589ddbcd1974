// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What confines a case: Palisade, or bubblewrap as the control of the suite itself.

use std::path::{Path, PathBuf};

use crate::arena::Arena;
use crate::case::Case;

/// A program that runs a command in a sandbox.
#[derive(Clone, Debug)]
pub enum Tool {
    /// Palisade's binary, at a path that every user can read.
    Palisade(PathBuf),
    /// bubblewrap, found on the system's path.
    Bubblewrap,
}

impl Tool {
    /// The name in the data files and in the table.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Tool::Palisade(_) => "palisade",
            Tool::Bubblewrap => "bwrap",
        }
    }

    /// The program as a shell snippet would call it.
    #[must_use]
    pub fn program(&self) -> String {
        match self {
            Tool::Palisade(path) => path.to_string_lossy().into_owned(),
            Tool::Bubblewrap => "bwrap".into(),
        }
    }

    /// The command line that runs `command` confined to `arena`'s workspace.
    #[must_use]
    pub fn wrap(&self, case: &Case, arena: &Arena, command: Vec<String>) -> Vec<String> {
        let own = |options: &[String]| -> Vec<String> {
            options.iter().map(|option| arena.expand(option)).collect()
        };
        let workspace = arena.work.to_string_lossy().into_owned();
        let mut line = vec![self.program()];
        match self {
            Tool::Palisade(_) => {
                line.push("run".into());
                line.extend(own(&case.options.palisade));
                line.push("--".into());
            }
            Tool::Bubblewrap => {
                let fixed = "--unshare-all --ro-bind / / --proc /proc --dev /dev --tmpfs /tmp --bind";
                line.extend(fixed.split(' ').map(String::from));
                line.extend([workspace.clone(), workspace.clone()]);
                line.extend(own(&case.options.bwrap));
                line.extend(["--chdir".into(), workspace]);
            }
        }
        line.extend(command);
        line
    }
}

/// Palisade's release binary: `PALISADE_BIN`, else where `./x build` leaves it.
///
/// # Errors
/// What was looked for, in words.
pub fn find_palisade() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("PALISADE_BIN") {
        let path = PathBuf::from(path);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(format!("PALISADE_BIN is {}, which doesn't exist", path.display()))
        };
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path));
    for libc in ["musl", "gnu"] {
        let triple = format!("{}-unknown-linux-{libc}", std::env::consts::ARCH);
        let path = target.join(triple).join("release/palisade");
        if path.is_file() {
            return Ok(path);
        }
    }
    Err(format!("no release binary below {}; `./x build` makes it", target.display()))
}
