// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that Homebrew poured: `PREFIX/Cellar/FORMULA/VERSION/bin/palisade`, with a receipt in the directory of the
//! version.

use super::installation::{Installation, Program, above, word};

pub(super) fn find(program: &Program<'_>) -> Option<Installation> {
    let version = above(program, 2)?;
    let formula = above(program, 3)?;
    let is_poured =
        above(program, 4)?.file_name()? == "Cellar" && version.join("INSTALL_RECEIPT.json").is_file();
    is_poured.then_some(())?;
    let name = word(formula.file_name()?.as_ref());
    Some(Installation::new(
        "homebrew",
        format!("with Homebrew, in {}", word(version)),
        format!("brew upgrade {name}"),
        format!("brew uninstall {name}"),
    ))
}
