// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Caches of package managers and compilers that outlive a launch: one set for each project and its launches with the
//! same rights.
//!
//! The directory of a set is mounted once, outside of the home. The names below the home that programs use are links
//! into it, because a link costs a tenth of a mount. Programs inside may change everything in the directory, so that
//! nothing outside follows a name in it.

use crate::caches::{DOWNLOADS, INSIDE, Set, Store};
use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::package::PlanMode;
use crate::plan::planner::Isolation;
use crate::view::USERS;
use crate::view::tree::{Show, Tree};
use palisade_host::toolchain;
use palisade_policy::decide::EffectivePath;
use palisade_policy::word::{HomePolicy, Switch};
use palisade_policy::{Grant, Policy, View};
use palisade_text::Show as _;
use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

/// A directory of the home in which programs keep what they can make or fetch again.
struct Row {
    /// Its name in the set.
    name: &'static str,
    /// Its path below the home.
    path: &'static str,
    /// It is there if one of these programs is in `PATH`, and in any case if there are none.
    programs: &'static [&'static str],
    /// Its content is used without being changed when there is no network.
    downloads: bool,
    /// The path is that of this file in the directory, instead of the directory's.
    file: Option<&'static str>,
    /// Variables that give it another place, and its path below that place. The first one that is set counts.
    variables: &'static [(&'static str, &'static str)],
}

const fn row(name: &'static str, path: &'static str, programs: &'static [&'static str]) -> Row {
    Row { name, path, programs, downloads: false, file: None, variables: &[] }
}

const fn downloads(name: &'static str, path: &'static str, programs: &'static [&'static str]) -> Row {
    Row { downloads: true, ..row(name, path, programs) }
}

impl Row {
    const fn or(self, variables: &'static [(&'static str, &'static str)]) -> Self {
        Self { variables, ..self }
    }

    const fn file(self, name: &'static str) -> Self {
        Self { file: Some(name), ..self }
    }

    /// Its path in a launch; `None` if a variable leads out of the home.
    fn place(&self, facts: &Facts) -> Option<PathBuf> {
        let home = &facts.account.home;
        for (variable, rest) in self.variables {
            facts.depends_on_variable(variable);
            if let Some(value) = facts.environment.get(variable).filter(|value| !value.is_empty()) {
                let place = Path::new(value);
                let is_plain = place.components().all(|part| !matches!(part, Component::ParentDir));
                let is_inside = place != home && place.starts_with(home) && is_plain;
                return is_inside.then(|| if rest.is_empty() { place.to_owned() } else { place.join(rest) });
            }
        }
        Some(home.join(self.path))
    }
}

/// None of these has credentials or, but for `go telemetry`, settings of its user: they lie beside it.
const ROWS: &[Row] = &[
    // go-build, pip, uv, yarn 1, pre-commit, deno, composer, matplotlib and many others.
    row("cache", ".cache", &[]).or(&[("XDG_CACHE_HOME", "")]),
    row("npm", ".npm", &["npm"]).or(&[("npm_config_cache", "")]),
    row("pnpm", ".local/share/pnpm/store", &["pnpm"]),
    row("yarn", ".yarn/berry", &["yarn"]),
    row("bun", ".bun/install/cache", &["bun"]),
    downloads("cargo-registry", ".cargo/registry", &["cargo"]).or(&[("CARGO_HOME", "registry")]),
    downloads("cargo-git", ".cargo/git", &["cargo"]).or(&[("CARGO_HOME", "git")]),
    // When downloads were used last. Making this database takes longer than a build that has nothing to do.
    row("cargo-uses", ".cargo/.global-cache", &["cargo"])
        .or(&[("CARGO_HOME", ".global-cache")])
        .file("database"),
    downloads("go-modules", "go/pkg/mod", &["go"]).or(&[("GOMODCACHE", ""), ("GOPATH", "pkg/mod")]),
    // Counters of the go command. Where there are none, each launch of it starts another process.
    row("go-counters", ".config/go/telemetry", &["go"]).or(&[("XDG_CONFIG_HOME", "go/telemetry")]),
    downloads("maven", ".m2/repository", &["mvn", "java"]),
    row("maven-wrapper", ".m2/wrapper", &["java"]),
    // Gradle writes to its caches in any case.
    row("gradle", ".gradle/caches", &["gradle", "java"]).or(&[("GRADLE_USER_HOME", "caches")]),
    row("gradle-wrapper", ".gradle/wrapper", &["java"]).or(&[("GRADLE_USER_HOME", "wrapper")]),
    downloads("nuget", ".nuget/packages", &["dotnet"]).or(&[("NUGET_PACKAGES", "")]),
    downloads("cabal", ".cabal/packages", &["cabal"]),
];

