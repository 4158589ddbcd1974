// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Disks in memory with an ext4 file system that the host's `mkfs.ext4` made.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::mount::MountFlags;

use crate::scenario::Result;

const BLOCK: usize = 4096;
const MEGABYTES: usize = 4;

/// The description of a disk.
pub(crate) struct Disk {
    /// The file in the archive with the disk's blocks that aren't empty, each after its number.
    pub(crate) blocks: &'static str,
    /// For `mkfs.ext4`: `-O`, and `-E`.
    features: [&'static str; 2],
    /// For `mount`.
    options: Option<&'static CStr>,
}

/// All disks; a boot mounts one of them.
pub(crate) const DISKS: [&Disk; 2] = [&VERITY, &QUOTA];

pub(crate) const VERITY: Disk =
    Disk { blocks: "/ext4.blocks", features: ["verity,^has_journal", "root_owner=0:0"], options: None };

pub(crate) const QUOTA: Disk = Disk {
    blocks: "/quota.blocks",
    features: ["quota,^has_journal", "root_owner=0:0,quotatype=usrquota"],
    options: Some(c"usrquota"),
};

/// The host's `mkfs.ext4`: an ordinary user's search path may lack its directory.
pub(crate) fn mkfs() -> Command {
    let own = Path::new("/usr/sbin/mkfs.ext4");
    Command::new(if own.exists() { own } else { Path::new("mkfs.ext4") })
}

impl Disk {
    /// Makes the file system, on the host.
    pub(crate) fn make(&self) -> io::Result<Vec<u8>> {
        let file = tempfile::NamedTempFile::new()?;
        file.as_file().set_len((MEGABYTES << 20) as u64)?;
        let [features, extended] = self.features;
        let mut make = mkfs();
        make.args(["-q", "-F", "-b", "4096", "-O", features, "-E", extended]).arg(file.path());
        let made = make.stdin(Stdio::null()).output()?;
        if !made.status.success() {
            return Err(io::Error::other(format!("mkfs.ext4: {}", String::from_utf8_lossy(&made.stderr))));
        }
        let image = fs::read(file.path())?;
        let blocks = image.chunks(BLOCK).enumerate().filter(|(_, block)| block.iter().any(|&byte| byte != 0));
        Ok(blocks.flat_map(|(number, block)| [&(number as u64).to_ne_bytes(), block].concat()).collect())
    }

    /// Mounts it, in the guest.
    pub(crate) fn mount(&self, place: &str) -> Result {
        crate::overlay::load_driver("brd", c"rd_nr=1")?;
        let make = || -> io::Result<()> {
            let mut device = File::options().write(true).open("/dev/ram0")?;
            for block in fs::read(self.blocks)?.chunks(8 + BLOCK) {
                let Some((number, block)) = block.split_first_chunk() else { continue };
                device.seek(io::SeekFrom::Start(u64::from_ne_bytes(*number) * BLOCK as u64))?;
                device.write_all(block)?;
            }
            drop(device);
            fs::create_dir_all(place)?;
            rustix::mount::mount("/dev/ram0", place, "ext4", MountFlags::empty(), self.options)?;
            Ok(())
        };
        make().map_err(|error| format!("mount an ext4: {error}"))
    }
}
