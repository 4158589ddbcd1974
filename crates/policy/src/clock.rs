// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the time of day at which a sandbox's clock starts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::layer::Tighten;
use crate::value::ValueError;

/// A second of the years 1970 to 9999, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StartTime(i64);

/// The last second of the year 9999: C libraries print years with four digits.
pub const LATEST: i64 = 253_402_300_799;

const DAY: i64 = 86_400;

impl StartTime {
    /// The time that lies this many seconds after 1970 began.
    ///
    /// # Errors
    /// When it lies outside the years 1970 to 9999.
    pub fn from_seconds(seconds: i64) -> Result<Self, ValueError> {
        if (0..=LATEST).contains(&seconds) {
            Ok(Self(seconds))
        } else {
            Err(ValueError::Time { text: seconds.to_string() })
        }
    }

    /// Reads `YYYY-MM-DD` (the day's beginning) or `YYYY-MM-DDTHH:MM:SSZ`, both in UTC.
    ///
    /// # Errors
    /// For any other form, for dates that don't exist, and for leap seconds: the kernel's clock has none.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let wrong = || ValueError::Time { text: text.to_owned() };
        let (day, clock) = match text.split_once('T') {
            Some((day, clock)) => (day, Some(clock.strip_suffix('Z').ok_or_else(wrong)?)),
            None => (text, None),
        };
        let [year, month, day] = numbers(day, '-', [4, 2, 2]).ok_or_else(wrong)?;
        let [hour, minute, second] = match clock {
            Some(clock) => numbers(clock, ':', [2, 2, 2]).ok_or_else(wrong)?,
            None => [0; 3],
        };
        let exists = (1970..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_of(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        if !exists {
            return Err(wrong());
        }
        Ok(Self(days_before(year, month, day) * DAY + hour * 3600 + minute * 60 + second))
    }

    /// Seconds since 1970.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0
    }
}

/// In the form that [`StartTime::parse`] reads.
impl fmt::Display for StartTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut rest, clock) = (self.0 / DAY, self.0 % DAY);
        let mut year = 1970;
        while rest >= days_before(year + 1, 1, 1) - days_before(year, 1, 1) {
            rest -= days_before(year + 1, 1, 1) - days_before(year, 1, 1);
            year += 1;
        }
        let mut month = 1;
        while rest >= days_of(year, month) {
            rest -= days_of(year, month);
            month += 1;
        }
        let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
        write!(f, "{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", rest + 1)
    }
}

/// Two different times are different clocks: neither is stricter.
impl Tighten for StartTime {
    fn loosens(&self, lock: &Self) -> bool {
        self != lock
    }
}

/// Three numbers with exactly this many digits each.
fn numbers(text: &str, between: char, digits: [usize; 3]) -> Option<[i64; 3]> {
    let mut out = [0; 3];
    let mut parts = text.split(between);
    for (number, digits) in out.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == digits)?;
        *number = part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(out)
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The number of days from 1970 to this day.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let past = year - 1;
    let leap_days = (past / 4 - past / 100 + past / 400) - (1969 / 4 - 1969 / 100 + 1969 / 400);
    let months: i64 = (1..month).map(|month| days_of(year, month)).sum();
    (year - 1970) * 365 + leap_days + months + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2000-03-01", 951_868_800),
            ("2030-01-01", 1_893_456_000),
            ("2030-01-01T12:00:00Z", 1_893_499_200),
            ("2024-02-29T23:59:59Z", 1_709_251_199),
            ("9999-12-31T23:59:59Z", LATEST),
        ] {
            assert_eq!(StartTime::parse(text).map(StartTime::seconds), Ok(seconds), "{text}");
        }
    }

    #[test]
    fn a_lock_holds_and_a_later_layer_wins_otherwise() {
        let of = |administrator: &str| {
            let administrator = crate::parse(administrator, None, crate::Layer::Administrator).unwrap();
            let user =
                crate::parse("schema = 1\n[process]\ntime = \"2031-01-01\"\n", None, crate::Layer::User)
                    .unwrap();
            let time = crate::merge(vec![administrator, user]).time().unwrap();
            time.value.to_string()
        };
        assert_eq!(of("schema = 1\n[process]\ntime = 0\n"), "2031-01-01T00:00:00Z");
        assert_eq!(of("schema = 1\n[locked.process]\ntime = 0\n"), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn what_is_written_is_read_again() {
        for seconds in (0..=LATEST).step_by(86_399_999 * 7).chain([0, LATEST, 951_782_400, 4_107_542_399]) {
            let time = StartTime::from_seconds(seconds).unwrap();
            assert_eq!(StartTime::parse(&time.to_string()), Ok(time), "{time}");
        }
    }

    #[test]
    fn other_forms_and_days_that_arent_there_are_refused() {
        for text in [
            "",
            "x",
            "2030",
            "2030-01",
            "2030-1-1",
            "30-01-01",
            "2030-02-29",
            "1900-02-29",
            "2030-13-01",
            "2030-00-01",
            "2030-01-00",
            "2030-01-32",
            "1969-12-31",
            "2030-01-01T12:00",
            "2030-01-01T12:00:00",
            "2030-01-01T12:00:00+01:00",
            "2030-01-01 12:00:00Z",
            "2030-01-01T24:00:00Z",
            "2030-01-01T12:60:00Z",
            "2030-01-01T12:00:60Z",
            "2030-01-01Z",
            " 2030-01-01",
            "+030-01-01",
            "2030-01-01-",
            "10000-01-01",
            "2030-01-01T12:00:00.5Z",
            "17",
        ] {
            assert_eq!(StartTime::parse(text), Err(ValueError::Time { text: text.into() }), "{text}");
        }
        assert!(StartTime::from_seconds(-1).is_err() && StartTime::from_seconds(LATEST + 1).is_err());
    }
}
