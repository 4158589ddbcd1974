// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures large output through a pseudo-terminal: from bash alone and from bash behind the proxy, in turns.

use super::terminal::{Home, Terminal};
use super::{ShellError, series};
use crate::bench::{Bench, BenchError};
use crate::goal::{Bound, Goal, Unit};
use crate::random::Random;
use crate::statistics::estimate;
use crate::summary::Table;
use std::path::Path;
use std::time::{Duration, Instant};

/// The measurement's name.
pub(crate) const NAME: &str = "pty_throughput";
/// It runs only in one round of this many.
pub(crate) const DIVISOR: usize = 5;
/// The size of the output, in bytes.
const SIZE: usize = 32 << 20;
const MEBIBYTE: f64 = 1_048_576.0;
/// No machine takes this long.
const PATIENCE: Duration = Duration::from_secs(120);
/// A line of the output, with colours as tools print them.
const LINE: &[u8] = b"\x1b[1;32mstatus\x1b[0m  a line of a log as compilers and servers write them, with some words more than that\n";
/// The text after the output: before the exit code, and after it.
const END: (&[u8], &[u8]) = (b"end:", b":");

/// The amount of output, and its end.
#[derive(Debug, Default)]
struct Watch {
    count: usize,
    /// The last bytes.
    tail: Vec<u8>,
}

impl Watch {
    /// The end, the prompt after it and the shell's marks fit into this many bytes.
    const TAIL: usize = 1024;

    /// Counts the bytes that arrived. Returns the exit code once it has arrived.
    fn take(&mut self, bytes: &[u8]) -> Option<String> {
        self.count += bytes.len();
        self.tail.extend_from_slice(bytes.get(bytes.len().saturating_sub(Self::TAIL)..).unwrap_or_default());
        let old = self.tail.len().saturating_sub(Self::TAIL);
        self.tail.drain(..old);
        let (before, behind) = END;
        let at = self.tail.windows(before.len()).rposition(|window| window == before)?;
        let rest = self.tail.get(at + before.len()..)?;
        let end = rest.windows(behind.len()).position(|window| window == behind)?;
        Some(String::from_utf8_lossy(rest.get(..end)?).into_owned())
    }
}

impl Terminal {
    /// Prints the text. Returns how long this took, in seconds.
    fn print(&mut self, buffer: &mut [u8], size: usize) -> Result<f64, ShellError> {
        self.keys(b"\x15. ./print");
        self.until(b"print")?;
        self.drain(Duration::from_millis(20));
        let mut watch = Watch::default();
        let begun = Instant::now();
        self.keys(b"\r");
        let end = loop {
            let code = match self.read(buffer) {
                Some(0) => break None,
                Some(count) => watch.take(buffer.get(..count).unwrap_or_default()),
                None => None,
            };
            if let Some(code) = code {
                break Some((begun.elapsed().as_secs_f64(), code));
            }
            if begun.elapsed() > PATIENCE {
                break None;
            }
        };
        let what = self.what.clone();
        let wall = match end {
            Some((_, code)) if code != "0" => return Err(ShellError::Code { what, code }),
            Some((wall, _)) if watch.count >= size => wall,
            _ => return Err(ShellError::Cut { what, seen: watch.count, wanted: size }),
        };
        // The prompt arrived with it, or arrives now.
        self.drain(Duration::from_millis(50));
        Ok(wall)
    }
}

/// The table. `palisade` is the program.
pub(crate) fn measure(bench: &mut Bench, palisade: &Path, rounds: usize) -> Result<Table, BenchError> {
    let home = Home::prepare(palisade)?;
    let lines = SIZE / LINE.len();
    std::fs::write(home.path("text"), LINE.repeat(lines)).map_err(ShellError::Home)?;
    std::fs::write(home.path("print"), "cat text; echo \"end:$?:\"\n").map_err(ShellError::Home)?;
    // Each line end is two bytes on a terminal.
    let size = lines * (LINE.len() + 1);
    let mut terminals = [
        home.alone("bash")?,
        home.alone("bash again (A/A)")?,
        home.proxied("palisade shell", true)?,
        home.proxied("palisade shell, no module", false)?,
        home.relayed()?,
    ];
    let mut walls = [const { Vec::new() }; 5];
    let mut order = [0, 1, 2, 3, 4];
    let mut buffer = vec![0; 256 << 10];
    for round in 0..=rounds {
        bench.random.shuffle(&mut order);
        for &index in &order {
            if bench.is_stopped() {
                let begun = summarise(&terminals, &walls, rounds, &mut bench.random);
                match bench.keep_begun(begun)? {}
            }
            let wall = terminals[index].print(&mut buffer, size)?;
            // The first round fills caches.
            if round > 0 {
                walls[index].push(wall);
            }
        }
    }
    let mut table = summarise(&terminals, &walls, rounds, &mut bench.random);
    let random = &mut bench.random;
    let bytes = u32::try_from(size).map_or(f64::MAX, f64::from);
    for (index, of, words, wanted) in [
        (2, 0, "without it", Some(0.95)),
        (3, 0, "without it", None),
        (4, 0, "without it", None),
        (2, 4, "of a bare relay", None),
    ] {
        // Ratios per round: what the machine does meanwhile affects both.
        let ratios: Vec<f64> = walls[of].iter().zip(&walls[index]).map(|(bare, with)| bare / with).collect();
        table.goals.push(Goal {
            what: format!("{}: throughput, of that {words}", terminals[index].what),
            unit: Unit::Ratio,
            bound: Bound::AtLeast,
            wanted,
            seen: estimate(&ratios, random),
            published: None,
        });
    }
    for index in [0, 2] {
        let rates: Vec<f64> = walls[index].iter().map(|wall| bytes / wall / MEBIBYTE).collect();
        table.goals.push(Goal {
            what: format!("{}: output through its terminal", terminals[index].what),
            unit: Unit::MebibytesPerSecond,
            bound: Bound::AtLeast,
            wanted: None,
            seen: estimate(&rates, random),
            published: None,
        });
    }
    Ok(table)
}

fn summarise(terminals: &[Terminal], walls: &[Vec<f64>], rounds: usize, random: &mut Random) -> Table {
    let rows = terminals.iter().zip(walls).map(|(terminal, walls)| series(&terminal.what, "cat text", walls));
    Table::summarise(NAME, rounds, 1, rows.collect(), random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_found_wherever_it_is_cut() {
        let text = [LINE.repeat(100).as_slice(), b"\r\nend:17:\r\n$ "].concat();
        for cut in 0..text.len() {
            let (first, second) = text.split_at(cut);
            let mut watch = Watch::default();
            let code = watch.take(first).or_else(|| watch.take(second));
            assert_eq!(code.as_deref(), Some("17"), "{cut}");
        }
        let mut watch = Watch::default();
        assert_eq!(watch.take(&LINE.repeat(100)), None);
        assert_eq!(watch.count, LINE.len() * 100);
        assert_eq!(watch.take(b"\r\nend:0"), None);
        assert_eq!(watch.take(b":").as_deref(), Some("0"));
    }
}
