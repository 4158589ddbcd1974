// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends a lot of output through `palisade shell`. Its memory must not grow.
//!
//! `PALISADE_SHELL_SOAK` says how many MiB; 10,240 take minutes.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use palisade_sys::terminal::{self, Pair};
use rustix::termios::Winsize;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::Command;

/// Anonymous memory of a process, in KiB.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Reads until the bytes have come; gives back what was read in all.
fn read_until(reader: &mut File, wanted: &[u8], mut seen: impl FnMut(u64)) -> u64 {
    let mut buffer = vec![0; 1 << 16];
    let mut last = Vec::new();
    let mut all = 0;
    loop {
        let count = reader.read(&mut buffer).unwrap();
        assert!(count > 0);
        all += u64::try_from(count).unwrap();
        seen(all);
        last.extend_from_slice(&buffer[..count]);
        if last.windows(wanted.len()).any(|window| window == wanted) {
            return all;
        }
        last.drain(..last.len().saturating_sub(wanted.len()));
    }
}

#[test]
fn memory_is_flat_whatever_is_printed() {
    let mebibytes: u64 =
        std::env::var("PALISADE_SHELL_SOAK").ok().and_then(|size| size.parse().ok()).unwrap_or(32);
    let home = tempfile::tempdir().unwrap();
    let palisade = env!("CARGO_BIN_EXE_palisade");
    fs::write(
        home.path().join(".bashrc"),
        format!("PS1='$ '; HISTFILE=\neval \"$('{palisade}' shell init bash)\"\n"),
    )
    .unwrap();
    let config = home.path().join(".config/palisade");
    fs::create_dir_all(&config).unwrap();
    // `links` is included because it reads all output.
    let modules =
        "[\"keymap\", \"incognito\", \"pick\", \"ghost\", \"history\", \"guard\", \"status\", \"links\"]";
    fs::write(config.join("shell.toml"), format!("schema = 1\nmodules = {modules}\n")).unwrap();
    let size = Winsize { ws_col: 80, ws_row: 24, ws_xpixel: 0, ws_ypixel: 0 };
    let Pair { outer, inner } = terminal::open(size).unwrap();
    let mut command = Command::new(palisade);
    command
        .args(["shell", "--shell", "/bin/bash", "--scope-socket", "/nonexistent"])
        .current_dir(home.path());
    for name in ["PALISADE_SHELL", "PALISADE_SHELL_OFF", "XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
        command.env_remove(name);
    }
    command.env("HOME", home.path()).env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8");
    let mut child = terminal::start(&mut command, &inner, &[]).unwrap();
    // The test reads to the end of output, so it must not keep the other end open.
    drop((command, inner));
    let mut reader = File::from(outer.try_clone().unwrap());
    let mut keys = File::from(outer);
    read_until(&mut reader, b"$ \x1b]133;B", |_| ());
    // Text, colours, a title, letters of two bytes, an address, a command without an end, invalid bytes.
    let line = r"$(printf 'some text \e[1;32mand\e[0m \e]0;title\a \303\251 https://example.org/x?y \e]52;never \377\030')";
    let bytes = mebibytes << 20;
    keys.write_all(format!("yes \"{line}\" | head -c {bytes}; echo so''ak\r").as_bytes()).unwrap();
    let mut early = None;
    let all = read_until(&mut reader, b"soak\r\n", |all| {
        if early.is_none() && all > bytes / 4 {
            early = Some(memory(child.id()));
        }
    });
    let (early, late) = (early.unwrap(), memory(child.id()));
    println!("{all} bytes; {early} KiB after a quarter, {late} KiB at the end");
    assert!(all >= bytes, "{all}");
    // The allocator may keep a little more; one byte in 10,000 would be 1 MiB for 10 GiB.
    assert!(late <= early + 512, "{early} KiB, then {late} KiB");
    keys.write_all(b"exit\r").unwrap();
    while reader.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
    assert!(child.wait().unwrap().success());
}
