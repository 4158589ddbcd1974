// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Begins the parts of a guard, and ends them.

use super::{Guard, GuardError, check_safety};
use crate::alarms::{Alarms, Trouble};
use crate::followers::Followers;
use crate::kinds::Nursery;
use crate::log::{DecisionLog, QUEUE};
use crate::lsm::{Labels, Lsm};
use crate::options::Options;
use crate::saying::say;
use crate::supervisor::{Systemd, supervise};
use crate::territory::Territory;
use crate::trial::Trial;
use crate::trust_updater::{PATIENCE, TrustUpdater};
use crate::waker::Waker;
use crate::{confinement, control, privileges};
use palisade_guard::rule::files::Writers;
use palisade_guard::settings::{Backend, Mode, OnDeath};
use palisade_guard::setup::{Setup, SetupError};
use palisade_guard::trusted::Trusted;
use palisade_guard::watch::engine::{Engine, InForce};
use palisade_guard::watch::later::Settle;
use palisade_guard::watch::policy::Policy;
use palisade_guard::watch::waiting::READERS;
use palisade_guard::watch::workers::THREADS;
use palisade_sys::fanotify::{Gate, NotificationGroup};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// How long to wait before reading the mounts again after a failure.
const LOOKS_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// Runs the guard until a signal or a request ends it.
pub(crate) fn run(options: &Options) -> Result<(), GuardError> {
    let setup = Setup::read(&options.config, None, Writers::RootOnly)?;
    if options.check {
        say(&format!("palisaded: {} rules from {} are valid", setup.rules.len(), setup.from));
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        return Err(GuardError::RootOnly);
    }
    palisade_sys::memory::keep_large_blocks_apart();
    privileges::prepare();
    let terminate = Arc::new(AtomicBool::new(false));
    let reload = Arc::new(AtomicBool::new(false));
    for (signal, flag) in [(SIGTERM, &terminate), (SIGINT, &terminate), (SIGHUP, &reload)] {
        signal_hook::flag::register(signal, Arc::clone(flag)).map_err(GuardError::Begin)?;
    }
    let waker = Waker::new().map_err(GuardError::Begin)?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        waker.wake_at(signal).map_err(GuardError::Begin)?;
    }
    let listener = control::listen(&options.socket)?;
    let guard = Arc::new(begin(options, setup, waker)?);
    let (pending, waiting) = (Arc::downgrade(&guard), Arc::downgrade(&guard));
    guard.engine.settle_by(Settle {
        pending: Box::new(move || pending.upgrade().is_some_and(|guard| guard.trust_updater.is_behind())),
        wait: Box::new(move || {
            if let Some(guard) = waiting.upgrade() {
                guard.trust_updater.settle(PATIENCE);
            }
        }),
    });
    let threads = start(&guard, listener)?;
    let systemd = Systemd::from_environment();
    systemd.notify("READY=1");
    while !terminate.load(Ordering::Relaxed) && !guard.is_stopping() {
        if reload.swap(false, Ordering::Relaxed)
            && let Err(error) = guard.reload(false)
        {
            guard.alarms.raise(Trouble::Reload, format!("the reloaded settings are not in force: {error}"));
        }
        if let Some(before) = guard.trial.is_over() {
            guard.go_back(before);
            say("palisaded: the trial has ended");
        }
        guard.waker.wait(guard.trial.time_left());
        if guard.looks_again.swap(false, Ordering::Relaxed) {
            std::thread::sleep(LOOKS_AGAIN);
            guard.look_at_mounts();
        }
    }
    systemd.notify("STOPPING=1");
    if terminate.load(Ordering::Relaxed) || guard.asked_to_end.load(Ordering::Relaxed) {
        guard.end();
        if let Ok(lsm) = &guard.lsm {
            lsm.end();
        }
    }
    guard.stop();
    // A process may be waiting for an answer. Each worker ends after its next question, and closing the gate answers the
    // rest.
    let _gone = std::fs::remove_file(&options.socket);
    drop(threads);
    Ok(())
}

