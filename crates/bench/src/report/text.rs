// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the report as text and tables.

use crate::environment::Environment;
use crate::goal::Goal;
use crate::report::factors::factors;
use crate::report::grid::Grid;
use crate::statistics::Estimate;
use crate::summary::{Figures, Report, Row, Scale, Table};

/// Plain text or Markdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Aligned,
    Markdown,
}

/// The whole report.
pub(crate) fn render(report: &Report, environment: &Environment, seed: u64, style: Style) -> String {
    let mut blocks: Vec<String> = Vec::new();
    blocks.push(format!(
        "{}\n{}, palisade-bench {}, seed {seed}\n",
        environment.line(),
        environment.date,
        environment.bench_version
    ));
    if report.interrupted {
        blocks.push("INTERRUPTED: this is what was measured until then\n".to_owned());
    }
    for table in &report.tables {
        let kind = table.category.map(|category| format!("{category}, ")).unwrap_or_default();
        let mut title = format!("{}: {kind}{}, {} rounds", report.suite, table.workload, table.rounds);
        if table.burst > 1 {
            title += &format!(" of {} launches back to back", table.burst);
        }
        if !table.is_words() {
            blocks.push(titled(&title, &grid(table, environment), style));
            blocks.extend(Some(control(table)).filter(|words| !words.is_empty()));
        }
        if !table.goals.is_empty() {
            blocks.push(goals(&table.goals, report.suite, style));
        }
        for section in &table.sections {
            let columns: Vec<&str> = section.columns.iter().map(String::as_str).collect();
            let mut grid = Grid::new(&columns);
            section.rows.iter().for_each(|row| grid.row(row.clone()));
            blocks.push(titled(&format!("{}: {}", report.suite, section.title), &grid, style));
        }
    }
    if let Some(grid) = factors(report) {
        blocks.push(titled(&format!("{}: overhead factors", report.suite), &grid, style));
    }
    blocks.push(
        "user+sys: of the processes that the launcher waited for, a lower bound; max: of the largest process; ratios and differences: medians over rounds\n"
            .to_owned(),
    );
    let isolation = isolation(report);
    if !isolation.is_empty() {
        blocks.push(format!("seen to isolate:\n{}", list(&isolation)));
    }
    let missing: Vec<String> =
        report.missing.iter().map(|missing| format!("{}: {}", missing.name, missing.how)).collect();
    if !missing.is_empty() {
        blocks.push(format!("not measured:\n{}", list(&missing)));
    }
    if !report.notes.is_empty() {
        let notes: Vec<String> = report.notes.iter().map(|&note| note.to_owned()).collect();
        blocks.push(format!("what is compared:\n{}", list(&notes)));
    }
    blocks.join("\n")
}

fn list(items: &[String]) -> String {
    // Two spaces before the dash look right in both styles.
    items.iter().map(|item| format!("  - {item}\n")).collect()
}

fn grid(table: &Table, environment: &Environment) -> Grid {
    let unit = table.scale.name();
    let (median, added) = (format!("median {unit} [95%]"), format!("+{unit} [95%]"));
    let (range, slow) = (format!("p10–p90 {unit}"), format!("p95, p99 {unit}"));
    let mut grid = Grid::new(&[
        "name",
        &median,
        "× plain [95%]",
        &added,
        &range,
        &slow,
        "user+sys ms",
        "max MiB",
        "ok/failed",
    ]);
    let floor = if table.waited { environment.memory_floor_byte } else { 0 };
    for row in &table.rows {
        match &row.figures {
            Some(figures) => grid.row(cells(row, figures, floor, table.scale)),
            None => grid.remark(&row.series.name, failure(row)),
        }
    }
    grid
}

fn cells(row: &Row, figures: &Figures, floor: u64, scale: Scale) -> Vec<String> {
    let times = |estimate: &Estimate| milliseconds(&estimate.map(|seconds| scale.of(seconds)));
    vec![
        row.series.name.clone(),
        times(&figures.wall),
        figures.ratio.as_ref().map(ratio).unwrap_or_default(),
        figures.added.as_ref().map(times).unwrap_or_default(),
        format!("{}–{}", ms(scale.of(figures.p10)), ms(scale.of(figures.p90))),
        format!("{}, {}", ms(scale.of(figures.p95)), ms(scale.of(figures.p99))),
        format!("{:.1}+{:.1}", figures.user * 1e3, figures.system * 1e3),
        memory(figures.max_rss, floor),
        format!("{}/0", row.series.samples.len()),
    ]
}

/// A row without figures gives the reason, and never a time.
fn failure(row: &Row) -> String {
    let first = row.series.failed.first().map(ToString::to_string).unwrap_or_default();
    if row.series.failed_at_start {
        format!("failed: {first}")
    } else if row.series.failed.is_empty() {
        "no completed round".to_owned()
    } else {
        let failed = row.series.failed.len();
        format!("invalid: {failed} of {} rounds failed: {first}", failed + row.series.samples.len())
    }
}

