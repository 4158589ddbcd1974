// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the command that a line is about, for counting. It is simpler than the guard's reading.

/// Programs that run the command after them.
const WRAPPERS: &[&str] = &[
    "sudo", "doas", "env", "time", "nohup", "nice", "exec", "command", "builtin", "noglob", "then", "do", "!",
];

/// The name of a line's first command, without its path; `None` if it has none.
pub(super) fn name(line: &str) -> Option<&str> {
    let mut words =
        line.split([' ', '\t', '\n', ';', '|', '&', '(', ')', '{', '}']).filter(|word| !word.is_empty());
    let mut wrapped = false;
    let word = words.find(|word| {
        let assigns = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        });
        let wraps = WRAPPERS.contains(word);
        let option = wrapped && word.starts_with('-');
        wrapped |= wraps;
        !(assigns || wraps || option)
    })?;
    let name = word.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(word);
    Some(name.trim_matches(['"', '\'', '\\'])).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_command_is_named() {
        for (line, wanted) in [
            ("git status", Some("git")),
            ("  LANG=C FOO= sudo -n /usr/bin/apt update", Some("apt")),
            ("(cd /tmp; ls)", Some("cd")),
            ("make|less", Some("make")),
            ("'/opt/a b'/x", Some("a")),
            ("\\ls", Some("ls")),
            ("time", None),
            ("X=1", None),
            ("/", Some("/")),
            ("", None),
            ("<script>alert(1)</script>", Some("<script>alert")),
        ] {
            assert_eq!(name(line), wanted, "{line}");
        }
    }
}
