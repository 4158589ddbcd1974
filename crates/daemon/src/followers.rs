// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends events to followers as they happen, and remembers the latest. The sender never waits: a slow follower misses
//! events and is told how many.

use palisade_event::Event;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many events are remembered.
const REMEMBERED: usize = 4096;
/// The most events that wait for one follower.
const WAITING: usize = 1024;

/// An event, and which user may see it besides root.
#[derive(Debug, Clone)]
pub(crate) struct News {
    pub(crate) event: Arc<Event>,
    /// The user whose process caused the event; if none, only root may see it.
    pub(crate) user: Option<u32>,
    /// Whether the rules or settings want it logged. An event that isn't logged is sent only to followers that asked for
    /// all, and isn't remembered.
    pub(crate) logged: bool,
}

/// Which events a follower gets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interest {
    /// Only of this user; if none, of all users.
    pub(crate) user: Option<u32>,
    /// Only of this scope; if none, of all scopes.
    pub(crate) scope: Option<u32>,
    /// Only what was refused or ended.
    pub(crate) refused: bool,
    /// Also events that aren't logged.
    pub(crate) all: bool,
}

impl Interest {
    /// The events that this user may see; root may see all.
    pub(crate) fn of(uid: u32) -> Self {
        Self { user: (uid != 0).then_some(uid), scope: None, refused: false, all: false }
    }

    fn wants(&self, news: &News) -> bool {
        self.user.is_none_or(|user| news.user == Some(user))
            && self.scope.is_none_or(|scope| news.event.subject.scope == Some(scope))
            && (!self.refused || news.event.verdict.stopped_it())
            && (self.all || news.logged)
    }
}

/// The followers, and the remembered events.
#[derive(Debug, Default)]
pub(crate) struct Followers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    past: VecDeque<News>,
    list: Vec<Follower>,
    /// The next follower's number.
    number: u64,
    missed: u64,
}

#[derive(Debug)]
struct Follower {
    number: u64,
    interest: Interest,
    events: SyncSender<Arc<Event>>,
    missed: Arc<AtomicU64>,
}

/// A follower's receiving end.
#[derive(Debug)]
pub(crate) struct Following {
    /// The number by which the follower is removed.
    pub(crate) number: u64,
    /// The remembered events, if they were wanted.
    pub(crate) past: Vec<Arc<Event>>,
    events: Receiver<Arc<Event>>,
    missed: Arc<AtomicU64>,
}

impl Following {
    /// New events.
    pub(crate) fn events(&self) -> &Receiver<Arc<Event>> {
        &self.events
    }

    /// How many events were missed since the last call.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.swap(0, Ordering::Relaxed)
    }
}

impl Followers {
    /// Adds a follower. If `past`, it also gets the remembered events. `tell` is told whether any follower wants all
    /// events.
    pub(crate) fn add(&self, interest: Interest, past: bool, tell: impl FnOnce(bool)) -> Following {
        let (sender, events) = sync_channel(WAITING);
        let missed = Arc::new(AtomicU64::new(0));
        let mut state = self.state();
        let past = if past {
            let wanted = state.past.iter().filter(|news| interest.wants(news));
            wanted.map(|news| Arc::clone(&news.event)).collect()
        } else {
            Vec::new()
        };
        let number = state.number;
        state.number += 1;
        state.list.push(Follower { number, interest, events: sender, missed: Arc::clone(&missed) });
        tell(state.list.iter().any(|follower| follower.interest.all));
        Following { number, past, events, missed }
    }

    /// Removes a follower. `tell` is told whether any follower still wants all events.
    pub(crate) fn remove(&self, number: u64, tell: impl FnOnce(bool)) {
        let mut state = self.state();
        state.list.retain(|follower| follower.number != number);
        tell(state.list.iter().any(|follower| follower.interest.all));
    }

    /// How many events slow followers missed, in total.
    pub(crate) fn missed(&self) -> u64 {
        self.state().missed
    }