/// The caches of a launch.
pub(crate) struct Caches {
    own: Set,
    /// The sets of launches that have all rights of this one, and a network. The newest comes first.
    donors: Vec<Set>,
    links: Vec<(PathBuf, PathBuf)>,
}

impl Caches {
    /// The caches of a launch; `None` if it keeps none. `grants`: what the policy decides about paths by itself.
    pub(crate) fn find(
        facts: &Facts,
        policy: &Policy,
        grants: &[EffectivePath],
        isolation: Isolation,
        notes: &mut Vec<Cow<'static, str>>,
    ) -> Option<Self> {
        let home = &facts.account.home;
        let project = grants.iter().any(|path| {
            path.source == facts.cwd
                && matches!(path.grant, Grant::Allowed { .. })
                && !home.starts_with(&facts.cwd)
        });
        let wanted = policy.switch(Switch::Caches).value
            && isolation == Isolation::Full
            && policy.view().value == View::System
            && policy.home().value == HomePolicy::None
            && matches!(facts.purpose, PlanMode::Launch)
            && home.parent().is_some()
            && facts.kind(home) == Kind::Directory;
        if !project || !wanted {
            return None;
        }
        let mut rights = policy.rights_text();
        // Two values of a variable are two policies.
        for variable in policy.variables() {
            rights.others.push_str(&format!("{variable}={:?}\n", facts.environment.get(&variable)));
        }
        let opened = Store::open(facts).and_then(|store| {
            let own = store.set(&rights)?;
            let donors = if rights.network.is_none() { store.donors(facts, &rights)? } else { Vec::new() };
            Ok((own, donors))
        });
        let (own, donors) = match opened {
            Ok(sets) => sets,
            Err(reason) => {
                notes.push(Cow::Owned(format!("caches aren't kept: {reason}")));
                return None;
            }
        };
        let mut caches = Self { own, donors, links: Vec::new() };
        for row in ROWS {
            let Some(path) = row.place(facts) else { continue };
            let stated = |grant: &EffectivePath| {
                grant.grant != Grant::Absent
                    && (grant.destination.starts_with(&path)
                        || (path.starts_with(&grant.destination) && grant.destination.starts_with(home)))
            };
            let shown = toolchain::candidates(home)
                .any(|shown| shown != path && path.starts_with(&shown) && facts.is_there(&shown));
            if shown || grants.iter().any(stated) || !is_used(facts, row) {
                continue;
            }
            if let Some(target) = caches.target(facts, row, &path, rights.network.is_some(), notes) {
                caches.links.push((path, target));
            }
        }
        Some(caches)
    }

    /// Where a row's link leads; `None` if the home's own directory is shown instead.
    fn target(
        &self,
        facts: &Facts,
        row: &Row,
        path: &Path,
        network: bool,
        notes: &mut Vec<Cow<'static, str>>,
    ) -> Option<PathBuf> {
        if row.downloads && !network {
            if let Some(number) = self.donors.iter().position(|donor| donor.has_content(facts, row.name)) {
                return Some(downloads_of(number).join(row.name));
            }
            // The view shows the home's own downloads, read-only.
            if facts.kind(path) != Kind::Missing {
                return None;
            }
        }
        match self.own.make(row.name) {
            Ok(()) => {
                let directory = Path::new(INSIDE).join(row.name);
                Some(row.file.map_or_else(|| directory.clone(), |file| directory.join(file)))
            }
            Err(error) => {
                notes.push(Cow::Owned(format!("{} isn't kept: {error}", path.shown())));
                None
            }
        }
    }

    /// Shows them.
    pub(crate) fn show(&self, tree: &mut Tree<'_>, mapped: bool) -> Result<(), PlanError> {
        let show = Show { map_owners: mapped, ..USERS };
        tree.show(self.own.files(), Path::new(INSIDE), Show { write: true, ..show })?;
        for (number, donor) in self.donors.iter().enumerate() {
            let place = downloads_of(number);
            if self.links.iter().any(|(_path, target)| target.starts_with(&place)) {
                tree.show(donor.files(), &place, show)?;
            }
        }
        for (path, target) in &self.links {
            tree.symlink(path, target)?;
        }
        Ok(())
    }
}

/// Where the downloads of a donor appear.
fn downloads_of(donor: usize) -> PathBuf {
    Path::new(DOWNLOADS).join(donor.to_string())
}

/// Whether a program that uses the row's directory is installed.
fn is_used(facts: &Facts, row: &Row) -> bool {
    let Some(path) = facts.environment.get("PATH").filter(|_path| !row.programs.is_empty()) else {
        return row.programs.is_empty();
    };
    std::env::split_paths(path).filter(|directory| directory.is_absolute()).any(|directory| {
        // Other directories change only with the packages, which every plan depends on.
        if !facts.is_of_packages(&directory) {
            facts.depends_on_names_in(&directory);
        }
        row.programs.iter().any(|program| directory.join(program).exists())
    })
}
