// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The targets for profiles, and the figures that Antimony publishes.

use crate::goal::{Bound, Goal, Unit};
use crate::interleave::{Sample, Series};
use crate::random::Random;
use crate::statistics::{Estimate, estimate};

/// The target for a plan from the cache, in seconds.
const HOT_PLAN: f64 = 0.000_25;
/// The target for a launch from a kept plan, up to this many files; and for each further file.
const HOT_LAUNCH: f64 = 0.003;
const FILES: usize = 200;
pub(crate) const PER_FILE: f64 = 0.000_002_5;
/// How many times faster than `ldd`.
const LDD: f64 = 10.0;
/// The target for a new plan of the small shell.
const COLD_SH: f64 = 0.002;

/// Figures from Antimony's documents, in seconds, measured on its author's machine: plans only, version 2.4.0 ("cold" deletes
/// the cache within the measured time); and launches to exit, version 5.2.1.
struct Published {
    profile: &'static str,
    cold_plan: f64,
    hot_plan: f64,
    cold_launch: f64,
    hot_launch: f64,
}

const fn published(profile: &'static str, milliseconds: [f64; 4]) -> Published {
    let [cold_plan, hot_plan, cold_launch, hot_launch] = milliseconds;
    Published {
        profile,
        cold_plan: cold_plan / 1e3,
        hot_plan: hot_plan / 1e3,
        cold_launch: cold_launch / 1e3,
        hot_launch: hot_launch / 1e3,
    }
}

const ANTIMONY: [Published; 5] = [
    published("chromium", [361.0, 3.1, 194.0, 27.5]),
    published("zed", [49.0, 3.0, 55.0, 22.6]),
    published("okular", [1280.0, 2.7, 344.0, 24.7]),
    published("syncthing", [25.0, 2.2, 20.0, 11.2]),
    published("sh", [7.0, 2.1, 18.0, 11.0]),
];

/// The target for a launch from a kept plan with this many files shown.
#[expect(clippy::cast_precision_loss, reason = "a closure has fewer than 2⁵³ files")]
fn hot_launch(files: usize) -> f64 {
    HOT_LAUNCH + PER_FILE * files.saturating_sub(FILES) as f64
}

/// The goals of one profile's tables.
pub(crate) struct Goals<'a> {
    pub(crate) profile: &'a str,
    pub(crate) files: usize,
    pub(crate) random: &'a mut Random,
}

fn time(what: String, wanted: Option<f64>, seen: Option<Estimate>, published: Option<f64>) -> Goal {
    Goal { what, unit: Unit::Seconds, bound: Bound::AtMost, wanted, seen, published }
}

impl Goals<'_> {
    fn published(&self) -> Option<&'static Published> {
        ANTIMONY.iter().find(|published| published.profile == self.profile)
    }

    fn median(&mut self, series: Option<&Series>) -> Option<Estimate> {
        estimate(&series.filter(|series| series.valid())?.walls(), self.random)
    }

    /// With a kept plan: from the series of plans and the series of launches.
    pub(crate) fn hot(&mut self, plan: Option<&Series>, launch: Option<&Series>) -> Vec<Goal> {
        let published = self.published();
        let (plan, launch) = (self.median(plan), self.median(launch));
        vec![
            time("plan only".into(), Some(HOT_PLAN), plan, published.map(|of| of.hot_plan)),
            time(
                format!("launch to exit, {} paths shown", self.files),
                Some(hot_launch(self.files)),
                launch,
                published.map(|of| of.hot_launch),
            ),
        ]
    }

    /// Without a kept plan: from the series of plans, of launches, and of `ldd`.
    pub(crate) fn cold(
        &mut self,
        plan: Option<&Series>,
        launch: Option<&Series>,
        ldd: Option<(&Series, usize)>,
    ) -> Vec<Goal> {
        let published = self.published();
        let wanted = (self.profile == "sh").then_some(COLD_SH);
        let mut goals = vec![
            time("plan only".into(), wanted, self.median(plan), published.map(|of| of.cold_plan)),
            time("launch to exit".into(), None, self.median(launch), published.map(|of| of.cold_launch)),
        ];
        if let Some((ldd, files)) = ldd {
            let both = plan.filter(|plan| plan.valid() && ldd.valid());
            let seen = both.and_then(|plan| estimate(&ldd.paired(plan, |ldd, plan| ldd / plan), self.random));
            // On a busy machine, both times are mostly waiting. The processor times don't include that.
            let worked = both.and_then(|plan| estimate(&work_ratios(ldd, plan), self.random));
            let ratio = |what: String, wanted, seen| Goal {
                what,
                unit: Unit::Times,
                bound: Bound::AtLeast,
                wanted,
                seen,
                published: None,
            };
            goals.push(ratio(format!("ldd of {files} files / plan only"), Some(LDD), seen));
            goals.push(ratio("the same, in processor time of whole commands".to_owned(), None, worked));
        }
        goals
    }
}

/// Ratios of processor times in the same rounds. The kernel may count in ticks, so a round with zero ticks is left out.
fn work_ratios(above: &Series, below: &Series) -> Vec<f64> {
    let work = |sample: &Sample| sample.user + sample.system;
    let of_round = |round| below.samples.iter().find(|sample| sample.round == round).map(work);
    above
        .samples
        .iter()
        .filter_map(|sample| {
            of_round(sample.round).filter(|&below| below > 0.0).map(|below| work(sample) / below)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::series;

    #[test]
    fn each_file_beyond_the_first_adds_to_the_bound() {
        assert!((hot_launch(10) - 0.003).abs() < 1e-12);
        assert!((hot_launch(200) - 0.003).abs() < 1e-12);
        assert!((hot_launch(1200) - 0.0055).abs() < 1e-12);
    }

    #[test]
    fn ldd_is_compared_within_its_rounds() {
        let (plan, ldd) = (series("plan", &[0.001, 0.002, 0.004]), series("ldd", &[0.012, 0.024, 0.048]));
        let mut goals = Goals { profile: "sh", files: 3, random: &mut Random::new(1) };
        let cold = goals.cold(Some(&plan), None, Some((&ldd, 7)));
        assert_eq!(cold[2].what, "ldd of 7 files / plan only");
        assert!((cold[2].seen.unwrap().median - 12.0).abs() < 1e-9);
        assert_eq!((cold[0].reached(), cold[2].reached()), (Some(true), Some(true)));
        assert!((cold[3].seen.unwrap().median - 12.0).abs() < 1e-9);
        // A launch that failed reaches no target.
        assert_eq!((cold[1].seen, cold[1].reached()), (None, None));
        assert_eq!(cold[0].published, Some(0.007));
    }

    #[test]
    fn only_what_was_published_is_shown_as_published() {
        let mut goals = Goals { profile: "vim", files: 3, random: &mut Random::new(1) };
        let plan = series("plan", &[0.0001; 5]);
        let hot = goals.hot(Some(&plan), None);
        assert_eq!((hot[0].published, hot[0].reached()), (None, Some(true)));
    }
}
