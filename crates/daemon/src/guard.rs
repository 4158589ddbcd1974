// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts that run, and how they begin and end.

use crate::journal::{Followers, Journal, QUEUE, say};
use crate::keeper::Keeper;
use crate::lsm::{Labels, Lsm};
use crate::options::Options;
use crate::supervisor::{Systemd, supervise};
use crate::territory::Territory;
use crate::trial::{Before, Trial};
use crate::{control, essential, privileges};
use palisade_guard::decide::Decider;
use palisade_guard::facts::Access;
use palisade_guard::kind::Recognizer;
use palisade_guard::rule::files::Writers;
use palisade_guard::safety::{self, Stopped};
use palisade_guard::settings::{Backend, Mode, OnDeath};
use palisade_guard::setup::{Setup, SetupError};
use palisade_guard::trusted::Trusted;
use palisade_guard::watch::Judged;
use palisade_guard::watch::crew::THREADS;
use palisade_guard::watch::engine::{Engine, InForce, Settle};
use palisade_guard::watch::policy::Policy;
use palisade_protocol::guard::{Decided, Mechanism, Refusal, Request, Response, Status};
use palisade_sys::fanotify::{Gate, Witness};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Why the guard doesn't begin, or what was asked of it isn't done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuardError {
    /// Settings, rules or trust.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// It isn't root's.
    #[error("only root can guard a host")]
    RootOnly,
    /// fanotify isn't to be had.
    #[error("can't ask the kernel about opens and execs (fanotify): {0}")]
    Gate(#[source] Errno),
    /// The kernel didn't forget what it answered by itself.
    #[error("can't put other rules in force: {0}")]
    Replace(#[source] Errno),
    /// The socket can't be made.
    #[error("can't listen at {}: {source}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another one answers there.
    #[error("another palisaded answers at {}", path.display())]
    Running {
        /// Where.
        path: PathBuf,
    },
    /// A thread or signal handler can't be had.
    #[error("can't begin: {0}")]
    Begin(#[source] io::Error),
    /// libmagic.
    #[error(transparent)]
    Kind(#[from] palisade_guard::kind::KindError),
    /// The rules would stop the host.
    #[error("these rules would stop the host: {}", .0.join("; "))]
    Unsafe(Vec<String>),
    /// BPF LSM was asked for.
    #[error("backend = \"bpf-lsm\", and it can't be in force here: {0}")]
    NoLsm(String),
    /// Closed on death, without what stays when the guard dies.
    #[error("on-death = \"closed\" needs BPF LSM, which isn't in force: {0}")]
    NotClosed(String),
    /// Nothing is being tried.
    #[error("nothing is being tried")]
    NoTrial,
    /// Settings of scopes.
    #[error(transparent)]
    Scopes(#[from] palisade_scopes::SettingsError),
}

impl GuardError {
    /// A command that helps, or what to look at.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Setup(error) => return error.hint(),
            Self::Scopes(error) => return error.hint(),
            Self::RootOnly => "sudo palisaded".into(),
            Self::Gate(_) => {
                "the kernel needs CONFIG_FANOTIFY_ACCESS_PERMISSIONS; palisade doctor says more".into()
            }
            Self::Running { .. } => "palisade guard status".into(),
            Self::Unsafe(_) => "palisade guard try --for 60s shows what happens; --force insists".into(),
            Self::NoLsm(_) => "boot with lsm=…,bpf, or say backend = \"auto\" in guard.toml".into(),
            Self::NotClosed(_) => {
                "boot with lsm=…,bpf and leave backend = \"auto\", or say on-death = \"open\" in guard.toml"
                    .into()
            }
            Self::NoTrial => "palisade guard try --for 60s".into(),
            Self::Replace(_) | Self::Socket { .. } | Self::Begin(_) | Self::Kind(_) => return None,
        })
    }

    fn class(&self) -> &'static str {
        match self {
            Self::Setup(error) => error.class(),
            Self::RootOnly => "root-only",
            Self::Gate(_) | Self::Replace(_) => "fanotify",
            Self::Socket { .. } => "socket",
            Self::Running { .. } => "running",
            Self::Begin(_) => "begin",
            Self::Kind(_) => "kind",
            Self::Unsafe(_) => "unsafe",
            Self::NoLsm(_) | Self::NotClosed(_) => "bpf-lsm",
            Self::NoTrial => "no-trial",
            Self::Scopes(_) => "scopes",
        }
    }

    /// 2 for what was written wrong, 1 for what the host doesn't give.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Setup(_) | Self::Scopes(_) | Self::Unsafe(_) => 2,
            _ => 1,
        }
    }

    fn refusal(&self) -> Response {
        Response::Refused(Refusal {
            class: self.class().into(),
            message: self.to_string(),
            hint: self.hint(),
        })
    }
}

