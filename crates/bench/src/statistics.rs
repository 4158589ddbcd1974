// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Medians, quantiles and bootstrap intervals. No outlier is ever removed: a launcher that is sometimes slow is shown as
//! sometimes slow.

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// Resamples per interval. With 2,000, each end of a 95% interval rests on 50 resamples.
const RESAMPLES: usize = 2_000;

/// The confidence of a claimed difference. In 40 comparisons of a command with itself, more than two (5%) false claims occur
/// once in 150 times at this confidence. At 95% they would occur once in three times.
pub(crate) const CONFIDENCE: f64 = 0.99;

/// A median with its 95% bootstrap interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub(crate) struct Estimate {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// There is only one value: it has no interval, and both ends are the value.
    pub(crate) single: bool,
}

/// An estimate in a file. It has no ends if there is only one value.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Written {
    median: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    low: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    high: Option<f64>,
}

impl From<Written> for Estimate {
    fn from(Written { median, low, high }: Written) -> Self {
        Self {
            median,
            low: low.unwrap_or(median),
            high: high.unwrap_or(median),
            single: low.is_none() || high.is_none(),
        }
    }
}

impl From<Estimate> for Written {
    fn from(estimate: Estimate) -> Self {
        let end = |value: f64| (!estimate.single).then_some(value);
        Self { median: estimate.median, low: end(estimate.low), high: end(estimate.high) }
    }
}

impl Estimate {
    /// An estimate from one value.
    pub(crate) fn single(value: f64) -> Self {
        Self { median: value, low: value, high: value, single: true }
    }

    /// The same estimate in another unit. `f` must be increasing.
    pub(crate) fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self { median: f(self.median), low: f(self.low), high: f(self.high), single: self.single }
    }

    /// The estimate as text: the median, and its interval if there is one. `head` formats the median, `tail` the ends.
    pub(crate) fn words(&self, head: impl Fn(f64) -> String, tail: impl Fn(f64) -> String) -> String {
        if self.single {
            head(self.median)
        } else {
            format!("{} [{}, {}]", head(self.median), tail(self.low), tail(self.high))
        }
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    pub(crate) fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// The quantile `at` (0 to 1), interpolated linearly between order statistics. `None` for no values.
pub(crate) fn quantile(values: &[f64], at: f64) -> Option<f64> {
    let sorted = sorted(values);
    let last = sorted.len().checked_sub(1)?;
    let position = at.clamp(0.0, 1.0) * last as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 ≤ position ≤ last, which is a usize"
    )]
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64))
}

/// The median. `None` for no values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The arithmetic mean. `None` for no values.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample standard deviation (n − 1). `None` for fewer than two values.
pub(crate) fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let degrees = values.len().checked_sub(1).filter(|&n| n > 0)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / degrees as f64).sqrt())
}

/// The median of `values` with a percentile bootstrap interval of 95%. `None` for no values.
pub(crate) fn estimate(values: &[f64], random: &mut Random) -> Option<Estimate> {
    let sorted = sorted(values);
    let median = median(&sorted)?;
    let mut medians: Vec<f64> = (0..RESAMPLES).map(|_| resampled_median(&sorted, random)).collect();
    medians.sort_unstable_by(f64::total_cmp);
    Some(Estimate {
        median,
        low: quantile(&medians, 0.025)?,
        high: quantile(&medians, 0.975)?,
        single: values.len() == 1,
    })
}

