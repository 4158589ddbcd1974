// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which user and group a command has inside.

use super::Isolation;
use crate::facts::Facts;
use crate::plan::{Identity, IdentityKind};
use palisade_host::kernel::Release;
use palisade_policy::decide::EffectivePath;
use palisade_policy::word::Switch;
use palisade_policy::{Grant, Policy};
use palisade_sys::probe::{self, Presence};
use palisade_text::Show as _;
use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The command's user and group.
pub(super) fn identity(
    facts: &Facts,
    policy: &Policy,
    isolation: Isolation,
    paths: &[EffectivePath],
    notes: &mut Vec<Cow<'static, str>>,
) -> Identity {
    let account = &facts.account;
    let own = Identity {
        kind: IdentityKind::Own,
        uid: policy.uid().map_or(account.uid, |uid| uid.value),
        gid: policy.gid().map_or(account.gid, |gid| gid.value),
        host_uid: account.uid,
        host_gid: account.gid,
    };
    if isolation == Isolation::InPlace {
        return Identity { kind: IdentityKind::Unchanged, uid: account.uid, gid: account.gid, ..own };
    }
    if account.uid != 0 {
        return own;
    }
    if own.uid == 0 && policy.switch(Switch::Namespaces).value {
        // The kernel maps a root only for a parent that could set file capabilities, which root inside can't
        // (`verify_root_map` in kernel/user_namespace.c).
        notes.push(Cow::Borrowed(
            "root can't use namespaces of its own inside: the kernel refuses to map root; an ordinary user can: palisade run --account NAME --allow-namespaces …",
        ));
    }
    let Some(unused) = facts.unused_id else {
        notes.push(Cow::Borrowed(
            "root inside is root outside, without capabilities: the caller may not map another user; kernel settings and root's secrets are masked",
        ));
        return own;
    };
    let unmappable = paths
        .iter()
        .filter(|path| matches!(path.grant, Grant::Allowed { .. }))
        .map(|path| path.source.as_path())
        .chain([account.home.as_path()])
        .find(|path| !owners_can_be_mapped(path));
    if let Some(path) = unmappable {
        notes.push(Cow::Owned(format!(
            "root inside is root outside, without capabilities: the file system of {} can't map owners; kernel settings and root's secrets are masked",
            path.shown()
        )));
        return own;
    }
    Identity { kind: IdentityKind::Mapped, host_uid: unused, host_gid: unused, ..own }
}

/// Whether the file system can show files under other owners (`FS_ALLOW_IDMAP` in the kernel).
fn owners_can_be_mapped(path: &Path) -> bool {
    kind_maps_owners(path) && (has_every_user() || try_to_map_owners(path))
}

/// Whether the caller is in the first user namespace, or in one with the same users. Root of another one, as in an
/// unprivileged container, can map the owners only in file systems that were mounted there.
fn has_every_user() -> bool {
    std::fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}

fn try_to_map_owners(path: &Path) -> bool {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes());
    path.is_ok_and(|path| probe::mapped_owners(&path).is_ok_and(Presence::is_present))
}

fn kind_maps_owners(path: &Path) -> bool {
    /// overlayfs, NFS, SMB (three numbers), FUSE, 9p, ecryptfs, proc, sysfs.
    const CANT: [u64; 10] = [
        0x794c_7630,
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x6573_5546,
        0x0102_1997,
        0xf15f,
        0x9fa0,
        0x6265_6572,
    ];
    /// tmpfs can since Linux 6.3.
    const TMPFS: u64 = 0x0102_1994;
    rustix::fs::statfs(path).is_ok_and(|found| {
        let kind = u64::try_from(found.f_type).unwrap_or_default() & 0xffff_ffff;
        !CANT.contains(&kind) && (kind != TMPFS || is_since_6_3())
    })
}

fn is_since_6_3() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_str().ok().and_then(Release::parse);
    release.is_some_and(|release| release.at_least(6, 3))
}
