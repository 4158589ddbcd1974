// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is asked for: everything that a plan depends on but the host and the policy files.

use crate::{PlanningError, Situation};
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

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// What is to be started.
    pub subject: Subject,
    /// What the caller states: the topmost layer of the policy.
    pub words: LayerPolicy,
    /// How what is started is kept apart.
    pub isolation: Isolation,
    /// Where it is asked for.
    pub surroundings: Surroundings,
}

/// What is to be started.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A command.
    Command {
        /// The program and its arguments. None: any command.
        words: Vec<OsString>,
        /// The profile whose rules hold, a name or a file.
        profile: Option<OsString>,
    },
    /// The application of a profile.
    Application(Application),
    /// That application, to see what a package of it takes along.
    Pack(Application),
    /// The application in a package that has been unpacked.
    Packed {
        /// What the package says.
        definitions: Definitions,
        /// What the application is called.
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
    /// Arguments besides those that the profile states.
    pub arguments: Vec<OsString>,
}

/// Where something is asked for.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The working directory.
    pub directory: PathBuf,
    /// The variables.
    pub environment: Environment,
}

impl Surroundings {
    /// Those of this process.
    ///
    /// # Errors
    /// When the working directory is gone.
    pub fn of_process() -> Result<Self, PlanningError> {
        let directory = std::env::current_dir().map_err(|source| PlanningError::Directory { source })?;
        Ok(Self { directory, environment: std::env::vars_os().collect() })
    }

    /// What the host says of who is here.
    ///
    /// # Errors
    /// When the user is unknown.
    pub fn facts(self) -> Result<Facts, PlanningError> {
        Ok(Facts::gather(self.environment, self.directory)?)
    }
}

impl Request {
    /// A request of this process's, with nothing stated.
    ///
    /// # Errors
    /// When the working directory is gone.
    pub fn here(subject: Subject) -> Result<Self, PlanningError> {
        Ok(Self {
            subject,
            words: LayerPolicy::command_line(),
            isolation: Isolation::Full,
            surroundings: Surroundings::of_process()?,
        })
    }

    /// Asks the host, and reads the policy.
    ///
    /// # Errors
    /// When the user is unknown, a policy file can't be read or believed, or there is no such application.
    pub fn settle(self) -> Result<Situation, PlanningError> {
        let facts = self.surroundings.facts()?;
        let (words, isolation) = (self.words, self.isolation);
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
                // Without a file tree of its own it would be the host's files that it sees.
                let isolation = Isolation::Full;
                Ok(Situation { facts, loaded, isolation, program: Some(program), definitions: None })
            }
        }
    }
}

impl Request {
    /// The same by what is built in and by what the caller states, without any policy file.
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
    let mut loaded = layers::load(&facts, opened.of_layers(), words)?;
    let program = application::compose(&mut facts, &mut loaded, &opened.arguments)?;
    Ok(Situation { facts, loaded, isolation, program: Some(program), definitions: None })
}

fn pack(mut facts: Facts, opened: &Application, words: LayerPolicy) -> Result<Situation, PlanningError> {
    facts.purpose = package::PlanMode::Pack;
    facts.environment = package::of_system(&facts.environment);
    facts.application = Some(application::named(&opened.profile));
    let (definitions, mut loaded) = Definitions::gather(&facts, opened.of_layers(), words)?;
    // Where the launch takes place is nothing to take along, nor is a home.
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
