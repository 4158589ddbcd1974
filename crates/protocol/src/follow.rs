// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Follows the guard's decisions and the scopes' events. One thread for each socket receives them, because palisaded may
//! start, end and stop answering at any time. On a host without palisaded nothing is reported about that.

use crate::client::{Client, DaemonError, News, Reply};
use crate::{ProtocolError, guard, scope};
use palisade_event::{Event, Kind};
use serde::Serialize;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

/// The most events that wait to be shown. When the channel is full, palisaded counts the events that it can't send.
const WAITING: usize = 1024;
/// The time between two checks whether palisaded runs.
const AGAIN: Duration = Duration::from_secs(2);
/// How long to wait for remembered events: palisaded may be stopped.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a thread received from one of palisaded's sockets.
#[derive(Debug)]
enum Heard {
    Event(Arc<Event>),
    /// The remembered events were sent, or can't be had.
    Settled,
    Remark(Remark),
}

/// What a follower may report, other than events.
#[derive(Debug)]
pub enum Remark {
    /// This number of events was missed, because they came too fast.
    Missed(u64),
    /// The remembered events didn't arrive in time.
    Unanswered,
    /// An event in a form that this version doesn't know.
    Unreadable(serde_json::Error),
    /// palisaded has ended. Following continues once palisaded runs again.
    Ended(Kind),
    /// Events of a kind can't be followed now. Following is tried again.
    Interrupted(Kind, DaemonError),
    /// Events of a kind can't be followed.
    Refused(Kind, DaemonError),
}

/// Which events to follow.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The guard's socket, if its decisions are wanted.
    pub guard: Option<PathBuf>,
    /// The scopes' socket, if their events are wanted.
    pub scope: Option<PathBuf>,
    /// Start with the remembered events.
    pub past: bool,
    /// End after the remembered events.
    pub ends: bool,
    /// Only events of what was refused or ended.
    pub refused: bool,
}

/// Follows one or both sockets.
#[derive(Debug)]
pub struct Follower {
    heard: Receiver<Heard>,
    /// Readable once a thread has received something.
    woken: UnixStream,
    waker: UnixStream,
    ends: bool,
    /// How many sockets haven't sent all their remembered events.
    unsettled: usize,
}

/// What a receiving thread uses.
struct Teller {
    about: Kind,
    heard: SyncSender<Heard>,
    waker: UnixStream,
    wanted: Wanted,
    settled: bool,
    complained: bool,
}

impl Follower {
    /// Begins to follow the wanted events.
    ///
    /// # Errors
    /// When no descriptor is free.
    pub fn begin(wanted: &Wanted) -> std::io::Result<Self> {
        let (heard, receiver) = sync_channel(WAITING);
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let Wanted { past, ends, refused, .. } = *wanted;
        let mut follower = Self { heard: receiver, woken, waker: waker.try_clone()?, ends, unsettled: 0 };
        let teller = |about| -> std::io::Result<Teller> {
            let (heard, waker, wanted) = (heard.clone(), waker.try_clone()?, wanted.clone());
            Ok(Teller { about, heard, waker, wanted, settled: false, complained: false })
        };
        if let Some(socket) = wanted.guard.clone() {
            let ask = move |past| guard::Request::Follow { all: false, past, end: ends, refused };
            follower.spawn(teller(Kind::Guard)?, move |teller| {
                teller.follow::<guard::Response, _>(&socket, ask, past)
            })?;
        }
        if let Some(socket) = wanted.scope.clone() {
            let ask = move |past| scope::Request::Follow { scope: None, past, end: ends, refused };
            follower.spawn(teller(Kind::Scope)?, move |teller| {
                teller.follow::<scope::Response, _>(&socket, ask, past)
            })?;
        }
        Ok(follower)
    }

    fn spawn(
        &mut self,
        mut teller: Teller,
        work: impl FnOnce(&mut Teller) + Send + 'static,
    ) -> std::io::Result<()> {
        self.unsettled += 1;
        std::thread::Builder::new()
            .name(format!("palisade-{}", teller.about))
            .spawn(move || {
                work(&mut teller);
                teller.settle();
            })
            .map(drop)
    }

