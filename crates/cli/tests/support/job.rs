// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a command with a time limit, and returns its result.

use palisade_acceptance::patience::Patience;
use rustix::process::Pid;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Nothing that the tests start takes a tenth of it on an idle machine.
const LIMIT: Duration = Duration::from_secs(90);

/// How a command ended, and what it printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The exit code, or 128 + the signal's number negated: a launcher is never killed by luck.
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    /// What it printed; it must have succeeded.
    #[track_caller]
    pub fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "{self:?}");
        self.out.trim_end()
    }

    /// Asserts that it failed with `code` and that its message has each of `words`, with a hint if the message is Palisade's.
    #[track_caller]
    pub fn refused(&self, code: i32, words: &[&str]) -> &Self {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in {self:?}");
        }
        assert!(self.err.contains("error: "), "no error in {self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }

    /// There is a line that says what to do, or a caret that points at what is wrong.
    #[track_caller]
    pub fn with_hint(&self) -> &Self {
        let hinted =
            ["hint: ", "tip: ", "For more information", " --> "].iter().any(|hint| self.err.contains(hint));
        assert!(hinted, "no hint in {self:?}");
        self
    }
}

/// Starts `command` and waits for its end, and for that of everything that holds its output.
#[track_caller]
pub fn finish(command: &mut Command) -> Run {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn();
    for _busy in 0..200 {
        // A child that another thread is just starting may hold a program that this one has just written.
        if !child.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ExecutableFileBusy) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        child = command.spawn();
    }
    wait(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

/// Waits for the end of a child that was started with pipes.
#[track_caller]
pub fn wait(mut child: Child) -> Run {
    drop(child.stdin.take());
    let (out, err) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let status = bounded(&mut child);
    let text = |receiver: Receiver<Vec<u8>>| {
        let mut patience = Patience::new(Duration::from_secs(20));
        loop {
            match receiver.recv_timeout(Duration::from_millis(100)) {
                Err(RecvTimeoutError::Timeout) if !patience.is_spent() => {}
                bytes => {
                    let bytes = bytes.expect("something still holds the output");
                    return String::from_utf8_lossy(&bytes).into_owned();
                }
            }
        }
    };
    Run { code: code(status), out: text(out), err: text(err) }
}

/// The exit code; negative for a signal.
pub fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| -(128 + status.signal().unwrap_or_default()))
}

/// Waits, but not for ever.
#[track_caller]
pub fn bounded(child: &mut Child) -> ExitStatus {
    if let Some(status) = palisade_acceptance::process::wait(child, LIMIT).unwrap() {
        return status;
    }
    let _killed = child.kill();
    let _reaped = child.wait();
    panic!("still running after {LIMIT:?}, or longer on a busy machine");
}

fn collect(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ended = stream.read_to_end(&mut bytes);
        }
        let _received = sender.send(bytes);
    });
    receiver
}

/// The process of this name below `pid`, if there is one.
pub fn below(pid: u32, name: &str) -> Option<Pid> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().find_map(|child| {
        let comm = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
        if comm.trim() == name {
            return Pid::from_raw(child.parse().ok()?);
        }
        below(child.parse().ok()?, name)
    })
}
