// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/etc/ld.so.cache`: the system's libraries by name, as `ldconfig` found them.
//!
//! The form is that of glibc's `cache.c` and `dl-cache.h` since 2.2 (`glibc-ld.so.cache1.1`): a header, entries
//! of 24 bytes, strings, and since 2.33 extensions, of which one names the directories for certain processors
//! (`glibc-hwcaps`). An old cache (`ld.so-1.7.0`) may stand in front of it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use foldhash::fast::RandomState;

use crate::elf::Machine;
use crate::file::{self, Links};

const OLD: &[u8] = b"ld.so-1.7.0\0";
const NEW: &[u8] = b"glibc-ld.so.cache1.1";
/// A library for the C library that programs have used since 1997 (`FLAG_ELF_LIBC6`).
const LIBC6: u32 = 3;
/// In an entry's `hwcap`: the low half is the number of a directory's name (`DL_CACHE_HWCAP_EXTENSION`).
const NAMED: u64 = 1 << 62;
const EXTENSIONS: u32 = 0xeaa4_2174;
/// The extension that holds numbers of strings, names of `glibc-hwcaps` directories.
const TAG_HWCAPS: u32 = 1;
/// Caches of 40,000 libraries have 6 MiB.
const CAP: usize = 64 << 20;

/// One library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    /// The directory below `glibc-hwcaps` that it is for; `None`: for any processor.
    pub(super) hwcaps: Option<OsString>,
}

/// The cache, for one kind of machine.
#[derive(Debug, Default)]
pub(super) struct LdCache(HashMap<OsString, Vec<Entry>, RandomState>);

impl LdCache {
    /// Reads the cache. A missing or damaged cache is empty, as it is for the loader.
    pub(super) fn read(path: &Path, machine: Machine) -> Self {
        let Some(wanted) = flags(machine) else { return Self::default() };
        match file::read(path, CAP, Links::Follow) {
            Ok(bytes) => parse(&bytes, wanted).unwrap_or_default(),
            Err(_unreadable) => Self::default(),
        }
    }

    /// The libraries of a name, in the order of the cache: best first.
    pub(super) fn get(&self, name: &OsStr) -> &[Entry] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}

/// How entries for a machine are marked (`sysdeps/generic/ldconfig.h`).
fn flags(machine: Machine) -> Option<u32> {
    match (machine.number, machine.wide) {
        (3, false) => Some(LIBC6),
        (62, true) => Some(0x0300 | LIBC6),
        (62, false) => Some(0x0800 | LIBC6),
        (183, true) => Some(0x0a00 | LIBC6),
        (40, false) => Some(0x0900 | LIBC6),
        (243, true) => Some(0x1000 | LIBC6),
        (21, true) => Some(0x0500 | LIBC6),
        (22, true) => Some(0x0400 | LIBC6),
        _ => None,
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(four.try_into().ok()?))
}

fn size(number: u32) -> Option<usize> {
    usize::try_from(number).ok()
}

fn string(bytes: &[u8], at: u32) -> Option<&OsStr> {
    let text = bytes.get(size(at)?..)?;
    let end = text.iter().position(|byte| *byte == 0)?;
    Some(OsStr::from_bytes(&text[..end]))
}

fn parse(bytes: &[u8], wanted: u32) -> Option<LdCache> {
    let bytes = match bytes.strip_prefix(OLD) {
        None => bytes,
        Some(_) => {
            // 12 bytes for each old entry; the new cache begins where one of its entries may.
            let old = size(number(bytes, OLD.len())?)?.checked_mul(12)?.checked_add(OLD.len() + 4)?;
            bytes.get(old.checked_next_multiple_of(8)?..)?
        }
    };
    if !bytes.starts_with(NEW) {
        return None;
    }
    let header = NEW.len();
    let (count, flags_at) = (size(number(bytes, header)?)?, header + 8);
    // 0: not said; 2 and 3: the order of bytes.
    let order = bytes.get(flags_at).copied()? & 3;
    let own = if cfg!(target_endian = "little") { 2 } else { 3 };
    if order != 0 && order != own {
        return None;
    }
    let extensions = number(bytes, header + 12)?;
    let names = hwcaps(bytes, extensions).unwrap_or_default();
    let entries = bytes.get(header + 28..)?;
    let room = count.min(entries.len() / 24);
    let mut cache = LdCache(HashMap::with_capacity_and_hasher(room, RandomState::default()));
    for entry in entries.chunks_exact(24).take(count) {
        let (Some(flags), Some(key), Some(value)) = (number(entry, 0), number(entry, 4), number(entry, 8))
        else {
            continue;
        };
        let hwcap = u64::from_ne_bytes(entry.get(16..24)?.try_into().ok()?);
        let hwcaps = match hwcap {
            0 => None,
            named if named & NAMED != 0 => match names.get(usize::try_from(named & 0xffff_ffff).ok()?) {
                Some(name) => Some(name.clone()),
                None => continue,
            },
            // A bit of the processor's capabilities: glibc 2.37 removed such directories.
            _ => continue,
        };
        if flags == wanted
            && let (Some(name), Some(path)) = (string(bytes, key), string(bytes, value))
        {
            cache.0.entry(name.to_owned()).or_default().push(Entry { path: PathBuf::from(path), hwcaps });
        }
    }
    Some(cache)
}

