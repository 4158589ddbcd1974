// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Says at the end of a launch what its user may have to know: files that are gone with the sandbox, and after a
//! failure the refusals that may have caused it.

use palisade_policy::environment::{Fate, Filter, Reason};
use palisade_text::quoted;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How many paths or variables are named. There may be thousands.
const NAMED: usize = 3;

/// The line about files that were left in private places. `paths` isn't empty; a directory ends with a slash.
pub(crate) fn gone(paths: &[PathBuf], directory: &Path, home: &Path) -> String {
    let named: Vec<String> = paths.iter().take(NAMED).map(|path| short(path, directory, home)).collect();
    let more = match paths.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (count, are) = match paths.len() {
        1 => ("a path".to_owned(), "is"),
        count => (format!("{count} paths"), "are"),
    };
    let keep = keep_hint(paths.first().map_or(home, PathBuf::as_path), directory, home);
    format!(
        "{count} written outside the shown directories {are} gone: {}{more}; to keep: {keep}",
        named.join(", ")
    )
}

/// The command that keeps a path.
fn keep_hint(path: &Path, directory: &Path, home: &Path) -> String {
    let is_directory = path.as_os_str().as_bytes().ends_with(b"/");
    match path.parent() {
        Some(parent) if !home.starts_with(parent) && parent.is_dir() => {
            format!("palisade run --rw {} …", quoted(&parent.to_string_lossy()))
        }
        // The home itself can't be shown, but this directory of it can.
        Some(parent) if parent == home && is_directory => {
            let path = short(path, directory, home);
            let path = path.trim_end_matches('/');
            format!("mkdir {path}; palisade run --rw {path} …")
        }
        _ => "palisade run --home private --home-name NAME …".to_owned(),
    }
}

/// A path as a user would type it: `../notes.txt`, `~/n`.
fn short(path: &Path, directory: &Path, home: &Path) -> String {
    let slash = if path.as_os_str().as_bytes().ends_with(b"/") { "/" } else { "" };
    let text = |path: &Path| path.to_string_lossy().trim_end_matches('/').to_owned();
    let beside = directory.parent().and_then(|parent| path.strip_prefix(parent).ok());
    if let Some(rest) = beside.filter(|_| !home.starts_with(directory.parent().unwrap_or(directory))) {
        return format!("{}{slash}", quoted(&format!("../{}", text(rest))));
    }
    match path.strip_prefix(home) {
        // A shell expands the tilde only outside of quotation marks.
        Ok(rest) => format!("~/{}{slash}", quoted(&text(rest))),
        Err(_elsewhere) => format!("{}{slash}", quoted(&text(path))),
    }
}

/// Names of programs, and the beginnings of variables by which they get what they need. Of other programs their own
/// name counts: `npm` needs `NPM_TOKEN`.
const NEEDS: [(&str, &[&str]); 9] = [
    ("aider", &["ANTHROPIC", "OPENAI", "GEMINI"]),
    ("claude", &["ANTHROPIC"]),
    ("codex", &["OPENAI"]),
    ("gemini", &["GEMINI", "GOOGLE"]),
    ("gh", &["GH", "GITHUB"]),
    ("git", &["GIT", "GITHUB", "GITLAB"]),
    ("node", &["NPM"]),
    ("psql", &["PG"]),
    ("terraform", &["TF", "AWS", "GOOGLE", "ARM"]),
];

/// The line about variables that were removed and that the program may have needed, and the hint at its end. `None`: there
/// is no such variable.
pub(crate) fn removed(
    environment: &Filter,
    inherited: &[(OsString, OsString)],
    program: &str,
) -> Option<(String, String)> {
    let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let own = program.to_uppercase();
    let known = NEEDS.iter().find(|(name, _needs)| *name == program).map(|(_name, needs)| *needs);
    let fits = |name: &str| match known {
        Some(needs) => needs.iter().any(|need| name.starts_with(need)),
        None => name.strip_prefix(&own).is_some_and(|rest| rest.starts_with('_')),
    };
    let bytes = inherited.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let mut names: Vec<String> = environment
        .changed(bytes)
        .into_iter()
        .filter(|(_name, fate, _reason)| *fate == Fate::Removed)
        .filter_map(|(name, _fate, reason)| {
            let name = std::str::from_utf8(name).ok()?;
            match reason {
                Reason::Secret(what) => Some(format!("{name} ({what})")),
                _ => fits(name).then(|| name.to_owned()),
            }
        })
        .collect();
    let first = names.first()?.split(' ').next()?.to_owned();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some((
        format!("not passed on: {}{more}; if the command needs it: ", names.join(", ")),
        format!("palisade run --keep-env {} …", quoted(&first)),
    ))
}

