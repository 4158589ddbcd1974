// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wheel: pip installs it into an environment, for a user and into a directory; pipx and uv install it, too.

use super::{CURRENT, NEWER, commands, described, execute, file, made, place_tree, shell};
use crate::support::{Place, has, ordinary};
use std::path::PathBuf;

/// pip asks no index.
fn offline(directory: &std::path::Path) -> String {
    format!("PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_FIND_LINKS={}", directory.display())
}

/// The version that is recorded in `packages`, if there is one.
fn recorded(place: &Place, packages: &str) -> String {
    shell(place, &format!("cd {packages} && ls -d palisade_sandbox-*.dist-info")).out
}

/// A place with the wheels of two versions.
fn with_wheels() -> (Place, PathBuf, PathBuf) {
    let place = ordinary();
    let (current, newer) = (made(&place, "wheel", CURRENT), made(&place, "wheel", NEWER));
    (place, current, newer)
}

/// Installed, described, updated and removed: `install` is a line of shell, and `packages` is where the record is.
fn lives(place: &Place, install: &str, program: &str, by: &str, packages: &str, newer: &str) {
    shell(place, install).ok();
    let program = place.home.join(program);
    let answer = described(place, &program);
    assert_eq!(answer["installed_by"], by, "{answer}");
    assert!(recorded(place, packages).contains(CURRENT));
    execute(place, &commands(&answer, "update"), newer);
    assert_eq!(recorded(place, packages), format!("palisade_sandbox-{NEWER}.dist-info\n"));
    let answer = described(place, &program);
    assert_eq!(answer["installed_by"], by, "after the update: {answer}");
    execute(place, &commands(&answer, "remove"), newer);
    assert!(!program.exists() && recorded(place, packages).is_empty());
}

#[test]
fn pip_installs_it_into_an_environment_and_leaves_nothing() {
    if !has("venv") {
        return;
    }
    let (place, current, newer) = with_wheels();
    shell(&place, "/usr/bin/python3 -m venv ~/venv").ok();
    let before = place_tree(&place.home.join("venv"));
    let install = format!("{} ~/venv/bin/pip install palisade-sandbox", offline(&current));
    let packages = "~/venv/lib/python3*/site-packages";
    lives(&place, &install, "venv/bin/palisade", "pip", packages, &offline(&newer));
    assert_eq!(place_tree(&place.home.join("venv")), before);
}

#[test]
fn pip_installs_it_for_a_user_and_into_a_directory() {
    if !has("pip") {
        return;
    }
    let (place, current, newer) = with_wheels();
    // A Python of a distribution is marked, and one without the mark doesn't know the option.
    let marked = "$(ls /usr/lib/python3*/EXTERNALLY-MANAGED >/dev/null 2>&1 && echo --break-system-packages)";
    let install =
        format!("{} /usr/bin/python3 -m pip install --user {marked} palisade-sandbox", offline(&current));
    let newer = offline(&newer);
    lives(&place, &install, ".local/bin/palisade", "pip", "~/.local/lib/python3*/site-packages", &newer);
    let install = format!("{} pip install --target ~/t palisade-sandbox", offline(&current));
    lives(&place, &install, "t/bin/palisade", "pip", "~/t", &newer);
}

#[test]
fn pipx_and_uv_install_it() {
    let (place, current, newer) = with_wheels();
    if has("pipx") {
        let install = format!("{} pipx install palisade-sandbox", offline(&current));
        let packages = "~/.local/*/pipx/venvs/palisade-sandbox/lib/python3*/site-packages \
                        || cd ~/.local/pipx/venvs/palisade-sandbox/lib/python3*/site-packages";
        lives(&place, &install, ".local/bin/palisade", "pipx", packages, &offline(&newer));
    }
    if has("uv") {
        let tools = std::env::var("PALISADE_TEST_TOOLS").unwrap_or_default();
        let path = format!("PATH=$PATH:{tools} UV_OFFLINE=1 UV_NO_CONFIG=1 UV_PYTHON=/usr/bin/python3");
        let links = |directory: &std::path::Path| format!("{path} UV_FIND_LINKS={}", directory.display());
        let tool = format!("export {}; uv tool install palisade-sandbox", links(&current));
        let packages = "~/.local/share/uv/tools/palisade-sandbox/lib/python3*/site-packages";
        lives(&place, &tool, ".local/bin/palisade", "uv", packages, &links(&newer));
        let environment = format!(
            "export {}; uv venv ~/u && uv pip install --python ~/u palisade-sandbox",
            links(&current)
        );
        lives(&place, &environment, "u/bin/palisade", "uv", "~/u/lib/python3*/site-packages", &links(&newer));
    }
}

