// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a package: Palisade's program, the content of the files in pieces, the manifest, and then the trailer.

use super::error::PackageError;
use super::manifest::{BLOCK, Block, Entry, Manifest, What};
use super::select::{Selection, Source};
use super::trailer::{self, Trailer};
use palisade_host::elf;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A program that can be put in front of a package.
#[derive(Debug)]
pub struct Launcher {
    file: File,
    path: PathBuf,
    /// Where the trailer goes.
    place: u64,
}

impl Launcher {
    /// Opens a program and checks that it can be put in front of a package.
    ///
    /// # Errors
    /// When it isn't a Palisade program, needs libraries of its host, or carries a package already.
    pub fn open(path: &Path) -> Result<Self, PackageError> {
        let failed = |source| PackageError::Take { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let found = trailer::find(&file).map_err(failed)?;
        let (place, sealed) = found.ok_or_else(|| PackageError::NoLauncher { path: path.to_owned() })?;
        if sealed.is_some() {
            return Err(PackageError::SealedLauncher { path: path.to_owned() });
        }
        // `path` may be a magic link of /proc. Not every open accepts such a path.
        let real = path.canonicalize().map_err(failed)?;
        let elf = elf::read(&real).map_err(|_error| PackageError::NoLauncher { path: path.to_owned() })?;
        if let Some(interpreter) = elf.interpreter {
            return Err(PackageError::DynamicLauncher { path: real, interpreter });
        }
        Ok(Self { file, path: real, place })
    }
}

/// Writes the package to `out`, a new file. `progress` gets the bytes done and the bytes in all.
///
/// # Errors
/// When a file can't be read or `out` can't be written.
pub fn pack(
    launcher: &mut Launcher,
    mut manifest: Manifest,
    selection: &Selection,
    out: &mut File,
    output: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Trailer, PackageError> {
    let failed = |source| PackageError::Write { path: output.to_owned(), source };
    let taken = |source| PackageError::Take { path: launcher.path.clone(), source };
    launcher.file.seek(SeekFrom::Start(0)).map_err(taken)?;
    let front = std::io::copy(&mut launcher.file, out).map_err(failed)?;
    manifest.content = front;
    let mut writer = Writer { out, output, blocks: Vec::new(), waiting: Vec::new() };
    let (mut done, total) = (0, selection.size());
    let mut block = Vec::with_capacity(BLOCK);
    // Sorted by the paths in the package: a path without a leading slash may sort differently.
    let names: BTreeMap<&Path, (&Path, &Source)> = selection
        .names
        .iter()
        .map(|(path, source)| (path.strip_prefix("/").unwrap_or(path), (path.as_path(), source)))
        .collect();
    for (inside, (path, source)) in names {
        let what = match source {
            Source::Directory { modified } => What::Directory { modified: *modified },
            Source::Empty => What::File { size: 0, modified: 0, executable: false },
            Source::Link(target) => What::Link { target: target.as_os_str().as_bytes().to_vec() },
            Source::File { modified, executable, .. } => {
                let size = read(path, &mut |mut bytes| {
                    while !bytes.is_empty() {
                        let fits = bytes.len().min(BLOCK - block.len());
                        let (now, later) = bytes.split_at(fits);
                        block.extend_from_slice(now);
                        bytes = later;
                        if block.len() == BLOCK {
                            writer.add(std::mem::replace(&mut block, Vec::with_capacity(BLOCK)))?;
                        }
                    }
                    Ok(())
                })?;
                done += size;
                progress(done, total);
                What::File { size, modified: *modified, executable: *executable }
            }
        };
        manifest.entries.push(Entry { path: inside.as_os_str().as_bytes().to_vec(), what });
    }
    writer.add(block)?;
    writer.flush()?;
    manifest.blocks = std::mem::take(&mut writer.blocks);
    let bytes =
        manifest.to_bytes().map_err(|_never| PackageError::Damaged { what: "it can't be encoded" })?;
    let offset = out.stream_position().map_err(failed)?;
    let trailer = Trailer { offset, length: bytes.len() as u64, hash: *blake3::hash(&bytes).as_bytes() };
    manifest.check(&trailer).map_err(|what| PackageError::Damaged { what })?;
    out.write_all(&bytes).map_err(failed)?;
    out.write_all_at(&trailer.encode(), launcher.place).map_err(failed)?;
    out.sync_all().map_err(failed)?;
    Ok(trailer)
}

/// Reads a file to its end, and returns its size, which may differ from before.
fn read(path: &Path, each: &mut dyn FnMut(&[u8]) -> Result<(), PackageError>) -> Result<u64, PackageError> {
    let failed = |source| PackageError::Take { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let mut buffer = vec![0; BLOCK];
    let mut size = 0;
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => return Ok(size),
            more => {
                size += more as u64;
                each(&buffer[..more])?;
            }
        }
    }
}

/// Compresses pieces, as many at once as there are processors, and writes them in their order.
struct Writer<'o> {
    out: &'o mut File,
    output: &'o Path,
    blocks: Vec<Block>,
    waiting: Vec<Vec<u8>>,
}

impl Writer<'_> {
    fn add(&mut self, block: Vec<u8>) -> Result<(), PackageError> {
        if !block.is_empty() {
            self.waiting.push(block);
        }
        if self.waiting.len() >= super::content::processors() * 4 { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), PackageError> {
        let waiting = std::mem::take(&mut self.waiting);
        let packed = super::content::in_parallel(&waiting, |block| {
            let stored = lz4_flex::block::compress(block);
            let hash = *blake3::hash(&stored).as_bytes();
            (stored, hash)
        });
        for (block, (stored, hash)) in waiting.iter().zip(packed) {
            let failed = |source| PackageError::Write { path: self.output.to_owned(), source };
            self.out.write_all(&stored).map_err(failed)?;
            let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            self.blocks.push(Block { stored: length(&stored), size: length(block), hash });
        }
        Ok(())
    }
}
