// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds an earlier commit of the project in the same way as this palisade: the same profile, target and compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::GateError;
use crate::workload::first_line;

/// How a palisade was built, derived from its place in a target directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Build {
    pub(crate) profile: String,
    /// `None`: the host's own target.
    triple: Option<String>,
    target_directory: PathBuf,
}

impl Build {
    /// The build of `TARGET/TRIPLE/PROFILE/palisade` or `TARGET/PROFILE/palisade`. For a program at another place: a build
    /// below `repository` with `profile`.
    pub(crate) fn of(palisade: &Path, profile: Option<&str>, repository: &Path) -> Self {
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let directory = palisade.parent();
        let above = directory.and_then(Path::parent);
        let triple =
            above.and_then(name).filter(|name| name.matches('-').count() >= 2 && name.contains("linux"));
        let target = if triple.is_some() { above.and_then(Path::parent) } else { above };
        let target = target.filter(|target| target.join("CACHEDIR.TAG").exists());
        let elsewhere = || {
            let variable = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
            repository.join(variable.unwrap_or_else(|| "target".into()))
        };
        Self {
            profile: profile.map(str::to_owned).or(directory.and_then(name)).unwrap_or_default(),
            triple,
            target_directory: target.map_or_else(elsewhere, Path::to_owned),
        }
    }

    /// Builds `commit` of `repository` and returns the program's path. The sources are removed again; compiled files stay for
    /// the next time.
    pub(crate) fn commit(&self, repository: &Path, commit: &str) -> Result<PathBuf, GateError> {
        let found = git(repository, &["rev-parse", "--verify", "--quiet", &format!("{commit}^{{commit}}")])?;
        let short: String = found.trim().chars().take(12).collect();
        let gate = self.target_directory.join("gate");
        let prepare = |path: &Path| {
            let path = path.to_owned();
            |source| GateError::Prepare { path, source }
        };
        fs::create_dir_all(&gate).map_err(prepare(&gate))?;
        let source = Worktree::add(repository, gate.join(format!("source-{short}")), found.trim())?;
        // An earlier commit may not have the profile, or may have a different one of that name.
        let profiles = gate.join("profiles.toml");
        let manifest = repository.join("Cargo.toml");
        let text = fs::read_to_string(&manifest)
            .map_err(|source| GateError::Read { path: manifest.clone(), source })?;
        fs::write(&profiles, self::profiles(&text)).map_err(prepare(&profiles))?;
        let built = gate.join("build");
        let profile = if self.profile == "debug" { "dev" } else { &self.profile };
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&source.path).env("CARGO_TARGET_DIR", &built).arg("--config").arg(&profiles);
        cargo.args(["build", "--locked", "--package", "palisade-cli", "--profile", profile]);
        let mut place = built;
        if let Some(triple) = &self.triple {
            cargo.args(["--target", triple]);
            place.push(triple);
        }
        run(&mut cargo)?;
        let program = gate.join(format!("palisade-{short}"));
        fs::copy(place.join(&self.profile).join("palisade"), &program).map_err(prepare(&program))?;
        Ok(program)
    }
}

/// The sources of one commit. They are removed on drop.
struct Worktree {
    repository: PathBuf,
    path: PathBuf,
}

impl Worktree {
    fn add(repository: &Path, path: PathBuf, commit: &str) -> Result<Self, GateError> {
        let tree = Self { repository: repository.to_owned(), path };
        // Removes what an earlier run left if it was killed.
        tree.remove();
        let place = tree.path.to_string_lossy().into_owned();
        git(repository, &["worktree", "add", "--quiet", "--detach", &place, commit])?;
        Ok(tree)
    }

    fn remove(&self) {
        let place = self.path.to_string_lossy().into_owned();
        // Usually there is none.
        let _removed = git(&self.repository, &["worktree", "remove", "--force", &place]);
        let _pruned = git(&self.repository, &["worktree", "prune"]);
    }
}

impl Drop for Worktree {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The text of the profiles in a workspace's manifest.
fn profiles(manifest: &str) -> String {
    let mut inside = false;
    let mut profiles = String::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.starts_with("[profile.");
        }
        if inside {
            profiles += line;
            profiles.push('\n');
        }
    }
    profiles
}

