// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade completions`: prints a shell's completions, made from the same table as the parser.
//!
//! The names of profiles and features are looked up while the user types: a script that was made with the package
//! knows none of the user's own. `clap_complete` writes possible values into the script, so one placeholder stands for
//! them, and a command that lists the names replaces it.

use crate::verb::{self, YES};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;

/// Which shell.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// What a word names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Named {
    Profile,
    Feature,
}

impl Named {
    const ALL: [Self; 2] = [Self::Profile, Self::Feature];

    /// What stands for the names until the script is complete. No shell quotes it.
    const fn placeholder(self) -> &'static str {
        match self {
            Self::Profile => "PALISADE_PROFILE_NAMES",
            Self::Feature => "PALISADE_FEATURE_NAMES",
        }
    }

    const fn verb(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Feature => "feature",
        }
    }

    /// What an argument of a verb takes. `verbs` are the verb and its own verbs.
    fn of(verbs: &[&str], argument: &Arg) -> Option<Self> {
        if !argument.get_action().takes_values() {
            return None;
        }
        match (verbs, argument.get_long()) {
            (_, Some("profile")) | (["profile", "create"], Some("from")) => Some(Self::Profile),
            (_, Some("feature")) => Some(Self::Feature),
            (["open" | "agent" | "package"], None) | (["desktop", "enable" | "disable"], None) => {
                Some(Self::Profile)
            }
            (["profile", "show" | "edit" | "diff" | "remove" | "export" | "refresh"], None) => {
                Some(Self::Profile)
            }
            (["feature", _], None) => Some(Self::Feature),
            _ => None,
        }
    }
}

/// The table, with placeholders where names are looked up.
fn marked<'a>(command: Command, verbs: &mut Vec<&'a str>, names: &'a [String]) -> Command {
    let marked = command.mut_args(|argument| match Named::of(verbs, &argument) {
        Some(named) => argument.value_parser(PossibleValuesParser::new([named.placeholder()])),
        None => argument,
    });
    marked.mut_subcommands(|verb| {
        let Some(name) = names.iter().find(|name| *name == verb.get_name()) else { return verb };
        verbs.push(name);
        let verb = self::marked(verb, verbs, names);
        verbs.pop();
        verb
    })
}

/// The names of all verbs of a table.
fn verbs_of(command: &Command, names: &mut Vec<String>) {
    for verb in command.get_subcommands() {
        names.push(verb.get_name().to_owned());
        verbs_of(verb, names);
    }
}

/// Replaces the placeholders by what lists the names.
fn completed(shell: Shell, mut script: String) -> String {
    for named in Named::ALL {
        let (placeholder, verb) = (named.placeholder(), named.verb());
        let list = format!("palisade {verb} list --names 2>/dev/null");
        match shell {
            Shell::Bash => {
                // A profile may also be a file.
                script = script
                    .replace(
                        &format!("compgen -W \"{placeholder}\""),
                        &format!("compgen -f -W \"{placeholder}\""),
                    )
                    .replace(placeholder, &format!("$({list})"));
            }
            Shell::Zsh => {
                let function = format!("_palisade_{verb}_names");
                let body = format!(
                    "{function}() {{\n    local -a names\n    names=(${{(f)\"$({list})\"}})\n    _alternative \
                     'names:{verb}:compadd -a names' 'files:file:_files'\n}}\n\n"
                );
                script = script.replace(&format!("({placeholder})"), &function);
                if let Some(start) = script.find("\n_palisade() {\n") {
                    script.insert_str(start + 1, &body);
                }
            }
            Shell::Fish => {
                // The file that a profile may be is completed, too.
                script = script
                    .replace(&format!("-r -f -a \"{placeholder}\\t''\""), &format!("-r -a \"({list})\""))
                    .replace(&format!("\"{placeholder}\\t''\""), &format!("\"({list})\""));
            }
            _ => {}
        }
    }
    script
}

/// Lines for fish about words that belong to no option: `clap_complete` writes none.
fn for_fish(command: &Command, verbs: &mut Vec<String>) -> String {
    let path: Vec<&str> = verbs.iter().map(String::as_str).collect();
    let mut lines = String::new();
    for named in command.get_positionals().filter_map(|argument| Named::of(&path, argument)) {
        let condition = match path.as_slice() {
            [verb] => format!("__fish_palisade_using_subcommand {verb}"),
            [verb, own] => {
                format!("__fish_palisade_using_subcommand {verb}; and __fish_seen_subcommand_from {own}")
            }
            _ => continue,
        };
        let list = format!("palisade {} list --names 2>/dev/null", named.verb());
        lines.push_str(&format!("complete -c palisade -n \"{condition}\" -a \"({list})\"\n"));
    }
    for verb in command.get_subcommands() {
        verbs.push(verb.get_name().to_owned());
        lines.push_str(&for_fish(verb, verbs));
        verbs.pop();
    }
    lines
}

fn script(shell: Shell) -> String {
    let command = crate::Cli::command();
    let mut names = Vec::new();
    verbs_of(&command, &mut names);
    let more = if shell == Shell::Fish { for_fish(&command, &mut Vec::new()) } else { String::new() };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut marked(command, &mut Vec::new(), &names), "palisade", &mut script);
    completed(shell, String::from_utf8_lossy(&script).into_owned()) + &more
}

/// Prints the completions. Returns 0, or 2 for an error.
pub(crate) fn run(options: &Options) -> u8 {
    verb::finish(false, verb::print_exactly(&script(options.shell)).map(|()| YES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn no_placeholder_is_left() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            assert!(!Named::ALL.iter().any(|named| script.contains(named.placeholder())), "{shell}");
        }
    }
}
