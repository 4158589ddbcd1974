// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs an X server without a screen, and reads what it shows.

use super::picture::Area;
use crate::support::{Place, eventually};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where X servers have their sockets.
const SOCKETS: &str = "/tmp/.X11-unix";

/// An X server of our own; ends with this.
pub(crate) struct Display {
    server: Option<Child>,
    /// As `DISPLAY` has it.
    pub(crate) name: String,
    /// A file with the secret that a client needs to connect, as on every desktop.
    pub(crate) authority: PathBuf,
    made_sockets: bool,
    /// Where the server keeps what is on its screen.
    screen: tempfile::TempDir,
}

impl Display {
    /// Starts a server on a free display, for the person of `place`.
    ///
    /// # Errors
    /// In words, why there is none.
    pub(crate) fn start(place: &Place) -> Result<Self, String> {
        let authority = place.write(".Xauthority", cookie()?);
        let _only = std::fs::set_permissions(&authority, Permissions::from_mode(0o600));
        // Only root can make the directory, and the server of an ordinary user doesn't start without it.
        let made_sockets = std::fs::create_dir(SOCKETS).is_ok();
        if made_sockets {
            let _allowed = std::fs::set_permissions(SOCKETS, Permissions::from_mode(0o1777));
        }
        // Not `-displayfd`: with it the server looks for a free number itself and removes the sockets of the servers whose
        // numbers it tries, including those of other tests.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let first = std::process::id() + NEXT.fetch_add(1, Ordering::Relaxed);
        let screen = tempfile::tempdir_in("/var/tmp").map_err(|error| format!("/var/tmp: {error}"))?;
        let mut display = Self { server: None, name: String::new(), authority, made_sockets, screen };
        for attempt in 0..8 {
            let number = 100 + (first + attempt * 977) % 50_000;
            let server = Command::new("Xvfb")
                .arg(format!(":{number}"))
                .args(["-screen", "0", "1280x900x24", "-nolisten", "tcp", "-noreset", "-auth"])
                .arg(&display.authority)
                .arg("-fbdir")
                .arg(display.screen.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0)
                .spawn()
                .map_err(|error| format!("Xvfb: {error}"))?;
            display.server = Some(server);
            display.name = format!(":{number}");
            if eventually(|| display.answers() || display.has_ended()) && !display.has_ended() {
                return Ok(display);
            }
        }
        Err("Xvfb doesn't start".to_owned())
    }

    /// Whether the server has begun to serve, by the socket that applications use.
    fn answers(&self) -> bool {
        let socket = format!("{SOCKETS}/X{}", self.name.trim_start_matches(':'));
        UnixStream::connect(socket).is_ok()
    }

    fn has_ended(&mut self) -> bool {
        self.server.as_mut().is_none_or(|server| server.try_wait().is_ok_and(|ended| ended.is_some()))
    }

    /// The number of the server's process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }

    /// The titles of all windows, shown or not.
    pub(crate) fn titles(&self) -> Vec<String> {
        let text = self.windows(&["-root", "-tree"]);
        text.lines().filter_map(title).map(|(_, title)| title.to_owned()).collect()
    }

    /// What xwininfo says.
    fn windows(&self, arguments: &[&str]) -> String {
        let mut xwininfo = Command::new("xwininfo");
        xwininfo.args(arguments).env("DISPLAY", &self.name).env("XAUTHORITY", &self.authority);
        // Titles are UTF-8.
        let output = xwininfo.env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).output();
        let output = output.unwrap_or_else(|error| panic!("xwininfo (package x11-utils): {error}"));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What is on the screen: as the server keeps it, since `xwd` fails where windows have several kinds of colours.
    pub(crate) fn screen(&self) -> Vec<u8> {
        std::fs::read(self.screen.path().join("Xvfb_screen0")).unwrap()
    }

    /// The areas of the windows whose title contains `part`.
    ///
    /// This doesn't use xdotool, which misses windows of Qt: without a window manager they have titles of the new kind only.
    pub(crate) fn shown(&self, part: &str) -> Vec<Area> {
        let text = self.windows(&["-root", "-tree"]);
        let named = text.lines().filter_map(title).filter(|(_, title)| title.contains(part));
        named.filter_map(|(window, _)| area(&self.windows(&["-stats", "-id", window]))).collect()
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        // By request, so that it takes its socket and its lock with it.
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| !self.has_ended()) {
            let _asked = kill_process(pid, Signal::TERM);
        }
        if !eventually(|| self.has_ended())
            && let Some(server) = &mut self.server
        {
            let _killed = server.kill();
            let _reaped = server.wait();
        }
        if self.made_sockets {
            // This fails if another process has begun to use the directory.
            let _empty = std::fs::remove_dir(SOCKETS);
        }
    }
}

/// Where a window is on the screen, by what `xwininfo -stats` says; nothing if it isn't shown.
fn area(text: &str) -> Option<Area> {
    let number = |label: &str| {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(label))?;
        line.trim().parse::<i64>().ok()
    };
    let (left, top) = (number("Absolute upper-left X:")?, number("Absolute upper-left Y:")?);
    let (width, height) = (number("Width:")?, number("Height:")?);
    let area = Area { columns: left..left + width, rows: top..top + height };
    text.contains("Map State: IsViewable").then_some(area)
}

/// The window and its title in a line of xwininfo's: `0x600003 "title": ("class" "Class") …`.
fn title(line: &str) -> Option<(&str, &str)> {
    let (window, rest) = line.trim_start().split_once(" \"")?;
    let title = rest.split_once("\": (").map(|(title, _)| title)?;
    window.starts_with("0x").then_some((window, title))
}

/// The content of a file whose holder may connect to any display, from any host.
fn cookie() -> Result<Vec<u8>, String> {
    let mut secret = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut secret))
        .map_err(|error| format!("/dev/urandom: {error}"))?;
    let mut file = u16::MAX.to_be_bytes().to_vec();
    for part in [b"".as_slice(), b"", b"MIT-MAGIC-COOKIE-1", &secret] {
        file.extend(u16::try_from(part.len()).unwrap_or_default().to_be_bytes());
        file.extend(part);
    }
    Ok(file)
}

#[test]
fn titles_are_found_in_the_tree() {
    assert_eq!(
        title("     0x600003 \"a \"b\": c\": (\"x\" \"X\")  1x1+0+0"),
        Some(("0x600003", "a \"b\": c"))
    );
    assert_eq!(title("     0x600001 (has no name): ()  1x1+0+0"), None);
    assert_eq!(title("  Root window id: 0x50d (the root window) (has no name)"), None);
}

#[test]
fn a_window_has_an_area_if_it_is_shown() {
    let text = "  Absolute upper-left X:  -3\n  Absolute upper-left Y:  4\n  Relative upper-left X:  9\n  Width: 10\n\
                \x20 Height: 20\n  Map State: IsViewable\n";
    assert_eq!(area(text), Some(Area { columns: -3..7, rows: 4..24 }));
    assert_eq!(area(&text.replace("IsViewable", "IsUnMapped")), None);
}
