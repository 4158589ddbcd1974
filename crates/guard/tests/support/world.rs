// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Creates files of many kinds, and eight users that open and execute them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::support::oracle::{Oracle, WATCHED};

/// A program with only a few system calls: it opens the file three times, and exits.
fn without_linker(opened: &str) -> Vec<u8> {
    let mut code = Vec::new();
    for open in 0..3_i32 {
        code.extend(b"\xb8\x02\0\0\0\x48\x8d\x3d");
        code.extend((3 * 16 + 9 - (16 * open + 12)).to_le_bytes());
        code.extend(b"\x31\xf6\x0f\x05");
    }
    code.extend(b"\xb8\x3c\0\0\0\x31\xff\x0f\x05");
    code.extend(opened.as_bytes());
    code.push(0);
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    bytes.extend(0x40_0078_u64.to_le_bytes());
    bytes.extend(64_u64.to_le_bytes());
    bytes.extend(b"\0\0\0\0\0\0\0\0\0\0\0\0\x40\0\x38\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x05\0\0\0");
    let size = 120 + code.len() as u64;
    for word in [0, 0x40_0000, 0x40_0000, size, size, 0x1000] {
        bytes.extend(u64::to_le_bytes(word));
    }
    bytes.extend(code);
    bytes
}

/// What each user does: opens of every file, then programs, scripts and the linker.
const ACT: &str = r#"
for round in 1 2 3 4 5 6 7 8 9 10 11 12; do
    for file in /mnt/w/data/* /mnt/w/dir/* /mnt/w/dirx/* /mnt/w/lib/* /mnt/w/bin/*; do
        exec 9<"$file"
    done
done
for round in 1 2 3 4 5 6 7 8 9; do
    /mnt/w/bin/true
    /mnt/w/other/true
    /mnt/w/bin/cat /mnt/w/data/text >/dev/null
    /mnt/w/bin/static
    /mnt/w/other/static
    /mnt/w/data/script.sh
    /mnt/w/bin/bash /mnt/w/data/sourced
    . /mnt/w/data/sourced
    /lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 /mnt/w/other/true
done
/mnt/w/dir/none 2>/dev/null
/mnt/w/data/bad.so 2>/dev/null
:
"#;

/// The users, groups and shells.
pub(crate) const EVERYONE: &str = r#"
while read -r uid gid groups shell; do
    setpriv --reuid $uid --regid $gid --groups $groups $shell /mnt/w/act
done <<END
0 0 0 /mnt/w/bin/bash
0 0 0 /mnt/w/other/bash
1000 1000 27,100 /mnt/w/bin/bash
1000 100 1000 /mnt/w/other/bash
33 33 4,5,6 /mnt/w/bin/bash
33 33 33 /bin/bash
65534 65534 65534 /mnt/w/other/bash
4000000 4000000 27,4000000 /bin/bash
END
"#;

/// Files of many kinds, half of them trusted.
pub(crate) fn world() -> Oracle {
    let mut world = Oracle::new();
    let read = |path: &str| std::fs::read(path).expect(path);
    for (name, from) in [("true", "/usr/bin/true"), ("cat", "/usr/bin/cat"), ("bash", "/usr/bin/bash")] {
        world.file(format!("bin/{name}"), &read(from), 0o755);
        world.file(format!("other/{name}"), &read(from), 0o755);
        world.trust(&format!("{WATCHED}/bin/{name}"));
    }
    let without = without_linker("/mnt/w/data/text");
    world.file("bin/static", &without, 0o755);
    world.file("other/static", &[&without[..], b"other"].concat(), 0o755);
    world.trust(&format!("{WATCHED}/bin/static"));
    world.file("act", ACT.as_bytes(), 0o755);
    let files: &[(&str, &[u8])] = &[
        ("data/text", b"Dear reader,\n"),
        ("data/script.sh", b"#!/mnt/w/bin/bash\n:\n"),
        ("data/sourced", b":\n"),
        ("data/module.py", b"import os\nprint(os)\n"),
        ("data/tool", b"#!/usr/bin/python3\nprint(1)\n"),
        ("data/elsewhere", b"#!/opt/python3\nprint(1)\n"),
        ("data/compiled.pyc", b"\xa7\x0d\x0d\x0a\0\0\0\0\0\0\0\0\0\0\0\0"),
        ("data/a.pl", b"#!/usr/bin/perl -w\nprint 1;\n"),
        ("data/a.class", b"\xca\xfe\xba\xbe\0\0\0\x3d\0\x10"),
        ("data/a.elc", b";ELC\x1c\0\0\0\n;;\n"),
        ("data/a.js", b"#!/usr/bin/env node\n1\n"),
        ("data/a.lua", b"#!/usr/bin/lua\nprint(1)\n"),
        ("data/a.rb", b"#!/usr/bin/env ruby\nputs 1\n"),
        ("data/a.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03"),
        ("data/a.xml", b"<?xml version=\"1.0\"?>\n<a/>\n"),
        ("data/empty", b""),
        ("data/with blank", b"x\n"),
        ("data/ path= exe=", b"x\n"),
        ("data/bytes", b"\0\x01\x02\x03\xfe\xff\0\0"),
        ("data/bad.so", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0"),
        ("dir/a", b"a\n"),
        ("dir/none", b"no program\n"),
        ("dir/below/b", b"b\n"),
        ("dirx/a", b"c\n"),
    ];
    for (index, (name, content)) in files.iter().enumerate() {
        world.file(name, content, 0o755);
        if index % 2 == 0 && !name.contains(' ') {
            world.trust(&format!("{WATCHED}/{name}"));
        }
    }
    world.file(OsStr::from_bytes(b"data/\xff\xfe"), b"y\n", 0o644);
    for library in ["libz.so.1", "libcap-ng.so.0", "liblzma.so.5"] {
        world.file(format!("lib/{library}"), &read(&format!("/usr/lib/x86_64-linux-gnu/{library}")), 0o644);
    }
    world
}
