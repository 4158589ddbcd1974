// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What has happened to directories in this launch: which were made, and which were somebody else's.

use std::collections::BTreeSet;

/// More directories than this aren't remembered; what is made later doesn't count as made inside.
const REMEMBERED: usize = 1 << 18;

/// Directories, by their path on the host.
#[derive(Default)]
pub(crate) struct History {
    /// Made in this sandbox where nothing had been before; only the uppermost.
    made: BTreeSet<Vec<u8>>,
    /// Paths at which there was a directory of somebody else's, moved or removed since. What is
    /// put there is taken for the old one by people and programs that trust the path.
    vacated: BTreeSet<Vec<u8>>,
}

pub(crate) fn is_below(path: &[u8], root: &[u8]) -> bool {
    match path.strip_prefix(root) {
        Some(rest) => rest.is_empty() || rest.first() == Some(&b'/') || root == b"/",
        None => false,
    }
}

/// `path`, then all that lie above it.
pub(crate) fn upwards(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    core::iter::successors(Some(path), |path| {
        let end = path.iter().rposition(|byte| *byte == b'/')?;
        (end > 0).then(|| &path[..end])
    })
}

impl History {
    /// Whether a path, or what it lies in, was made here.
    pub(crate) fn is_made(&self, path: &[u8]) -> bool {
        !self.made.is_empty() && upwards(path).any(|path| self.made.contains(path))
    }

    /// Whether there was a directory of somebody else's.
    pub(crate) fn is_vacated(&self, path: &[u8]) -> bool {
        self.vacated.contains(path)
    }

    /// A directory was made.
    pub(crate) fn made(&mut self, path: Vec<u8>) {
        if !self.is_made(&path) && !self.vacated.contains(&path) && self.made.len() < REMEMBERED {
            self.made.insert(path);
        }
    }

    /// A directory was removed.
    pub(crate) fn removed(&mut self, path: Vec<u8>) {
        if !self.made.remove(&path) && !self.is_made(&path) {
            self.vacate(path);
        }
    }

    /// A directory was moved; `None` stands for places that nobody else sees.
    pub(crate) fn moved(&mut self, from: Option<&[u8]>, to: Option<Vec<u8>>) {
        let was_made = from.is_none_or(|from| self.is_made(from));
        let mut below = Vec::new();
        if let Some(from) = from {
            if was_made {
                self.made.remove(from);
            } else {
                self.vacate(from.to_vec());
            }
            // Directories made below the one that moved.
            let with_it = self.made.range(from.to_vec()..).take_while(|path| path.starts_with(from));
            below = with_it.filter(|path| is_below(path, from)).cloned().collect();
            self.made.retain(|path| !below.contains(path));
        }
        let Some(to) = to else { return };
        for path in below {
            let rest = path.get(from.map_or(0, <[u8]>::len)..).unwrap_or_default();
            self.made.insert([&to, rest].concat());
        }
        if was_made {
            self.made(to);
        }
    }

    /// A directory has changed places with another.
    pub(crate) fn exchanged(&mut self, path: Vec<u8>) {
        self.made.retain(|made| !is_below(made, &path));
        self.vacate(path);
    }

    fn vacate(&mut self, path: Vec<u8>) {
        if self.vacated.len() >= REMEMBERED {
            // Rather nothing counts as made inside any more than that a trusted path is taken over.
            self.made.clear();
        }
        self.vacated.insert(path);
    }
}