    /// A descriptor that is readable once a thread has received something.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// The remembered events and those that came meanwhile, oldest first. Waits at most two seconds. `remark` gets
    /// everything that isn't an event.
    pub fn remembered(&mut self, remark: &mut dyn FnMut(Remark)) -> Vec<Arc<Event>> {
        let until = Instant::now() + PATIENCE;
        let mut events = Vec::new();
        while self.unsettled > 0 {
            match self.heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(heard) => self.take(heard, &mut events, remark),
                Err(RecvTimeoutError::Timeout) => {
                    // If following goes on, the thread goes on waiting and reports problems itself.
                    if self.ends {
                        remark(Remark::Unanswered);
                    }
                    self.unsettled = 0;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        events.sort_by_key(|event| event.time);
        events
    }

    /// The events since the last call. `remark` gets everything that isn't an event.
    pub fn news(&mut self, remark: &mut dyn FnMut(Remark)) -> Vec<Arc<Event>> {
        let mut buffer = [0; 256];
        while matches!(self.woken.read(&mut buffer), Ok(1..)) {}
        let mut events = Vec::new();
        // No more than can wait at once: what comes meanwhile wakes the caller again.
        for _one in 0..WAITING {
            match self.heard.try_recv() {
                Ok(heard) => self.take(heard, &mut events, remark),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return events,
            }
        }
        // Wake the caller again, because more events may be waiting.
        let _wakes_already = self.waker.write(&[0]);
        events
    }

    fn take(&mut self, heard: Heard, events: &mut Vec<Arc<Event>>, remark: &mut dyn FnMut(Remark)) {
        match heard {
            Heard::Event(event) => events.push(event),
            Heard::Settled => self.unsettled = self.unsettled.saturating_sub(1),
            Heard::Remark(told) => remark(told),
        }
    }
}

impl Teller {
    /// Follows, and follows again each time the daemon has ended, unless `ends` is wanted or the daemon refuses.
    fn follow<R: Reply, Q: Serialize>(&mut self, socket: &Path, ask: impl Fn(bool) -> Q, mut past: bool) {
        loop {
            let outcome = self.converse::<R>(socket, &ask(past));
            // The remembered events were sent before palisaded ended; don't ask for them again.
            past = false;
            if !self.explain(outcome) || self.wanted.ends {
                return;
            }
            self.settle();
            std::thread::sleep(AGAIN);
        }
    }

    /// Has one conversation. An error also says whether following had begun.
    fn converse<R: Reply>(
        &mut self,
        socket: &Path,
        request: &impl Serialize,
    ) -> Result<(), (bool, DaemonError)> {
        let mut client = Client::begin(socket).map_err(|error| (false, error))?;
        let connection = client.connection();
        connection.send(request).map_err(|error| (false, error.into()))?;
        let mut dones = 0;
        loop {
            let news = match connection.receive::<R>() {
                Ok(answer) => answer.news().map_err(|error| (dones > 0, error))?,
                // Skip one event in a form that this version doesn't know; the next event may be readable.
                Err(ProtocolError::Malformed(error)) if dones > 0 => {
                    self.complain(Remark::Unreadable(error));
                    continue;
                }
                Err(ProtocolError::Gone) if self.wanted.ends && dones > 0 => return Ok(()),
                Err(error) => return Err((dones > 0, error.into())),
            };
            match news {
                News::Event(event) => self.tell(Heard::Event(event)),
                News::Missed(count) => self.tell(Heard::Remark(Remark::Missed(count))),
                News::Done => {
                    dones += 1;
                    self.complained = false;
                    if dones == 2 {
                        self.settle();
                    }
                }
            }
        }
    }

    /// Reports why a conversation ended, unless it ended normally. Returns whether to try another one.
    fn explain(&mut self, outcome: Result<(), (bool, DaemonError)>) -> bool {
        let about = self.about;
        match outcome {
            Ok(()) | Err((_, DaemonError::NotRunning { .. })) => true,
            Err((true, DaemonError::Talk(ProtocolError::Gone | ProtocolError::Broken(_)))) => {
                self.complain(Remark::Ended(about));
                self.complained = false;
                true
            }
            Err((
                _,
                error @ DaemonError::Talk(
                    ProtocolError::Broken(_) | ProtocolError::Gone | ProtocolError::TooSlow,
                ),
            )) => {
                self.complain(Remark::Interrupted(about, error));
                true
            }
            Err((_, error)) => {
                self.complain(Remark::Refused(about, error));
                false
            }
        }
    }

    /// Reports once, until the daemon is followed again.
    fn complain(&mut self, why: Remark) {
        if !std::mem::replace(&mut self.complained, true) {
            self.tell(Heard::Remark(why));
        }
    }

    fn settle(&mut self) {
        if !std::mem::replace(&mut self.settled, true) {
            self.tell(Heard::Settled);
        }
    }

    fn tell(&mut self, heard: Heard) {
        let _nobody_listens = self.heard.send(heard);
        // A full socket wakes the reader, too.
        let _wakes_already = self.waker.write(&[0]);
    }
}
