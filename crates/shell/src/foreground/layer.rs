// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Derives from a command line where its program sends the lines that it reads.
//!
//! Sources of the options that take a value: ssh(1), sudo(8), su(1), doas(1), runuser(1), docker-exec(1),
//! docker-run(1), `kubectl options`, nsenter(1), bash(1), zsh(1), fish(1).

use core::fmt;

/// The longest name that is kept, in characters.
const LONGEST: usize = 64;

/// Where lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// To another machine.
    Remote,
    /// To a program of another user.
    User,
    /// Into a container, or another root.
    Container,
    /// To a shell inside the shell.
    Shell,
}

/// One step on the way of a typed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The kind of step.
    pub kind: Kind,
    /// The program: `ssh`.
    pub program: String,
    /// The host, user or container. Empty for a shell.
    pub target: String,
}

impl fmt::Display for Layer {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.program)?;
        if self.target.is_empty() { Ok(()) } else { write!(to, " {}", self.target) }
    }
}

impl Layer {
    /// The layer that a command line makes; `None` for an ordinary command.
    #[must_use]
    pub fn of(words: &[&str]) -> Option<Self> {
        let (first, rest) = words.split_first()?;
        let name = first.rsplit('/').next().unwrap_or(first);
        // A login shell's name begins with a hyphen.
        let name = name.strip_prefix('-').unwrap_or(name);
        let rest = match rest.split_last() {
            // The empty word after the last NUL.
            Some((&"", before)) => before,
            _ => rest,
        };
        let (kind, target) = match name {
            "ssh" => (Kind::Remote, ssh(rest)?),
            "mosh-client" => (Kind::Remote, (*rest.iter().rev().nth(1)?).to_owned()),
            "telnet" | "rlogin" => {
                let (host, _) = operand(rest, |option| matches!(option, "-l" | "-n" | "-b" | "-X" | "-e"))?;
                (Kind::Remote, host.to_owned())
            }
            "sudo" | "doas" | "run0" | "pkexec" => (Kind::User, user(rest)),
            "su" | "runuser" => (Kind::User, su(rest)),
            "docker" | "podman" | "nerdctl" => (Kind::Container, container(rest)?),
            "kubectl" | "oc" => (Kind::Container, pod(rest)?),
            "lxc" | "incus" => (Kind::Container, after(rest, &["exec", "shell", "console"])?),
            "machinectl" => (Kind::Container, after(rest, &["shell", "login"])?),
            "distrobox" | "toolbox" => (Kind::Container, after(rest, &["enter", "run"]).unwrap_or_default()),
            "nsenter" => (Kind::Container, value(rest, "-t", "--target").unwrap_or_default()),
            "chroot" => {
                let (root, _) = operand(rest, |_| false)?;
                (Kind::Container, root.to_owned())
            }
            "sh" | "bash" | "dash" | "ash" | "zsh" | "fish" | "ksh" | "mksh" | "csh" | "tcsh" | "nu"
            | "xonsh" | "elvish"
                if is_interactive(rest) =>
            {
                (Kind::Shell, String::new())
            }
            _ => return None,
        };
        Some(Self { kind, program: harmless(name), target: harmless(&target) })
    }
}

impl Layer {
    /// The layer that the first command of a shell's line makes, as far as its words are constant. `None` for an
    /// ordinary command, or if the target is not known.
    #[must_use]
    pub fn of_line(line: &str) -> Option<Self> {
        let words = line.split_ascii_whitespace().skip_while(|word| {
            let name = word.split_once('=').map_or("", |(name, _)| name);
            !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        });
        let mut plain = Vec::new();
        for word in words {
            let end = word.find(['|', '&', ';', '<', '>', '(', ')']);
            let head = word.get(..end.unwrap_or(word.len())).unwrap_or_default();
            if !head.is_empty() {
                plain.push(head);
            }
            if end.is_some() {
                break;
            }
        }
        let layer = Self::of(&plain)?;
        // The shell would have expanded these characters, so the target is not known.
        let changed = |letter| matches!(letter, '$' | '`' | '\\' | '\'' | '"' | '*' | '?' | '[' | '{' | '~');
        (!layer.target.contains(changed)).then_some(layer)
    }
}

/// Removes everything that a terminal could interpret. Each remaining character takes columns of its own.
fn harmless(text: &str) -> String {
    let shown = palisade_text::harmless(text);
    shown.chars().filter(|character| crate::column::is_plain(*character)).take(LONGEST).collect()
}

