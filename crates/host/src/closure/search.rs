// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists the paths at which a loader looks for a library.
//!
//! "The requester" is the object that needs the library. glibc (`elf/dl-load.c`): the `DT_RPATH` of the requester and
//! of the objects that loaded it, unless the requester has a `DT_RUNPATH`; the program's `DT_RPATH`;
//! `LD_LIBRARY_PATH` (which no sandbox passes on); the requester's `DT_RUNPATH`; the cache; the system's directories.
//! In each directory, subdirectories for certain processors come first. musl (`ldso/dynlink.c`): both kinds of path
//! of the requester and of the objects that loaded it, then the directories of `/etc/ld-musl-ARCH.path`, or else
//! three default directories.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::ldcache::LdCache;
use super::{Object, expand};
use crate::elf::{Elf, Machine};
use crate::file::{self, Links};

/// The C library that the loader belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    Glibc(Machine),
    Musl(Machine),
}

impl Flavour {
    /// Determined by the name of the program's loader; libraries count as glibc's.
    pub(super) fn of(elf: &Elf) -> Self {
        let loader = elf.interpreter.as_deref().and_then(Path::file_name).unwrap_or_default();
        if loader.as_bytes().starts_with(b"ld-musl-") {
            Self::Musl(elf.machine)
        } else {
            Self::Glibc(elf.machine)
        }
    }

    /// Whether musl's loader is this library itself, under one of the names that it answers to.
    pub(super) fn is_in_loader(self, name: &OsStr) -> bool {
        let Self::Musl(_) = self else { return false };
        let Some(rest) = name.as_bytes().strip_prefix(b"lib") else { return false };
        ["c", "pthread", "rt", "m", "dl", "util", "xnet"]
            .iter()
            .any(|own| rest.strip_prefix(own.as_bytes()).is_some_and(|rest| rest.starts_with(b".")))
    }

    const fn machine(self) -> Machine {
        match self {
            Self::Glibc(machine) | Self::Musl(machine) => machine,
        }
    }
}

/// The names of a machine in directory names: Debian's, and the platform's.
const fn names(machine: Machine) -> (&'static str, &'static str) {
    match (machine.number, machine.wide) {
        (62, true) => ("x86_64-linux-gnu", "x86_64"),
        (62, false) => ("x86_64-linux-gnux32", "x86_64"),
        (3, _) => ("i386-linux-gnu", "i686"),
        (183, _) => ("aarch64-linux-gnu", "aarch64"),
        (40, _) => ("arm-linux-gnueabihf", "v7l"),
        (243, _) => ("riscv64-linux-gnu", "riscv64"),
        (21, _) => ("powerpc64le-linux-gnu", "power8"),
        (22, _) => ("s390x-linux-gnu", "z900"),
        _ => ("", ""),
    }
}

/// The directories below `glibc-hwcaps` that this processor's libraries may be in, best first.
fn hwcaps(machine: Machine) -> &'static [&'static str] {
    #[cfg(target_arch = "x86_64")]
    if machine == (Machine { number: 62, wide: true }) {
        use std::arch::is_x86_feature_detected as has;
        let second = has!("cmpxchg16b") && has!("popcnt") && has!("sse4.2") && has!("ssse3");
        let third = second
            && has!("avx2")
            && has!("bmi1")
            && has!("bmi2")
            && has!("f16c")
            && has!("fma")
            && has!("lzcnt")
            && has!("movbe");
        let fourth = third
            && has!("avx512f")
            && has!("avx512bw")
            && has!("avx512cd")
            && has!("avx512dq")
            && has!("avx512vl");
        const ALL: [&str; 3] = ["x86-64-v4", "x86-64-v3", "x86-64-v2"];
        return match (fourth, third, second) {
            (true, ..) => &ALL,
            (_, true, _) => &ALL[1..],
            (.., true) => &ALL[2..],
            _ => &[],
        };
    }
    let _none_here = machine;
    &[]
}

