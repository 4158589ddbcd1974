// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The committed baseline of counts, and the comparison of present counts with it.
//!
//! A count of system calls is exact on a host like the baseline's: with the same architecture, kernel (major and minor
//! version), user, and names at the top of the file tree. On another host, a launch may have other things to mount and
//! another kernel to query; there the sum may be larger by [`ELSEWHERE`]. Instruction counts depend on the build profile and
//! are compared only with counts of the same profile. They may be larger by [`INSTRUCTIONS`], because some instructions
//! belong to waiting, or to lookups in tables whose order is random.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::GateError;
use crate::output;
use crate::summary::Section;

/// By how much the calls may increase on a different kind of host, in thousandths.
pub(crate) const ELSEWHERE: u64 = 30;
/// By how much the instructions may increase, in thousandths.
pub(crate) const INSTRUCTIONS: u64 = 20;

/// The properties of a host that the counts depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Host {
    pub(crate) architecture: String,
    /// The major and minor version.
    pub(crate) kernel: String,
    /// `root` or `ordinary`.
    pub(crate) user: String,
    /// The program's linkage: `static` or `dynamic`.
    pub(crate) linkage: String,
    /// A digest of the names at the top of the file tree, each with its file type.
    pub(crate) layout: String,
}

impl Host {
    fn is_like(&self, other: &Self) -> bool {
        (&self.architecture, &self.user, &self.linkage) == (&other.architecture, &other.user, &other.linkage)
    }

    pub(crate) fn words(&self) -> String {
        format!("a {} program of {} on {}, Linux {}", self.linkage, self.user, self.architecture, self.kernel)
    }
}

/// The counts of one launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Launch {
    pub(crate) host: Host,
    /// The number of system calls, by name.
    pub(crate) calls: BTreeMap<String, u64>,
    /// The number of instructions, by build profile.
    pub(crate) instructions: BTreeMap<String, u64>,
}

/// The baseline file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Baseline {
    pub(crate) schema: u32,
    /// The number of blocks that a thousand keys allocate in the shell's modules.
    pub(crate) allocations_of_1000_keys: u64,
    pub(crate) launches: Vec<Launch>,
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) what: String,
    pub(crate) now: u64,
    pub(crate) before: u64,
    /// The highest number that is allowed.
    pub(crate) allowed: u64,
}

impl Finding {
    pub(crate) const fn is_worse(&self) -> bool {
        self.now > self.before + self.allowed
    }

    fn row(&self) -> Vec<String> {
        let verdict = match () {
            () if self.is_worse() => "MORE",
            () if self.now < self.before => "fewer: worth a --renew",
            () => "ok",
        };
        let more = i128::from(self.now) - i128::from(self.before);
        vec![
            self.what.clone(),
            self.now.to_string(),
            self.before.to_string(),
            format!("{more:+}"),
            format!("+{}", self.allowed),
            verdict.to_owned(),
        ]
    }
}

/// The comparisons as a table of the report.
pub(crate) fn section(findings: &[Finding]) -> Section {
    Section {
        title: "counts beside the baseline".to_owned(),
        columns: ["what", "now", "baseline", "more", "allowed", ""].map(str::to_owned).into(),
        rows: findings.iter().map(Finding::row).collect(),
    }
}

impl Baseline {
    /// A baseline without counts.
    pub(crate) fn empty() -> Self {
        Self { schema: 1, allocations_of_1000_keys: 0, launches: Vec::new() }
    }

