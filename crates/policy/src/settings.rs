// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All statements of one layer or of all layers.

use std::path::Path;
use std::sync::Arc;

use crate::agent::Agent;
use crate::clock::StartTime;
use crate::condition::Condition;
use crate::environment::EnvironmentRule;
use crate::feature::Want;
use crate::launch::{Hook, MadeFile, Stanza};
use crate::layer::{Layer, Rank, Sourced, Strength};
use crate::limits::{Amount, Limit};
use crate::names::NameChange;
use crate::network::{Fallback, NameServer, NetworkList, NetworkRule, Publish, Upstream};
use crate::pattern::PathPattern;
use crate::reply::SyscallReply;
use crate::rule::PathRule;
use crate::value::{Hostname, NetworkMode, Protect, SyscallRule, View};
use crate::word::{Chosen, List, Switch, Word};

/// Statements, each with its origin and strength. Nothing is decided here: a key that is stated twice is stored
/// twice, so that `config show --origin` can show what was overridden.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// `filesystem.view`.
    pub view: Vec<Sourced<View>>,
    /// The lists of `[filesystem]`.
    pub paths: Vec<PathRule>,
    /// `filesystem.protect`.
    pub protect: Vec<Sourced<Protect>>,
    /// `filesystem.protect_names` and `filesystem.allow_names`.
    pub names: Vec<Sourced<NameChange>>,
    /// `network.mode`.
    pub network: Vec<Sourced<NetworkMode>>,
    /// `network.default`.
    pub fallback: Vec<Sourced<Fallback>>,
    /// `network.allow` and `network.deny`.
    pub hosts: Vec<NetworkRule>,
    /// `network.publish`.
    pub publish: Vec<Sourced<Publish>>,
    /// `network.reach`.
    pub reach: Vec<Sourced<u16>>,
    /// `network.proxy`.
    pub upstream_proxy: Vec<Sourced<Upstream>>,
    /// `network.dns`.
    pub upstream_dns: Vec<Sourced<NameServer>>,
    /// Lists of `[network]` that are stated as empty.
    pub closed: Vec<Sourced<NetworkList>>,
    /// The lists of `[syscalls]`.
    pub syscalls: Vec<Sourced<SyscallRule>>,
    /// `syscalls.answers`.
    pub answers: Vec<Sourced<SyscallReply>>,
    /// `process.processors`: how many processors the command sees.
    pub processors: Vec<Sourced<u32>>,
    /// `process.time`: when the clock inside starts.
    pub time: Vec<Sourced<StartTime>>,
    /// `process.hostname`.
    pub hostname: Vec<Sourced<Hostname>>,
    /// `process.uid`: the user's number inside.
    pub uid: Vec<Sourced<u32>>,
    /// `process.gid`: the group's number inside.
    pub gid: Vec<Sourced<u32>>,
    /// `process.cwd`: the working directory inside. Names one path.
    pub cwd: Vec<Sourced<PathPattern>>,
    /// `process.best_effort`: launch even without a guarantee.
    pub best_effort: Vec<Sourced<bool>>,
    /// `terminal.inherit`: keep descriptors that are terminals.
    pub inherit_terminal: Vec<Sourced<bool>>,
    /// The lists and the table of `[environment]`.
    pub environment: Vec<Sourced<EnvironmentRule>>,
    /// `[limits]`.
    pub limits: Vec<Sourced<(Limit, Amount)>>,
    /// Keys that take one of several words.
    pub chosen: Vec<Sourced<Chosen>>,
    /// Keys that take any word.
    pub words: Vec<Sourced<(Word, String)>>,
    /// Switches.
    pub switches: Vec<Sourced<(Switch, bool)>>,
    /// Keys that take a list of words.
    pub lists: Vec<Sourced<(List, String)>>,
    /// `[files]`.
    pub files: Vec<Sourced<MadeFile>>,
    /// `[hooks]`.
    pub hooks: Vec<Sourced<Hook>>,
}

