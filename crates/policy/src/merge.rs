// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Merges all layers, and finds the statement that wins for each key.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::clock::StartTime;
use crate::context::Context;
use crate::environment::{EnvironmentRule, Filter};
use crate::guarantee::{Guarantee, Required};
use crate::launch::{Hook, MadeFile, When};
use crate::layer::{Layer, Origin, Sourced, Strength, Tighten, prevailing};
use crate::limits::{Amount, Limit};
use crate::names::{BuiltInName, NameChange, NameRules, UnknownName, choose};
use crate::pattern::PathPattern;
use crate::reply::{SyscallReply, order};
use crate::rule::PathRule;
use crate::settings::{LayerPolicy, Settings};
use crate::template;
use crate::value::{Hostname, Protect, SyscallRule, View};
use crate::word::{
    Bus, Chosen, HomeLock, HomePolicy, List, PassFiles, Secrets, Switch, SyscallMode, SyscallRefusal, Wait,
    Word,
};

mod network;

pub use network::Idle;

/// One of the layers a policy was merged from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The layer.
    pub layer: Layer,
    /// Its file.
    pub file: Option<Arc<Path>>,
    /// `name`.
    pub name: Option<Sourced<String>>,
    /// `description`.
    pub description: Option<Sourced<String>>,
}

/// The merged result of all layers. Overridden statements are kept, so that they can be shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    parts: Vec<Part>,
    settings: Settings,
}

/// The calls that are added to or removed from the built-in list of refused calls.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SyscallChanges {
    /// Removed from the list.
    pub allow: Vec<Sourced<String>>,
    /// Added to the list.
    pub deny: Vec<Sourced<String>>,
}

/// Merges layers in any order. Of layers of the same rank, the later one in `layers` wins.
///
/// Associative: `merge([a, b, c])` equals `merge([a]).combine(merge([b, c]))`.
#[must_use]
pub fn merge(layers: Vec<LayerPolicy>) -> Policy {
    layers.into_iter().map(Policy::from).fold(Policy::default(), Policy::combine)
}

impl From<LayerPolicy> for Policy {
    fn from(layer: LayerPolicy) -> Self {
        let mut policy = Self {
            parts: vec![Part {
                layer: layer.layer,
                file: layer.file,
                name: layer.name,
                description: layer.description,
            }],
            settings: Settings::default(),
        };
        policy.settings.append(layer.settings);
        policy
    }
}

/// The value that wins, or `value` if no statement exists.
fn or_built_in<T: Clone + Tighten>(candidates: &[Sourced<T>], value: T) -> Sourced<T> {
    prevailing(candidates).cloned().unwrap_or_else(|| Sourced {
        value,
        origin: Origin::built_in(),
        strength: Strength::Default,
    })
}

impl Policy {
    /// Adds the layers of `other` after this policy's layers of the same rank.
    #[must_use]
    pub fn combine(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self.parts.sort_by_key(|part| part.layer);
        self.settings.append(other.settings);
        self
    }

    /// The merged layers, lowest first.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Every statement, including the overridden ones, sorted by rank.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The name from the highest layer that states one.
    #[must_use]
    pub fn name(&self) -> Option<&Sourced<String>> {
        self.parts.iter().rev().find_map(|part| part.name.as_ref())
    }

    /// What the sandbox shows of the host. [`View::System`] if no layer states it.
    #[must_use]
    pub fn view(&self) -> Sourced<View> {
        or_built_in(&self.settings.view, View::System)
    }

    /// How protected names are protected. By the broker if no layer states it.
    ///
    /// A locked name also locks this statement up to that layer, or else a later layer could switch the lock off.
    #[must_use]
    pub fn protect(&self) -> Sourced<Protect> {
        let stated = &self.settings.protect;
        let locked =
            |change: &&Sourced<NameChange>| change.value.protect && change.strength == Strength::Locked;
        let Some(lock) = self.settings.names.iter().find(locked) else {
            return or_built_in(stated, Protect::Broker);
        };
        let later = stated.partition_point(|statement| statement.origin.layer <= lock.origin.layer);
        let (before, after) = stated.split_at(later);
        let floor = or_built_in(before, Protect::Broker);
        let mut all = before.to_vec();
        if floor.strength != Strength::Locked {
            all.push(Sourced { strength: Strength::Locked, origin: lock.origin.clone(), ..floor });
        }
        all.extend_from_slice(after);
        or_built_in(&all, Protect::Broker)
    }

