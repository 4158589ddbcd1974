// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests for failures that other programs have had.

use crate::support::{Bed, Settings, compile};

/// The run-time linker of this machine.
const LINKER: &str = "/lib64/ld-linux-x86-64.so.2";

/// A guard with the default policy that trusts these existing files.
fn trusting(bed: &mut Bed, names: &[&str]) {
    for name in names {
        bed.trust(&format!("{name}.trust"), &[&bed.at(name)]);
    }
    bed.settings(&Settings::enforce());
    bed.start();
}

pub(crate) fn linker() {
    let mut bed = Bed::new();
    bed.copy("/bin/true", bed.at("a"));
    bed.copy("/bin/true", bed.at("stranger"));
    bed.copy(LINKER, bed.at("ld.so"));
    trusting(&mut bed, &["a", "ld.so"]);
    bed.run_as_user(&format!("{LINKER} ./a && ./ld.so ./a")).ok();
    bed.run_as_user(&format!("{LINKER} ./stranger")).refused();
    bed.run_as_user("./ld.so ./stranger").refused();
}

pub(crate) fn static_programs() {
    let mut bed = Bed::new();
    let program = compile("int main() { return 0; }", &["-static"]);
    for name in ["a", "stranger"] {
        bed.program(bed.at(name), &program);
    }
    trusting(&mut bed, &["a"]);
    bed.run_as_user("./a").ok();
    bed.run_as_user("./stranger").refused();
    bed.rules("deny_audit perm=any pattern=static : path=BED/data\nallow perm=any all : all\n");
    bed.reload();
    bed.run_as_user("./stranger").ok();
}

pub(crate) fn ldd() {
    let mut bed = Bed::new();
    bed.copy("/bin/ls", bed.at("a"));
    bed.copy("/bin/ls", bed.at("stranger"));
    trusting(&mut bed, &["a"]);
    assert!(bed.run_as_user("ldd ./a").ok().contains("libc.so"));
    assert!(!bed.run_as_user("ldd ./stranger").worked());
}

pub(crate) fn sockets_and_pipes() {
    let mut bed = Bed::new();
    bed.copy("/bin/cat", bed.at("cat"));
    trusting(&mut bed, &["cat"]);
    // Also an import of executables below a directory, which must not wait until a process writes to the pipe.
    bed.run("mkfifo pipe; chmod 777 pipe; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\"").ok();
    let settings = Settings::enforce().trust(&format!("directories = [\"{}\"]", bed.point.display()));
    bed.settings(&settings);
    bed.wait_for_import(|| bed.reload());
    bed.run("timeout 30 sh -c './cat pipe & echo said > pipe; wait'").ok();
    bed.run("./cat socket").refused_by_itself();
    bed.run("./cat < /dev/null").ok();
}

pub(crate) fn perl() {
    let mut bed = Bed::new();
    bed.program(bed.at("trusted.pl"), "#!/usr/bin/perl\nprint \"said\\n\";\n");
    bed.program(bed.at("stranger.pl"), "#!/usr/bin/perl\nprint \"said\\n\";\n");
    bed.program(bed.at("env.pl"), "#!/usr/bin/env perl\nprint \"said\\n\";\n");
    bed.write(bed.at("data"), "package, perl and use strict are words of this text.\n");
    trusting(&mut bed, &["trusted.pl"]);
    bed.run_as_user("./trusted.pl && perl trusted.pl && cat data").ok();
    for script in ["./stranger.pl", "perl stranger.pl", "./env.pl", "perl env.pl", "perl < stranger.pl"] {
        bed.run_as_user(script).refused();
    }
}
