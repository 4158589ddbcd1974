// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade guard timing`: measures how long decisions take.

use super::{Places, change, count};
use crate::verb::{self, Exit, YES};
use clap::ValueEnum;
use palisade_protocol::client;
use palisade_protocol::guard::{Request, Response, Timing};
use serde::Serialize;
use std::fmt::Write as _;

/// The width of the longest bar of the histogram.
const WIDTH: u64 = 40;

/// Begin or end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum What {
    /// Begin measuring
    Start,
    /// End, and print what was measured
    Stop,
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    timing: &'a Timing,
    /// Half of the decisions took less than this, in nanoseconds.
    p50: Option<u64>,
    /// 99 of 100 decisions took less than this.
    p99: Option<u64>,
}

/// Begins the measurement, or ends it and prints the result.
pub(super) fn timing(places: &Places, what: What, json: bool) -> Exit {
    let response = client::ask(&places.socket, &Request::Timing { start: what == What::Start })?;
    let Response::Timing(timing) = response else {
        change::said(response)?;
        return Ok(YES);
    };
    if json {
        let (p50, p99) = (below(&timing, 50), below(&timing, 99));
        verb::print_json(&Document { timing: &timing, p50, p99 })?;
    } else {
        verb::print(&words(&timing))?;
    }
    Ok(YES)
}

/// A power of two of nanoseconds: `percent` of the decisions took less.
fn below(timing: &Timing, percent: u64) -> Option<u64> {
    let all: u64 = timing.histogram.iter().sum();
    let mut so_far = 0;
    let power = timing.histogram.iter().position(|number| {
        so_far += number;
        all > 0 && so_far * 100 >= all * percent
    })?;
    1_u64.checked_shl(u32::try_from(power).ok()?)
}

fn words(timing: &Timing) -> String {
    let decisions = count(timing.decisions, "decision", "decisions");
    let mut text = format!("{decisions} in {} s\n", timing.seconds);
    let (Some(half), Some(most)) = (below(timing, 50), below(timing, 99)) else { return text };
    let mean = timing.nanoseconds / timing.decisions.max(1);
    let _infallible = writeln!(
        text,
        "half took less than {}, 99 of 100 less than {}; the mean is {}",
        short(half),
        short(most),
        short(mean)
    );
    let longest = timing.histogram.iter().copied().max().unwrap_or(1).max(1);
    let first = timing.histogram.iter().position(|number| *number > 0).unwrap_or(0);
    let last = timing.histogram.iter().rposition(|number| *number > 0).unwrap_or(0);
    for (power, number) in timing.histogram.iter().enumerate().take(last + 1).skip(first) {
        let bar: String = (0..number * WIDTH / longest).map(|_| '=').collect();
        let limit = u32::try_from(power).ok().and_then(|power| 1_u64.checked_shl(power));
        let line = format!("  < {:>8} {number:>9} {bar}", short(limit.unwrap_or(u64::MAX)));
        let _infallible = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Nanoseconds, in a unit that fits.
fn short(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{} µs", nanoseconds / 1_000),
        1_000_000..1_000_000_000 => format!("{} ms", nanoseconds / 1_000_000),
        _ => format!("{} s", nanoseconds / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_and_most() {
        let mut histogram = vec![0; 24];
        (histogram[11], histogram[13], histogram[21]) = (90, 9, 1);
        let timing = Timing { seconds: 3, decisions: 100, nanoseconds: 300_000, histogram };
        assert_eq!((below(&timing, 50), below(&timing, 99)), (Some(2048), Some(8192)));
        let words = words(&timing);
        let wanted =
            "100 decisions in 3 s\nhalf took less than 2 µs, 99 of 100 less than 8 µs; the mean is 3 µs\n";
        assert!(words.starts_with(wanted), "{words}");
        assert_eq!(words.lines().count(), 13, "{words}");
        assert_eq!(below(&Timing::default(), 50), None);
    }
}
