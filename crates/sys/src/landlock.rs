// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Landlock's three calls and its rights, by the ABI version that brought them.
//!
//! The launched child adds the rules itself, on descriptors that it holds anyway for mounting. A rule takes 1.5 µs,
//! and no path is looked up twice. The `landlock` crate isn't used because its rules allocate. Numbers:
//! `include/uapi/linux/landlock.h`.

use crate::raw::{self, Fd, Result};

/// What a rule allows beneath a file or directory; a set of `LANDLOCK_ACCESS_FS_*` bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rights(pub u64);

impl Rights {
    /// Run a file.
    pub const EXECUTE: Self = Self(1);
    /// Open a file for writing.
    pub const WRITE_FILE: Self = Self(1 << 1);
    /// Open a file for reading.
    pub const READ_FILE: Self = Self(1 << 2);
    /// List a directory.
    pub const READ_DIR: Self = Self(1 << 3);
    /// Every right of ABI 1: the above, and making or removing any kind of name.
    pub const ALL_V1: Self = Self((1 << 13) - 1);
    /// Link or rename across directories (ABI 2, Linux 5.19).
    pub const REFER: Self = Self(1 << 13);
    /// Shorten a file (ABI 3, Linux 6.2).
    pub const TRUNCATE: Self = Self(1 << 14);
    /// Control a device opened here (ABI 5, Linux 6.10).
    pub const IOCTL_DEV: Self = Self(1 << 15);
    /// Read files and list directories.
    pub const READ: Self = Self(Self::READ_FILE.0 | Self::READ_DIR.0);
    /// The rights that make sense on something that isn't a directory.
    pub const OF_FILES: Self =
        Self(Self::EXECUTE.0 | Self::WRITE_FILE.0 | Self::READ_FILE.0 | Self::TRUNCATE.0 | Self::IOCTL_DEV.0);
    /// Everything any ABI knows.
    pub const EVERYTHING: Self = Self((1 << 16) - 1);

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What both sets have.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// This set without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// Scopes of ABI 6 (Linux 6.12): what may not leave the domain.
pub const SCOPE_ABSTRACT_SOCKETS: u64 = 1;
/// Signals to processes outside the domain.
pub const SCOPE_SIGNALS: u64 = 1 << 1;

/// What a ruleset restricts; anything not handled stays as it was.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Handled {
    /// File-system rights, see [`Rights`].
    pub files: u64,
    /// `LANDLOCK_ACCESS_NET_*` (ABI 4).
    pub net: u64,
    /// `LANDLOCK_SCOPE_*` (ABI 6).
    pub scoped: u64,
}

impl Handled {
    /// Everything that the kernel's `abi` can restrict, TCP left alone (namespaces do that).
    #[must_use]
    pub const fn by_abi(abi: u32) -> Self {
        let files = match abi {
            0 => 0,
            1 => Rights::ALL_V1.0,
            2 => Rights::ALL_V1.0 | Rights::REFER.0,
            3 | 4 => Rights::ALL_V1.0 | Rights::REFER.0 | Rights::TRUNCATE.0,
            _ => Rights::EVERYTHING.0,
        };
        let scoped = if abi >= 6 { SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS } else { 0 };
        Self { files, net: 0, scoped }
    }

    /// Size of the structure as kernels before ABI 4 and 6 know it: they refuse unknown bytes
    /// only when those aren't zero, so the full size is always right.
    const SIZE: usize = size_of::<Self>();
}

/// The ABI version the running kernel offers; `None` where Landlock is absent or disabled.
#[must_use]
pub fn abi() -> Option<u32> {
    const VERSION: usize = 1;
    // SAFETY: needed for a call rustix lacks. Sound: with this flag the kernel reads no memory.
    let version = unsafe { raw::syscall(libc::SYS_landlock_create_ruleset, [0, 0, VERSION, 0, 0, 0]) };
    version.ok().and_then(|version| u32::try_from(version).ok())
}

pub(crate) fn create_ruleset(handled: &Handled) -> Result<Fd> {
    // SAFETY: needed as above. Sound: the kernel reads SIZE bytes of the structure.
    let fd = unsafe {
        raw::syscall(
            libc::SYS_landlock_create_ruleset,
            [&raw const *handled as usize, Handled::SIZE, 0, 0, 0, 0],
        )
    }?;
    Ok(i32::try_from(fd).unwrap_or(-1))
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: i32,
}

pub(crate) fn allow_beneath(ruleset: Fd, parent: Fd, rights: Rights) -> Result<()> {
    const PATH_BENEATH: usize = 1;
    let rule = PathBeneath { allowed: rights.0, parent };
    // SAFETY: needed as above. Sound: the kernel reads one structure that outlives the call.
    unsafe {
        raw::syscall(
            libc::SYS_landlock_add_rule,
            [raw::arg(ruleset), PATH_BENEATH, &raw const rule as usize, 0, 0, 0],
        )
    }
    .map(drop)
}

pub(crate) fn restrict_self(ruleset: Fd) -> Result<()> {
    // SAFETY: needed as above. Sound: no memory is passed.
    unsafe { raw::syscall(libc::SYS_landlock_restrict_self, [raw::arg(ruleset), 0, 0, 0, 0, 0]) }.map(drop)
}
