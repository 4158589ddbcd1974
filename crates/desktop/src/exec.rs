// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Says what an `Exec` line starts, and with which arguments ("The Exec key" of the Desktop Entry Specification 1.5).
//! It reads lines as GLib does, which accepts more than the specification allows: many files have single quotes, and
//! backslashes outside quotes.

use crate::entry::unescape;
use std::path::Path;

/// A longer line isn't read; those of Debian 12 have up to 120 characters.
const LONGEST: usize = 16 * 1024;

/// Programs that start other programs, which their arguments name. Their arguments aren't the application's.
const WRAPPERS: [&str; 36] = [
    "bash",
    "bwrap",
    "dash",
    "dbus-launch",
    "dbus-run-session",
    "doas",
    "electron",
    "env",
    "exec",
    "fish",
    "firejail",
    "flatpak",
    "gapplication",
    "gtk-launch",
    "ionice",
    "java",
    "kdesu",
    "ksh",
    "mono",
    "nice",
    "node",
    "nohup",
    "palisade",
    "perl",
    "pkexec",
    "python",
    "python3",
    "ruby",
    "setsid",
    "sh",
    "snap",
    "sudo",
    "systemd-run",
    "wine",
    "xdg-open",
    "zsh",
];

/// Why a line isn't understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ExecError {
    /// A quote isn't closed.
    #[error("a quote isn't closed")]
    OpenQuote,
    /// It is too long.
    #[error("it is longer than {LONGEST} bytes")]
    Long,
}

/// A part of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Literal text.
    Text(String),
    /// The code of a value that is filled in at launch, such as `U` for addresses.
    Code(char),
}

/// An argument of a desktop entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) Vec<Piece>);

/// What a line starts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// The program, as it is named.
    pub(crate) program: String,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
    /// Whether the line starts it through another program, which is left out here.
    pub(crate) unwrapped: bool,
    /// Whether only the other program is known. Then the arguments are only the standalone field codes.
    pub(crate) opaque: bool,
}

/// The words of a line, without their quotes. `value` is as it stands in the file.
pub(crate) fn split(value: &str) -> Result<Vec<String>, ExecError> {
    if value.len() > LONGEST {
        return Err(ExecError::Long);
    }
    let line = unescape(value);
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or(ExecError::OpenQuote)? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or(ExecError::OpenQuote)? {
                        '"' => break,
                        '\\' => word.push(rest.next_if(|c| "\"`$\\".contains(*c)).unwrap_or('\\')),
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(rest.next().ok_or(ExecError::OpenQuote)?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

impl Word {
    /// The argument that `text` stands for. `None` if nothing would take its place: the codes are deprecated or unknown.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            if c != '%' {
                literal.push(c);
                continue;
            }
            match rest.next() {
                Some('%') => literal.push('%'),
                Some(code) if "fFuUick".contains(code) => {
                    if !literal.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    }
                    pieces.push(Piece::Code(code));
                }
                _ => {}
            }
        }
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        (text.is_empty() || !pieces.is_empty()).then_some(Self(pieces))
    }

    /// A standalone code.
    pub(crate) fn code(code: char) -> Self {
        Self(vec![Piece::Code(code)])
    }
}

impl Invocation {
    /// What the words of a line start. `None` for a line without words. `is_program` recognises the application's program.
    pub(crate) fn of(words: &[String], is_program: impl Fn(&str) -> bool) -> Option<Self> {
        let inner = without_variables(words);
        let (first, after) = inner.split_first()?;
        let whole = |program: &String, arguments: &[String], unwrapped| Self {
            program: program.clone(),
            arguments: arguments.to_vec(),
            unwrapped,
            opaque: false,
        };
        if is_program(first) || !is_wrapper(first) {
            return Some(whole(first, after, inner.len() != words.len()));
        }
        if let Some(at) = after.iter().position(|word| is_program(word)) {
            return Some(whole(&after[at], &after[at + 1..], true));
        }
        let standalone =
            |word: &&String| matches!(word.as_bytes(), [b'%', code] if b"fFuUick".contains(code));
        Some(Self {
            program: first.clone(),
            arguments: after.iter().filter(standalone).cloned().collect(),
            unwrapped: true,
            opaque: true,
        })
    }