fn goals(goals: &[Goal], suite: &str, style: Style) -> String {
    let published = match suite {
        "agents" => "Greywall published",
        "guard" => "fapolicyd published",
        "scopes" => "atty published",
        "shell" | "syscalls" => "published",
        _ => "Antimony published",
    };
    let mut grid = Grid::new(&["goal", "seen [95%]", "wanted", "reached", published]);
    for goal in goals {
        grid.row(goal.cells());
    }
    shown(&grid, style)
}

fn titled(title: &str, grid: &Grid, style: Style) -> String {
    let level = if style == Style::Markdown { "### " } else { "" };
    format!("{level}{title}\n\n{}", shown(grid, style))
}

fn shown(grid: &Grid, style: Style) -> String {
    match style {
        Style::Aligned => grid.aligned(),
        Style::Markdown => grid.markdown(),
    }
}

fn control(table: &Table) -> String {
    match &table.control {
        None => match table.rows.iter().take(2).find(|row| !row.series.failed.is_empty()) {
            // The failed row is the baseline of the others.
            Some(row) => format!("NOISY: no control: {} itself failed\n", row.series.name),
            None if table.rows.get(1).is_some_and(|row| row.series.is_again()) => {
                "NOISY: no control: no round was completed\n".to_owned()
            }
            // This table has no A/A control.
            None => String::new(),
        },
        Some(control) => {
            let itself = table.rows.first().map_or("plain", |row| row.series.name.as_str());
            let seen = format!("{itself} against itself {}", ratio(&control.ratio));
            match &control.noisy {
                None => format!("quiet: {seen}\n"),
                Some(why) => format!(
                    "NOISY: {seen}: {why}\nhint: close other programs, use the performance governor, or measure longer: --runs {}\n",
                    table.rounds.saturating_mul(4)
                ),
            }
        }
    }
}

fn isolation(report: &Report) -> Vec<String> {
    let rows = report.tables.first().map(|table| table.rows.as_slice()).unwrap_or_default();
    rows.iter()
        .filter(|row| !row.series.isolation.is_empty())
        .map(|row| format!("{}: {}", row.series.name, row.series.isolation.join(", ")))
        .collect()
}

fn memory(bytes: u64, floor: u64) -> String {
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    if bytes <= floor { format!("<{:.1}", mebibytes(floor)) } else { format!("{:.1}", mebibytes(bytes)) }
}

/// Three significant digits for small values, one decimal for large ones.
pub(crate) fn ms(seconds: f64) -> String {
    let value = seconds * 1e3;
    if value.abs() < 10.0 {
        format!("{value:.3}")
    } else if value.abs() < 100.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.1}")
    }
}

pub(crate) fn milliseconds(estimate: &Estimate) -> String {
    estimate.words(ms, ms)
}

pub(crate) fn ratio(estimate: &Estimate) -> String {
    let three = |value: f64| format!("{value:.3}");
    estimate.words(three, three)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Missing;
    use crate::summary::{Control, tests};

    fn report() -> Report {
        let missing = vec![Missing { name: "crun".into(), how: "apt install crun".into() }];
        Report { missing, ..Report::of("launch", vec![tests::table()]) }
    }

    fn environment() -> Environment {
        Environment {
            date: "2026-01-01T00:00:00Z".into(),
            cpu: "X".into(),
            memory_floor_byte: 3 << 20,
            ..Environment::default()
        }
    }

    #[test]
    fn a_failed_row_never_shows_a_time() {
        let text = render(&report(), &environment(), 7, Style::Aligned);
        let flaky = text.lines().find(|line| line.starts_with("flaky")).unwrap();
        assert!(flaky.ends_with("invalid: 1 of 50 rounds failed: exit code 3: no"), "{flaky}");
        assert!(!flaky.contains("0.500"), "{flaky}");
        let liar = text.lines().find(|line| line.starts_with("liar")).unwrap();
        assert!(liar.ends_with("failed: it was not run"), "{liar}");
    }

    #[test]
    fn says_what_was_seen_and_what_is_missing() {
        let text = render(&report(), &environment(), 7, Style::Aligned);
        for part in [
            "seed 7",
            "launch: true, 50 rounds",
            "quiet: plain against itself",
            "flaky: seccomp",
            "crun: apt install crun",
            "<3.0",
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
    }

    #[test]
    fn a_noisy_table_says_what_to_do() {
        let mut report = report();
        report.tables[0].control =
            Some(Control::judge(Estimate { median: 1.2, low: 1.1, high: 1.3, single: false }, &[1.2; 9]));
        let text = render(&report, &environment(), 7, Style::Markdown);
        assert!(text.contains("NOISY") && text.contains("--runs 200"), "{text}");
        assert!(text.contains("### launch: true"), "{text}");
    }
}
