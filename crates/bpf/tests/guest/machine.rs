// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs QEMU without acceleration: starts it, reads its output, and ends it if it takes too long.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use palisade_acceptance::patience::Patience;
use rustix::process::{Signal, set_parent_process_death_signal};

const QEMU: &str = "qemu-system-x86_64";

/// The time limit of one boot: three times the longest boot on two idle cores. It grows with the load.
const LIMIT: Duration = Duration::from_secs(180);

/// The time limit up to the first word of process 1, which comes within 8 s on two idle cores. QEMU has been seen to stop
/// before the kernel's first instruction, with one thread busy: nothing of ours had begun, so the guest is booted again.
const BEGIN: Duration = Duration::from_secs(60);
/// The number of boots until one begins.
const BOOTS: usize = 3;
/// What process 1 writes first.
pub(crate) const BEGUN: &str = "palisade: process 1 begins";

/// What a guest needs and this machine lacks.
pub(crate) fn missing() -> Option<&'static str> {
    if !cfg!(target_arch = "x86_64") {
        return Some("x86-64 processor, whose kernel packages are looked for");
    }
    let runs = |program: &str| {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok()
    };
    if !runs(QEMU) {
        return Some("qemu-system-x86_64 (apt-get install qemu-system-x86)");
    }
    if crate::disk::mkfs().arg("-V").stderr(Stdio::null()).status().is_err() {
        return Some("mkfs.ext4 (apt-get install e2fsprogs)");
    }
    let own = std::env::var_os("PALISADE_GUEST_KERNEL").is_some();
    let packages = runs("apt-get") && runs("dpkg");
    if !own && !packages {
        return Some("apt-get and dpkg, by which a kernel is had (or PALISADE_GUEST_KERNEL)");
    }
    None
}

/// The guest has two processors in any case. Beside other tests, one QEMU thread per processor costs a third more, because
/// one thread spins for what the other holds while that one isn't scheduled: 77 s instead of 55 s of this machine's
/// processor time for the boot `daemon`. In the long run the threads do run at the same time.
fn accelerator() -> &'static str {
    if crate::boots::are_all_kernels_asked_for() { "tcg,thread=multi" } else { "tcg,thread=single" }
}

/// Boots the guest. Returns its whole output.
pub(crate) fn boot(kernel: &Path, image: &Path, kind: &str) -> String {
    let mut said = String::new();
    for _ in 1..BOOTS {
        let output = boot_once(kernel, image, kind);
        if output.contains(BEGUN) {
            return said + &output;
        }
        said += &output;
        said += "(booted again: process 1 did not begin)\n";
    }
    said + &boot_once(kernel, image, kind)
}

fn boot_once(kernel: &Path, image: &Path, kind: &str) -> String {
    let modules = match kind {
        "apparmor" => "capability,landlock,yama,apparmor",
        "plain" | "scope-plain" => "capability,landlock",
        _ => "capability,landlock,bpf",
    };
    // Without `no_timer_check` the kernel panics if this machine is too busy to deliver its timer ticks.
    let line = format!(
        "console=ttyS0 quiet loglevel=3 panic=-1 no_timer_check random.trust_cpu=on lsm={modules} palisade={kind}"
    );
    let mut qemu = Command::new(QEMU);
    // For measurements of cost, the clock is the number of instructions, in ns.
    if kind == "cost" {
        qemu.args(["-accel", "tcg,thread=single", "-smp", "1", "-icount", "shift=0,sleep=off"]);
    } else {
        qemu.args(["-accel", accelerator(), "-smp", "2"]);
    }
    qemu.args(["-cpu", "max", "-m", "768", "-nographic", "-no-reboot"])
        .args(["-nodefaults", "-serial", "stdio", "-device", "isa-debug-exit"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(image)
        .args(["-append", &line])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    // QEMU ends with this thread, which waits for it: whatever started this program may kill it.
    let end_with_us = || set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from);
    // SAFETY: needed to run it between fork and exec. Sound: it is one system call that touches no memory of ours.
    unsafe { qemu.pre_exec(end_with_us) };
    let mut machine = qemu.spawn().expect("it was started a moment ago");
    let mut console = machine.stdout.take().expect("it was asked for");
    let (sender, said) = mpsc::channel();
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(length @ 1..) = console.read(&mut chunk) {
            if sender.send(chunk[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    let mut output = Vec::new();
    let (mut patience, mut has_begun) = (Patience::new(BEGIN), false);
    loop {
        match said.recv_timeout(Duration::from_millis(200)) {
            Ok(chunk) => {
                output.extend(chunk);
                let begins = |part: &[u8]| part == BEGUN.as_bytes();
                if !has_begun && output.windows(BEGUN.len()).any(begins) {
                    (patience, has_begun) = (Patience::new(LIMIT), true);
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) if !patience.is_spent() => {}
            Err(mpsc::RecvTimeoutError::Timeout) => {
                output.extend(b"\n(ended: it has taken too long)\n");
                // QEMU may have ended by itself just now.
                let _ = machine.kill();
                break;
            }
        }
    }
    machine.wait().expect("it is our child");
    String::from_utf8_lossy(&output).replace('\r', "")
}
