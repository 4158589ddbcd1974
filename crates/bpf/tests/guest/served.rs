// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests files of another machine that are watched: an NFS server (the kernel's own) that stops answering.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::MountFlags;
use rustix::process::Signal;

use crate::daemon::{Daemon, UNTRUSTED, said};
use crate::scenario::{Outcome, Result, ensure, expect, report, run};

/// Not watched: on a real network this directory would be on another machine.
const EXPORTED: &str = "/spared/export";
const PLACE: &str = "/nfs";
const SERVER: &str = "/proc/fs/nfsd";
/// In the order of their dependencies. Not every kernel has all of them.
const DRIVERS: [&str; 11] = [
    "netfs",
    "fscache",
    "sunrpc",
    "auth_rpcgss",
    "grace",
    "lockd",
    "nfs_acl",
    "nfsd",
    "dns_resolver",
    "nfs",
    "nfsv4",
];
/// The longest that other processes may wait. The machine is emulated, and slower than a real one.
const WAIT: Duration = Duration::from_secs(4);
/// How long the test observes.
const SILENCE: Duration = Duration::from_secs(10);

pub(crate) fn all() {
    report("daemon-nfs-server-that-does-not-answer-holds-up-nobody-else", || {
        crate::daemon::prepare()?;
        serve().map_err(|error| format!("serve: {error}"))?;
        stop_answering()
    });
}

fn write(path: &str, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// Starts the kernel's server and mounts it.
fn serve() -> io::Result<()> {
    for driver in DRIVERS {
        crate::overlay::load_driver(driver, c"").map_err(io::Error::other)?;
    }
    up()?;
    for directory in [EXPORTED, PLACE] {
        fs::create_dir_all(directory)?;
    }
    write(&format!("{EXPORTED}/one"), "served\n")?;
    rustix::mount::mount("nfsd", SERVER, "nfsd", MountFlags::empty(), None)?;
    write(&format!("{SERVER}/versions"), "-3 +4\n")?;
    // The server asks no helper process, because the answers are set in advance. Each is valid until a time in seconds
    // since 1970. The export has its options (by number, from any port, asynchronous, no check of subtrees), the ids of the
    // user nobody, and its number.
    write("/proc/net/rpc/auth.unix.ip/channel", "nfsd 127.0.0.1 4000000000 127.0.0.1\n")?;
    write(
        "/proc/net/rpc/nfsd.export/channel",
        &format!("127.0.0.1 {EXPORTED} 4000000000 {} 65534 65534 0\n", 0x2412),
    )?;
    write("/proc/net/rpc/nfsd.fh/channel", &format!("127.0.0.1 1 \\x00000000 4000000000 {EXPORTED}\n"))?;
    // The server waits for clients that had files open before a restart; set the shortest time that is possible, in
    // seconds.
    for time in ["nfsv4leasetime", "nfsv4gracetime"] {
        write(&format!("{SERVER}/{time}"), "10\n")?;
    }
    write(&format!("{SERVER}/portlist"), "tcp 2049\n")?;
    write(&threads(), "2\n")?;
    let options = c"vers=4.1,proto=tcp,addr=127.0.0.1,clientaddr=127.0.0.1,sec=sys,hard";
    rustix::mount::mount("127.0.0.1:/", PLACE, "nfs4", MountFlags::empty(), Some(options))?;
    Ok(())
}

/// Enables the loopback device.
fn up() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // `struct ifreq`: a name, and flags.
    let mut request = [0_u8; 40];
    request[..2].copy_from_slice(b"lo");
    request[16..18].copy_from_slice(&1_u16.to_ne_bytes());
    // SAFETY: needed because rustix lacks `SIOCSIFFLAGS`. Sound: the kernel reads a structure of that size.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, request.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A process that opens a file of the mount.
fn open(name: &str) -> Result<Child> {
    Command::new("/init")
        .args(["act", "open", &format!("{PLACE}/{name}")])
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| format!("start: {error}"))
}

fn threads() -> String {
    format!("{SERVER}/threads")
}

fn stop_answering() -> Result {
    let daemon = Daemon::start("watch.filesystems = [\"tmpfs\", \"nfs4\"]", |status| {
        status.enforcing && status.watched.iter().any(|point| point == PLACE)
    })?;
    let opened = open("one")?.wait().map_err(|error| format!("wait: {error}"))?;
    ensure(opened.success(), "it isn't opened while the server answers")?;
    // Without threads the server answers nothing: its clients ask again and again.
    write(&threads(), "0\n").map_err(|error| format!("end the server: {error}"))?;
    let from = said().len();
    let mut waiting = open("one")?;
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    while began.elapsed() < SILENCE {
        let before = Instant::now();
        expect("untrusted", &run(UNTRUSTED), &Outcome::Refused)?;
        longest = longest.max(before.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    let waits = matches!(waiting.try_wait(), Ok(None));
    println!("nfs: {} ms is the longest that others waited", longest.as_millis());
    ensure(waits, "who opened it didn't wait for the server")?;
    ensure(longest < WAIT, format!("others waited {longest:?}"))?;
    let told = said();
    let told = told.get(from..).unwrap_or_default();
    let alarm = told.contains("alarm: the kernel's questions wait unread");
    ensure(alarm, format!("nothing was said of it: {told}"))?;
    // The waiting processes never get an answer, and the mount can't be unmounted. They end with the guest.
    let _ended = waiting.kill();
    daemon.signal(Signal::KILL)
}
