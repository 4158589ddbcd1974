// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Serves conversations over the daemon's sockets: limits how many there are at once, and begins and ends each.

use crate::followers::Following;
use crate::saying::say_of_users;
use palisade_event::Event;
use palisade_protocol::guard::Refusal;
use palisade_protocol::{Connection, ProtocolError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a client may stay silent before it sends a request.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A service that answers at a socket.
pub(crate) trait Talks: Send + Sync + 'static {
    /// What the conversations are about.
    const ABOUT: &'static str;
    /// The threads' name.
    const THREAD: &'static str;
    /// The most conversations of ordinary users at once, and the most of root. The limits are separate, so that ordinary
    /// users can't keep root out.
    const MOST: usize;
    /// The most conversations of one ordinary user at once, so that one user can't keep the others out.
    const EACH: usize;

    /// Whether the service ends, and no conversation begins any more.
    fn is_over(&self) -> bool {
        false
    }

    /// Has one whole conversation.
    fn talk(&self, connection: &mut Connection) -> Result<(), ProtocolError>;

    /// Called when the last conversation has ended; none begins during the call.
    fn is_alone(&self) {}
}

/// The number of conversations now, by user.
#[derive(Default)]
struct Seats(Mutex<HashMap<u32, usize>>);

impl Seats {
    fn take(&self, uid: u32, most: usize, each: usize) -> bool {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(&uid).copied().unwrap_or(0);
        let ordinary: usize = taken.iter().filter(|(uid, _)| **uid != 0).map(|(_, own)| own).sum();
        let free = if uid == 0 { own < most } else { ordinary < most && own < each };
        if free {
            taken.insert(uid, own + 1);
        }
        free
    }

    fn leave(&self, uid: u32, last: impl FnOnce()) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&uid) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&uid);
            }
        }
        if taken.is_empty() {
            last();
        }
    }
}

