// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws bars as SVG: one panel per workload, medians with their p10–p90 range. A failed row is never drawn as a bar.

use std::fmt::Write;

use crate::environment::Environment;
use crate::report::text::ms;
use crate::summary::{Report, Row, Scale as Shown, Table};

const ROW: f64 = 26.0;
const BAR: f64 = 15.0;
const MARGIN: f64 = 24.0;
const BARS: f64 = 440.0;
const VALUES: f64 = 190.0;
const TITLE: f64 = 64.0;
const PANEL_TITLE: f64 = 34.0;
const AXIS: f64 = 26.0;
const PANEL_GAP: f64 = 18.0;
/// A generous mean width of a 13 px sans-serif letter: the reader's font is unknown.
const LETTER: f64 = 7.4;
const LONGEST_NAME: usize = 36;
/// Above this ratio of the longest bar to the shortest one, a linear scale would show only the longest.
const LINEAR_UP_TO: f64 = 25.0;

/// The whole report as one drawing.
pub(crate) fn render(report: &Report, environment: &Environment) -> String {
    let names = report
        .tables
        .iter()
        .flat_map(|table| table.rows.iter().map(|row| shorten(&row.series.name).chars().count()));
    let labels = names.max().unwrap_or(0) as f64 * LETTER;
    let left = MARGIN + labels + 10.0;
    let width = left + BARS + VALUES + MARGIN;
    let height = TITLE + report.tables.iter().map(panel_height).sum::<f64>() + MARGIN;
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}" font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="13">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="{MARGIN}" y="30" font-size="17" font-weight="600" fill="#1f2430">palisade-bench {}: wall time</text>
<text x="{MARGIN}" y="49" font-size="11" fill="#6b7280">{}</text>"##,
        escape(report.suite),
        escape(&fitting(&subtitle(environment), width - 2.0 * MARGIN)),
    );
    let mut top = TITLE;
    for table in &report.tables {
        panel(&mut svg, table, left, top);
        top += panel_height(table);
    }
    svg.push_str("</svg>\n");
    svg
}

fn subtitle(environment: &Environment) -> String {
    format!(
        "{}, {} cores, Linux {}, {} · bar: median, line: p10–p90",
        environment.cpu,
        environment.cores,
        environment.kernel,
        environment.date.split('T').next().unwrap_or("")
    )
}

fn panel_height(table: &Table) -> f64 {
    PANEL_TITLE + table.rows.len() as f64 * ROW + AXIS + PANEL_GAP
}

/// Maps a time to its place on the axis, from 0 to 1.
struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    fn of(table: &Table) -> Self {
        let figures = || table.rows.iter().filter_map(|row| row.figures.as_ref());
        let high = figures().map(|figures| figures.p90.max(figures.wall.median)).fold(0.0, f64::max);
        let low = figures().map(|figures| figures.wall.median).fold(f64::INFINITY, f64::min);
        if high <= 0.0 || low <= 0.0 {
            return Self { low: 0.0, high: 1e-3, logarithmic: false };
        }
        if high / low <= LINEAR_UP_TO {
            return Self { low: 0.0, high: high * 1.02, logarithmic: false };
        }
        // The axis begins at half of the fastest time, so that its bar has a length.
        Self { low: low / 2.0, high: high * 1.1, logarithmic: true }
    }

    fn position(&self, value: f64) -> f64 {
        let position = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        position.clamp(0.0, 1.0)
    }

    /// Round values with enough space for their labels.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let mut ticks = Vec::new();
            let mut decade = 10_f64.powf(self.low.log10().floor());
            while decade <= self.high {
                ticks.extend(
                    [1.0, 3.0]
                        .iter()
                        .map(|step| step * decade)
                        .filter(|&tick| tick >= self.low && tick <= self.high),
                );
                decade *= 10.0;
            }
            return ticks;
        }
        let rough = self.high / 5.0;
        let magnitude = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .iter()
            .map(|factor| factor * magnitude)
            .find(|&step| step >= rough)
            .unwrap_or(rough);
        let mut ticks = vec![0.0];
        while let Some(&last) = ticks.last()
            && last + step <= self.high
        {
            ticks.push(last + step);
        }
        ticks
    }
}

fn panel(svg: &mut String, table: &Table, left: f64, top: f64) {
    let scale = Scale::of(table);
    let first = top + PANEL_TITLE;
    let bottom = first + table.rows.len() as f64 * ROW;
    let mut title = table.workload.clone();
    if table.burst > 1 {
        let _ = write!(title, ", {} back to back", table.burst);
    }
    if scale.logarithmic {
        title += " (logarithmic)";
    }
    if table.control.as_ref().is_none_or(|control| control.noisy.is_some()) {
        title += " · NOISY";
    }
    let _ = writeln!(
        svg,
        r##"<text x="{MARGIN}" y="{:.1}" font-weight="600" fill="#1f2430">{}</text>"##,
        top + 20.0,
        escape(&title)
    );
    for tick in scale.ticks() {
        let x = left + scale.position(tick) * BARS;
        let _ = writeln!(
            svg,
            r##"<line x1="{x:.1}" x2="{x:.1}" y1="{first:.1}" y2="{bottom:.1}" stroke="#e5e7eb"/>
<text x="{x:.1}" y="{:.1}" font-size="11" text-anchor="middle" fill="#6b7280">{}</text>"##,
            bottom + 15.0,
            tick_label(table.scale.of(tick)),
        );
    }
    let _ = writeln!(
        svg,
        r##"<text x="{:.1}" y="{:.1}" font-size="11" fill="#6b7280">{}</text>"##,
        left + BARS + 22.0,
        bottom + 15.0,
        table.scale.name()
    );
    for (index, row) in table.rows.iter().enumerate() {
        draw_row(svg, row, &scale, table.scale, left, first + index as f64 * ROW);
    }
}

