// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads rules from files: a directory of them in the order in which they count, or a single one.
//!
//! Only root may decide what may execute: files and directories that other users may write are refused.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::RuleSet;
use super::accounts::Accounts;
use super::error::LoadError;
use super::parse::{Parser, Placeholder};

/// The largest policy that is read, in bytes. 100,000 rules with a hash each need a sixth of it.
pub const LARGEST_POLICY: u64 = 64 << 20;

/// Which users may be able to write the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// Only root, or loading is refused.
    RootOnly,
    /// Any user: for tests, and for checking rules before they are installed.
    Anybody,
}

/// How to read rule files.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    /// Which users may be able to write the files.
    pub writers: Writers,
    /// Looks up users and groups.
    pub accounts: &'a dyn Accounts,
    /// The values of `%name%` in unbuilt rules.
    pub placeholders: &'a [Placeholder],
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("writers", &self.writers).finish_non_exhaustive()
    }
}

impl Reader<'_> {
    /// Reads the rules of some files, in this order. Files named `*.toml` contribute their `[guard]` table; the others
    /// are in fapolicyd's grammar (`fapolicyd.rules`, `compiled.rules`).
    ///
    /// # Errors
    /// A file can't be read, isn't root's, or has a mistake.
    pub fn files(&self, files: &[PathBuf]) -> Result<RuleSet, LoadError> {
        let mut left = LARGEST_POLICY;
        let mut parser = Parser::new(self.accounts, self.placeholders);
        for file in files {
            let content = self.content(file, &mut left)?;
            if file.extension().is_some_and(|extension| extension == "toml") {
                parser.toml(file, &content);
            } else {
                parser.file(file, &content);
            }
        }
        parser.finish()
    }

    /// Reads the rules of a directory: its `*.rules` files, in the order of `ls -v` ([`natural`]), without hidden ones.
    ///
    /// # Errors
    /// The directory or one of the files can't be read, isn't root's, or has a mistake.
    pub fn directory(&self, directory: &Path) -> Result<RuleSet, LoadError> {
        self.files(&self.list(directory)?)
    }

    /// Reads the rules in the places of fapolicyd: `rules.d` below `place` if it has rules, else `compiled.rules`, else
    /// `fapolicyd.rules`.
    ///
    /// # Errors
    /// As above; and if both `rules.d` and `fapolicyd.rules` have rules, which fapolicyd refuses, too.
    pub fn place(&self, place: &Path) -> Result<RuleSet, LoadError> {
        let directory = place.join("rules.d");
        let single = place.join("fapolicyd.rules");
        if directory.is_dir() && !self.list(&directory)?.is_empty() {
            if single.exists() {
                return Err(LoadError::Both { directory, file: single });
            }
            return self.directory(&directory);
        }
        let compiled = place.join("compiled.rules");
        self.files(&[if compiled.exists() { compiled } else { single }])
    }

    /// The rule files of a directory, in order.
    ///
    /// # Errors
    /// It can't be read or isn't root's.
    pub fn list(&self, directory: &Path) -> Result<Vec<PathBuf>, LoadError> {
        let unreadable = |source| LoadError::Read { file: directory.to_owned(), source };
        self.check(directory, &std::fs::metadata(directory).map_err(unreadable)?)?;
        let mut files = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            let path = directory.join(&name);
            let is_rules = name.as_bytes().ends_with(b".rules") && !name.as_bytes().starts_with(b".");
            if is_rules && std::fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
                continue;
            }
            if is_rules {
                files.push(path);
            }
        }
        files.sort_by(|a, b| natural(file_name(a), file_name(b)));
        Ok(files)
    }

    /// Reads a file. Checks the file that was opened, not the path.
    fn content(&self, path: &Path, left: &mut u64) -> Result<Vec<u8>, LoadError> {
        let unreadable = |source| LoadError::Read { file: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        self.check(path, &metadata)?;
        let mut content = Vec::new();
        file.take(*left + 1).read_to_end(&mut content).map_err(unreadable)?;
        *left = left
            .checked_sub(content.len() as u64)
            .ok_or_else(|| LoadError::TooLarge { file: path.to_owned() })?;
        Ok(content)
    }

    fn check(&self, path: &Path, metadata: &std::fs::Metadata) -> Result<(), LoadError> {
        if self.writers == Writers::Anybody {
            return Ok(());
        }
        let (reason, command) = if metadata.uid() != 0 {
            (format!("it belongs to user {}", metadata.uid()), "chown root")
        } else if metadata.mode() & 0o002 != 0 {
            (format!("its mode is {:04o}", metadata.mode() & 0o7777), "chmod o-w")
        } else if metadata.mode() & 0o020 != 0 && metadata.gid() != 0 {
            (
                format!("its mode is {:04o} and its group {}", metadata.mode() & 0o7777, metadata.gid()),
                "chmod g-w",
            )
        } else {
            return Ok(());
        };
        let hint = format!("{command} {}", palisade_text::quoted(&path.to_string_lossy()));
        Err(LoadError::Writable { file: path.to_owned(), reason, hint })
    }
}

fn file_name(path: &Path) -> &[u8] {
    path.file_name().map_or(&[], OsStr::as_bytes)
}

/// The order of `ls -v` and `sort -V`: digits count as numbers; letters come before other characters, `~` before
/// everything; what is equal by these rules is compared as bytes.
///
/// As in GNU's: an ending like `.rules` counts only between names that are equal without it.
#[must_use]
pub fn natural(a: &[u8], b: &[u8]) -> Ordering {
    compared(without_ending(a), without_ending(b)).then_with(|| compared(a, b)).then_with(|| a.cmp(b))
}

