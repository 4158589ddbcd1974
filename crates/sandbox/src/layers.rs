// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which policy files there are, whether they are believed, and what they say together.
//!
//! Lowest first: built in, distribution, administrator, user, then the profile that was asked for
//! (in the layer of the place where it was found), the project's file if the user has allowed it,
//! the command line. Every file that was read, and every one that would have been had it been
//! there, becomes an input of the plan.

use crate::error::quoted;
use crate::facts::Facts;
use crate::profiles::{EMBEDDED, embedded};
use crate::trust::{self, Status, Store, StoreError};
use palisade_host::file::{self, FileError, Links};
use palisade_host::fingerprint::{Fingerprint, FingerprintError};
use palisade_host::places::{self, PROJECT_FILE, TrustError, Trustee};
use palisade_policy::{Layer, LayerPolicy, Origin, ParseError, Policy};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A file that changes while it is read is read again, so often.
const ATTEMPTS: usize = 3;
/// The longest chain of `inherits`; nobody writes one of ten.
const DEEPEST: usize = 16;
/// The most files in one launch: profiles that each inherit several could be without number.
const MOST: usize = 256;

/// The policy of a launch.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// All layers together.
    pub policy: Policy,
    /// The project's directory, if its file is in force.
    pub project: Option<PathBuf>,
    /// What the user should know, such as a project file that isn't in force.
    pub notes: Vec<String>,
}

/// Why the policy of a launch can't be had.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// Others could have written the file.
    #[error("can't believe policy {file:?}: {source}")]
    Distrusted {
        /// The file.
        file: PathBuf,
        /// Who could.
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
    /// The file is no text.
    #[error("policy {file:?} is no UTF-8 (after {valid} bytes)")]
    NotText {
        /// The file.
        file: PathBuf,
        /// Bytes that are.
        valid: usize,
    },
    /// The file says what can't be understood.
    #[error("{}", rendered(errors, false))]
    Parse {
        /// All that is wrong with it.
        errors: Vec<ParseError>,
    },
    /// A profile inherits from itself.
    #[error("profiles inherit in a circle: {}", chain.join(" > "))]
    Cycle {
        /// The names, the first again at the end.
        chain: Vec<String>,
    },
    /// Profiles inherit one from the other without an end in sight.
    #[error("profiles inherit more than {DEEPEST} deep, or more than {MOST} in all: {}", chain.join(" > "))]
    Deep {
        /// The names.
        chain: Vec<String>,
    },
    /// There is no such profile.
    #[error("there is no profile {name:?}{}", wanted(by.as_deref()))]
    Unknown {
        /// Its name.
        name: String,
        /// Where it is inherited, if it is.
        by: Option<Box<Origin>>,
        /// The nearest name there is.
        nearest: Option<String>,
    },
    /// The store of allowed projects can't be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Several mistakes as people read them.
fn rendered(errors: &[ParseError], colour: bool) -> String {
    let parts: Vec<String> = errors.iter().map(|error| error.render(colour)).collect();
    format!("can't understand the policy\n{}", parts.join("\n"))
}

fn wanted(by: Option<&Origin>) -> String {
    by.map_or_else(String::new, |origin| format!(", which {origin} inherits"))
}

impl LayerError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Distrusted { source, .. } => return trust::distrust_hint(source),
            Self::Unknown { nearest: Some(nearest), .. } => {
                format!("did you mean {nearest}? palisade profile list shows all")
            }
            Self::Unknown { .. } => "palisade profile list   # shows those there are".to_owned(),
            Self::Store(error) => return error.hint(),
            _ => "palisade config paths   # which files are read, and from where".to_owned(),
        })
    }
}

/// A policy file that a launch looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The layer it speaks for.
    pub layer: Layer,
    /// The file.
    pub file: PathBuf,
    /// Whether it is there.
    pub present: bool,
}

/// A profile that could be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// The layer it speaks for.
    pub layer: Layer,
    /// Its file; none if it is embedded.
    pub file: Option<PathBuf>,
}

/// The project file that holds where the launch takes place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The file, without links.
    pub file: PathBuf,
    /// What is in it.
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

    /// What the file says.
    ///
    /// # Errors
    /// When it can't be understood.
    pub fn parse(&self) -> Result<LayerPolicy, LayerError> {
        parse(&self.content, &self.file, Layer::Project)
    }
}

