// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A request: everything that a plan depends on, except the host and the policy files.

use crate::{PlanningError, Situation, repository};
use palisade_host::environment::Environment;
use palisade_policy::feature::Features;
use palisade_policy::{LayerPolicy, built_in, merge};
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::packed::Definitions;
use palisade_sandbox::layers::{self, Loaded, application};
use palisade_sandbox::package::{self, Unpacked};
use palisade_sandbox::plan::planner::Isolation;
use std::ffi::OsString;
use std::path::PathBuf;

/// A request for a plan.
#[derive(Debug, Clone)]
pub struct Request {
    /// What to start.
    pub subject: Subject,
    /// What the caller states: the topmost layer of the policy.
    pub words: LayerPolicy,
    /// The position of the argument that makes the working directory's whole repository writable, if there is one.
    pub repository: Option<u32>,
    /// How it is isolated.
    pub isolation: Isolation,
    /// Where the request is made.
    pub surroundings: Surroundings,
}

/// What to start.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A command.
    Command {
        /// The program and its arguments. None: any command.
        words: Vec<OsString>,
        /// The profile whose rules apply: a name or a file.
        profile: Option<OsString>,
    },
    /// The application of a profile.
    Application(Application),
    /// The application, to determine what a package of it contains.
    Pack(Application),
    /// The application in a package that has been unpacked.
    Packed {
        /// The definitions in the package.
        definitions: Definitions,
        /// The application's name.
        name: String,
        /// Where the package's files are.
        unpacked: Unpacked,
        /// The arguments.
        arguments: Vec<OsString>,
    },
}

/// An application and how it is opened.
#[derive(Debug, Clone, Default)]
pub struct Application {
    /// The profile, a name or a file.
    pub profile: OsString,
    /// A variant of the profile.
    pub configuration: Option<String>,
    /// Arguments in addition to those that the profile states.
    pub arguments: Vec<OsString>,
}

/// Where a request is made.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The working directory.
    pub directory: PathBuf,
    /// The environment variables.
    pub environment: Environment,
}

impl Surroundings {
    /// The surroundings of this process.
    ///
    /// # Errors
    /// When the working directory is gone.
    pub fn of_process() -> Result<Self, PlanningError> {
        let directory = std::env::current_dir().map_err(|source| PlanningError::Directory { source })?;
        Ok(Self { directory, environment: std::env::vars_os().collect() })
    }

    /// Reads the facts of the host for these surroundings.
    ///
    /// # Errors
    /// When the user is unknown.
    pub fn facts(self) -> Result<Facts, PlanningError> {
        Ok(Facts::gather(self.environment, self.directory)?)
    }
}

impl Request {
    /// A request with this process's surroundings, without any statement.
    ///
    /// # Errors
    /// When the working directory is gone.
    pub fn here(subject: Subject) -> Result<Self, PlanningError> {
        Ok(Self {
            subject,
            words: LayerPolicy::command_line(),
            repository: None,
            isolation: Isolation::Full,
            surroundings: Surroundings::of_process()?,
        })
    }

    /// Reads the host's facts and the policy.
    ///
    /// # Errors
    /// When the user is unknown, a policy file can't be read or trusted, or there is no such application.
    pub fn settle(self) -> Result<Situation, PlanningError> {
        let facts = self.surroundings.facts()?;
        let (mut words, isolation) = (self.words, self.isolation);
        if let Some(argument) = self.repository {
            repository::state(&mut words, &facts, argument)?;
        }
        match self.subject {
            Subject::Command { words: command, profile } => {
                let mut facts = facts;
                facts.command = command;
                facts.run_by(profile.as_deref());
                let request = layers::Request { profile: profile.as_deref(), ..layers::Request::default() };
                let loaded = layers::load(&facts, request, words)?;
                Ok(Situation { facts, loaded, isolation, program: None, definitions: None })
            }
            Subject::Application(opened) => open(facts, &opened, words, isolation),
            Subject::Pack(opened) => pack(facts, &opened, words),
            Subject::Packed { definitions, name, unpacked, arguments } => {
                let mut facts = facts;
                facts.purpose = package::PlanMode::Packed(unpacked);
                facts.application = Some(palisade_policy::Application { name, id: None });
                let mut loaded = definitions.load(&facts)?;
                let program = application::compose(&mut facts, &mut loaded, &arguments)?;
                // Without a file tree of its own, the application would see the host's files.
                let isolation = Isolation::Full;
                Ok(Situation { facts, loaded, isolation, program: Some(program), definitions: None })
            }
        }
    }
}

impl Request {
    /// The same from the built-in layer and the caller's statements, without any policy file.
    ///
    /// # Errors
    /// When the user is unknown.
    pub fn settle_by_built_in(self) -> Result<Situation, PlanningError> {
        let mut facts = self.surroundings.facts()?;
        if let Subject::Command { words, .. } = self.subject {
            facts.command = words;
        }
        let loaded = Loaded {
            profile: None,
            features: Features::default(),
            policy: merge(vec![built_in(), self.words]),
            project: None,
            notes: Vec::new(),
        };
        Ok(Situation { facts, loaded, isolation: self.isolation, program: None, definitions: None })
    }
}

fn open(
    mut facts: Facts,
    opened: &Application,
    words: LayerPolicy,
    isolation: Isolation,
) -> Result<Situation, PlanningError> {
    facts.application = Some(application::named(&opened.profile));
    let mut loaded = match layers::load(&facts, opened.of_layers(), words.clone()) {
        Err(error) if opened.configuration.is_none() => {
            layers::unnamed::load(&facts, &opened.profile, error, words)?
        }
        loaded => loaded?,
    };
    let program = application::compose(&mut facts, &mut loaded, &opened.arguments)?;
    Ok(Situation { facts, loaded, isolation, program: Some(program), definitions: None })
}

fn pack(mut facts: Facts, opened: &Application, words: LayerPolicy) -> Result<Situation, PlanningError> {
    facts.purpose = package::PlanMode::Pack;
    facts.environment = package::of_system(&facts.environment);
    facts.application = Some(application::named(&opened.profile));
    let (definitions, mut loaded) = Definitions::gather(&facts, opened.of_layers(), words)?;
    // A package contains neither the working directory nor a home.
    facts.cwd.clone_from(&facts.account.home);
    loaded.policy = loaded.policy.clone().combine(package::only_now().into());
    let program = application::compose(&mut facts, &mut loaded, &opened.arguments)?;
    let isolation = Isolation::Full;
    Ok(Situation { facts, loaded, isolation, program: Some(program), definitions: Some(definitions) })
}

impl Application {
    fn of_layers(&self) -> layers::Request<'_> {
        layers::Request {
            profile: Some(&self.profile),
            open: true,
            configuration: self.configuration.as_deref(),
        }
    }
}
