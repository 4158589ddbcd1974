// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that run what is in their arguments or in their input: `sudo`, `env`, `sh -c`, `eval`, `xargs`, `ssh`.

use palisade_shell_syntax::Assignment;

use super::command::{Command, Doubt, Inside, Way, Word};
use super::reading::{DEEPEST, Reader};

/// Directories of the programs that a pattern in a command's name may mean.
const PLACES: &[&str] = &["/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/"];
const PROGRAMS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "cat", "nc", "ncat", "curl", "wget", "rm", "dd", "cp", "mv", "chmod",
    "chown", "ls", "id", "python3", "python", "perl", "base64", "tac", "nl", "less", "more", "head", "tail",
    "whoami", "find", "tar", "ping",
];
/// Files that a pattern in an argument may mean.
const FILES: &[&str] = &[
    "/etc/passwd",
    "/etc/shadow",
    "/etc/sudoers",
    "/etc/gshadow",
    "/root/.ssh/id_rsa",
    "/etc/ld.so.preload",
    "/etc/crontab",
];

pub(super) fn is_shell(name: &str) -> bool {
    matches!(
        name,
        "sh" | "bash"
            | "dash"
            | "ash"
            | "zsh"
            | "ksh"
            | "ksh93"
            | "mksh"
            | "rbash"
            | "fish"
            | "csh"
            | "tcsh"
            | "yash"
            | "rc"
    )
}

/// How to find the command in a wrapper's arguments.
struct Wrapper {
    /// Options that take the next word as their value.
    valued: &'static [&'static str],
    /// The number of words before the command that don't belong to it.
    skipped: usize,
    way: Way,
}

const HERE: Way = Way { root: false, decoded: false, wrapped: true, elsewhere: false, each: false };
const ROOT: Way = Way { root: true, ..HERE };
const THERE: Way = Way { elsewhere: true, ..HERE };
const EACH: Way = Way { each: true, ..HERE };

fn wrapper(name: &str) -> Option<Wrapper> {
    let (valued, skipped, way): (&[&str], usize, Way) = match name {
        "sudo" => (
            &[
                "-u", "-g", "-C", "-p", "-h", "-r", "-t", "-U", "-D", "-R", "-T", "--user", "--group",
                "--prompt", "--host", "--chdir",
            ],
            0,
            ROOT,
        ),
        "doas" => (&["-u", "-C"], 0, ROOT),
        "pkexec" => (&["--user"], 0, ROOT),
        "run0" => (&["--user", "-u"], 0, ROOT),
        "env" => (&["-u", "-C", "--unset", "--chdir"], 0, HERE),
        "nice" => (&["-n"], 0, HERE),
        "ionice" => (&["-c", "-n", "-p", "-P", "-u"], 0, HERE),
        "chrt" | "taskset" | "timeout" | "gtimeout" => {
            (&["-k", "-s", "-p", "--signal", "--kill-after"], 1, HERE)
        }
        "setarch" | "linux64" | "linux32" => (&[], usize::from(name == "setarch"), HERE),
        "stdbuf" => (&["-i", "-o", "-e"], 0, HERE),
        "time" => (&["-f", "-o"], 0, HERE),
        "exec" => (&["-a"], 0, HERE),
        "nohup" | "setsid" | "command" | "builtin" | "busybox" | "toybox" | "noglob" | "nocorrect"
        | "rlwrap" | "unbuffer" | "dbus-run-session" | "xvfb-run" | "fakeroot" | "torsocks" | "torify"
        | "proxychains" | "proxychains4" | "catchsegv" | "setpriv" | "chronic" | "dbus-launch"
        | "start-stop-daemon" | "systemd-inhibit" => (&["-f"], 0, HERE),
        "strace" | "ltrace" => (&["-e", "-o", "-p", "-s", "-u", "-E", "-P"], 0, HERE),
        "unshare" => (&["-S", "-G", "-R", "-w"], 0, HERE),
        "nsenter" => (&["-t", "-S", "-G", "--target"], 0, ROOT),
        "chroot" => (&[], 1, ROOT),
        "flock" => (&["-w", "-E"], 1, HERE),
        "systemd-run" => {
            (&["-p", "-u", "-M", "-E", "--property", "--unit", "--uid", "--gid", "--setenv"], 0, HERE)
        }
        "xargs" => (
            &[
                "-I",
                "-n",
                "-P",
                "-L",
                "-d",
                "-a",
                "-E",
                "-s",
                "--max-args",
                "--max-procs",
                "--delimiter",
                "--arg-file",
            ],
            0,
            EACH,
        ),
        "parallel" => (&["-j", "-a", "-n", "-N", "-I", "--jobs"], 0, EACH),
        "ssh" => (
            &[
                "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p",
                "-Q", "-R", "-S", "-W", "-w",
            ],
            1,
            THERE,
        ),
        "sshpass" => (&["-p", "-f", "-d", "-P"], 0, HERE),
        _ => return None,
    };
    Some(Wrapper { valued, skipped, way })
}

