// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the guest's first file system: an archive in cpio's `newc` format (kernel:
//! driver-api/early-userspace/buffer-format) with this program, the libraries that it needs, and a console.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place::directory;

/// The path of the daemon in the guest.
pub(crate) const DAEMON: &str = "/usr/sbin/palisaded";
/// The path of the command line tool in the guest.
pub(crate) const PALISADE: &str = "/usr/bin/palisade";
/// Exists after everything was moved to another file system.
pub(crate) const SWITCHED: &str = "/switched-root";
/// libmagic's database, at the path where libmagic looks for it.
const MAGIC: &str = "/usr/share/misc/magic.mgc";

/// The path of a program that is up to date: the file that one of `variables` names, or what cargo builds.
///
/// With all crates and with a test in the request, cargo selects the same features as in the build of the tests, so nothing
/// has to be built again. For the daemon alone, it and its dependencies would have fewer features.
fn built(variables: [&str; 2], program: &str) -> Result<PathBuf, String> {
    if let Some(own) = variables.iter().find_map(std::env::var_os) {
        return Ok(own.into());
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    // target/PROFILE/deps/guest-…
    let profile = own.parent().and_then(Path::parent).ok_or("this program is nowhere")?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--workspace", "--all-features", "--test", "guest", "--bin", program]);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let target = profile.parent().ok_or("this program is nowhere")?;
    let done = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).env("CARGO_TARGET_DIR", target).status();
    match done {
        Ok(status) if status.success() => Ok(profile.join(program)),
        Ok(status) => Err(format!("cargo build ended with {status}")),
        Err(error) => Err(format!("cargo build: {error}")),
    }
}

/// The archive for a kernel with these drivers. Builds it again if a program or a driver has changed.
pub(crate) fn image(version: &str, drivers: &[PathBuf]) -> Result<PathBuf, String> {
    let palisaded = built(["PALISADED", "PALISADED_BIN"], "palisaded")?;
    let palisade = built(["PALISADE", "PALISADE_BIN"], "palisade")?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let image = directory().join(format!("image-{version}.cpio"));
    let key = directory().join(format!("image-{version}.key"));
    let failed = |error: io::Error| format!("make {}: {error}", image.display());
    let mut made_from = String::new();
    for path in [&own, &palisaded, &palisade].into_iter().chain(drivers) {
        let metadata = fs::metadata(path).map_err(|error| format!("look at {}: {error}", path.display()))?;
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        made_from.push_str(&format!("{} {} {changed:?}\n", path.display(), metadata.len()));
    }
    if image.exists() && fs::read_to_string(&key).is_ok_and(|key| key == made_from) {
        return Ok(image);
    }
    let archive = archive(drivers, &own, &palisaded, &palisade).map_err(failed)?;
    // A machine that boots the previous archive has read it, or has it open, so it may be replaced.
    let partly = image.with_extension("partly");
    let write = || {
        if key.exists() {
            fs::remove_file(&key)?;
        }
        fs::write(&partly, &archive)?;
        fs::rename(&partly, &image)?;
        fs::write(&key, &made_from)
    };
    write().map_err(failed)?;
    Ok(image)
}

fn archive(drivers: &[PathBuf], own: &Path, palisaded: &Path, palisade: &Path) -> io::Result<Vec<u8>> {
    let directory = directory();
    let program = stripped(own, &directory);
    let daemon = stripped(palisaded, &directory);
    let command = stripped(palisade, &directory);
    let mut archive = Archive::default();
    for name in ["dev", "proc", "sys", "work", "mnt"] {
        archive.directory(name);
    }
    archive.entry("dev/console", 0o020_600, &[], (5, 1));
    archive.entry("init", 0o100_755, &fs::read(program)?, (0, 0));
    for driver in drivers {
        let name = driver.file_name().unwrap_or_default().to_string_lossy();
        let stem = name.split('.').next().unwrap_or_default();
        let end = if name.ends_with(".ko") { "ko" } else { "packed" };
        archive.entry(&format!("{stem}.{end}"), 0o100_644, &fs::read(driver)?, (0, 0));
    }
    for disk in crate::disk::DISKS {
        archive.entry(disk.blocks.trim_start_matches('/'), 0o100_644, &disk.make()?, (0, 0));
    }
    let mut files = BTreeMap::from([
        (PathBuf::from(DAEMON), daemon.clone()),
        (PALISADE.into(), command.clone()),
        (MAGIC.into(), MAGIC.into()),
    ]);
    for program in [own, palisaded, palisade] {
        files.extend(libraries(program)?.into_iter().map(|library| (library.clone(), library)));
    }
    archive.files(files)?;
    // Their copies are in the archive now.
    for name in ["guest", "palisaded", "palisade"] {
        let _ = fs::remove_file(copy_of(name, &directory));
    }
    Ok(archive.finish())
}

/// The archive for the boot `apparmor`: another one, with the compiler of profiles and a C library of its own. The kernel unpacks
/// one archive behind the other.
pub(crate) fn with_parser(image: &Path) -> Result<PathBuf, String> {
    let files = crate::parser::files()?;
    let together = image.with_extension("apparmor.cpio");
    let partly = image.with_extension(format!("apparmor.{}", std::process::id()));
    let write = || {
        let mut archive = Archive::default();
        archive.files(files)?;
        let mut bytes = fs::read(image)?;
        bytes.extend(archive.finish());
        fs::write(&partly, bytes)?;
        fs::rename(&partly, &together)
    };
    write().map_err(|error| format!("make {}: {error}", together.display()))?;
    Ok(together)
}

/// The program without its debugging information, which is nine tenths of its size, if `strip` is installed.
fn stripped(own: &Path, directory: &Path) -> PathBuf {
    let name = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // The copy's name lacks cargo's hash.
    let path = copy_of(name.split('-').next().unwrap_or_default(), directory);
    let done = Command::new("strip").arg("-o").arg(&path).arg(own).status();
    if done.is_ok_and(|status| status.success()) { path } else { own.to_owned() }
}

fn copy_of(name: &str, directory: &Path) -> PathBuf {
    directory.join(format!("{name}-{}", std::process::id()))
}

/// The libraries, by the paths that the program asks for; the loader reports them.
pub(crate) fn libraries(program: &Path) -> io::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output()?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| {
            let path = line.split_once("=> ").map_or(line, |(_, path)| path).trim();
            let path = path.split(" (").next()?;
            path.starts_with('/').then(|| PathBuf::from(path))
        })
        .collect())
}

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    directories: BTreeSet<String>,
}

impl Archive {
    fn directory(&mut self, name: &str) {
        if self.directories.insert(name.to_owned()) {
            self.entry(name, 0o040_755, &[], (0, 0));
        }
    }

    /// Programs and other files: the path in the guest, and where each is here.
    fn files(&mut self, files: impl IntoIterator<Item = (PathBuf, PathBuf)>) -> io::Result<()> {
        for (inside, file) in files {
            let inside = inside.to_string_lossy().trim_start_matches('/').to_owned();
            let mut above = PathBuf::new();
            for part in Path::new(&inside).parent().into_iter().flatten() {
                above.push(part);
                self.directory(&above.to_string_lossy());
            }
            self.entry(&inside, 0o100_755, &fs::read(&file)?, (0, 0));
        }
        Ok(())
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8], device: (u32, u32)) {
        self.entries += 1;
        let size = u32::try_from(content.len()).expect("programs are smaller than 4 GB");
        let name_size = u32::try_from(name.len() + 1).expect("names are short");
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, name_size, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[], (0, 0));
        self.bytes
    }
}
