// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The variables that are removed unless a policy keeps them: secrets, variables that make programs load other code
//! first, and addresses of sockets on the host.

/// Exact names, sorted for binary search.
const EXACT: &[&str] = &[
    // Shells and interpreters execute these files before anything else.
    "BASH_ENV",
    "CONTAINER_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "ENV",
    // It tunes the allocator and the dynamic linker of every program, including privileged ones (CVE-2023-4911).
    "GLIBC_TUNABLES",
    "GNOME_KEYRING_CONTROL",
    "GPG_AGENT_INFO",
    "I3SOCK",
    "ICEAUTHORITY",
    "JOURNAL_STREAM",
    "KITTY_LISTEN_ON",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "MANAGERPID",
    "NOTIFY_SOCKET",
    "NVIM",
    // A file of the host. A launch that tells programs inside sets it to theirs.
    "PALISADE_REFUSALS",
    "PULSE_SERVER",
    "PYTHONSTARTUP",
    "SESSION_MANAGER",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "STY",
    "SWAYSOCK",
    "TMUX",
    "TMUX_PANE",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "WAYLAND_DISPLAY",
    "WAYLAND_SOCKET",
    "XAUTHORITY",
    "ZELLIJ",
];

/// Names that match a pattern below and contain no secret.
const HARMLESS: &[&str] = &["AWS_CA_BUNDLE", "AWS_DEFAULT_REGION", "AWS_REGION"];

/// Where a word must stand in the name. Letters are compared without case: tools also read `npm_config__password` and
/// `github_token`.
enum Place {
    Front,
    Back,
}

/// Patterns with one star: the form that is shown, the word, and its place.
const EDGES: &[(&str, &[u8], Place)] = &[
    ("LD_*", b"LD_", Place::Front),
    ("AWS_*", b"AWS_", Place::Front),
    ("VSCODE_IPC_HOOK*", b"VSCODE_IPC_HOOK", Place::Front),
    ("*_TOKEN", b"_TOKEN", Place::Back),
    ("*_KEY", b"_KEY", Place::Back),
    ("*_PASS", b"_PASS", Place::Back),
    ("*_PAT", b"_PAT", Place::Back),
    ("*_PWD", b"_PWD", Place::Back),
];

/// Words that match anywhere in the name.
const INSIDE: &[(&str, &[u8])] = &[
    ("*SECRET*", b"SECRET"),
    ("*PASSWORD*", b"PASSWORD"),
    ("*PASSWD*", b"PASSWD"),
    ("*PASSPHRASE*", b"PASSPHRASE"),
    ("*CREDENTIAL*", b"CREDENTIAL"),
];

/// One bit for the first letter of each word of [`INSIDE`], by the five bits that are equal in the small and the
/// capital letter. One test replaces a comparison with each word at each position, which took most of the filter's
/// time.
const FIRST_LETTERS: u32 = {
    let (mut bits, mut at) = (0, 0);
    while at < INSIDE.len() {
        bits |= 1 << (INSIDE[at].1[0] & 31);
        at += 1;
    }
    bits
};

impl Place {
    fn holds(&self, word: &[u8], name: &[u8]) -> bool {
        let part = match self {
            Self::Front => name.get(..word.len()),
            Self::Back => name.len().checked_sub(word.len()).map(|at| &name[at..]),
        };
        part.is_some_and(|part| part.eq_ignore_ascii_case(word))
    }
}

fn inside(name: &[u8]) -> Option<&'static str> {
    for (at, byte) in name.iter().enumerate() {
        if FIRST_LETTERS >> (byte & 31) & 1 == 0 {
            continue;
        }
        let rest = &name[at..];
        for (shown, word) in INSIDE {
            if Place::Front.holds(word, rest) {
                return Some(shown);
            }
        }
    }
    None
}

/// The entry of the list that removes `name`, if there is one.
pub(super) fn removes(name: &[u8]) -> Option<&'static str> {
    if let Ok(at) = EXACT.binary_search_by(|entry| entry.as_bytes().cmp(name)) {
        return Some(EXACT[at]);
    }
    if HARMLESS.iter().any(|harmless| harmless.as_bytes() == name) {
        return None;
    }
    EDGES
        .iter()
        .find(|(_, word, place)| place.holds(word, name))
        .map(|(shown, _, _)| *shown)
        .or_else(|| inside(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(EXACT.is_sorted());
    }

    #[test]
    fn secrets_loaders_and_sockets_go() {
        let removed = [
            ("LD_PRELOAD", "LD_*"),
            ("GITHUB_TOKEN", "*_TOKEN"),
            ("github_token", "*_TOKEN"),
            ("OPENAI_API_KEY", "*_KEY"),
            ("MY_SECRETS", "*SECRET*"),
            ("npm_config__password", "*PASSWORD*"),
            ("MYSQL_PASSWD", "*PASSWD*"),
            ("MYSQL_PWD", "*_PWD"),
            ("GH_PAT", "*_PAT"),
            ("DB_PASS", "*_PASS"),
            ("BORG_PASSPHRASE", "*PASSPHRASE*"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "*CREDENTIAL*"),
            ("AWS_PROFILE", "AWS_*"),
            ("BASH_ENV", "BASH_ENV"),
            ("SSH_AUTH_SOCK", "SSH_AUTH_SOCK"),
            ("VSCODE_IPC_HOOK_CLI", "VSCODE_IPC_HOOK*"),
        ];
        for (name, entry) in removed {
            assert_eq!(removes(name.as_bytes()), Some(entry), "{name}");
        }
        for name in
            ["AWS_REGION", "PWD", "OLDPWD", "COMPASS", "PATH", "HOME", "TERM", "KEYBOARD", "env", "", "LANG"]
        {
            assert_eq!(removes(name.as_bytes()), None, "{name}");
        }
    }
}
