// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of marks on subtrees of processes, by the kernel's own statistics.
//!
//! libbpf loads the programs, and this static program doesn't contain libbpf. The daemon doesn't contain the reconstructed
//! programs of other projects. So a program of the crate `bpf` (its example `scopes`) measures and prints lines. [`measurer`]
//! runs it, [`tables`] makes tables of its output, and [`decide`] recommends a depth for each kind of use.

pub(crate) mod decide;
pub(crate) mod measurer;
pub(crate) mod tables;

use std::io;
use std::path::PathBuf;

use serde::Deserialize;

use crate::launch::LaunchError;

/// Why measuring scopes stops.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScopesError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("scopes are measured by root only: the measurement attaches eBPF programs")]
    NotRoot,
    #[error("can't run {}", path.display())]
    Run { path: PathBuf, source: io::Error },
    #[error("{} ended with {status}: {said}", path.display())]
    Ended { path: PathBuf, status: String, said: String },
    #[error("can't understand a line that {} printed: {line:?}", path.display())]
    Line { path: PathBuf, line: String, source: serde_json::Error },
}

/// A line that the measuring program prints.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Line {
    /// The time of a command without any eBPF program, in nanoseconds, for each round.
    Command { by: String, ns: Vec<f64> },
    /// The time of each eBPF program in nanoseconds, for each round.
    Case { who: String, depth: String, load: String, programs: Vec<String>, ns: Vec<Vec<f64>> },
    /// The result for a tree of processes that is larger than the table.
    Tree(Tree),
}

/// What happened to the marks in the tree.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct Tree {
    pub(crate) tree: String,
    pub(crate) table: String,
    pub(crate) entries: u64,
    pub(crate) processes: u64,
    pub(crate) lost: u64,
    pub(crate) root_lost: bool,
    pub(crate) fork_ns: f64,
    pub(crate) bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line: Line = serde_json::from_str(
            r#"{"kind":"case","who":"palisade","depth":"cgroup","load":"marked","programs":["fork","exec"],"ns":[[1.0,2.5],[3,4]]}"#,
        )
        .unwrap();
        assert!(matches!(line, Line::Case { ns, .. } if ns == [[1.0, 2.5], [3.0, 4.0]]));
        let line: Line = serde_json::from_str(
            r#"{"kind":"tree","tree":"deep","table":"hash","entries":256,"processes":900,"lost":1,"root_lost":true,"fork_ns":3,"bytes":9}"#,
        )
        .unwrap();
        assert!(matches!(line, Line::Tree(tree) if tree.root_lost));
        assert!(serde_json::from_str::<Line>(r#"{"kind":"other"}"#).is_err());
    }
}
