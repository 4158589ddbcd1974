// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares with firejail: what a program can read, change and execute under a profile there, and under the profile
//! that Palisade imported from it.

use crate::support::{has, is_root, job};
use palisade_acceptance::person::Person;
use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the home; each is a program that ends with 7.
const FILES: [&str; 14] = [
    ".bashrc",
    ".cache/thing",
    ".config/app/conf",
    ".config/app/deep/conf",
    ".config/other/conf",
    ".local/share/app/data",
    ".mozilla/profile",
    ".ssh/id",
    "Documents/text",
    "Documents/private/text",
    "Downloads/file",
    "Pictures/image",
    "bin/tool",
    "notes",
];

/// Files of the system: only whether they can be read is asked.
const SYSTEM: [&str; 8] = [
    "/etc/passwd",
    "/etc/login.defs",
    "/etc/hosts",
    "/etc/os-release",
    "/usr/bin/env",
    "/usr/share/perl5/constant.pm",
    "/var/lib/dpkg/status",
    "/var/log/dpkg.log",
];

const CONTENT: &str = "#!/bin/sh\nexit 7\n";

/// An ordinary user with these files in the home, which firejail takes from the list of users.
struct Somebody {
    person: Person,
    home: PathBuf,
}

impl Somebody {
    fn new() -> Self {
        let person = Person::ordinary("import").unwrap_or_else(|error| panic!("{error}"));
        let home = person.base.parent().unwrap().to_owned();
        let somebody = Self { person, home };
        somebody.reset();
        let given = std::env::var_os("PALISADE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_palisade").into());
        // A child process copies it, so that no child of another test has it open for writing.
        assert!(Command::new("cp").arg(given).arg(somebody.palisade()).status().unwrap().success());
        somebody
    }

    fn palisade(&self) -> PathBuf {
        self.person.base.join("palisade")
    }

    fn reset(&self) {
        for file in FILES {
            self.write(file, CONTENT);
        }
    }

    fn write(&self, below: &str, content: &str) -> PathBuf {
        let path = self.home.join(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        for made in path.ancestors().take_while(|made| *made != self.home) {
            chown(made, Some(self.person.uid), Some(self.person.gid)).unwrap();
        }
        path
    }

    fn command(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .args(arguments)
            .current_dir(&self.home)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &self.home)
            .env("USER", &self.person.name)
            .uid(self.person.uid)
            .gid(self.person.gid);
        command
    }

    /// What is allowed under a profile here and by firejail; here no more.
    fn both(&self, profile: &str) -> (BTreeSet<String>, BTreeSet<String>) {
        let file = self.write("cases/sh.profile", profile);
        let file = file.to_str().unwrap();
        let path = format!("--profile={file}");
        let there = self.allowed(self.command("/usr/bin/firejail", &["--quiet", &path, "--", "/bin/sh"]));
        let import = ["import", "--from", "firejail", "--name", "oracle", "--force", file];
        job::finish(&mut self.command(self.palisade(), &import)).ok();
        let here = self.allowed(self.command(self.palisade(), &["open", "oracle"]));
        let more: Vec<&String> = here.difference(&there).collect();
        assert_eq!(more, [""; 0], "allowed here only, with\n{profile}");
        (here, there)
    }

    /// What `launcher` allows: `r`, `w` or `x`, and the path; writing as the host sees it.
    fn allowed(&self, mut launcher: Command) -> BTreeSet<String> {
        let home = self.home.display();
        let mut script = String::new();
        for file in FILES {
            script.push_str(&format!(
                "f='{home}/{file}'; read -r l 2>/dev/null <\"$f\" && [ -n \"$l\" ] && echo 'r {file}'\n\
                 \"$f\" 2>/dev/null; [ $? -eq 7 ] && echo 'x {file}'\n( echo more >>\"$f\" ) 2>/dev/null\n"
            ));
        }
        for file in SYSTEM {
            script.push_str(&format!("( read -r l <{file} ) 2>/dev/null && echo 'r {file}'\n"));
        }
        let run = job::finish(launcher.args(["-c", &format!("{script}echo done")]));
        let mut lines: BTreeSet<String> = run.out.lines().map(str::to_owned).collect();
        assert!(lines.remove("done"), "it ran to its end: {run:?}");
        for file in FILES {
            if std::fs::read_to_string(self.home.join(file)).unwrap() != CONTENT {
                lines.insert(format!("w {file}"));
            }
        }
        self.reset();
        lines
    }
}

/// Names that programs outside obey can't be changed in any sandbox here.
const PROTECTED: &[&str] = &["w .bashrc", "w .ssh/id"];
/// Firejail puts a fresh one into a home that is its own.
const SKELETON: &[&str] = &["r .bashrc"];

/// A profile, and what firejail allows under it and the imported one doesn't.
const CASES: [(&str, &[&str]); 8] = [
    ("net none\n", PROTECTED),
    (
        "blacklist ${HOME}/.ssh\nread-only ${HOME}/.config\nread-write ${HOME}/.config/app\n\
         noexec ${HOME}/bin\nblacklist ${HOME}/.config/app/deep\n",
        PROTECTED,
    ),
    (
        "whitelist ${HOME}/.config/app\nwhitelist ${HOME}/Documents\nread-only ${HOME}/Documents\n\
         blacklist ${HOME}/Documents/private\n",
        SKELETON,
    ),
    ("noblacklist ${HOME}/.mozilla\nblacklist ${HOME}/.*\n", &[]),
    ("private\nprivate-etc passwd,group\n", SKELETON),
    ("read-only ${HOME}\nnoexec ${HOME}\nread-write ${HOME}/Downloads\n", &[]),
    ("private-bin sh,env\nprivate-cache\ntmpfs ${HOME}/Pictures\n", PROTECTED),
    (
        "blacklist ${HOME}/D*\nwhitelist ${HOME}/Documents\nwhitelist ${HOME}/notes\nwritable-var-log\n",
        SKELETON,
    ),
];

/// Profiles that firejail ships, under which it has to do no more than start a shell.
const SHIPPED: [&str; 10] =
    ["default", "firefox", "gimp", "libreoffice", "vlc", "evince", "git", "ssh", "thunderbird", "wget"];

#[test]
fn an_imported_profile_allows_what_firejail_does_and_no_more() {
    if !has("firejail") || !has("userns") || !is_root() {
        return;
    }
    let somebody = Somebody::new();
    let outside = somebody.allowed(somebody.command("/bin/sh", &[]));
    for file in FILES {
        let all = ["r", "w", "x"].iter().all(|verb| outside.contains(&format!("{verb} {file}")));
        assert!(all, "{file} without any launcher: {outside:?}");
    }
    for (profile, less) in CASES {
        let (here, there) = somebody.both(profile);
        let lacking = there.difference(&here).filter(|line| !less.contains(&line.as_str()));
        assert_eq!(lacking.collect::<Vec<_>>(), [""; 0], "allowed by firejail only, with\n{profile}");
    }
    let (mut here, mut there) = (0, 0);
    for name in SHIPPED {
        let profile = format!(
            "ignore include disable-shell.inc\nignore private-bin\nignore dbus-user\n\
             include /etc/firejail/{name}.profile\n"
        );
        let both = somebody.both(&profile);
        assert!(both.1.len() < outside.len(), "{name} takes something away");
        here += both.0.len();
        there += both.1.len();
    }
    assert!(here * 10 >= there * 7, "{here} of {there} that firejail allows");
}
