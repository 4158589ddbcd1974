// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The launchers that are compared, each with a command line that is as near as possible to Palisade's default.

use std::path::{Path, PathBuf};

use crate::entry::Claim::{self, Namespace, NoReadingOutside, NoWritingOutside, Seccomp};
use crate::entry::{Entry, Missing};
use crate::programs;
use crate::template::Template;

/// A launcher that is supported, installed or not.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    program: &'static str,
    pub(crate) arguments: &'static [&'static str],
    claims: &'static [Claim],
    install: &'static str,
    /// The command that prints its version; empty if there is none.
    version: &'static [&'static str],
}

/// Palisade's own rows: name, arguments, claims. This is the only place that knows its command line.
const PALISADE: [(&str, &[&str], &[Claim]); 2] = [
    (
        "palisade",
        &["run", "--"],
        &[
            Namespace("user"),
            Namespace("pid"),
            Namespace("mnt"),
            Namespace("ipc"),
            Namespace("uts"),
            Namespace("net"),
            Seccomp,
            NoWritingOutside,
            NoReadingOutside,
        ],
    ),
    (
        "palisade, Landlock + seccomp only",
        &["run", "--namespaces", "none", "--protect", "off", "--view", "host", "--"],
        &[Seccomp, NoWritingOutside],
    ),
];

/// Also for `palisade bwrap`.
const BUBBLEWRAP: &[&str] = &[
    "--unshare-all",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
    "--bind",
    "{W}",
    "{W}",
    "--chdir",
    "{W}",
    "{}",
];

pub(crate) const HOW_TO_BUILD: &str =
    "build it with `cargo build --release -p palisade-cli`, or name one with --binary PATH";

const ALL_NAMESPACES: &[Claim] = &[
    Namespace("user"),
    Namespace("pid"),
    Namespace("mnt"),
    Namespace("ipc"),
    Namespace("uts"),
    Namespace("net"),
];
const ALL_NAMESPACES_READ_ONLY: &[Claim] = &[
    Namespace("user"),
    Namespace("pid"),
    Namespace("mnt"),
    Namespace("ipc"),
    Namespace("uts"),
    Namespace("net"),
    NoWritingOutside,
];

