// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The targets for the guard. For fapolicyd, the figures of its own performance document.

use super::days::{BUILD, INSTALL};
use super::scenarios::{
    ALLOW_ALL, FIRST_CALL, FIRST_WALL, MANY_STRACE, OFF, ONE_CALL, ONE_STRACE, ONE_WALL, PALISADE,
    SECOND_CALL, SECOND_WALL, STEADY, TOUCH, WINDOW,
};
use crate::goal::{Bound, Goal, Unit};
use crate::random::Random;
use crate::statistics::{Estimate, estimate, estimate_independent_ratio};
use crate::summary::{Row, Table};

/// A table, the highest allowed ratio to the row "off", and the published ratio for the same scenario.
const RATIOS: [(&str, f64, Option<f64>); 12] = [
    (ONE_CALL, 1.04, Some(ONE_PUBLISHED)),
    (ONE_STRACE, 1.04, Some(ONE_PUBLISHED)),
    (FIRST_CALL, 1.35, Some(MANY_PUBLISHED)),
    (MANY_STRACE, 1.35, Some(MANY_PUBLISHED)),
    (SECOND_CALL, 1.04, None),
    (ONE_WALL, 1.02, None),
    (FIRST_WALL, 1.35, None),
    (SECOND_WALL, 1.02, None),
    (TOUCH, 5.0, None),
    (STEADY, 1.10, Some(OPEN_PUBLISHED)),
    (BUILD, 1.10, None),
    (INSTALL, 1.10, None),
];
const ONE_PUBLISHED: f64 = 1.68;
const MANY_PUBLISHED: f64 = 1.72;
const OPEN_PUBLISHED: f64 = 7.09;
/// The number of opens in 60 s, which the document calls opens per second: without and with fapolicyd.
const OPENS_PUBLISHED: [f64; 2] = [29_973_669.0, 4_249_575.0];
const PUBLISHED_WINDOW: f64 = 60.0;

/// The goals of one table.
pub(crate) fn of(table: &Table, random: &mut Random) -> Vec<Goal> {
    let mut goals = Vec::new();
    // There is no target for the wall time of a first pass, but it is shown.
    if let Some((_, wanted, published)) = RATIOS.iter().find(|(title, ..)| *title == table.workload) {
        for name in [PALISADE, ALLOW_ALL] {
            let Some(row) = row(table, name) else { continue };
            goals.push(Goal {
                what: format!("{name} / off"),
                unit: Unit::Ratio,
                bound: Bound::AtMost,
                wanted: (table.workload != FIRST_WALL).then_some(*wanted),
                seen: row.figures.as_ref().and_then(|figures| figures.ratio),
                published: *published,
            });
        }
    }
    if table.workload == WINDOW {
        for row in &table.rows {
            let rates = |seconds: f64| -> Vec<f64> {
                let walls = if row.figures.is_some() { row.series.walls() } else { Vec::new() };
                walls.into_iter().map(|wall| seconds / wall).collect()
            };
            let published = match row.series.name.as_str() {
                OFF => Some(OPENS_PUBLISHED[0]),
                name if name.starts_with("fapolicyd") => Some(OPENS_PUBLISHED[1]),
                _ => None,
            };
            for (what, seconds, published) in
                [("in 60 s", PUBLISHED_WINDOW, published), ("a second", 1.0, None)]
            {
                goals.push(Goal {
                    what: format!("{}: opens {what}", row.series.name),
                    unit: Unit::Count,
                    bound: Bound::AtLeast,
                    wanted: None,
                    seen: estimate(&rates(seconds), random),
                    published,
                });
            }
        }
    }
    goals
}

pub(crate) fn row<'t>(table: &'t Table, name: &str) -> Option<&'t Row> {
    table.rows.iter().find(|row| row.series.name == name)
}

/// Adds the ratio of "off" beside running daemons to "off" without daemons, on the same cores.
pub(crate) fn undisturbed(tables: &mut [Table], idle: &[Table], random: &mut Random) {
    for table in tables {
        let Some(alone) = idle.iter().find(|idle| {
            idle.workload.strip_prefix(table.workload.as_str()).is_some_and(|rest| rest.starts_with(", no"))
        }) else {
            continue;
        };
        let walls =
            |table: &Table| row(table, OFF).filter(|row| row.figures.is_some()).map(|row| row.series.walls());
        let seen: Option<Estimate> = walls(table)
            .zip(walls(alone))
            .and_then(|(beside, alone)| estimate_independent_ratio(&beside, &alone, random));
        table.goals.push(Goal {
            what: "off beside running daemons / off without any".to_owned(),
            unit: Unit::Ratio,
            bound: Bound::AtMost,
            wanted: None,
            seen,
            published: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::series;

    fn table(title: &str, rows: &[(&str, f64)]) -> Table {
        let all = rows.iter().map(|(name, wall)| series(name, &[*wall; 9])).collect();
        Table::summarise(title, 9, 1, all, &mut Random::new(1))
    }

    #[test]
    fn ratios_are_of_off() {
        let goals = of(
            &table(ONE_CALL, &[(OFF, 1e-4), ("off again", 1e-4), (PALISADE, 1.02e-4)]),
            &mut Random::new(1),
        );
        let [goal] = goals.as_slice() else { panic!("{goals:?}") };
        assert_eq!((goal.reached(), goal.published), (Some(true), Some(1.68)));
        let cells = goal.cells();
        assert_eq!((cells[1].as_str(), cells[4].as_str()), ("1.02× [1.02, 1.02]", "1.68×"));
    }

    #[test]
    fn opens_are_counted_as_published() {
        let goals = of(&table(WINDOW, &[(OFF, 2e-6), ("fapolicyd", 2e-5)]), &mut Random::new(1));
        assert_eq!(goals[0].cells()[1], "30000000 [30000000, 30000000]");
        assert_eq!(goals[0].cells()[4], "29973669");
        assert_eq!((goals[1].seen.unwrap().median, goals[2].published), (500_000.0, Some(4_249_575.0)));
    }

    #[test]
    fn off_is_compared_with_off_alone() {
        let mut tables = [table(ONE_CALL, &[(OFF, 1.1e-4)]), table(TOUCH, &[(OFF, 1e-6)])];
        let idle = [table(&format!("{ONE_CALL}, no daemon runs"), &[(OFF, 1e-4)])];
        undisturbed(&mut tables, &idle, &mut Random::new(1));
        assert!((tables[0].goals[0].seen.unwrap().median - 1.1).abs() < 1e-9);
        assert!(tables[1].goals.is_empty());
    }
}
