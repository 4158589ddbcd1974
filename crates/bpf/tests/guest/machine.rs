// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QEMU without acceleration: started, listened to, and ended by its own process if it takes too long.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use palisade_acceptance::patience::Patience;
use rustix::process::{Signal, set_parent_process_death_signal};

const QEMU: &str = "qemu-system-x86_64";

/// For one boot: three times what the longest took on two idle cores. It grows with the load.
const LIMIT: Duration = Duration::from_secs(180);

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

/// The guest has two processors in any case. Beside other tests a thread for each of them costs a third more, because one
/// spins for what the other holds while that has no turn: 77 s instead of 55 s of this machine's processors for the boot
/// `daemon`. The long run's do run at the same time.
fn accelerator() -> &'static str {
    if crate::boots::are_all_kernels_asked_for() { "tcg,thread=multi" } else { "tcg,thread=single" }
}

/// Boots and returns all that the guest said.
pub(crate) fn boot(kernel: &Path, image: &Path, kind: &str) -> String {
    let modules = if kind.ends_with("plain") { "capability,landlock" } else { "capability,landlock,bpf" };
    // Without the check of its timer the kernel doesn't panic when this machine is too busy to bring its ticks.
    let line = format!(
        "console=ttyS0 quiet loglevel=3 panic=-1 no_timer_check random.trust_cpu=on lsm={modules} palisade={kind}"
    );
    let mut qemu = Command::new(QEMU);
    // Where costs are counted the clock is the number of instructions, in ns.
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
    // It goes with this thread, which waits for it: whoever runs this program may kill it.
    let end_with_us = || set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from);
    // SAFETY: needed to run it between fork and exec; it is one system call that touches no memory of ours.
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
    let mut patience = Patience::new(LIMIT);
    loop {
        match said.recv_timeout(Duration::from_millis(200)) {
            Ok(chunk) => output.extend(chunk),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) if !patience.is_spent() => {}
            Err(mpsc::RecvTimeoutError::Timeout) => {
                output.extend(b"\n(ended: it has taken too long)\n");
                // It may have ended by itself in this moment.
                let _ = machine.kill();
                break;
            }
        }
    }
    machine.wait().expect("it is our child");
    String::from_utf8_lossy(&output).replace('\r', "")
}
