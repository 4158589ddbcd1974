// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The user's own definitions, beside those that they take the place of.

use super::{Definition, LayerError, Request, Sort, application, definitions, directories, profiles};
use crate::facts::Facts;
use palisade_policy::feature::Features;
use palisade_policy::render::string;
use palisade_policy::{Layer, LayerPolicy};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The user's own file for a name; none if it can't be a definition's name.
#[must_use]
pub fn file(facts: &Facts, sort: Sort, name: &str) -> Option<PathBuf> {
    if !super::is_profile_name(name) {
        return None;
    }
    let own = directories(facts, sort).into_iter().find(|(layer, _)| *layer == Layer::User);
    let directory = own.map(|(_, directory)| directory).unwrap_or_default();
    Some(directory.join(format!("{name}.toml")))
}

/// Those of a name, the one in use first.
#[must_use]
pub fn of_name(facts: &Facts, sort: Sort, name: &str) -> Vec<Definition> {
    definitions(facts, sort).into_iter().filter(|definition| definition.name == name).collect()
}

/// The user's that take the place of others, each with the one whose place it takes.
#[must_use]
pub fn replacing(facts: &Facts, sort: Sort) -> Vec<(Definition, Definition)> {
    let all = definitions(facts, sort);
    let pairs = all.windows(2).filter_map(|pair| match pair {
        [own, other] if own.layer == Layer::User && own.name == other.name => {
            Some((own.clone(), other.clone()))
        }
        _ => None,
    });
    pairs.collect()
}

impl Definition {
    /// The text as it was written.
    ///
    /// # Errors
    /// When its file can't be read.
    pub fn text(&self) -> std::io::Result<String> {
        match &self.file {
            Some(file) => std::fs::read_to_string(file),
            None => {
                let embedded = match self.sort {
                    Sort::Profile => profiles::embedded(&self.name),
                    Sort::Feature => profiles::features::embedded(&self.name),
                };
                Ok(embedded.map(|embedded| embedded.text.to_owned()).unwrap_or_default())
            }
        }
    }

    /// Its place, for people.
    #[must_use]
    pub fn place(&self) -> String {
        match &self.file {
            Some(file) => file.to_string_lossy().into_owned(),
            None => format!("built-in:{}.toml", self.name),
        }
    }
}

/// A text with another name in it.
#[must_use]
pub fn renamed(text: &str, name: &str) -> String {
    let own = format!("name = {}", string(name));
    let line = |line: &str| if line.starts_with("name = ") { own.clone() } else { line.to_owned() };
    text.lines().map(|each| line(each) + "\n").collect()
}

/// What a new profile begins with.
#[must_use]
pub fn template(name: &str, features: &[String]) -> String {
    let features = features.iter().map(|feature| string(feature)).collect::<Vec<_>>().join(", ");
    format!(
        "schema = 1\n\
         name = {}\n\
         description = \"\"\n\
         # palisade feature list shows those there are\n\
         features = [{features}]\n\
         \n\
         [program]\n\
         path = {}\n\
         # arguments = []\n\
         # pass_files = \"read\"\n\
         \n\
         [home]\n\
         policy = \"none\"   # or private, read-only, overlay\n",
        string(name),
        string(name)
    )
}

/// Whether a text can be understood as a definition of the user's in `file`.
///
/// # Errors
/// When it can't: all that is wrong with it.
pub fn check(text: &str, file: &Path, sort: Sort) -> Result<(), LayerError> {
    let parse = match sort {
        Sort::Profile => palisade_policy::parse,
        Sort::Feature => palisade_policy::parse_feature,
    };
    parse(text, Some(file), Layer::User).map(drop).map_err(|errors| LayerError::Parse { errors })
}

/// What a profile comes to when it is opened: one layer that says all that its features, what it inherits and itself say.
///
/// # Errors
/// When there is no such profile, or one of its files can't be read or believed.
pub fn whole(facts: &mut Facts, name: &OsStr) -> Result<(LayerPolicy, Features), LayerError> {
    facts.application = Some(application::named(name));
    let own = super::profile(facts, name)?;
    let request = Request { profile: Some(name), open: true, configuration: None };
    let loaded = super::load(facts, request, LayerPolicy::command_line())?;
    let mut whole = LayerPolicy {
        name: own.name,
        description: own.description,
        caveat: own.caveat,
        configurations: own.configurations,
        launch: own.launch,
        says_inherits: true,
        ..LayerPolicy::empty(Layer::User, None)
    };
    whole.settings = loaded.policy.settings().clone();
    Ok((whole, loaded.features))
}

/// The profiles whose program is on this host.
#[must_use]
pub fn installed(facts: &Facts) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for definition in definitions(facts, Sort::Profile) {
        let Ok(profile) = super::read(facts, &definition) else { continue };
        let opens = profile.launch.is_some();
        let policy = palisade_policy::merge(vec![profile]);
        if opens
            && !names.contains(&definition.name)
            && application::program_of(facts, &definition.name, &policy).is_some()
        {
            names.push(definition.name);
        }
    }
    names
}
