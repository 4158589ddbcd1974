// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command in the form that rules examine: its name, the files that it reads and writes, its kind of program.

use std::borrow::Cow;
use std::ops::Range;

use super::command::{Command, Direction, Reading, Word, base_name};
use super::output;
use super::wrapping::is_shell;

/// A path and where it is in the line.
pub(super) struct Place {
    pub(super) path: String,
    pub(super) span: Range<usize>,
    pub(super) dynamic: bool,
}

impl Place {
    fn of(word: &Word, value: &str) -> Self {
        Self { path: path(value).into_owned(), span: word.span.clone(), dynamic: word.dynamic }
    }
}

pub(super) struct Subject<'r> {
    pub(super) command: &'r Command,
    pub(super) index: usize,
    pub(super) name: &'r str,
    pub(super) writes: Vec<Place>,
    pub(super) reads: Vec<Place>,
}

impl<'r> Subject<'r> {
    pub(super) fn new(index: usize, command: &'r Command) -> Self {
        let name = command.name();
        Self { command, index, name, writes: writes(command, name), reads: reads(command, name) }
    }

    /// Arguments that aren't options.
    pub(super) fn positionals(&self) -> impl Iterator<Item = &'r Word> + use<'r> {
        let mut open = true;
        self.command.arguments().iter().filter(move |word| {
            let option = open && word.value.starts_with('-') && word.value.len() > 1;
            open &= word.value != "--";
            !option
        })
    }
}

/// Kinds of programs that rules name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// Receives or sends data over the network.
    Network,
    Shell,
    /// Runs programs in its own language.
    Interpreter,
    /// A shell or interpreter that runs the text it reads.
    RunsInput,
    /// Runs the text in its arguments.
    RunsWords,
    /// Decodes encoded text.
    Decoder,
    /// Shows files or passes their content on.
    Reader,
    Editor,
    PackageManager,
    Compiler,
}

impl Program {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "net" => Self::Network,
            "shell" => Self::Shell,
            "interp" => Self::Interpreter,
            "runs-input" => Self::RunsInput,
            "runs-words" => Self::RunsWords,
            "decode" => Self::Decoder,
            "reader" => Self::Reader,
            "editor" => Self::Editor,
            "packages" => Self::PackageManager,
            "compiler" => Self::Compiler,
            _ => return None,
        })
    }

    pub(super) fn is(self, command: &Command) -> bool {
        let name = command.name();
        match self {
            Self::Network => is_network(command, name),
            Self::Shell => is_shell(name),
            Self::Interpreter => is_interpreter(name),
            Self::RunsInput => runs_input(command, name),
            Self::RunsWords => {
                is_shell(name)
                    || is_interpreter(name)
                    || matches!(name, "eval" | "source" | "." | "exec" | "watch" | "trap" | "su" | "command")
                    || command.words.first().is_some_and(|word| word.dynamic)
            }
            Self::Decoder => output::decodes(command),
            Self::Reader => is_reader(name),
            Self::Editor => matches!(
                name,
                "vi" | "vim"
                    | "nvim"
                    | "view"
                    | "vimdiff"
                    | "rvim"
                    | "ex"
                    | "nano"
                    | "pico"
                    | "emacs"
                    | "ed"
                    | "red"
                    | "joe"
                    | "micro"
            ),
            Self::PackageManager => matches!(
                name,
                "npm"
                    | "pnpm"
                    | "yarn"
                    | "bun"
                    | "npx"
                    | "pip"
                    | "pip3"
                    | "pipx"
                    | "uv"
                    | "gem"
                    | "cargo"
                    | "go"
                    | "apt"
                    | "apt-get"
                    | "dnf"
                    | "yum"
                    | "rpm"
                    | "dpkg"
                    | "apk"
                    | "pacman"
                    | "brew"
                    | "snap"
                    | "flatpak"
                    | "conda"
                    | "poetry"
            ),
            Self::Compiler => matches!(
                name,
                "gcc"
                    | "cc"
                    | "clang"
                    | "g++"
                    | "c++"
                    | "tcc"
                    | "go"
                    | "rustc"
                    | "nasm"
                    | "as"
                    | "ld"
                    | "make"
            ),
        }
    }
}

