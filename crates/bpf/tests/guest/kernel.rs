// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gets a distribution's kernel: downloads its package and unpacks a part of it into `target/guest`, without installing it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place::directory;

/// Debian's package, then Ubuntu's: empty packages that depend on one with a version in its name. The first that is
/// available is the oldest kernel that is booted.
const OLDEST: &[&str] =
    &["linux-image-cloud-amd64", "linux-image-virtual", "linux-image-kvm", "linux-image-generic"];

/// Newer kernels have other hooks. If the distribution has one of these, it is the newest kernel.
const NEWER: &[&str] = &["linux-image-6.12-cloud-amd64", "linux-image-virtual-hwe-24.04"];

/// The files for a boot.
pub(crate) struct Kernel {
    pub(crate) image: PathBuf,
    /// The drivers for overlays, disks in memory, quotas and NFS. A kernel that the caller names must have them built in.
    pub(crate) drivers: Vec<PathBuf>,
}

/// A kernel that is available.
pub(crate) struct Named {
    /// For people: `6.12`.
    pub(crate) version: String,
    /// The package, or the caller's own image.
    pub(crate) package: String,
}

impl Named {
    /// Whether AppArmor has rules for user namespaces: since 6.7.
    pub(crate) fn mediates_namespaces(&self) -> bool {
        let mut numbers = self.version.split('.').map(str::parse::<u32>);
        !matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < (6, 7))
    }
}

/// The drivers' directories below the kernel's directory of drivers, and their file names.
const DRIVERS: [(&str, &str); 14] = [
    ("fs/overlayfs", "overlay.ko"),
    ("drivers/block", "brd.ko"),
    ("fs/quota", "quota_tree.ko"),
    ("fs/quota", "quota_v2.ko"),
    ("fs/netfs", "netfs.ko"),
    ("net/sunrpc", "sunrpc.ko"),
    ("net/sunrpc/auth_gss", "auth_rpcgss.ko"),
    ("fs/nfs_common", "grace.ko"),
    ("fs/lockd", "lockd.ko"),
    ("fs/nfs_common", "nfs_acl.ko"),
    ("fs/nfsd", "nfsd.ko"),
    ("net/dns_resolver", "dns_resolver.ko"),
    ("fs/nfs", "nfs.ko"),
    ("fs/nfs", "nfsv4.ko"),
];

/// Part of another driver in newer kernels.
const OLDER: (&str, &str) = ("fs/fscache", "fscache.ko");

/// The kernels that can be booted, the newest first; at least one.
pub(crate) fn named() -> Result<Vec<Named>, String> {
    if let Some(own) = std::env::var_os("PALISADE_GUEST_KERNEL") {
        return Ok(vec![Named { version: "own".into(), package: own.to_string_lossy().into_owned() }]);
    }
    let packages = match remembered() {
        Some(packages) => packages,
        None => {
            let first = |names: &[&str]| names.iter().find_map(|name| versioned(name));
            let oldest = first(OLDEST)
                .ok_or_else(|| format!("apt knows none of {OLDEST:?} (apt-get update brings its lists)"))?;
            let newer = first(NEWER).filter(|newer| *newer != oldest);
            let packages: Vec<String> = newer.into_iter().chain([oldest]).collect();
            remember(&packages);
            packages
        }
    };
    Ok(packages.into_iter().map(|package| Named { version: version(&package), package }).collect())
}

/// `6.12` of `linux-image-6.12.117+deb12-cloud-amd64`.
fn version(package: &str) -> String {
    let start = package.trim_start_matches("linux-image-");
    start.split(['.', '-', '+']).take(2).collect::<Vec<_>>().join(".")
}

/// apt's answer for its present lists, from a file: asking apt takes a second of processor time.
fn remembered() -> Option<Vec<String>> {
    let own = directory().join("packages");
    let asked = fs::metadata(&own).ok()?.modified().ok()?;
    let lists = fs::metadata("/var/lib/apt/lists").ok()?.modified().ok()?;
    let packages: Vec<String> = fs::read_to_string(&own).ok()?.lines().map(str::to_owned).collect();
    (lists < asked && !packages.is_empty()).then_some(packages)
}

fn remember(packages: &[String]) {
    // Another run of this program may read the file now, so it is replaced at once. A run that finds no file asks apt.
    let partly = directory().join(format!("packages.{}", std::process::id()));
    let _asked_again = fs::create_dir_all(directory())
        .and_then(|()| fs::write(&partly, packages.join("\n")))
        .and_then(|()| fs::rename(&partly, directory().join("packages")));
}

/// The package with a version on which an empty package depends.
fn versioned(name: &str) -> Option<String> {
    let output = Command::new("apt-cache").args(["depends", "--important", name]).output().ok()?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
        .map(str::to_owned)
}

/// Downloads the kernel if it isn't here yet.
pub(crate) fn fetch(named: &Named) -> Result<Kernel, String> {
    if std::env::var_os("PALISADE_GUEST_KERNEL").is_some() {
        return Ok(Kernel { image: named.package.clone().into(), drivers: Vec::new() });
    }
    let (cache, package) = (directory(), named.package.as_str());
    let unpacked = cache.join(package);
    if let Some(kernel) = unpacked_kernel(&unpacked) {
        return Ok(kernel);
    }
    let run = |command: &mut Command| {
        let output = command.current_dir(&cache).output().map_err(|error| format!("{command:?}: {error}"))?;
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
    };
    run(Command::new("apt-get").args(["-qq", "download", package]))?;
    let downloaded = fs::read_dir(&cache)
        .map_err(|error| format!("list {}: {error}", cache.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&format!("{package}_")) && name.ends_with(".deb")
        })
        .ok_or_else(|| format!("apt-get download left no {package}_*.deb in {}", cache.display()))?;
    // Unpack under another name until everything is there, because a run may be stopped here. Other drivers are 100 MB that
    // no test loads.
    let partly = cache.join(format!("{package}.{}", std::process::id()));
    fs::create_dir_all(&partly).map_err(|error| format!("make {}: {error}", partly.display()))?;
    run(Command::new("sh")
        .args([
            "-c",
            r#"downloaded=$1 && shift && dpkg-deb --fsys-tarfile "$downloaded" | tar -x --wildcards "$@""#,
            "sh",
        ])
        .arg(&downloaded)
        .arg("-C")
        .arg(&partly)
        .arg("./boot/vmlinuz-*")
        .args(DRIVERS.map(|(place, name)| format!("*/kernel/{place}/{name}*")))
        // A pattern without a match makes tar fail. This pattern matches in every kernel, and includes files that only some
        // kernels have.
        .arg("*/kernel/fs/*/*fs*.ko*"))?;
    let _ = fs::remove_file(&downloaded);
    // Left by an older version of this program.
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
    let mut drivers: Vec<PathBuf> = DRIVERS.into_iter().map(driver).collect::<Option<_>>()?;
    drivers.extend(driver(OLDER));
    Some(Kernel { image, drivers })
}
