// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The user's own definitions, and the definitions that they replace.

use super::{Definition, LayerError, Request, Sort, application, definitions, directories, profiles};
use crate::facts::Facts;
use palisade_policy::feature::Features;
use palisade_policy::render::string;
use palisade_policy::{Layer, LayerPolicy};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The user's own file for a name; none if the name isn't valid for a definition.
#[must_use]
pub fn file(facts: &Facts, sort: Sort, name: &str) -> Option<PathBuf> {
    if !super::is_profile_name(name) {
        return None;
    }
    let own = directories(facts, sort).into_iter().find(|(layer, _)| *layer == Layer::User);
    let directory = own.map(|(_, directory)| directory).unwrap_or_default();
    Some(directory.join(format!("{name}.toml")))
}

/// The definitions with a name, the one in use first.
#[must_use]
pub fn of_name(facts: &Facts, sort: Sort, name: &str) -> Vec<Definition> {
    definitions(facts, sort).into_iter().filter(|definition| definition.name == name).collect()
}

/// The user's definitions that replace others, each with the one that it replaces.
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
    /// The text of the file.
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

    /// The definition's place, as text for the user.
    #[must_use]
    pub fn place(&self) -> String {
        match &self.file {
            Some(file) => file.to_string_lossy().into_owned(),
            None => format!("built-in:{}.toml", self.name),
        }
    }
}

/// The text with another name.
#[must_use]
pub fn renamed(text: &str, name: &str) -> String {
    let own = format!("name = {}", string(name));
    let line = |line: &str| if line.starts_with("name = ") { own.clone() } else { line.to_owned() };
    text.lines().map(|each| line(each) + "\n").collect()
}

/// The text that a new profile starts with: for an application, if `program` is given, and otherwise for commands.
#[must_use]
pub fn template(name: &str, features: &[String], program: Option<&str>) -> String {
    let features = features.iter().map(|feature| string(feature)).collect::<Vec<_>>().join(", ");
    let rules = match program {
        Some(program) => format!(
            "[program]\n\
             path = {}\n\
             # arguments = []\n\
             # pass_files = \"read\"\n\
             \n\
             [home]\n\
             policy = \"none\"   # or private, read-only, overlay\n",
            string(program)
        ),
        None => "# The working directory can be written to, the system can be read.\n\
                 [filesystem]\n\
                 # read = [\"~/data\"]\n\
                 # write = [\"~/out\"]\n\
                 # hide = [\"./secrets\"]\n\
                 \n\
                 [network]\n\
                 # allow = [\"example.com\"]\n\
                 \n\
                 [environment]\n\
                 # keep = [\"MY_TOOL_*\"]\n"
            .to_owned(),
    };
    format!(
        "schema = 1\n\
         name = {}\n\
         description = \"\"\n\
         # palisade feature list shows all\n\
         features = [{features}]\n\
         \n\
         {rules}",
        string(name),
    )
}

/// Whether a text can be understood as the user's definition in `file`.
///
/// # Errors
/// When it can't, with all mistakes.
pub fn check(text: &str, file: &Path, sort: Sort) -> Result<(), LayerError> {
    let parse = match sort {
        Sort::Profile => palisade_policy::parse,
        Sort::Feature => palisade_policy::parse_feature,
    };
    parse(text, Some(file), Layer::User).map(drop).map_err(|errors| LayerError::Parse { errors })
}

/// A profile as it is opened: one layer with all statements of its features, of the profiles that it inherits, and of itself.
///
/// # Errors
/// When no such profile exists, or one of its files can't be read or trusted.
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
        agent: own.agent,
        says_inherits: true,
        ..LayerPolicy::empty(Layer::User, None)
    };
    whole.settings = loaded.policy.settings().clone();
    Ok((whole, loaded.features))
}

/// The profiles of applications that are installed on this host.
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
