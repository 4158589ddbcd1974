// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Goals: the target for a figure, and the measured value.

use serde::{Deserialize, Serialize};

use crate::statistics::Estimate;

/// Which side of the bound is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bound {
    AtMost,
    AtLeast,
}

/// The unit of a figure. Times are stored in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unit {
    Seconds,
    Times,
    /// A ratio like `Times`, with hundredths.
    Ratio,
    /// Short times.
    Microseconds,
    Nanoseconds,
    MebibytesPerSecond,
    /// Seconds of processor time per GiB.
    WorkPerGibibyte,
    Bytes,
    Mebibytes,
    /// A number of things.
    Count,
}

/// One goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Goal {
    pub(crate) what: String,
    pub(crate) unit: Unit,
    pub(crate) bound: Bound,
    /// `None` if there is no target.
    pub(crate) wanted: Option<f64>,
    /// `None` if a row that the goal needs has failed.
    pub(crate) seen: Option<Estimate>,
    /// The peer's own figure, from its documents and its machine.
    pub(crate) published: Option<f64>,
}

impl Goal {
    /// Whether the median reaches the target. `None` if there is no value or no target.
    pub(crate) fn reached(&self) -> Option<bool> {
        let (seen, wanted) = (self.seen?.median, self.wanted?);
        Some(match self.bound {
            Bound::AtMost => seen <= wanted,
            Bound::AtLeast => seen >= wanted,
        })
    }

    pub(crate) fn cells(&self) -> Vec<String> {
        let seen = match self.seen {
            Some(seen) => seen.words(|value| self.value(value), |value| self.bare(value)),
            None => "failed".to_owned(),
        };
        let sign = match self.bound {
            Bound::AtMost => '≤',
            Bound::AtLeast => '≥',
        };
        let reached = match self.reached() {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        vec![
            self.what.clone(),
            seen,
            self.wanted.map(|wanted| format!("{sign} {}", self.value(wanted))).unwrap_or_default(),
            reached.to_owned(),
            self.published
                .map(|published| match self.unit {
                    Unit::Ratio | Unit::Count | Unit::Nanoseconds => self.value(published),
                    _ => format!("{:.1} ms", published * 1e3),
                })
                .unwrap_or_default(),
        ]
    }

    fn value(&self, value: f64) -> String {
        match self.unit {
            Unit::Seconds => format!("{} ms", self.bare(value)),
            Unit::Times | Unit::Ratio => format!("{}×", self.bare(value)),
            Unit::Microseconds => format!("{} µs", self.bare(value)),
            Unit::Nanoseconds => format!("{} ns", self.bare(value)),
            Unit::MebibytesPerSecond => format!("{} MiB/s", self.bare(value)),
            Unit::WorkPerGibibyte => format!("{} s/GiB", self.bare(value)),
            Unit::Bytes => format!("{} bytes", self.bare(value)),
            Unit::Mebibytes => format!("{} MiB", self.bare(value)),
            Unit::Count => self.bare(value),
        }
    }

    fn bare(&self, value: f64) -> String {
        match self.unit {
            Unit::Seconds => crate::report::text::ms(value),
            Unit::Times => format!("{value:.1}"),
            Unit::Ratio | Unit::WorkPerGibibyte => format!("{value:.2}"),
            // For such short times, hundredths matter.
            Unit::Microseconds if value.abs() < 10e-6 => format!("{:.2}", value * 1e6),
            Unit::Microseconds => format!("{:.0}", value * 1e6),
            Unit::Nanoseconds => format!("{:.0}", value * 1e9),
            Unit::Mebibytes => format!("{:.1}", value / f64::from(1 << 20)),
            Unit::MebibytesPerSecond | Unit::Bytes | Unit::Count => format!("{value:.0}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(bound: Bound, median: f64) -> Goal {
        let seen = Some(Estimate { median, low: median - 0.5, high: median + 0.5, single: false });
        Goal { what: "x".into(), unit: Unit::Times, bound, wanted: Some(10.0), seen, published: Some(0.361) }
    }

    #[test]
    fn a_bound_has_a_good_side() {
        assert_eq!(goal(Bound::AtLeast, 12.0).reached(), Some(true));
        assert_eq!(goal(Bound::AtMost, 12.0).reached(), Some(false));
        let failed = Goal { seen: None, ..goal(Bound::AtMost, 1.0) };
        assert_eq!(failed.reached(), None);
        assert_eq!(failed.cells()[1], "failed");
    }

    #[test]
    fn figures_have_their_units() {
        let cell =
            |unit, value| Goal { unit, wanted: Some(value), ..goal(Bound::AtMost, 0.0) }.cells()[2].clone();
        assert_eq!(cell(Unit::Microseconds, 0.000_150), "≤ 150 µs");
        assert_eq!(cell(Unit::WorkPerGibibyte, 0.3), "≤ 0.30 s/GiB");
        assert_eq!(cell(Unit::Bytes, 4096.0), "≤ 4096 bytes");
        assert_eq!(cell(Unit::MebibytesPerSecond, 900.4), "≤ 900 MiB/s");
        assert_eq!(cell(Unit::Ratio, 1.08), "≤ 1.08×");
    }

    #[test]
    fn cells_show_the_bound_beside_the_figure() {
        let cells = goal(Bound::AtLeast, 9.0).cells();
        assert_eq!(cells, ["x", "9.0× [8.5, 9.5]", "≥ 10.0×", "NO", "361.0 ms"]);
        let time = Goal { unit: Unit::Seconds, wanted: Some(0.00025), ..goal(Bound::AtMost, 0.0) };
        assert_eq!(time.cells()[2], "≤ 0.250 ms");
    }
}