/// Loads the policy of a launch.
///
/// # Errors
/// When a file can't be read, believed or understood: a policy that isn't known isn't guessed.
pub fn load(facts: &Facts, profile: Option<&OsStr>, command_line: LayerPolicy) -> Result<Loaded, LayerError> {
    let loader = Loader::new(facts);
    let mut layers = vec![palisade_policy::built_in()];
    for (layer, file) in loader.configurations() {
        if let Some(policy) = loader.read(&file, layer)? {
            loader.add(policy, &mut layers, &mut Vec::new())?;
        }
    }
    if let Some(name) = profile {
        let policy = loader.profile_or_file(name)?;
        let shown = name.to_string_lossy().into_owned();
        loader.add(policy, &mut layers, &mut vec![shown])?;
    }
    let mut notes = Vec::new();
    let mut directory = None;
    match find_project(facts) {
        Ok(Some(project)) if project.status == Status::Allowed => {
            loader.add(project.parse()?, &mut layers, &mut Vec::new())?;
            directory = Some(project.directory().to_owned());
        }
        Ok(Some(project)) => notes.push(inert(&project)),
        Ok(None) => {}
        // What can't be read can't have been allowed, and a project doesn't decide whether
        // anything runs in it.
        Err(LayerError::Read { source }) => {
            notes.push(format!("the project's file is not in force: {source}"))
        }
        Err(error) => return Err(error),
    }
    layers.push(command_line);
    Ok(Loaded { policy: palisade_policy::merge(layers), project: directory, notes })
}

/// Why a project file isn't in force, and how it comes to be.
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

/// The policy files of the layers that have one, whether or not they are there.
#[must_use]
pub fn sources(facts: &Facts) -> Vec<Source> {
    Loader::new(facts)
        .configurations()
        .into_iter()
        .map(|(layer, file)| Source { layer, present: file.symlink_metadata().is_ok(), file })
        .collect()
}

/// The directories in which profiles are looked up, first hit wins, and the layer of each.
#[must_use]
pub fn profile_directories(facts: &Facts) -> [(Layer, PathBuf); 3] {
    let places = &facts.places;
    [
        (Layer::User, places.config.join("profiles")),
        (Layer::Administrator, places.administrator.join("profiles")),
        (Layer::Distribution, places.distribution.join("profiles")),
    ]
}

/// All profiles, by name; of those of one name the one that would be used comes first.
#[must_use]
pub fn profiles(facts: &Facts) -> Vec<Profile> {
    let mut found = Vec::new();
    for (layer, directory) in profile_directories(facts) {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            let named = path.file_stem().and_then(OsStr::to_str).filter(|name| is_profile_name(name));
            if let Some(name) = named
                && path.extension() == Some(OsStr::new("toml"))
            {
                found.push(Profile { name: name.to_owned(), layer, file: Some(path) });
            }
        }
    }
    found.extend(EMBEDDED.iter().map(|profile| Profile {
        name: profile.name.to_owned(),
        layer: Layer::BuiltIn,
        file: None,
    }));
    // Stable: the order of lookup stays among equals.
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// What a profile says by itself, without what it inherits.
///
/// # Errors
/// When there is none of that name, or it can't be read, believed or understood.
pub fn profile(facts: &Facts, name: &OsStr) -> Result<LayerPolicy, LayerError> {
    Loader::new(facts).profile_or_file(name)
}

/// What one of [`profiles`] says by itself, also one that another of its name goes before.
///
/// # Errors
/// When it can't be read, believed or understood.
pub fn read_profile(facts: &Facts, profile: &Profile) -> Result<LayerPolicy, LayerError> {
    let loader = Loader::new(facts);
    let unknown = || LayerError::Unknown { name: profile.name.clone(), by: None, nearest: None };
    match &profile.file {
        Some(file) => loader.read(file, profile.layer)?.ok_or_else(unknown),
        None => {
            let embedded = embedded(&profile.name).ok_or_else(unknown)?;
            parse(embedded.text.as_bytes(), Path::new(embedded.file), Layer::BuiltIn)
        }
    }
}

/// Reads one policy file as a layer's, believed or not: to check what it says.
///
/// # Errors
/// When it can't be read or understood.
pub fn read_file(path: &Path, layer: Layer) -> Result<LayerPolicy, LayerError> {
    let content =
        file::read(path, trust::LARGEST_FILE, Links::Follow).map_err(|source| LayerError::Read { source })?;
    parse(&content, path, layer)
}

/// The store of allowed projects.
#[must_use]
pub fn store(facts: &Facts) -> Store {
    Store::new(&facts.places.state, trustee(facts))
}

/// The nearest project file from the working directory up, and whether it is in force.
///
/// # Errors
/// When it is there and can't be read, or the store can't be asked.
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
    // Who owns it doesn't matter: its content is what the user allowed, or it isn't in force. A
    // link is refused, because what was allowed is this place.
    let content = stable(&file, || {
        file::read(&file, trust::LARGEST_FILE, Links::Refuse).map_err(|source| LayerError::Read { source })
    })?;
    let status = store.status(&file, &content)?;
    Ok(Some(Project { file, content, status }))
}

/// Who may write what the user's launches obey: the user and root.
fn trustee(facts: &Facts) -> Trustee {
    let account = &facts.account;
    Trustee { uid: account.uid, private_group: account.private_group.then_some(account.gid) }
}

/// Whether a profile can be called so.
#[must_use]
pub fn is_profile_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('/') && !name.contains(char::is_control)
}

