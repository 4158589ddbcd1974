// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looks up in the lists which packages a line installs and which servers it contacts.

use super::argument::host;
use super::lists::Flagged;
use super::subject::Subject;
use super::verdict::{Level, Reason};

/// A package that a command installs: the kind of registry, the name, the version.
type Wanted<'w> = (&'static str, &'w str, Option<&'w str>);

/// Whether the lists can apply to such a command.
pub(super) fn concerns(subject: &Subject<'_>) -> bool {
    registry(subject).is_some() || subject.command.arguments().iter().any(|word| word.value.contains("://"))
}

pub(super) fn check(subjects: &[Subject<'_>], flagged: &Flagged) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for subject in subjects {
        let kind = registry(subject);
        for word in subject.command.arguments() {
            let value = word.value.as_str();
            let mut add = |rule: &str, words: String, why: &str| {
                let reference = why
                    .split(' ')
                    .next()
                    .filter(|id| id.contains('-') && id.contains(|c: char| c.is_ascii_digit()));
                reasons.push(Reason {
                    rule: rule.to_owned(),
                    level: Level::Confirm,
                    span: word.span.clone(),
                    words: if why.is_empty() { words } else { format!("{words}: {why}") },
                    reference: reference.unwrap_or("T1195.002").to_owned(),
                });
            };
            if value.contains("://") {
                if let Some(why) = flagged.host(host(value)) {
                    add("lists/host", format!("{} is in a list of malicious hosts", host(value)), why);
                } else if let Some(why) = flagged.url(value) {
                    add("lists/url", "The address is in a list of malicious addresses".to_owned(), why);
                }
                continue;
            }
            let wanted = kind.filter(|_| !value.starts_with('-')).and_then(|kind| wanted(kind, value));
            if let Some((kind, name, version)) = wanted
                && let Some(why) = flagged.package(kind, name, version)
            {
                add("lists/package", format!("The package {name} is in a list of malicious packages"), why);
            }
        }
    }
    reasons
}

/// The registry that a command installs from.
fn registry(subject: &Subject<'_>) -> Option<&'static str> {
    let verb = subject.positionals().next().map_or("", |word| word.value.as_str());
    let second = subject.positionals().nth(1).map_or("", |word| word.value.as_str());
    match (subject.name, verb) {
        (
            "npm" | "pnpm" | "bun",
            "install" | "i" | "add" | "in" | "ins" | "exec" | "x" | "dlx" | "create",
        )
        | ("yarn", "add" | "global" | "dlx" | "create") => Some("npm"),
        ("npx" | "pnpx" | "bunx", _) => Some("npm"),
        ("pip" | "pip3" | "pipx", "install" | "download" | "run") => Some("pypi"),
        ("poetry" | "pdm" | "rye" | "uv", "add") => Some("pypi"),
        ("uv", "pip" | "tool") if matches!(second, "install" | "run") => Some("pypi"),
        ("uvx", _) => Some("pypi"),
        ("cargo", "add" | "install" | "binstall") => Some("crates"),
        ("gem", "install") | ("bundle", "add") => Some("gem"),
        ("go", "get" | "install" | "run") => Some("go"),
        ("composer", "require") => Some("composer"),
        (python, _) if python.starts_with("python") => {
            let words: Vec<&str> =
                subject.command.arguments().iter().take(3).map(|word| word.value.as_str()).collect();
            (words == ["-m", "pip", "install"]).then_some("pypi")
        }
        _ => None,
    }
}

fn wanted<'w>(kind: &'static str, value: &'w str) -> Option<Wanted<'w>> {
    let value = value.trim_matches(['"', '\'']);
    let (name, version) = match kind {
        "pypi" => {
            let end = value.find(['=', '<', '>', '!', '~', '[', ';', '@']).unwrap_or(value.len());
            let (name, rest) = value.split_at(end);
            let rest = rest.split_once(']').map_or(rest, |(_, rest)| rest);
            (name, rest.strip_prefix("==").or_else(|| rest.strip_prefix('@')))
        }
        "composer" => value.split_once(':').map_or((value, None), |(name, version)| (name, Some(version))),
        "gem" => value.rsplit_once(':').map_or((value, None), |(name, version)| (name, Some(version))),
        _ => {
            let scope = usize::from(value.starts_with('@'));
            match value.get(scope..).and_then(|rest| rest.find('@')).map(|at| at + scope) {
                Some(at) => (value.get(..at)?, value.get(at + 1..)),
                None => (value, None),
            }
        }
    };
    let version =
        version.filter(|version| version.starts_with(|first: char| first.is_ascii_digit() || first == 'v'));
    (!name.is_empty()).then_some((kind, name, version))
}