impl Settings {
    /// Adds the statements of `other` after those of the same rank, and sorts by rank.
    ///
    /// The sort is stable, which makes merging associative: however layers are grouped, the result contains all
    /// statements, ordered by rank and then by the order of the given layers.
    pub(crate) fn append(&mut self, other: Self) {
        fn join<T>(mine: &mut Vec<T>, other: Vec<T>, rank: impl Fn(&T) -> Rank) {
            mine.extend(other);
            mine.sort_by_key(rank);
        }
        join(&mut self.view, other.view, Sourced::rank);
        join(&mut self.paths, other.paths, PathRule::rank);
        join(&mut self.protect, other.protect, Sourced::rank);
        join(&mut self.names, other.names, Sourced::rank);
        join(&mut self.network, other.network, Sourced::rank);
        join(&mut self.fallback, other.fallback, Sourced::rank);
        join(&mut self.hosts, other.hosts, NetworkRule::rank);
        join(&mut self.publish, other.publish, Sourced::rank);
        join(&mut self.reach, other.reach, Sourced::rank);
        join(&mut self.upstream_proxy, other.upstream_proxy, Sourced::rank);
        join(&mut self.upstream_dns, other.upstream_dns, Sourced::rank);
        join(&mut self.closed, other.closed, Sourced::rank);
        join(&mut self.syscalls, other.syscalls, Sourced::rank);
        join(&mut self.answers, other.answers, Sourced::rank);
        join(&mut self.processors, other.processors, Sourced::rank);
        join(&mut self.time, other.time, Sourced::rank);
        join(&mut self.hostname, other.hostname, Sourced::rank);
        join(&mut self.uid, other.uid, Sourced::rank);
        join(&mut self.gid, other.gid, Sourced::rank);
        join(&mut self.cwd, other.cwd, Sourced::rank);
        join(&mut self.best_effort, other.best_effort, Sourced::rank);
        join(&mut self.inherit_terminal, other.inherit_terminal, Sourced::rank);
        join(&mut self.environment, other.environment, Sourced::rank);
        join(&mut self.limits, other.limits, Sourced::rank);
        join(&mut self.chosen, other.chosen, Sourced::rank);
        join(&mut self.words, other.words, Sourced::rank);
        join(&mut self.switches, other.switches, Sourced::rank);
        join(&mut self.lists, other.lists, Sourced::rank);
        join(&mut self.files, other.files, Sourced::rank);
        join(&mut self.hooks, other.hooks, Sourced::rank);
    }

    /// The same statements without locks: a locked statement becomes an ordinary one.
    #[must_use]
    pub fn unlocked(mut self) -> Self {
        fn unlock(strength: &mut Strength) {
            if *strength == Strength::Locked {
                *strength = Strength::Set;
            }
        }
        fn each<T>(statements: &mut [Sourced<T>]) {
            statements.iter_mut().for_each(|statement| unlock(&mut statement.strength));
        }
        self.paths.iter_mut().for_each(|rule| unlock(&mut rule.strength));
        each(&mut self.view);
        each(&mut self.protect);
        each(&mut self.names);
        each(&mut self.network);
        self.hosts.iter_mut().for_each(|rule| unlock(&mut rule.strength));
        each(&mut self.fallback);
        each(&mut self.publish);
        each(&mut self.reach);
        each(&mut self.upstream_proxy);
        each(&mut self.upstream_dns);
        each(&mut self.closed);
        each(&mut self.syscalls);
        each(&mut self.answers);
        each(&mut self.processors);
        each(&mut self.time);
        each(&mut self.hostname);
        each(&mut self.uid);
        each(&mut self.gid);
        each(&mut self.cwd);
        each(&mut self.best_effort);
        each(&mut self.inherit_terminal);
        each(&mut self.environment);
        each(&mut self.limits);
        each(&mut self.chosen);
        each(&mut self.words);
        each(&mut self.switches);
        each(&mut self.lists);
        each(&mut self.files);
        each(&mut self.hooks);
        self
    }