/// Programs that change the host or its users, which no option permits.
const OF_THE_HOST: [(&[&str], &str); 4] = [
    (&["sudo", "su", "doas", "pkexec", "runuser"], "no process in a sandbox becomes another user"),
    (
        &["apt", "apt-get", "aptitude", "dpkg", "dnf", "yum", "zypper", "pacman", "apk", "snap"],
        "the host's packages aren't reachable in a sandbox",
    ),
    (
        &["docker", "docker-compose"],
        "the Docker daemon isn't reachable in a sandbox, because it gives its users the rights of root",
    ),
    (&["systemctl", "journalctl", "service"], "the host's services aren't reachable in a sandbox"),
];

/// The line about a command that can do its job only outside. `None`: it isn't one of these.
pub(crate) fn of_the_host(command: &[OsString]) -> Option<String> {
    let program = Path::new(command.first()?).file_name()?.to_str()?;
    let (_names, why) = OF_THE_HOST.iter().find(|(names, _why)| names.contains(&program))?;
    let words: Vec<String> = command.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    let hint = format!("hint: {}   # outside of the sandbox", words.join(" "));
    Some(format!("{why}; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::merge;

    #[test]
    fn commands_of_the_host_are_repeated_for_a_shell() {
        let said = |command: &[&str]| of_the_host(&command.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(
            said(&["/usr/bin/apt-get", "install", "a b"]).unwrap(),
            "the host's packages aren't reachable in a sandbox; hint: \
             /usr/bin/apt-get install 'a b'   # outside of the sandbox"
        );
        assert!(said(&["sudo", "true"]).unwrap().starts_with("no process"));
        assert_eq!((said(&["sudoku"]), said(&[])), (None, None));
    }

    fn said(paths: &[&str]) -> String {
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        gone(&paths, Path::new("/home/me/code/project"), Path::new("/home/me"))
    }

    #[test]
    fn paths_are_written_as_they_would_be_typed() {
        let text = said(&["/home/me/code/no tes", "/home/me/n", "/home/me/code/wt/", "/home/me/x"]);
        assert_eq!(
            text,
            "4 paths written outside the shown directories are gone: '../no tes', ~/n, ../wt/ and 1 more; to keep: \
             palisade run --home private --home-name NAME …"
        );
        assert_eq!(
            said(&["/home/me/w t/"]),
            "a path written outside the shown directories is gone: ~/'w t'/; to keep: mkdir ~/'w t'; palisade run \
             --rw ~/'w t' …"
        );
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("notes");
        let text = gone(&[path], &parent.path().join("project"), Path::new("/home/me"));
        let keep = format!(
            "a path written outside the shown directories is gone: ../notes; to keep: palisade run --rw {} …",
            parent.path().display()
        );
        assert_eq!(text, keep);
    }

    #[test]
    fn variables_are_named_that_the_program_may_have_needed() {
        let environment = merge(vec![palisade_policy::built_in()]).environment();
        let inherited: Vec<(OsString, OsString)> = [
            ("GH_TOKEN", "x"),
            ("NPM_TOKEN", "x"),
            ("GITHUB_TOKEN", "x"),
            ("DATABASE_URL", "postgres://u:p@h/d"),
            ("HOME", "/home/me"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
        let said = |program: &str| {
            let (text, hint) = removed(&environment, &inherited, program).unwrap();
            text + &hint
        };
        assert_eq!(
            said("/usr/bin/gh"),
            "not passed on: GH_TOKEN, GITHUB_TOKEN, DATABASE_URL (a URL with a password); if the command needs it: \
             palisade run --keep-env GH_TOKEN …"
        );
        assert!(said("npm").contains("NPM_TOKEN, DATABASE_URL"));
        assert_eq!(removed(&environment, &inherited[4..], "make"), None);
    }
}
