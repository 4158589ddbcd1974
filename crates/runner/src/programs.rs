// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the test programs: one build of the whole workspace with all features.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The crate, without `palisade-`.
    pub(crate) package: String,
    /// `unit` for the tests in a crate's own sources, else the name of the test target.
    pub(crate) target: String,
    /// Where it lies.
    pub(crate) path: PathBuf,
    /// The crate's directory, in which cargo would start it.
    pub(crate) directory: PathBuf,
}

/// Why there are no programs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error("can't start cargo: {0}")]
    Start(#[source] std::io::Error),
    #[error("cargo could not build the tests")]
    Failed,
    #[error("can't understand cargo's message: {0}")]
    Message(String),
    #[error("can't read {}: {source}\nhint: ./x test   # without --no-build", path.display())]
    Kept { path: PathBuf, source: std::io::Error },
}

/// Builds the test programs of `crates` (all when empty) and remembers them in `kept`.
///
/// # Errors
/// [`BuildError`].
pub(crate) fn build(crates: &[String], kept: &std::path::Path) -> Result<Vec<Program>, BuildError> {
    let mut cargo = Command::new(cargo());
    cargo.args(["test", "--no-run", "--all-features", "--message-format=json-render-diagnostics"]);
    if crates.is_empty() {
        cargo.arg("--workspace");
    }
    for name in crates {
        cargo.args(["-p", &format!("palisade-{name}")]);
    }
    let output = cargo.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(BuildError::Start)?;
    if !output.status.success() {
        return Err(BuildError::Failed);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let programs = built(&text)?;
    if crates.is_empty() {
        // For --no-build. Failing to write it doesn't affect this run.
        let _not_kept = std::fs::write(kept, text.as_bytes());
    }
    Ok(programs)
}

/// The programs of the last whole build.
///
/// # Errors
/// If there was none.
pub(crate) fn again(kept: &std::path::Path) -> Result<Vec<Program>, BuildError> {
    let text =
        std::fs::read_to_string(kept).map_err(|source| BuildError::Kept { path: kept.to_owned(), source })?;
    built(&text)
}

/// The cargo that started this process, or the one on the path.
pub(crate) fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn built(messages: &str) -> Result<Vec<Program>, BuildError> {
    let mut programs = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value =
            serde_json::from_str(line).map_err(|error| BuildError::Message(error.to_string()))?;
        if let Some(program) = program(&message) {
            programs.push(program);
        }
    }
    programs.sort_by(|one, other| (&one.package, &one.target).cmp(&(&other.package, &other.target)));
    Ok(programs)
}

/// The test program that a message of cargo reports as built, if it reports one.
fn program(message: &Value) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let path = message["executable"].as_str()?;
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let directory = manifest.parent()?.to_owned();
    let package = directory.file_name()?.to_str()?.to_owned();
    let kind = message["target"]["kind"][0].as_str()?;
    let name = message["target"]["name"].as_str()?;
    let target = match kind {
        "test" => name.to_owned(),
        "lib" | "bin" => "unit".to_owned(),
        _ => format!("{kind}-{name}"),
    };
    Some(Program { package, target, path: path.into(), directory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_told_from_what_else_is_built() {
        let text = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/p/crates/host/Cargo.toml","target":{"kind":["lib"],"name":"palisade_host"},"profile":{"test":true},"executable":"/t/host-1"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/p/crates/host/Cargo.toml","target":{"kind":["lib"],"name":"palisade_host"},"profile":{"test":false},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/p/crates/cli/Cargo.toml","target":{"kind":["test"],"name":"integration"},"profile":{"test":true},"executable":"/t/integration-1"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let programs = built(text).unwrap();
        let names: Vec<_> = programs.iter().map(|one| (one.package.as_str(), one.target.as_str())).collect();
        assert_eq!(names, [("cli", "integration"), ("host", "unit")]);
        assert!(built("{not json").is_err());
    }
}