fn draw_row(svg: &mut String, row: &Row, scale: &Scale, shown: Shown, left: f64, top: f64) {
    let middle = top + ROW / 2.0;
    let baseline = middle + 4.5;
    let _ = writeln!(
        svg,
        r##"<text x="{:.1}" y="{baseline:.1}" text-anchor="end" fill="#1f2430">{}</text>"##,
        left - 10.0,
        escape(&shorten(&row.series.name))
    );
    let Some(figures) = &row.figures else {
        let what = if row.series.failed_at_start { "failed" } else { "invalid: some runs failed" };
        let _ = writeln!(
            svg,
            r##"<text x="{:.1}" y="{baseline:.1}" font-style="italic" fill="#b91c1c">{what}</text>"##,
            left + 8.0
        );
        return;
    };
    let end = scale.position(figures.wall.median) * BARS;
    let (low, high) = (left + scale.position(figures.p10) * BARS, left + scale.position(figures.p90) * BARS);
    let _ = writeln!(
        svg,
        r##"<rect x="{left:.1}" y="{:.1}" width="{:.1}" height="{BAR}" rx="2" fill="{}"/>
<line x1="{low:.1}" x2="{high:.1}" y1="{middle:.1}" y2="{middle:.1}" stroke="#1f2430" stroke-width="1.2"/>"##,
        middle - BAR / 2.0,
        end.max(1.0),
        colour(&row.series.name),
    );
    let mut label = format!("{} {}", ms(shown.of(figures.wall.median)), shown.name());
    if let Some(ratio) = &figures.ratio {
        let _ = write!(label, " · {:.2}×", ratio.median);
    }
    // To the right of the bar or of the range's line, whichever ends later.
    let x = (left + end).max(high) + 8.0;
    let _ = writeln!(svg, r##"<text x="{x:.1}" y="{baseline:.1}" fill="#1f2430">{label}</text>"##);
}

fn colour(name: &str) -> &'static str {
    if name.starts_with("palisade") {
        "#2563eb"
    } else if name.starts_with("plain") || name.starts_with("off") {
        "#9ca3af"
    } else {
        "#f0a35e"
    }
}

fn tick_label(seconds: f64) -> String {
    let value = seconds * 1e3;
    // Ticks are multiples of 1, 2, 3 or 5 of a power of ten. Below 1 ms they need two decimals; zeros at the end are removed.
    let text = if value < 1.0 { format!("{value:.2}") } else { format!("{value:.1}") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn shorten(name: &str) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name.to_owned();
    }
    name.chars().take(LONGEST_NAME - 1).chain(['…']).collect()
}

/// The part of an 11 px text that fits.
fn fitting(text: &str, width: f64) -> String {
    let room = (width / (LETTER * 11.0 / 13.0)).max(1.0);
    if (text.chars().count() as f64) <= room {
        return text.to_owned();
    }
    let mut length = 0.0;
    let mut cut: String = text
        .chars()
        .take_while(|_| {
            length += 1.0;
            length < room
        })
        .collect();
    cut.push('…');
    cut
}

fn escape(text: &str) -> String {
    text.chars()
        // XML doesn't allow control characters, not even escaped ones.
        .filter(|character| !character.is_control())
        .map(|character| match character {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            other => other.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::summary::tests::{series, table};

    #[test]
    fn draws_a_bar_for_each_valid_row_only() {
        let report = Report::of("launch", vec![table()]);
        let svg = render(&report, &Environment::default());
        assert_eq!(svg.matches("rx=\"2\"").count(), 3);
        assert!(svg.contains(">failed<") && svg.contains("some runs failed"), "{svg}");
    }

    #[test]
    fn foreign_names_are_escaped() {
        let table =
            Table::summarise("a<b", 2, 1, vec![series("x & \"y\"\u{1b}", &[1.0, 1.0])], &mut Random::new(1));
        let svg = render(&Report::of("launch", vec![table]), &Environment::default());
        assert!(svg.contains("x &amp; &quot;y&quot;<") && svg.contains("a&lt;b"), "{svg}");
    }

    #[test]
    fn a_wide_range_becomes_logarithmic() {
        let rows = vec![series("a", &[0.001]), series("b", &[0.5])];
        let scale = Scale::of(&Table::summarise("x", 1, 1, rows, &mut Random::new(1)));
        assert!(scale.logarithmic);
        let ticks: Vec<String> = scale.ticks().into_iter().map(tick_label).collect();
        assert_eq!(ticks, ["1", "3", "10", "30", "100", "300"]);
        assert!(scale.position(0.001) > 0.0 && scale.position(0.5) < 1.0);
    }

    #[test]
    fn ticks_are_round() {
        let scale = Scale { low: 0.0, high: 0.0056, logarithmic: false };
        assert_eq!(scale.ticks().into_iter().map(tick_label).collect::<Vec<_>>(), ["0", "2", "4"]);
    }
}
