// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What marks on subtrees of processes cost, by the kernel's own statistics.
//!
//! Programs are loaded by libbpf, which this static program doesn't have, and what others do, rebuilt, has no place in the daemon. So
//! a program of the crate `bpf` measures (its example `scopes`) and prints lines; [`measurer`] runs it, [`tables`] makes tables of
//! what it says, [`decide`] says which depth is for whom.

pub(crate) mod decide;
pub(crate) mod measurer;
pub(crate) mod tables;

use std::io;
use std::path::PathBuf;

use serde::Deserialize;

use crate::launch::LaunchError;

/// What ends the measuring of scopes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScopesError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("scopes are measured by root only: eBPF programs are attached for that")]
    NotRoot,
    #[error("can't run {}", path.display())]
    Run { path: PathBuf, source: io::Error },
    #[error("{} ended with {status}: {said}", path.display())]
    Ended { path: PathBuf, status: String, said: String },
    #[error("{} says what isn't understood: {line:?}", path.display())]
    Line { path: PathBuf, line: String, source: serde_json::Error },
}

/// What is measured: a line of the measuring program.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Line {
    /// A command without any program, nanoseconds a round.
    Command { by: String, ns: Vec<f64> },
    /// Nanoseconds of each program, round by round.
    Case { who: String, depth: String, load: String, programs: Vec<String>, ns: Vec<Vec<f64>> },
    /// A tree of processes that is larger than the table.
    Tree(Tree),
}

/// What became of its marks.
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
