// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads the policy of a launch: which policy files exist, whether they are trusted, and what they state together.
//!
//! Lowest first: built in, distribution, administrator, user, then the requested profile (in the layer of the place
//! where it was found), the project's file if the user has allowed it, the command line. Every file that was read
//! becomes an input of the plan, and so does every missing file that would have been read.

pub mod agent;
pub mod application;
mod asked;
pub mod own;
pub(crate) mod passed;
pub mod profiles;
mod secrets;
pub(crate) mod session;
pub mod trust;
pub mod unnamed;

use crate::error::quoted;
use crate::facts::Facts;
use crate::layers::profiles::Embedded;
use crate::layers::trust::{Status, Store, StoreError};
use palisade_host::file::{self, FileError, Links};
use palisade_host::fingerprint::{Fingerprint, FingerprintError};
use palisade_host::places::{self, PROJECT_FILE, TrustError, Trustee};
use palisade_host::walk::WalkError;
use palisade_policy::feature::Features;
use palisade_policy::word::Switch;
use palisade_policy::{Layer, LayerPolicy, Origin, ParseError, Policy};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// How often a file is read again because it changed while it was read.
const ATTEMPTS: usize = 3;
/// The profile that every application's profile inherits, unless it states what it inherits.
const DEFAULT: &str = "default";
/// The longest chain of `inherits`. Users don't write a chain of ten.
const DEEPEST: usize = 16;
/// The most files in one launch: without a limit, profiles that inherit several others could multiply.
const MOST: usize = 256;

/// A kind of definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Profiles.
    Profile,
    /// Features.
    Feature,
}

impl Sort {
    /// The word for this kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Feature => "feature",
        }
    }

    /// The directory's name, the same in each layer.
    const fn directory(self) -> &'static str {
        match self {
            Self::Profile => "profiles",
            Self::Feature => "features",
        }
    }

    /// The definitions in the binary.
    const fn embedded(self) -> &'static [Embedded] {
        match self {
            Self::Profile => profiles::EMBEDDED,
            Self::Feature => profiles::features::EMBEDDED,
        }
    }
}

/// What a launch requests.
#[derive(Debug, Default, Clone, Copy)]
pub struct Request<'r> {
    /// A profile, by name or file.
    pub profile: Option<&'r OsStr>,
    /// The profile's application is opened: `default` applies unless every profile in the chain states what it inherits.
    pub open: bool,
    /// One of its configurations.
    pub configuration: Option<&'r str>,
}

/// The policy of a launch.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The requested profile, by itself.
    pub profile: Option<LayerPolicy>,
    /// The features that apply, and those that don't, with the reason.
    pub features: Features,
    /// All layers together.
    pub policy: Policy,
    /// The project's directory, if its file is in force.
    pub project: Option<PathBuf>,
    /// Notes for the user, such as about a project file that isn't in force.
    pub notes: Vec<String>,
}

/// Why the policy of a launch can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// Other users could have written the file.
    #[error("refusing policy {file:?}: {source}")]
    Distrusted {
        /// The file.
        file: PathBuf,
        /// Why the file isn't trusted.
        source: TrustError,
    },
    /// The file can't be read.
    #[error("can't read a policy: {source}")]
    Read {
        /// Why.
        source: FileError,
    },
    /// The file can't be examined.
    #[error("can't examine a policy: {source}")]
    Examine {
        /// Why.
        source: FingerprintError,
    },
    /// The file kept changing.
    #[error("policy {file:?} is being changed")]
    Unstable {
        /// The file.
        file: PathBuf,
    },
    /// The file isn't text.
    #[error("policy {file:?} is no UTF-8 (after {valid} bytes)")]
    NotText {
        /// The file.
        file: PathBuf,
        /// The number of valid bytes at the start.
        valid: usize,
    },
    /// The file states something that can't be understood.
    #[error("{}", rendered(errors, false))]
    Parse {
        /// All mistakes in the file.
        errors: Vec<ParseError>,
    },
    /// A profile inherits from itself.
    #[error("profiles inherit in a circle: {}", chain.join(" > "))]
    Cycle {
        /// The names, the first again at the end.
        chain: Vec<String>,
    },
    /// The chain of inherited profiles is too long.
    #[error("profiles inherit more than {DEEPEST} levels deep, or more than {MOST} profiles in all: {}", chain.join(" > "))]
    Deep {
        /// The names.
        chain: Vec<String>,
    },
    /// The file isn't the system's, and only the system's files count on this host.
    #[error("policy {file:?} isn't the system's, and this host allows only the system's policy")]
    NotOfSystem {
        /// The file.
        file: PathBuf,
    },
    /// No such profile or feature exists.
    #[error("there is no {} {name:?}{}", sort.name(), wanted(*sort, by.as_deref()))]
    Unknown {
        /// Its kind.
        sort: Sort,
        /// Its name.
        name: String,
        /// Where it is inherited, if it is.
        by: Option<Box<Origin>>,
        /// The most similar existing name.
        nearest: Option<String>,
    },
    /// The profile has no such configuration.
    #[error("profile {profile:?} has no configuration {name:?}")]
    Configuration {
        /// The profile.
        profile: String,
        /// The configuration.
        name: String,
    },
    /// The features contradict each other.
    #[error("{reason}")]
    Features {
        /// Why.
        reason: String,
    },
    /// The project can't be searched for files with secrets.
    #[error("can't look for files with secrets: {source}")]
    Secrets {
        /// Why.
        source: WalkError,
    },
    /// The store of allowed projects can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Several mistakes as text for the user.
