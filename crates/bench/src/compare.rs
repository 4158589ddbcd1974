// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares two result files, of this bench or of hyperfine.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::random::Random;
use crate::report::grid::Grid;
use crate::report::json::{Document, Entry};
use crate::report::text::{Style, ms, ratio};
use crate::statistics::{Estimate, differ, estimate_independent_ratio, median};

/// A full run is a few hundred kilobytes. A file larger than this isn't a result file.
const MAX_FILE: u64 = 256 << 20;

/// Why a file can't be compared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompareError {
    #[error("can't read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is larger than {} MiB", path.display(), MAX_FILE >> 20)]
    TooLarge { path: PathBuf },
    #[error("{} is not a result file", path.display())]
    Parse { path: PathBuf, source: serde_json::Error },
    #[error("{} and {} have no valid row in common", a.display(), b.display())]
    NothingInCommon { a: PathBuf, b: PathBuf },
}

/// The comparison as text.
pub(crate) fn compare(a: &Path, b: &Path, style: Style, random: &mut Random) -> Result<String, CompareError> {
    let (before, after) = (read(a)?, read(b)?);
    let mut grid = Grid::new(&["workload", "name", "A median ms", "B median ms", "B/A [95%]", ""]);
    let mut found = false;
    for old in &before.results {
        let Some(new) = after.results.iter().find(|new| key(new) == key(old)) else {
            continue;
        };
        let (workload, name) = key(old);
        let estimate = if valid(old) && valid(new) {
            estimate_independent_ratio(&new.times, &old.times, random)
        } else {
            None
        };
        match estimate {
            Some(estimate) => {
                found = true;
                let verdict = verdict(&old.times, &new.times, &estimate).to_owned();
                let cells = [middle(old), middle(new), ratio(&estimate), verdict];
                grid.row([workload.to_owned(), name.to_owned()].into_iter().chain(cells).collect());
            }
            None => grid.remark(workload, format!("{name}: not valid in both")),
        }
    }
    if !found {
        return Err(CompareError::NothingInCommon { a: a.to_owned(), b: b.to_owned() });
    }
    let mut text = match style {
        Style::Aligned => grid.aligned(),
        Style::Markdown => grid.markdown(),
    };
    for caution in cautions(&before, &after) {
        text += &format!("\ncaution: {caution}");
    }
    Ok(text.trim_end().to_owned() + "\n")
}

fn read(path: &Path) -> Result<Document, CompareError> {
    let read = |source| CompareError::Read { path: path.to_owned(), source };
    let mut text = String::new();
    let length =
        File::open(path).map_err(read)?.take(MAX_FILE + 1).read_to_string(&mut text).map_err(read)?;
    if length as u64 > MAX_FILE {
        return Err(CompareError::TooLarge { path: path.to_owned() });
    }
    serde_json::from_str(&text).map_err(|source| CompareError::Parse { path: path.to_owned(), source })
}

/// The key by which rows of two files are matched.
fn key(entry: &Entry) -> (&str, &str) {
    entry
        .palisade
        .as_ref()
        .map_or(("", entry.command.as_str()), |details| (details.workload.as_str(), details.name.as_str()))
}

fn valid(entry: &Entry) -> bool {
    entry.palisade.as_ref().is_none_or(|details| details.valid) && entry.median.is_some()
}

fn middle(entry: &Entry) -> String {
    median(&entry.times).map(ms).unwrap_or_default()
}

/// A claim needs more than the 95% interval that is shown: of so many rows, one in twenty would differ by chance.
fn verdict(before: &[f64], after: &[f64], estimate: &Estimate) -> &'static str {
    if !differ(before, after) {
        "no difference shown"
    } else if estimate.median < 1.0 {
        "B is faster"
    } else {
        "B is slower"
    }
}

fn cautions(before: &Document, after: &Document) -> Vec<String> {
    let mut cautions =
        vec!["the files were not measured in the same rounds: a difference may be the machine's".to_owned()];
    let (Some(before), Some(after)) = (&before.palisade, &after.palisade) else {
        return cautions;
    };
    cautions.extend(before.environment.differences(&after.environment));
    for (name, session) in [("A", before), ("B", after)] {
        let noisy = session
            .controls
            .iter()
            .filter(|named| named.control.as_ref().is_none_or(|control| control.noisy.is_some()));
        cautions.extend(noisy.map(|named| format!("{name} was noisy at {}", named.workload)));
    }
    cautions
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn file(directory: &Path, name: &str, times: &[f64]) -> PathBuf {
        let path = directory.join(name);
        let text = format!(r#"{{"results":[{{"command":"x","median":{},"times":{times:?}}}]}}"#, times[0]);
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn tells_faster_from_equal() {
        let directory = tempfile::tempdir().unwrap();
        let slow = file(directory.path(), "a", &[0.002; 20]);
        let fast = file(directory.path(), "b", &[0.001; 20]);
        let compare = |a, b| compare(a, b, Style::Aligned, &mut Random::new(1)).unwrap();
        let text = compare(&slow, &fast);
        assert!(text.contains("0.500 [0.500, 0.500]") && text.contains("B is faster"), "{text}");
        assert!(compare(&fast, &fast).contains("no difference shown"));
    }

    #[test]
    fn nothing_in_common_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let some = file(directory.path(), "a", &[0.002; 3]);
        let none = directory.path().join("none");
        fs::write(&none, r#"{"results":[]}"#).unwrap();
        let error = compare(&some, &none, Style::Aligned, &mut Random::new(1)).unwrap_err();
        assert!(matches!(error, CompareError::NothingInCommon { .. }));
        fs::write(&none, "x").unwrap();
        assert!(matches!(
            compare(&some, &none, Style::Aligned, &mut Random::new(1)),
            Err(CompareError::Parse { .. })
        ));
    }
}
