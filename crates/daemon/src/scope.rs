// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Serves scopes: marked subtrees of processes. The kernel holds the marks and acts on them. This module decides which user
//! may mark which process, and handles what the kernel reports.
//!
//! - [`service`]: the loaded programs and the list of scopes
//! - [`control`]: answers requests of the command line
//! - [`error`]: why a request is refused
//! - [`translation`]: converts between the kernel's types and the protocol's
//! - [`marking`]: puts processes into a scope
//! - [`reader`]: reads, judges and logs what the kernel reports
//! - [`verdict`]: decides whether an exec is denied
//! - [`event`]: turns the kernel's reports into events
//! - [`log`]: writes events to a file and to the refused process's terminal
//! - [`process`]: reads facts about a process from `/proc`
//! - [`group`]: control groups that are scopes
//! - [`rare`]: the list of system calls that few programs make
//! - [`proof`]: checks whether the kernel calls the security hook

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

/// How often to tell systemd that this process is alive.
const WATCHDOG: Duration = Duration::from_secs(10);

/// The running service of scopes.
pub(crate) struct Scopes {
    service: Arc<Service>,
    socket: PathBuf,
    learning: Option<Learning>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// Serves only scopes, until a signal ends it.
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

/// Serves scopes beside the other parts of this process.
pub(crate) fn begin(options: &Options) -> Result<Scopes, GuardError> {
    let path = options.config.join("scopes.toml");
    let mut settings = Settings::read(&path)?;
    settings.depth = options.enforcement_depth.unwrap_or(settings.depth);
    if options.check {
        say(&format!("palisaded: {} is valid", path.shown()));
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
    // No part depends on learning in the kernel: without it, brokers learn.
    scopes.learning = learn::begin(scopes.socket.with_file_name("learn.sock"))
        .map_err(|error| say(&format!("palisaded: learning by the kernel is unavailable: {error}")))
        .ok();
    let reload = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&reload)).map_err(GuardError::Begin)?;
    service.changed.wake_at(SIGHUP).map_err(GuardError::Begin)?;
    if !process::sees_first_namespace() {
        // A process that asks from outside this namespace has no number in it, so its request is refused.
        service.alarm("palisaded doesn't run in the initial PID namespace: scopes are unavailable".into());
    }
    service.take_over();
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        let work = move || {
            // Capabilities belong to a thread. Those that can't be dropped are kept.
            let _kept = privileges::drop_capabilities();
            work();
        };
        thread::Builder::new().name(name.into()).spawn(work).map_err(GuardError::Begin)
    };
    let reading = Arc::clone(&service);
    scopes.threads.push(spawn("scope-events", Box::new(move || reader::read(&reading, &path, &reload)))?);
    let serving = Arc::clone(&service);
    // The thread waits for the next connection, and ends with the process.
    drop(spawn("scope-control", Box::new(move || conversation::serve(&serving, &listener)))?);
    Ok(scopes)
}

impl Scopes {
    /// Ends the service. Existing scopes stay in force if they are pinned.
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
