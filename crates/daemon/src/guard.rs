// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The running guard, and what changes the rules in force.
//!
//! - [`begin`]: begins and ends the guard's parts
//! - [`requests`]: answers requests
//! - [`error`]: why the guard doesn't begin or refuses a request

mod begin;
mod error;
mod requests;

pub(crate) use begin::run;
pub(crate) use error::GuardError;

use crate::alarms::{Alarms, Trouble};
use crate::essential;
use crate::followers::{Followers, Following, Interest};
use crate::kinds::{Kinds, Nursery};
use crate::lsm::Lsm;
use crate::options::Options;
use crate::saying::say;
use crate::territory::Territory;
use crate::trial::{Before, Trial};
use crate::trust_updater::TrustUpdater;
use crate::waker::Waker;
use palisade_guard::decide::Decider;
use palisade_guard::facts::Access;
use palisade_guard::rule::files::Writers;
use palisade_guard::safety::{self, Stopped};
use palisade_guard::settings::Mode;
use palisade_guard::setup::{Setup, SetupError};
use palisade_guard::trusted::Trusted;
use palisade_guard::watch::Judged;
use palisade_guard::watch::engine::Engine;
use palisade_guard::watch::policy::Policy;
use palisade_protocol::guard::Mechanism;
use palisade_text::Show as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A running guard.
pub(crate) struct Guard {
    options: Options,
    pub(crate) engine: Arc<Engine>,
    territory: Arc<Territory>,
    followers: Arc<Followers>,
    trial: Trial,
    pub(crate) trust_updater: TrustUpdater,
    /// The connection to the process that runs libmagic.
    pub(crate) kinds: Arc<Kinds>,
    /// The process that runs libmagic, until the supervisor takes it.
    pub(crate) nursery: Mutex<Option<Nursery>>,
    generation: AtomicU64,
    began: Instant,
    stop: Arc<AtomicBool>,
    /// Wakes the main thread.
    waker: Waker,
    pub(crate) alarms: Alarms,
    lsm: Result<Arc<Lsm>, String>,
    /// Whether to read the mounts again, because the last attempt had no free descriptor.
    looks_again: AtomicBool,
    /// Whether a request asked the guard to end.
    asked_to_end: AtomicBool,
    /// Whether the guard judges nothing because the trust database isn't there.
    incomplete: AtomicBool,
    journal: SyncSender<Judged>,
    /// Held by the thread that changes what is in force; one thread at a time.
    changing: Mutex<()>,
}

/// A follower of decisions as they are made, until this is dropped.
pub(crate) struct Follower<'g> {
    guard: &'g Guard,
    pub(crate) following: Following,
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        let Guard { followers, engine, .. } = self.guard;
        // When no follower wants all events, the kernel may answer by itself again.
        followers.remove(self.following.number, |all| engine.follow_all(all));
    }
}

/// Checks whether these rules would stop the host.
fn check_safety(policy: &Policy, trust: &Trusted, options: &Options) -> Result<(), GuardError> {
    let decider = Decider::new(&policy.rules);
    let stopped = safety::stopped(&decider, trust, &essential::own_programs());
    if stopped.is_empty() || options.force {
        return Ok(());
    }
    let say = |stopped: &Stopped| {
        let verb = if stopped.access == Access::Execute { "be executed" } else { "be opened" };
        let rule = stopped.rule.map_or_else(String::new, |rule| format!(" by {}", policy.origin(rule)));
        format!("{} could not {verb}{rule} ({})", stopped.path.shown(), stopped.what)
    };
    let mut said: Vec<String> = stopped.iter().take(3).map(say).collect();
    if stopped.len() > 3 {
        said.push(format!("and {} more", stopped.len() - 3));
    }
    Err(GuardError::Unsafe(said))
}

