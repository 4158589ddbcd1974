// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes packages with `packaging/FORM/build`, as `./x package` does, from the binaries that the tests have.

use crate::support::Bed;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of the binaries, which they print.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The checkout.
pub(super) fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Binaries to be packed.
pub(super) struct Binaries(tempfile::TempDir);

impl Binaries {
    /// Those that the tests have, without symbols, as the release build makes them.
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let daemon = Path::new(env!("CARGO_BIN_EXE_palisaded"));
        let programs = [palisade_acceptance::programs::palisade(daemon), daemon.to_owned()];
        for (from, name) in programs.iter().zip(["palisade", "palisaded"]) {
            let to = directory.path().join(name);
            let stripped = Command::new("strip").arg("-o").arg(&to).arg(from).status();
            assert!(stripped.is_ok_and(|status| status.success()), "strip: apt-get install binutils");
            fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self(directory)
    }

    /// The same programs with other content, as those of another version are.
    pub(super) fn changed(&self) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["palisade", "palisaded"] {
            let to = directory.path().join(name);
            fs::copy(self.0.path().join(name), &to).unwrap();
            fs::OpenOptions::new().append(true).open(to).unwrap().write_all(b"another version\n").unwrap();
        }
        Self(directory)
    }

    /// Whether `palisade` is static, as it is shipped. cargo's own tests have one that isn't.
    pub(super) fn are_static(&self) -> bool {
        let program = fs::read(self.0.path().join("palisade")).unwrap();
        !program[..1024].windows(8).any(|name| name == b"ld-linux")
    }

    /// Packs them. `wrap` is a command that runs the form's own script.
    pub(super) fn pack(&self, form: &str, version: &str, wrap: &[&str]) -> Made {
        let made = tempfile::tempdir().unwrap();
        let script = checkout().join("packaging").join(form).join("build");
        let mut words = wrap.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        words.push(script.display().to_string());
        let output = Command::new(&words[0])
            .args(&words[1..])
            .env("PACKAGE_BINARIES", self.0.path())
            .env("PACKAGE_VERSION", version)
            .env("PACKAGE_OUTPUT", made.path())
            .env("PACKAGE_ROOT", checkout())
            .env("SOURCE_DATE_EPOCH", "1795800700")
            .env("PACKAGE_LEVEL", "1")
            .env("CARGO_NET_OFFLINE", "true")
            .output()
            .unwrap();
        assert!(output.status.success(), "{form}: {output:?}");
        Made(made)
    }
}

/// Packages of one form and one version.
pub(super) struct Made(tempfile::TempDir);

impl Made {
    /// The packages' names and contents.
    pub(super) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(self.0.path()).unwrap().map(Result::unwrap);
        let read =
            |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
        let mut files: Vec<_> = entries.map(read).collect();
        files.sort();
        files
    }

    pub(super) fn directory(&self) -> &Path {
        self.0.path()
    }

    /// Puts the packages into a directory of a host.
    pub(super) fn bring(&self, bed: &Bed, directory: &str) {
        for (name, content) in self.files() {
            bed.write(format!("{directory}/{name}"), content);
        }
    }
}