fn rendered(errors: &[ParseError], colour: bool) -> String {
    let parts: Vec<String> = errors.iter().map(|error| error.render(colour)).collect();
    format!("can't understand the policy\n{}", parts.join("\n"))
}

fn wanted(sort: Sort, by: Option<&Origin>) -> String {
    let verb = match sort {
        Sort::Profile => "inherits",
        Sort::Feature => "asks for",
    };
    by.map_or_else(String::new, |origin| format!(", which {origin} {verb}"))
}

impl LayerError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Distrusted { source, .. } => return trust::distrust_hint(source),
            Self::Unknown { sort, nearest: Some(nearest), .. } => {
                format!("did you mean {nearest}? palisade {} list shows all", sort.name())
            }
            Self::Unknown { sort, .. } => {
                format!("palisade {} list   # shows all", sort.name())
            }
            Self::Configuration { profile, .. } => {
                format!("palisade profile show {}   # shows its configurations", quoted(profile))
            }
            Self::Features { .. } => {
                "palisade open --without FEATURE …   # or `without = [\"FEATURE\"]` in a profile of yours"
                    .to_owned()
            }
            Self::Store(error) => return error.hint(),
            Self::Secrets { .. } => "palisade run --secrets show …   # hides none".to_owned(),
            Self::NotOfSystem { .. } => {
                "ask the administrator to put it into /etc/palisade/profiles; `palisade store status` says more".to_owned()
            }
            _ => "palisade config paths   # which files are read, and from where".to_owned(),
        })
    }
}

/// A policy file that a launch looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The layer of its statements.
    pub layer: Layer,
    /// The file.
    pub file: PathBuf,
    /// Whether it exists.
    pub present: bool,
}

/// A profile or feature that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Its kind.
    pub sort: Sort,
    /// Its name.
    pub name: String,
    /// The layer of its statements.
    pub layer: Layer,
    /// Its file; none if it is embedded.
    pub file: Option<PathBuf>,
}

/// The project file that applies to the working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The file, without links.
    pub file: PathBuf,
    /// The file's content.
    pub content: Vec<u8>,
    /// Whether the user has allowed it.
    pub status: Status,
}

impl Project {
    /// The project's directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.file.parent().unwrap_or(&self.file)
    }

    /// The statements of the file.
    ///
    /// # Errors
    /// When it can't be understood.
    pub fn parse(&self) -> Result<LayerPolicy, LayerError> {
        parse(&self.content, &self.file, Layer::Project, Sort::Profile)
    }
}

/// Loads the policy of a launch.
///
/// # Errors
/// When a file can't be read, trusted or understood: a missing part of the policy isn't guessed.
pub fn load(facts: &Facts, request: Request<'_>, command_line: LayerPolicy) -> Result<Loaded, LayerError> {
    load_with(facts, request, None, command_line)
}

/// Like [`load`], with a user's profile that isn't stored yet.
///
/// # Errors
/// As for [`load`].
pub fn load_unkept(facts: &Facts, profile: LayerPolicy) -> Result<Loaded, LayerError> {
    load_with(facts, Request::default(), Some(profile), LayerPolicy::command_line())
}

