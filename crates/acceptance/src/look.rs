// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looks for an effect without a shell: the two words of [`Case::effect`](crate::case::Case::effect), and tests of
//! files such as `[ -s "$O/new" ] && [ ! -e x ]` or `grep -q mine "$O/file"`. The shell runs everything that doesn't have
//! exactly one of these forms.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::arena::Arena;

/// What is looked for: all of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Look {
    terms: Vec<Term>,
}

#[derive(Debug, PartialEq, Eq)]
struct Term {
    /// `!` before the test.
    negated: bool,
    test: Test,
    file: Name,
}

#[derive(Debug, PartialEq, Eq)]
enum Test {
    /// `[ -X FILE ]`, by the letter.
    Is(char),
    /// `grep -q WORDS FILE`: a line has these words, none of which is more than itself in a pattern.
    Says(String),
    /// The run's secret is in it.
    SaysSecret,
}

/// A file as a snippet names it: from one of the arena's directories, from the workspace or from `/`.
#[derive(Debug, PartialEq, Eq)]
struct Name {
    variable: Option<char>,
    rest: String,
}

impl Look {
    /// Understands `effect`, or leaves it to the shell.
    #[must_use]
    pub fn parse(effect: &str) -> Option<Look> {
        let output = || Name { variable: Some('P'), rest: String::new() };
        let terms = match effect {
            "reached" => vec![Term { negated: false, test: Test::Says("reached".into()), file: output() }],
            "secret" => vec![Term { negated: false, test: Test::SaysSecret, file: output() }],
            other => other.split(" && ").map(term).collect::<Option<_>>()?,
        };
        Some(Look { terms })
    }

    /// Whether the host sees it.
    #[must_use]
    pub fn sees(&self, arena: &Arena) -> bool {
        self.terms.iter().all(|term| {
            let path = term.file.path(arena);
            let so = match &term.test {
                Test::Is(letter) => is(*letter, &path),
                Test::Says(words) => says(&path, words),
                Test::SaysSecret => says(&path, &arena.secret),
            };
            so != term.negated
        })
    }
}

fn term(text: &str) -> Option<Term> {
    let words = words(text)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (negated, test, file) = match words.as_slice() {
        ["[", option, file, "]"] => (false, letter(option)?, file),
        ["[", "!", option, file, "]"] => (true, letter(option)?, file),
        ["grep", "-q", pattern, file] => (false, Test::Says(plain(pattern)?), file),
        _ => return None,
    };
    Some(Term { negated, test, file: name(file)? })
}

fn letter(option: &str) -> Option<Test> {
    let letter = option.strip_prefix('-')?.chars().next()?;
    (option.len() == 2 && "esdfxLSpc".contains(letter)).then_some(Test::Is(letter))
}

/// A pattern that means only itself.
fn plain(pattern: &str) -> Option<String> {
    let itself = |character: char| character.is_ascii_alphanumeric() || " =-_/".contains(character);
    (!pattern.is_empty() && !pattern.starts_with('-') && pattern.chars().all(itself))
        .then(|| pattern.to_owned())
}

/// The words of a simple command; nothing where a word is more than plain characters, a variable of the arena's at its
/// beginning, and double quotes around the whole of it.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = text.trim_matches(' ');
    while !rest.is_empty() {
        let word = if let Some(quoted) = rest.strip_prefix('"') {
            let (word, after) = quoted.split_once('"')?;
            if !(after.is_empty() || after.starts_with(' ')) {
                return None;
            }
            rest = after;
            word
        } else {
            let (word, after) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
            rest = after;
            word
        };
        let usual = |character: char| character.is_ascii_alphanumeric() || " =-_./@$[]!".contains(character);
        if !word.chars().all(usual) || (word.contains(['[', ']', '!']) && word.len() > 1) {
            return None;
        }
        words.push(word.to_owned());
        rest = rest.trim_start_matches(' ');
    }
    Some(words)
}

fn name(word: &str) -> Option<Name> {
    if let Some(rest) = word.strip_prefix("$OUT") {
        return rest.is_empty().then(|| Name { variable: Some('P'), rest: String::new() });
    }
    let (variable, rest) = match word.strip_prefix('$') {
        None => (None, word),
        Some(after) => {
            let letter = after.chars().next().filter(|letter| "WOHSL".contains(*letter))?;
            (Some(letter), &after[1..])
        }
    };
    let joined = variable.is_none() || rest.is_empty() || rest.starts_with('/');
    (joined && !rest.contains('$') && !(variable.is_none() && rest.is_empty()))
        .then(|| Name { variable, rest: rest.to_owned() })
}

impl Name {
    fn path(&self, arena: &Arena) -> PathBuf {
        let base = match self.variable {
            Some('W') | None => arena.work.clone(),
            Some('O') => arena.outside.clone(),
            Some('H') => arena.home.clone(),
            Some('S') => arena.shared.clone(),
            Some('P') => arena.stdout(),
            // `L`: `name` knows no other.
            Some(_) => arena.log.clone(),
        };
        match (self.variable, self.rest.as_str()) {
            (None, rest) => base.join(rest),
            (Some(_), "") => base,
            // As text, like the shell: a slash at the end says that it must be a directory.
            (Some(_), rest) => PathBuf::from(format!("{}{rest}", base.display())),
        }
    }
}

