// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the name of a device.

use rustix::fs::{major, minor};

/// The name below `/dev` of a file system's device, as the kernel gives it; `?` for a file system without one.
#[must_use]
pub fn name(device: u64) -> Box<[u8]> {
    let link = format!("/sys/dev/block/{}:{}/uevent", major(device), minor(device));
    let text = std::fs::read(link).unwrap_or_default();
    text.split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"DEVNAME="))
        .map_or_else(|| Box::from(&b"?"[..]), |name| [b"/dev/", name].concat().into())
}
