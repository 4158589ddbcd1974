// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of commands that aren't programs, or that run other commands.

use std::collections::BTreeSet;

/// Commands that are built into every shell, and have no effect on a script's needs.
pub(super) const BUILT_IN: &[&str] = &[
    ":",
    ".",
    "[",
    "[[",
    "alias",
    "bg",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "command",
    "compgen",
    "complete",
    "continue",
    "declare",
    "dirs",
    "disown",
    "echo",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    // Built into ksh and zsh: scripts check which shell runs them before they use these.
    "print",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "time",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
];

/// Commands that run the command in their arguments, and their options that take a value.
pub(super) const RUNNERS: &[(&str, &[&str])] = &[
    ("exec", &["-a"]),
    ("command", &[]),
    ("builtin", &[]),
    ("env", &["-u", "-C", "--unset", "--chdir"]),
    ("nohup", &[]),
    ("nice", &["-n"]),
    ("ionice", &["-c", "-n", "-p"]),
    ("setsid", &[]),
    ("stdbuf", &["-i", "-o", "-e"]),
    ("timeout", &["-k", "-s"]),
    ("time", &["-f", "-o"]),
    ("xargs", &["-I", "-n", "-P", "-L", "-d", "-a", "-E", "-s"]),
    ("sudo", &["-u", "-g", "-C", "-p"]),
    ("which", &[]),
    ("type", &[]),
    ("hash", &[]),
];

/// The words of a runner's arguments from the command on.
pub(super) fn command_in<'w>(
    runner: &str,
    options: &[&str],
    arguments: &'w [BTreeSet<String>],
) -> &'w [BTreeSet<String>] {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        let first = word.first().map_or("", String::as_str);
        if options.contains(&first) {
            at += 2;
        } else if first.starts_with('-')
            || (runner == "env" && first.contains('='))
            || (runner == "timeout" && first.starts_with(|digit: char| digit.is_ascii_digit()))
        {
            at += 1;
        } else {
            break;
        }
    }
    arguments.get(at..).unwrap_or_default()
}