/// The first word that isn't an option, and the words after it. `takes` tells whether an option takes the next word as
/// its value. In a group of letters, the last one counts.
fn operand<'a, 'w>(words: &'a [&'w str], takes: impl Fn(&str) -> bool) -> Option<(&'w str, &'a [&'w str])> {
    let mut rest = words;
    while let Some((word, behind)) = rest.split_first() {
        rest = behind;
        if *word == "--" {
            return rest.split_first().map(|(word, behind)| (*word, behind));
        }
        if !word.starts_with('-') || *word == "-" {
            return Some((word, rest));
        }
        let last = word.chars().last().map(|letter| format!("-{letter}")).unwrap_or_default();
        let alone = takes(word) || (!word.starts_with("--") && word.len() > 2 && takes(&last));
        // -p2222 contains its value.
        let joined = !word.starts_with("--") && word.get(..2).is_some_and(&takes) && word.len() > 2;
        if alone && !joined && !word.contains('=') {
            rest = rest.split_first().map_or(rest, |(_, behind)| behind);
        }
    }
    None
}

/// The value of an option, in any of its forms.
fn value(words: &[&str], short: &str, long: &str) -> Option<String> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if *word == "--" {
            return None;
        }
        if *word == short || *word == long {
            return words.next().map(|&value| value.to_owned());
        }
        let joined = word.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
        let joined = joined.or_else(|| word.strip_prefix(short).filter(|_| !word.starts_with("--")));
        if let Some(joined) = joined.filter(|joined| !joined.is_empty()) {
            return Some(joined.to_owned());
        }
    }
    None
}

fn ssh(words: &[&str]) -> Option<String> {
    let takes = |option: &str| {
        let letter = option.strip_prefix('-').unwrap_or(option);
        letter.len() == 1 && "BbcDEeFIiJLlmOopPQRSWw".contains(letter)
    };
    let (host, _) = operand(words, takes)?;
    let as_user = value(words, "-l", "--no-such-option").filter(|_| !host.contains('@'));
    Some(as_user.map_or_else(|| host.to_owned(), |user| format!("{user}@{host}")))
}

fn user(words: &[&str]) -> String {
    // Options after the command's name belong to the command.
    let takes = |option: &str| {
        matches!(
            option,
            "-C" | "-D"
                | "-g"
                | "-h"
                | "-p"
                | "-R"
                | "-r"
                | "-t"
                | "-T"
                | "-U"
                | "-u"
                | "--user"
                | "--group"
                | "--chdir"
                | "--host"
                | "--prompt"
                | "--role"
                | "--type"
                | "--close-from"
        )
    };
    let own = operand(words, takes).map_or(words.len(), |(_, behind)| words.len() - behind.len() - 1);
    let own = words.get(..own).unwrap_or(words);
    value(own, "-u", "--user").unwrap_or_else(|| "root".to_owned())
}

fn su(words: &[&str]) -> String {
    let takes = |option: &str| {
        matches!(
            option,
            "-c" | "-g"
                | "-G"
                | "-s"
                | "-w"
                | "--command"
                | "--group"
                | "--supp-group"
                | "--shell"
                | "--session-command"
                | "--whitelist-environment"
        )
    };
    if let Some(user) = value(words, "-u", "--user") {
        return user;
    }
    let found = match operand(words, takes) {
        Some(("-", behind)) => operand(behind, takes),
        other => other,
    };
    found.map_or_else(|| "root".to_owned(), |(user, _)| user.to_owned())
}

/// Options without a value, of programs that run containers.
const SWITCHES: [&str; 22] = [
    "-i",
    "-t",
    "-d",
    "-q",
    "-P",
    "-it",
    "-ti",
    "-dit",
    "-itd",
    "--interactive",
    "--tty",
    "--detach",
    "--privileged",
    "--rm",
    "--init",
    "--read-only",
    "--publish-all",
    "--no-healthcheck",
    "--quiet",
    "--stdin",
    "--sig-proxy",
    "--remote",
];

fn container(words: &[&str]) -> Option<String> {
    let takes = |option: &str| !SWITCHES.contains(&option) && !matches!(option, "-D" | "--debug" | "--tls");
    let (verb, behind) = operand(words, takes)?;
    let behind = match verb {
        "exec" | "run" | "attach" => behind,
        "container" => {
            operand(behind, takes).filter(|(verb, _)| matches!(*verb, "exec" | "run" | "attach"))?.1
        }
        "compose" => operand(behind, takes).filter(|(verb, _)| matches!(*verb, "exec" | "run"))?.1,
        _ => return None,
    };
    operand(behind, takes).map(|(name, _)| name.to_owned())
}

fn pod(words: &[&str]) -> Option<String> {
    let takes = |option: &str| !SWITCHES.contains(&option);
    let (verb, behind) = operand(words, takes)?;
    if !matches!(verb, "exec" | "attach" | "run" | "debug" | "rsh") {
        return None;
    }
    let (pod, _) = operand(behind, takes)?;
    let space = value(words, "-n", "--namespace");
    Some(space.map_or_else(|| pod.to_owned(), |space| format!("{space}/{pod}")))
}

