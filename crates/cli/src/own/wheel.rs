// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program of a Python wheel. The installer lists its files in `NAME-VERSION.dist-info/RECORD`, relative to the
//! directory of packages, and says in `INSTALLER` which one it is (packaging.python.org, "Recording installed projects").

use super::installation::{Installation, PUBLISHED, Program, above, is_same, with_rights, word};
use std::path::{Path, PathBuf};

pub(super) fn find(program: &Program<'_>) -> Option<Installation> {
    let prefix = above(program, 2)?;
    for packages in directories(prefix) {
        if let Some(record) = record(&packages, program.path) {
            return commands(prefix, &packages, &record);
        }
    }
    None
}

/// Where the packages of this prefix are. `pip install --target` puts them into the prefix itself.
fn directories(prefix: &Path) -> Vec<PathBuf> {
    let mut found = vec![prefix.to_owned()];
    for library in ["lib", "lib64"] {
        for entry in std::fs::read_dir(prefix.join(library)).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("python3") {
                found.extend(["site-packages", "dist-packages"].map(|name| entry.path().join(name)));
            }
        }
    }
    found
}

/// The directory of the record that lists the program.
fn record(packages: &Path, program: &Path) -> Option<PathBuf> {
    let begins = format!("{}-", PUBLISHED.replace('-', "_"));
    for entry in std::fs::read_dir(packages).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !(name.starts_with(&begins) && name.ends_with(".dist-info")) {
            continue;
        }
        let listed = std::fs::read_to_string(entry.path().join("RECORD")).unwrap_or_default();
        let mut files = listed.lines().filter_map(|line| line.split(',').next());
        // With `--target`, the paths are those of the directory from which pip has moved the files.
        let is_target = program.parent().and_then(Path::parent) == Some(packages);
        let is_it = |file: &str| match is_target {
            true => file.ends_with("/bin/palisade"),
            false => file.ends_with("/palisade") && is_same(packages.join(file), program),
        };
        if files.any(is_it) {
            return Some(entry.path());
        }
    }
    None
}

fn commands(prefix: &Path, packages: &Path, record: &Path) -> Option<Installation> {
    let installer = std::fs::read_to_string(record.join("INSTALLER")).unwrap_or_default();
    let installer = installer.trim();
    // A distribution that packs Python's projects lists them in its own database, too.
    if ["rpm", "debian", "dpkg"].contains(&installer) {
        return None;
    }
    let place = word(prefix);
    let new = |by, words, update, remove| Some(Installation::new(by, words, update, remove));
    let environment = prefix.file_name().map(|name| word(name.as_ref())).unwrap_or_default();
    if prefix.join("pipx_metadata.json").is_file() {
        let words = format!("with pipx, in {place}");
        return new(
            "pipx",
            words,
            format!("pipx upgrade {environment}"),
            format!("pipx uninstall {environment}"),
        );
    }
    if prefix.join("uv-receipt.toml").is_file() {
        let words = format!("with uv, in {place}");
        let (update, remove) =
            (format!("uv tool upgrade {environment}"), format!("uv tool uninstall {environment}"));
        return new("uv", words, update, remove);
    }
    if prefix == packages {
        // pip uninstalls nothing from such a directory. An update would leave the record of the version before.
        let update = [
            format!("rm -r {}", word(record)),
            format!("pip install --target {place} --upgrade {PUBLISHED}"),
        ];
        let remove = format!("rm -r {} {}", word(&prefix.join("bin/palisade")), word(record));
        return Some(Installation {
            by: "pip",
            words: format!("with pip, in the directory {place}"),
            update: update.map(|command| with_rights(prefix, command)).into(),
            remove: vec![with_rights(prefix, remove)],
        });
    }
    let python = interpreter(prefix, packages)?;
    if installer == "uv" {
        let words = format!("with uv, for {python}");
        let update = format!("uv pip install --python {python} --upgrade {PUBLISHED}");
        let remove = format!("uv pip uninstall --python {python} {PUBLISHED}");
        return new("uv", words, with_rights(packages, update), with_rights(packages, remove));
    }
    let managed = if is_managed(prefix, packages) { " --break-system-packages" } else { "" };
    let update = format!("{python} -m pip install{managed} --upgrade {PUBLISHED}");
    let remove = format!("{python} -m pip uninstall{managed} {PUBLISHED}");
    let words = format!("with pip, for {python}");
    new("pip", words, with_rights(packages, update), with_rights(packages, remove))
}

/// The Python whose directory of packages this is, as a word of a command.
fn interpreter(prefix: &Path, packages: &Path) -> Option<String> {
    if prefix.join("pyvenv.cfg").is_file() {
        return Some(word(&prefix.join("bin/python")));
    }
    let version = packages.parent()?.file_name()?;
    let own = prefix.join("bin").join(version);
    Some(if own.is_file() { word(&own) } else { word(Path::new(version)) })
}

/// Whether pip refuses to change the packages of this Python unless it is told to (PEP 668).
fn is_managed(prefix: &Path, packages: &Path) -> bool {
    let version = packages.parent().and_then(Path::file_name).unwrap_or_default();
    !prefix.join("pyvenv.cfg").is_file()
        && !prefix.join("bin").join(version).is_file()
        && ["/usr/lib", "/usr/lib64"]
            .iter()
            .any(|library| Path::new(library).join(version).join("EXTERNALLY-MANAGED").is_file())
}
