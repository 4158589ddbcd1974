// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the policy files of one launch, and the definitions that they inherit.

use super::{
    DEEPEST, DEFAULT, LayerError, MOST, Request, Sort, definitions, directories, is_profile_name, parse,
    stable, trustee,
};
use crate::facts::Facts;
use crate::layers::trust;
use palisade_host::file::{self, Links};
use palisade_host::fingerprint::Fingerprint;
use palisade_host::places::{self, Trustee};
use palisade_policy::expand::Place;
use palisade_policy::feature::{self, FeatureError, Features, Want};
use palisade_policy::{Context, Fact, Layer, LayerPolicy, Origin, Sourced};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Reads files of layers for one launch.
pub(super) struct Loader<'f> {
    facts: &'f Facts,
    /// The users who may write the files of the distribution and the administrator.
    system: Trustee,
}

impl<'f> Loader<'f> {
    pub(super) fn new(facts: &'f Facts) -> Self {
        // In a test the user owns the system's directories.
        let uid = if cfg!(test) { facts.account.uid } else { 0 };
        Self { facts, system: Trustee { uid, private_group: None } }
    }

    pub(super) fn configurations(&self) -> [(Layer, PathBuf); 3] {
        let places = &self.facts.places;
        [
            (Layer::Distribution, places.distribution.join("config.toml")),
            (Layer::Administrator, places.administrator.join("config.toml")),
            (Layer::User, places.config.join("config.toml")),
        ]
    }

    /// The statements of a file, if it exists.
    pub(super) fn read(
        &self,
        file: &Path,
        layer: Layer,
        sort: Sort,
    ) -> Result<Option<LayerPolicy>, LayerError> {
        self.facts.depends_on(file, true);
        let found = Fingerprint::of_link(file).map_err(|source| LayerError::Examine { source })?;
        if found == Fingerprint::Absent {
            return Ok(None);
        }
        let who = if palisade_policy::layer::may_lock(layer) { self.system } else { trustee(self.facts) };
        let content = stable(file, || {
            let real = places::check(file, who)
                .map_err(|source| LayerError::Distrusted { file: file.to_owned(), source })?;
            file::read(&real, trust::LARGEST_FILE, Links::Refuse)
                .map_err(|source| LayerError::Read { source })
        })?;
        let policy = parse(&content, file, layer, sort)?;
        self.facts.note_policy(file);
        Ok(Some(policy))
    }

    /// A profile by name, or by file if the word looks like a file's.
    pub(super) fn profile_or_file(&self, wanted: &OsStr) -> Result<LayerPolicy, LayerError> {
        let text = wanted.to_string_lossy();
        if let Some(file) = super::file_of(&self.facts.cwd, wanted) {
            let layer = self.layer_of(&file);
            if layer == Layer::User && self.facts.of_system_only {
                return Err(LayerError::NotOfSystem { file });
            }
            let read = self.read(&file, layer, Sort::Profile)?;
            return read.ok_or_else(|| LayerError::Unknown {
                sort: Sort::Profile,
                name: text.into_owned(),
                by: None,
                nearest: None,
            });
        }
        self.named(Sort::Profile, &text, Layer::User, None)
    }

    /// Adds the requested profile, after the profiles that it inherits. Returns the profile by itself.
    pub(super) fn requested(
        &self,
        request: Request<'_>,
        layers: &mut Vec<LayerPolicy>,
    ) -> Result<Option<LayerPolicy>, LayerError> {
        let Some(name) = request.profile else { return Ok(None) };
        let policy = self.profile_or_file(name)?;
        let own = layers.len();
        let shown = name.to_string_lossy().into_owned();
        self.add(policy.clone(), layers, &mut vec![shown.clone()])?;
        if request.open {
            self.add_default(own, layers)?;
        }
        if let Some(name) = request.configuration {
            let missing = || LayerError::Configuration { profile: shown, name: name.to_owned() };
            layers.push(policy.configuration(name).ok_or_else(missing)?);
        }
        Ok(Some(policy))
    }

    /// Adds `default` before the profiles from position `own` on, if they build on it.
    pub(super) fn add_default(&self, own: usize, layers: &mut Vec<LayerPolicy>) -> Result<(), LayerError> {
        if layers.get(own..).is_some_and(stands_on_default) {
            let default = self.named(Sort::Profile, DEFAULT, Layer::User, None)?;
            let mut base = Vec::new();
            self.add(default, &mut base, &mut vec![DEFAULT.to_owned()])?;
            layers.splice(own..own, base);
        }
        Ok(())
    }