/// A guard that runs.
pub(crate) struct Guard {
    options: Options,
    pub(crate) engine: Arc<Engine>,
    territory: Arc<Territory>,
    followers: Arc<Followers>,
    trial: Trial,
    pub(crate) keeper: Keeper,
    generation: AtomicU64,
    began: Instant,
    stop: Arc<AtomicBool>,
    alarms: Mutex<Vec<String>>,
    lsm: Result<Arc<Lsm>, String>,
    /// Whether somebody asked for the end.
    asked_to_end: AtomicBool,
    /// Whether nothing is judged because the trust database isn't there.
    incomplete: AtomicBool,
    journal: SyncSender<Judged>,
    /// One at a time changes what is in force.
    changing: Mutex<()>,
}

/// Guards until a signal or a request ends it.
pub(crate) fn run(options: &Options) -> Result<(), GuardError> {
    let setup = Setup::read(&options.config, None, Writers::RootOnly)?;
    if options.check {
        say(&format!("palisaded: {} rules from {} are understood", setup.rules.len(), setup.from));
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        return Err(GuardError::RootOnly);
    }
    privileges::prepare();
    let terminate = Arc::new(AtomicBool::new(false));
    let reload = Arc::new(AtomicBool::new(false));
    for (signal, flag) in [(SIGTERM, &terminate), (SIGINT, &terminate), (SIGHUP, &reload)] {
        signal_hook::flag::register(signal, Arc::clone(flag)).map_err(GuardError::Begin)?;
    }
    let listener = control::listen(&options.socket)?;
    let guard = Arc::new(begin(options, setup)?);
    let (pending, waiting) = (Arc::downgrade(&guard), Arc::downgrade(&guard));
    guard.engine.settle_by(Settle {
        pending: Box::new(move || pending.upgrade().is_some_and(|guard| guard.keeper.is_behind())),
        wait: Box::new(move || {
            if let Some(guard) = waiting.upgrade() {
                guard.keeper.settle();
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
            guard.alarm(format!("what was read again is not in force: {error}"));
        }
        if let Some(before) = guard.trial.is_over() {
            guard.go_back(before);
            say("palisaded: what was tried is over");
        }
        thread::sleep(Duration::from_millis(50));
    }
    systemd.notify("STOPPING=1");
    if terminate.load(Ordering::Relaxed) || guard.asked_to_end.load(Ordering::Relaxed) {
        guard.end();
        if let Ok(lsm) = &guard.lsm {
            lsm.end();
        }
    }
    guard.stop();
    // Somebody may be waiting for an answer: the crew ends after its next question, and the gate's end answers the rest.
    let _gone = std::fs::remove_file(&options.socket);
    drop(threads);
    Ok(())
}

fn begin(options: &Options, setup: Setup) -> Result<Guard, GuardError> {
    let keeper = Keeper::new(&options.config, &options.state);
    let mut alarms = Vec::new();
    let trust = match keeper.open(&setup.settings.trust) {
        Ok(trust) => trust,
        Err(error) => {
            alarms.push(format!("{error}: nothing is trusted until the database is made anew"));
            Trusted::new(None, setup.settings.trust.integrity)
        }
    };
    let policy =
        Policy::new(setup.settings, setup.rules, setup.linkers, setup.from, 1).map_err(SetupError::from)?;
    // Before there are threads: those are exempt because this one is.
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
        alarms.push("the trust database is being made: nothing is refused until it is there".into());
    }
    let gate = Gate::new(true).or_else(|_| Gate::new(false)).map_err(GuardError::Gate)?;
    let witness = match Witness::new() {
        Ok(witness) if !options.ask_always => Some(witness),
        Ok(_) => None,
        Err(errno) => {
            alarms.push(format!("changes of files can't be heard of ({errno}): each open is asked about"));
            None
        }
    };
    let (sender, queue) = std::sync::mpsc::sync_channel(QUEUE);
    let log = policy.settings.log.clone();
    let in_force = InForce { policy: Arc::new(policy), trust: Arc::new(trust) };
    let engine = Arc::new(Engine::new(gate, witness, in_force, wanted && complete, sender.clone()));
    if let Ok(lsm) = &lsm {
        engine.label_by(Box::new(Labels(Arc::clone(lsm))));
    }
    let followers = Arc::new(Followers::default());
    let counted = Arc::clone(&engine);
    let journal = Journal {
        followers: Arc::clone(&followers),
        per_second: log.per_second,
        terminal: log.terminal,
        unsaid: Box::new(move |more| counted.counts.unlogged.add(more)),
    };
    spawn("journal", move || journal.keep(&queue))?;
    for alarm in &alarms {
        say(&format!("palisaded: alarm: {alarm}"));
    }
    Ok(Guard {
        options: options.clone(),
        engine,
        territory: Arc::default(),
        followers,
        trial: Trial::default(),
        keeper,
        generation: AtomicU64::new(1),
        began: Instant::now(),
        stop: Arc::new(AtomicBool::new(false)),
        alarms: Mutex::new(alarms),
        lsm,
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
        guard.alarm(format!("rights that aren't needed can't be given away: {errno}"));
    }
    // What each thread needs is there before the first question: a thread that is born later would be asked about.
    drop(Recognizer::new()?);
    let ready = Arc::new(Barrier::new(THREADS + 1));
    let mut threads = Vec::new();
    for number in 0..THREADS {
        let (guard, ready) = (Arc::clone(guard), Arc::clone(&ready));
        threads.push(spawn(&format!("answer-{number}"), move || {
            let recognizer = Recognizer::new().unwrap_or_else(|_| Recognizer::own());
            ready.wait();
            if let Err(errno) = guard.engine.work(number, &recognizer, &guard.stop) {
                guard.alarm(format!("the kernel's questions can't be read any more: {errno}"));
                guard.stop();
            }
        })?);
    }
    let each = |name: &str, work: fn(&Guard)| {
        let guard = Arc::clone(guard);
        spawn(name, move || work(&guard))
    };
    threads.push(each("settle", |guard| {
        let recognizer = Recognizer::new().unwrap_or_else(|_| Recognizer::own());
        guard.engine.settle(&recognizer, &guard.stop);
    })?);
    threads.push(each("changes", |guard| guard.engine.hear(&guard.stop))?);
    threads
        .push(each("watchdog", |guard| supervise(&guard.engine, &Systemd::from_environment(), &guard.stop))?);
    ready.wait();
    threads.push(each("trust", |guard| guard.keeper.keep(guard, &guard.stop))?);
    let text = std::fs::read("/proc/self/mountinfo").map_err(GuardError::Begin)?;
    guard.territory.look(&guard.engine, &text, &guard.engine.policy().settings.watch);
    if let Ok(lsm) = &guard.lsm {
        let (told, reporting) = (Arc::clone(lsm), Arc::clone(guard));
        spawn("refusals", move || told.report(&reporting.engine, &reporting.journal, &reporting.stop))?;
        if lsm.is_taken_over() {
            // Other rules may be in force than those that gave the labels; from now on each open is asked about.
            lsm.invalidate();
            lsm.renew();
        }
    }
    // fanotify labels from here on, so the kernel may refuse what has no label.
    guard.follow_scope();
    guard.follow_mode();
    {
        let _one = guard.changing();
        guard.label_essential();
    }
    threads.push(each("mounts", |guard| {
        let settings = || guard.engine.policy().settings.watch.clone();
        guard.territory.follow(&guard.engine, settings, || guard.follow_scope(), &guard.stop);
    })?);
    let served = Arc::clone(guard);
    spawn("control", move || control::serve(&served, &listener))?;
    Ok(threads)
}

/// Whether these rules would stop the host.
fn check_safety(policy: &Policy, trust: &Trusted, options: &Options) -> Result<(), GuardError> {
    let decider = Decider::new(&policy.rules);
    let stopped = safety::stopped(&decider, trust, &essential::own_programs());
    if stopped.is_empty() || options.force {
        return Ok(());
    }
    let say = |stopped: &Stopped| {
        let verb = if stopped.access == Access::Execute { "be executed" } else { "be opened" };
        let rule = stopped.rule.map_or_else(String::new, |rule| format!(" by {}", policy.origin(rule)));
        format!("{} could not {verb}{rule} ({})", stopped.path.display(), stopped.what)
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

    /// Ends everything; the kernel says yes from then on.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Somebody asked for the end: what stays when the guard dies goes as well.
    pub(crate) fn end(&self) {
        self.asked_to_end.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Has the kernel refuse by itself as the rules' refusals are: enforced, said, or neither.
    fn follow_mode(&self) {
        let Ok(lsm) = &self.lsm else { return };
        let incomplete = self.incomplete.load(Ordering::Relaxed);
        if let Err(error) = lsm.set_mode((!incomplete).then(|| self.engine.is_enforcing())) {
            self.alarm(format!("bpf-lsm doesn't follow: {error}"));
        }
    }

    /// Labels what must go on when the guard has died. Who calls it is the one who changes what is in force.
    fn label_essential(&self) {
        if let Ok(lsm) = &self.lsm {
            essential::label(lsm, &self.engine.policy(), &self.engine.trust());
        }
    }

    /// Has the kernel leave alone what the settings leave out.
    fn follow_scope(&self) {
        let Ok(lsm) = &self.lsm else { return };
        let asked = self.engine.policy().settings.watch.asked;
        if let Err(error) = lsm.set_scope(asked, &self.territory.left_out()) {
            self.alarm(format!("bpf-lsm doesn't follow: {error}"));
        }
    }

    /// Whether the kernel refuses what nobody was asked about.
    fn lsm_refuses(&self) -> bool {
        self.lsm.as_ref().is_ok_and(|lsm| lsm.mechanism().in_force)
    }

    /// What decides here, best first.
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

    /// Something is wrong.
    pub(crate) fn alarm(&self, what: String) {
        say(&format!("palisaded: alarm: {what}"));
        let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        if alarms.len() < 100 && !alarms.contains(&what) {
            alarms.push(what);
        }
    }

    /// Decisions as they are made.
    pub(crate) fn follow(&self, all: bool) -> Receiver<Decided> {
        let receiver = self.followers.add(all);
        self.engine.follow_all(self.followers.want_all());
        if all {
            // What the kernel answers by itself nobody hears of.
            self.engine.ask_about_all();
        }
        receiver
    }

    fn changing(&self) -> std::sync::MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads everything again; what can't be understood changes nothing.
    pub(crate) fn reload(&self, force: bool) -> Result<String, GuardError> {
        let _one = self.changing();
        let setup = Setup::read(&self.options.config, None, Writers::RootOnly)?;
        let enforce = setup.settings.mode == Mode::Enforce && !self.options.permissive;
        let policy = self.policy(setup)?;
        let mut said = format!("{} rules from {} are in force", policy.rules.len(), policy.from);
        let before = self.engine.policy();
        let mechanisms = |policy: &Policy| (policy.settings.backend, policy.settings.on_death);
        if mechanisms(&before) != mechanisms(&policy) {
            said.push_str("; backend and on-death are as they were until palisaded is started again");
        }
        if enforce && !force {
            check_safety(&policy, &self.engine.trust(), &self.options)?;
        }
        self.put_in_force(policy, enforce)?;
        self.trial.keep();
        self.keeper.look_again();
        Ok(said)
    }

    fn policy(&self, setup: Setup) -> Result<Policy, GuardError> {
        let generation = self.generation.load(Ordering::Relaxed) + 1;
        Ok(Policy::new(setup.settings, setup.rules, setup.linkers, setup.from, generation)
            .map_err(SetupError::from)?)
    }

    fn put_in_force(&self, policy: Policy, enforce: bool) -> Result<(), GuardError> {
        let watch = policy.settings.watch.clone();
        let policy = Arc::new(policy);
        self.engine.replace(|in_force| in_force.policy = policy).map_err(GuardError::Replace)?;
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.engine.enforce(enforce);
        if let Ok(text) = std::fs::read("/proc/self/mountinfo") {
            self.territory.look(&self.engine, &text, &watch);
        }
        self.follow_scope();
        self.follow_mode();
        self.label_essential();
        Ok(())
    }

    /// Another trust database.
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
        if begins && self.was_incomplete() {
            match safe {
                Ok(()) => {
                    self.engine.enforce(true);
                    say("palisaded: the trust database is there: what the rules deny is refused from now on");
                }
                // Not even then is anything wrong with the database: who looks what is wrong needs it in force.
                Err(error) => self.alarm(format!("what the rules deny is only said: {error}")),
            }
        }
        self.follow_mode();
        self.label_essential();
        Ok(())
    }

    /// Whether nothing was refused only because the trust database wasn't there; it is from now on.
    fn was_incomplete(&self) -> bool {
        let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        let before = alarms.len();
        alarms.retain(|alarm| !alarm.contains("trust") || !alarm.contains("until"));
        alarms.len() < before
    }

    fn go_back(&self, before: Before) {
        let _one = self.changing();
        let Before { policy, enforcing } = before;
        let watch = policy.settings.watch.clone();
        if let Err(errno) = self.engine.replace(|in_force| in_force.policy = policy) {
            self.alarm(format!("what was tried can't be taken back ({errno}): nothing is refused any more"));
            self.engine.enforce(false);
            self.follow_mode();
            return;
        }
        self.engine.enforce(enforcing);
        if let Ok(text) = std::fs::read("/proc/self/mountinfo") {
            self.territory.look(&self.engine, &text, &watch);
        }
        self.follow_scope();
        self.follow_mode();
        self.label_essential();
    }

    fn attempt(&self, seconds: u64, rules: Option<&str>, force: bool) -> Result<String, GuardError> {
        let _one = self.changing();
        let before = Before { policy: self.engine.policy(), enforcing: self.engine.is_enforcing() };
        match rules {
            Some(path) => {
                let setup = Setup::read(&self.options.config, Some(Path::new(path)), Writers::RootOnly)?;
                let policy = self.policy(setup)?;
                if !force {
                    check_safety(&policy, &self.engine.trust(), &self.options)?;
                }
                self.trial.begin(Duration::from_secs(seconds), before);
                self.put_in_force(policy, true)?;
            }
            None => {
                if !force {
                    check_safety(&before.policy, &self.engine.trust(), &self.options)?;
                }
                self.trial.begin(Duration::from_secs(seconds), before);
                self.engine.enforce(true);
                self.follow_mode();
            }
        }
        Ok(format!("enforced for {seconds} s; palisade guard keep leaves it so"))
    }

    /// Answers a request.
    pub(crate) fn answer(&self, request: Request) -> Response {
        let said = match request {
            Request::Status => return Response::Status(Box::new(self.status())),
            Request::Metrics { reset } => {
                return Response::Metrics(Box::new(self.engine.counts.metrics(reset)));
            }
            Request::Rules => return Response::Rules { rules: self.engine.policy().hits() },
            Request::Timing { start: true } => {
                self.engine.clock.start();
                Ok("decisions are timed".into())
            }
            Request::Timing { start: false } => match self.engine.clock.stop() {
                Some(timing) => return Response::Timing(Box::new(timing)),
                None => Ok("decisions weren't timed".into()),
            },
            Request::Judge(supposition) => match crate::judge::judge(self, &supposition) {
                Ok(decided) => return Response::Judged(Box::new(decided)),
                Err(refusal) => return Response::Refused(refusal),
            },
            Request::Reload { force } => self.reload(force),
            Request::Mode { enforce, force } => self.mode(enforce, force),
            Request::Try { seconds, rules, force } => self.attempt(seconds, rules.as_deref(), force),
            Request::Keep if self.trial.keep() => Ok("what was tried stays".into()),
            Request::Keep => Err(GuardError::NoTrial),
            Request::Revert => match self.trial.end() {
                Some(before) => {
                    self.go_back(before);
                    Ok("what was tried is over".into())
                }
                None => Err(GuardError::NoTrial),
            },
            Request::Trust { everything } => {
                self.keeper.make_anew(everything);
                Ok("the trust database is being made anew".into())
            }
            Request::Stop => Ok("the guard ends".into()),
            Request::Follow { .. } => Ok("following".into()),
        };
        match said {
            Ok(said) => Response::Done { said },
            Err(error) => error.refusal(),
        }
    }

    fn mode(&self, enforce: bool, force: bool) -> Result<String, GuardError> {
        let _one = self.changing();
        if enforce && !force {
            check_safety(&self.engine.policy(), &self.engine.trust(), &self.options)?;
        }
        self.trial.keep();
        self.engine.enforce(enforce);
        self.follow_mode();
        Ok(if enforce { "what the rules deny is refused" } else { "what the rules deny is only said" }.into())
    }

    fn status(&self) -> Status {
        let policy = self.engine.policy();
        let trust = self.engine.trust();
        let (watched, unwatched) = self.territory.list();
        let asked = match policy.settings.watch.asked {
            palisade_guard::settings::Asked::OpenAndExecute => "open and execute",
            palisade_guard::settings::Asked::Execute => "execute",
        };
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            seconds: self.began.elapsed().as_secs(),
            enforcing: self.engine.is_enforcing(),
            trying: self.trial.left(),
            asked: asked.into(),
            mechanisms: self.mechanisms(),
            rules_from: policy.from.clone(),
            rules: policy.rules.len(),
            generation: policy.generation,
            trusted: trust.store().map_or(0, |store| store.built_records()),
            trust_age: self.keeper.age(),
            integrity: format!("{:?}", policy.settings.trust.integrity).to_lowercase(),
            watched,
            unwatched,
            blind: crate::blind::spots(self.lsm_refuses()),
            alarms: self.alarms.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
