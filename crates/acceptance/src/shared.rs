// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies of the binary and of the data where an ordinary user can read them: the checkout may lie below a directory
//! that is closed to others.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::tool::Tool;

/// The copies. They are removed with it.
#[derive(Debug)]
pub struct Shared {
    /// A copy of `tests/acceptance`.
    pub data: PathBuf,
    /// The tools, with Palisade's binary copied.
    pub tools: Vec<Tool>,
}

impl Shared {
    /// Makes the copies, for the process and one `label` of it.
    ///
    /// # Errors
    /// What couldn't be copied, in words.
    pub fn new(data: &Path, tools: &[Tool], label: &str) -> Result<Shared, String> {
        let top = PathBuf::from(format!("/var/tmp/palisade-acc-{}-{label}-shared", std::process::id()));
        let failed = |error: std::io::Error| format!("prepare {}: {error}", top.display());
        std::fs::create_dir(&top).map_err(failed)?;
        // From here on dropping it removes the directory.
        let mut shared = Shared { data: top.clone(), tools: Vec::new() };
        std::fs::set_permissions(&top, PermissionsExt::from_mode(0o755)).map_err(failed)?;
        copy_below(data, &top).map_err(failed)?;
        for tool in tools {
            shared.tools.push(match tool {
                Tool::Palisade(path) => {
                    let to = top.join("palisade");
                    copy(path, &to, 0o755).map_err(failed)?;
                    Tool::Palisade(to)
                }
                Tool::Bubblewrap => Tool::Bubblewrap,
            });
        }
        Ok(shared)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.data) {
            eprintln!("acceptance: can't remove {}: {error}", self.data.display());
        }
    }
}

/// Copies files and, for the programs of the cases, directories of files.
fn copy_below(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            std::fs::create_dir(&to)?;
            std::fs::set_permissions(&to, PermissionsExt::from_mode(0o755))?;
            copy_below(&entry.path(), &to)?;
        } else {
            copy(&entry.path(), &to, 0o644)?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, mode: u32) -> std::io::Result<()> {
    std::fs::copy(from, to)?;
    std::fs::set_permissions(to, PermissionsExt::from_mode(mode))
}