    /// The protected names, whatever [`Policy::protect`] says: the built-in ones with the changes of `protect_names`
    /// and `allow_names`.
    #[must_use]
    pub fn names(&self) -> NameRules {
        choose::choose(&self.settings.names)
    }

    /// The statement that protects a built-in name or allows it. `None` if no statement names it.
    #[must_use]
    pub fn stated_of(&self, name: &BuiltInName) -> Option<Sourced<NameChange>> {
        choose::stated(&self.settings.names, name)
    }

    /// An entry of `allow_names` that matches no protected name, if there is one.
    #[must_use]
    pub fn unknown_name(&self) -> Option<UnknownName> {
        choose::unknown(&self.settings.names)
    }

    /// The machine's name inside.
    #[must_use]
    pub fn hostname(&self) -> Option<Sourced<Hostname>> {
        prevailing(&self.settings.hostname).cloned()
    }

    /// The user's number inside.
    #[must_use]
    pub fn uid(&self) -> Option<Sourced<u32>> {
        prevailing(&self.settings.uid).cloned()
    }

    /// The group's number inside.
    #[must_use]
    pub fn gid(&self) -> Option<Sourced<u32>> {
        prevailing(&self.settings.gid).cloned()
    }

    /// The working directory inside; expanded by [`Policy::resolve`].
    #[must_use]
    pub fn cwd(&self) -> Option<Sourced<PathPattern>> {
        prevailing(&self.settings.cwd).cloned()
    }

    /// Whether to launch even without a guarantee. No if no layer states it.
    #[must_use]
    pub fn best_effort(&self) -> Sourced<bool> {
        or_built_in(&self.settings.best_effort, false)
    }

    /// The guarantees without which the launch fails: those that are named, and all others except with
    /// [`best_effort`](Self::best_effort).
    #[must_use]
    pub fn required(&self) -> Required {
        let named = self.list(List::Guarantees);
        Required::new(
            !self.best_effort().value,
            named.iter().filter_map(|entry| Guarantee::named(&entry.value)),
        )
    }

    /// Whether the command keeps descriptors that are terminals. Yes if no layer states it.
    #[must_use]
    pub fn inherit_terminal(&self) -> Sourced<bool> {
        or_built_in(&self.settings.inherit_terminal, true)
    }

    /// The limits. A limit that is stated as unlimited is included as [`Amount::Unlimited`].
    #[must_use]
    pub fn limits(&self) -> BTreeMap<Limit, Sourced<Amount>> {
        let mut stated: BTreeMap<Limit, Vec<Sourced<Amount>>> = BTreeMap::new();
        for limit in &self.settings.limits {
            let (kind, amount) = limit.value;
            stated.entry(kind).or_default().push(Sourced {
                value: amount,
                origin: limit.origin.clone(),
                strength: limit.strength,
            });
        }
        stated.into_iter().filter_map(|(kind, amounts)| Some((kind, prevailing(&amounts)?.clone()))).collect()
    }

    /// The calls that are added to and removed from the built-in list, by name.
    #[must_use]
    pub fn syscalls(&self) -> SyscallChanges {
        let mut changes = SyscallChanges::default();
        for (name, rules) in self.lists() {
            let Some(rule) = prevailing(&rules) else {
                continue;
            };
            let list = if rule.value.allow { &mut changes.allow } else { &mut changes.deny };
            list.push(Sourced {
                value: name.to_owned(),
                origin: rule.origin.clone(),
                strength: rule.strength,
            });
        }
        changes
    }