    /// Sends an event to each follower that wants it.
    pub(crate) fn tell(&self, news: News) {
        let mut state = self.state();
        let State { list, missed, .. } = &mut *state;
        list.retain(|follower| {
            if !follower.interest.wants(&news) {
                return true;
            }
            match follower.events.try_send(Arc::clone(&news.event)) {
                Err(TrySendError::Disconnected(_)) => return false,
                Err(TrySendError::Full(_)) => {
                    follower.missed.fetch_add(1, Ordering::Relaxed);
                    *missed += 1;
                }
                Ok(()) => {}
            }
            true
        });
        if news.logged {
            if state.past.len() == REMEMBERED {
                state.past.pop_front();
            }
            state.past.push_back(news);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use palisade_event::{
        Decision, Detail, Guard, Mechanism, Object, Operation, Scope, Subject, Verdict, Why,
    };
    use std::time::SystemTime;

    /// An event: the guard refused a process of `uid`.
    pub(crate) fn refusal(uid: u32, path: &str) -> Event {
        let guard = Guard {
            decision: Decision::DenyAudit,
            rule: Some(3),
            trusted: Some(false),
            file_kind: "?".into(),
            line: "line".into(),
            steps: Vec::new(),
        };
        Event::new(
            SystemTime::UNIX_EPOCH,
            Detail::Guard(guard),
            Subject { pid: Some(7), uid: Some(uid), program: "/bin/sh".into(), ..Subject::default() },
            (Operation::Execute, Object::file(path)),
            (Verdict::Refused, Mechanism::Fanotify),
            Why::text("rule 3 denies it"),
        )
    }

    fn news(uid: u32, logged: bool) -> News {
        News { event: refusal(uid, "/a").into(), user: Some(uid), logged }
    }

    fn nobody(all: bool) {
        assert!(!all);
    }

    #[test]
    fn who_follows_hears_and_who_is_taken_away_does_not() {
        let followers = Followers::default();
        let some = followers.add(Interest::of(0), false, nobody);
        let all = followers.add(Interest { all: true, ..Interest::of(0) }, false, |all| assert!(all));
        followers.tell(news(1, false));
        followers.tell(news(1, true));
        assert_eq!((some.events().try_iter().count(), all.events().try_iter().count()), (1, 2));
        followers.remove(all.number, nobody);
        followers.tell(news(1, true));
        assert_eq!((some.events().try_iter().count(), all.events().try_iter().count()), (1, 0));
    }

    #[test]
    fn root_hears_of_everybody_and_a_user_of_what_is_own() {
        let followers = Followers::default();
        // Events before a follower is added, and the same events afterwards.
        let tell = || {
            followers.tell(news(1000, true));
            followers.tell(news(1001, true));
            followers.tell(News { user: None, ..news(1000, true) });
        };
        tell();
        let [root, one, other, third] =
            [0, 1000, 1001, 1002].map(|uid| followers.add(Interest::of(uid), true, nobody));
        tell();
        let heard = |following: &Following| {
            let users = |event: &Arc<Event>| event.subject.uid.unwrap();
            let past: Vec<u32> = following.past.iter().map(users).collect();
            let then: Vec<u32> = following.events().try_iter().map(|event| users(&event)).collect();
            assert_eq!(past, then);
            past
        };
        assert_eq!(heard(&root), [1000, 1001, 1000]);
        assert_eq!(heard(&one), [1000]);
        assert_eq!(heard(&other), [1001]);
        assert_eq!(heard(&third), [0_u32; 0]);
    }

    #[test]
    fn of_a_scope_and_of_what_was_refused() {
        let followers = Followers::default();
        let of_scope = |scope, verdict| News {
            event: Arc::new(Event {
                subject: Subject { scope: Some(scope), ..Subject::default() },
                detail: Detail::Scope(Scope::default()),
                verdict,
                ..refusal(1, "/a")
            }),
            ..news(1, true)
        };
        let one = followers.add(Interest { scope: Some(3), ..Interest::of(1) }, false, nobody);
        let refused = followers.add(Interest { refused: true, ..Interest::of(1) }, false, nobody);
        followers.tell(of_scope(3, Verdict::Allowed));
        followers.tell(of_scope(4, Verdict::Killed));
        followers.tell(of_scope(4, Verdict::Warned));
        assert_eq!((one.events().try_iter().count(), refused.events().try_iter().count()), (1, 1));
    }

    #[test]
    fn who_is_slow_misses_events_and_is_told_how_many() {
        let followers = Followers::default();
        let slow = followers.add(Interest::of(0), false, nobody);
        let quick = followers.add(Interest::of(0), false, nobody);
        let mut heard = 0;
        for _ in 0..WAITING + 10 {
            followers.tell(news(1, true));
            heard += quick.events().try_iter().count();
        }
        assert_eq!((heard, quick.missed()), (WAITING + 10, 0));
        assert_eq!((slow.missed(), slow.missed(), followers.missed()), (10, 0, 10));
        assert_eq!(slow.events().try_iter().count(), WAITING);
    }

    #[test]
    fn so_much_is_remembered_of_what_is_logged() {
        let followers = Followers::default();
        for _ in 0..REMEMBERED + 5 {
            followers.tell(news(1, true));
            followers.tell(news(1, false));
        }
        assert_eq!(followers.add(Interest::of(0), true, nobody).past.len(), REMEMBERED);
        assert!(followers.add(Interest::of(0), false, nobody).past.is_empty());
    }
}