    pub(crate) fn read(path: &Path) -> Result<Self, GateError> {
        let text =
            fs::read_to_string(path).map_err(|source| GateError::Read { path: path.to_owned(), source })?;
        serde_json::from_str(&text).map_err(|source| GateError::Parse { path: path.to_owned(), source })
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), GateError> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|source| GateError::Parse { path: path.to_owned(), source })?;
        output::replace(path, &(text + "\n"))
            .map_err(|source| GateError::Keep { path: path.to_owned(), source: Box::new(source) })
    }

    /// Replaces the counts of the same host. Instruction counts of other profiles stay.
    pub(crate) fn renew(&mut self, keys: u64, mut now: Launch) {
        self.allocations_of_1000_keys = keys;
        if let Some(at) = self.launches.iter().position(|launch| launch.host == now.host) {
            for (profile, instructions) in self.launches.remove(at).instructions {
                now.instructions.entry(profile).or_insert(instructions);
            }
        }
        self.launches.push(now);
    }

    /// Compares `now` with the baseline. `path` is the baseline's file.
    pub(crate) fn compare(&self, path: &Path, keys: u64, now: &Launch) -> Result<Vec<Finding>, GateError> {
        let mut findings = vec![Finding {
            what: "blocks allocated by 1000 keys".to_owned(),
            now: keys,
            before: self.allocations_of_1000_keys,
            allowed: 0,
        }];
        let same = self.launches.iter().find(|launch| launch.host == now.host);
        let like = || self.launches.iter().find(|launch| launch.host.is_like(&now.host));
        let before = same
            .or_else(like)
            .ok_or_else(|| GateError::NoBaseline { path: path.to_owned(), host: now.host.words() })?;
        let sum = |launch: &Launch| launch.calls.values().sum::<u64>();
        let allowed = if same.is_some() { 0 } else { sum(before) * ELSEWHERE / 1000 };
        let place = if same.is_some() { "" } else { ", counted on a host of another kind" };
        findings.push(Finding {
            what: format!("system calls of a launch{place}"),
            now: sum(now),
            before: sum(before),
            allowed,
        });
        let names = before.calls.keys().chain(now.calls.keys()).collect::<std::collections::BTreeSet<_>>();
        for name in names {
            let of = |launch: &Launch| launch.calls.get(name).copied().unwrap_or(0);
            if of(now) != of(before) {
                // These lines only show which calls changed. The sum decides, because one call may replace another.
                let (now, before) = (of(now), of(before));
                findings.push(Finding { what: format!("  {name}"), now, before, allowed: now });
            }
        }
        for (profile, &instructions) in &now.instructions {
            let known = before.instructions.get(profile).copied();
            let known = known.ok_or_else(|| GateError::OtherProfile {
                path: path.to_owned(),
                profile: profile.clone(),
                known: before.instructions.keys().cloned().collect::<Vec<_>>().join(", "),
            })?;
            findings.push(Finding {
                what: format!("instructions of a launch, profile {profile}"),
                now: instructions,
                before: known,
                allowed: known * INSTRUCTIONS / 1000,
            });
        }
        Ok(findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        Host {
            architecture: "x86_64".into(),
            kernel: "6.18".into(),
            user: "root".into(),
            linkage: "static".into(),
            layout: "0".into(),
        }
    }

    fn launch(stats: u64, instructions: u64) -> Launch {
        Launch {
            host: host(),
            calls: [("mount".to_owned(), 90), ("stat".to_owned(), stats)].into(),
            instructions: [("quick".to_owned(), instructions)].into(),
        }
    }

    fn worse(baseline: &Baseline, keys: u64, now: &Launch) -> Vec<String> {
        let findings = baseline.compare(Path::new("x"), keys, now).unwrap();
        findings.into_iter().filter(Finding::is_worse).map(|finding| finding.what).collect()
    }

    fn baseline() -> Baseline {
        let mut baseline = Baseline::empty();
        baseline.renew(0, launch(10, 100_000));
        baseline
    }

    #[test]
    fn one_more_is_worse_and_fewer_are_not() {
        let baseline = baseline();
        assert!(worse(&baseline, 0, &launch(10, 100_000)).is_empty());
        assert!(worse(&baseline, 0, &launch(9, 90_000)).is_empty());
        assert_eq!(worse(&baseline, 0, &launch(11, 100_000)), ["system calls of a launch"]);
        assert_eq!(worse(&baseline, 1, &launch(10, 100_000)), ["blocks allocated by 1000 keys"]);
        assert!(worse(&baseline, 0, &launch(10, 102_000)).is_empty());
        assert_eq!(worse(&baseline, 0, &launch(10, 102_001)), ["instructions of a launch, profile quick"]);
        let findings = baseline.compare(Path::new("x"), 0, &launch(11, 1)).unwrap();
        let rows = section(&findings).rows;
        assert!(rows.iter().any(|row| row[0] == "  stat" && row[3] == "+1"), "{rows:?}");
    }

    #[test]
    fn elsewhere_the_sum_may_be_larger_by_a_little() {
        let mut now = launch(13, 100_000);
        now.host.kernel = "6.19".into();
        assert!(worse(&baseline(), 0, &now).is_empty());
        now.calls.insert("stat".into(), 14);
        assert!(worse(&baseline(), 0, &now)[0].contains("another kind"));
        now.host.user = "ordinary".into();
        let error = baseline().compare(Path::new("x"), 0, &now).unwrap_err();
        assert!(matches!(error, GateError::NoBaseline { .. }), "{error}");
    }

    #[test]
    fn another_profile_is_refused() {
        let mut now = launch(10, 5);
        now.instructions = [("release".to_owned(), 5)].into();
        let error = baseline().compare(Path::new("x"), 0, &now).unwrap_err();
        assert!(error.to_string().contains("instructions of quick"), "{error}");
    }

    #[test]
    fn a_renewed_one_is_read_as_it_was_written_with_all_profiles() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gate.json");
        let mut baseline = baseline();
        let mut release = launch(11, 7);
        release.instructions = [("release".to_owned(), 7)].into();
        baseline.renew(0, release);
        baseline.write(&path).unwrap();
        assert_eq!(Baseline::read(&path).unwrap(), baseline);
        let profiles: Vec<_> = baseline.launches[0].instructions.keys().cloned().collect();
        assert_eq!((baseline.launches.len(), profiles), (1, vec!["quick".to_owned(), "release".to_owned()]));
        fs::write(&path, "{}").unwrap();
        assert!(matches!(Baseline::read(&path), Err(GateError::Parse { .. })));
    }
}
