// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recommends a depth for each kind of use, from the run's figures.

use super::tables::{Measured, PALISADE};
use crate::random::Random;
use crate::statistics::estimate;
use crate::summary::Section;

/// A way of using scopes.
struct Use {
    whom: &'static str,
    /// The load whose commands pay the cost.
    load: &'static str,
    /// The highest acceptable cost, as a fraction of a C fork+exec.
    most: f64,
    /// The host has only this use, so each scope may have a control group.
    own_groups: bool,
}

const USES: [Use; 3] = [
    Use { whom: "default", load: "unmarked", most: 0.001, own_groups: false },
    Use { whom: "developer", load: "marked", most: 0.005, own_groups: false },
    Use { whom: "CI runner", load: "watched", most: 0.02, own_groups: true },
];

/// Depths that lose no process come first; among equal ones, the cheaper one is chosen. A depth's documentation says what it
/// misses.
const DEPTHS: [(&str, u8); 4] =
    [("propagate_on_fork", 0), ("cgroup", 0), ("ancestry(8)", 1), ("one_level", 2)];

/// `None` if not all cases were measured.
pub(super) fn section(measured: &Measured, random: &mut Random) -> Option<Section> {
    let command = measured.command("fork+exec", random)?;
    let mut rows = Vec::new();
    for of in USES {
        let mut prices = Vec::new();
        for (depth, misses) in DEPTHS {
            let price = estimate(&measured.case(PALISADE, depth, of.load)?.sums(), random)?.median;
            prices.push((depth, misses, price));
        }
        let most = of.most * command;
        let said: Vec<String> = prices.iter().map(|(.., price)| format!("{price:.0}")).collect();
        let mut may: Vec<_> = prices
            .into_iter()
            .filter(|(depth, _, price)| *price <= most && (of.own_groups || *depth != "cgroup"))
            .collect();
        may.sort_by(|one, other| one.1.cmp(&other.1).then(one.2.total_cmp(&other.2)));
        let chosen = may.first().map_or("none", |(depth, ..)| *depth);
        let affordable = format!("{most:.0} ({} %)", of.most * 100.0);
        rows.push(
            [&[of.whom.to_owned(), of.load.to_owned(), affordable], &said[..], &[chosen.to_owned()]].concat(),
        );
    }
    let mut columns: Vec<String> = ["for whom", "who pays", "at most"].map(str::to_owned).to_vec();
    columns.extend(DEPTHS.iter().map(|(depth, _)| (*depth).to_owned()));
    columns.push("so".to_owned());
    let title = "which depth, in ns a command: what misses least and can be paid for, of equals the cheaper";
    Some(Section { title: title.to_owned(), columns, rows })
}

#[cfg(test)]
mod tests {
    use super::super::Line;
    use super::super::tables::LOADS;
    use super::super::tables::tests::case;
    use super::*;

    fn decided(inherit: f64, group: f64) -> Vec<String> {
        let mut lines = vec![Line::Command { by: "fork+exec".into(), ns: vec![1_000_000.0] }];
        for load in LOADS {
            for (depth, ns) in [
                ("propagate_on_fork", inherit),
                ("cgroup", group),
                ("ancestry(8)", 900.0),
                ("one_level", 400.0),
            ] {
                lines.push(case(PALISADE, depth, load, &[ns]));
            }
        }
        let section = section(&Measured::of(lines), &mut Random::new(1)).unwrap();
        section.rows.iter().map(|row| row.last().unwrap().clone()).collect()
    }

    #[test]
    fn the_deepest_that_can_be_paid_for() {
        assert_eq!(decided(300.0, 500.0), ["propagate_on_fork"; 3]);
        assert_eq!(decided(300.0, 200.0), ["propagate_on_fork", "propagate_on_fork", "cgroup"]);
        assert_eq!(decided(2_000.0, 30_000.0), ["ancestry(8)", "propagate_on_fork", "propagate_on_fork"]);
        assert_eq!(decided(9e9, 9e9), ["ancestry(8)"; 3]);
    }

    #[test]
    fn half_of_the_figures_decide_nothing() {
        let lines = vec![case(PALISADE, "cgroup", "marked", &[1.0])];
        assert!(section(&Measured::of(lines), &mut Random::new(1)).is_none());
    }
}