/// Every peer, in the order of the tables.
pub(crate) const PEERS: &[Peer] = &[
    Peer {
        name: "bubblewrap",
        program: "bwrap",
        arguments: BUBBLEWRAP,
        claims: ALL_NAMESPACES_READ_ONLY,
        install: "apt install bubblewrap",
        version: &["--version"],
    },
    Peer {
        name: "minijail",
        program: "minijail0",
        arguments: &[
            "-U",
            "-m",
            "-M",
            "-p",
            "-l",
            "-e",
            "-N",
            "--uts",
            "-v",
            "-r",
            "-P",
            "{ROOT}",
            "-b",
            "/usr,/usr",
            "-b",
            "/etc,/etc",
            "-k",
            "proc,/proc,proc,0xe",
            "-k",
            "tmpfs,/tmp,tmpfs,6",
            "-b",
            "{W},{W},1",
            "-T",
            "static",
            "--",
            "{}",
        ],
        claims: ALL_NAMESPACES_READ_ONLY,
        install: "build it from https://google.github.io/minijail",
        version: &[],
    },
    Peer {
        name: "nsjail",
        program: "nsjail",
        arguments: &["-q", "-Mo", "--chroot", "/", "-T", "/tmp", "-B", "{W}:{W}", "--cwd", "{W}", "--", "{}"],
        claims: ALL_NAMESPACES_READ_ONLY,
        install: "build it from https://nsjail.dev",
        version: &[],
    },
    Peer {
        name: "unshare",
        program: "unshare",
        arguments: &["-Urpfmniu", "--mount-proc", "{}"],
        claims: ALL_NAMESPACES,
        install: "apt install util-linux",
        version: &["--version"],
    },
    Peer {
        name: "firejail, default",
        program: "firejail",
        // Without a named profile, firejail would choose one by the program's name, and the row would mean something else for
        // each workload. It mounts /var read-only, and root's working directory is there.
        arguments: &["--quiet", "--profile=default", "--read-write={W}", "{}"],
        claims: &[Namespace("pid"), Namespace("mnt"), Seccomp],
        install: "apt install firejail",
        version: &["--version"],
    },
    Peer {
        name: "firejail, strict",
        program: "firejail",
        arguments: &[
            "--quiet",
            "--noprofile",
            "--private-tmp",
            "--private-dev",
            "--net=none",
            "--seccomp",
            "--caps.drop=all",
            "--nonewprivs",
            "--noroot",
            "--ipc-namespace",
            "--read-only=/usr",
            "--read-only=/etc",
            "--read-write={W}",
            "{}",
        ],
        claims: &[Namespace("pid"), Namespace("mnt"), Namespace("ipc"), Namespace("net"), Seccomp],
        install: "apt install firejail",
        version: &["--version"],
    },
    Peer {
        name: "landrun",
        program: "landrun",
        arguments: &[
            "--best-effort",
            "--rox",
            "/usr",
            "--ro",
            "/etc",
            "--ro",
            "/proc",
            "--rw",
            "/dev",
            "--rwx",
            "/tmp",
            "--rwx",
            "{W}",
            "--env",
            "PATH",
            "--",
            "{}",
        ],
        claims: &[NoWritingOutside, NoReadingOutside],
        install: "go install github.com/zouuup/landrun/cmd/landrun@latest",
        version: &["--version"],
    },
    Peer {
        name: "sandlock",
        program: "sandlock",
        arguments: &[
            "run", "-r", "/usr", "-r", "/etc", "-r", "/proc", "-r", "/lib", "-r", "/lib64", "-r", "/bin",
            "-w", "/dev", "-w", "/tmp", "-w", "{W}", "--", "{}",
        ],
        claims: &[Seccomp, NoWritingOutside, NoReadingOutside],
        install: "cargo install sandlock-cli",
        version: &["--version"],
    },
    Peer {
        name: "crun",
        program: "crun",
        arguments: &["--cgroup-manager=disabled", "run", "--bundle", "{BUNDLE}", "palisade-bench"],
        claims: ALL_NAMESPACES_READ_ONLY,
        install: "apt install crun",
        version: &["--version"],
    },
    Peer {
        name: "runc",
        program: "runc",
        arguments: &["--rootless", "true", "run", "--bundle", "{BUNDLE}", "palisade-bench"],
        claims: ALL_NAMESPACES_READ_ONLY,
        install: "apt install runc",
        version: &["--version"],
    },
    Peer {
        name: "hakoniwa",
        program: "hakoniwa",
        arguments: &["run", "--unshare-all", "--devfs", "/dev", "--tmpfs", "/tmp", "-w", "{W}", "--", "{}"],
        claims: ALL_NAMESPACES_READ_ONLY,
        install: "cargo install hakoniwa-cli",
        version: &["--version"],
    },
    Peer {
        name: "fence",
        program: "fence",
        // With separate words it drops empty ones.
        arguments: &["--settings", "{SETTINGS}", "-c", "exec {}"],
        claims: &[Namespace("pid"), Namespace("mnt"), NoWritingOutside],
        install: "apt install bubblewrap socat; go install github.com/Use-Tusk/fence/cmd/fence@latest",
        version: &["--version"],
    },
    Peer {
        name: "sandbox-runtime",
        program: "srt",
        // With separate words it joins them with spaces.
        arguments: &["--settings", "{SETTINGS}", "-c", "exec {}"],
        claims: &[Namespace("pid"), Namespace("mnt"), NoWritingOutside],
        install: "apt install bubblewrap socat ripgrep; npm install --global @anthropic-ai/sandbox-runtime",
        version: &["--version"],
    },
    Peer {
        name: "greywall",
        program: "greywall",
        arguments: &["--settings", "{SETTINGS}", "--", "{}"],
        claims: &[Namespace("pid"), Namespace("mnt"), NoWritingOutside],
        install: "apt install bubblewrap socat; go install github.com/GreyhavenHQ/greywall/cmd/greywall@latest",
        version: &["--version"],
    },
];

