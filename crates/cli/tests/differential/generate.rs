// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generates random scripts. Each has a few names, calls and flags of its own, so that the same ones meet often.
//!
//! The generator knows no difference: it draws calls, flags, paths and numbers independently from lists of what exists.

use super::script::Script;
use crate::explorer::random::Random;

/// Each call, how often it is drawn, and its arguments: lists below, or words that `Generator::argument` knows.
const CALLS: &[(&str, usize, &str)] = &[
    ("open", 6, "path open mode"),
    ("openat", 6, "at path open mode"),
    ("creat", 3, "path mode"),
    ("openat2", 1, "at path how"),
    ("truncate", 3, "path length"),
    ("mkdir", 4, "path mode"),
    ("mkdirat", 2, "at path mode"),
    ("mknod", 2, "path node"),
    ("mknodat", 2, "at path node"),
    ("symlink", 3, "text path"),
    ("symlinkat", 2, "text at path"),
    ("link", 3, "path path"),
    ("linkat", 3, "at path at path at_flags"),
    ("rename", 4, "path path"),
    ("renameat", 2, "at path at path"),
    ("renameat2", 3, "at path at path rename_flags"),
    ("unlink", 3, "path"),
    ("rmdir", 2, "path"),
    ("unlinkat", 3, "at path at_flags"),
    ("chmod", 3, "path mode"),
    ("fchmod", 3, "fd mode"),
    ("fchmodat", 2, "at path mode"),
    ("fchmodat2", 2, "at path mode at_flags"),
    ("chown", 2, "path id id"),
    ("lchown", 2, "path id id"),
    ("fchown", 2, "fd id id"),
    ("fchownat", 2, "at path id id at_flags"),
    ("setxattr", 2, "path attribute value xattr_flags"),
    ("lsetxattr", 2, "path attribute value xattr_flags"),
    ("fsetxattr", 2, "fd attribute value xattr_flags"),
    ("removexattr", 2, "path attribute"),
    ("lremovexattr", 2, "path attribute"),
    ("fremovexattr", 2, "fd attribute"),
    ("utime", 2, "path seconds"),
    ("utimes", 2, "path seconds"),
    ("futimesat", 2, "at path seconds"),
    ("utimensat", 2, "at path times at_flags"),
    ("bind", 3, "fd address"),
    ("connect", 3, "fd address"),
    ("umask", 1, "mode"),
    ("getxattr", 1, "path attribute size"),
    ("lgetxattr", 1, "path attribute size"),
    ("fgetxattr", 1, "fd attribute size"),
    ("listxattr", 1, "path size"),
    ("flistxattr", 1, "fd size"),
    ("access", 1, "path access"),
    ("faccessat", 1, "at path access"),
    ("faccessat2", 1, "at path access at_flags"),
    ("stat", 1, "path"),
    ("lstat", 1, "path"),
    ("fstat", 1, "fd"),
    ("newfstatat", 1, "at path at_flags"),
    ("statx", 1, "at path at_flags statx"),
    ("readlink", 1, "path size"),
    ("readlinkat", 1, "at path size"),
    ("chdir", 1, "path"),
    ("fchdir", 1, "fd"),
    ("getcwd", 1, "size"),
    ("getdents64", 1, "fd size"),
    ("read", 2, "fd size"),
    ("pread64", 1, "fd size length"),
    ("write", 3, "fd value"),
    ("pwrite64", 1, "fd value length"),
    ("lseek", 1, "fd length whence"),
    ("ftruncate", 2, "fd length"),
    ("fallocate", 1, "fd fallocate small small"),
    ("fsync", 1, "fd"),
    ("dup", 1, "fd"),
    ("dup2", 1, "fd fd"),
    ("dup3", 1, "fd fd cloexec"),
    ("close", 3, "fd"),
    ("close_range", 1, "first_last close_range"),
    ("fcntl", 2, "fd fcntl"),
    ("flock", 1, "fd flock"),
    ("pipe", 1, ""),
    ("pipe2", 1, "pipe_flags"),
    ("sendfile", 1, "fd fd small"),
    ("copy_file_range", 1, "fd fd small 0"),
    ("memfd_create", 1, "text memfd_flags"),
    ("eventfd2", 1, "small cloexec"),
    ("socket", 3, "family type 0"),
    ("socketpair", 1, "family type 0"),
    ("listen", 1, "fd backlog"),
    ("accept4", 1, "fd socket_flags"),
    ("getsockname", 1, "fd"),
    ("getpeername", 1, "fd"),
    ("shutdown", 1, "fd shutdown"),
    ("sendto", 2, "fd value message_flags address"),
    ("recvfrom", 1, "fd size message_flags"),
    ("kill", 1, "self signal"),
    ("tgkill", 1, "self self signal"),
    ("rt_sigprocmask", 1, "sigprocmask signals"),
    ("rt_sigpending", 1, ""),
    ("rt_sigaction", 1, "signal handling"),
    ("rt_sigtimedwait", 1, "signals 0.0"),
    ("prlimit64", 1, "limit"),
    ("setrlimit", 1, "limit"),
    ("getrlimit", 1, "resource"),
];
/// What makes descriptors: a script begins with some.
const FIRST: &[&str] =
    &["open", "open", "open", "openat", "creat", "socket", "socket", "socketpair", "pipe2", "memfd_create"];