/// Options of shells that take the next word as their value.
const SHELL_VALUED: &[&str] = &["-o", "+o", "-O", "+O", "--rcfile", "--init-file"];

impl Reader {
    /// If a command is spelled by a pattern, sets its name to the program that the pattern means.
    pub(super) fn name_by_pattern(&mut self, command: &mut Command) {
        for (at, word) in command.words.iter_mut().enumerate() {
            if !word.globbed || !word.value.starts_with('/') || word.value.len() > 64 {
                continue;
            }
            let pattern = word.value.clone();
            // The pattern must contain some letters: `/etc/*` is no way to hide one file's name.
            let letters = pattern.bytes().filter(|byte| byte.is_ascii_alphanumeric()).count();
            if letters < 3 || pattern.ends_with('*') && pattern.matches(['*', '?']).count() == 1 && at > 0 {
                continue;
            }
            let found = if at == 0 {
                let paths =
                    PLACES.iter().flat_map(|place| PROGRAMS.iter().map(move |name| format!("{place}{name}")));
                paths.into_iter().find(|path| matches(&pattern, path, true))
            } else {
                FILES.iter().find(|path| matches(&pattern, path, true)).map(|path| (*path).to_owned())
            };
            if let Some(found) = found {
                word.value = found;
                word.broken = true;
                word.globbed = false;
            }
        }
    }

