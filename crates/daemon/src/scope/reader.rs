// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads what the kernel reports about scopes, judges it, and logs it.

use super::event;
use super::service::Service;
use super::verdict::{self, Contents};
use crate::followers::News;
use palisade_bpf::scope::event::Event as Reported;
use palisade_event::{Mechanism, Verdict, Why};
use palisade_scopes::Settings;
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long an event may wait to be read, if the kernel doesn't wake the thread.
const PAUSE: Duration = Duration::from_millis(100);
/// How often to check for scopes that have ended.
const SWEEP: Duration = Duration::from_secs(1);

/// Reads until the service stops.
pub(super) fn read(service: &Service, settings: &Path, reload: &AtomicBool) {
    let contents = RefCell::new(Contents::default());
    while !service.stop.load(Ordering::Relaxed) {
        let programs = service.state().programs.clone();
        let Some(programs) = programs else {
            again(service, settings, reload);
            // Without scopes this thread has no work.
            service.changed.wait(None);
            continue;
        };
        if programs.lacks().ring_buffer {
            // This was reported when the programs were loaded.
            again(service, settings, reload);
            service.sweep();
            std::thread::sleep(PAUSE);
            continue;
        }
        let mut swept = Instant::now();
        let events = match programs.events(|event| hear(service, &mut contents.borrow_mut(), &event)) {
            Ok(events) => events,
            Err(error) => {
                service.alarm(format!("events can't be read: {error}"));
                std::thread::sleep(SWEEP);
                continue;
            }
        };
        while !service.stop.load(Ordering::Relaxed) {
            if let Err(error) = events.poll(PAUSE) {
                service.alarm(format!("events can't be read: {error}"));
                break;
            }
            again(service, settings, reload);
            if swept.elapsed() >= SWEEP {
                swept = Instant::now();
                service.sweep();
            }
            let current = service.state().programs.as_ref().is_some_and(|now| Arc::ptr_eq(now, &programs));
            if !current {
                break;
            }
        }
    }
}

/// Reads the settings again, if SIGHUP asked for it.
fn again(service: &Service, path: &Path, reload: &AtomicBool) {
    if !reload.swap(false, Ordering::Relaxed) {
        return;
    }
    let result = Settings::read(path).map_err(|error| error.to_string());
    if let Err(error) =
        result.and_then(|settings| service.reload(settings).map_err(|error| error.to_string()))
    {
        service.alarm(format!("the reloaded settings are not in force: {error}"));
    }
}

fn hear(service: &Service, contents: &mut Contents, reported: &Reported) {
    let reason = verdict::enforce(service, contents, reported);
    let mut event = event::of(reported);
    if let Some(reason) = reason {
        service.killed_later.fetch_add(1, Ordering::Relaxed);
        event.verdict = Verdict::Killed;
        event.enforced_by = Mechanism::Daemon;
        event.why = Why::text(reason.words());
    }
    let terminal = service.state().scopes.get(&reported.scope).and_then(|known| known.terminal.clone());
    service.log.take(&event, terminal.as_deref());
    service.followers.tell(News { event: event.into(), user: Some(reported.owner), logged: true });
}
