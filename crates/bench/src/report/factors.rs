// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The overhead factors of all workloads, by category, in one table.

use crate::report::grid::Grid;
use crate::summary::{Report, Row, Table};

/// A line for each workload that has a category, and a column for each contender except the baselines. `None` if there are no
/// lines.
pub(crate) fn factors(report: &Report) -> Option<Grid> {
    let tables: Vec<&Table> = report.tables.iter().filter(|table| table.category.is_some()).collect();
    let mut names: Vec<&str> = Vec::new();
    for row in tables.iter().flat_map(|table| table.rows.iter().skip(2)) {
        if !names.contains(&row.series.name.as_str()) {
            names.push(&row.series.name);
        }
    }
    if names.is_empty() {
        return None;
    }
    let head: Vec<&str> =
        ["category", "workload", "plain"].into_iter().chain(names.iter().copied()).collect();
    let mut grid = Grid::new(&head);
    for table in tables {
        let plain = table.rows.first().and_then(|row| row.figures.as_ref());
        let mut cells = vec![
            table.category.unwrap_or_default().to_owned(),
            table.workload.clone(),
            plain
                .map(|figures| {
                    let plain = crate::report::text::ms(table.scale.of(figures.wall.median));
                    format!("{plain} {}", table.scale.name())
                })
                .unwrap_or_default(),
        ];
        cells.extend(names.iter().map(|name| {
            let row = table.rows.iter().find(|row| row.series.name == *name);
            row.map_or_else(|| "–".to_owned(), factor)
        }));
        grid.row(cells);
    }
    Some(grid)
}

fn factor(row: &Row) -> String {
    let ratio = row.figures.as_ref().and_then(|figures| figures.ratio);
    ratio.map_or_else(|| "failed".to_owned(), |ratio| format!("{:.2}×", ratio.median))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::table;

    fn report(category: Option<&'static str>) -> Report {
        let table = Table { category, ..table() };
        Report::of("agents", vec![table])
    }

    #[test]
    fn factors_stand_side_by_side_and_failures_have_none() {
        let text = factors(&report(Some("Spawn-only"))).unwrap().aligned();
        let line = text.lines().find(|line| line.starts_with("Spawn-only")).unwrap();
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells[1..], ["true", "1.003", "ms", "4.49×", "failed", "failed"], "{text}");
    }

    #[test]
    fn without_categories_there_is_no_such_table() {
        assert!(factors(&report(None)).is_none());
    }
}