fn is_network(command: &Command, name: &str) -> bool {
    let has = |value: &str| command.arguments().iter().any(|word| word.value == value);
    match name {
        "curl" | "wget" | "wget2" | "aria2c" | "axel" | "fetch" | "lynx" | "w3m" | "links" | "elinks"
        | "http" | "https" | "xh" | "curlie" | "nc" | "ncat" | "netcat" | "nc.traditional" | "nc.openbsd"
        | "socat" | "ftp" | "tftp" | "lftp" | "GET" | "lwp-download" | "lwp-request" | "telnet"
        | "smbclient" | "dig" | "nslookup" | "drill" | "rclone" | "gsutil" | "ipfs" | "snarf" | "hurl"
        | "get" | "bitsadmin" => true,
        "openssl" => has("s_client"),
        "aws" => has("s3"),
        "az" | "gcloud" => has("storage"),
        "gh" => has("api"),
        "cat" | "exec" | "read" => command.redirects.iter().any(|redirect| is_socket(&redirect.target.value)),
        _ if is_interpreter(name) => command.arguments().iter().any(|word| {
            [
                "urllib",
                "requests.get",
                "http.get",
                "Net::HTTP",
                "open-uri",
                "LWP::",
                "file_get_contents(\"http",
                "fetch(",
            ]
            .iter()
            .any(|needle| word.value.contains(needle))
        }),
        _ => false,
    }
}

pub(super) fn is_socket(path: &str) -> bool {
    path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/")
}

pub(super) fn is_interpreter(name: &str) -> bool {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    matches!(
        stem,
        "python"
            | "pypy"
            | "perl"
            | "ruby"
            | "irb"
            | "node"
            | "nodejs"
            | "php"
            | "lua"
            | "luajit"
            | "deno"
            | "bun"
            | "Rscript"
            | "R"
            | "tclsh"
            | "expect"
            | "wish"
            | "pwsh"
            | "jrunscript"
            | "groovy"
            | "jjs"
            | "julia"
            | "guile"
            | "gdb"
            | "psql"
    )
}

fn is_reader(name: &str) -> bool {
    matches!(
        name,
        "cat"
            | "less"
            | "more"
            | "head"
            | "tail"
            | "tac"
            | "nl"
            | "od"
            | "xxd"
            | "hexdump"
            | "hd"
            | "strings"
            | "base64"
            | "base32"
            | "cut"
            | "sort"
            | "uniq"
            | "awk"
            | "gawk"
            | "mawk"
            | "sed"
            | "grep"
            | "egrep"
            | "fgrep"
            | "rg"
            | "view"
            | "bat"
            | "batcat"
            | "cp"
            | "mv"
            | "scp"
            | "rsync"
            | "tar"
            | "zip"
            | "7z"
            | "curl"
            | "wget"
            | "openssl"
            | "gpg"
            | "dd"
            | "install"
            | "ln"
            | "jq"
            | "yq"
            | "paste"
            | "join"
            | "diff"
            | "comm"
            | "cmp"
            | "rev"
            | "column"
            | "fold"
            | "fmt"
            | "pr"
            | "gzip"
            | "xz"
            | "bzip2"
            | "zstd"
            | "sftp"
            | "rclone"
            | "aws"
            | "cpio"
            | "ar"
            | "iconv"
            | "dialog"
            | "look"
            | "ul"
            | "expand"
            | "unexpand"
            | "csplit"
            | "split"
            | "sqlite3"
            | "john"
            | "hashcat"
            | "unshadow"
            | "vi"
            | "vim"
            | "nvim"
            | "nano"
            | "ed"
            | "emacs"
            | "xdg-open"
            | "file"
            | "nc"
            | "ncat"
            | "mapfile"
            | "readarray"
            | "pv"
            | "socat"
            | "sponge"
            | "tee"
            | "http"
            | "https"
            | "xargs"
            | "uuencode"
    )
}