/// Calls of a script.
const OWN_CALLS: usize = 22;

/// One of these is drawn.
const ONE: &[(&str, &[&str])] = &[
    ("length", &["0", "1", "5", "4096", "70000", "-1", "0x10000000000"]),
    ("small", &["0", "1", "3", "5", "4096"]),
    ("size", &["0", "1", "3", "64", "64", "4096", "4096", "BAD"]),
    ("whence", &["SEEK_SET", "SEEK_CUR", "SEEK_END", "SEEK_DATA", "SEEK_HOLE", "9"]),
    ("id", &["-1", "-1", "self_id", "0", "1", "12345"]),
    (
        "attribute",
        &[
            "'user.a'",
            "'user.a'",
            "'user.a'",
            "'user.a'",
            "'user.b'",
            "'user.b'",
            "'user.'",
            "'trusted.a'",
            "'security.a'",
            "'a'",
            "''",
            "BAD",
        ],
    ),
    ("value", &["'one'", "'one'", "'other-value'", "'other-value'", "''", "BAD"]),
    ("seconds", &["1000000001.5", "1000000002.0,1000000003.7", "0", "NULL", "1.2000000", "BAD"]),
    (
        "times",
        &["1000000001.5", "1000000002.0,now", "omit,1000000003.7", "now", "omit", "NULL", "1.2000000", "BAD"],
    ),
    ("access", &["0", "R_OK", "W_OK", "X_OK", "R_OK|W_OK", "64"]),
    ("statx", &["STATX_BASIC_STATS"]),
    ("cloexec", &["0", "O_CLOEXEC", "O_APPEND"]),
    ("close_range", &["0", "CLOSE_RANGE_CLOEXEC", "1"]),
    ("flock", &["LOCK_SH|LOCK_NB", "LOCK_EX|LOCK_NB", "LOCK_UN|LOCK_NB"]),
    ("family", &["AF_UNIX", "AF_UNIX", "AF_UNIX", "AF_INET"]),
    ("backlog", &["16", "128"]),
    ("shutdown", &["SHUT_RD", "SHUT_WR", "SHUT_RDWR", "7"]),
    (
        "signal",
        &["SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "SIGXFSZ", "SIGIO", "SIGTERM", "SIGURG", "0", "65"],
    ),
    ("sigprocmask", &["SIG_BLOCK", "SIG_UNBLOCK", "SIG_SETMASK", "9"]),
    ("handling", &["handler", "ignore", "handler,SA_RESTART", "handler,SA_NODEFER", "NULL", "BAD"]),
    ("resource", &["RLIMIT_NOFILE", "RLIMIT_FSIZE"]),
];

/// Flags of which any set may be drawn, and one unknown flag.
const SOME: &[(&str, &[&str])] = &[
    (
        "at_flags",
        &["AT_SYMLINK_NOFOLLOW", "AT_SYMLINK_FOLLOW", "AT_EMPTY_PATH", "AT_REMOVEDIR", "AT_NO_AUTOMOUNT"],
    ),
    ("rename_flags", &["RENAME_NOREPLACE", "RENAME_EXCHANGE", "RENAME_WHITEOUT"]),
    ("xattr_flags", &["XATTR_CREATE", "XATTR_REPLACE"]),
    ("fallocate", &["FALLOC_FL_KEEP_SIZE", "FALLOC_FL_PUNCH_HOLE"]),
    ("pipe_flags", &["O_CLOEXEC", "O_NONBLOCK", "O_DIRECT"]),
    ("memfd_flags", &["MFD_CLOEXEC", "MFD_ALLOW_SEALING"]),
    ("socket_flags", &["SOCK_NONBLOCK", "SOCK_CLOEXEC"]),
    ("message_flags", &["MSG_DONTWAIT", "MSG_PEEK", "MSG_NOSIGNAL", "MSG_TRUNC"]),
    (
        "resolve",
        &[
            "RESOLVE_NO_SYMLINKS",
            "RESOLVE_BENEATH",
            "RESOLVE_IN_ROOT",
            "RESOLVE_NO_MAGICLINKS",
            "RESOLVE_NO_XDEV",
        ],
    ),
    ("signals", &["SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "SIGXFSZ", "SIGTERM", "SIGSYS"]),
    ("special", &["S_ISUID", "S_ISGID", "S_ISVTX"]),
    ("status", &["O_APPEND", "O_NONBLOCK", "O_NOATIME", "O_ASYNC"]),
];
const UNKNOWN: &str = "0x40000000";

const ACCESS_MODES: &[&str] = &["O_RDONLY", "O_RDONLY", "O_WRONLY", "O_RDWR", "O_RDWR", "O_WRONLY|O_RDWR"];
const OPEN: &[&str] = &[
    "O_CREAT",
    "O_EXCL",
    "O_NOCTTY",
    "O_TRUNC",
    "O_APPEND",
    "O_NONBLOCK",
    "O_DSYNC",
    "O_SYNC",
    "O_DIRECT",
    "O_NOATIME",
    "O_CLOEXEC",
    "O_DIRECTORY",
    "O_NOFOLLOW",
    "O_PATH",
    "O_LARGEFILE",
    "__O_TMPFILE",
    "O_TMPFILE",
    "O_ASYNC",
    UNKNOWN,
];
const NODES: &[&str] =
    &["S_IFREG", "S_IFREG", "S_IFIFO", "S_IFIFO", "S_IFSOCK", "S_IFCHR", "S_IFDIR", "S_IFLNK", "0"];
const TYPES: &[&str] = &["SOCK_STREAM", "SOCK_STREAM", "SOCK_DGRAM", "SOCK_SEQPACKET", "SOCK_RAW"];
const NAMES: &[&str] = &["a", "b", "c", "d", "e"];
const PERMISSIONS: &[&str] =
    &["0755", "0644", "0777", "0600", "0700", "0444", "0500", "0300", "0111", "0000"];
const DESCRIPTORS: &[(&str, usize)] = &[
    ("3", 26),
    ("4", 16),
    ("5", 9),
    ("6", 6),
    ("7", 4),
    ("8", 2),
    ("12", 1),
    ("0", 6),
    ("1", 2),
    ("2", 1),
    ("20", 1),
    ("-1", 1),
];
const COMMANDS: &[(&str, &str)] = &[
    ("F_DUPFD", "fd"),
    ("F_DUPFD_CLOEXEC", "fd"),
    ("F_GETFD", "0"),
    ("F_SETFD", "FD_CLOEXEC"),
    ("F_GETFL", "0"),
    ("F_SETFL", "status"),
    ("F_GETPIPE_SZ", "0"),
    ("F_GET_SEALS", "0"),
    ("F_ADD_SEALS", "F_SEAL_WRITE"),
    ("F_ADD_SEALS", "F_SEAL_GROW"),
    ("77", "0"),
];
const LIMITS: &[&str] = &[
    "RLIMIT_NOFILE 3",
    "RLIMIT_NOFILE 4",
    "RLIMIT_NOFILE 5",
    "RLIMIT_NOFILE 7",
    "RLIMIT_NOFILE 64",
    "RLIMIT_FSIZE 0",
    "RLIMIT_FSIZE 4",
    "RLIMIT_FSIZE 100",
    "RLIMIT_FSIZE -1",
];

struct Generator {
    random: Random,
    names: Vec<&'static str>,
    calls: Vec<(usize, usize)>,
    open: Vec<&'static str>,
    /// Of a hundred paths, so many are spelled in an odd way.
    odd: usize,
    owner: u32,
}

/// Script `number` of `seed`, for a user with this number.
pub(super) fn script(seed: u64, number: u64, owner: u32) -> Script {
    let mut random = Random::new(seed, number);
    let names = (0..2 + random.below(3)).map(|_| random.pick(NAMES)).collect();
    let weights: Vec<(usize, usize)> = CALLS.iter().map(|call| call.1).enumerate().collect();
    let calls = (0..OWN_CALLS).map(|_| (random.weighted(&weights), 1)).chain([(0, 2), (1, 2)]).collect();
    let open = OPEN.iter().copied().filter(|_| random.chance(40)).collect();
    let odd = random.pick(&[5, 20, 50]);
    let mut generator = Generator { random, names, calls, open, odd, owner };
    let tree = generator.tree();
    let count = 12 + generator.random.below(24);
    let mut calls = generator.first_calls();
    calls.extend((0..count).map(|_| generator.any_call()));
    Script { tree, calls }
}

impl Generator {
    fn tree(&mut self) -> Vec<String> {
        let mut tree: Vec<String> = Vec::new();
        let mut directories = vec![String::new()];
        for _ in 0..4 + self.random.below(6) {
            let at = self.random.below(directories.len());
            let path = format!("{}{}", directories[at], self.random.pick(&self.names));
            if tree.iter().any(|entry| entry.split(' ').nth(2) == Some(&path)) {
                continue;
            }
            let mode = self.random.pick(PERMISSIONS);
            tree.push(match self.random.below(10) {
                0..=3 => {
                    directories.push(format!("{path}/"));
                    let mode = if self.random.chance(75) { "0755" } else { mode };
                    format!("directory {mode} {path}")
                }
                4..=7 => {
                    let mode = if self.random.chance(60) { "0644" } else { mode };
                    format!("file {mode} {path}")
                }
                8 => format!("fifo 0644 {path}"),
                _ => format!("link {} {path}", self.link_text()),
            });
        }
        tree
    }

    /// What makes descriptors, often all of a kind.
    fn first_calls(&mut self) -> Vec<String> {
        let (one, alike) = (self.random.pick(FIRST), self.random.chance(40));
        let count = 1 + self.random.below(4);
        let names: Vec<&str> =
            (0..count).map(|_| if alike { one } else { self.random.pick(FIRST) }).collect();
        let places = names.into_iter().filter_map(|name| CALLS.iter().position(|call| call.0 == name));
        places.map(|call| self.call(call)).collect()
    }

    fn any_call(&mut self) -> String {
        let calls = std::mem::take(&mut self.calls);
        let call = self.random.weighted(&calls);
        self.calls = calls;
        self.call(call)
    }

    fn call(&mut self, call: usize) -> String {
        let (name, _, arguments) = CALLS[call];
        let mut call = name.to_owned();
        for argument in arguments.split_whitespace() {
            call.push(' ');
            call.push_str(&self.argument(argument));
        }
        call
    }

    fn argument(&mut self, kind: &str) -> String {
        let one = ONE.iter().find(|(name, _)| *name == kind);
        if let Some((_, list)) = one {
            let drawn = self.random.pick(list);
            return if drawn == "self_id" { self.owner.to_string() } else { drawn.to_owned() };
        }
        if let Some((_, list)) = SOME.iter().find(|(name, _)| *name == kind) {
            // Each flag of these goes with some calls alone.
            return self.some(list, if kind == "at_flags" { 9 } else { 25 });
        }
        match kind {
            "path" => self.path(),
            "text" => format!("'{}'", self.link_text()),
            "fd" => self.random.weighted(DESCRIPTORS).to_owned(),
            "at" if self.random.chance(65) => "AT_FDCWD".to_owned(),
            "at" => self.random.weighted(DESCRIPTORS).to_owned(),
            "open" => self.open_flags(),
            "how" => format!("{},{}", self.open_flags(), self.argument("resolve")),
            "mode" => self.mode(),
            "node" => format!("{}|{}", self.random.pick(NODES), self.mode()),
            "type" => {
                let own = self.random.pick(TYPES);
                format!("{own}|{}", self.some(&["SOCK_NONBLOCK", "SOCK_CLOEXEC"], 20))
            }
            "fcntl" => {
                let (command, argument) = self.random.pick(COMMANDS);
                format!("{command} {}", self.argument(argument))
            }
            "first_last" => format!("{} {}", 3 + self.random.below(5), 2 + self.random.below(12)),
            "limit" => self.random.pick(LIMITS).to_owned(),
            "address" => match self.random.below(12) {
                0 => "none".to_owned(),
                1 => "unnamed".to_owned(),
                2 | 3 => "internet".to_owned(),
                4 | 5 => format!("@'%/{}'", self.random.pick(&self.names)),
                _ => self.path(),
            },
            other => other.to_owned(),
        }
    }

    /// Some of a list, each with this percentage.
    fn some(&mut self, list: &[&'static str], percent: usize) -> String {
        let mut drawn: Vec<&str> = list.iter().copied().filter(|_| self.random.chance(percent)).collect();
        if self.random.chance(1) {
            drawn.push(UNKNOWN);
        }
        if drawn.is_empty() { "0".to_owned() } else { drawn.join("|") }
    }

    fn open_flags(&mut self) -> String {
        let access = self.random.pick(ACCESS_MODES);
        let open = std::mem::take(&mut self.open);
        let flags = self.some(&open, 20);
        self.open = open;
        if flags == "0" { access.to_owned() } else { format!("{access}|{flags}") }
    }

    fn mode(&mut self) -> String {
        let permissions = self.random.pick(PERMISSIONS);
        let special = self.argument_of_special();
        if special == "0" { permissions.to_owned() } else { format!("{permissions}|{special}") }
    }

    fn argument_of_special(&mut self) -> String {
        if self.random.chance(12) { self.argument("special") } else { "0".to_owned() }
    }

    fn link_text(&mut self) -> String {
        match self.random.below(10) {
            0 => "..".to_owned(),
            1 => format!("%/{}", self.random.pick(&self.names)),
            2 => ".".to_owned(),
            _ => self.relative(),
        }
    }

    /// Names with slashes between them, and one `..` at most, so that few paths lead out of the tree.
    fn relative(&mut self) -> String {
        let mut parts: Vec<&str> =
            (0..self.random.pick(&[1, 1, 1, 1, 1, 2, 2, 3])).map(|_| self.random.pick(&self.names)).collect();
        if self.random.chance(self.odd / 2) {
            let at = self.random.below(parts.len() + 1);
            parts.insert(at, self.random.pick(&[".", "..", ""]));
        }
        if parts.first() == Some(&"") {
            parts[0] = ".";
        }
        parts.join("/")
    }

    fn path(&mut self) -> String {
        if !self.random.chance(self.odd) {
            return format!("'{}'", self.relative());
        }
        let relative = self.relative();
        let path = match self.random.below(16) {
            0..=4 => format!("%/{relative}"),
            5 | 6 => format!("{relative}/"),
            7 => format!("/proc/self/fd/{}", self.random.weighted(DESCRIPTORS)),
            8 => format!("/proc/self/fd/{}/{relative}", self.random.weighted(DESCRIPTORS)),
            9 => self.random.pick(&[".", "..", "%", "/dev/null", "/proc/self/cwd"]).to_owned(),
            10 | 13 => String::new(),
            11 if self.random.chance(50) => return self.random.pick(&["NULL", "BAD"]).to_owned(),
            12 if self.random.chance(30) => "x".repeat(256),
            _ => relative,
        };
        format!("'{path}'")
    }
}