    /// The layer of a profile's file: that of the system directory that it is in, else the user's.
    fn layer_of(&self, file: &Path) -> Layer {
        let parent = file.parent();
        directories(self.facts, Sort::Profile)
            .into_iter()
            .find(|(_layer, directory)| parent == Some(directory))
            .map_or(Layer::User, |(layer, _directory)| layer)
    }

    /// A profile or feature by name, from the places of `highest` and the layers below.
    ///
    /// A layer can't inherit from a higher layer. Otherwise a user's profile could replace one that the administrator's
    /// configuration inherits, and its locks would be lost.
    pub(super) fn named(
        &self,
        sort: Sort,
        name: &str,
        highest: Layer,
        by: Option<&Origin>,
    ) -> Result<LayerPolicy, LayerError> {
        let unknown = || LayerError::Unknown {
            sort,
            name: name.to_owned(),
            by: by.cloned().map(Box::new),
            nearest: {
                let all = definitions(self.facts, sort);
                let names = all.iter().map(|definition| definition.name.as_str());
                palisade_policy::suggest::nearest(name, names).map(str::to_owned)
            },
        };
        if !is_profile_name(name) {
            return Err(unknown());
        }
        for (layer, directory) in directories(self.facts, sort) {
            if layer <= highest
                && !(layer == Layer::User && self.facts.of_system_only)
                && let Some(policy) = self.read(&directory.join(format!("{name}.toml")), layer, sort)?
            {
                return Ok(policy);
            }
        }
        let embedded = sort.embedded().iter().find(|embedded| embedded.name == name).ok_or_else(unknown)?;
        parse(embedded.text.as_bytes(), Path::new(embedded.file), Layer::BuiltIn, sort)
    }

    /// The features that layers request. Each one comes after the features that it needs.
    pub(super) fn features(&self, layers: &[LayerPolicy], context: &Context) -> Result<Features, LayerError> {
        let mut asked: Vec<Sourced<Want>> = layers.iter().flat_map(|layer| layer.features.clone()).collect();
        if asked.is_empty() {
            return Ok(Features::default());
        }
        asked.sort_by_key(Sourced::rank);
        let mut find =
            |name: &str, highest: Layer, by: &Origin| self.named(Sort::Feature, name, highest, Some(by));
        let mut holds = |fact: &Fact, layer: Layer| self.holds(fact, layer, context);
        feature::resolve(&asked, &mut find, &mut holds).map_err(|error| match error {
            FeatureError::Find(error) => error,
            other => LayerError::Features { reason: other.to_string() },
        })
    }

    /// Whether a condition holds on this host. The plan depends on the answer.
    pub(super) fn holds(&self, fact: &Fact, layer: Layer, context: &Context) -> bool {
        let facts = self.facts;
        match fact {
            Fact::Exists(pattern) => match Place::of(pattern, layer, context) {
                Ok(Place::Path(path)) => facts.is_there(&path),
                Ok(Place::Glob(glob)) => !facts.matches(&glob).is_empty(),
                Err(_unset) => false,
            },
            Fact::Program(name) => facts.program(name.as_ref()).is_some(),
            Fact::Variable(name, value) => {
                facts.depends_on_variable(name);
                let set = facts.environment.get(name);
                match value {
                    Some(value) => set == Some(value.as_ref()),
                    None => set.is_some_and(|set| !set.is_empty()),
                }
            }
            Fact::Machine(name) => rustix::system::uname().machine().to_bytes() == name.as_bytes(),
            // Decided in `feature::resolve`.
            Fact::Feature(_) => false,
        }
    }

    /// Adds a file's statements, after those that it inherits. `chain`: the names from the requested profile to this one.
    pub(super) fn add(
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
            let found = self.named(Sort::Profile, name, policy.layer, Some(&inherited.origin))?;
            self.add(found, layers, chain)?;
            chain.pop();
        }
        layers.push(policy);
        Ok(())
    }
}

/// Whether one of these profiles doesn't state what it inherits, and none names `default` itself. A profile that
/// inherits an application's profile then gets no more than that profile has.
fn stands_on_default(profiles: &[LayerPolicy]) -> bool {
    let is_default = |profile: &LayerPolicy| profile.name.as_ref().is_some_and(|name| name.value == DEFAULT);
    !profiles.iter().any(is_default) && profiles.iter().any(|profile| !profile.says_inherits)
}