fn runs_input(command: &Command, name: &str) -> bool {
    let arguments = command.arguments();
    let is_stdin = |value: &str| matches!(value, "-" | "/dev/stdin" | "/proc/self/fd/0" | "/dev/fd/0");
    if matches!(name, "." | "source") {
        return arguments.first().is_some_and(|word| is_stdin(&word.value));
    }
    if is_shell(name) {
        let cluster = |word: &Word, letter: char| {
            word.value.starts_with('-') && !word.value.starts_with("--") && word.value.contains(letter)
        };
        if arguments.iter().any(|word| cluster(word, 'c')) {
            return false;
        }
        return arguments.iter().any(|word| cluster(word, 's') || is_stdin(&word.value))
            || arguments.iter().all(|word| word.value.starts_with(['-', '+']));
    }
    if is_interpreter(name) {
        let code = arguments.iter().any(|word| {
            word.value.len() > 1
                && word.value.starts_with('-')
                && !matches!(
                    word.value.as_str(),
                    "-u" | "-s" | "-S" | "-E" | "-B" | "-w" | "-q" | "-I" | "-x" | "-T"
                )
        });
        let first = arguments.iter().find(|word| !word.value.starts_with('-') || is_stdin(&word.value));
        return !code && first.is_none_or(|word| is_stdin(&word.value));
    }
    matches!(name, "at" | "batch") && arguments.iter().all(|word| word.value != "-f" && word.value != "-l")
}

fn writes(command: &Command, name: &str) -> Vec<Place> {
    let mut places: Vec<Place> = command
        .redirects
        .iter()
        .filter(|redirect| matches!(redirect.direction, Direction::Write | Direction::Append))
        .map(|redirect| Place::of(&redirect.target, &redirect.target.value))
        .collect();
    let arguments = command.arguments();
    let plain = || arguments.iter().filter(|word| !word.value.starts_with('-'));
    let valued = |flags: &[&str]| {
        let pairs = arguments.windows(2).filter_map(|pair| match pair {
            [flag, value] if flags.iter().any(|known| takes(&flag.value, known)) => {
                Some(Place::of(value, &value.value))
            }
            _ => None,
        });
        pairs.collect::<Vec<_>>()
    };
    let keyed = |key: &'static str| {
        arguments
            .iter()
            .filter_map(move |word| word.value.strip_prefix(key).map(|value| Place::of(word, value)))
    };
    match name {
        "tee" | "truncate" | "touch" | "sponge" | "shred" | "mkdir" => {
            places.extend(plain().map(|word| Place::of(word, &word.value)));
        }
        "cp" | "mv" | "install" | "ln" | "rsync" | "scp" => {
            places.extend(valued(&["-t", "--target-directory"]));
            places.extend(keyed("--target-directory="));
            if plain().count() > 1 {
                places.extend(plain().next_back().map(|word| Place::of(word, &word.value)));
            }
        }
        "dd" => places.extend(keyed("of=")),
        "sed" | "perl" | "gsed" => {
            let in_place = arguments.iter().any(|word| {
                word.value.starts_with("--in-place")
                    || word
                        .value
                        .strip_prefix('-')
                        .is_some_and(|flags| !flags.starts_with('-') && flags.contains('i'))
            });
            if in_place {
                places.extend(plain().skip(1).map(|word| Place::of(word, &word.value)));
            }
        }
        "curl" => places.extend(valued(&["-o", "--output"]).into_iter().chain(keyed("--output="))),
        "wget" => places.extend(
            valued(&["-O", "--output-document", "-P"])
                .into_iter()
                .chain(keyed("--output-document="))
                .chain(keyed("-O")),
        ),
        "sort" | "gcc" | "cc" | "clang" | "openssl" => places.extend(valued(&["-o", "-out"])),
        "crontab" => places.extend(plain().map(|word| Place::of(word, "/var/spool/cron/"))),
        _ => {}
    }
    places
}

/// Whether `word` is the option `flag`, or a group of letters that ends with its letter: `-so FILE`.
fn takes(word: &str, flag: &str) -> bool {
    word == flag
        || match (flag.as_bytes(), word.as_bytes()) {
            ([b'-', letter], [b'-', letters @ .., last]) => {
                last == letter && !letters.is_empty() && letters.iter().all(u8::is_ascii_alphabetic)
            }
            _ => false,
        }
}