/// Tools that check a wheel find what its record states.
#[test]
fn the_record_is_right() {
    if !has("python3") {
        return;
    }
    let place = ordinary();
    let directory = made(&place, "wheel", CURRENT);
    let machine = std::env::consts::ARCH;
    let wheel = file(&directory, &format!("-py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}.whl"));
    place.write("check.py", CHECK);
    let run = shell(&place, &format!("/usr/bin/python3 ~/check.py '{}'", wheel.display()));
    assert_eq!(run.ok(), format!("palisade-sandbox {CURRENT} Apache-2.0 OR MIT"));
}

/// A hyphen would end the version in the name of a wheel.
#[test]
fn a_version_before_a_release_is_written_as_python_writes_it() {
    if !has("python3") {
        return;
    }
    let place = ordinary();
    let directory = made(&place, "wheel", "1.2.0-rc.3");
    let names = place_tree(&directory);
    assert!(names[1].starts_with("./palisade_sandbox-1.2.0rc3-py3-none-manylinux"), "{names:?}");
    let mut build = std::process::Command::new(super::root().join("packaging/wheel/build"));
    build
        .env("PACKAGE_ROOT", super::root())
        .env("PACKAGE_BINARIES", place.binary().parent().unwrap())
        .env("PACKAGE_VERSION", "1.2-3")
        .env("PACKAGE_OUTPUT", &place.work)
        .env("SOURCE_DATE_EPOCH", "1700000000");
    let run = crate::support::job::finish(&mut build);
    assert!(run.code != 0 && run.err.contains("1.2-3 has no form in Python"), "{run:?}");
}

const CHECK: &str = r#"
import base64, csv, email, hashlib, io, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
names = [entry.filename for entry in archive.infolist()]
record = next(name for name in names if name.endswith(".dist-info/RECORD"))
rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
assert sorted(row[0] for row in rows) == sorted(names) and len(set(names)) == len(names), (rows, names)
for name, digest, size in rows:
    if name == record:
        assert (digest, size) == ("", "")
        continue
    content = archive.read(name)
    expected = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    assert (digest, int(size)) == (expected, len(content)), name
program = next(entry for entry in archive.infolist() if entry.filename.endswith(".data/scripts/palisade"))
assert program.external_attr >> 16 == 0o100755, oct(program.external_attr)
about = email.message_from_bytes(archive.read(record.replace("RECORD", "METADATA")))
wheel = email.message_from_bytes(archive.read(record.replace("RECORD", "WHEEL")))
assert [f"py3-none-{tag}" for tag in sys.argv[1].rpartition("-")[2][:-4].split(".")] == wheel.get_all("Tag"), wheel.get_all("Tag")
for licence in about.get_all("License-File"):
    assert archive.read(record.replace("RECORD", "licenses/" + licence))
print(about["Name"], about["Version"], about["License-Expression"])
"#;

/// A program that needs a loader would fit fewer hosts than the wheel says.
#[test]
fn a_dynamic_program_is_refused() {
    if !has("python3") {
        return;
    }
    let place = ordinary();
    std::fs::create_dir_all(place.home.join("dynamic")).unwrap();
    std::fs::copy("/usr/bin/env", place.home.join("dynamic/palisade")).unwrap();
    for form in ["wheel", "npm", "nix"] {
        let mut build = std::process::Command::new(super::root().join("packaging").join(form).join("build"));
        build
            .env("PACKAGE_ROOT", super::root())
            .env("PACKAGE_BINARIES", place.home.join("dynamic"))
            .env("PACKAGE_VERSION", CURRENT)
            .env("PACKAGE_OUTPUT", &place.work)
            .env("SOURCE_DATE_EPOCH", "1700000000");
        let run = crate::support::job::finish(&mut build);
        assert!(run.code != 0 && run.err.contains("needs a loader"), "{form}: {run:?}");
        assert_eq!(place_tree(&place.work).len(), 1, "{form} leaves nothing");
    }
}