    /// The entries of the lists, by call.
    fn lists(&self) -> BTreeMap<&str, Vec<Sourced<SyscallRule>>> {
        let mut stated: BTreeMap<&str, Vec<Sourced<SyscallRule>>> = BTreeMap::new();
        for rule in &self.settings.syscalls {
            stated.entry(&rule.value.name).or_default().push(rule.clone());
        }
        // All names are equally specific, so inside a rank a refusal beats a permission.
        stated.values_mut().for_each(|rules| rules.sort_by_key(|rule| (rule.rank(), !rule.value.allow)));
        stated
    }

    /// The replies to calls and to opening paths, in the order in which they are tried.
    #[must_use]
    pub fn answers(&self) -> Vec<Sourced<SyscallReply>> {
        order::in_order(&self.settings.answers)
    }

    /// Whether the lists of `[syscalls]` override one of [`answers`](Self::answers).
    #[must_use]
    pub fn is_outdone(&self, answer: &Sourced<SyscallReply>) -> bool {
        let lists = self.lists().remove(answer.value.question.subject()).unwrap_or_default();
        order::is_outdone(answer, &lists, &self.settings.answers)
    }

    /// How many processors the command sees.
    #[must_use]
    pub fn processors(&self) -> Option<Sourced<u32>> {
        prevailing(&self.settings.processors).cloned()
    }

    /// The time of day at which the clock inside starts.
    #[must_use]
    pub fn time(&self) -> Option<Sourced<StartTime>> {
        prevailing(&self.settings.time).cloned()
    }

    /// The filter of environment variables.
    #[must_use]
    pub fn environment(&self) -> Filter {
        Filter::new(self.settings.environment.clone())
    }

    /// Like [`Policy::environment`], with all variables filled in. A value that refers to a missing one is left out.
    #[must_use]
    pub fn environment_in(&self, context: &Context) -> Filter {
        let strangers = Context { environment: BTreeMap::new(), ..context.clone() };
        let filled = |rule: &Sourced<EnvironmentRule>| {
            let EnvironmentRule::Set { name, value } = &rule.value else { return Some(rule.clone()) };
            if rule.origin.layer == Layer::CommandLine {
                // The shell has already expanded this value.
                return Some(rule.clone());
            }
            let context = if rule.origin.layer == Layer::Project { &strangers } else { context };
            let value = template::fill(value, context).ok()?.into_string().ok()?;
            let value = EnvironmentRule::Set { name: name.clone(), value };
            Some(Sourced { value, origin: rule.origin.clone(), strength: rule.strength })
        };
        Filter::new(self.settings.environment.iter().filter_map(filled).collect())
    }

    /// The rules on paths, including the overridden ones, sorted by rank.
    #[must_use]
    pub fn path_rules(&self) -> &[PathRule] {
        &self.settings.paths
    }

    fn chosen<T>(&self, of: impl Fn(Chosen) -> Option<T>, value: T) -> Sourced<T> {
        let stated: Vec<Sourced<Chosen>> =
            self.settings.chosen.iter().filter(|chosen| of(chosen.value).is_some()).cloned().collect();
        match prevailing(&stated).and_then(|chosen| Some((of(chosen.value)?, chosen))) {
            Some((value, chosen)) => {
                Sourced { value, origin: chosen.origin.clone(), strength: chosen.strength }
            }
            None => Sourced { value, origin: Origin::built_in(), strength: Strength::Default },
        }
    }

    /// How files that arguments name may be used.
    #[must_use]
    pub fn pass_files(&self) -> Sourced<PassFiles> {
        let of = |chosen| if let Chosen::PassFiles(value) = chosen { Some(value) } else { None };
        self.chosen(of, PassFiles::None)
    }

    /// The program's home.
    #[must_use]
    pub fn home(&self) -> Sourced<HomePolicy> {
        let of = |chosen| if let Chosen::HomePolicy(value) = chosen { Some(value) } else { None };
        self.chosen(of, HomePolicy::None)
    }

    /// What happens to files in the working directory that hold secrets.
    #[must_use]
    pub fn secrets(&self) -> Sourced<Secrets> {
        let of = |chosen| if let Chosen::Secrets(value) = chosen { Some(value) } else { None };
        self.chosen(of, Secrets::Show)
    }

