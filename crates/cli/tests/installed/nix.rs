// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Nix flake: Nix itself evaluates it, fetches the archive from the loopback interface in place of a release, and
//! installs it into a profile. The store is the ordinary user's own, at `/nix` of a bubblewrap sandbox: the host may have none.

use super::{CURRENT, NEWER, commands, file, made, shell};
use crate::support::{Place, Run, has, job, ordinary};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Nix for one user, without a daemon and without the caches of the internet.
const SETTINGS: &str = "experimental-features = nix-command flakes\nsandbox = false\nbuild-users-group =\nsubstituters =\ntarball-ttl = 0";
/// Where users fetch the flake of the newest release.
const FLAKE: &str = "file://$HOME/newest/palisade-flake.tar.gz";

/// A place with a server of its files. The server ends with this.
struct Releases {
    place: Place,
    server: Child,
    address: String,
}

impl Releases {
    fn new() -> Self {
        let place = ordinary();
        let script = "import functools, http.server, sys, threading\n\
                      handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])\n\
                      server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)\n\
                      threading.Thread(target=server.serve_forever, daemon=True).start()\n\
                      print(server.server_address[1], flush=True)\n\
                      sys.stdin.read()\n";
        let mut server = Command::new("/usr/bin/python3");
        server.args(["-c", script]).arg(&place.home).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = server.stderr(Stdio::null()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        shell(&place, "mkdir ~/nix ~/newest").ok();
        Self { place, server, address: format!("http://127.0.0.1:{}", port.trim()) }
    }

    /// Makes the flake of a version, and has it fetch the archive from here.
    fn release(&self, version: &str) {
        let directory = made(&self.place, "nix", version);
        let (archive, flake) = (file(&directory, ".nar.xz"), file(&directory, "palisade-flake.tar.gz"));
        let name = archive.file_name().unwrap().to_string_lossy();
        let line = format!(
            "rm -rf ~/flake && mkdir ~/flake && cd ~/flake && tar -xzf '{}' && \
             grep -q 'url = \"{}/releases/download/v{version}/{name}\";' */flake.nix && \
             sed -i 's|url = \".*\"|url = \"{}/made/nix-{version}/{name}\"|' */flake.nix && tar -czf ~/newest/palisade-flake.tar.gz *",
            flake.display(),
            env!("CARGO_PKG_REPOSITORY"),
            self.address,
        );
        shell(&self.place, &line).ok();
    }

    /// A line of shell where `/nix` is.
    fn nix(&self, line: &str) -> Run {
        let mut bwrap = self.place.command("bwrap");
        for (link, name) in [("usr/bin", "/bin"), ("usr/lib", "/lib"), ("usr/lib64", "/lib64")] {
            bwrap.args(["--symlink", link, name]);
        }
        bwrap.args([
            "--ro-bind",
            "/usr",
            "/usr",
            "--ro-bind",
            "/etc",
            "/etc",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
        ]);
        bwrap.args(["--tmpfs", "/tmp", "--bind"]).arg(self.place.home.join("nix")).arg("/nix");
        bwrap.arg("--bind").args([&self.place.home, &self.place.home]).args(["sh", "-c", line]);
        job::finish(bwrap.env("NIX_CONFIG", SETTINGS))
    }

    fn described(&self, program: &str) -> Value {
        serde_json::from_str(self.nix(&format!("{program} self --json")).ok()).unwrap()
    }
}

impl Drop for Releases {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let _reaped = self.server.wait();
    }
}

fn is_here() -> bool {
    has("nix") && has("bwrap") && has("python3")
}

#[test]
fn nix_runs_installs_updates_and_removes_it() {
    if !is_here() {
        return;
    }
    let releases = Releases::new();
    releases.release(CURRENT);
    releases.nix(&format!("nix flake check {FLAKE}")).ok();
    assert_eq!(releases.nix(&format!("nix run {FLAKE} -- --version")).ok(), format!("palisade {CURRENT}"));
    // No profile shows it yet.
    let run = releases.described(&format!("nix run {FLAKE} --"));
    assert_eq!((&run["installed_by"], &run["update"]), (&"nix".into(), &serde_json::json!([])), "{run}");
    releases.nix(&format!("nix profile install {FLAKE}")).ok();
    let program = "~/.nix-profile/bin/palisade";
    let answer = releases.described(program);
    assert_eq!(answer["installed_by"], "nix", "{answer}");
    assert!(answer["path"].as_str().unwrap().starts_with("/nix/store/"), "{answer}");
    releases.release(NEWER);
    for command in commands(&answer, "update") {
        releases.nix(&command).ok();
    }
    let newer = releases.described(program);
    assert!(newer["path"].as_str().unwrap().contains(NEWER), "{newer}");
    for command in commands(&newer, "remove").iter().chain(&commands(&run, "remove")) {
        releases.nix(command).ok();
    }
    assert!(releases.nix(program).code != 0, "the profile shows nothing any more");
    // Earlier generations of the profile keep it until they are removed, too.
    releases.nix("nix-collect-garbage --delete-old").ok();
    assert_eq!(releases.nix("ls /nix/store | grep -c palisade").out, "0\n");
}

#[test]
fn an_archive_that_was_changed_is_refused() {
    if !is_here() {
        return;
    }
    let releases = Releases::new();
    releases.release(CURRENT);
    let archive = file(&releases.place.home.join(format!("made/nix-{CURRENT}")), ".nar.xz");
    let line = format!(
        "cd ~ && xz -dc '{0}' | sed 's/Palisade/Malisade/' | xz >x && cat x >'{0}'",
        archive.display()
    );
    shell(&releases.place, &line).ok();
    let run = releases.nix(&format!("nix run {FLAKE} -- --version"));
    assert!(run.code != 0 && run.err.contains("hash mismatch"), "{run:?}");
}