/// The operand after one of these verbs.
fn after(words: &[&str], verbs: &[&str]) -> Option<String> {
    let takes = |option: &str| matches!(option, "-n" | "--name" | "--project" | "-M" | "-E" | "-H");
    let (verb, behind) = operand(words, takes)?;
    let found = verbs.contains(&verb).then(|| operand(behind, takes)).flatten();
    found.map(|(name, _)| name.to_owned())
}

/// Whether a shell with these arguments reads lines from its terminal.
fn is_interactive(words: &[&str]) -> bool {
    let runs = words
        .iter()
        .take_while(|word| word.starts_with('-'))
        .any(|word| *word == "--command" || (!word.starts_with("--") && word.contains('c')));
    let takes =
        |option: &str| matches!(option, "--rcfile" | "--init-file" | "-o" | "-O" | "-C" | "--init-command");
    !runs && operand(words, takes).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_say_where_lines_go() {
        for (line, wanted) in [
            ("ssh prod", Some("ssh prod")),
            ("ssh -p 2222 -i key -o A=b me@prod uptime -x", Some("ssh me@prod")),
            ("ssh -tp2222 prod", Some("ssh prod")),
            ("/usr/bin/ssh -l me -4 prod", Some("ssh me@prod")),
            ("ssh -V", None),
            ("sudo -i", Some("sudo root")),
            ("sudo -u www bash", Some("sudo www")),
            ("sudo --user=www -- bash -u x", Some("sudo www")),
            ("sudo apt -u other", Some("sudo root")),
            ("doas -u me sh", Some("doas me")),
            ("su", Some("su root")),
            ("su -", Some("su root")),
            ("su - me", Some("su me")),
            ("su -c whoami me", Some("su me")),
            ("runuser -u me -- sh", Some("runuser me")),
            ("docker exec -it web sh -c x", Some("docker web")),
            ("docker --host tcp://a exec -u 0 -it web bash", Some("docker web")),
            ("podman run --rm -it -v /a:/b debian:12 bash", Some("podman debian:12")),
            ("docker compose -f a.yml exec db psql", Some("docker db")),
            ("docker ps", None),
            ("kubectl exec -it pod-1 -- sh", Some("kubectl pod-1")),
            ("kubectl -n prod exec -it pod-1 -c main -- sh", Some("kubectl prod/pod-1")),
            ("kubectl get pods", None),
            ("lxc exec box bash", Some("lxc box")),
            ("nsenter -t 1 -m sh", Some("nsenter 1")),
            ("nsenter --target=17 -m sh", Some("nsenter 17")),
            ("chroot /mnt bash", Some("chroot /mnt")),
            ("bash", Some("bash")),
            ("-zsh", Some("zsh")),
            ("bash --rcfile x -i", Some("bash")),
            ("bash -c ls", None),
            ("bash -ic ls", None),
            ("sh script.sh", None),
            ("fish -C 'echo'", Some("fish")),
            ("vim notes", None),
            ("", None),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(Layer::of(&words).map(|layer| layer.to_string()).as_deref(), wanted, "{line}");
        }
    }

    #[test]
    fn the_first_command_of_a_line_says_where_it_leads() {
        for (line, wanted) in [
            ("ssh prod", Some("ssh prod")),
            ("A=1 B_2= ssh -p 22 prod 'x | y'", Some("ssh prod")),
            ("sudo true; ssh prod", Some("sudo root")),
            ("sudo -u www|cat", Some("sudo www")),
            ("ssh prod>out", Some("ssh prod")),
            ("ssh $HOST", None),
            ("ssh \"$HOST\"", None),
            ("ssh 'prod'", None),
            ("echo ssh prod", None),
            ("ls && sudo true", None),
            ("=x ssh", None),
            ("", None),
        ] {
            assert_eq!(Layer::of_line(line).map(|layer| layer.to_string()).as_deref(), wanted, "{line}");
        }
    }

    #[test]
    fn names_are_harmless_and_short() {
        let host = format!("a\x1b]0;\u{202e}b{}", "c".repeat(1000));
        let layer = Layer::of(&["ssh", &host, ""]).unwrap();
        assert!(
            layer.target.starts_with(r"a\u{1b}]0;\u{202e}bccc") && layer.target.len() == LONGEST,
            "{}",
            layer.target
        );
    }

    #[test]
    fn any_command_line_is_understood_or_not() {
        const NAMES: [&str; 8] = ["ssh", "sudo", "su", "docker", "kubectl", "lxc", "nsenter", "bash"];
        bolero::check!().for_each(|bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            let _any = Layer::of_line(&text);
            for name in NAMES {
                let words: Vec<&str> = core::iter::once(name).chain(text.split(' ')).collect();
                let _any = Layer::of(&words);
            }
        });
    }
}