impl Peer {
    /// The entry, if the program is on PATH.
    pub(crate) fn look(&self) -> Result<Entry, Missing> {
        let Some(path) = self.find() else {
            return Err(Missing {
                name: self.name.to_owned(),
                how: format!("`{}` is not on PATH; {}", self.program, self.install),
            });
        };
        Ok(Entry { peer: true, ..entry(self.name, &path, self.arguments, self.claims, self.version) })
    }

    pub(crate) fn find(&self) -> Option<PathBuf> {
        programs::on_path(self.program)
    }
}

/// The ways of protecting names, the default first.
const PROTECTING: [(&str, &[&str]); 3] = [
    ("palisade", &["run", "--"]),
    ("palisade --protect mounts", &["run", "--protect", "mounts", "--"]),
    ("palisade --protect off", &["run", "--protect", "off", "--"]),
];

/// Palisade's rows, or why there are none.
pub(crate) fn palisade(named: Option<&Path>) -> Vec<Result<Entry, Missing>> {
    let as_bubblewrap: Vec<&str> = ["bwrap"].iter().chain(BUBBLEWRAP).copied().collect();
    let [full, in_place] = PALISADE;
    rows(named, &[full, in_place, ("palisade bwrap", &as_bubblewrap, ALL_NAMESPACES_READ_ONLY)])
}

/// Palisade with each way of protecting names.
pub(crate) fn palisade_protecting(named: Option<&Path>) -> Vec<Result<Entry, Missing>> {
    let claims = PALISADE[0].2;
    rows(named, &PROTECTING.map(|(name, arguments)| (name, arguments, claims)))
}

/// Palisade with full isolation and these arguments.
pub(crate) fn palisade_in(named: Option<&Path>, modes: &[(&str, &[&str])]) -> Vec<Result<Entry, Missing>> {
    let claims = PALISADE[0].2;
    let all: Vec<_> = modes.iter().map(|&(name, arguments)| (name, arguments, claims)).collect();
    rows(named, &all)
}

fn rows(named: Option<&Path>, rows: &[(&str, &[&str], &[Claim])]) -> Vec<Result<Entry, Missing>> {
    let path = programs::palisade(named);
    rows.iter()
        .map(|(name, arguments, claims)| match &path {
            Some(path) => Ok(entry(name, path, arguments, claims, &["--version"])),
            None => Err(Missing {
                name: (*name).to_owned(),
                how: match named {
                    Some(named) => format!("{} is not an executable file", named.display()),
                    None => format!("no `palisade` beside this program or on PATH; {HOW_TO_BUILD}"),
                },
            }),
        })
        .collect()
}

fn entry(name: &str, program: &Path, arguments: &[&str], claims: &[Claim], version: &[&str]) -> Entry {
    let program = program.to_string_lossy();
    let words: Vec<&str> = std::iter::once(program.as_ref()).chain(arguments.iter().copied()).collect();
    let asks = |words: &[&str]| {
        std::iter::once(program.as_ref()).chain(words.iter().copied()).map(str::to_owned).collect()
    };
    Entry {
        name: name.to_owned(),
        template: Template::of(&words),
        claims: claims.to_vec(),
        version: if version.is_empty() { Vec::new() } else { asks(version) },
        peer: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_palisade_is_named_with_what_to_do() {
        for row in palisade(Some(Path::new("/no/such/palisade"))) {
            assert!(row.unwrap_err().how.contains("/no/such/palisade is not an executable file"));
        }
    }

    #[test]
    fn a_missing_peer_is_named_with_how_to_install_it() {
        let peer = Peer {
            name: "absent",
            program: "no-such-launcher",
            arguments: &[],
            claims: &[],
            install: "apt install absent",
            version: &[],
        };
        assert_eq!(peer.look().unwrap_err().how, "`no-such-launcher` is not on PATH; apt install absent");
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> =
            PEERS.iter().map(|peer| peer.name).chain(PALISADE.iter().map(|row| row.0)).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