impl Guard {
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends the guard's threads. From then on the kernel allows everything.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Ends the guard on request. Also removes what would stay in force after the guard's death.
    pub(crate) fn end(&self) {
        self.asked_to_end.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Refuses what the rules deny from now on, or only reports it.
    fn enforce(&self, enforce: bool) {
        self.engine.enforce(enforce);
        if enforce {
            self.alarms.clear(Trouble::OnlySaid);
            self.alarms.clear(Trouble::Trial);
        }
    }

    /// Sets the mode of BPF LSM to that of the rules: refuse, only report, or neither.
    fn follow_mode(&self) {
        let Ok(lsm) = &self.lsm else { return };
        let incomplete = self.incomplete.load(Ordering::Relaxed);
        self.follows(lsm.set_mode((!incomplete).then(|| self.engine.is_enforcing())));
    }

    /// Labels the files that must stay usable after the guard has died. The caller must hold `changing`.
    fn label_essential(&self) {
        if let Ok(lsm) = &self.lsm {
            essential::label(lsm, &self.engine.policy(), &self.engine.trust());
            lsm.begin_grace();
        }
    }

    /// Watches the mounts as the settings say. If the mounts can't be read now, the main thread tries again.
    pub(super) fn look_at_mounts(&self) {
        let watch = self.engine.policy().settings.watch.clone();
        let mounts = std::fs::read("/proc/self/mountinfo");
        if mounts.is_ok_and(|text| self.territory.look(&self.engine, &text, &watch)) {
            self.alarms.clear(Trouble::Mounts);
        } else {
            let what =
                "the mounts can't be read, so new mounts aren't watched: descriptors or memory are used up";
            self.alarms.raise_once(Trouble::Mounts, what.to_owned());
            self.looks_again.store(true, Ordering::Relaxed);
            self.waker.wake();
        }
        self.follow_scope();
    }

    /// Makes BPF LSM skip what the settings leave out.
    fn follow_scope(&self) {
        let Ok(lsm) = &self.lsm else { return };
        let asked = self.engine.policy().settings.watch.asked;
        self.follows(lsm.set_scope(asked, &self.territory.left_out()));
    }

    fn follows<E: std::fmt::Display>(&self, followed: Result<(), E>) {
        match followed {
            Ok(()) => _ = self.alarms.clear(Trouble::Lsm),
            Err(error) => self.alarms.raise(Trouble::Lsm, format!("bpf-lsm can't be updated: {error}")),
        }
    }

    /// Whether the kernel refuses what fanotify didn't ask about.
    fn lsm_refuses(&self) -> bool {
        self.lsm.as_ref().is_ok_and(|lsm| lsm.mechanism().in_force)
    }

    /// The mechanisms that decide on this host, best first.
    fn mechanisms(&self) -> Vec<Mechanism> {
        let fanotify = Mechanism {
            name: "fanotify".into(),
            in_force: true,
            because: "the kernel asks about each open and exec of the watched file systems".into(),
        };
        let lsm = match &self.lsm {
            Ok(lsm) => lsm.mechanism(),
            Err(reason) => Mechanism { name: "bpf-lsm".into(), in_force: false, because: reason.clone() },
        };
        vec![fanotify, lsm]
    }

    /// Begins to follow decisions as they are made. If `past`, the remembered decisions come first.
    pub(crate) fn follow(&self, interest: Interest, past: bool) -> Follower<'_> {
        let following = self.followers.add(interest, past, |all| self.engine.follow_all(all));
        if interest.all {
            // What the kernel answers by itself isn't reported, so make it ask about everything.
            self.engine.ask_about_all();
        }
        Follower { guard: self, following }
    }

    fn changing(&self) -> std::sync::MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads settings, rules and trust files again. If one can't be understood, nothing changes.
    pub(crate) fn reload(&self, force: bool) -> Result<String, GuardError> {
        let _one = self.changing();
        let setup = Setup::read(&self.options.config, None, Writers::RootOnly)?;
        let enforce = setup.settings.mode == Mode::Enforce && !self.options.permissive;
        let policy = self.policy(setup)?;
        let mut said = format!("{} rules from {} are in force", policy.rules.len(), policy.from);
        let before = self.engine.policy();
        let mechanisms = |policy: &Policy| (policy.settings.backend, policy.settings.on_death);
        if mechanisms(&before) != mechanisms(&policy) {
            said.push_str("; the new backend and on-death take effect when palisaded is restarted");
        }
        if enforce && !force {
            check_safety(&policy, &self.engine.trust(), &self.options)?;
        }
        self.put_in_force(policy, enforce)?;
        self.trial.keep();
        self.alarms.clear(Trouble::Reload);
        self.trust_updater.look_again();
        Ok(said)
    }

    fn policy(&self, setup: Setup) -> Result<Policy, GuardError> {
        let generation = self.generation.load(Ordering::Relaxed) + 1;
        Ok(Policy::new(setup.settings, setup.rules, setup.linkers, setup.from, generation)
            .map_err(SetupError::from)?)
    }

    fn put_in_force(&self, policy: Policy, enforce: bool) -> Result<(), GuardError> {
        let policy = Arc::new(policy);
        self.engine.replace(|in_force| in_force.policy = policy).map_err(GuardError::Replace)?;
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.enforce(enforce);
        self.look_at_mounts();
        self.follow_mode();
        self.label_essential();
        Ok(())
    }

    /// Puts another trust database in force.
    pub(crate) fn trust(&self, trust: Trusted) -> Result<(), GuardError> {
        let _one = self.changing();
        let policy = self.engine.policy();
        let enforce = policy.settings.mode == Mode::Enforce && !self.options.permissive;
        let begins = enforce && !self.engine.is_enforcing() && self.trial.left().is_none();
        let safe =
            if begins && !self.options.force { check_safety(&policy, &trust, &self.options) } else { Ok(()) };
        let trust = Arc::new(trust);
        self.engine.replace(|in_force| in_force.trust = trust).map_err(GuardError::Replace)?;
        let complete = self.engine.trust().store().is_some();
        if complete {
            self.incomplete.store(false, Ordering::Relaxed);
        }
        if complete {
            let was_incomplete = self.alarms.clear(Trouble::NoTrust);
            match safe {
                _ if !begins || !was_incomplete => {}
                Ok(()) => {
                    self.engine.enforce(true);
                    say("palisaded: the trust database is ready: what the rules deny is refused from now on");
                }
                // The database is in force even if the rules aren't safe: an administrator needs it to find out why.
                Err(error) => {
                    self.alarms
                        .raise(Trouble::OnlySaid, format!("what the rules deny is only reported: {error}"));
                }
            }
        }
        self.follow_mode();
        self.label_essential();
        Ok(())
    }

    fn go_back(&self, before: Before) {
        let _one = self.changing();
        let Before { policy, enforcing } = before;
        if let Err(errno) = self.engine.replace(|in_force| in_force.policy = policy) {
            let what = format!("the trial can't be reverted ({errno}): nothing is refused any more");
            self.alarms.raise(Trouble::Trial, what);
            self.engine.enforce(false);
            self.follow_mode();
            return;
        }
        self.enforce(enforcing);
        self.look_at_mounts();
        self.follow_mode();
        self.label_essential();
    }
}