    /// The arguments with field codes in them.
    pub(crate) fn words(&self) -> Vec<Word> {
        self.arguments.iter().filter_map(|argument| Word::parse(argument)).collect()
    }

    /// Whether both start the same program, as far as the names tell.
    pub(crate) fn same_program(&self, other: &Self) -> bool {
        file_name(&self.program) == file_name(&other.program)
    }
}

/// A line without a leading `env A=b`. Options of `env` aren't skipped.
fn without_variables(words: &[String]) -> &[String] {
    let mut inner = words;
    while let Some((first, after)) = inner.split_first()
        && file_name(first) == "env"
        && let Some(start) = after.iter().position(|word| !word.contains('=') || word.starts_with('-'))
        && !after[start].starts_with('-')
    {
        inner = &after[start..];
    }
    inner
}

/// Whether a program starts other programs. `python3.11` counts as `python3`.
fn is_wrapper(program: &str) -> bool {
    let name = file_name(program);
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    WRAPPERS.contains(&name) || (plain != name && WRAPPERS.contains(&plain))
}

fn file_name(program: &str) -> &str {
    Path::new(program).file_name().and_then(std::ffi::OsStr::to_str).unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Invocation {
        Invocation::of(&split(value).unwrap(), |word| word == "app" || word == "/usr/bin/app").unwrap()
    }

    #[test]
    fn quotes_are_undone() {
        let words = |value: &str| split(value).unwrap();
        assert_eq!(words("a  b\tc "), ["a", "b", "c"]);
        assert_eq!(words(r#""a b" "" c"d e"f"#), ["a b", "", "cd ef"]);
        // Two layers, as the specification says.
        assert_eq!(words(r#""\\\\ \\$ \\` \\" x""#), [r#"\ $ ` " x"#]);
        assert_eq!(words(r#""\$""#), ["$"], "one layer, as many files have it");
        assert_eq!(words(r"'a \\n' b\\ c"), [r"a \n", "b c"]);
        assert_eq!(words(r"a\nb\sc"), ["a", "b", "c"]);
        for open in ["\"a", "'a", r"a\\", "a \"b\\\""] {
            assert_eq!(split(open), Err(ExecError::OpenQuote), "{open}");
        }
        assert_eq!(split(&"x".repeat(LONGEST + 1)), Err(ExecError::Long));
    }

    #[test]
    fn codes_are_told_from_text() {
        let text = |text: &str| Piece::Text(text.to_owned());
        assert_eq!(Word::parse("%U"), Some(Word::code('U')));
        assert_eq!(
            Word::parse("--x=100%%%f!"),
            Some(Word(vec![text("--x=100%"), Piece::Code('f'), text("!")]))
        );
        assert_eq!(Word::parse(""), Some(Word(Vec::new())));
        for nothing in ["%m", "%", "%é", "%D%n"] {
            assert_eq!(Word::parse(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn arguments_are_those_of_the_program() {
        let found = of("app --new %U");
        assert_eq!(
            (found.arguments.as_slice(), found.unwrapped),
            (&["--new", "%U"].map(String::from)[..], false)
        );
        let found = of("/opt/other/app-2.0 --new %U");
        assert_eq!((found.program.as_str(), found.arguments.len()), ("/opt/other/app-2.0", 2));
        let found = of("env A=b C=d app x");
        assert_eq!((found.program.as_str(), found.arguments.as_slice()), ("app", &["x".to_owned()][..]));
        assert!(found.unwrapped && !found.opaque);
        let found = of("/usr/bin/python3.11 /usr/bin/app %f");
        assert_eq!(found.arguments, ["%f"]);
    }

    #[test]
    fn a_wrappers_arguments_are_not_the_programs() {
        for line in [
            "sh -c \"app %U\" x %U",
            "env -i sh %U",
            "env A=b flatpak run --command=app org.x.App @@u %U @@",
            "gapplication launch org.x.App %U",
        ] {
            let found = of(line);
            assert!(found.opaque && found.unwrapped, "{line}: {found:?}");
            assert_eq!(found.arguments, ["%U"], "{line}");
        }
        let only = of("env A=b");
        assert!(only.opaque && only.arguments.is_empty(), "{only:?}");
    }
}
