// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the answers that calls get instead of the kernel's (`--fake`).

use crate::launch::Fakes;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest name that `struct utsname` has room for.
const LONGEST: usize = 64;

/// An invalid answer.
#[derive(Debug, thiserror::Error)]
#[error("can't answer with {given:?}: {why}")]
pub struct FakeError {
    /// The given text.
    pub given: OsString,
    /// Why it is invalid.
    pub why: &'static str,
}

/// Parses `WHAT=ANSWER` arguments. The last one of each kind counts.
///
/// # Errors
/// When an argument is invalid.
pub fn parse(given: &[OsString]) -> Result<Fakes, FakeError> {
    let mut fakes = Fakes::default();
    for one in given {
        let wrong = |why: &'static str| FakeError { given: one.clone(), why };
        let bytes = one.as_bytes();
        let equals = bytes.iter().position(|byte| *byte == b'=');
        let (what, answer) = bytes.split_at(equals.ok_or_else(|| wrong("it has no \"=\""))?);
        let answer = &answer[1..];
        let number = || OsStr::from_bytes(answer).to_str().and_then(|text| text.parse::<u32>().ok());
        let name = || match answer.len() {
            1..=LONGEST => Ok(answer.to_vec()),
            _ => Err(wrong("a name has 1 to 64 bytes")),
        };
        match what {
            b"uname" => fakes.release = Some(name()?),
            b"hostname" => fakes.host = Some(name()?),
            b"cpus" => match number() {
                Some(cpus @ 1..=8192) => fakes.cpus = Some(cpus),
                _ => return Err(wrong("the number of processors is 1 to 8192")),
            },
            b"pid" => match number() {
                Some(pid @ 1..=0x3f_ffff) => fakes.pid = Some(pid),
                _ => return Err(wrong("a process's number is 1 to 4194303")),
            },
            b"time" => {
                let wanted = std::str::from_utf8(answer).ok().and_then(seconds);
                let wanted = wanted.ok_or_else(|| wrong("a time is YYYY-MM-DD, or seconds since 1970"))?;
                fakes.ahead = Some(wanted - now());
            }
            _ => return Err(wrong("the known names are uname, hostname, time, cpus and pid")),
        }
    }
    Ok(fakes)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Seconds since 1970 at the beginning of a day (UTC), or a given number of seconds.
fn seconds(text: &str) -> Option<i64> {
    // Later years overflow in programs that compute with them.
    const LATEST: i64 = 253_402_300_799;
    if let Ok(seconds) = text.parse::<i64>() {
        return (0..=LATEST).contains(&seconds).then_some(seconds);
    }
    let mut parts = text.split('-').map(|part| part.parse::<i64>().ok().filter(|_| part.len() <= 4));
    let (Some(Some(year)), Some(Some(month)), Some(Some(day)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let index = usize::try_from(month - 1).ok()?;
    let length = *lengths.get(index)?;
    if !(1970..=9999).contains(&year) || !(1..=length).contains(&day) {
        return None;
    }
    let years: i64 = (1970..year).map(|year| if leap(year) { 366 } else { 365 }).sum();
    let months: i64 = lengths[..index].iter().sum();
    Some((years + months + day - 1) * 86_400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(seconds("1970-01-01"), Some(0));
        assert_eq!(seconds("2000-03-01"), Some(951_868_800));
        assert_eq!(seconds("2030-01-01"), Some(1_893_456_000));
        assert_eq!(seconds("17"), Some(17));
        for wrong in
            ["2030-02-29", "2030-13-01", "2030-00-01", "2030-01-00", "1969-12-31", "x", "", "2030-01"]
        {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let parse = |text: &str| parse(&[OsString::from(text)]);
        assert_eq!(parse("pid=42").unwrap().pid, Some(42));
        assert_eq!(parse("hostname=there").unwrap().host.as_deref(), Some(&b"there"[..]));
        for wrong in ["pid", "pid=", "pid=0", "cpus=x", "cpus=0", "hostname=", "colour=red", "time=soon"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let long = format!("uname={}", "x".repeat(65));
        assert!(parse(&long).is_err());
    }
}
