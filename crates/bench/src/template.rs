// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Command templates: how a launcher is given the command to run.
//!
//! A word that is exactly `{}` stands for all words of the command. `{}` inside a longer word stands for the command quoted
//! for a POSIX shell. Without any `{}`, the command is appended. `{W}` is the working directory, `{ROOT}` an empty root for
//! launchers that need one, `{BUNDLE}` an OCI bundle that contains the command, and `{SETTINGS}` a file by which a sandbox
//! for agents makes the working directory writable.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Why a template can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("can't split `{text}` into words")]
    Split { text: String, source: shell_words::ParseError },
    #[error("`{text}` contains no word")]
    Empty { text: String },
    #[error("`{text}` is not of the form NAME=COMMAND")]
    NoName { text: String },
}

/// The words of a launcher's command, with places for the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<String>);

/// The values of the places other than `{}`.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) work: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) bundle: PathBuf,
    pub(crate) settings: PathBuf,
}

impl Places {
    fn fill(&self, word: &str) -> String {
        let put = |word: String, place: &str, path: &Path| word.replace(place, &path.to_string_lossy());
        let word = put(put(word.to_owned(), "{W}", &self.work), "{ROOT}", &self.root);
        put(put(word, "{BUNDLE}", &self.bundle), "{SETTINGS}", &self.settings)
    }
}

impl Template {
    /// Splits the text as a POSIX shell would, without expansion.
    pub(crate) fn parse(text: &str) -> Result<Self, TemplateError> {
        let words = shell_words::split(text)
            .map_err(|source| TemplateError::Split { text: text.to_owned(), source })?;
        if words.is_empty() {
            return Err(TemplateError::Empty { text: text.to_owned() });
        }
        Ok(Self(words))
    }

    pub(crate) fn of(words: &[&str]) -> Self {
        Self(words.iter().map(|&word| word.to_owned()).collect())
    }

    /// The name of the launcher's program. `None` if the workload itself is the program.
    pub(crate) fn program(&self) -> Option<&str> {
        self.0.first().map(String::as_str).filter(|word| !word.contains("{}"))
    }

    /// Whether the command must be written to a bundle.
    pub(crate) fn wants_bundle(&self) -> bool {
        self.0.iter().any(|word| word.contains("{BUNDLE}"))
    }

    /// The complete argument vector for `command`.
    pub(crate) fn fill(&self, command: &[String], places: &Places) -> Vec<OsString> {
        let mut words = Vec::with_capacity(self.0.len() + command.len());
        let mut placed = self.wants_bundle();
        for word in &self.0 {
            if word == "{}" {
                words.extend(command.iter().map(OsString::from));
                placed = true;
            } else if word.contains("{}") {
                // The places are filled first: the workload's own text is never a template.
                words.push(places.fill(word).replace("{}", &shell_words::join(command)).into());
                placed = true;
            } else {
                words.push(places.fill(word).into());
            }
        }
        if !placed {
            words.extend(command.iter().map(OsString::from));
        }
        words
    }
}

/// Parses `NAME=COMMAND` of `--with`.
pub(crate) fn parse_named(text: &str) -> Result<(String, Template), TemplateError> {
    match text.split_once('=') {
        Some((name, command)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), Template::parse(command)?))
        }
        _ => Err(TemplateError::NoName { text: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(template: &str, command: &[&str]) -> Vec<String> {
        let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        let places = Places {
            work: "/w".into(),
            root: "/root dir".into(),
            bundle: "/b".into(),
            settings: "/s".into(),
        };
        Template::parse(template)
            .unwrap()
            .fill(&command, &places)
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect()
    }

    #[test]
    fn appends_without_a_place() {
        assert_eq!(
            fill("bwrap --bind {W} {W} --", &["sh", "-c", "echo {}"]),
            ["bwrap", "--bind", "/w", "/w", "--", "sh", "-c", "echo {}"]
        );
    }

    #[test]
    fn a_word_of_its_own_becomes_all_words() {
        assert_eq!(fill("x {} --end", &["a b", "{W}"]), ["x", "a b", "{W}", "--end"]);
    }

    #[test]
    fn inside_a_word_the_command_is_quoted() {
        assert_eq!(
            fill("sh -c 'cd {ROOT} && {}'", &["printf", "a b{W}"]),
            ["sh", "-c", "cd /root dir && printf 'a b{W}'"]
        );
    }

    #[test]
    fn a_bundle_takes_the_command_away() {
        assert_eq!(fill("crun run --bundle {BUNDLE} x", &["true"]), ["crun", "run", "--bundle", "/b", "x"]);
    }

    #[test]
    fn settings_have_a_place() {
        assert_eq!(fill("srt --settings {SETTINGS} {}", &["true"]), ["srt", "--settings", "/s", "true"]);
    }

    #[test]
    fn splits_like_a_shell() {
        assert_eq!(fill(r#"a 'b c' "d\"e" f\ g ''"#, &[]), ["a", "b c", "d\"e", "f g", ""]);
        assert!(matches!(Template::parse("a 'b"), Err(TemplateError::Split { .. })));
        assert!(matches!(Template::parse("  "), Err(TemplateError::Empty { .. })));
    }

    #[test]
    fn named_templates() {
        let (name, template) = parse_named("my env=env A=b").unwrap();
        assert_eq!((name.as_str(), template), ("my env", Template::of(&["env", "A=b"])));
        assert!(matches!(parse_named("env"), Err(TemplateError::NoName { .. })));
        assert!(matches!(parse_named("=env"), Err(TemplateError::NoName { .. })));
    }
}
