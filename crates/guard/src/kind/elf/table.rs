// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The layout of an ELF file: its class and byte order, and the fields of its tables (elf(5)).

/// Class and byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// 64 bit.
    pub(super) wide: bool,
    /// Least significant byte first.
    pub(super) little: bool,
}

/// Where the program headers are.
pub(super) struct Table {
    pub(super) offset: u64,
    pub(super) entry: u16,
    pub(super) count: u16,
}

/// The fields of a program header that are needed.
pub(super) struct Segment {
    pub(super) kind: u32,
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) size: u64,
}

impl Segment {
    pub(super) const LOAD: u32 = 1;
    pub(super) const DYNAMIC: u32 = 2;
    pub(super) const INTERPRETER: u32 = 3;
}

impl Layout {
    pub(super) const NATIVE: Self =
        Self { wide: cfg!(target_pointer_width = "64"), little: cfg!(target_endian = "little") };

    /// From the first 16 bytes; `None` if the class is unknown. An invalid byte order counts as this machine's, because
    /// neither the kernel nor fapolicyd checks it.
    pub(super) fn of(ident: &[u8; 16]) -> Option<Self> {
        let wide = match ident[4] {
            1 => false,
            2 => true,
            _ => return None,
        };
        let little = match ident[5] {
            1 => true,
            2 => false,
            _ => Self::NATIVE.little,
        };
        Some(Self { wide, little })
    }

    pub(super) const fn foreign(self) -> bool {
        self.little != Self::NATIVE.little
    }

    /// The size of the header.
    pub(super) const fn header(self) -> usize {
        if self.wide { 64 } else { 52 }
    }

    /// The size of a program header.
    pub(super) const fn segment(self) -> usize {
        if self.wide { 56 } else { 32 }
    }

    /// The size of an entry of the dynamic section.
    pub(super) const fn entry(self) -> usize {
        if self.wide { 16 } else { 8 }
    }

    pub(super) fn table(self, header: &[u8]) -> Table {
        let (offset, entry, count) = if self.wide { (32, 54, 56) } else { (28, 42, 44) };
        Table {
            offset: self.word(header, offset),
            entry: self.half(header, entry),
            count: self.half(header, count),
        }
    }

    pub(super) fn segment_of(self, entry: &[u8]) -> Segment {
        let (offset, address, size) = if self.wide { (8, 16, 32) } else { (4, 8, 16) };
        Segment {
            kind: self.long(entry, 0),
            offset: self.word(entry, offset),
            address: self.word(entry, address),
            size: self.word(entry, size),
        }
    }

    pub(super) fn half(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = take(bytes, at);
        if self.little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    }

    pub(super) fn long(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = take(bytes, at);
        if self.little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    }

    /// A number of the class's width.
    pub(super) fn word(self, bytes: &[u8], at: usize) -> u64 {
        if !self.wide {
            return self.long(bytes, at).into();
        }
        let bytes = take(bytes, at);
        if self.little { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) }
    }
}

/// `N` bytes from `at` on, zero beyond the end.
fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut taken = [0; N];
    for (to, from) in taken.iter_mut().zip(bytes.iter().skip(at)) {
        *to = *from;
    }
    taken
}