/// The name without its endings: `(\.[A-Za-z~][A-Za-z0-9~]*)*$`
fn without_ending(name: &[u8]) -> &[u8] {
    let mut end = name.len();
    while let Some(dot) = name[..end].iter().rposition(|&byte| byte == b'.') {
        let ending = &name[dot + 1..end];
        let is_ending = ending.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'~')
            && ending.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'~');
        if !is_ending || dot == 0 {
            break;
        }
        end = dot;
    }
    &name[..end]
}

/// Compares text and numbers alternately.
fn compared(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while !a.is_empty() || !b.is_empty() {
        loop {
            let (left, right) = (text_rank(a), text_rank(b));
            if left != right {
                return left.cmp(&right);
            }
            if left == 0
                && right == 0
                && (starts_number(a) || a.is_empty())
                && (starts_number(b) || b.is_empty())
            {
                break;
            }
            a = &a[1..];
            b = &b[1..];
        }
        let (left, rest_a) = number(a);
        let (right, rest_b) = number(b);
        let order = left.len().cmp(&right.len()).then_with(|| left.cmp(right));
        if order.is_ne() {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
    Ordering::Equal
}

fn starts_number(text: &[u8]) -> bool {
    text.first().is_some_and(u8::is_ascii_digit)
}

/// The rank of a text's first character: `~`, then an end or number, then letters, then others.
fn text_rank(text: &[u8]) -> i32 {
    match text.first() {
        None => 0,
        Some(byte) if byte.is_ascii_digit() => 0,
        Some(b'~') => -1,
        Some(byte) if byte.is_ascii_alphabetic() => i32::from(*byte),
        Some(byte) => i32::from(*byte) + 256,
    }
}

/// The digits at the beginning without leading zeros, and the rest.
fn number(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let zeros = text[..end].iter().take_while(|&&byte| byte == b'0').count();
    (&text[zeros..end], &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_in_natural_order() {
        let ordered = [
            "~1.rules",
            "0.rules",
            "1.rules",
            "2-a.rules",
            "9.rules",
            "10-a.rules",
            "10-languages.rules",
            "010-z.rules",
            "11.rules",
            "90-x.rules",
            "100.rules",
            "A.rules",
            "a.rules",
            "a1.rules",
            "a2.rules",
            "a10.rules",
            "b.rules",
        ];
        let mut sorted = ordered;
        sorted.reverse();
        sorted.sort_by(|a, b| natural(a.as_bytes(), b.as_bytes()));
        assert_eq!(sorted, ordered);
    }

    /// `sort -V` itself, if there is one.
    #[test]
    fn the_order_is_that_of_sort() {
        let names = "10-a.rules\n9-b.rules\n9-b.1.rules\n9.rules\n09.rules\na~.rules\na.rules\na-1.rules\nb_2.rules\nb-10.rules\nb2.rules\nB.rules\n10-.rules\n10.2-x.rules\n10.10-x.rules\n";
        let mut command = std::process::Command::new("sort");
        command
            .arg("-V")
            .env("LC_ALL", "C")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped());
        let Ok(mut sort) = command.spawn() else {
            println!("no sort here");
            return;
        };
        std::io::Write::write_all(&mut sort.stdin.take().unwrap(), names.as_bytes()).unwrap();
        let expected = String::from_utf8(sort.wait_with_output().unwrap().stdout).unwrap();
        let mut sorted: Vec<&str> = names.lines().collect();
        sorted.sort_by(|a, b| natural(a.as_bytes(), b.as_bytes()));
        assert_eq!(sorted.join("\n"), expected.trim_end());
    }

    #[test]
    fn whose_rules_they_are_is_checked() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a.rules");
        std::fs::write(&file, "allow perm=any all : all").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        let accounts = crate::rule::accounts::AccountFiles::host();
        let reader = |writers| Reader { writers, accounts: &accounts, placeholders: &[] };
        assert_eq!(reader(Writers::Anybody).files(std::slice::from_ref(&file)).unwrap().len(), 1);
        let refused = reader(Writers::RootOnly).files(&[file]).unwrap_err().to_string();
        assert!(refused.contains("other than root"), "{refused}");
        assert!(refused.contains("hint: ch"), "{refused}");
    }

    #[test]
    fn a_directory_is_one_rule_set_and_errors_name_their_file() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
        write("9-b.rules", "%a=/x\nallow perm=any exe=%a : all");
        write("10-a.rules", "deny perm=any all : all\r\n");
        write(".hidden.rules", "nonsense");
        write("README", "nonsense");
        let accounts = crate::rule::accounts::AccountFiles::host();
        let reader = Reader { writers: Writers::Anybody, accounts: &accounts, placeholders: &[] };
        let rules = reader.directory(home.path()).unwrap();
        assert_eq!(rules.len(), 2);
        let last = rules.origin(super::super::RuleId(1)).place;
        assert_eq!((file_name(rules.file(last)), last.line), (&b"10-a.rules"[..], 1));
        write("11.rules", "\nallow perm=any exe=%b : all");
        let refused = reader.directory(home.path()).unwrap_err().to_string();
        assert!(refused.contains("11.rules:2:20: the set wasn't defined before: `%b`"), "{refused}");
    }

    #[test]
    fn both_places_with_rules_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(home.path().join(name), "allow perm=any all : all").unwrap();
        let accounts = crate::rule::accounts::AccountFiles::host();
        let reader = Reader { writers: Writers::Anybody, accounts: &accounts, placeholders: &[] };
        std::fs::create_dir(home.path().join("rules.d")).unwrap();
        assert!(matches!(reader.place(home.path()), Err(LoadError::Read { .. })));
        write("fapolicyd.rules");
        assert_eq!(reader.place(home.path()).unwrap().len(), 1);
        write("rules.d/1.rules");
        assert!(matches!(reader.place(home.path()), Err(LoadError::Both { .. })));
    }
}