    /// What happens when another sandbox has the same home.
    #[must_use]
    pub fn home_lock(&self) -> Sourced<HomeLock> {
        let of = |chosen| if let Chosen::HomeLock(value) = chosen { Some(value) } else { None };
        self.chosen(of, HomeLock::None)
    }

    /// The access to the session bus. If no layer states it and one of its lists has an entry, it is filtered.
    #[must_use]
    pub fn session_bus(&self) -> Sourced<Bus> {
        let of = |chosen| if let Chosen::Session(value) = chosen { Some(value) } else { None };
        let lists = [List::See, List::Talk, List::Own, List::Call, List::Broadcast, List::Portals];
        self.chosen(of, self.bus_of(&lists))
    }

    /// The access to the system bus.
    #[must_use]
    pub fn system_bus(&self) -> Sourced<Bus> {
        let of = |chosen| if let Chosen::System(value) = chosen { Some(value) } else { None };
        let lists = [List::SystemSee, List::SystemTalk, List::SystemOwn, List::SystemCall];
        self.chosen(of, self.bus_of(&lists))
    }

    fn bus_of(&self, lists: &[List]) -> Bus {
        if lists.iter().any(|list| !self.list(*list).is_empty()) { Bus::Filtered } else { Bus::None }
    }

    /// When the sandbox ends.
    #[must_use]
    pub fn wait(&self) -> Sourced<Wait> {
        let of = |chosen| if let Chosen::Wait(value) = chosen { Some(value) } else { None };
        self.chosen(of, Wait::Command)
    }

    /// What happens to system calls that weren't learned.
    #[must_use]
    pub fn syscall_mode(&self) -> Sourced<SyscallMode> {
        let of = |chosen| if let Chosen::SyscallMode(value) = chosen { Some(value) } else { None };
        self.chosen(of, SyscallMode::Off)
    }

    /// How such calls are refused.
    #[must_use]
    pub fn syscall_refusal(&self) -> Sourced<SyscallRefusal> {
        let of = |chosen| if let Chosen::SyscallRefusal(value) = chosen { Some(value) } else { None };
        self.chosen(of, SyscallRefusal::Errno)
    }

    /// The value of a key that takes any word.
    #[must_use]
    pub fn word(&self, word: Word) -> Option<Sourced<String>> {
        let stated = self.settings.words.iter().filter(|stated| stated.value.0 == word);
        let stated: Vec<Sourced<Verbatim>> = stated
            .map(|stated| Sourced {
                value: Verbatim(stated.value.1.clone()),
                origin: stated.origin.clone(),
                strength: stated.strength,
            })
            .collect();
        let word = prevailing(&stated)?.clone();
        Some(Sourced { value: word.value.0, origin: word.origin, strength: word.strength })
    }

    /// Whether a switch is on.
    #[must_use]
    pub fn switch(&self, switch: Switch) -> Sourced<bool> {
        let stated = self.settings.switches.iter().filter(|stated| stated.value.0 == switch);
        let stated: Vec<Sourced<bool>> = stated
            .map(|stated| Sourced {
                value: stated.value.1,
                origin: stated.origin.clone(),
                strength: stated.strength,
            })
            .collect();
        or_built_in(&stated, matches!(switch, Switch::WorkingDirectory | Switch::Caches))
    }

    /// The entries of a list, lowest layer first, each once. A locked entry closes the list: later layers add
    /// nothing.
    #[must_use]
    pub fn list(&self, list: List) -> Vec<Sourced<String>> {
        let stated = self.settings.lists.iter().filter(|stated| stated.value.0 == list);
        let stated: Vec<_> = match list {
            // An administrator's lock must not keep a user from requiring more.
            List::Guarantees => stated.collect(),
            _ => open(stated).collect(),
        };
        let mut out: Vec<Sourced<String>> = Vec::new();
        for stated in stated {
            // The order and number of arguments matter; the other lists are sets.
            let ordered = matches!(list, List::Arguments | List::Wrapper);
            if ordered || !out.iter().any(|known| known.value == stated.value.1) {
                out.push(Sourced {
                    value: stated.value.1.clone(),
                    origin: stated.origin.clone(),
                    strength: stated.strength,
                });
            }
        }
        out
    }