/// Serves until the process ends. If the service is over, ends at the next connection.
pub(crate) fn serve<S: Talks>(service: &Arc<S>, listener: &UnixListener) {
    let seats = Arc::new(Seats::default());
    for stream in listener.incoming() {
        if service.is_over() {
            return;
        }
        let Ok(stream) = stream else {
            // No descriptor is free; some conversation will end.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let Ok(credentials) = rustix::net::sockopt::socket_peercred(&stream) else { continue };
        let uid = credentials.uid.as_raw();
        if !seats.take(uid, S::MOST, S::EACH) {
            continue;
        }
        let (talking, taken) = (Arc::clone(service), Arc::clone(&seats));
        let spawned = std::thread::Builder::new().name(S::THREAD.into()).spawn(move || {
            converse(&*talking, stream);
            taken.leave(uid, || talking.is_alone());
        });
        if spawned.is_err() {
            seats.leave(uid, || service.is_alone());
        }
    }
}

fn converse<S: Talks>(service: &S, stream: UnixStream) {
    let outcome = Connection::begin(stream, concat!("palisaded ", env!("CARGO_PKG_VERSION")))
        .and_then(|mut connection| service.talk(&mut connection));
    if let Err(error) = outcome
        && !matches!(error, ProtocolError::Gone | ProtocolError::Broken(_) | ProtocolError::TooSlow)
    {
        say_of_users(&format!("palisaded: a conversation about {} ended: {error}", S::ABOUT));
    }
}

/// Receives the next request. Refuses one that can't be understood, and takes the next.
pub(crate) fn next<Q: DeserializeOwned, A: Serialize>(
    connection: &mut Connection,
    refused: impl Fn(Refusal) -> A,
) -> Result<Q, ProtocolError> {
    loop {
        match connection.receive_within(Some(PATIENCE)) {
            Err(ProtocolError::Malformed(error)) => connection.send(&refused(Refusal {
                class: "request".into(),
                message: format!("can't understand the request: {error}"),
                hint: Some("update palisade and palisaded to the same version".into()),
            }))?,
            other => return other,
        }
    }
}

/// How a socket's protocol expresses events.
pub(crate) struct Words<A> {
    /// One event.
    pub(crate) event: fn(Arc<Event>) -> A,
    /// This number of events was missed.
    pub(crate) missed: fn(u64) -> A,
    /// The request is done; in words.
    pub(crate) done: fn(String) -> A,
}

/// Sends the remembered events and, unless it `ends` there, new events, until the service is over or the follower is gone.
pub(crate) fn tell<A: Serialize>(
    connection: &mut Connection,
    following: &Following,
    ends: bool,
    is_over: impl Fn() -> bool,
    words: &Words<A>,
) -> Result<(), ProtocolError> {
    connection.send(&(words.done)("following".into()))?;
    for event in &following.past {
        connection.send(&(words.event)(Arc::clone(event)))?;
    }
    connection.send(&(words.done)("that is what is remembered".into()))?;
    if ends {
        return Ok(());
    }
    loop {
        let missed = following.missed();
        if missed > 0 {
            connection.send(&(words.missed)(missed))?;
        }
        match following.events().recv_timeout(Duration::from_millis(200)) {
            Ok(event) => connection.send(&(words.event)(event))?,
            Err(RecvTimeoutError::Timeout) => {
                if is_over() {
                    return Ok(());
                }
                // A follower sends nothing after its request. Anything but a timeout means that it has closed the
                // connection.
                match connection.receive_within::<serde::de::IgnoredAny>(Some(Duration::from_millis(1))) {
                    Err(ProtocolError::TooSlow) => {}
                    _ => return Ok(()),
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::followers::tests::refusal;
    use crate::followers::{Followers, Interest, News};
    use palisade_protocol::guard::Response;

    const WORDS: Words<Response> = Words {
        event: Response::Event,
        missed: |count| Response::Missed { count },
        done: |said| Response::Done { said },
    };

    /// A follower's conversation, and the thread that reads its other end.
    fn follow(followers: &Followers, ends: bool, past: bool) -> (Connection, std::thread::JoinHandle<()>) {
        let following = followers.add(Interest::of(0), past, |_all| ());
        for number in 0..1024 + 10 {
            let event = refusal(1000, &format!("/{number}")).into();
            followers.tell(News { event, user: Some(1000), logged: true });
        }
        let (ours, theirs) = UnixStream::pair().unwrap();
        let told = std::thread::spawn(move || {
            let mut connection = Connection::begin(theirs, "told").unwrap();
            let is_over = || false;
            let _gone = tell(&mut connection, &following, ends, is_over, &WORDS);
        });
        (Connection::begin(ours, "reader").unwrap(), told)
    }

    #[test]
    fn who_was_slow_is_told_how_many_events_it_missed() {
        let followers = Followers::default();
        let (mut reader, told) = follow(&followers, false, false);
        let mut next = || reader.receive::<Response>().unwrap();
        assert!(matches!(next(), Response::Done { .. }), "it follows");
        assert!(matches!(next(), Response::Done { .. }), "nothing is remembered");
        assert_eq!(next(), Response::Missed { count: 10 });
        for number in 0..1024 {
            let Response::Event(event) = next() else { panic!("{number}: no event") };
            assert_eq!(event.object.to_string(), format!("/{number}"));
        }
        // Closing the follower's end ends the conversation.
        drop(reader);
        told.join().unwrap();
    }

    #[test]
    fn what_is_remembered_comes_first_and_may_be_all() {
        let followers = Followers::default();
        drop(follow(&followers, true, false));
        let (mut reader, told) = follow(&followers, true, true);
        let mut next = || reader.receive::<Response>();
        assert!(matches!(next(), Ok(Response::Done { .. })));
        for number in 0..1024 + 10 {
            let Ok(Response::Event(event)) = next() else { panic!("{number}: no event") };
            assert_eq!(event.object.to_string(), format!("/{number}"));
        }
        assert!(matches!(next(), Ok(Response::Done { .. })));
        told.join().unwrap();
        assert!(matches!(next(), Err(ProtocolError::Gone)), "the conversation is over");
    }
}