fn parse(content: &[u8], file: &Path, layer: Layer) -> Result<LayerPolicy, LayerError> {
    let text = std::str::from_utf8(content)
        .map_err(|error| LayerError::NotText { file: file.to_owned(), valid: error.valid_up_to() })?;
    palisade_policy::parse(text, Some(file), layer).map_err(|errors| LayerError::Parse { errors })
}

/// Reads a file that is the same before and after, so that its fingerprint stands for what was read.
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

/// Reads files of layers for one launch.
struct Loader<'f> {
    facts: &'f Facts,
    /// Who may write the files of the distribution and the administrator.
    system: Trustee,
}

impl<'f> Loader<'f> {
    fn new(facts: &'f Facts) -> Self {
        // In a test the places of the system are the user's.
        let uid = if cfg!(test) { facts.account.uid } else { 0 };
        Self { facts, system: Trustee { uid, private_group: None } }
    }

    fn configurations(&self) -> [(Layer, PathBuf); 3] {
        let places = &self.facts.places;
        [
            (Layer::Distribution, places.distribution.join("config.toml")),
            (Layer::Administrator, places.administrator.join("config.toml")),
            (Layer::User, places.config.join("config.toml")),
        ]
    }

    /// What a file says, if it is there.
    fn read(&self, file: &Path, layer: Layer) -> Result<Option<LayerPolicy>, LayerError> {
        self.facts.depends_on(file, true);
        let found = Fingerprint::of_link(file).map_err(|source| LayerError::Examine { source })?;
        if found == Fingerprint::Absent {
            return Ok(None);
        }
        let who = if layer.may_lock() { self.system } else { trustee(self.facts) };
        let content = stable(file, || {
            let real = places::check(file, who)
                .map_err(|source| LayerError::Distrusted { file: file.to_owned(), source })?;
            file::read(&real, trust::LARGEST_FILE, Links::Refuse)
                .map_err(|source| LayerError::Read { source })
        })?;
        parse(&content, file, layer).map(Some)
    }

    /// A profile by name, or by file if it is written like one.
    fn profile_or_file(&self, wanted: &OsStr) -> Result<LayerPolicy, LayerError> {
        let path = Path::new(wanted);
        let text = wanted.to_string_lossy();
        let file = self.facts.cwd.join(path);
        let looks_like_file = text.contains('/')
            || (path.extension() == Some(OsStr::new("toml")) && file.symlink_metadata().is_ok());
        if looks_like_file {
            let layer = self.layer_of(&file);
            let read = self.read(&file, layer)?;
            return read.ok_or_else(|| LayerError::Unknown {
                name: text.into_owned(),
                by: None,
                nearest: None,
            });
        }
        self.profile(&text, Layer::User, None)
    }

    /// A file in one of the system's places speaks for that; any other is the user's word.
    fn layer_of(&self, file: &Path) -> Layer {
        let parent = file.parent();
        profile_directories(self.facts)
            .into_iter()
            .find(|(_layer, directory)| parent == Some(directory))
            .map_or(Layer::User, |(layer, _directory)| layer)
    }

    /// A profile by name, from the places of `highest` and the layers below.
    ///
    /// What a layer builds on can't come from a layer above: else a user's profile would take the
    /// place of one that the administrator's configuration inherits, and its locks would be gone.
    fn profile(&self, name: &str, highest: Layer, by: Option<&Origin>) -> Result<LayerPolicy, LayerError> {
        let unknown = || LayerError::Unknown {
            name: name.to_owned(),
            by: by.cloned().map(Box::new),
            nearest: {
                let all = profiles(self.facts);
                let names = all.iter().map(|profile| profile.name.as_str());
                palisade_policy::suggest::nearest(name, names).map(str::to_owned)
            },
        };
        if !is_profile_name(name) {
            return Err(unknown());
        }
        for (layer, directory) in profile_directories(self.facts) {
            if layer <= highest
                && let Some(policy) = self.read(&directory.join(format!("{name}.toml")), layer)?
            {
                return Ok(policy);
            }
        }
        let profile = embedded(name).ok_or_else(unknown)?;
        parse(profile.text.as_bytes(), Path::new(profile.file), Layer::BuiltIn)
    }

    /// Adds what a file says, after what it inherits. `chain`: the names on the way to it.
    fn add(
        &self,
        policy: LayerPolicy,
        layers: &mut Vec<LayerPolicy>,
        chain: &mut Vec<String>,
    ) -> Result<(), LayerError> {
        for inherited in &policy.inherits {
            let name = &inherited.value;
            let circle = chain.contains(name);
            chain.push(name.clone());
            if circle {
                return Err(LayerError::Cycle { chain: chain.clone() });
            }
            if chain.len() > DEEPEST || layers.len() > MOST {
                return Err(LayerError::Deep { chain: chain.clone() });
            }
            let found = self.profile(name, policy.layer, Some(&inherited.origin))?;
            self.add(found, layers, chain)?;
            chain.pop();
        }
        layers.push(policy);
        Ok(())
    }
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
