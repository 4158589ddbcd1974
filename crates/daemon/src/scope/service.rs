// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The service of scopes: the loaded eBPF programs, the settings and the list of scopes.
//!
//! The programs are loaded at the first request for a scope, or reused if they are pinned. Without scopes nothing is attached.

use super::error::ScopeError;
use super::group::{self, Group};
use super::log::Log;
use super::translation::{boot_time, lacking, of_kernel, of_scope, profile_of_kernel};
use super::{event, process, proof, rare};
use crate::followers::{Followers, News};
use crate::log::chain;
use crate::options::{Feature, Options};
use crate::saying::say;
use crate::waker::Waker;
use palisade_bpf::scope::{self as kernel, Lacks, ScopePrograms};
use palisade_bpf::{Pins, support};
use palisade_protocol::scope::{Depth, Profile, Scope, Status, Verdict};
use palisade_scopes::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::os::linux::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most scopes of one ordinary user.
const EACH: usize = 256;

/// What the daemon knows of a scope in addition to the kernel.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) owner: u32,
    pub(super) label: String,
    pub(super) terminal: Option<PathBuf>,
    pub(super) profile: Option<Profile>,
    pub(super) group: Option<Group>,
}

/// The part of the service that changes.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) programs: Option<Arc<ScopePrograms>>,
    because: Option<String>,
    refuses_not: Option<String>,
    pinned: bool,
    pub(super) settings: Settings,
    pub(super) scopes: BTreeMap<u32, Known>,
    next: u32,
    /// Device and inode, as `stat` reports them, of each file that is denied by path.
    pub(super) listed: BTreeSet<(u64, u64)>,
}

/// The service of scopes.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) state: Mutex<State>,
    pub(super) followers: Followers,
    pub(super) log: Log,
    pub(super) stop: AtomicBool,
    /// Wakes the thread that reads events, when programs were loaded or the service ends.
    pub(super) changed: Waker,
    pub(super) killed_later: AtomicU64,
    pins: Pins,
    depth: Option<Depth>,
    without: Lacks,
    alarms: Mutex<Vec<String>>,
}

