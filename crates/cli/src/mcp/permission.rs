// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests for a permission. The user decides: by a question of the launcher, if the launch asks about hosts; else by the
//! command of the user that the answer names.
//!
//! The question is put by connecting to the host once. So the launcher asks, as it asks about any program, with its own
//! limits, and no process inside can give the answer.

use super::inside::{self, Known};
use super::tools::{Answer, Subject};
use palisade_event::Object;
use palisade_policy::network::NetworkVerdict;
use palisade_sandbox::refusals::InsidePolicy;
use serde_json::json;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many requests are answered in a period.
const MOST: usize = 10;
const PERIOD: Duration = Duration::from_secs(300);
/// What a program that asks too much is told.
pub(super) const TOO_MANY: &str =
    "too many requests: 10 in five minutes. Do not retry. Tell the user what you need.";
/// How long an answer is waited for. The launcher waits for a minute for the user, and other questions may come first.
const PATIENCE: Duration = Duration::from_secs(180);
/// The port for a host that is named without one.
const PORT: u16 = 443;
/// The beginning of the proxy's answer.
const LONGEST: usize = 4096;

/// When permissions were requested lately.
#[derive(Debug, Default)]
pub(super) struct Asked(Mutex<VecDeque<Instant>>);

impl Asked {
    /// Counts a request, if another one is permitted.
    pub(super) fn permits(&self) -> bool {
        self.permits_at(Instant::now())
    }

    fn permits_at(&self, now: Instant) -> bool {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while times.front().is_some_and(|first| now.duration_since(*first) >= PERIOD) {
            times.pop_front();
        }
        if times.len() >= MOST {
            return false;
        }
        times.push_back(now);
        true
    }
}

/// The answer to a request.
#[derive(Debug)]
pub(super) struct Permission {
    /// It is permitted now.
    pub(super) permitted: bool,
    /// The launcher was asked, which asks the user unless the user has answered before or can't be asked.
    pub(super) asked_launcher: bool,
    /// Why, in a sentence.
    pub(super) why: String,
    /// The command by which the user permits it.
    pub(super) command: Option<String>,
}

impl Permission {
    /// As a tool's answer.
    pub(super) fn shown(self) -> Answer {
        let next = match (self.permitted, &self.command) {
            (true, _) => "Go on.",
            (false, Some(_)) => {
                "Do not retry. Tell the user to end this session and to start it again with the options of user_command."
            }
            (false, None) => "Do not retry. Nothing that you can do permits it.",
        };
        Answer::new(json!({
            "permitted": self.permitted,
            "asked_launcher": self.asked_launcher,
            "why": self.why,
            "user_command": self.command,
            "next": next,
        }))
    }

    /// In a sandbox.
    pub(super) fn inside(policy: Option<&InsidePolicy>, subject: &Subject) -> Answer {
        let known = match inside::know(policy, subject) {
            Ok(known) => known,
            Err(why) => return Answer::error(&why),
        };
        let Subject::Host(host) = subject else { return Self::of(known).shown() };
        match known.verdict {
            NetworkVerdict::Ask => ask(host, known).shown(),
            NetworkVerdict::Allow | NetworkVerdict::Deny => Self::of(known).shown(),
        }
    }

    /// What holds already.
    fn of(known: Known) -> Self {
        let permitted = known.verdict == NetworkVerdict::Allow;
        let why = if permitted || known.command.is_none() {
            known.why
        } else {
            format!("{}; the policy of a running sandbox can't be changed", known.why)
        };
        Self { permitted, asked_launcher: false, why, command: known.command }
    }
}

/// Has the launcher ask the user about a host.
fn ask(host: &str, known: Known) -> Permission {
    let refused = |why: String| Permission {
        permitted: false,
        asked_launcher: true,
        why,
        command: known.command.clone(),
    };
    // As it was parsed: the text may have anything around the host.
    let Some((whom, port)) = palisade_policy::network::host_port(host) else {
        return refused(format!("{host:?} is no host"));
    };
    let whom = whom.map_or_else(|address| address.to_string(), |name| name.as_str().to_owned());
    let target = Object::host(whom, port.unwrap_or(PORT)).to_string();
    match connect(&target) {
        Ok((200, _text)) => Permission {
            permitted: true,
            asked_launcher: true,
            why: format!("{target} can be reached"),
            command: None,
        },
        Ok((502 | 504, text)) => {
            let why = format!("it is permitted, but the connection failed: {text}");
            Permission { permitted: true, asked_launcher: true, why, command: None }
        }
        Ok((_status, text)) => refused(text),
        Err(error) => refused(format!("no answer came: {error}")),
    }
}

/// Asks the gateway's proxy for a connection, and closes it. Returns the answer's status and its text.
fn connect(target: &str) -> std::io::Result<(u16, String)> {
    let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, palisade_sys::network::PORT));
    let mut stream = TcpStream::connect_timeout(&proxy, Duration::from_secs(10))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    let mut part = [0; 512];
    // A tunnel that was opened stays open and says nothing: the head is enough. A refusal has a text behind it.
    while answer.len() < LONGEST && Instant::now() < deadline && !is_complete(&answer) {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(part.get(..read).unwrap_or_default()),
            // The launcher stops every process inside while it asks. A read with a time limit doesn't go on after that
            // (signal(7)).
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other("the proxy's answer isn't HTTP"))?;
    let body = body.trim().strip_prefix("palisade: ").unwrap_or(body.trim());
    let line = body.lines().next().filter(|line| !line.is_empty()).unwrap_or("it was refused");
    Ok((status, line.to_owned()))
}

/// Whether an answer has its head, and as much text as the head states.
fn is_complete(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    if head.split(' ').nth(1) == Some("200") {
        return true;
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    length.is_some_and(|length| body.len() >= length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_requests_are_answered_in_a_period() {
        let (asked, now) = (Asked::default(), Instant::now());
        assert!((0..MOST).all(|_| asked.permits_at(now)));
        assert!(!asked.permits_at(now + PERIOD / 2));
        assert!(asked.permits_at(now + PERIOD));
        assert!(TOO_MANY.contains(&format!("{MOST} in five minutes")) && PERIOD.as_secs() == 300);
    }

    #[test]
    fn the_end_of_an_answer_is_found() {
        assert!(is_complete(b"HTTP/1.1 200 OK\r\n\r\n"));
        assert!(!is_complete(b"HTTP/1.1 200 OK\r\n"));
        assert!(!is_complete(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\nabc"));
        assert!(is_complete(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 5\r\n\r\nabcde"));
    }
}
