// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that `cargo install` or `cargo binstall` has put into `ROOT/bin`. cargo lists what it installed in
//! `ROOT/.crates.toml`: `"palisade-cli 0.1.0 (SOURCE)" = ["palisade"]`.

use super::installation::{Installation, Program, above, with_rights, word};
use std::path::{Path, PathBuf};

const PACKAGE: &str = env!("CARGO_PKG_NAME");

pub(super) fn find(program: &Program<'_>) -> Option<Installation> {
    let root = above(program, 2).filter(|_root| above(program, 1).is_some_and(|bin| bin.ends_with("bin")))?;
    let listed = std::fs::read_to_string(root.join(".crates.toml")).ok()?;
    let source = source(&listed)?;
    let usual = usual_root(program);
    let option =
        if usual.as_deref() == Some(root) { String::new() } else { format!(" --root {}", word(root)) };
    let from = match source.split_once('+') {
        _ if usual.as_deref().is_some_and(by_binstall) => format!("binstall --locked {PACKAGE}"),
        Some(("path", place)) => {
            let place = place.strip_prefix("file://").unwrap_or(place);
            format!("install --locked{} --path {}", target(), palisade_text::quoted(place))
        }
        Some(("git", url)) => {
            let url = url.split(['?', '#']).next().unwrap_or_default();
            format!("install --locked{} --git {} {PACKAGE}", target(), palisade_text::quoted(url))
        }
        _ => format!("install --locked{} {PACKAGE}", target()),
    };
    Some(Installation::new(
        "cargo",
        format!("with cargo, in {}", word(root)),
        with_rights(root, format!("cargo {from}{option}")),
        with_rights(root, format!("cargo uninstall{option} {PACKAGE}")),
    ))
}

/// The option without which the update of a static program would be one that isn't.
fn target() -> String {
    let option = || format!(" --target {}-unknown-linux-musl", std::env::consts::ARCH);
    if cfg!(target_env = "musl") { option() } else { String::new() }
}

/// The source of this program's package.
fn source(listed: &str) -> Option<&str> {
    let key =
        listed.lines().find_map(|line| line.strip_prefix('"')?.strip_prefix(PACKAGE)?.strip_prefix(' '))?;
    let (_version, rest) = key.split_once(" (")?;
    Some(rest.split_once(")\"")?.0)
}

/// Where cargo installs without `--root`.
fn usual_root(program: &Program<'_>) -> Option<PathBuf> {
    let variable =
        ["CARGO_INSTALL_ROOT", "CARGO_HOME"].iter().find_map(|name| program.environment.absolute(name));
    variable.map(Path::to_path_buf).or_else(|| Some(program.home()?.join(".cargo")))
}

/// Whether binstall lists the package, one JSON object after the other.
fn by_binstall(root: &Path) -> bool {
    let listed = std::fs::read_to_string(root.join("binstall/crates-v1.json"));
    listed.is_ok_and(|listed| listed.contains(&format!("\"{PACKAGE}\"")))
}