    /// The files that are made. The last statement for each path wins.
    #[must_use]
    pub fn made_files(&self) -> Vec<Sourced<MadeFile>> {
        let mut out: Vec<Sourced<MadeFile>> = Vec::new();
        for file in open(self.settings.files.iter()) {
            out.retain(|known| known.value.path != file.value.path);
            out.push(file.clone());
        }
        out
    }

    /// The hooks, in the order in which they run. The last `parent` hook wins.
    #[must_use]
    pub fn hooks(&self) -> Vec<Sourced<Hook>> {
        let mut out: Vec<Sourced<Hook>> = Vec::new();
        for hook in open(self.settings.hooks.iter()) {
            if hook.value.when == When::Parent {
                out.retain(|known| known.value.when != When::Parent);
            }
            out.push(hook.clone());
        }
        out
    }

    /// Whether the policy means something else in another working directory. Ignores the built-in layer.
    #[must_use]
    pub fn depends_on_cwd(&self) -> bool {
        let settings = &self.settings;
        let own = settings
            .paths
            .iter()
            .filter(|rule| rule.origin.file.is_some() || rule.origin.layer != Layer::BuiltIn);
        let patterns = own.flat_map(|rule| std::iter::once(&rule.pattern).chain(&rule.destination));
        let made = settings.files.iter().map(|file| &file.value.path);
        let texts = settings.lists.iter().map(|stated| stated.value.1.as_str());
        let words = settings.words.iter().map(|stated| stated.value.1.as_str());
        let contents = settings.files.iter().map(|file| file.value.content.as_str());
        let set = settings.environment.iter().filter_map(|rule| match &rule.value {
            EnvironmentRule::Set { value, .. } => Some(value.as_str()),
            _ => None,
        });
        let hooks = settings.hooks.iter().flat_map(|hook| hook.value.arguments.iter().map(String::as_str));
        patterns.chain(made).any(PathPattern::depends_on_cwd)
            || texts.chain(words).chain(contents).chain(set).chain(hooks).any(template::depends_on_cwd)
    }

    /// The caller's variables that the policy refers to by `${NAME}`.
    #[must_use]
    pub fn variables(&self) -> BTreeSet<String> {
        let settings = &self.settings;
        let patterns = settings.paths.iter().flat_map(|rule| {
            std::iter::once(&rule.pattern).chain(&rule.destination).filter_map(PathPattern::as_str)
        });
        let texts = settings.lists.iter().map(|stated| stated.value.1.as_str());
        let words = settings.words.iter().map(|stated| stated.value.1.as_str());
        let files = settings
            .files
            .iter()
            .flat_map(|file| [file.value.content.as_str()].into_iter().chain(file.value.path.as_str()));
        let set = settings.environment.iter().filter_map(|rule| match &rule.value {
            EnvironmentRule::Set { value, .. } if rule.origin.layer != Layer::CommandLine => {
                Some(value.as_str())
            }
            _ => None,
        });
        let hooks = settings.hooks.iter().flat_map(|hook| hook.value.arguments.iter().map(String::as_str));
        patterns
            .chain(texts)
            .chain(words)
            .chain(files)
            .chain(set)
            .chain(hooks)
            .flat_map(template::variables)
            .collect()
    }
}

/// A word without an order: it equals a lock or loosens it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Verbatim(String);

impl Tighten for Verbatim {
    fn loosens(&self, lock: &Self) -> bool {
        self != lock
    }
}

/// The statements up to the layer of the first locked one.
fn open<'s, T: 's>(stated: impl Iterator<Item = &'s Sourced<T>>) -> impl Iterator<Item = &'s Sourced<T>> {
    let mut closed: Option<Layer> = None;
    stated.filter(move |stated| {
        let fine = closed.is_none_or(|layer| stated.origin.layer <= layer);
        if fine && stated.strength == Strength::Locked {
            closed = closed.or(Some(stated.origin.layer));
        }
        fine
    })
}
