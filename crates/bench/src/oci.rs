// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes bundles for OCI runtimes, which read their command from a file and not from their arguments.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Why a bundle can't be written.
#[derive(Debug, thiserror::Error)]
#[error("can't write {}", path.display())]
pub(crate) struct BundleError {
    path: PathBuf,
    source: io::Error,
}

/// Writes `directory/config.json` for `command`. The view is the same as for the other launchers: system directories
/// read-only, `work` writable, own /proc, /dev and /tmp, all namespaces.
pub(crate) fn write(
    directory: &Path,
    command: &[String],
    work: &Path,
    root: &Path,
) -> Result<(), BundleError> {
    let path = directory.join("config.json");
    let result = fs::create_dir_all(directory)
        .and_then(|()| fs::write(&path, config(command, work, root).to_string()));
    result.map_err(|source| BundleError { path, source })
}

fn config(command: &[String], work: &Path, root: &Path) -> Value {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let bind = |path: &Path, mode: &str| json!({ "destination": path, "source": path, "type": "bind", "options": ["bind", "nosuid", "nodev", mode] });
    let fresh = |path: &str, kind: &str, options: &[&str]| json!({ "destination": path, "source": kind, "type": kind, "options": options });
    let namespaces = ["user", "pid", "mount", "ipc", "uts", "network"].map(|kind| json!({ "type": kind }));
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": command,
            "env": ["PATH=/usr/bin:/bin", "LC_ALL=C", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"],
            "cwd": work,
            "noNewPrivileges": true,
        },
        "root": { "path": root, "readonly": true },
        "mounts": [
            fresh("/proc", "proc", &["nosuid", "noexec", "nodev"]),
            fresh("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=64k"]),
            fresh("/tmp", "tmpfs", &["nosuid", "nodev"]),
            bind(Path::new("/usr"), "ro"),
            bind(Path::new("/etc"), "ro"),
            bind(work, "rw"),
        ],
        "linux": {
            "namespaces": namespaces,
            "uidMappings": [{ "containerID": 0, "hostID": uid, "size": 1 }],
            "gidMappings": [{ "containerID": 0, "hostID": gid, "size": 1 }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_and_the_directory_are_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let bundle = directory.path().join("bundle");
        write(&bundle, &["echo".into(), "a b".into()], Path::new("/w"), Path::new("/r")).unwrap();
        let config: Value = serde_json::from_slice(&fs::read(bundle.join("config.json")).unwrap()).unwrap();
        assert_eq!(config["process"]["args"], json!(["echo", "a b"]));
        assert_eq!(config["process"]["cwd"], "/w");
        assert!(
            config["mounts"]
                .as_array()
                .unwrap()
                .iter()
                .any(|mount| mount["destination"] == "/w" && mount["options"][3] == "rw")
        );
    }
}
