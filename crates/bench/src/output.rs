// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes results: to standard output at the end, and to files, which hold the results so far from the first table on. An
//! interrupted run loses only the measurement in progress.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::options::Measure;
use crate::report;
use crate::report::text::Style;
use crate::summary::Report;

/// Why results can't be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error("can't write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("can't write to standard output")]
    Print { source: io::Error },
    #[error("can't write the results as JSON")]
    Json { source: serde_json::Error },
}

/// The format of results.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Text(Style),
    Json,
    Svg,
}

impl Format {
    /// The format for a file name's ending.
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("json") => Self::Json,
            Some("md") => Self::Text(Style::Markdown),
            Some("svg") => Self::Svg,
            _ => Self::Text(Style::Aligned),
        }
    }

    /// The format of standard output.
    pub(crate) fn printed(options: &Measure) -> Self {
        if options.json { Self::Json } else { Self::Text(options.style()) }
    }
}

/// Where the results of one run are written.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// The files of `--output` and `--svg`.
    files: Vec<(PathBuf, Format)>,
    /// The file that `--save` keeps when it is complete, and its name until then.
    history: Option<(PathBuf, PathBuf)>,
    seed: u64,
    gap_milliseconds: u64,
}

impl Output {
    pub(crate) fn new(options: &Measure, suite: &str, seed: u64, environment: &Environment) -> Self {
        let named = options.output.iter().map(|path| (path.clone(), Format::of(path)));
        let drawn = options.svg.iter().map(|path| (path.clone(), Format::Svg));
        let history = options.save().then(|| {
            let name = format!("{suite}-{}", environment.date.replace(':', ""));
            let directory = Path::new("bench/history");
            let at = |ending: &str| directory.join(format!("{name}{ending}"));
            (at(".json"), at("-interrupted.json"))
        });
        Self { files: named.chain(drawn).collect(), history, seed, gap_milliseconds: options.gap }
    }

    /// Whether anything is written to files.
    pub(crate) fn has_files(&self) -> bool {
        !self.files.is_empty() || self.history.is_some()
    }

    /// Writes the files. At any time each file is complete: the old one or the new one.
    pub(crate) fn write(&self, report: &Report, environment: &Environment) -> Result<(), OutputError> {
        for (path, format) in &self.files {
            replace(path, &self.rendered(report, environment, *format)?)?;
        }
        let Some((complete, interrupted)) = &self.history else { return Ok(()) };
        if let Some(directory) = complete.parent() {
            fs::create_dir_all(directory)
                .map_err(|source| OutputError::Write { path: directory.to_owned(), source })?;
        }
        let path = if report.interrupted { interrupted } else { complete };
        replace(path, &self.rendered(report, environment, Format::Json)?)?;
        if report.interrupted {
            return Ok(());
        }
        match fs::remove_file(interrupted) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(OutputError::Write { path: interrupted.clone(), source })
            }
            _ => Ok(()),
        }
    }

    /// The report in one format.
    pub(crate) fn rendered(
        &self,
        report: &Report,
        environment: &Environment,
        format: Format,
    ) -> Result<String, OutputError> {
        Ok(match format {
            Format::Text(style) => report::text::render(report, environment, self.seed, style),
            Format::Svg => report::plot::render(report, environment),
            Format::Json => {
                #[expect(clippy::cast_precision_loss, reason = "a gap of 2⁵³ ms would not end")]
                let gap = self.gap_milliseconds as f64;
                let document = report::json::document(report, environment, self.seed, gap);
                serde_json::to_string_pretty(&document).map_err(|source| OutputError::Json { source })? + "\n"
            }
        })
    }
}

/// Replaces a file atomically: if the process is killed meanwhile, the old file stays.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), OutputError> {
    let error = |source| OutputError::Write { path: path.to_owned(), source };
    // A path that isn't a regular file, such as /dev/stdout, can't be replaced.
    if path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
        return fs::write(path, text).map_err(error);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut new = tempfile::Builder::new()
        .prefix(".palisade-bench-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(directory)
        .map_err(error)?;
    new.write_all(text.as_bytes()).map_err(error)?;
    new.persist(path).map_err(|failed| error(failed.error))?;
    Ok(())
}

/// Writes a text to standard output.
pub(crate) fn print(text: &str) -> Result<(), OutputError> {
    match io::stdout().write_all(text.as_bytes()) {
        // A closed pipe is no error: `palisade-bench list | head -1`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|source| OutputError::Print { source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_at_once_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        for text in ["long before", "new"] {
            replace(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        let error = replace(&directory.path().join("absent/a"), "").unwrap_err();
        assert!(error.to_string().contains("absent/a"), "{error}");
        replace(Path::new("/dev/null"), "x").unwrap();
    }
}
