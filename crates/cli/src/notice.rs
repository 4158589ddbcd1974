// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Desktop notifications with buttons, for applications that were started from a menu: no terminal shows a question or
//! an error then.
//!
//! `notify-send` speaks to the notification daemon of the session. It prints the name of the button that was pressed.

use crate::output;
use crate::question::{Wish, Word};
use palisade_sys::wait;
use palisade_text::{harmless, harmless_lines};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a notification about an application that failed stays.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the program may take to withdraw its notification.
const WITHDRAWAL: Duration = Duration::from_secs(2);
/// At most this many characters are shown.
const LONGEST: usize = 1500;
/// The exit codes that follow from signals that users and sessions send: HUP, INT, KILL, PIPE, TERM.
const ENDED: [u8; 5] = [129, 130, 137, 141, 143];

/// A button that is pressed this soon after the question is no answer: the user can't have read the question yet.
const READ: Duration = Duration::from_millis(400);

/// Whether this session may have a notification daemon.
pub(crate) fn has_session() -> bool {
    std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_some_and(|address| !address.is_empty())
}

/// Shows a notification until a button is pressed, it is closed, `ended` is readable, or `until`. Returns the name of the
/// button, or `None` if there was no answer.
///
/// # Errors
/// When it can't be shown.
fn show(
    title: &str,
    body: &str,
    buttons: &[&str],
    ended: Option<BorrowedFd<'_>>,
    until: Instant,
) -> std::io::Result<Option<String>> {
    let body: String = harmless_lines(body).chars().take(LONGEST).collect();
    // Daemons interpret markup in the body.
    let body = body.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let left = until.saturating_duration_since(Instant::now());
    let mut command = Command::new("notify-send");
    command.args(["--app-name=Palisade", "--urgency=critical", "--icon=dialog-question"]);
    command.arg(format!("--expire-time={}", left.as_millis()));
    command.args(buttons.iter().map(|button| format!("--action={button}")));
    command.args(["--wait", "--", &harmless(title)]).arg(body);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // The launcher blocks every signal, and children inherit that. SIGINT withdraws the notification.
    let mask = wait::signal_mask()?;
    wait::set_signal_mask(mask & !(1 << (Signal::INT.as_raw() - 1)))?;
    let child = command.spawn();
    wait::set_signal_mask(mask)?;
    let mut child = child?;
    let Some(mut answer) = child.stdout.take() else { return Ok(None) };
    let mut polled = vec![PollFd::from_borrowed_fd(answer.as_fd(), PollFlags::IN)];
    polled.extend(ended.map(|ended| PollFd::from_borrowed_fd(ended, PollFlags::IN)));
    let patience = Timespec::try_from(left).ok();
    let ready = rustix::io::retry_on_intr(|| poll(&mut polled, patience.as_ref()));
    let answered = matches!(ready, Ok(1..)) && polled.first().is_some_and(|one| !one.revents().is_empty());
    drop(polled);
    let mut text = String::new();
    if answered {
        answer.read_to_string(&mut text)?;
    } else {
        let _gone = Pid::from_raw(child.id().cast_signed()).map(|pid| kill_process(pid, Signal::INT));
        let patience = Instant::now() + WITHDRAWAL;
        while child.try_wait()?.is_none() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _gone = child.kill();
    }
    let status = child.wait()?;
    match text.trim() {
        "" if answered && !status.success() => Err(std::io::Error::other("no notification daemon answers")),
        "" => Ok(None),
        name => Ok(Some(name.to_owned())),
    }
}

/// Asks the user by a notification. `None` if it can't be shown. The answer "no" is a notification that was closed.
pub(crate) fn ask(wish: &Wish, always: bool, ended: BorrowedFd<'_>, until: Instant) -> Option<Word> {
    let mut body = format!(
        "{}\nEverything inside is stopped. Without an answer in a minute it is refused until the command ends.",
        wish.why
    );
    let mut buttons = vec!["once=Allow once", "session=Allow until it ends"];
    if let Some(scope) = wish.scope.as_ref().filter(|_| always) {
        body.push_str(&format!("\n“Always” holds for {scope}."));
        buttons.push("always=Always");
    }
    buttons.push("never=Refuse");
    let begun = Instant::now();
    let answer = show(&wish.line(), &body, &buttons, Some(ended), until).ok()?;
    Some(match answer.as_deref() {
        Some(_too_soon) if begun.elapsed() < READ => Word::No,
        Some("once") => Word::Once,
        Some("session") => Word::Session,
        Some("always") if always => Word::Always,
        Some("never") => Word::Never,
        // Nobody answered in time.
        None if Instant::now() >= until => Word::Never,
        _ => Word::No,
    })
}

/// Whether a failure is told by a notification: nothing shows or keeps what is printed.
fn is_unseen() -> bool {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    // A program reads a pipe, and a user may read a file.
    let unread = rustix::fs::fstat(rustix::stdio::stderr()).is_ok_and(|found| {
        matches!(FileType::from_raw_mode(found.st_mode), FileType::CharacterDevice | FileType::Socket)
    });
    has_session() && unread && rustix::fs::open("/dev/tty", flags, Mode::empty()).is_err()
}

/// The first argument of the process that shows the notification about a failure.
pub(crate) const TELL: &str = "--palisade-tell-failure";

/// Starts a process that tells that an application failed. The launcher doesn't wait for it: what started the launcher
/// learns of the failure at once.
pub(crate) fn failed(name: &str, code: u8) {
    if code == 0 || ENDED.contains(&code) || !is_unseen() {
        return;
    }
    let said = output::last_error().unwrap_or_else(|| format!("Its exit code is {code}."));
    let mut teller = Command::new("/proc/self/exe");
    teller.args([TELL, name, &said]).process_group(0);
    teller.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _untold = teller.spawn();
}

/// Tells that an application failed, with a button that shows what `palisade why` says.
pub(crate) fn tell(name: &str, said: &str) {
    // The launcher blocks every signal, and children inherit that. A user or a session can end this process.
    let _blocked = wait::set_signal_mask(0);
    let title = format!("{name} has failed");
    let pressed = show(&title, said, &["why=Say why"], None, Instant::now() + PATIENCE);
    if !matches!(pressed, Ok(Some(button)) if button == "why") {
        return;
    }
    let why = Command::new("/proc/self/exe").arg("why").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = why.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
    let _closed = show(&format!("Why {name} has failed"), &text, &[], None, Instant::now() + PATIENCE);
}