    /// Reads the commands that `command` (at `index` in the list) runs.
    pub(super) fn unwrap(&mut self, index: usize, command: &Command, input: Option<&str>, depth: usize) {
        if depth >= DEEPEST {
            return self.doubt(Doubt::Deep);
        }
        let name = command.name().to_owned();
        let span = command.span.clone();
        let way = Way { wrapped: true, ..command.way };
        let decoded = Way { decoded: way.decoded || self.is_decoded(index), ..way };
        if is_shell(&name) {
            self.unwrap_shell(command, input, decoded, depth);
            return;
        }
        match name.as_str() {
            "eval" => {
                let text = joined(command.arguments());
                let decoded =
                    Way { decoded: way.decoded || command.arguments().iter().any(|word| word.broken), ..way };
                self.read_words(command.arguments(), &text, decoded, depth);
            }
            "trap" | "watch" | "su" | "script" | "runuser" | "machinectl" => {
                let root = matches!(name.as_str(), "su" | "runuser");
                let way = Way { root: way.root || root, ..way };
                let flagged = command.arguments().windows(2).find(|pair| {
                    pair.first()
                        .is_some_and(|flag| matches!(flag.value.as_str(), "-c" | "--command" | "-qc" | "-lc"))
                });
                match (name.as_str(), flagged) {
                    ("trap", _) => self.read_word(command.arguments().first(), way, depth),
                    ("watch", _) => {
                        let rest = after_options(command.arguments(), &["-n", "--interval"], 0);
                        self.read_words(rest, &joined(rest), way, depth);
                    }
                    (_, Some(pair)) => self.read_word(pair.get(1), way, depth),
                    _ => {}
                }
            }
            "." | "source" => {
                let file = command.arguments().first().map(|word| word.value.as_str());
                let text = match file {
                    Some("/dev/stdin" | "/proc/self/fd/0" | "-") => input.map(str::to_owned),
                    Some(file) => self.files.get(file).cloned(),
                    None => None,
                };
                if let Some(text) = text {
                    self.read_made(&text, span, decoded, depth);
                }
            }
            "find" | "fd" | "fdfind" => {
                let runs = ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec"];
                let mut rest = command.arguments();
                while let Some(at) = rest.iter().position(|word| runs.contains(&word.value.as_str())) {
                    let after = rest.get(at + 1..).unwrap_or_default();
                    let end = after.iter().position(|word| matches!(word.value.as_str(), ";" | "+"));
                    let words = after.get(..end.unwrap_or(after.len())).unwrap_or_default();
                    self.run(index, command, words, Way { each: true, ..way }, depth);
                    rest = after.get(words.len()..).unwrap_or_default();
                }
            }
            "docker" | "podman" | "nerdctl" | "kubectl" | "oc" | "lxc" | "crictl" => {
                self.run_in_container(index, command, Way { elsewhere: true, ..way }, depth);
            }
            _ => {
                if name.starts_with("ld-linux") || name.starts_with("ld-musl") || name == "ld.so" {
                    let rest =
                        after_options(command.arguments(), &["--library-path", "--preload", "--argv0"], 0);
                    self.run(index, command, rest, way, depth);
                } else if let Some(wrapper) = wrapper(&name) {
                    self.unwrap_wrapper(index, command, &name, &wrapper, input, depth);
                } else if command.words.first().is_some_and(|word| word.value.contains(' ') && word.quoted) {
                    // A `"$(…)"` that expanded to several words stays one name. Only `eval` runs the text of a decoder.
                } else if let Some(text) =
                    command.words.first().and_then(|word| self.files.get(&word.value).cloned())
                {
                    self.read_made(&text, span, decoded, depth);
                }
            }
        }
    }

    fn unwrap_shell(&mut self, command: &Command, input: Option<&str>, way: Way, depth: usize) {
        let mut at = 0;
        let arguments = command.arguments();
        let mut reads_line = false;
        while let Some(word) = arguments.get(at) {
            let value = word.value.as_str();
            if SHELL_VALUED.contains(&value) {
                at += 2;
            } else if value.starts_with(['-', '+']) && value.len() > 1 {
                reads_line |= value == "--command" || !value.starts_with("--") && value.contains('c');
                at += 1;
            } else {
                break;
            }
        }
        let first = arguments.get(at);
        if reads_line {
            return self.read_word(first, way, depth);
        }
        let span = command.span.clone();
        let text = match first.map(|word| word.value.as_str()) {
            None | Some("-" | "/dev/stdin" | "/proc/self/fd/0") => input.map(str::to_owned),
            Some(file) => self.files.get(file).cloned().or_else(|| self.substituted(first)),
        };
        if let Some(text) = text {
            self.read_made(&text, span, way, depth);
        }
    }

    /// The text that `<(…)` in a word of the last command gives.
    fn substituted(&mut self, word: Option<&Word>) -> Option<String> {
        word.filter(|word| word.value.starts_with("/dev/fd/"))?;
        let owner = self.commands().checked_sub(1)?;
        let commands = &self.reading().commands;
        let inner = commands.get(..owner)?.iter().rev().take(64);
        let outputs = inner.filter(|command| {
            command.inside == Some((owner, Inside::Readable)) && !command.piped && !command.wrapper
        });
        let mut outputs: Vec<&str> =
            outputs.map(|command| command.output.as_deref()).collect::<Option<_>>()?;
        outputs.reverse();
        (!outputs.is_empty()).then(|| outputs.concat())
    }

