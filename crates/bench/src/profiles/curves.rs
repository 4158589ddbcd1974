// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of more files, of more profiles, and of the cache's file system.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::bed::{Tools, keep};
use super::closure::libraries;
use super::home::Home;
use super::race::{Plans, Reading, Runner};
use super::{ProfilesError, Unready, goals};
use crate::entry::Missing;
use crate::goal::{Bound, Goal, Unit};
use crate::interleave::Series;
use crate::launch::Launcher;
use crate::random::Random;
use crate::statistics::estimate;

/// The numbers of files in a profile.
const FILES: [usize; 9] = [10, 20, 50, 100, 200, 500, 1000, 2000, 3000];
/// The numbers of a user's own profiles.
const PROFILES: [usize; 4] = [1, 10, 100, 500];
/// A directory on a tmpfs on every system.
const MEMORY: &str = "/dev/shm";
/// Beyond this number, each file adds to the target.
const FREE: usize = 200;

/// What the curves are measured with.
#[derive(Debug)]
pub(crate) struct Curves {
    /// The cache on disk and, if there is one, on a tmpfs: for each, one home with kept plans and one without.
    places: Vec<Place>,
    counts: Vec<usize>,
    /// Homes with this many profiles.
    crowds: Vec<(usize, Home)>,
    /// Removed on drop.
    _memory: Option<TempDir>,
}

#[derive(Debug)]
struct Place {
    name: &'static str,
    hot: Home,
    cold: Home,
}

impl Curves {
    /// Writes the profiles and makes the kept plans. What can't be measured is added to `missing`.
    pub(crate) fn prepare(
        tools: &Tools,
        scratch: &Path,
        launcher: &Launcher,
        missing: &mut Vec<Missing>,
    ) -> Result<Self, Unready> {
        let mut lacks = |how: String| missing.push(Missing { name: "curves".to_owned(), how });
        let found = libraries(FILES[FILES.len() - 1]);
        let counts = counts(found.len());
        if counts.len() < FILES.len() {
            lacks(format!("this host has {} libraries: larger closures are left out", found.len()));
        }
        let device = |path: &Path| fs::metadata(path).ok().map(|data| data.dev());
        if device(scratch) != device(Path::new("/usr")) {
            lacks("the working directory is not on the file system of /usr: see --directory".to_owned());
        }
        let memory = on_tmpfs(Path::new(MEMORY))
            .then(|| tempfile::Builder::new().prefix("palisade-bench-").tempdir_in(MEMORY).ok())
            .flatten();
        if memory.is_none() {
            lacks(format!("{MEMORY} is no tmpfs that can be written"));
        }
        let mut places = vec![Place::create("disk", scratch, None)?];
        if let Some(memory) = &memory {
            places.push(Place::create("tmpfs", scratch, Some(memory.path()))?);
        }
        for place in &places {
            for &count in &counts {
                let (name, listed) = (listing_name(count), found.get(..count).unwrap_or_default());
                for home in [&place.hot, &place.cold] {
                    home.profile(&name, &listing(&name, &tools.yes, listed))?;
                }
                keep(launcher, tools, &place.hot, &name)?;
            }
        }
        let mut crowds = Vec::new();
        for count in PROFILES {
            let home = Home::create(scratch.join(format!("crowd-{count}")), None)?;
            for number in 0..count {
                let name = crowd_name(number);
                home.profile(&name, &listing(&name, &tools.yes, &[]))?;
            }
            keep(launcher, tools, &home, &crowd_name(0))?;
            crowds.push((count, home));
        }
        Ok(Self { places, counts, crowds, _memory: memory })
    }

