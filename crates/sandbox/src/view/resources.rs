// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Application resources: what a profile gives its application in addition to paths of the host. These are a home, made
//! files, devices, libraries that it opens, and lifecycle hooks.

use crate::bus::Buses;
use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::package::{self, PlanMode};
use crate::plan::planner::Isolation;
use crate::plan::text::Text;
use crate::plan::{Hook, Lifecycle, Lock};
use crate::refusals;
use crate::view::USERS;
use crate::view::tree::{Show, Tree};
use palisade_host::needs::More;
use palisade_policy::expand::Place;
use palisade_policy::launch::{Made, Runs};
use palisade_policy::template;
use palisade_policy::word::{HomeLock, HomePolicy, List, PassFiles, Switch, Wait, Word};
use palisade_policy::{Context, Layer, PathPattern, Policy, Resolved, Sourced, View};
use palisade_sys::landlock::Rights;
use palisade_text::Show as _;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Library directories, in addition to the one for this machine's architecture.
const LIBRARIES: [&str; 4] = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib"];

/// A policy's resources in one launch.
pub(crate) struct Resources<'p> {
    pub(crate) policy: &'p Policy,
    pub(crate) context: &'p Context,
    pub(crate) isolation: Isolation,
    pub(crate) buses: &'p Buses,
}

/// The programs with which the user of a shell inside looks around.
const LOOK: [&str; 4] = ["ls", "cat", "id", "env"];

