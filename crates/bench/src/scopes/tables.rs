// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One table for each load, with its targets.

use super::{Line, Tree, decide};
use crate::goal::{Bound, Goal, Unit};
use crate::interleave::{Sample, Series};
use crate::random::Random;
use crate::statistics::{Estimate, estimate};
use crate::summary::{Scale, Section, Table};

/// The rows of Palisade's programs.
pub(crate) const PALISADE: &str = "palisade";
/// The rows of atty's programs, reconstructed.
pub(crate) const ATTY: &str = "atty, rebuilt";
/// The loads. Each has a table.
pub(crate) const LOADS: [&str; 3] = ["unmarked", "marked", "watched"];
/// The measurement with trees of processes.
pub(crate) const PRESSURE: &str = "map_pressure";

/// The targets: depth, load, and the highest cost of all programs per command, in nanoseconds.
const WANTED: [(&str, &str, f64); 4] = [
    ("one_level", "unmarked", 530.0),
    ("ancestry(8)", "unmarked", 680.0),
    ("propagate_on_fork", "unmarked", 170.0),
    ("propagate_on_fork", "marked", 700.0),
];
/// The figures in atty's document, for the load "unmarked", on its machine.
const PUBLISHED: [(&str, f64); 3] =
    [("one_level", 732.0), ("ancestry(8)", 852.0), ("propagate_on_fork", 700.0)];

/// A case, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) who: String,
    pub(crate) depth: String,
    pub(crate) load: String,
    pub(crate) programs: Vec<String>,
    /// The times of each program, for each round.
    pub(crate) each: Vec<Vec<f64>>,
}

impl Case {
    pub(crate) fn name(&self) -> String {
        format!("{}, {}", self.who, self.depth)
    }

    /// The sums of all programs, for each round.
    pub(crate) fn sums(&self) -> Vec<f64> {
        self.each.iter().map(|programs| programs.iter().sum()).collect()
    }
}

/// All lines of the measuring program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) cases: Vec<Case>,
    /// The time of a command, started by a program that forks and executes, and by a shell.
    commands: Vec<(String, Vec<f64>)>,
    trees: Vec<Tree>,
}

impl Measured {
    pub(crate) fn of(lines: Vec<Line>) -> Self {
        let mut measured = Self::default();
        for line in lines {
            match line {
                Line::Command { by, ns } => measured.commands.push((by, ns)),
                Line::Case { who, depth, load, programs, ns } => {
                    measured.cases.push(Case { who, depth, load, programs, each: ns });
                }
                Line::Tree(tree) => measured.trees.push(tree),
            }
        }
        measured
    }

    pub(crate) fn case(&self, who: &str, depth: &str, load: &str) -> Option<&Case> {
        self.cases.iter().find(|case| (&*case.who, &*case.depth, &*case.load) == (who, depth, load))
    }

    /// The time of a command when `by` starts it.
    pub(crate) fn command(&self, by: &str, random: &mut Random) -> Option<f64> {
        let (_, figures) = self.commands.iter().find(|(name, _)| name == by)?;
        estimate(figures, random).map(|estimate| estimate.median)
    }

    /// The tables. The recommended depths follow the last one.
    pub(crate) fn tables(&self, commands: usize, random: &mut Random) -> Vec<Table> {
        let mut tables: Vec<Table> =
            LOADS.iter().filter_map(|load| self.table(load, commands, random)).collect();
        if !self.trees.is_empty() {
            let mut table = Table::summarise(PRESSURE, 1, 1, Vec::new(), random);
            table.sections.push(pressure(&self.trees));
            tables.push(table);
        }
        if let Some(section) = decide::section(self, random)
            && let Some(last) = tables.last_mut()
        {
            last.sections.push(section);
        }
        tables
    }

    fn table(&self, load: &str, commands: usize, random: &mut Random) -> Option<Table> {
        let rows: Vec<&Case> =
            self.cases.iter().filter(|case| case.load == load && case.who != "statistics").collect();
        let first = rows.first()?;
        let rounds = first.each.len();
        let controls = self.cases.iter().filter(|case| case.who == "statistics");
        let series = controls.chain(rows.iter().copied()).map(series).collect();
        let title = format!("{load}, {commands} fork+exec a round");
        let mut table = Table::summarise(&title, rounds, 1, series, random);
        table.scale = Scale::Nanoseconds;
        table.goals = self.goals(load, random);
        table.sections.push(self.shares(&rows, random));
        Some(table)
    }

    fn goals(&self, load: &str, random: &mut Random) -> Vec<Goal> {
        let mut goals = Vec::new();
        for case in self.cases.iter().filter(|case| case.who == PALISADE && case.load == load) {
            let wanted = WANTED
                .iter()
                .find(|(depth, of, _)| *depth == case.depth && *of == load)
                .map(|(.., most)| most / 1e9);
            let published = PUBLISHED
                .iter()
                .find(|(depth, _)| *depth == case.depth && load == "unmarked")
                .map(|(_, ns)| ns / 1e9);
            if wanted.is_some() {
                let sums: Vec<f64> = case.sums().iter().map(|sum| sum / 1e9).collect();
                goals.push(Goal {
                    what: case.name(),
                    unit: Unit::Nanoseconds,
                    bound: Bound::AtMost,
                    wanted,
                    seen: estimate(&sums, random),
                    published,
                });
            }
            if wanted.is_some()
                && let Some(nothing) = self.case("statistics", "nothing", "unmarked")
            {
                // Subtracts the statistics' cost once for each program.
                let own = |(sum, nothing): (f64, f64)| {
                    case.programs.iter().fold(sum, |left, _| left - nothing) / 1e9
                };
                let bare: Vec<f64> = case.sums().into_iter().zip(nothing.sums()).map(own).collect();
                goals.push(Goal {
                    what: format!("{}, without the statistics", case.name()),
                    unit: Unit::Nanoseconds,
                    bound: Bound::AtMost,
                    wanted: None,
                    seen: estimate(&bare, random),
                    published: None,
                });
            }
            if let Some(theirs) = self.case(ATTY, &case.depth, load) {
                let ratios: Vec<f64> =
                    case.sums().iter().zip(theirs.sums()).map(|(ours, theirs)| ours / theirs).collect();
                goals.push(Goal {
                    what: format!("{} / {}", case.name(), theirs.who),
                    unit: Unit::Ratio,
                    bound: Bound::AtMost,
                    wanted: None,
                    seen: estimate(&ratios, random),
                    published: None,
                });
            }
        }
        goals
    }

