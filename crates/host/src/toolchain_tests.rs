// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests with a home that has toolchains, credentials next to them, and misleading variables.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;

struct Home {
    _dir: tempfile::TempDir,
    home: PathBuf,
}

impl Home {
    fn new(directories: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap().join("home");
        fs::create_dir(&home).unwrap();
        for directory in directories {
            fs::create_dir_all(home.join(directory)).unwrap();
        }
        Self { _dir: dir, home }
    }

    fn file(&self, path: &str) {
        let path = self.home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    fn find(&self, variables: &[(&str, &Path)]) -> Toolchains {
        let environment = variables.iter().copied().collect();
        find(&self.home, &environment, &Layout::default())
    }

    fn paths(&self, variables: &[(&str, &Path)]) -> Vec<String> {
        self.find(variables)
            .found
            .into_iter()
            .map(|toolchain| {
                let path = toolchain.path.strip_prefix(&self.home).unwrap();
                path.to_str().unwrap().to_owned()
            })
            .collect()
    }

    fn reason(&self, name: &str, value: &str) -> Reason {
        let value = self.home.join(value);
        let all = self.find(&[(name, &value)]);
        assert_eq!(all.found, [], "{name}={value:?}");
        assert_eq!(all.refused[0].variable.as_deref(), Some(name));
        all.refused[0].reason
    }
}

#[test]
fn finds_programs_and_never_credentials() {
    let home = Home::new(&[".cargo/bin", ".cargo/registry", ".rustup", ".local/share/uv/python"]);
    for secret in [
        ".cargo/credentials.toml",
        ".cargo/config.toml",
        ".local/share/uv/credentials/x",
        ".npmrc",
        ".gem/credentials",
        ".m2/settings.xml",
    ] {
        home.file(secret);
    }
    assert_eq!(home.paths(&[]), [".cargo/bin", ".cargo/registry", ".local/share/uv/python", ".rustup"]);
}

#[test]
fn no_row_of_the_table_touches_secrets() {
    let home = Path::new("/home/a");
    for row in table::HOME {
        assert_eq!(acceptable(&home.join(row.path), home), Ok(()), "{}", row.path);
        assert!(!row.path.starts_with('/') && !row.path.contains(".."));
    }
}

#[test]
fn a_link_is_kept_with_both_its_names() {
    let home = Home::new(&["data/rust"]);
    symlink("data/rust", home.home.join(".rustup")).unwrap();
    let found = home.find(&[]).found;
    assert_eq!(found[0].path, home.home.join(".rustup"));
    assert_eq!(found[0].canonical, home.home.join("data/rust"));
}

#[test]
fn links_that_lead_astray_are_refused() {
    let home = Home::new(&[".ssh"]);
    symlink(".ssh", home.home.join(".rustup")).unwrap();
    symlink(".", home.home.join(".nvm")).unwrap();
    symlink("/proc", home.home.join(".pyenv")).unwrap();
    let all = home.find(&[]);
    assert_eq!(all.found, []);
    let reasons: Vec<Reason> = all.refused.iter().map(|refused| refused.reason).collect();
    assert_eq!(reasons, [Reason::Secrets, Reason::Kernel, Reason::Home]);
}

#[test]
fn variables_move_toolchains() {
    let home = Home::new(&[
        "tools/rustup/toolchains",
        "tools/cargo/bin",
        "tools/cargo/registry",
        "gopath/pkg/mod",
        "gopath/src/private",
        "venv",
    ]);
    home.file("tools/cargo/credentials.toml");
    home.file("venv/pyvenv.cfg");
    let paths = home.paths(&[
        ("RUSTUP_HOME", &home.home.join("tools/rustup")),
        ("CARGO_HOME", &home.home.join("tools/cargo")),
        ("GOPATH", &home.home.join("gopath")),
        ("VIRTUAL_ENV", &home.home.join("venv")),
    ]);
    assert_eq!(paths, ["gopath/pkg/mod", "tools/cargo/bin", "tools/cargo/registry", "tools/rustup", "venv"]);
}

#[test]
fn misleading_variables_are_refused() {
    let home = Home::new(&["Documents", ".ssh/toolchains", "toolchains", ".config/versions"]);
    assert_eq!(home.reason("RUSTUP_HOME", "Documents"), Reason::Unlike);
    assert_eq!(home.reason("RUSTUP_HOME", ".ssh"), Reason::Secrets);
    assert_eq!(home.reason("RUSTUP_HOME", ""), Reason::Home);
    assert_eq!(home.reason("RUSTUP_HOME", "/"), Reason::Home);
    assert_eq!(home.reason("RUSTUP_HOME", "x/../../home"), Reason::NotPlain);
    assert_eq!(home.reason("PYENV_ROOT", ".config"), Reason::Secrets);
    assert_eq!(home.reason("JAVA_HOME", "/proc/self"), Reason::Kernel);
    let relative = home.find(&[("RUSTUP_HOME", Path::new("toolchains"))]);
    assert_eq!(relative.refused[0].reason, Reason::NotPlain);
    let missing = home.find(&[("RUSTUP_HOME", Path::new("/nowhere/at/all"))]);
    assert_eq!(missing, Toolchains::default());
}

#[test]
fn what_is_inside_another_is_dropped() {
    let home = Home::new(&[".pyenv/versions/3.12/bin"]);
    home.file(".pyenv/versions/3.12/pyvenv.cfg");
    let paths = home.paths(&[
        ("PYENV_ROOT", &home.home.join(".pyenv")),
        ("VIRTUAL_ENV", &home.home.join(".pyenv/versions/3.12")),
    ]);
    assert_eq!(paths, [".pyenv"]);
}

#[test]
fn what_the_view_shows_is_left_out() {
    let home = Home::new(&[]);
    let environment = Environment::from_iter([("JAVA_HOME", "/usr")]);
    let layout = Layout::read(Path::new("/"));
    let all = find(&home.home, &environment, &layout);
    assert_eq!(all, Toolchains::default());
}

#[test]
fn directories_of_path() {
    let home = Home::new(&["tool/bin", "x/shims", "projects/tool", ".ssh/bin", "real", "secret"]);
    symlink("../secret", home.home.join("x/bin")).unwrap();
    let join = |path: &str| home.home.join(path).to_str().unwrap().to_owned();
    let path = [
        "/usr/bin",
        ".",
        &join("tool/bin"),
        &join("tool/bin"),
        &join("x/shims"),
        &join("projects/tool"),
        &join(".ssh/bin"),
        &join("x/bin"),
        &join("missing/bin"),
        &join(""),
    ]
    .join(":");
    let environment = Environment::from_iter([("PATH", path)]);
    let layout = Layout::read(Path::new("/"));
    let all = path_directories(&home.home, &environment, &layout);
    let found: Vec<_> = all.found.iter().map(|found| found.path.clone()).collect();
    assert_eq!(found, [home.home.join("tool/bin"), home.home.join("x/shims")]);
    let refused: Vec<_> = all.refused.iter().map(|refused| refused.reason).collect();
    assert_eq!(refused, [Reason::NotBin, Reason::Secrets, Reason::NotBin, Reason::Home]);
}