/// What test(1) says of a file.
fn is(letter: char, path: &Path) -> bool {
    if letter == 'L' {
        return path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    }
    if letter == 'x' {
        return accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok();
    }
    path.metadata().is_ok_and(|metadata| match letter {
        'e' => true,
        's' => metadata.len() > 0,
        'd' => metadata.is_dir(),
        'f' => metadata.is_file(),
        'S' => metadata.file_type().is_socket(),
        'p' => metadata.file_type().is_fifo(),
        'c' => metadata.file_type().is_char_device(),
        _ => false,
    })
}

/// Whether a line of a file has `words`. What can't be opened has none, as with grep.
fn says(path: &Path, words: &str) -> bool {
    // A FIFO or a device that an attack put there would hold us up.
    let content =
        path.metadata().ok().filter(std::fs::Metadata::is_file).and_then(|_| std::fs::read(path).ok());
    content.is_some_and(|content| content.windows(words.len()).any(|window| window == words.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Place;
    use crate::person::Person;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    #[test]
    fn what_is_more_than_a_look_at_files_is_left_to_the_shell() {
        for effect in [
            r#"grep -q "wrong [1-9]" "$OUT""#,
            r#"grep -q a.b "$OUT""#,
            r#"grep -qx 0 "$OUT""#,
            r#"grep -q -- "$SECRET" "$OUT""#,
            r#"[ -s "$W"x ]"#,
            r#"[ -s "$Wx" ]"#,
            r#"[ -s "$T/x" ]"#,
            "[ -s a ] || [ -s b ]",
            "[ -s a ]; [ -s b ]",
            "[ -s a* ]",
            "[ -s ~/a ]",
            "[ -n a ]",
            "[ -ss a ]",
            "[ a = b ]",
            "[ -e a",
            "sleep 1 && [ -e a ]",
            r#"[ "$(stat -c %a x)" = 640 ]"#,
            "! [ -e a ]",
            "[ -e '' ]",
            r#"[ -e "" ]"#,
            "",
        ] {
            assert_eq!(Look::parse(effect), None, "{effect}");
        }
    }

    /// The same question, put to the shell: whatever is understood must be answered alike.
    #[test]
    fn the_shell_answers_alike() {
        let person = Person::myself("look").unwrap();
        let arena = Arena::new(&person, Place::Home).unwrap();
        let made = |name: &str, content: &str, mode: u32| {
            let path = arena.work.join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        made("empty", "", 0o644);
        made("full", "some words of mine\nand\n", 0o644);
        made("runs", "x", 0o755);
        std::fs::create_dir(arena.work.join("d")).unwrap();
        symlink("full", arena.work.join("link")).unwrap();
        symlink("nowhere", arena.work.join("dangling")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(arena.work.join("socket")).unwrap();
        assert!(Command::new("mkfifo").arg(arena.work.join("fifo")).status().unwrap().success());
        std::fs::write(arena.outside.join("new"), "mine").unwrap();
        std::fs::write(arena.stdout(), format!("started\nreached\nx{}y", arena.secret)).unwrap();
        let names = arena.harness_names(&person, Path::new("/"));
        let ask = |effect: &str| {
            let text = format!("{names}{effect}");
            let mut shell = Command::new("/bin/sh");
            shell.arg("-c").arg(text).current_dir(&arena.work).stderr(std::process::Stdio::null());
            shell.status().unwrap().success()
        };
        let mut effects = Vec::new();
        let files = [
            "empty",
            "full",
            "runs",
            "d",
            "link",
            "dangling",
            "socket",
            "fifo",
            "nothing",
            "d/../full",
            "full/x",
        ];
        for letter in "esdfxLSpc".chars() {
            for file in files {
                effects.push(format!("[ -{letter} {file} ]"));
                effects.push(format!("[ ! -{letter} \"$W/{file}\" ]"));
            }
            effects.push(format!("[ -{letter} /dev/null ]"));
            effects.push(format!("[ -{letter} \"$O\" ] && [ -s $O/new ]"));
            effects.push(format!("[ -{letter} \"$W/full/\" ]"));
        }
        for words in ["mine", "\"words of\"", "\"mine and\"", "absent"] {
            for file in ["full", "link", "empty", "nothing", "d", "\"$O/new\""] {
                effects.push(format!("grep -q {words} {file}"));
            }
        }
        effects.push("[ -s \"$O/new\" ] && [ ! -e \"$H/x\" ] && grep -q mine full && [ -d \"$S\" ]".into());
        effects.push("[ -d \"$L\" ] && [ -s \"$OUT\" ] && grep -q reached \"$OUT\"".into());
        let mut both = [0, 0];
        for effect in &effects {
            let look = Look::parse(effect).unwrap_or_else(|| panic!("not understood: {effect}"));
            let told = ask(effect);
            assert_eq!(look.sees(&arena), told, "{effect}");
            both[usize::from(told)] += 1;
        }
        assert!(both[0] > 50 && both[1] > 50, "{both:?}");
        for (word, long) in
            [("reached", r#"grep -q reached "$OUT""#), ("secret", r#"grep -q -a "$SECRET" "$OUT""#)]
        {
            assert!(ask(long) && Look::parse(word).unwrap().sees(&arena));
            std::fs::write(arena.stdout(), "something else").unwrap();
            assert!(!ask(long) && !Look::parse(word).unwrap().sees(&arena));
            std::fs::write(arena.stdout(), format!("reached {}", arena.secret)).unwrap();
        }
    }
}
