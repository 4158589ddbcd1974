// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a host's fapolicyd.conf and translates it to Palisade's settings.
//!
//! [`Fapolicyd`] has every option of versions 1.1.7 and 2.0.1 (fapolicyd.conf(5)). Some lines are an error here, with a
//! hint, so that the administrator reviews them once: lines that fapolicyd would ignore, lines that it reads
//! differently from how they look, and lines that it warns about. [`toml`] renders the rest as a `[guard]` table.
//!
//! Names and values are accepted in any case, and with or without blanks around the equal sign, as the manual says
//! (fapolicyd itself accepts neither). The last line needs no line end.

mod option;
pub mod toml;

use palisade_text::Show as _;
use std::path::{Path, PathBuf};

/// A fapolicyd.conf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fapolicyd {
    /// Allow everything, and log what would have been denied.
    pub permissive: bool,
    /// How far its scheduling priority is raised, 0 to 20.
    pub nice_val: u32,
    /// How many events can wait.
    pub q_size: u32,
    /// How many threads decide (version 2).
    pub decision_threads: u32,
    /// The account that it changes to, by name or number.
    pub uid: String,
    /// The group that it changes to, by name or number.
    pub gid: String,
    /// Does its report name files and programs?
    pub detailed_report: bool,
    /// How large its trust database can get.
    pub db_max_size: DatabaseSize,
    /// How many processes it remembers.
    pub subj_cache_size: u32,
    /// How many files it remembers.
    pub obj_cache_size: u32,
    /// Does it write a report when it ends (1), and when it is asked to (2)?
    pub do_stat_report: u32,
    /// Types of file systems that are watched.
    pub watch_fs: Vec<String>,
    /// Mount points that aren't watched (version 2).
    pub ignore_mounts: Vec<PathBuf>,
    /// The sources of trust.
    pub trust: Vec<TrustSource>,
    /// What must match for a file to count as the trusted one.
    pub integrity: Integrity,
    /// The fields of a logged decision, in order.
    pub syslog_format: Vec<String>,
    /// Only SHA-256 or better counts (1.1.7: for rpm's digests).
    pub rpm_sha256_only: bool,
    /// Whole file systems are watched, however they are mounted.
    pub allow_filesystem_mark: bool,
    /// Seconds between reports, 0 for none (version 2).
    pub report_interval: u32,
    /// When counters start from zero again (version 2).
    pub reset_strategy: ResetStrategy,
    /// Can decisions be timed (version 2)?
    pub timing_collection: bool,
    /// The options that the file has, in its order.
    pub given: Vec<&'static str>,
}

impl Default for Fapolicyd {
    /// The values that fapolicyd 2.0.1 uses for options that a file doesn't have.
    fn default() -> Self {
        Self {
            permissive: false,
            nice_val: 10,
            q_size: 800,
            decision_threads: 1,
            uid: "0".to_owned(),
            gid: "0".to_owned(),
            detailed_report: true,
            db_max_size: DatabaseSize::Automatic,
            subj_cache_size: 4099,
            obj_cache_size: 8191,
            do_stat_report: 1,
            watch_fs: ["ext4", "xfs", "tmpfs"].map(str::to_owned).to_vec(),
            ignore_mounts: Vec::new(),
            trust: vec![TrustSource::Rpm, TrustSource::File],
            integrity: Integrity::None,
            syslog_format: "rule,dec,perm,auid,pid,exe,:,path,ftype".split(',').map(str::to_owned).collect(),
            rpm_sha256_only: false,
            allow_filesystem_mark: false,
            report_interval: 0,
            reset_strategy: ResetStrategy::Never,
            timing_collection: false,
            given: Vec::new(),
        }
    }
}

impl Fapolicyd {
    /// Reads a file's text.
    ///
    /// # Errors
    ///
    /// The first line that can't be accepted, and why.
    pub fn parse(text: &str) -> Result<Self, ImportError> {
        let mut config = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            option::take(&mut config, line).map_err(|wrong| ImportError { line: index + 1, wrong })?;
        }
        if config.allow_filesystem_mark && !config.ignore_mounts.is_empty() {
            return Err(ImportError { line: text.lines().count(), wrong: Wrong::MarksAndMounts });
        }
        Ok(config)
    }

    /// Does the file have this option?
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }
}

/// `db_max_size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseSize {
    /// `auto` (version 2).
    Automatic,
    /// So many megabytes.
    Megabytes(u32),
}

/// `trust`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustSource {
    /// `rpmdb`
    Rpm,
    /// `debdb`
    Deb,
    /// `file`: fapolicyd.trust and trust.d
    File,
}

/// `integrity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrity {
    /// Nothing but the path.
    None,
    /// The size.
    Size,
    /// The hash that the kernel keeps with the file.
    Ima,
    /// The hash of its content.
    Sha256,
}

/// `reset_strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetStrategy {
    /// Counters only grow.
    Never,
    /// After each report that is written because time has passed.
    Auto,
    /// On request.
    Manual,
}

/// A line that can't be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {wrong}")]
pub struct ImportError {
    /// From 1.
    pub line: usize,
    /// What is wrong with it.
    pub wrong: Wrong,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// There is no equal sign.
    #[error("`{0}` has no value\nhint: write `{0} = VALUE`")]
    NoValue(String),
    /// No such option.
    #[error("there is no option `{name}` in fapolicyd 1.1.7 or 2.0.1{hint}")]
    Unknown {
        /// The name in the file.
        name: String,
        /// What the administrator may have meant.
        hint: String,
    },
    /// The option is there twice.
    #[error("`{0}` is set a second time\nhint: fapolicyd takes the last one; remove the other")]
    Twice(&'static str),
    /// Not a number, or a number that is too large or too small.
    #[error("`{name} = {value}` is no number from {least} to {most}")]
    Number {
        /// The option.
        name: &'static str,
        /// What it says.
        value: String,
        /// The smallest allowed number.
        least: u32,
        /// The largest allowed number.
        most: u32,
    },
    /// Not one of a few words.
    #[error("`{name}` can't be `{value}`\nhint: it is one of {words}")]
    Word {
        /// The option.
        name: &'static str,
        /// What it says.
        value: String,
        /// The allowed words.
        words: &'static str,
    },
    /// A blank in a value: fapolicyd drops what follows.
    #[error(
        "`{name}` has a blank in its value, and fapolicyd ignores the rest\nhint: write `{name} = {joined}` to keep all of it"
    )]
    Blank {
        /// The option.
        name: &'static str,
        /// The value without blanks.
        joined: String,
    },
    /// A path that isn't absolute.
    #[error("`{}` isn't a mount point's path\nhint: write the absolute path, as in /proc/mounts", .0.shown())]
    Relative(PathBuf),
    /// A format without the colon.
    #[error("`syslog_format` has no `:` between the subject's fields and the object's\nhint: {0},:,path")]
    NoColon(String),
    /// Two options that exclude each other.
    #[error(
        "`ignore_mounts` and `allow_filesystem_mark = 1` exclude each other\nhint: remove one of them; fapolicyd 2 doesn't start with both"
    )]
    MarksAndMounts,
}

/// Is it a mount point's path?
fn absolute(path: &str) -> Result<PathBuf, Wrong> {
    let path = Path::new(path);
    if path.is_absolute() { Ok(path.to_owned()) } else { Err(Wrong::Relative(path.to_owned())) }
}