fn load_with(
    facts: &Facts,
    request: Request<'_>,
    unkept: Option<LayerPolicy>,
    command_line: LayerPolicy,
) -> Result<Loaded, LayerError> {
    let loader = Loader::new(facts);
    let mut layers = vec![palisade_policy::built_in()];
    for (layer, file) in loader.configurations() {
        if layer == Layer::User && facts.of_system_only {
            continue;
        }
        if let Some(policy) = loader.read(&file, layer, Sort::Profile)? {
            loader.add(policy, &mut layers, &mut Vec::new())?;
        }
    }
    // Features come before the profiles of their layer, because a profile may override them.
    let own = layers.len();
    let profile = match unkept {
        Some(profile) => {
            loader.add(profile.clone(), &mut layers, &mut Vec::new())?;
            if request.open {
                loader.add_default(own, &mut layers)?;
            }
            Some(profile)
        }
        None => loader.requested(request, &mut layers)?,
    };
    let mut notes = Vec::new();
    // Only the caveat of the profile itself is reported: it covers everything that the profile inherits.
    if let Some(LayerPolicy { name: Some(name), caveat: Some(caveat), .. }) = &profile {
        notes.push(format!("profile {}: {}", name.value, caveat.value));
    }
    let mut directory = None;
    // A project's file is about its directory, and applies where the directory is shown.
    let shown = !request.open || {
        let all = layers.iter().chain(std::iter::once(&command_line)).cloned().collect();
        palisade_policy::merge(all).switch(Switch::WorkingDirectory).value
    };
    match if shown { find_project(facts) } else { Ok(None) } {
        Ok(Some(_project)) if facts.of_system_only => {
            notes.push(
                "the project's file is not in force: only the system's policy counts on this host".to_owned(),
            );
        }
        Ok(Some(project)) if project.status == Status::Allowed => {
            loader.add(project.parse()?, &mut layers, &mut Vec::new())?;
            facts.note_policy(&project.file);
            directory = Some(project.directory().to_owned());
        }
        Ok(Some(project)) => notes.push(inert(&project)),
        Ok(None) => {}
        // A file that can't be read can't have been allowed. A project must not decide whether a command runs in it.
        Err(LayerError::Read { source }) => {
            notes.push(format!("the project's file is not in force: {source}"))
        }
        Err(error) => return Err(error),
    }
    layers.push(command_line);
    let context = crate::plan::planner::context(facts, directory.as_deref());
    let features = loader.features(&layers, &context)?;
    notes.extend(asked::notes(&layers, &features, &context, facts));
    layers.splice(own..own, features.present.iter().cloned());
    let mut policy = palisade_policy::merge(layers);
    if let Some((rules, found)) =
        secrets::rules(facts, &policy, &context).map_err(|source| LayerError::Secrets { source })?
    {
        policy = policy.combine(Policy::from(rules));
        notes.extend(found);
    }
    notes.extend(policy.idle().map(|idle| idle.to_string()));
    if let Some(profile) = profile.as_ref().filter(|_profile| request.open) {
        notes.extend(agent::notes(facts, profile, &policy));
    }
    Ok(Loaded { profile, features, policy, project: directory, notes })
}

/// Why a project file isn't in force, and how the user can change that.
#[must_use]
pub fn inert(project: &Project) -> String {
    let directory = quoted(&project.directory().to_string_lossy());
    let file = project.file.display();
    match project.status {
        Status::Changed => {
            format!(
                "{file} has changed since you allowed it and is not in force; palisade project allow {directory} shows it and asks"
            )
        }
        _ => format!("{file} is not in force; palisade project allow {directory} shows it and asks"),
    }
}

/// The policy files of the layers that have one, existing or not.
#[must_use]
pub fn sources(facts: &Facts) -> Vec<Source> {
    Loader::new(facts)
        .configurations()
        .into_iter()
        .map(|(layer, file)| Source { layer, present: file.symlink_metadata().is_ok(), file })
        .collect()
}

/// The directories in which definitions are looked up, in this order, and the layer of each.
#[must_use]
pub fn directories(facts: &Facts, sort: Sort) -> [(Layer, PathBuf); 3] {
    let places = &facts.places;
    [
        (Layer::User, places.config.join(sort.directory())),
        (Layer::Administrator, places.administrator.join(sort.directory())),
        (Layer::Distribution, places.distribution.join(sort.directory())),
    ]
}

/// All definitions of a kind, by name. If several have the same name, the one in use comes first.
#[must_use]
pub fn definitions(facts: &Facts, sort: Sort) -> Vec<Definition> {
    let mut found = Vec::new();
    for (layer, directory) in directories(facts, sort) {
        if layer == Layer::User && facts.of_system_only {
            continue;
        }
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            let named = path.file_stem().and_then(OsStr::to_str).filter(|name| is_profile_name(name));
            if let Some(name) = named
                && path.extension() == Some(OsStr::new("toml"))
            {
                found.push(Definition { sort, name: name.to_owned(), layer, file: Some(path) });
            }
        }
    }
    found.extend(sort.embedded().iter().map(|embedded| Definition {
        sort,
        name: embedded.name.to_owned(),
        layer: Layer::BuiltIn,
        file: None,
    }));
    // The sort is stable: definitions with the same name stay in the order of lookup.
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The statements of a profile by itself, without those that it inherits.
///
/// # Errors
/// When no profile has that name, or it can't be read, trusted or understood.
pub fn profile(facts: &Facts, name: &OsStr) -> Result<LayerPolicy, LayerError> {
    Loader::new(facts).profile_or_file(name)
}