impl Resources<'_> {
    /// The paths of a list's pattern; empty if it refers to a value that this launch lacks.
    fn places(&self, facts: &Facts, entry: &Sourced<String>) -> Vec<PathBuf> {
        let Ok(pattern) = PathPattern::new(&entry.value) else { return Vec::new() };
        match Place::of(&pattern, entry.origin.layer, self.context) {
            Ok(Place::Path(path)) if facts.kind(&path) == Kind::Missing => Vec::new(),
            Ok(Place::Path(path)) => vec![path],
            Ok(Place::Glob(glob)) => facts.matches(&glob),
            Err(_unset) => Vec::new(),
        }
    }

    /// Checks that all required files exist.
    pub(crate) fn check_required(&self, facts: &Facts) -> Result<(), PlanError> {
        for entry in self.policy.list(List::Require) {
            // Packed paths are required where the package is made, and other paths where it is launched.
            let packed = package::is_packed(Path::new(&entry.value));
            match facts.purpose {
                PlanMode::Launch | PlanMode::Arranged(_) => {}
                PlanMode::Pack if packed => {}
                PlanMode::Packed(_) if !packed => {}
                PlanMode::Pack | PlanMode::Packed(_) => continue,
            }
            if self.places(facts, &entry).is_empty() {
                return Err(PlanError::Required { path: entry.value, origin: entry.origin });
            }
        }
        Ok(())
    }

    /// The program's further needs that a profile and its features state.
    pub(crate) fn more(&self, facts: &Facts) -> More {
        let filled = |entry: &Sourced<String>| template::fill(&entry.value, self.context).ok();
        let mut programs: Vec<OsString> =
            self.policy.list(List::Programs).iter().filter_map(filled).collect();
        // The program that a wrapper starts can't be found in the wrapper.
        programs.extend(facts.programs.iter().cloned());
        if self.policy.switch(Switch::Shell).value {
            programs.extend(LOOK.map(OsString::from));
        }
        let mut known = HashMap::new();
        let entries = self.policy.list(List::Libraries);
        let libraries = entries.iter().flat_map(|entry| self.libraries(facts, entry, &mut known)).collect();
        More { programs, libraries }
    }

    /// The files and directories of a pattern for libraries.
    fn libraries(
        &self,
        facts: &Facts,
        entry: &Sourced<String>,
        known: &mut HashMap<PathBuf, Vec<OsString>>,
    ) -> Vec<PathBuf> {
        if entry.value.starts_with('/') {
            return self.places(facts, entry);
        }
        let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        let directories = std::iter::once(multiarch.as_str()).chain(LIBRARIES);
        let merged = facts.layout.merged.iter().any(|name| name.path == Path::new("/lib"));
        let mut found = Vec::new();
        for directory in directories.filter(|directory| !(merged && *directory == "/lib")) {
            let plain = !entry.value.contains(['*', '?', '[', '\\']);
            let path = Path::new(directory).join(&entry.value);
            if plain {
                if facts.kind(&path) != Kind::Missing {
                    found.push(path);
                }
                continue;
            }
            let Ok(pattern) = PathPattern::new(&path) else { continue };
            let Ok(Place::Glob(glob)) = Place::of(&pattern, Layer::BuiltIn, self.context) else { continue };
            if entry.value.contains('/') {
                found.extend(facts.matches(&glob));
                continue;
            }
            // There are thousands of names and dozens of patterns, so each directory is listed once.
            let names = known.entry(directory.into()).or_insert_with(|| {
                if !facts.is_of_packages(Path::new(directory)) {
                    facts.depends_on_names_in(Path::new(directory));
                }
                let entries = std::fs::read_dir(directory).into_iter().flatten();
                entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect()
            });
            let paths = names.iter().map(|name| Path::new(directory).join(name));
            found.extend(paths.filter(|path| glob.matches(path)));
        }
        found
    }

    /// The host's directory for the home.
    fn home_directory(&self, facts: &Facts) -> Option<(HomePolicy, PathBuf)> {
        home_directory(facts, self.policy)
    }

    /// Mounts the home. Returns the host's directory of a home that outlives the launch.
    pub(crate) fn home(
        &self,
        tree: &mut Tree<'_>,
        facts: &Facts,
        mapped: bool,
    ) -> Result<Option<PathBuf>, PlanError> {
        let home = &facts.account.home;
        if self.policy.home().value != HomePolicy::None && self.home_directory(facts).is_none() {
            return Err(PlanError::NamelessHome { origin: self.policy.home().origin });
        }
        let Some((policy, directory)) = self.home_directory(facts) else { return Ok(None) };
        make_private(&directory).map_err(|source| PlanError::Home { path: directory.clone(), source })?;
        let show = Show { write: policy == HomePolicy::Private, execute: true, map_owners: mapped, ..USERS };
        match policy {
            HomePolicy::Overlay => tree.overlay(&directory, home, show)?,
            _ => tree.show(&directory, home, show)?,
        }
        Ok(Some(directory))
    }

    /// Makes the files and links.
    pub(crate) fn files(
        &self,
        tree: &mut Tree<'_>,
        facts: &Facts,
        notes: &mut Vec<Cow<'static, str>>,
    ) -> Result<(), PlanError> {
        for file in self.policy.made_files() {
            let place = Place::of(&file.value.path, file.origin.layer, self.context);
            let content = template::fill(&file.value.content, self.context);
            let (Ok(Place::Path(path)), Ok(content)) = (place, content) else { continue };
            let made = file.value.made;
            if made == Made::Link {
                if facts.package().is_some() && package::is_packed(&path) {
                    // The link was made in the package.
                } else if tree.host_path(&tree.resolve(&path)).is_some() || tree.stands(&path) {
                    // Shipped links are for any host: the user needs no note of them.
                    if file.origin.layer > Layer::Distribution {
                        notes.push(Cow::Owned(format!(
                            "{} exists: the policy's link isn't made",
                            path.shown()
                        )));
                    }
                } else {
                    tree.symlink(&path, Path::new(&content))?;
                }
                continue;
            }
            let rights = match made {
                Made::Read | Made::Link => Rights::READ,
                Made::Write => Rights::READ.union(Rights::WRITE_FILE).union(Rights::OF_FILES),
                Made::Execute => Rights::READ.union(Rights::EXECUTE),
            };
            let mode = match made {
                Made::Execute => 0o755,
                _ => 0o644,
            };
            let content = Text::new(content.as_bytes())?;
            tree.made_file(&path, mode, content, made == Made::Write, rights.intersection(Rights::OF_FILES))?;
        }
        Ok(())
    }

    /// Shows device files.
    pub(crate) fn devices(&self, tree: &mut Tree<'_>, facts: &Facts) -> Result<(), PlanError> {
        let mut devices = BTreeSet::new();
        for entry in self.policy.list(List::Devices) {
            for path in self.places(facts, &entry) {
                // A path that leads out of `/dev` isn't a device.
                let Some(real) = path.canonicalize().ok().filter(|real| real.starts_with("/dev")) else {
                    continue;
                };
                // A link's name describes the device, but programs look for the device by its own name, so both are shown.
                devices.extend([real, path].map(|path| (path.components().count(), path)));
            }
        }
        // Directories come before their entries.
        let mut shown: Vec<PathBuf> = Vec::new();
        for (_depth, path) in devices {
            // The devices that every program expects are made already. Others may lie in a directory that is shown.
            if !tree.stands(&path) && !shown.iter().any(|directory| path.starts_with(directory)) {
                tree.device(&path)?;
                shown.push(path);
            }
        }
        Ok(())
    }

    /// The other tasks of the launch.
    pub(crate) fn lifecycle(
        &self,
        facts: &Facts,
        resolved: &Resolved,
    ) -> Result<Lifecycle<'static>, PlanError> {
        let policy = self.policy;
        let anywhere = facts.application.is_some()
            && !facts.complete
            && self.isolation == Isolation::Full
            && policy.view().value == View::Closure
            && resolved.cwd().is_none()
            && !policy.switch(Switch::WorkingDirectory).value
            && !policy.depends_on_cwd();
        let home = self.home_directory(facts);
        let lock = match (policy.home_lock().value, &home) {
            (HomeLock::None, _) | (_, None) => None,
            // A launch that doesn't change the home needs no overlay of it.
            (HomeLock::Overlay, Some((HomePolicy::ReadOnly | HomePolicy::Overlay, _))) => None,
            (lock, Some((_, directory))) => {
                let mut path = directory.clone().into_os_string();
                path.push(".lock");
                Some(Lock { path: Text::path(Path::new(&path))?, held: lock })
            }
        };
        let codes = policy.list(List::IgnoreExit);
        Ok(Lifecycle {
            pass_files: policy.pass_files().value != PassFiles::None,
            complete: facts.complete,
            anywhere,
            trace: policy.switch(Switch::Trace).value,
            ignore_exit: codes.iter().filter_map(|code| code.value.parse().ok()).collect(),
            lock,
            hooks: self.hooks(facts, home.map(|(_, directory)| directory))?,
            wait_for_all: self.isolation == Isolation::Full && policy.wait().value == Wait::All,
            stats: policy.switch(Switch::Stats).value,
            refusals: refusals::are_told(facts, policy),
            log: self.log(facts)?,
        })
    }

    /// The file to which the output is appended.
    fn log(&self, facts: &Facts) -> Result<Option<Text<'static>>, PlanError> {
        if !self.policy.switch(Switch::Log).value {
            return Ok(None);
        }
        let name = facts.application.as_ref().map_or("run", |application| application.name.as_str());
        Ok(Some(Text::path(&facts.places.state.join("logs").join(format!("{name}.log")))?))
    }

    fn hooks(&self, facts: &Facts, home: Option<PathBuf>) -> Result<Vec<Hook<'static>>, PlanError> {
        let text = |text: &OsStr| Text::new(text.as_bytes());
        let mut hooks = Vec::new();
        for hook in self.policy.hooks() {
            let value = hook.value;
            let mut command = match &value.runs {
                Runs::Program(program) => vec![OsString::from(program)],
                // This program is executed by this path, whatever its name on the host is.
                Runs::Profile(profile) => {
                    vec!["/proc/self/exe".into(), "open".into(), "--".into(), profile.into()]
                }
            };
            for argument in &value.arguments {
                let filled = template::fill(argument, self.context)
                    .map_err(|source| PlanError::Hook { origin: hook.origin.clone(), source })?;
                command.push(filled);
            }
            let own = |name: &str, value: &OsStr| Ok((Text::new(name)?, text(value)?));
            let environment = if value.environment || matches!(value.runs, Runs::Profile(_)) {
                None
            } else {
                let mut variables = Vec::new();
                for name in ["PATH", "HOME"] {
                    variables.extend(facts.environment.get(name).map(|value| own(name, value)));
                }
                if let Some(application) = &facts.application {
                    variables.push(own("PALISADE_NAME", application.name.as_ref()));
                }
                variables.extend(home.as_ref().map(|home| own("PALISADE_HOME", home.as_os_str())));
                Some(variables.into_iter().collect::<Result<Vec<_>, crate::plan::text::NullByte>>()?)
            };
            hooks.push(Hook {
                when: value.when,
                command: command.iter().map(|part| text(part)).collect::<Result<_, _>>()?,
                attach: value.attach,
                may_fail: value.may_fail,
                environment,
                capture: value.capture,
            });
        }
        Ok(hooks)
    }
}

/// The host's directory for the home of a policy.
pub(crate) fn home_directory(facts: &Facts, policy: &Policy) -> Option<(HomePolicy, PathBuf)> {
    let named = policy.word(Word::HomeName).map(|name| name.value);
    let policy = policy.home().value;
    let name = named.or_else(|| Some(facts.application.as_ref()?.name.clone()))?;
    (policy != HomePolicy::None).then(|| (policy, facts.homes().join(directory_of(&name))))
}

/// The directory of a home in the directory of all homes: `games/chess` lies in `.games/chess`. No home is inside another
/// one, because no name's part begins with a dot. Otherwise an application in the home `games` could replace the home
/// `games/chess` by a link.
fn directory_of(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((parents, last)) => {
            let parents: String = parents.split('/').map(|part| format!(".{part}/")).collect();
            parents + last
        }
        None => name.to_owned(),
    }
}

/// Makes a directory that no other user may read, and those above it.
fn make_private(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}