/// The directories that glibc's loader searches last.
fn standard(machine: Machine) -> Vec<PathBuf> {
    let (triple, _platform) = names(machine);
    let defaults = ["/lib", "/usr/lib"];
    let wide = if machine.wide { ["/lib64", "/usr/lib64"].as_slice() } else { &[] };
    let own = defaults.iter().map(|root| Path::new(root).join(triple));
    own.chain(defaults.iter().chain(wide).map(PathBuf::from)).collect()
}

/// Where the library `name` that `asks` needs may be, after all [`candidates`]: most libraries are among those.
pub(super) fn standard_candidates(flavour: Flavour, asks: &Elf, name: &OsStr) -> Vec<PathBuf> {
    let Flavour::Glibc(machine) = flavour else { return Vec::new() };
    if asks.no_default || name.as_bytes().contains(&b'/') {
        return Vec::new();
    }
    let levels = hwcaps(machine);
    let in_directory = |root: PathBuf| {
        let special = root.join("glibc-hwcaps");
        let special: Vec<PathBuf> = levels.iter().map(|level| special.join(level).join(name)).collect();
        special.into_iter().chain([root.join(name)])
    };
    standard(machine).into_iter().flat_map(in_directory).collect()
}

/// Where the library `name` that `objects[asking]` needs may be, in the loader's order; before
/// [`standard_candidates`].
pub(super) fn candidates(
    flavour: Flavour,
    objects: &[Object],
    asking: usize,
    name: &OsStr,
    cache: &LdCache,
) -> Vec<PathBuf> {
    let machine = flavour.machine();
    let (triple, platform) = names(machine);
    // Debian's loaders replace $LIB by their own directory.
    let library = format!("lib/{triple}");
    let filled = |text: &OsStr, object: &Object| {
        let origin = object.path.parent().unwrap_or(Path::new("/"));
        expand(text, origin, &library, platform)
    };
    let asks = &objects[asking];
    if name.as_bytes().contains(&b'/') {
        return vec![filled(name, asks)];
    }
    let mut found = Vec::new();
    let chain = || std::iter::successors(Some(asks), |object| object.by.map(|by| &objects[by]));
    match flavour {
        Flavour::Glibc(_) => {
            let levels = hwcaps(machine);
            let mut directory = |directory: PathBuf| {
                let special = directory.join("glibc-hwcaps");
                found.extend(levels.iter().map(|level| special.join(level).join(name)));
                found.push(directory.join(name));
            };
            if !asks.elf.has_runpath {
                for object in chain().chain(objects.first()) {
                    object.elf.rpath.iter().for_each(|path| directory(filled(path, object)));
                }
            }
            asks.elf.runpath.iter().for_each(|path| directory(filled(path, asks)));
            let mut cached: Vec<_> = cache
                .get(name)
                .iter()
                .filter_map(|entry| {
                    let level = match &entry.hwcaps {
                        None => levels.len(),
                        Some(name) => levels.iter().position(|level| OsStr::new(level) == name)?,
                    };
                    Some((level, entry.path.clone()))
                })
                .collect();
            cached.sort_by_key(|(level, _path)| *level);
            let standard = standard(machine);
            let is_standard = |path: &Path| standard.iter().any(|root| path.starts_with(root));
            found.extend(
                cached
                    .into_iter()
                    .map(|(_level, path)| path)
                    .filter(|path| !asks.elf.no_default || !is_standard(path)),
            );
        }
        Flavour::Musl(_) => {
            for object in chain() {
                let paths = object.elf.runpath.iter().chain(&object.elf.rpath);
                found.extend(paths.map(|path| filled(path, object).join(name)));
            }
            let file = PathBuf::from(format!("/etc/ld-musl-{platform}.path"));
            let listed = file::read(&file, 64 * 1024, Links::Follow).unwrap_or_default();
            let listed: Vec<PathBuf> = listed
                .split(|byte| matches!(byte, b':' | b'\n'))
                .filter(|path| !path.is_empty())
                .map(|path| PathBuf::from(OsStr::from_bytes(path)))
                .collect();
            let usual = ["/lib", "/usr/local/lib", "/usr/lib"].map(PathBuf::from);
            let roots = if listed.is_empty() { usual.to_vec() } else { listed };
            found.extend(roots.into_iter().map(|root| root.join(name)));
        }
    }
    found
}
