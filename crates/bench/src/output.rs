// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where results go: to standard output at the end, and to files, which hold what was measured so far from the first table on. A run that
//! is interrupted, in whatever way, loses only what it was measuring.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::options::Measure;
use crate::report;
use crate::report::text::Style;
use crate::summary::Report;

/// Results that can't be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error("can't write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("can't write to standard output")]
    Print { source: io::Error },
    #[error("can't write the results as JSON")]
    Json { source: serde_json::Error },
}

/// In what form.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Text(Style),
    Json,
    Svg,
}

impl Format {
    /// By the ending of a file's name.
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("json") => Self::Json,
            Some("md") => Self::Text(Style::Markdown),
            Some("svg") => Self::Svg,
            _ => Self::Text(Style::Aligned),
        }
    }

    /// That of standard output.
    pub(crate) fn printed(options: &Measure) -> Self {
        if options.json { Self::Json } else { Self::Text(options.style()) }
    }
}

/// How the results of one run are written.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// What `--output` and `--svg` name.
    files: Vec<(PathBuf, Format)>,
    /// What `--save` keeps, once it is complete; the name until then.
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

    /// True if anything is written beside standard output.
    pub(crate) fn has_files(&self) -> bool {
        !self.files.is_empty() || self.history.is_some()
    }

    /// Writes the files: each is complete at any time, the old one or the new one.
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

    /// The report in one form.
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

/// Puts a file with this text in the place of what may be there, at once: who is killed meanwhile leaves the old one.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), OutputError> {
    let error = |source| OutputError::Write { path: path.to_owned(), source };
    // What is there and no file, such as /dev/stdout, can't be replaced.
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

/// Prints.
pub(crate) fn print(text: &str) -> Result<(), OutputError> {
    match io::stdout().write_all(text.as_bytes()) {
        // `palisade-bench list | head -1` is no error.
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
