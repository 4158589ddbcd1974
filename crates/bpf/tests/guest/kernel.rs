// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A distribution's kernel: its package, fetched and, in part, unpacked into `target/guest`, installed nowhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's, then Ubuntu's, oldest first: empty packages that depend on one with a version in its name. The first that
/// is to be had is booted.
const OLDEST: &[&str] =
    &["linux-image-cloud-amd64", "linux-image-virtual", "linux-image-kvm", "linux-image-generic"];

/// Newer kernels have other hooks: one is booted too where the distribution has it.
const NEWER: &[&str] = &["linux-image-6.12-cloud-amd64", "linux-image-virtual-hwe-24.04"];

/// What is booted.
pub(crate) struct Kernel {
    pub(crate) image: PathBuf,
    /// The drivers for overlays and for disks in memory; a kernel of the caller's own must have them built in.
    pub(crate) drivers: Vec<PathBuf>,
}

/// Where they are below the kernel's directory of drivers.
const DRIVERS: [(&str, &str); 2] = [("fs/overlayfs", "overlay.ko"), ("drivers/block", "brd.ko")];

/// The kernels to boot.
pub(crate) fn find() -> Result<Vec<Kernel>, String> {
    if let Some(own) = std::env::var_os("PALISADE_GUEST_KERNEL") {
        return Ok(vec![Kernel { image: own.into(), drivers: Vec::new() }]);
    }
    let cache = directory();
    fs::create_dir_all(&cache).map_err(|error| format!("make {}: {error}", cache.display()))?;
    let first = |names: &[&str]| names.iter().find_map(|name| versioned(name));
    let oldest = first(OLDEST)
        .ok_or_else(|| format!("apt knows none of {OLDEST:?} (apt-get update brings its lists)"))?;
    let mut images = vec![fetch(&cache, &oldest)?];
    if let Some(newer) = first(NEWER).filter(|newer| *newer != oldest) {
        images.push(fetch(&cache, &newer)?);
    }
    Ok(images)
}

/// `target/guest` of the clone that this was built in.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is target/tmp").join("guest")
}

/// The package with a version that an empty one depends on.
fn versioned(name: &str) -> Option<String> {
    let output = Command::new("apt-cache").args(["depends", "--important", name]).output().ok()?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
        .map(str::to_owned)
}

fn fetch(cache: &Path, package: &str) -> Result<Kernel, String> {
    let unpacked = cache.join(package);
    if let Some(kernel) = unpacked_kernel(&unpacked) {
        return Ok(kernel);
    }
    let run = |command: &mut Command| {
        let output = command.current_dir(cache).output().map_err(|error| format!("{command:?}: {error}"))?;
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
    };
    run(Command::new("apt-get").args(["-qq", "download", package]))?;
    let downloaded = fs::read_dir(cache)
        .map_err(|error| format!("list {}: {error}", cache.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&format!("{package}_")) && name.ends_with(".deb")
        })
        .ok_or_else(|| format!("apt-get download left no {package}_*.deb in {}", cache.display()))?;
    // Under another name until it is whole: a run may be stopped here. Other drivers are 100 MB that nobody loads.
    let partly = cache.join(format!("{package}.{}", std::process::id()));
    fs::create_dir_all(&partly).map_err(|error| format!("make {}: {error}", partly.display()))?;
    run(Command::new("sh")
        .args([
            "-c",
            r#"dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --wildcards './boot/vmlinuz-*' '*/overlay.ko*' '*/brd.ko*'"#,
        ])
        .arg("sh")
        .arg(&downloaded)
        .arg(&partly))?;
    let _ = fs::remove_file(&downloaded);
    // What an older version of this left.
    let _ = fs::remove_dir_all(&unpacked);
    fs::rename(&partly, &unpacked).map_err(|error| format!("move to {}: {error}", unpacked.display()))?;
    unpacked_kernel(&unpacked)
        .ok_or_else(|| format!("{package} has no boot/vmlinuz-* or lacks one of {DRIVERS:?}"))
}

fn unpacked_kernel(unpacked: &Path) -> Option<Kernel> {
    let starting = |directory: &Path, start: &str| {
        let entries = fs::read_dir(directory).ok()?;
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start)))
    };
    let image = starting(&unpacked.join("boot"), "vmlinuz-")?;
    let modules = fs::read_dir(unpacked.join("lib/modules")).ok()?.next()?.ok()?.path();
    let driver = |(place, name): (&str, &str)| starting(&modules.join("kernel").join(place), name);
    let drivers = DRIVERS.into_iter().map(driver).collect::<Option<_>>()?;
    Some(Kernel { image, drivers })
}