fn reads(command: &Command, name: &str) -> Vec<Place> {
    let mut places: Vec<Place> = command
        .redirects
        .iter()
        .filter(|redirect| redirect.direction == Direction::Read)
        .map(|redirect| Place::of(&redirect.target, &redirect.target.value))
        .collect();
    if !is_reader(name) || matches!(name, "tee" | "sponge") {
        return places;
    }
    let arguments = command.arguments();
    let plain = arguments.iter().filter(|word| !word.value.starts_with('-'));
    let skipped = match name {
        // The pattern, the program.
        "grep" | "egrep" | "fgrep" | "rg" | "sed" | "awk" | "gawk" | "mawk" | "jq" | "yq" => 1,
        _ => 0,
    };
    let mut files: Vec<&Word> = plain.skip(skipped).collect();
    if matches!(name, "cp" | "mv" | "install" | "ln" | "rsync" | "scp") && files.len() > 1 {
        files.pop();
    }
    for word in files {
        let value = word.value.as_str();
        let value = ["if=", "@", "file://", "fileb://"]
            .iter()
            .find_map(|key| value.strip_prefix(key))
            .unwrap_or(value);
        // `name=@file`, `OPEN:file`
        let value = value.rsplit_once("=@").map_or(value, |(_, file)| file);
        places.push(Place::of(word, value));
    }
    for word in arguments {
        if let Some((_, file)) = word.value.split_once("-file=") {
            places.push(Place::of(word, file));
        }
    }
    places
}

/// A path as rules spell it: `~` for any home, and without redundant parts.
pub(super) fn path(value: &str) -> Cow<'_, str> {
    let mut path = Cow::Borrowed(value);
    if value.contains("//") && !value.contains("://") || value.contains("/./") || value.contains("/..") {
        let mut parts: Vec<&str> = Vec::new();
        for part in value.split('/') {
            match part {
                "" | "." => {}
                ".." if parts.last().is_some_and(|last| *last != ".." && *last != "~") => {
                    parts.pop();
                }
                ".." if value.starts_with('/') => {}
                part => parts.push(part),
            }
        }
        let lead = if value.starts_with('/') { "/" } else { "" };
        let trail = if value.ends_with('/') && !parts.is_empty() { "/" } else { "" };
        path = Cow::Owned(format!("{lead}{}{trail}", parts.join("/")));
    }
    let home = if let Some(rest) = path.strip_prefix("/home/").or_else(|| path.strip_prefix("/Users/")) {
        match rest.split_once('/') {
            Some((_, rest)) => Some(format!("~/{rest}")),
            None if !rest.is_empty() && !rest.contains('*') => Some("~".to_owned()),
            None => None,
        }
    } else if let Some(rest) = path.strip_prefix("/root/") {
        Some(format!("~/{rest}"))
    } else if path.starts_with('~') && !path.starts_with("~/") {
        path.split_once('/').map(|(_, rest)| format!("~/{rest}"))
    } else {
        None
    };
    home.map_or(path, Cow::Owned)
}

/// Names, without directories, of the files to which commands of the line write what they receive from the network.
pub(super) fn downloads(reading: &Reading) -> Vec<(usize, String)> {
    let mut files = Vec::new();
    for (index, command) in reading.commands.iter().enumerate() {
        let name = command.name();
        if !matches!(
            name,
            "curl"
                | "wget"
                | "aria2c"
                | "axel"
                | "fetch"
                | "wget2"
                | "scp"
                | "lwp-download"
                | "tftp"
                | "ftp"
                | "http"
        ) {
            continue;
        }
        files.extend(writes(command, name).iter().map(|place| (index, base_name(&place.path).to_owned())));
        let named_by_server = match name {
            "curl" => command.arguments().iter().any(|word| {
                word.value.starts_with("--remote-name")
                    || word
                        .value
                        .strip_prefix('-')
                        .is_some_and(|flags| !flags.starts_with('-') && flags.contains('O'))
            }),
            _ => true,
        };
        if named_by_server {
            let urls = command
                .arguments()
                .iter()
                .filter(|word| word.value.contains('/') && !word.value.starts_with('-'));
            files.extend(urls.map(|word| {
                let url = word.value.split(['?', '#']).next().unwrap_or_default();
                (index, base_name(url).to_owned())
            }));
        }
    }
    files.retain(|(_, file)| !file.is_empty() && file != "null" && file != "-" && file.len() <= 128);
    files
}