/// The statements of a feature by itself.
///
/// # Errors
/// When no feature has that name, or it can't be read, trusted or understood.
pub fn feature(facts: &Facts, name: &str) -> Result<LayerPolicy, LayerError> {
    Loader::new(facts).named(Sort::Feature, name, Layer::User, None)
}

/// The statements of one of [`definitions`] by itself, also if another one of the same name takes precedence.
///
/// # Errors
/// When it can't be read, trusted or understood.
pub fn read(facts: &Facts, definition: &Definition) -> Result<LayerPolicy, LayerError> {
    let (sort, name) = (definition.sort, &definition.name);
    let unknown = || LayerError::Unknown { sort, name: name.clone(), by: None, nearest: None };
    match &definition.file {
        Some(file) => Loader::new(facts).read(file, definition.layer, sort)?.ok_or_else(unknown),
        None => {
            let embedded = sort.embedded().iter().find(|embedded| embedded.name == name);
            let embedded = embedded.ok_or_else(unknown)?;
            parse(embedded.text.as_bytes(), Path::new(embedded.file), Layer::BuiltIn, sort)
        }
    }
}

/// Reads one policy file as a layer's, trusted or not, in order to check its statements.
///
/// # Errors
/// When it can't be read or understood.
pub fn read_file(path: &Path, layer: Layer, sort: Sort) -> Result<LayerPolicy, LayerError> {
    let content =
        file::read(path, trust::LARGEST_FILE, Links::Follow).map_err(|source| LayerError::Read { source })?;
    parse(&content, path, layer, sort)
}

/// The store of allowed projects.
#[must_use]
pub fn store(facts: &Facts) -> Store {
    Store::new(&facts.places.state, trustee(facts))
}

/// The nearest project file from the working directory up, and whether it is in force.
///
/// # Errors
/// When it exists and can't be read, or the store can't be read.
pub fn find_project(facts: &Facts) -> Result<Option<Project>, LayerError> {
    let Some(file) = places::project_file(&facts.cwd, &facts.account.home) else {
        for directory in facts.cwd.ancestors().take_while(|directory| *directory != facts.account.home) {
            facts.depends_on(&directory.join(PROJECT_FILE), true);
        }
        return Ok(None);
    };
    for directory in facts.cwd.ancestors() {
        let candidate = directory.join(PROJECT_FILE);
        facts.depends_on(&candidate, true);
        if candidate == file {
            break;
        }
    }
    let store = store(facts);
    facts.depends_on(&store.entry(&file), true);
    // The file's owner doesn't matter: the file is in force only if the user allowed this content. A link is refused,
    // because the user allowed the content at this path.
    let content = stable(&file, || {
        file::read(&file, trust::LARGEST_FILE, Links::Refuse).map_err(|source| LayerError::Read { source })
    })?;
    let status = store.status(&file, &content)?;
    Ok(Some(Project { file, content, status }))
}

/// The users who may write files that the user's launches obey: the user and root.
fn trustee(facts: &Facts) -> Trustee {
    let account = &facts.account;
    Trustee { uid: account.uid, private_group: account.private_group.then_some(account.gid) }
}

/// The file of a requested profile, if the profile was requested by file and not by name.
pub(crate) fn file_of(cwd: &Path, wanted: &OsStr) -> Option<PathBuf> {
    let path = Path::new(wanted);
    let file = cwd.join(path);
    let is_file = wanted.as_encoded_bytes().contains(&b'/')
        || (path.extension() == Some(OsStr::new("toml")) && file.symlink_metadata().is_ok());
    is_file.then_some(file)
}

/// Whether a profile can have this name.
#[must_use]
pub fn is_profile_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('/') && !name.contains(char::is_control)
}

fn parse(content: &[u8], file: &Path, layer: Layer, sort: Sort) -> Result<LayerPolicy, LayerError> {
    let text = std::str::from_utf8(content)
        .map_err(|error| LayerError::NotText { file: file.to_owned(), valid: error.valid_up_to() })?;
    let parse = match sort {
        Sort::Profile => palisade_policy::parse,
        Sort::Feature => palisade_policy::parse_feature,
    };
    parse(text, Some(file), layer).map_err(|errors| LayerError::Parse { errors })
}

/// Reads a file that is the same before and after, so that its fingerprint belongs to the content that was read.
fn stable(file: &Path, read: impl Fn() -> Result<Vec<u8>, LayerError>) -> Result<Vec<u8>, LayerError> {
    let now = || Fingerprint::of(file).map_err(|source| LayerError::Examine { source });
    for _attempt in 0..ATTEMPTS {
        let before = now()?;
        let content = read()?;
        if before == now()? {
            return Ok(content);
        }
    }
    Err(LayerError::Unstable { file: file.to_owned() })
}

mod loader;
pub mod packed;

use loader::Loader;

#[cfg(test)]
#[path = "layers/tests.rs"]
mod tests;

#[cfg(test)]
mod agent_pages;
