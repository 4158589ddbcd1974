// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what the kernel's audit system records of the guard's answers. This process acts as the guest's auditd.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::daemon::{PATIENCE, UNTRUSTED, said};
use crate::scenario::{Outcome, Result, ensure, expect, report, run};

// `linux/audit.h`
const SET: u16 = 1001;
const ADD_RULE: u16 = 1011;
const FANOTIFY: u16 = 1331;
const STATUS_ENABLED: u32 = 1;
const STATUS_PID: u32 = 4;
const FILTER_EXIT: u32 = 4;
const ALWAYS: u32 = 2;
/// Words of `struct audit_rule_data`: the first three, a mask of system calls, three tables of 64 fields, and the length
/// of what follows.
const RULE_WORDS: usize = 3 + 64 + 3 * 64 + 1;

// `linux/netlink.h`
const REQUEST_WITH_ACKNOWLEDGEMENT: u16 = 1 | 4;
const ERROR: u16 = 2;
const HEADER: usize = 16;

/// `FAN_DENY` and `FAN_RESPONSE_INFO_AUDIT_RULE` of `linux/fanotify.h`.
const DENY: &str = "2";
const RULE_INFO: &str = "1";

struct Audit(OwnedFd);

impl Audit {
    fn begin() -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::AUDIT),
        )?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_millis(200)))?;
        let audit = Self(socket);
        audit.set(1, std::process::id())?;
        // The kernel records for processes only while there are rules about system calls, whatever the rules say.
        let mut rule = [0; RULE_WORDS];
        rule[0] = FILTER_EXIT;
        rule[1] = ALWAYS;
        audit.ask(ADD_RULE, &rule)?;
        Ok(audit)
    }

    /// Ends the recording.
    fn end(self) -> io::Result<()> {
        self.set(0, 0)
    }

    fn set(&self, enabled: u32, auditd: u32) -> io::Result<()> {
        // `struct audit_status`
        let mut status = [0; 11];
        status[0] = STATUS_ENABLED | STATUS_PID;
        status[1] = enabled;
        status[3] = auditd;
        self.ask(SET, &status)
    }

    /// Asks the kernel for something and waits for its answer.
    fn ask(&self, kind: u16, words: &[u32]) -> io::Result<()> {
        let length = u32::try_from(HEADER + 4 * words.len()).map_err(io::Error::other)?;
        let mut message = length.to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend(REQUEST_WITH_ACKNOWLEDGEMENT.to_ne_bytes());
        // Its number, and ours.
        message.extend([0; 8]);
        message.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        rustix::net::send(&self.0, &message, SendFlags::empty())?;
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let Some((kind, payload)) = self.next()? else { continue };
            if kind == ERROR {
                let errno = payload.first_chunk().map_or(libc::EIO, |errno| i32::from_ne_bytes(*errno));
                return if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-errno)) };
            }
        }
        Err(io::Error::other("the kernel doesn't answer"))
    }

    /// The type and content of the next message; none if no message comes for a moment.
    fn next(&self) -> io::Result<Option<(u16, Vec<u8>)>> {
        let mut buffer = vec![0; 16 << 10];
        let (length, _) = match rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::empty()) {
            Ok(received) => received,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        buffer.truncate(length);
        let kind = buffer.get(4..6).and_then(<[u8]>::first_chunk).map(|kind| u16::from_ne_bytes(*kind));
        Ok(kind.map(|kind| (kind, buffer.get(HEADER..).unwrap_or_default().to_vec())))
    }

    /// The next record of this type.
    fn record(&self, wanted: u16) -> Result<String> {
        let end = Instant::now() + PATIENCE;
        let mut others = Vec::new();
        while Instant::now() < end {
            match self.next().map_err(|error| format!("read records: {error}"))? {
                Some((kind, text)) if kind == wanted => {
                    let text = String::from_utf8_lossy(&text);
                    return Ok(text.trim_end_matches('\0').to_owned());
                }
                Some((kind, _)) => others.push(kind),
                None => {}
            }
        }
        Err(format!("no record of type {wanted}; types {others:?}"))
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split([' ', '\n']).find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// With a running daemon: the record names the process that asked, not the daemon.
pub(crate) fn all() {
    report("daemon-audit-record-names-rule-and-trust", || {
        let audit = Audit::begin().map_err(|error| format!("be auditd: {error}"))?;
        let result = recorded(&audit, said().len());
        audit.end().map_err(|error| format!("end being auditd: {error}"))?;
        result
    });
}

fn recorded(audit: &Audit, from: usize) -> Result {
    expect("untrusted", &run(UNTRUSTED), &Outcome::Refused)?;
    let record = audit.record(FANOTIFY)?;
    println!("recorded: {record}");
    ensure(field(&record, "resp") == Some(DENY), &record)?;
    // Before Linux 6.3 the record has no further fields.
    let told = field(&record, "fan_type").is_some();
    ensure(told == is_since_6_3(), format!("on this kernel: {record}"))?;
    if told {
        // The journal has its own thread, so the line may come later.
        let end = Instant::now() + PATIENCE;
        let rule = loop {
            let lines = said();
            let line = lines.get(from..).unwrap_or_default().lines().find(|line| line.contains(UNTRUSTED));
            if let Some(rule) = line.and_then(|line| field(line, "rule")) {
                break rule.to_owned();
            }
            ensure(Instant::now() < end, "no rule was named")?;
            std::thread::sleep(Duration::from_millis(20));
        };
        let rule: u32 = rule.parse().map_err(|error| format!("rule {rule}: {error}"))?;
        ensure(
            rule > 0 && field(&record, "fan_info") == Some(&format!("{rule:X}")),
            format!("rule {rule}: {record}"),
        )?;
        ensure(field(&record, "fan_type") == Some(RULE_INFO), &record)?;
        ensure(field(&record, "subj_trust") == Some("1"), &record)?;
        ensure(field(&record, "obj_trust") == Some("0"), &record)?;
    }
    Ok(())
}

fn is_since_6_3() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(3))
}
