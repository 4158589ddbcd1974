// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scopes: marked subtrees of processes. The kernel holds the marks and acts on them; here is who may mark what, and what
//! is made of what the kernel tells.
//!
//! - [`service`]: the programs in force, and the scopes that there are
//! - [`control`]: what the command line asks
//! - [`error`]: why something can't be done
//! - [`translation`]: the same things as the kernel's side and as the protocol say them
//! - [`marking`]: how processes come into a scope
//! - [`reader`]: what the kernel tells, judged, said and kept
//! - [`verdict`]: whether what was executed is denied
//! - [`event`]: what the kernel reports, as an event
//! - [`log`]: events where nobody follows
//! - [`process`]: what `/proc` says of a process
//! - [`group`]: control groups that are scopes
//! - [`rare`]: system calls that few programs make
//! - [`proof`]: whether the security hook is called

mod control;
mod error;
mod event;
mod group;
mod log;
mod marking;
pub(crate) mod process;
pub(crate) mod proof;
mod rare;
mod reader;
mod service;
mod translation;
mod verdict;

use crate::conversation;
use crate::guard::GuardError;
use crate::learn::{self, Learning};
use crate::options::Options;
use crate::saying::say;
use crate::supervisor::Systemd;
use crate::waker::Waker;
use crate::{confinement, control as sockets, privileges};
use palisade_scopes::Settings;
use palisade_text::Show as _;
use service::Service;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How often systemd hears that this process is alive.
const WATCHDOG: Duration = Duration::from_secs(10);

/// Scopes that are served.
pub(crate) struct Scopes {
    service: Arc<Service>,
    socket: PathBuf,
    learning: Option<Learning>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// Only scopes, until a signal.
pub(crate) fn run(options: &Options) -> Result<(), GuardError> {
    let scopes = begin(options)?;
    if options.check {
        return Ok(());
    }
    let terminate = Arc::new(AtomicBool::new(false));
    let waker = Waker::new().map_err(GuardError::Begin)?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&terminate)).map_err(GuardError::Begin)?;
        waker.wake_at(signal).map_err(GuardError::Begin)?;
    }
    if let Err(error) = confinement::begin(options.other_calls) {
        scopes.service.alarm(error.to_string());
    }
    let systemd = Systemd::from_environment();
    systemd.notify("READY=1");
    while !terminate.load(Ordering::Relaxed) {
        systemd.notify("WATCHDOG=1");
        waker.wait(Some(WATCHDOG));
    }
    systemd.notify("STOPPING=1");
    scopes.end();
    Ok(())
}

/// Serves scopes beside whatever else this process does.
pub(crate) fn begin(options: &Options) -> Result<Scopes, GuardError> {
    let path = options.config.join("scopes.toml");
    let mut settings = Settings::read(&path)?;
    settings.depth = options.enforcement_depth.unwrap_or(settings.depth);
    if options.check {
        say(&format!("palisaded: {} is understood", path.shown()));
    } else if !rustix::process::geteuid().is_root() {
        return Err(GuardError::RootOnly);
    }
    let service = Arc::new(Service::new(options, settings).map_err(GuardError::Begin)?);
    let socket = options.scope_socket.clone().unwrap_or_else(|| options.socket.with_file_name("scope.sock"));
    let mut scopes = Scopes { service: Arc::clone(&service), socket, learning: None, threads: Vec::new() };
    if options.check {
        return Ok(scopes);
    }
    let listener = sockets::listen(&scopes.socket)?;
    // Nobody depends on it: where it can't be, brokers learn.
    scopes.learning = learn::begin(scopes.socket.with_file_name("learn.sock"))
        .map_err(|error| say(&format!("palisaded: nobody can have calls learned by the kernel: {error}")))
        .ok();
    let reload = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&reload)).map_err(GuardError::Begin)?;
    service.changed.wake_at(SIGHUP).map_err(GuardError::Begin)?;
    if !process::sees_first_namespace() {
        // Who asks from outside of its namespace has no number in it, and isn't heard.
        service.alarm("palisaded doesn't run in the first process namespace: no scope can be had".into());
    }
    service.take_over();
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        let work = move || {
            // Rights are a thread's own. What can't be given away is kept.
            let _kept = privileges::drop_capabilities();
            work();
        };
        thread::Builder::new().name(name.into()).spawn(work).map_err(GuardError::Begin)
    };
    let reading = Arc::clone(&service);
    scopes.threads.push(spawn("scope-events", Box::new(move || reader::read(&reading, &path, &reload)))?);
    let serving = Arc::clone(&service);
    // It waits for the next who connects, and ends with the process.
    drop(spawn("scope-control", Box::new(move || conversation::serve(&serving, &listener)))?);
    Ok(scopes)
}

impl Scopes {
    /// Ends serving. Scopes that there are stay in force, if they are pinned.
    pub(crate) fn end(self) {
        self.service.stop.store(true, Ordering::Relaxed);
        self.service.changed.wake();
        for thread in self.threads {
            let _ended = thread.join();
        }
        self.service.leave();
        if let Some(learning) = self.learning {
            learning.end();
        }
        let _gone = std::fs::remove_file(&self.socket);
    }
}
