// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The line that puts the links first on `PATH`, between two marks at the end of a shell's start-up file.

use crate::hook::wrapped::Place;
use crate::hook_error::HookError;
use palisade_sandbox::facts::Facts;
use palisade_settings::Loaded;
use palisade_text::quoted;
use std::path::{Path, PathBuf};

const END: &str = "# <<< palisade wrap <<<\n";
/// What the file was like before is in the first mark, so that it can be so again.
const BEGINNINGS: [(&str, Before); 3] = [
    ("# >>> palisade wrap >>>\n", Before::Lines),
    ("# >>> palisade wrap, after a line without an end >>>\n", Before::Unfinished),
    ("# >>> palisade wrap, in a new file >>>\n", Before::Nothing),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// It was empty, or its last line had an end.
    Lines,
    /// Its last line had none.
    Unfinished,
    /// There was no file.
    Nothing,
}

/// A shell's name.
fn shell(facts: &Facts) -> String {
    let shell = facts.environment.absolute("SHELL").unwrap_or(&facts.account.shell);
    shell.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The line for the user's shell.
pub(super) fn line(facts: &Facts, place: &Place) -> Result<String, HookError> {
    let links = place.links();
    let text = links.to_str().ok_or_else(|| HookError::NotText { path: links.clone() })?;
    Ok(match shell(facts).as_str() {
        "fish" => format!("set -gx PATH {} $PATH", quoted(text)),
        _ => format!("export PATH={}:\"$PATH\"", quoted(text)),
    })
}

/// The start-up file of a shell.
fn file(facts: &Facts, shell: &str) -> Option<PathBuf> {
    let home = &facts.account.home;
    Some(match shell {
        "bash" => home.join(".bashrc"),
        "zsh" => facts.environment.absolute("ZDOTDIR").unwrap_or(home).join(".zshrc"),
        "sh" | "dash" | "ksh" | "mksh" | "ash" => home.join(".profile"),
        "fish" => {
            let config = facts.environment.absolute("XDG_CONFIG_HOME");
            config.map_or_else(|| home.join(".config"), Path::to_owned).join("fish/config.fish")
        }
        _ => return None,
    })
}

/// Writes the line into the start-up file of the user's shell, once. Returns the file.
pub(super) fn write(facts: &Facts, place: &Place) -> Result<PathBuf, HookError> {
    let (shell, line) = (shell(facts), line(facts, place)?);
    let path = file(facts, &shell).ok_or_else(|| HookError::Shell { shell, line: line.clone() })?;
    let loaded = Loaded::read(&path)?;
    let old = loaded.content.as_deref();
    let (rest, earlier) = without(old.unwrap_or_default());
    let before = match rest.last() {
        _ if old.is_none() || earlier == Some(Before::Nothing) => Before::Nothing,
        Some(byte) if *byte != b'\n' => Before::Unfinished,
        _ => Before::Lines,
    };
    let beginning = BEGINNINGS.iter().find(|(_mark, kind)| *kind == before).map_or("", |(mark, _kind)| mark);
    let gap = if before == Before::Unfinished { "\n" } else { "" };
    let content = [&rest, gap.as_bytes(), format!("{beginning}{line}\n{END}").as_bytes()].concat();
    if old != Some(content.as_slice()) {
        loaded.replace(&content, 0o644)?;
    }
    Ok(path)
}

/// Takes the line out of the start-up files. Returns those that were changed.
pub(super) fn remove(facts: &Facts) -> Result<Vec<PathBuf>, HookError> {
    let mut changed = Vec::new();
    for path in ["bash", "zsh", "sh", "fish"].iter().filter_map(|shell| file(facts, shell)) {
        let loaded = Loaded::read(&path)?;
        let Some(old) = loaded.content.as_deref() else { continue };
        let (rest, block) = without(old);
        match block {
            None => continue,
            Some(Before::Nothing) if rest.is_empty() => loaded.remove(&[])?,
            Some(_) => {
                loaded.replace(&rest, 0o644)?;
            }
        }
        changed.push(path);
    }
    Ok(changed)
}

/// A file without the lines between the marks, and what it was like before.
fn without(content: &[u8]) -> (Vec<u8>, Option<Before>) {
    for (mark, before) in BEGINNINGS {
        let Some(end) = find(content, END.as_bytes(), content.len()) else { continue };
        // The last one in front of the end: somebody may have left another.
        let Some(start) = find(content, mark.as_bytes(), end) else { continue };
        let end = end + END.len();
        // The end of the line before was added with the block, and goes unless lines were added behind the block.
        let added = before == Before::Unfinished && end == content.len() && start > 0;
        let start = start - usize::from(added);
        let kept =
            [content.get(..start).unwrap_or_default(), content.get(end..).unwrap_or_default()].concat();
        return (kept, Some(before));
    }
    (content.to_vec(), None)
}

/// Where lines are for the last time, in front of a byte. They begin a line.
fn find(content: &[u8], lines: &[u8], end: usize) -> Option<usize> {
    let begins = |at: usize| at == 0 || content.get(at - 1) == Some(&b'\n');
    let mut windows = content.get(..end)?.windows(lines.len()).enumerate();
    windows.rfind(|(at, window)| *window == lines && begins(*at)).map(|(at, _window)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_the_block_is_as_it_was() {
        for (old, before) in [(&b""[..], Before::Lines), (b"a\n", Before::Lines), (b"a", Before::Unfinished)]
        {
            let mark =
                BEGINNINGS.iter().find(|(_mark, kind)| *kind == before).map_or("", |(mark, _kind)| mark);
            let gap = if before == Before::Unfinished { "\n" } else { "" };
            let block = [old, gap.as_bytes(), mark.as_bytes(), b"x\n", END.as_bytes()].concat();
            assert_eq!(without(&block), (old.to_vec(), Some(before)));
            let more = [&block, &b"b\n"[..]].concat();
            let expected =
                if before == Before::Unfinished { b"a\nb\n".to_vec() } else { [old, b"b\n"].concat() };
            assert_eq!(without(&more).0, expected);
            assert_eq!(without(old), (old.to_vec(), None));
        }
        // Without its end, nothing is known about what is in the block.
        let open = [BEGINNINGS[0].0.as_bytes(), b"x\n"].concat();
        assert_eq!(without(&open), (open.clone(), None));
    }
}