/// An interval that contains the median of the distribution of `values` with at least this confidence, whatever the
/// distribution is. It is the interval of the sign test, between two of the values. `None` if there are too few values for
/// such a claim.
///
/// Claims of a difference use this interval and not the bootstrap: bootstrap intervals are too short if samples are few or
/// clustered. Contenders run in a new random order in each round. So if they don't differ, each round's ratio is above 1 as
/// often as below it, whatever the machine does. The test assumes nothing else.
pub(crate) fn certain_interval(values: &[f64], confidence: f64) -> Option<(f64, f64)> {
    let sorted = sorted(values);
    let size = sorted.len();
    // For this many coin tosses, the chance of at most `outside` heads may be half of the permitted error.
    let allowed = (1.0 - confidence) / 2.0;
    let mut logarithm = -(size as f64) * core::f64::consts::LN_2;
    let (mut chance, mut outside) = (logarithm.exp(), 0);
    while chance <= allowed && outside < size / 2 {
        outside += 1;
        logarithm += ((size - outside + 1) as f64 / outside as f64).ln();
        chance += logarithm.exp();
    }
    let below = outside.checked_sub(1)?;
    Some((*sorted.get(below)?, *sorted.get(size - 1 - below)?))
}

/// Whether the median of `values` differs significantly from `of`.
pub(crate) fn differs(values: &[f64], of: f64) -> bool {
    certain_interval(values, CONFIDENCE).is_some_and(|(low, high)| of < low || high < of)
}

/// Whether the medians of two series from different rounds differ significantly: their intervals don't overlap.
pub(crate) fn differ(one: &[f64], other: &[f64]) -> bool {
    let interval = |values| certain_interval(values, CONFIDENCE);
    interval(one).zip(interval(other)).is_some_and(|(one, other)| one.1 < other.0 || other.1 < one.0)
}

/// The ratio of the medians of two series from *different* rounds. Each series is resampled separately.
pub(crate) fn estimate_independent_ratio(
    numerator: &[f64],
    denominator: &[f64],
    random: &mut Random,
) -> Option<Estimate> {
    let (above, below) = (sorted(numerator), sorted(denominator));
    let middle = median(&above)? / median(&below)?;
    let mut ratios: Vec<f64> =
        (0..RESAMPLES).map(|_| resampled_median(&above, random) / resampled_median(&below, random)).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    Some(Estimate {
        median: middle,
        low: quantile(&ratios, 0.025)?,
        high: quantile(&ratios, 0.975)?,
        single: numerator.len() == 1 && denominator.len() == 1,
    })
}