    /// The statements of one layer.
    pub(crate) fn of_layer(mut self, layer: Layer) -> Self {
        fn only<T>(statements: &mut Vec<Sourced<T>>, layer: Layer) {
            statements.retain(|statement| statement.origin.layer == layer);
        }
        self.paths.retain(|rule| rule.origin.layer == layer);
        self.hosts.retain(|rule| rule.origin.layer == layer);
        only(&mut self.view, layer);
        only(&mut self.protect, layer);
        only(&mut self.names, layer);
        only(&mut self.network, layer);
        only(&mut self.fallback, layer);
        only(&mut self.publish, layer);
        only(&mut self.reach, layer);
        only(&mut self.upstream_proxy, layer);
        only(&mut self.upstream_dns, layer);
        only(&mut self.closed, layer);
        only(&mut self.syscalls, layer);
        only(&mut self.answers, layer);
        only(&mut self.processors, layer);
        only(&mut self.time, layer);
        only(&mut self.hostname, layer);
        only(&mut self.uid, layer);
        only(&mut self.gid, layer);
        only(&mut self.cwd, layer);
        only(&mut self.best_effort, layer);
        only(&mut self.inherit_terminal, layer);
        only(&mut self.environment, layer);
        only(&mut self.limits, layer);
        only(&mut self.chosen, layer);
        only(&mut self.words, layer);
        only(&mut self.switches, layer);
        only(&mut self.lists, layer);
        only(&mut self.files, layer);
        only(&mut self.hooks, layer);
        self
    }
}

/// The statements of one file, or of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerPolicy {
    /// Its layer.
    pub layer: Layer,
    /// The file, if it was read from one.
    pub file: Option<Arc<Path>>,
    /// `name`.
    pub name: Option<Sourced<String>>,
    /// `description`.
    pub description: Option<Sourced<String>>,
    /// `inherits`: profiles to merge before this one, in this order. The caller finds and parses them.
    pub inherits: Vec<Sourced<String>>,
    /// Whether `inherits` is stated: an empty list is a statement, too.
    pub says_inherits: bool,
    /// `features` and `without`.
    pub features: Vec<Sourced<Want>>,
    /// `conflicts`: features that can't be present together with this one.
    pub conflicts: Vec<Sourced<String>>,
    /// `when`: the conditions under which this feature is present.
    pub when: Vec<Sourced<Condition>>,
    /// `caveat`: what a user of this profile or feature should know.
    pub caveat: Option<Sourced<String>>,
    /// `[configurations]`.
    pub configurations: Vec<Configuration>,
    /// `[launch]`.
    pub launch: Option<Stanza>,
    /// `[agent]`.
    pub agent: Option<Agent>,
    /// All other statements.
    pub settings: Settings,
}

/// A variant of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Its name.
    pub name: Sourced<String>,
    /// `features` and `without`.
    pub features: Vec<Sourced<Want>>,
    /// All other statements.
    pub settings: Settings,
}

impl LayerPolicy {
    /// A layer without statements.
    #[must_use]
    pub fn empty(layer: Layer, file: Option<&Path>) -> Self {
        Self {
            layer,
            file: file.map(Arc::from),
            name: None,
            description: None,
            inherits: Vec::new(),
            says_inherits: false,
            features: Vec::new(),
            conflicts: Vec::new(),
            when: Vec::new(),
            caveat: None,
            configurations: Vec::new(),
            launch: None,
            agent: None,
            settings: Settings::default(),
        }
    }

    /// The statements of a configuration of this profile, as a layer to merge after it.
    #[must_use]
    pub fn configuration(&self, name: &str) -> Option<Self> {
        let found = self.configurations.iter().find(|found| found.name.value == name)?;
        Some(Self {
            features: found.features.clone(),
            settings: found.settings.clone(),
            ..Self::empty(self.layer, self.file.as_deref())
        })
    }
}
