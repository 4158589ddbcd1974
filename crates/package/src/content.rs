// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the content of a package, in the order of its files. Each piece is checked before it is unpacked.

use super::error::PackageError;
use super::manifest::{Block, Manifest};
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// How many pieces are worked on at once.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(16)
}

/// Applies `each` to every item, on all processors. The results are in the order of the items.
pub(super) fn in_parallel<T: Sync, R: Send>(all: &[T], each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let share = all.len().div_ceil(processors()).max(1);
    let each = &each;
    std::thread::scope(|scope| {
        let threads: Vec<_> = all
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(each).collect::<Vec<R>>()))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<R>>| match thread.join() {
            Ok(answers) => answers,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().flat_map(join).collect()
    })
}

/// The content of a package, from its beginning to its end.
pub(super) struct Content<'p> {
    file: &'p File,
    left: &'p [Block],
    at: u64,
    ready: VecDeque<Vec<u8>>,
    /// How much of the first piece has been taken.
    taken: usize,
}

impl<'p> Content<'p> {
    pub(super) fn of(file: &'p File, manifest: &'p Manifest) -> Self {
        Self { file, left: &manifest.blocks, at: manifest.content, ready: VecDeque::new(), taken: 0 }
    }

    /// The next bytes, at most so many; none at the end.
    pub(super) fn next(&mut self, most: u64) -> Result<&[u8], PackageError> {
        if self.ready.front().is_some_and(|piece| self.taken == piece.len()) {
            self.ready.pop_front();
            self.taken = 0;
        }
        if self.ready.is_empty() {
            self.fill()?;
        }
        let Some(piece) = self.ready.front() else { return Ok(&[]) };
        let left = &piece[self.taken..];
        let length = usize::try_from(most).unwrap_or(usize::MAX).min(left.len());
        self.taken += length;
        Ok(&left[..length])
    }

    fn fill(&mut self) -> Result<(), PackageError> {
        let (now, later) = self.left.split_at(self.left.len().min(processors() * 4));
        self.left = later;
        let mut places = Vec::with_capacity(now.len());
        for block in now {
            places.push((self.at, *block));
            self.at += u64::from(block.stored);
        }
        for piece in in_parallel(&places, |(at, block)| unpack(self.file, *at, block)) {
            let piece = piece?;
            if !piece.is_empty() {
                self.ready.push_back(piece);
            }
        }
        Ok(())
    }
}

fn unpack(file: &File, at: u64, block: &Block) -> Result<Vec<u8>, PackageError> {
    let mut stored = vec![0; usize::try_from(block.stored).unwrap_or_default()];
    file.read_exact_at(&mut stored, at).map_err(|source| PackageError::Read { source })?;
    if *blake3::hash(&stored).as_bytes() != block.hash {
        return Err(PackageError::Damaged { what: "the checksum of a piece of it is wrong" });
    }
    let size = usize::try_from(block.size).unwrap_or_default();
    let piece = lz4_flex::block::decompress(&stored, size);
    let piece = piece.ok().filter(|piece| piece.len() == size);
    piece.ok_or(PackageError::Damaged { what: "a piece of it can't be unpacked" })
}