    fn baselines(&self, tools: &Tools) -> Vec<Runner<'_>> {
        self.places.first().map(|place| tools.baselines(&place.hot).into()).unwrap_or_default()
    }

    /// Launches from kept plans.
    pub(crate) fn hot_rows(&self, tools: &Tools) -> Vec<Runner<'_>> {
        let mut rows = self.baselines(tools);
        for place in &self.places {
            for &count in &self.counts {
                rows.push(Runner {
                    name: row(count, place.name),
                    invocations: vec![tools.palisade(&place.hot, &["open", "--quiet", &listing_name(count)])],
                    plans: Plans::Used(&place.hot),
                    reading: Reading::Wall,
                    peer: false,
                });
            }
        }
        rows
    }

    /// Plans without a kept plan.
    pub(crate) fn cold_rows(&self, tools: &Tools) -> Vec<Runner<'_>> {
        let mut rows = self.baselines(tools);
        for place in &self.places {
            for &count in &self.counts {
                let words = ["profile", "refresh", "--dry-run", "--json", &listing_name(count)];
                rows.push(Runner {
                    name: row(count, place.name),
                    invocations: vec![tools.palisade(&place.cold, &words)],
                    plans: Plans::None(&place.cold),
                    reading: Reading::Refresh,
                    peer: false,
                });
            }
        }
        rows
    }

    /// Launches from kept plans with this many profiles in the home.
    pub(crate) fn crowd_rows(&self, tools: &Tools) -> Vec<Runner<'_>> {
        let mut rows = self.baselines(tools);
        rows.extend(self.crowds.iter().map(|(count, home)| Runner {
            name: format!("{count} profiles"),
            invocations: vec![tools.palisade(home, &["open", "--quiet", &crowd_name(0)])],
            plans: Plans::Used(home),
            reading: Reading::Wall,
            peer: false,
        }));
        rows
    }

    /// What a thousand files add to a launch, beyond the first 200 files.
    pub(crate) fn slope(&self, series: &[&Series], random: &mut Random) -> Option<Goal> {
        let most = self.counts.last().copied().filter(|&most| most > FREE)?;
        let of = |count| {
            let name = row(count, "disk");
            series.iter().find(|series| series.name == name && series.valid())
        };
        let seen = of(FREE)
            .zip(of(most))
            .and_then(|(few, many)| estimate(&many.paired(few, |b, a| per_thousand(b - a, most)), random));
        Some(Goal {
            what: format!("each 1,000 files beyond {FREE}, up to {most}"),
            unit: Unit::Seconds,
            bound: Bound::AtMost,
            wanted: Some(goals::PER_FILE * 1000.0),
            seen,
            published: None,
        })
    }
}

impl Place {
    fn create(name: &'static str, scratch: &Path, cache: Option<&Path>) -> Result<Self, ProfilesError> {
        let home = |sort: &str| {
            let own = cache.map(|cache| cache.join(sort));
            Home::create(scratch.join(format!("curve-{name}-{sort}")), own)
        };
        Ok(Self { name, hot: home("hot")?, cold: home("cold")? })
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most 3,000 files")]
fn per_thousand(difference: f64, files: usize) -> f64 {
    difference * 1000.0 / (files - FREE) as f64
}

/// The points of the curve that are possible with this many libraries.
fn counts(found: usize) -> Vec<usize> {
    FILES.iter().copied().filter(|&count| count <= found).collect()
}

fn on_tmpfs(path: &Path) -> bool {
    /// `TMPFS_MAGIC`, linux/magic.h.
    const TMPFS: u64 = 0x0102_1994;
    rustix::fs::statfs(path).is_ok_and(|data| u64::try_from(data.f_type).is_ok_and(|kind| kind == TMPFS))
}

fn row(count: usize, place: &str) -> String {
    format!("{count} files, cache on {place}")
}

fn listing_name(count: usize) -> String {
    format!("bench-files-{count}")
}

fn crowd_name(number: usize) -> String {
    format!("bench-crowd-{number}")
}

/// A profile that lists these files. Their paths need no quoting: see [`libraries`].
fn listing(name: &str, program: &Path, files: &[PathBuf]) -> String {
    let mut text = format!(
        "schema = 1\nname = \"{name}\"\n\n[program]\npath = \"{}\"\n\n[closure]\nlibraries = [\n",
        program.display()
    );
    for file in files {
        // Writing to a string can't fail.
        let _ = writeln!(text, "    \"{}\",", file.display());
    }
    text + "]\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_points_as_the_host_has_libraries_for() {
        assert!(counts(0).is_empty());
        assert_eq!(counts(120), [10, 20, 50, 100]);
        assert_eq!(counts(5000), FILES);
    }

    #[test]
    fn files_are_counted_beyond_the_first() {
        assert!((per_thousand(0.007, 3000) - 0.0025).abs() < 1e-9);
    }

    #[test]
    fn a_listing_is_a_profile() {
        let text = listing("x", Path::new("/bin/true"), &["/usr/lib/a.so".into(), "/usr/lib/b.so".into()]);
        assert!(
            text.ends_with("libraries = [\n    \"/usr/lib/a.so\",\n    \"/usr/lib/b.so\",\n]\n"),
            "{text}"
        );
    }

    #[test]
    fn proc_is_no_tmpfs() {
        assert!(!on_tmpfs(Path::new("/proc")));
    }
}
