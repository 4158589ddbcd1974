// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The launchers in which each workload runs, and which modes of other sandboxes are comparable.

use std::net::SocketAddr;
use std::path::Path;

use crate::entry::{Claim, Entry, Missing};
use crate::peers::{self, PEERS};
use crate::template::Template;

/// Without a network; with a filtered network; and with a filtered network and a final report of what was missed.
pub(crate) const NONE: &str = "palisade --net none";
pub(crate) const FILTERED: &str = "palisade --allow example.com";
pub(crate) const TRACED: &str = "palisade --allow example.com --trace";

/// The peers that are sandboxes for agents, each with the option that switches its monitor on, if it has one.
const AGENTS: [(&str, Option<&str>); 3] =
    [("greywall", Some("-m")), ("fence", Some("-m")), ("sandbox-runtime", None)];

/// What the reader should know before comparing.
pub(crate) const NOTES: [&str; 5] = [
    "factors are medians of ratios to the plain run of the same round; Greywall's own script divides means",
    "greywall, fence and srt always start their proxies: their nearest row is `palisade --allow example.com`",
    "-m (greywall, fence) prints denials while they happen; --trace lists at the end what was looked for and \
     is only on the host: near, and not the same",
    "published figures are of Greywall's document (215 ms and so on), measured on its CI machine",
    "network tables: user+sys and max are those of the sandbox's own processes, without the client, read from \
     /proc; connections ask a loopback server of the bench, which is on the same processors",
];

/// The rows: three modes of Palisade, and the peers with their monitor off and on.
pub(crate) fn all(binary: Option<&Path>) -> Vec<Result<Entry, Missing>> {
    let modes: [(&str, &[&str]); 3] = [
        (NONE, &["run", "--net", "none", "--"]),
        (FILTERED, &["run", "--allow", "example.com", "--"]),
        (TRACED, &["run", "--allow", "example.com", "--trace", "--"]),
    ];
    let mut rows = peers::palisade_in(binary, &modes);
    for (name, monitor) in AGENTS {
        let Some(peer) = PEERS.iter().find(|peer| peer.name == name) else { continue };
        rows.push(peer.look());
        if let (Some(monitor), Some(path)) = (monitor, peer.find()) {
            let words: Vec<&str> = std::iter::once(monitor).chain(peer.arguments.iter().copied()).collect();
            rows.push(Ok(with(&path, &format!("{name} {monitor}"), &words)));
        }
    }
    rows
}

/// The rows for a workload that connects to a port of the host's loopback; and the launchers that aren't comparable.
pub(crate) fn reaching(binary: Option<&Path>, server: SocketAddr) -> (Vec<Entry>, Vec<Missing>) {
    let port = server.port().to_string();
    let filtered = ["run", "--allow", "example.com", "--reach", &port, "--"];
    let traced = ["run", "--allow", "example.com", "--reach", &port, "--trace", "--"];
    let modes: [(&str, &[&str]); 2] = [(FILTERED, &filtered), (TRACED, &traced)];
    // `all` reports a missing palisade already.
    let mut entries: Vec<Entry> = peers::palisade_in(binary, &modes).into_iter().flatten().collect();
    let mut missing = Vec::new();
    let mut incomparable = |name: &str, why: &str| {
        missing.push(Missing { name: format!("curl in {name}"), how: format!("not comparable: {why}") });
    };
    incomparable(NONE, "there is no network");
    for (name, _) in AGENTS {
        let found = PEERS.iter().find(|peer| peer.name == name).and_then(peers::Peer::find);
        match (name, found) {
            ("greywall", Some(path)) => {
                entries.push(with(&path, name, &["--settings", "{SETTINGS}", "-f", &port, "--", "{}"]));
                entries.push(with(
                    &path,
                    "greywall -m",
                    &["-m", "--settings", "{SETTINGS}", "-f", &port, "--", "{}"],
                ));
            }
            (name, Some(_)) => incomparable(name, "on Linux it offers no port of the host's loopback"),
            (_, None) => {}
        }
    }
    (entries, missing)
}

fn with(program: &Path, name: &str, arguments: &[&str]) -> Entry {
    let program = program.to_string_lossy();
    let words: Vec<&str> = std::iter::once(program.as_ref()).chain(arguments.iter().copied()).collect();
    Entry {
        name: name.to_owned(),
        template: Template::of(&words),
        claims: vec![Claim::Namespace("pid"), Claim::Namespace("mnt"), Claim::NoWritingOutside],
        version: Vec::new(),
        peer: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_and_no_failure() {
        let rows = all(Some(Path::new("/no/such/palisade")));
        let missing: Vec<String> = rows.into_iter().filter_map(|row| Some(row.err()?.name)).collect();
        for name in [NONE, FILTERED, TRACED] {
            assert!(missing.iter().any(|missing| missing == name), "{missing:?}");
        }
    }

    #[test]
    fn a_port_is_reached_and_no_network_is_not_comparable() {
        let (entries, missing) = reaching(Some(Path::new("/bin/sh")), "127.0.0.1:4711".parse().unwrap());
        assert_eq!((entries[0].name.as_str(), entries[1].name.as_str()), (FILTERED, TRACED));
        assert!(missing[0].how.starts_with("not comparable"), "{missing:?}");
    }
}