impl Service {
    pub(super) fn new(options: &Options, settings: Settings) -> std::io::Result<Self> {
        Ok(Self {
            state: Mutex::new(State { settings, ..State::default() }),
            followers: Followers::default(),
            log: Log::new(&options.state),
            stop: AtomicBool::new(false),
            changed: Waker::new()?,
            killed_later: AtomicU64::new(0),
            pins: Pins::below(&options.scope_pins),
            depth: options.enforcement_depth,
            without: Lacks {
                task_by_number: options.without.contains(&Feature::TaskByNumber),
                task_storage: options.without.contains(&Feature::TaskStorage),
                ring_buffer: options.without.contains(&Feature::RingBuffer),
            },
            alarms: Mutex::default(),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Raises an alarm.
    pub(super) fn alarm(&self, what: String) {
        let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        if alarms.len() < 100 && !alarms.contains(&what) {
            say(&format!("palisaded: alarm: scopes: {what}"));
            alarms.push(what);
        }
    }

    /// Reuses the programs that another daemon pinned. Mounts the file system for pins, because the daemon can't mount later.
    pub(super) fn take_over(&self) {
        // A failure is reported when there is something to pin.
        let _where_it_can = self.pins.mount();
        if self.pins.exist() {
            let mut state = self.state();
            if let Err(error) = self.ensure(&mut state) {
                self.alarm(error.to_string());
            }
        }
    }

    /// The eBPF programs; loads them if they aren't loaded.
    pub(super) fn ensure(&self, state: &mut State) -> Result<Arc<ScopePrograms>, ScopeError> {
        if let Some(programs) = &state.programs {
            return Ok(Arc::clone(programs));
        }
        if !process::sees_first_namespace() {
            let why = "palisaded doesn't run in the initial PID namespace".to_owned();
            state.because = Some(why.clone());
            return Err(ScopeError::NotHere(why));
        }
        let found = match ScopePrograms::open(&self.pins) {
            Ok(found) => found,
            Err(error) => {
                self.alarm(format!(
                    "can't reuse the pinned eBPF programs, loading new ones: {}",
                    chain(&error)
                ));
                self.pins.clear()?;
                None
            }
        };
        let programs = match found {
            Some(programs) => {
                state.pinned = true;
                state.refuses_not = self.hook_again(&programs);
                programs
            }
            None => match self.load(state) {
                Ok(programs) => programs,
                Err(error) => {
                    let why = match support::absence(&error) {
                        Some(absence) => absence.to_string(),
                        None => chain(&error),
                    };
                    state.because = Some(why.clone());
                    return Err(ScopeError::NotHere(why));
                }
            },
        };
        state.because = None;
        for words in lacking(programs.lacks()) {
            self.alarm(words.into());
        }
        let programs = Arc::new(programs);
        state.programs = Some(Arc::clone(&programs));
        self.changed.wake();
        for scope in programs.scopes()? {
            let terminal = if scope.line { None } else { process::terminal(scope.root) };
            let known = Known {
                owner: scope.owner,
                label: scope.label,
                terminal,
                profile: profile_of_kernel(scope.profile),
                group: Group::find(scope.id),
            };
            state.scopes.insert(scope.id, known);
            state.next = state.next.max(scope.id);
        }
        for (number, arguments) in rare::calls() {
            programs.watch_call(number, arguments)?;
        }
        self.apply(state)?;
        self.watch_calls(state)?;
        Ok(programs)
    }

    fn load(&self, state: &mut State) -> Result<ScopePrograms, palisade_bpf::Error> {
        let mut programs = ScopePrograms::load_without(self.without, None)?;
        state.refuses_not = match programs.refuse_at_hook() {
            Ok(()) => match proof::refuses(&programs) {
                Ok(true) => None,
                Ok(false) => Some("the kernel doesn't call programs at its security hooks".into()),
                Err(error) => Some(format!("can't test whether the kernel calls programs: {error}")),
            },
            Err(error) => Some(match support::absence(&error) {
                Some(absence) => absence.to_string(),
                None => chain(&error),
            }),
        };
        if state.refuses_not.is_some() {
            programs.leave_hook()?;
        }
        // Forget the counts of the proof: it belongs to no scope.
        programs.forget()?;
        state.pinned = match programs.pin(&self.pins) {
            Ok(()) => true,
            Err(error) => {
                self.alarm(format!("scopes end with palisaded: {}", chain(&error)));
                false
            }
        };
        Ok(programs)
    }

    /// Why the pinned programs don't refuse, if they don't. The palisaded that loaded them did the proof; another proof would
    /// need to end the scopes in force.
    fn hook_again(&self, programs: &ScopePrograms) -> Option<String> {
        let attached = programs.refuses();
        let said = programs.settings().is_ok_and(|settings| settings.lsm);
        if said && !attached {
            self.alarm(
                "the program at the security hook is gone: palisaded kills instead of refusing".into(),
            );
            if let Err(error) = programs.change(|settings| settings.lsm = false) {
                self.alarm(chain(&error));
            }
        }
        let again = "sudo palisade scope clear repeats the test";
        (!said || !attached)
            .then(|| format!("the palisaded that loaded the programs found that no hook is called; {again}"))
    }

    /// Puts the settings in force.
    pub(super) fn apply(&self, state: &mut State) -> Result<(), ScopeError> {
        let Settings { depth, profile, denied, .. } = state.settings.clone();
        let mut listed = BTreeSet::new();
        let Some(programs) = state.programs.clone() else { return Ok(()) };
        if profile == Profile::Session && programs.lacks().ring_buffer {
            self.alarm(ScopeError::Deaf.to_string());
        }
        for name in &denied.names {
            if !ScopePrograms::fits(name.as_bytes()) {
                self.alarm(format!("the name {name:?} can't be denied"));
            }
        }
        let mut files = Vec::new();
        for path in &denied.files {
            let Ok(found) = std::fs::metadata(path) else {
                // The file may be made later; then the settings have to be read again.
                continue;
            };
            let device = (rustix::fs::major(found.st_dev()), rustix::fs::minor(found.st_dev()));
            files.push((device, found.st_ino()));
            listed.insert((found.st_dev(), found.st_ino()));
        }
        programs.deny_only(&files, denied.names.iter().map(String::as_bytes))?;
        state.listed = listed;
        programs.change(|settings| {
            settings.depth = match depth {
                Depth::OneLevel => kernel::Depth::OneLevel,
                Depth::Ancestry(hops) => kernel::Depth::Ancestry(hops),
                Depth::PropagateOnFork => kernel::Depth::Inherit,
                Depth::Cgroup => kernel::Depth::Cgroup { level: group::LEVEL },
            };
            settings.report = profile != Profile::Prompt;
            settings.strict = profile == Profile::Strict;
            settings.memory = denied.memory;
        })?;
        Ok(())
    }

    /// Changes the depth, the profile, or other settings.
    pub(super) fn change(&self, change: impl FnOnce(&mut Settings)) -> Result<(), ScopeError> {
        let mut state = self.state();
        let mut settings = state.settings.clone();
        change(&mut settings);
        let deaf = state.programs.as_ref().is_some_and(|programs| programs.lacks().ring_buffer);
        if deaf && settings.profile == Profile::Session && state.settings.profile != Profile::Session {
            return Err(ScopeError::Deaf);
        }
        state.settings = settings;
        self.apply(&mut state)?;
        self.watch_calls(&mut state)
    }

    /// Fails if execs must be refused and can't be: killing instead needs the caller's consent.
    pub(super) fn must_refuse(
        state: &State,
        programs: &ScopePrograms,
        verdict: Verdict,
    ) -> Result<(), ScopeError> {
        if verdict != Verdict::Refuse || programs.settings()?.lsm {
            return Ok(());
        }
        let why = state.refuses_not.clone();
        Err(ScopeError::CantRefuse(
            why.unwrap_or_else(|| "no program is attached to the kernel's exec hook".into()),
        ))
    }

    /// Puts the settings of the file in force.
    pub(super) fn reload(&self, mut settings: Settings) -> Result<(), ScopeError> {
        settings.depth = self.depth.unwrap_or(settings.depth);
        let mut state = self.state();
        state.settings = settings;
        self.apply(&mut state)?;
        self.watch_calls(&mut state)
    }

    /// Watches rare calls only while any scope asks for it.
    pub(super) fn watch_calls(&self, state: &mut State) -> Result<(), ScopeError> {
        let Some(programs) = &state.programs else { return Ok(()) };
        let mut wanted = false;
        for id in state.scopes.keys() {
            wanted |= programs.scope(*id)?.is_some_and(|scope| scope.calls);
        }
        Ok(programs.watch_calls(wanted)?)
    }

    /// A free number for a new scope.
    pub(super) fn number(&self, state: &mut State, owner: u32) -> Result<u32, ScopeError> {
        let own = state.scopes.values().filter(|known| known.owner == owner).count();
        if owner != 0 && own >= EACH {
            return Err(ScopeError::TooMany(own));
        }
        if state.scopes.len() >= kernel::SCOPES as usize - 1 {
            return Err(ScopeError::TooMany(state.scopes.len()));
        }
        loop {
            state.next = state.next.wrapping_add(1).max(1);
            let slot = state.next % kernel::SCOPES;
            if state.scopes.keys().all(|id| id % kernel::SCOPES != slot) {
                return Ok(state.next);
            }
        }
    }

    /// The state of the service.
    pub(super) fn status(&self) -> Status {
        let mut state = self.state();
        let programs = self.ensure(&mut state).ok();
        let totals = programs.as_ref().and_then(|programs| programs.totals().ok()).unwrap_or_default();
        let marked = |programs: &Arc<ScopePrograms>| {
            let live = Self::live(&state, programs).unwrap_or_default();
            live.values().sum::<u64>()
        };
        let denied = &state.settings.denied;
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            in_force: programs.is_some(),
            because: state.because.clone(),
            depth: state.settings.depth,
            profile: state.settings.profile,
            refuses: programs
                .as_ref()
                .is_some_and(|programs| programs.settings().is_ok_and(|settings| settings.lsm)),
            refuses_not: state.refuses_not.clone(),
            pinned: (programs.is_some() && state.pinned).then(|| self.pins.directory().display().to_string()),
            scopes: state.scopes.len(),
            marked: programs.as_ref().map_or(0, marked),
            denied: [denied.names.len(), denied.files.len(), denied.contents.len()],
            execs: totals.execs,
            killed: totals.killed,
            killed_later: self.killed_later.load(Ordering::Relaxed),
            refused: totals.refused,
            lost: totals.lost,
            missed: self.followers.missed(),
            unmarked: totals.unmarked,
            overflowed: totals.overflowed,
            alarms: self.alarms.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// The scopes of one user, or of all.
    pub(super) fn list(&self, owner: Option<u32>) -> Result<Vec<Scope>, ScopeError> {
        let state = self.state();
        let Some(programs) = &state.programs else { return Ok(Vec::new()) };
        let now = boot_time();
        let live = Self::live(&state, programs)?;
        let mut scopes = Vec::new();
        for (id, known) in &state.scopes {
            if owner.is_some_and(|owner| owner != known.owner) {
                continue;
            }
            let Some(held) = programs.scope(*id)?.filter(|held| held.id == *id) else { continue };
            scopes.push(Scope {
                scope: *id,
                owner: known.owner,
                verdict: of_scope(held.verdict),
                label: known.label.clone(),
                root: held.root,
                live: live.get(id).copied().unwrap_or(0),
                ever: held.ever,
                age: now.saturating_sub(held.began).as_secs(),
                calls: held.calls,
            });
        }
        Ok(scopes)
    }

    /// Sets the verdict for execs in a scope.
    pub(super) fn judge(&self, uid: u32, id: u32, verdict: Verdict) -> Result<(), ScopeError> {
        let state = self.state();
        let known = state.scopes.get(&id).filter(|known| uid == 0 || known.owner == uid);
        let (Some(_), Some(programs)) = (known, &state.programs) else {
            return Err(ScopeError::NoScope(id));
        };
        Self::must_refuse(&state, programs, verdict)?;
        match programs.judge(id, of_kernel(verdict))? {
            kernel::Outcome::NoScope => Err(ScopeError::NoScope(id)),
            _ => Ok(()),
        }
    }

    /// Ends scopes. Returns how many.
    pub(super) fn clear(&self, uid: u32, only: Option<u32>) -> Result<usize, ScopeError> {
        let mut state = self.state();
        let mine = |known: &Known| uid == 0 || known.owner == uid;
        let ids: Vec<u32> = match only {
            Some(id) if state.scopes.get(&id).is_some_and(mine) => vec![id],
            Some(id) => return Err(ScopeError::NoScope(id)),
            None => state.scopes.iter().filter(|(_, known)| mine(known)).map(|(id, _)| *id).collect(),
        };
        for id in &ids {
            Self::close(&mut state, *id)?;
        }
        if only.is_none() && uid == 0 {
            self.retire(&mut state)?;
        } else {
            self.watch_calls(&mut state)?;
        }
        Ok(ids.len())
    }

    /// Removes the programs and their pins.
    fn retire(&self, state: &mut State) -> Result<(), ScopeError> {
        match state.programs.take() {
            Some(programs) => programs.retire(&self.pins)?,
            None => drop(self.pins.clear()?),
        }
        state.pinned = false;
        Ok(())
    }

    /// Ends one scope.
    pub(super) fn close(state: &mut State, id: u32) -> Result<(), ScopeError> {
        let known = state.scopes.remove(&id);
        if let Some(programs) = &state.programs {
            programs.close_scope(id)?;
            if let Some(group) = known.and_then(|known| known.group) {
                programs.unmark_group(group.number)?;
                group.remove();
            }
        }
        Ok(())
    }

    /// The number of live processes of each scope.
    fn live(state: &State, programs: &ScopePrograms) -> Result<BTreeMap<u32, u64>, ScopeError> {
        let mut live = BTreeMap::new();
        for (_, scope) in programs.sweep()? {
            *live.entry(scope).or_default() += 1;
        }
        for (id, known) in &state.scopes {
            if let Some(group) = &known.group {
                live.insert(*id, group.population());
            } else if programs.scope(*id)?.is_some_and(|held| held.beyond > 0) {
                // Marks in task storage are in no table, so every process has to be checked.
                let all = process::all();
                let inside = all.filter(|pid| programs.scope_of(*pid).is_ok_and(|scope| scope == Some(*id)));
                live.insert(*id, inside.count() as u64);
            }
        }
        Ok(live)
    }

    /// Ends those scopes that no process is in any more.
    pub(super) fn sweep(&self) {
        let mut state = self.state();
        let Some(programs) = state.programs.clone() else { return };
        if let Err(error) = self.sweep_all(&mut state, &programs) {
            self.alarm(error.to_string());
        }
    }

    fn sweep_all(&self, state: &mut State, programs: &ScopePrograms) -> Result<(), ScopeError> {
        let ever = |state: &State| {
            let each = state.scopes.keys().map(|id| Ok((*id, programs.scope(*id)?.map(|held| held.ever))));
            each.collect::<Result<BTreeMap<u32, Option<u64>>, ScopeError>>()
        };
        // A process that forks meanwhile is seen alive, or its child increases the count. So a scope is empty if no process was
        // seen and the count is unchanged.
        let before = ever(state)?;
        let live = Self::live(state, programs)?;
        let after = ever(state)?;
        let empty = |id: &u32| live.get(id).is_none_or(|live| *live == 0) && before.get(id) == after.get(id);
        let over: Vec<u32> = state.scopes.keys().copied().filter(empty).collect();
        for id in &over {
            let known = state.scopes.get(id).cloned().unwrap_or_default();
            Self::close(state, *id)?;
            let event = event::ended(*id, known.owner);
            self.log.take(&event, None);
            self.followers.tell(News { event: event.into(), user: Some(known.owner), logged: true });
        }
        if over.is_empty() { Ok(()) } else { self.watch_calls(state) }
    }

    /// Called when the daemon ends: removes the programs if there are no scopes.
    pub(super) fn leave(&self) {
        self.sweep();
        let mut state = self.state();
        if state.scopes.is_empty()
            && state.programs.is_some()
            && let Err(error) = self.retire(&mut state)
        {
            say(&format!("palisaded: alarm: scopes: {error}"));
        }
    }
}