fn begin(options: &Options, setup: Setup, waker: Waker) -> Result<Guard, GuardError> {
    let trust_updater = TrustUpdater::new(&options.config, &options.state);
    let alarms = Alarms::default();
    let trust = match trust_updater.open(&setup.settings.trust) {
        Ok(trust) => trust,
        Err(error) => {
            let what = format!("{error}: nothing is trusted until the database is rebuilt");
            alarms.raise(Trouble::NoTrust, what);
            Trusted::new(None, setup.settings.trust.integrity)
        }
    };
    let policy =
        Policy::new(setup.settings, setup.rules, setup.linkers, setup.from, 1).map_err(SetupError::from)?;
    // Before any other thread starts: this thread is exempt from the programs, and later threads inherit that.
    let settings = &policy.settings;
    let places =
        [&options.state, Path::new("/run"), Path::new("/var/lib"), Path::new("/root"), Path::new("/")];
    let lsm = Lsm::begin(settings.backend, settings.on_death, settings.watch.asked, &places).map(Arc::new);
    if let Err(reason) = &lsm {
        match (settings.backend, settings.on_death) {
            (Backend::BpfLsm, _) => return Err(GuardError::NoLsm(reason.clone())),
            (_, OnDeath::Closed) => return Err(GuardError::NotClosed(reason.clone())),
            _ => {}
        }
    }
    let wanted = policy.settings.mode == Mode::Enforce && !options.permissive;
    let complete = trust.store().is_some() || policy.settings.trust.is_nothing();
    if wanted && complete && !options.force {
        check_safety(&policy, &trust, options)?;
    }
    if wanted && !complete {
        let what = "the trust database is being built: nothing is refused until it is ready";
        alarms.raise(Trouble::NoTrust, what.into());
    }
    let notifications = match NotificationGroup::new() {
        Ok(notifications) if !options.ask_always => Some(notifications),
        Ok(_) => None,
        Err(errno) => {
            let what =
                format!("changes of files can't be watched ({errno}): the kernel asks about each open");
            alarms.raise(Trouble::DeafToFiles, what);
            None
        }
    };
    // Open the gate after the notification group, because an ending process closes its files from the last to the first.
    // Closing the notification group waits for questions about files that it reports on, and closing the gate answers them.
    let gate = Gate::new(true).or_else(|_| Gate::new(false)).map_err(GuardError::Gate)?;
    let (sender, queue) = std::sync::mpsc::sync_channel(QUEUE);
    let log = policy.settings.log.clone();
    let in_force = InForce { policy: Arc::new(policy), trust: Arc::new(trust) };
    let engine = Arc::new(Engine::new(gate, notifications, in_force, wanted && complete, sender.clone()));
    if let Ok(lsm) = &lsm {
        engine.label_by(Box::new(Labels(Arc::clone(lsm))));
    }
    let followers = Arc::new(Followers::default());
    let counted = Arc::clone(&engine);
    let log = DecisionLog {
        followers: Arc::clone(&followers),
        per_second: log.per_second,
        terminal: log.terminal,
        unsaid: Box::new(move |more| counted.counts.unlogged.add(more)),
    };
    spawn("log", move || log.keep(&queue))?;
    Ok(Guard {
        options: options.clone(),
        engine,
        territory: Arc::default(),
        followers,
        trial: Trial::default(),
        trust_updater,
        kinds: Arc::default(),
        nursery: Mutex::default(),
        generation: AtomicU64::new(1),
        began: Instant::now(),
        stop: Arc::new(AtomicBool::new(false)),
        waker,
        alarms,
        lsm,
        looks_again: AtomicBool::new(false),
        asked_to_end: AtomicBool::new(false),
        incomplete: AtomicBool::new(!complete),
        journal: sender,
        changing: Mutex::new(()),
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<thread::JoinHandle<()>, GuardError> {
    thread::Builder::new().name(name.into()).spawn(work).map_err(GuardError::Begin)
}

fn start(
    guard: &Arc<Guard>,
    listener: std::os::unix::net::UnixListener,
) -> Result<Vec<thread::JoinHandle<()>>, GuardError> {
    if let Err(errno) = privileges::drop_capabilities() {
        let what = format!("capabilities that aren't needed can't be dropped: {errno}");
        guard.alarms.raise(Trouble::Rights, what);
    }
    if let Err(error) = confinement::begin(guard.options.other_calls) {
        guard.alarms.raise(Trouble::Calls, error.to_string());
    }
    // Start this before the guard watches anything: otherwise its exec would be a question that no thread answers yet.
    let mut nursery = Nursery::start().map_err(GuardError::Begin)?;
    nursery.begin(&guard.kinds).map_err(GuardError::Kinds)?;
    *guard.nursery.lock().unwrap_or_else(PoisonError::into_inner) = Some(nursery);
    let ready = Arc::new(Barrier::new(THREADS + 1));
    let mut threads = Vec::new();
    for number in 0..THREADS {
        let (guard, ready) = (Arc::clone(guard), Arc::clone(&ready));
        threads.push(spawn(&format!("answer-{number}"), move || {
            ready.wait();
            if let Err(errno) = guard.engine.work(number, &guard.kinds.quick_recognizer(), &guard.stop) {
                let what = format!("the kernel's questions can't be read any more: {errno}");
                guard.alarms.raise(Trouble::Questions, what);
                guard.stop();
            }
        })?);
    }
    let each = |name: &str, work: fn(&Guard)| {
        let guard = Arc::clone(guard);
        spawn(name, move || work(&guard))
    };
    threads.push(each("settle", |guard| {
        guard.engine.settle(&guard.kinds.quick_recognizer(), &guard.stop);
    })?);
    for number in 0..READERS {
        threads.push(each(&format!("read-{number}"), |guard| {
            guard.engine.read_files(&guard.kinds.recognizer(), &guard.stop);
        })?);
    }
    threads.push(each("changes", |guard| guard.engine.hear(&guard.stop))?);
    threads.push(each("watchdog", supervise)?);
    ready.wait();
    threads.push(each("trust-changes", |guard| guard.trust_updater.hear())?);
    threads.push(each("trust", |guard| guard.trust_updater.keep(guard, &guard.stop))?);
    guard.look_at_mounts();
    if let Ok(lsm) = &guard.lsm {
        let (told, reporting) = (Arc::clone(lsm), Arc::clone(guard));
        spawn("refusals", move || told.report(&reporting.engine, &reporting.journal, &reporting.stop))?;
        if lsm.is_taken_over() {
            // Rules other than the present ones may have given the labels. From now on fanotify asks about each open.
            lsm.invalidate();
            lsm.renew();
        }
    }
    // From here on fanotify questions lead to labels, so the kernel may refuse files without a label.
    guard.follow_scope();
    guard.follow_mode();
    {
        let _one = guard.changing();
        guard.label_essential();
    }
    threads.push(each("mounts", |guard| {
        Territory::follow(|| guard.look_at_mounts(), &guard.stop);
    })?);
    let served = Arc::clone(guard);
    spawn("control", move || crate::conversation::serve(&served, &listener))?;
    Ok(threads)
}