/// The median of one resample with replacement. The values are sorted, so it is enough to count how often each rank was drawn
/// and to walk to the middle, without sorting again.
fn resampled_median(sorted: &[f64], random: &mut Random) -> f64 {
    let size = sorted.len();
    let mut drawn = vec![0_u32; size];
    for _ in 0..size {
        drawn[random.below(size)] += 1;
    }
    let (lower, upper) = ((size - 1) / 2, size / 2);
    let mut passed = 0;
    let mut first = None;
    for (rank, &times) in drawn.iter().enumerate() {
        passed += times as usize;
        if first.is_none() && passed > lower {
            first = Some(sorted[rank]);
        }
        if let Some(first) = first
            && passed > upper
        {
            return f64::midpoint(first, sorted[rank]);
        }
    }
    // `size` draws were made, so `passed` ends at `size`, which is above `upper`.
    unreachable!("the middle of {size} draws lies within them")
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64, tolerance: f64) {
        assert!((actual - expected).abs() <= tolerance, "{actual} is not within {tolerance} of {expected}");
    }

    #[test]
    fn quantiles_of_known_data() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&values), Some(2.5));
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(quantile(&values, 1.0), Some(4.0));
        assert_close(quantile(&values, 0.1).unwrap(), 1.3, 1e-12);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(mean(&values), Some(2.5));
        assert_close(deviation(&values).unwrap(), (5.0_f64 / 3.0).sqrt(), 1e-12);
        assert_eq!(deviation(&[1.0]), None);
    }

    #[test]
    fn equal_values_leave_no_uncertainty() {
        let estimate = estimate(&[5.0; 30], &mut Random::new(1)).unwrap();
        assert_eq!(estimate, Estimate { median: 5.0, low: 5.0, high: 5.0, single: false });
    }

    /// The bootstrap distribution of the median of 1..=101 is known from the binomial distribution: the 2.5% and 97.5% points of the
    /// order statistic lie at about 51 ± 1.96·√101/2, that is 41 and 61.
    #[test]
    fn the_interval_of_a_known_sample() {
        let values: Vec<f64> = (1..=101).map(f64::from).collect();
        let estimate = estimate(&values, &mut Random::new(7)).unwrap();
        assert_close(estimate.median, 51.0, 0.0);
        assert_close(estimate.low, 41.2, 1.6);
        assert_close(estimate.high, 60.8, 1.6);
    }

    /// Nominal coverage, checked: of 300 samples of a uniform distribution, about 95% of the intervals hold the true median.
    #[test]
    fn the_interval_covers_the_truth_as_often_as_it_says() {
        let mut random = Random::new(11);
        let covered = (0..300)
            .filter(|_| {
                let sample: Vec<f64> = (0..40).map(|_| random.below(1_000_000) as f64 / 1e6).collect();
                estimate(&sample, &mut random).unwrap().contains(0.5)
            })
            .count();
        assert!((270..=298).contains(&covered), "{covered} of 300");
    }

    #[test]
    fn one_value_has_no_interval() {
        let one = estimate(&[443.2], &mut Random::new(1)).unwrap();
        assert_eq!(one.words(|value| format!("{value}"), |value| format!("{value}")), "443.2");
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(text, r#"{"median":443.2}"#);
        assert_eq!(serde_json::from_str::<Estimate>(&text).unwrap(), one);
        let two = estimate(&[1.0, 2.0], &mut Random::new(1)).unwrap();
        assert!(two.words(|value| format!("{value}"), |value| format!("{value}")).contains('['), "{two:?}");
        assert_eq!(
            serde_json::from_str::<Estimate>(&serde_json::to_string(&two).unwrap()).unwrap(),
            two,
            "an interval is kept"
        );
    }

    /// Tables of the sign test: the 99% interval of 8 values is all of them (2·2⁻⁸ = 0.8%), for 7 there is none, for 20 it
    /// goes from the 4th to the 17th (2·0.0013), for 100 from the 37th to the 64th.
    #[test]
    fn certain_intervals_are_those_of_the_sign_test() {
        let of = |count: u32| certain_interval(&(1..=count).map(f64::from).collect::<Vec<_>>(), CONFIDENCE);
        assert_eq!((of(0), of(1), of(7)), (None, None, None));
        assert_eq!(of(8), Some((1.0, 8.0)));
        assert_eq!(of(20), Some((4.0, 17.0)));
        assert_eq!(of(100), Some((37.0, 64.0)));
        // Here 2⁻ⁿ is too small for a floating-point number.
        let (low, high) = of(4000).unwrap();
        assert!((low - 1919.0).abs() <= 2.0 && (high - 2082.0).abs() <= 2.0, "{low} {high}");
    }

    #[test]
    fn resampled_medians_agree_with_sorting() {
        for size in 1..12_usize {
            let values: Vec<f64> = (0..size).map(|value| value as f64).collect();
            for seed in 0..50 {
                let mut random = Random::new(seed);
                let mut again = random.clone();
                let drawn: Vec<f64> = (0..size).map(|_| values[again.below(size)]).collect();
                assert_close(resampled_median(&values, &mut random), median(&drawn).unwrap(), 1e-12);
            }
        }
    }

    #[test]
    fn the_ratio_of_independent_series() {
        let slow: Vec<f64> = (0..60).map(|n| 20.0 + f64::from(n % 5) * 0.1).collect();
        let fast: Vec<f64> = (0..40).map(|n| 10.0 + f64::from(n % 5) * 0.1).collect();
        let ratio = estimate_independent_ratio(&slow, &fast, &mut Random::new(5)).unwrap();
        assert_close(ratio.median, 20.2 / 10.2, 1e-9);
        assert!(ratio.low <= ratio.median && ratio.median <= ratio.high && ratio.width() < 0.1);
    }
}
