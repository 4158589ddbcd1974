// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the dynamic section: does it have an entry for a debugger, and does the file name itself as a run-time linker?

use super::super::Source;
use super::table::{Layout, Segment};
use super::{ElfError, SEGMENTS};

/// How many entries are read at most: as many as in fapolicyd.
const ENTRIES: usize = 1000;

const STRINGS: u64 = 5;
const NAME: u64 = 14;
const DEBUG: u64 = 21;

/// What is kept of a file's segments, to find the file's own name.
#[derive(Default)]
pub(super) struct Linked {
    /// Address, offset and size of the first loaded segments: names are in the first or second.
    loads: [(u64, u64, u64); SEGMENTS],
    count: usize,
    /// The address of the table of names.
    strings: Option<u64>,
    /// The name, as an offset into the table of names.
    name: Option<u64>,
}

impl Linked {
    pub(super) fn loaded(&mut self, segment: &Segment) {
        if let Some(slot) = self.loads.get_mut(self.count) {
            *slot = (segment.address, segment.offset, segment.size);
            self.count += 1;
        }
    }

    /// Reads a dynamic section. Returns whether it has an entry for a debugger.
    pub(super) fn read(
        &mut self,
        file: &impl Source,
        size: u64,
        layout: Layout,
        segment: &Segment,
    ) -> Result<bool, ElfError> {
        if segment.size > size || segment.offset > u64::from(u32::MAX) {
            return Err(ElfError::Dynamic);
        }
        let wanted = usize::try_from(segment.size).map_err(|_| ElfError::Dynamic)?;
        // fapolicyd counts in entries of 64 bit files, for both classes.
        if wanted / 16 > ENTRIES {
            return Err(ElfError::Dynamic);
        }
        let mut section = vec![0; wanted];
        if file.read_at(segment.offset, &mut section) < wanted {
            return Err(ElfError::Dynamic);
        }
        let mut debug = false;
        for entry in section.chunks_exact(layout.entry()) {
            let value = layout.word(entry, layout.entry() / 2);
            match layout.word(entry, 0) {
                STRINGS => self.strings = Some(value),
                NAME => self.name = Some(value),
                DEBUG => debug = true,
                _ => {}
            }
        }
        Ok(debug)
    }

    /// Names of linkers: `ld-linux.so.2`, `ld64.so.2`, `ld.so.1`, … musl's linker is its C library and has the
    /// library's name.
    pub(super) fn is_linker(&self, file: &impl Source) -> bool {
        let (Some(strings), Some(name)) = (self.strings, self.name) else { return false };
        let Some(address) = strings.checked_add(name) else { return false };
        let within = self.loads[..self.count].iter().find_map(|(start, offset, size)| {
            let into = address.checked_sub(*start).filter(|into| into < size)?;
            offset.checked_add(into)
        });
        let Some(at) = within else { return false };
        let mut text = [0; 8];
        let read = file.read_at(at, &mut text);
        let text = &text[..read];
        [&b"ld-"[..], b"ld.so", b"ld64.so", b"ld32.so", b"libc.so\0", b"libc.mus"]
            .iter()
            .any(|start| text.starts_with(start))
    }
}