fn git(repository: &Path, words: &[&str]) -> Result<String, GateError> {
    let mut command = Command::new("git");
    command.arg("-C").arg(repository).args(words);
    run(command.stdout(Stdio::piped()))
}

/// Runs the command to its end and returns its output.
fn run(command: &mut Command) -> Result<String, GateError> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let shown = words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| GateError::Run { program: shown.clone(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    // Cargo prints the error at the end.
    let said = String::from_utf8_lossy(&output.stderr);
    let error = said.lines().find(|line| line.starts_with("error")).map(str::to_owned);
    let said = error.unwrap_or_else(|| first_line(&output.stderr));
    Err(GateError::Failed { command: shown, said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_says_how_it_was_built() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("CACHEDIR.TAG"), "").unwrap();
        let of = |path: &str, profile| Build::of(&target.join(path), profile, Path::new("/r"));
        let build = of("x86_64-unknown-linux-musl/quick/palisade", None);
        assert_eq!(
            (build.profile.as_str(), build.triple.as_deref()),
            ("quick", Some("x86_64-unknown-linux-musl"))
        );
        assert_eq!(build.target_directory, target);
        let own = of("debug/palisade", None);
        assert_eq!((own.profile.as_str(), own.triple), ("debug", None));
        let copied = Build::of(Path::new("/usr/bin/palisade"), Some("quick"), Path::new("/r"));
        assert_eq!(copied.profile, "quick");
        assert!(copied.target_directory.starts_with("/r") || std::env::var_os("CARGO_TARGET_DIR").is_some());
    }

    #[test]
    fn profiles_are_taken_from_the_manifest_and_nothing_else() {
        let text = "[workspace]\nmembers = []\n[profile.quick]\ninherits = \"release\"\nlto = false\n\n[lints]\nx = 1\n[profile.dev.package.a]\nopt-level = 3\n";
        assert_eq!(
            profiles(text),
            "[profile.quick]\ninherits = \"release\"\nlto = false\n\n[profile.dev.package.a]\nopt-level = 3\n"
        );
    }

    /// Makes a repository with a package of that name, which prints its commit.
    #[test]
    fn a_commit_is_built_with_todays_profile_and_nothing_is_left_but_the_program() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("src")).unwrap();
        let manifest = "[package]\nname = \"palisade-cli\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[[bin]]\nname = \"palisade\"\npath = \"src/main.rs\"\n[workspace]\n";
        fs::write(at("Cargo.toml"), manifest).unwrap();
        fs::write(
            at("Cargo.lock"),
            "version = 4\n[[package]]\nname = \"palisade-cli\"\nversion = \"0.1.0\"\n",
        )
        .unwrap();
        let program = |words: &str| {
            fs::write(
                at("src/main.rs"),
                format!("fn main() {{ println!(\"{words}, {{}}\", cfg!(debug_assertions)); }}\n"),
            )
            .unwrap()
        };
        let commit = || {
            git(directory.path(), &["add", "."]).unwrap();
            git(directory.path(), &["-c", "user.name=x", "-c", "user.email=x@invalid", "commit", "-qm", "x"])
                .unwrap();
        };
        git(directory.path(), &["init", "--quiet"]).unwrap();
        program("first");
        commit();
        program("second");
        // Only the present manifest has this profile.
        fs::write(
            at("Cargo.toml"),
            format!("{manifest}[profile.quick]\ninherits = \"release\"\nopt-level = 0\n"),
        )
        .unwrap();
        commit();
        let build = Build { profile: "quick".into(), triple: None, target_directory: at("target") };
        let built = build.commit(directory.path(), "HEAD~1").unwrap();
        let output = Command::new(&built).output().unwrap();
        assert_eq!(output.stdout, b"first, false\n");
        assert_eq!(git(directory.path(), &["worktree", "list"]).unwrap().lines().count(), 1);
        let error = build.commit(directory.path(), "no-such-commit").unwrap_err();
        assert!(error.to_string().contains("no-such-commit"), "{error}");
    }
}
