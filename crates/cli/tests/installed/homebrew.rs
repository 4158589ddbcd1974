// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Homebrew formula: Ruby reads it with the part of Homebrew's language that it uses, installs it as Homebrew would, and
//! runs its test.

use super::{CURRENT, commands, described, file, made, shell};
use crate::support::{has, ordinary};

#[test]
fn the_formula_installs_the_archive_and_its_test_passes() {
    if !has("ruby") || !has("python3") {
        return;
    }
    let place = ordinary();
    let (formula, archive) = (made(&place, "homebrew", CURRENT), made(&place, "tar", CURRENT));
    let archive = file(&archive, &format!("palisade-{CURRENT}-{}-linux.tar.gz", std::env::consts::ARCH));
    place.write("homebrew.rb", include_str!("homebrew.rb"));
    let formula = file(&formula, "palisade.rb");
    assert_eq!(shell(&place, &format!("ruby -c '{}'", formula.display())).ok(), "Syntax OK");
    let line = format!("ruby ~/homebrew.rb '{}' '{}' ~/brew", formula.display(), archive.display());
    assert_eq!(shell(&place, &line).ok(), "2 assertions passed");
    let answer = described(&place, &place.home.join(format!("brew/Cellar/palisade/{CURRENT}/bin/palisade")));
    assert_eq!(answer["installed_by"], "homebrew");
    assert_eq!(commands(&answer, "update"), ["brew upgrade palisade"]);
    assert_eq!(commands(&answer, "remove"), ["brew uninstall palisade"]);
    let cellar = format!("~/brew/Cellar/palisade/{CURRENT}");
    for installed in [
        "share/doc/palisade/licences.txt.gz",
        "share/man/man1/palisade.1.gz",
        "share/man/man1/palisade-run.1.gz",
        "etc/bash_completion.d/palisade",
        "share/zsh/site-functions/_palisade",
        "share/fish/vendor_completions.d/palisade.fish",
    ] {
        shell(&place, &format!("test -s {cellar}/{installed}")).ok();
    }
}