fn hwcaps(bytes: &[u8], at: u32) -> Option<Vec<OsString>> {
    let at = size(at).filter(|at| *at > 0)?;
    if number(bytes, at)? != EXTENSIONS {
        return None;
    }
    let count = size(number(bytes, at + 4)?)?.min(64);
    let section =
        (0..count).map(|index| at + 8 + index * 16).find(|at| number(bytes, *at) == Some(TAG_HWCAPS))?;
    let (offset, length) = (size(number(bytes, section + 8)?)?, size(number(bytes, section + 12)?)?);
    let numbers = bytes.get(offset..offset.checked_add(length)?)?;
    numbers.chunks_exact(4).map(|four| string(bytes, number(four, 0)?).map(OsStr::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86_64: Machine = Machine { number: 62, wide: true };

    /// A cache with these entries: flags, name, path, `hwcap`.
    fn cache(entries: &[(u32, &str, &str, u64)]) -> Vec<u8> {
        let mut bytes = NEW.to_vec();
        let mut strings = Vec::new();
        let start = NEW.len() + 28 + entries.len() * 24;
        let put = |text: &str, strings: &mut Vec<u8>| {
            let at = start + strings.len();
            strings.extend_from_slice(text.as_bytes());
            strings.push(0);
            u32::try_from(at).unwrap().to_ne_bytes()
        };
        let mut table = Vec::new();
        for (flags, name, path, hwcap) in entries {
            table.extend_from_slice(&flags.to_ne_bytes());
            table.extend_from_slice(&put(name, &mut strings));
            table.extend_from_slice(&put(path, &mut strings));
            table.extend_from_slice(&[0; 4]);
            table.extend_from_slice(&hwcap.to_ne_bytes());
        }
        let level = put("x86-64-v3", &mut strings);
        let end = (start + strings.len()).next_multiple_of(4);
        let total = u32::try_from(entries.len()).unwrap().to_ne_bytes();
        let extensions = u32::try_from(end).unwrap();
        bytes.extend_from_slice(&total);
        bytes.extend_from_slice(&u32::try_from(strings.len()).unwrap().to_ne_bytes());
        bytes.extend_from_slice(&[2, 0, 0, 0]);
        bytes.extend_from_slice(&extensions.to_ne_bytes());
        bytes.extend_from_slice(&[0; 12]);
        bytes.extend_from_slice(&table);
        bytes.extend_from_slice(&strings);
        bytes.resize(end, 0);
        for number in [EXTENSIONS, 1, TAG_HWCAPS, 0, extensions + 24, 4] {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        bytes.extend_from_slice(&level);
        bytes
    }

    #[test]
    fn entries_for_the_machine_are_found() {
        let bytes = cache(&[
            (0x0303, "libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6", 0),
            (0x0003, "libc.so.6", "/lib32/libc.so.6", 0),
            (0x0303, "libm.so.6", "/lib/glibc-hwcaps/x86-64-v3/libm.so.6", NAMED),
            (0x0303, "libm.so.6", "/lib/x86_64-linux-gnu/libm.so.6", 0),
        ]);
        let cache = parse(&bytes, flags(X86_64).unwrap()).unwrap();
        let paths = |name: &str| -> Vec<String> {
            cache.get(OsStr::new(name)).iter().map(|entry| entry.path.display().to_string()).collect()
        };
        assert_eq!(paths("libc.so.6"), ["/lib/x86_64-linux-gnu/libc.so.6"]);
        assert_eq!(paths("libm.so.6").len(), 2);
        assert_eq!(cache.get(OsStr::new("libm.so.6"))[0].hwcaps.as_deref(), Some(OsStr::new("x86-64-v3")));
        assert_eq!(paths("none"), [""; 0]);
    }

    #[test]
    fn a_damaged_cache_is_none_or_less() {
        let bytes = cache(&[(0x0303, "libc.so.6", "/lib/libc.so.6", 0), (0x0303, "a", "/b", NAMED)]);
        for length in 0..bytes.len() {
            let _no_panic = parse(&bytes[..length], 0x0303);
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] = 0xff;
            let _no_panic = parse(&bytes, 0x0303);
        }
        assert!(parse(b"something else", 0x0303).is_none());
        assert!(LdCache::read(Path::new("/none"), X86_64).get(OsStr::new("libc.so.6")).is_empty());
    }

    #[test]
    fn an_old_cache_may_stand_in_front() {
        let mut bytes = OLD.to_vec();
        bytes.extend_from_slice(&1_u32.to_ne_bytes());
        bytes.extend_from_slice(&[0; 12]);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend_from_slice(&cache(&[(0x0303, "a", "/a", 0)]));
        assert_eq!(parse(&bytes, 0x0303).unwrap().get(OsStr::new("a"))[0].path, Path::new("/a"));
    }
}
