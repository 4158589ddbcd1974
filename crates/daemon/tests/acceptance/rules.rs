// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what rules say, and what the guard then does.

use crate::support::{Bed, ORDINARY, Settings, sha256};
use std::io::{Read, Write};
use std::process::Stdio;

/// A bed with copies of a program, each with other content, and these rules in force.
fn ruled(names: &[&str], rules: impl Fn(&Bed) -> String) -> Bed {
    let mut bed = Bed::new();
    for name in names {
        bed.program(bed.at(name), content(name));
    }
    let settings = Settings { trust: "sources = []".into(), ..Settings::enforce() };
    bed.settings(&settings);
    bed.rules(&rules(&bed));
    bed.start();
    bed
}

fn content(name: &str) -> Vec<u8> {
    let mut content = std::fs::read("/bin/true").unwrap();
    content.extend(name.as_bytes());
    content
}

pub(crate) fn allow_by_path() {
    let bed = ruled(&["a", "b"], |_| "allow perm=any all : path=BED/a\ndeny_audit perm=any all : all".into());
    bed.run("./a").ok();
    bed.run("./b").refused();
    bed.run_as_user("./a").ok();
    bed.run_as_user("cat b").refused();
}

pub(crate) fn allow_by_directory() {
    let bed = ruled(&["dir/a", "dir/deep/b", "dirt"], |_| {
        "allow perm=any all : dir=BED/dir/\ndeny_audit perm=any all : all".into()
    });
    bed.run("dir/a && dir/deep/b").ok();
    bed.run("./dirt").refused();
}

pub(crate) fn allow_by_hash() {
    let bed = ruled(&["a", "b", "c"], |_| {
        let hash = |name: &str| sha256(&content(name));
        format!(
            "allow perm=any all : filehash={}\nallow perm=any all : sha256hash={}\ndeny_audit perm=any all : all",
            hash("a"),
            hash("b")
        )
    });
    bed.run("./a && ./b").ok();
    bed.run("./c").refused();
}

pub(crate) fn sets() {
    let mut bed = ruled(&["a", "b", "c"], |_| {
        "%progs=BED/a,BED/b\nallow perm=any all : path=%progs\ndeny_audit perm=any all : all".into()
    });
    bed.run("./a && ./b").ok();
    bed.run("./c").refused();
    bed.stop();
    for (rules, wanted) in [
        ("allow perm=any all : path=%nothing\n", "50-test.rules:1:"),
        ("# a comment\n%set\nallow perm=any all : all\n", "50-test.rules:2:"),
        ("%a=1,x\nallow perm=any uid=%a : all\n", "50-test.rules:"),
    ] {
        bed.rules(rules);
        bed.options = vec!["--check"];
        bed.launch();
        assert_eq!(bed.ended(), Some(2), "{rules}");
        assert!(bed.log().contains(wanted), "{rules}: {}", bed.log());
    }
}

pub(crate) fn groups() {
    let bed = ruled(&["primary", "more", "root"], |_| {
        format!(
            "allow perm=any gid={ORDINARY} : path=BED/primary\nallow perm=any gid=5151 : path=BED/more\n\
             allow perm=any gid=0 : path=BED/root\ndeny_audit perm=any all : all"
        )
    });
    bed.run_as_user("./primary").ok();
    bed.run_as_user("./more").refused();
    bed.run_as_user("./root").refused();
    bed.run("./root").ok();
    bed.run("./primary").refused();
    let mut also =
        bed.command(0, "20", &["setpriv", "--reuid=47110", "--regid=47111", "--groups=5151,0", "--"]);
    let script = format!("{0}/more && {0}/root && ! {0}/primary", bed.point.display());
    let output = also.args(["/bin/sh", "-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

pub(crate) fn parents() {
    let bed = ruled(&["a"], |_| "deny_audit perm=any all : path=BED/a".into());
    let shell = || {
        let script = "echo $$; read go; \"$BED/a\" && echo ran";
        let mut command = bed.command(0, "60", &["/bin/sh", "-c", script]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut number = [0; 16];
        let length = child.stdout.as_mut().unwrap().read(&mut number).unwrap();
        (child, String::from_utf8_lossy(&number[..length]).trim().to_owned())
    };
    let ((mut one, number), (mut other, _)) = (shell(), shell());
    bed.rules(&format!("allow perm=any ppid={number} : path=BED/a\ndeny_audit perm=any all : path=BED/a"));
    bed.reload();
    let finish = |child: &mut std::process::Child| {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let mut said = String::new();
        child.stdout.as_mut().unwrap().read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        said.contains("ran")
    };
    assert!(finish(&mut one));
    assert!(!finish(&mut other));
}

pub(crate) fn order_of_files() {
    let mut bed = ruled(&["a"], |_| "deny_audit perm=any all : path=BED/a".into());
    bed.run("./a").refused();
    // Sorted as by `ls -v`: 9 before 50 before 100.
    bed.rule_file("100-late.rules", "allow perm=any all : path=BED/a\n");
    bed.reload();
    bed.run("./a").refused();
    bed.rule_file("9-early.rules", "allow perm=any all : path=BED/a\n");
    bed.reload();
    bed.run("./a").ok();
    // An editor's backup is no rule file, and a package upgrade makes .dpkg-new files beside the rule files.
    bed.rule_file("1-first.rules.dpkg-new", "deny_audit perm=any all : path=BED/a\n");
    bed.rule_file(".1-first.rules", "deny_audit perm=any all : path=BED/a\n");
    bed.reload();
    bed.run("./a").ok();
    // The rules in guard.toml are the administrator's exceptions, and come first.
    let rules = format!(
        "[[guard.rule]]\ndeny = \"any\"\nobject = {{ path = \"{}\" }}\nbecause = \"it is tested\"",
        bed.at("a").display()
    );
    bed.settings(&Settings { rules, trust: "sources = []".into(), ..Settings::enforce() });
    bed.reload();
    bed.run("./a").refused();
    // A file that can't be understood, whatever follows it, changes nothing.
    bed.rule_file("200-wrong.rules", "alow perm=any all : all\n");
    bed.options = vec!["--check"];
    bed.stop();
    bed.launch();
    assert_eq!(bed.ended(), Some(2));
    assert!(bed.log().contains("200-wrong.rules:1:"), "{}", bed.log());
}

pub(crate) fn shell_scripts() {
    let mut bed = Bed::new();
    for name in ["trusted.sh", "stranger.sh"] {
        bed.program(bed.at(name), format!("#!/bin/sh\necho {name}\n"));
    }
    bed.trust("test", &[&bed.at("trusted.sh")]);
    bed.settings(&Settings::enforce());
    bed.start();
    for name in ["trusted.sh", "stranger.sh"] {
        for how in ["./", "sh ./", ". ./", "sh < ./"] {
            assert!(bed.run_as_user(&format!("{how}{name}")).ok().contains(name));
        }
    }
    let settings = Settings::enforce();
    bed.settings(&Settings { guard: format!("{}\nrules = \"restrictive\"", settings.guard), ..settings });
    bed.reload();
    for how in ["./", "sh ./", ". ./", "sh < ./"] {
        assert!(bed.run_as_user(&format!("{how}trusted.sh")).ok().contains("trusted.sh"));
        bed.run_as_user(&format!("{how}stranger.sh")).refused();
    }
}
