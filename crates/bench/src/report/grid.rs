// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A grid of cells, aligned for a terminal or written as Markdown.

/// A table: the first column is aligned left, the others right.
#[derive(Debug)]
pub(crate) struct Grid {
    header: Vec<String>,
    rows: Vec<Line>,
}

#[derive(Debug)]
enum Line {
    Cells(Vec<String>),
    /// A name, and a text across all columns.
    Remark(String, String),
}

impl Grid {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { header: header.iter().map(|&cell| cell.to_owned()).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(Line::Cells(cells));
    }

    pub(crate) fn remark(&mut self, name: &str, words: String) {
        self.rows.push(Line::Remark(name.to_owned(), words));
    }

    /// The table aligned with spaces.
    pub(crate) fn aligned(&self) -> String {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| width(cell)).collect();
        for row in &self.rows {
            match row {
                Line::Cells(cells) => {
                    for (widest, cell) in widths.iter_mut().zip(cells) {
                        *widest = (*widest).max(width(cell));
                    }
                }
                Line::Remark(name, _) => widths[0] = widths[0].max(width(name)),
            }
        }
        let line = |cells: &[String]| {
            let padded: Vec<String> = cells
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &widest))| {
                    let space = " ".repeat(widest.saturating_sub(width(cell)));
                    if column == 0 { format!("{cell}{space}") } else { format!("{space}{cell}") }
                })
                .collect();
            padded.join("  ").trim_end().to_owned() + "\n"
        };
        let mut text = line(&self.header);
        for row in &self.rows {
            match row {
                Line::Cells(cells) => text += &line(cells),
                Line::Remark(name, words) => {
                    let space = " ".repeat(widths[0].saturating_sub(width(name)));
                    text += &format!("{name}{space}  {words}\n");
                }
            }
        }
        text
    }

    /// The table in Markdown.
    pub(crate) fn markdown(&self) -> String {
        let escape = |cell: &str| {
            cell.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
        };
        let line = |cells: &[String]| {
            format!("| {} |\n", cells.iter().map(|cell| escape(cell)).collect::<Vec<_>>().join(" | "))
        };
        let mut text = line(&self.header);
        text += &format!("|:---|{}\n", "---:|".repeat(self.header.len() - 1));
        for row in &self.rows {
            match row {
                Line::Cells(cells) => text += &line(cells),
                Line::Remark(name, words) => {
                    let mut cells = vec![name.clone(), words.clone()];
                    cells.resize(self.header.len(), String::new());
                    text += &line(&cells);
                }
            }
        }
        text
    }
}

/// The width in terminal columns. Names may come from the user; East Asian wide characters count as one and only misalign.
fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let mut grid = Grid::new(&["name", "ms", "× plain"]);
        grid.row(vec!["plain".into(), "0.9".into(), String::new()]);
        grid.row(vec!["a|b".into(), "10.25".into(), "11.4".into()]);
        grid.remark("a long name", "failed: no".into());
        grid
    }

    #[test]
    fn aligns() {
        let expected = "\
name            ms  × plain
plain          0.9
a|b          10.25     11.4
a long name  failed: no
";
        assert_eq!(grid().aligned(), expected);
    }

    #[test]
    fn writes_markdown() {
        let expected = "\
| name | ms | × plain |
|:---|---:|---:|
| plain | 0.9 |  |
| a\\|b | 10.25 | 11.4 |
| a long name | failed: no |  |
";
        assert_eq!(grid().markdown(), expected);
    }
}
