// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy of both daemons, in the same text: they read the same rules and the same lists of trusted files.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::Command;

use super::bed::{Bed, refused};

/// The rules after those that deny what every policy denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// fapolicyd's default, known-libs: only trusted files are executed or loaded.
    KnownLibs,
    /// Palisade's own default, with the same meaning.
    Own,
    /// Everything is allowed, as in fapolicyd's performance document.
    AllowAll,
}

/// A policy for one bed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    pub(crate) rules: Rules,
    /// The number of rules before the deciding ones. None of them ever matches.
    pub(crate) others: usize,
    /// The number of trusted files in addition to those of the bed. None of them exists.
    pub(crate) trusted: usize,
}

/// palisaded's rules where it is given none.
const OWN: &str = include_str!("../../../guard/data/known-libs.rules");
const KNOWN_LIBS: &str = "\
deny perm=any pattern=ld_so : all
deny perm=any all : ftype=application/x-bad-elf
allow perm=open all : ftype=application/x-sharedlib trust=1
deny perm=open all : ftype=application/x-sharedlib
allow perm=execute all : trust=1
allow perm=open all : ftype=%languages trust=1
deny perm=any all : ftype=%languages
allow perm=any all : ftype=text/x-shellscript
deny perm=execute all : all
allow perm=open all : all
";
const LANGUAGES: &str = "%languages=application/x-bytecode.ocaml,application/x-bytecode.python,application/java-archive,text/x-java,application/x-java-applet,application/javascript,text/javascript,text/x-awk,text/x-gawk,text/x-lisp,application/x-elc,text/x-lua,text/x-m4,text/x-nftables,text/x-perl,text/x-php,text/x-python,text/x-R,text/x-ruby,text/x-script.guile,text/x-tcl,text/x-luatex,text/x-systemtap\n";

impl Policy {
    pub(crate) fn plain(rules: Rules) -> Self {
        Self { rules, others: 0, trusted: 0 }
    }

    /// The rules in fapolicyd's grammar.
    pub(crate) fn rules(&self, bed: &Path) -> String {
        let mut text = String::new();
        if self.rules != Rules::Own {
            text += LANGUAGES;
        }
        for path in refused(bed) {
            let _ = writeln!(text, "deny perm=any all : path={}", path.display());
        }
        // Rules by program and rules by file alternate, as in real policies.
        for number in 0..self.others {
            let _ = if number % 2 == 0 {
                writeln!(text, "deny perm=any exe=/no/such/program-{number} : all")
            } else {
                writeln!(text, "deny perm=any all : path=/no/such/file-{number}")
            };
        }
        text += match self.rules {
            Rules::KnownLibs => KNOWN_LIBS,
            Rules::Own => OWN,
            Rules::AllowAll => "allow perm=any all : all\n",
        };
        text
    }

    /// The trusted files, one line each: `PATH SIZE SHA256`.
    pub(crate) fn write_trust(&self, bed: &Bed, to: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(fs::File::create(to)?);
        let mut last: Option<(u64, String)> = None;
        for program in bed.programs() {
            let size = program.metadata()?.len();
            // The copies of one sort are equal and follow each other, so the hash is computed once.
            let hash = match last.take() {
                Some((known, hash)) if known == size => hash,
                _ => sha256(&program)?,
            };
            writeln!(file, "{} {size} {hash}", program.display())?;
            last = Some((size, hash));
        }
        for number in 0..self.trusted {
            writeln!(
                file,
                "/no/such/directory/of/programs/{:03}/p{number} 4096 {number:064x}",
                number % 1000
            )?;
        }
        file.flush()
    }
}

fn sha256(path: &Path) -> io::Result<String> {
    let output = Command::new("sha256sum").arg(path).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let hash = text.split(' ').next().filter(|hash| hash.len() == 64);
    hash.map(str::to_owned).ok_or_else(|| io::Error::other("sha256sum says nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_comes_first_and_what_decides_last() {
        let policy = Policy { others: 3, ..Policy::plain(Rules::AllowAll) };
        let text = policy.rules(Path::new("/b"));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 7);
        assert_eq!(lines[1], "deny perm=any all : path=/b/refused");
        assert_eq!(lines[4], "deny perm=any all : path=/no/such/file-1");
        assert_eq!(lines[6], "allow perm=any all : all");
    }
}