    fn unwrap_wrapper(
        &mut self,
        index: usize,
        command: &Command,
        name: &str,
        wrapper: &Wrapper,
        input: Option<&str>,
        depth: usize,
    ) {
        let arguments = command.arguments();
        let old = command.way;
        let way = Way {
            root: old.root || wrapper.way.root,
            decoded: old.decoded,
            wrapped: true,
            elsewhere: old.elsewhere || wrapper.way.elsewhere,
            each: old.each || wrapper.way.each,
        };
        if name == "env"
            && let Some(at) = arguments
                .iter()
                .position(|word| word.value == "-S" || word.value.starts_with("--split-string"))
        {
            return self.read_word(arguments.get(at + 1), way, depth);
        }
        if name == "flock"
            && let Some(at) = arguments.iter().position(|word| word.value == "-c")
        {
            return self.read_word(arguments.get(at + 1), way, depth);
        }
        let mut rest = after_options(arguments, wrapper.valued, wrapper.skipped);
        let mut assigned = command.assignments.clone();
        if matches!(name, "env" | "sudo" | "doas" | "systemd-run" | "setarch") {
            while let Some(word) = rest.first()
                && let Some(assignment) = Assignment::of(&word.value)
            {
                let value = word.value.get(assignment.value).unwrap_or_default().to_owned();
                assigned.push((assignment.name.to_owned(), Word { value, ..word.clone() }));
                rest = rest.get(1..).unwrap_or_default();
            }
        }
        if rest.is_empty() {
            // `sudo -s` and `sudo -i` start a shell that reads commands from the pipe.
            let shells = arguments
                .iter()
                .any(|word| matches!(word.value.as_str(), "-s" | "-i" | "--shell" | "--login"));
            if shells && matches!(name, "sudo" | "doas" | "run0")
                || matches!(name, "ssh" | "unshare" | "nsenter" | "chroot")
            {
                let word = Word { value: "sh".to_owned(), span: command.span.clone(), ..Word::default() };
                self.run(index, command, &[word], way, depth);
            }
            return;
        }
        if matches!(name, "ssh" | "parallel") {
            return self.read_words(rest, &joined(rest), way, depth);
        }
        let mut words = rest.to_vec();
        if name == "xargs"
            && let Some(input) = input
            && !arguments.iter().any(|word| word.value.starts_with("-I"))
        {
            let added = input.split_whitespace().take(64).map(|value| Word {
                value: value.trim_matches(['\'', '"']).to_owned(),
                span: command.span.clone(),
                ..Word::default()
            });
            words.extend(added);
        } else if name == "xargs" {
            let constant = input.map(str::trim);
            let mark =
                arguments.iter().position(|word| word.value == "-I").and_then(|at| arguments.get(at + 1));
            let mark = mark.map_or("{}", |word| word.value.as_str()).to_owned();
            for word in &mut words {
                if word.value.contains(&mark) && !mark.is_empty() {
                    match constant {
                        Some(constant) => word.value = word.value.replace(&mark, constant),
                        None => word.dynamic = true,
                    }
                }
            }
        }
        let outer = Command { assignments: assigned, ..command.clone() };
        self.run(index, &outer, &words, way, depth);
    }

    fn run_in_container(&mut self, index: usize, command: &Command, way: Way, depth: usize) {
        let arguments = command.arguments();
        let Some(verb) = arguments.iter().position(|word| matches!(word.value.as_str(), "exec" | "run"))
        else {
            return;
        };
        let rest = arguments.get(verb + 1..).unwrap_or_default();
        let rest = match rest.iter().position(|word| word.value == "--") {
            Some(at) => rest.get(at + 1..).unwrap_or_default(),
            None => {
                const VALUED: &[&str] = &[
                    "-v",
                    "-e",
                    "-p",
                    "-u",
                    "-w",
                    "-n",
                    "-c",
                    "-h",
                    "-l",
                    "--name",
                    "--volume",
                    "--env",
                    "--publish",
                    "--user",
                    "--workdir",
                    "--network",
                    "--mount",
                    "--entrypoint",
                    "--namespace",
                    "--pid",
                    "--platform",
                    "--add-host",
                ];
                after_options(rest, VALUED, 1)
            }
        };
        self.run(index, command, rest, way, depth);
    }