    /// The cost per command, for each program, and as a fraction of the command's time.
    fn shares(&self, rows: &[&Case], random: &mut Random) -> Section {
        let bare = self.command("fork+exec", random);
        let shell = self.command("shell", random);
        let beside = |what: &str, took: Option<f64>| match took {
            Some(ns) => format!("of {what}, {:.0} µs", ns / 1e3),
            None => format!("of {what}"),
        };
        let mut section = Section {
            title: "what a command pays, in ns".to_owned(),
            columns: ["name", "all [95%]", "fork + exec + exit"].map(str::to_owned).to_vec(),
            rows: Vec::new(),
        };
        section.columns.push(beside("a C fork+exec", bare));
        section.columns.push(beside("a shell's", shell));
        for case in rows {
            let Some(sum) = estimate(&case.sums(), random) else { continue };
            let each: Vec<String> = (0..case.programs.len())
                .filter_map(|program| {
                    let figures: Vec<f64> =
                        case.each.iter().filter_map(|round| round.get(program).copied()).collect();
                    estimate(&figures, random).map(|estimate| format!("{:.0}", estimate.median))
                })
                .collect();
            let share = |took: Option<f64>| took.map(|took| format!("{:.3} %", 100.0 * sum.median / took));
            section.rows.push(vec![
                case.name(),
                nanoseconds(&sum),
                each.join(" + "),
                share(bare).unwrap_or_default(),
                share(shell).unwrap_or_default(),
            ]);
        }
        section
    }
}

pub(crate) fn nanoseconds(estimate: &Estimate) -> String {
    let whole = |value: f64| format!("{value:.0}");
    estimate.words(whole, whole)
}

fn series(case: &Case) -> Series {
    let mut series = Series::begun(&case.name(), format!("{}, {}", case.name(), case.load));
    let sample = |(round, ns): (usize, f64)| Sample {
        round,
        wall: ns / 1e9,
        user: 0.0,
        system: 0.0,
        max_rss: 0,
        exit_code: 0,
    };
    series.samples = case.sums().into_iter().enumerate().map(sample).collect();
    series
}

fn pressure(trees: &[Tree]) -> Section {
    let columns = ["tree, table", "places", "processes", "marks lost", "the first's", "ns a fork", "bytes"];
    Section {
        title: "a tree of processes that is larger than the table of marks".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: trees
            .iter()
            .map(|tree| {
                vec![
                    format!("{}, {}", tree.tree, tree.table),
                    tree.entries.to_string(),
                    tree.processes.to_string(),
                    tree.lost.to_string(),
                    if tree.root_lost { "lost" } else { "kept" }.to_owned(),
                    format!("{:.0}", tree.fork_ns),
                    tree.bytes.to_string(),
                ]
            })
            .collect(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn case(who: &str, depth: &str, load: &str, each: &[f64]) -> Line {
        Line::Case {
            who: who.into(),
            depth: depth.into(),
            load: load.into(),
            programs: each.iter().map(|_| "exec".into()).collect(),
            ns: vec![each.to_vec(); 5],
        }
    }

    #[test]
    fn sums_are_judged_and_set_beside_the_peer() {
        let lines = vec![
            Line::Command { by: "fork+exec".into(), ns: vec![400_000.0; 5] },
            case("statistics", "nothing", "unmarked", &[60.0]),
            case("statistics", "nothing again", "unmarked", &[60.0]),
            case(PALISADE, "one_level", "unmarked", &[100.0, 300.0]),
            case(PALISADE, "propagate_on_fork", "unmarked", &[100.0, 100.0]),
            case(ATTY, "one_level", "unmarked", &[100.0, 300.0, 400.0]),
        ];
        let tables = Measured::of(lines).tables(4000, &mut Random::new(1));
        let [table] = tables.as_slice() else { panic!("{tables:?}") };
        let goals: Vec<_> = table.goals.iter().map(|goal| (goal.what.as_str(), goal.reached())).collect();
        assert_eq!(
            goals,
            [
                ("palisade, one_level", Some(true)),
                ("palisade, one_level, without the statistics", None),
                ("palisade, one_level / atty, rebuilt", None),
                ("palisade, propagate_on_fork", Some(false)),
                ("palisade, propagate_on_fork, without the statistics", None),
            ]
        );
        let ratio = table.goals[2].seen.unwrap().median;
        assert!((ratio - 0.5).abs() < 1e-9, "{ratio}");
        assert_eq!(table.goals[0].cells()[1..], ["400 ns [400, 400]", "≤ 530 ns", "yes", "732 ns"]);
        assert_eq!(
            table.sections[0].rows[0][..4],
            ["palisade, one_level", "400 [400, 400]", "100 + 300", "0.100 %"]
        );
        assert_eq!(table.goals[1].cells()[1], "280 ns [280, 280]");
        assert!(table.control.as_ref().is_some_and(|control| control.noisy.is_none()));
    }
}