    /// Adds a command that another command runs to the list, and in turn the commands that it runs.
    fn run(&mut self, index: usize, wrapper: &Command, words: &[Word], way: Way, depth: usize) {
        if words.is_empty() || self.commands() >= 2048 {
            return;
        }
        if let Some(wrapper) = self.reading().commands.get_mut(index) {
            wrapper.wrapper = true;
        }
        let span = words.first().map_or(0, |word| word.span.start)
            ..words.iter().map(|word| word.span.end).max().unwrap_or_default();
        let command = Command {
            words: words.to_vec(),
            redirects: wrapper.redirects.clone(),
            assignments: wrapper.assignments.clone(),
            input: wrapper.input.clone(),
            upstream: wrapper.upstream.clone(),
            // Substitutions in its words were recorded for the wrapper's words.
            inside: None,
            background: wrapper.background,
            way,
            span,
            ..Command::default()
        };
        let inner = self.commands();
        self.hand_down(index, inner);
        self.take(command, &[], depth + 1);
    }

    /// Substitutions in a wrapper's words count for the command that the wrapper runs.
    fn hand_down(&mut self, from: usize, to: usize) {
        let lowest = from.saturating_sub(64);
        for command in self.reading().commands.get_mut(lowest..from).into_iter().flatten() {
            if let Some((owner, _)) = &mut command.inside
                && *owner == from
            {
                *owner = to;
            }
        }
    }

    fn read_word(&mut self, word: Option<&Word>, way: Way, depth: usize) {
        if let Some(word) = word {
            self.read_words(std::slice::from_ref(word), &word.value, way, depth);
        }
    }

    fn read_words(&mut self, words: &[Word], text: &str, way: Way, depth: usize) {
        let (Some(first), Some(last)) = (words.first(), words.last()) else { return };
        self.read_made(text, first.span.start..last.span.end.max(first.span.end), way, depth);
    }

    fn is_decoded(&mut self, index: usize) -> bool {
        let reading = self.reading();
        reading.is_fed(index, &super::output::decodes)
            || reading.holds(index, &|command, _| super::output::decodes(command))
    }
}

fn joined(words: &[Word]) -> String {
    words.iter().map(|word| word.value.as_str()).collect::<Vec<_>>().join(" ")
}

/// The words after options, and after `skipped` other words.
fn after_options<'w>(words: &'w [Word], valued: &[&str], skipped: usize) -> &'w [Word] {
    let (mut at, mut skipped) = (0, skipped);
    while let Some(word) = words.get(at) {
        let value = word.value.as_str();
        if value == "--" {
            at += 1 + skipped;
            break;
        } else if valued.contains(&value) {
            at += 2;
        } else if value.starts_with('-') && value.len() > 1 {
            at += 1;
        } else if skipped > 0 {
            skipped -= 1;
            at += 1;
        } else {
            break;
        }
    }
    words.get(at..).unwrap_or_default()
}

/// Whether a text matches a pattern of `*`, `?` and `[…]`. `by_part`: none of them matches a slash.
pub(super) fn matches(pattern: &str, path: &str, by_part: bool) -> bool {
    let barred = |byte| by_part && byte == b'/';
    let step = |rest: &[u8], byte| match rest {
        [b'?', ..] => (!barred(byte)).then_some(1),
        [b'[', members @ ..] => {
            let length = members.iter().position(|byte| *byte == b']')?;
            in_class(members.get(..length)?, byte).then_some(length + 2)
        }
        [first, ..] => (*first == byte).then_some(1),
        [] => None,
    };
    palisade_text::wildcard(pattern.as_bytes(), path.as_bytes(), step, |byte| !barred(byte))
}

fn in_class(class: &[u8], byte: u8) -> bool {
    class.contains(&byte)
        || class
            .windows(3)
            .any(|part| matches!(part, [first, b'-', last] if (*first..=*last).contains(&byte)))
}
