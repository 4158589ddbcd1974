// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use palisade_event::{Mechanism, Object, Operation, Scope, Subject, Why};
use palisade_protocol::scope::Marked;
use palisade_protocol::{Connection, guard::Refusal};
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::SystemTime;

/// The socket of the test's daemon, and the link to it.
struct Place {
    directory: tempfile::TempDir,
    listener: Option<UnixListener>,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = Some(UnixListener::bind(directory.path().join("scope.sock")).unwrap());
        Self { directory, listener }
    }

    fn link(&self) -> Link {
        let mut link = Link::of(4711, &self.directory.path().join("scope.sock"), PATIENCE);
        link.possible = true;
        link
    }

    /// The daemon's end of each new connection.
    fn accepted(&mut self) -> Receiver<UnixStream> {
        let listener = self.listener.take().unwrap();
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if sender.send(stream).is_err() {
                    return;
                }
            }
        });
        receiver
    }
}

fn wanted() -> Wanted {
    Wanted { label: "shell: ls".into(), ..Wanted::default() }
}

/// Answers as the daemon does, and sends each request on. Lines are answered with `lines`, then with scope 7.
fn serve(streams: Receiver<UnixStream>, asked: Sender<Request>, mut lines: Vec<Response>) {
    std::thread::spawn(move || {
        for stream in streams {
            let asked = asked.clone();
            let mut lines = core::mem::take(&mut lines);
            std::thread::spawn(move || {
                let Ok(mut talk) = Connection::begin(stream, "test") else { return };
                while let Ok(request) = talk.receive::<Request>() {
                    let answer = match &request {
                        Request::Line { .. } if !lines.is_empty() => lines.remove(0),
                        Request::Line { .. } => {
                            Response::Marked(Marked { scope: 7, processes: 1, notes: Vec::new() })
                        }
                        _ => Response::Done { said: String::new() },
                    };
                    let follows = matches!(request, Request::Follow { .. });
                    let _nobody_listens = asked.send(request);
                    if talk.send(&answer).is_err() {
                        return;
                    }
                    if follows {
                        for (scope, path) in [(8, "/bin/other"), (7, "/bin/n\u{1b}c")] {
                            let event = Event::new(
                                SystemTime::now(),
                                Detail::Scope(Scope::default()),
                                Subject { scope: Some(scope), ..Subject::default() },
                                (Operation::Execute, Object::file(path)),
                                (Verdict::Killed, Mechanism::Bpf),
                                Why::text("the name is denied"),
                            );
                            // Send the event only when the scope exists: the first line must have been requested.
                            std::thread::sleep(Duration::from_millis(20));
                            let _gone = talk.send(&Response::Event(event.into()));
                        }
                    }
                }
            });
        }
    });
}

/// Reads answers until `so` is true.
fn until(link: &mut Link, mut so: impl FnMut(&mut Link) -> bool) {
    let begun = Instant::now();
    while !so(link) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{link:?}");
        std::thread::sleep(Duration::from_millis(2));
        link.hear();
    }
}

#[test]
fn a_line_is_marked_and_released() {
    let mut place = Place::new();
    let (sender, asked) = channel();
    serve(place.accepted(), sender, Vec::new());
    let mut link = place.link();
    link.begin();
    until(&mut link, |link| link.due.is_empty() && link.ask.is_some());
    link.run(wanted());
    until(&mut link, |link| link.held() == Some(7));
    link.over();
    until(&mut link, |link| link.held().is_none() && link.due.is_empty());
    let asked: Vec<Request> =
        asked.try_iter().filter(|asked| !matches!(asked, Request::Follow { .. })).collect();
    let release = Request::Release { pid: 4711 };
    assert_eq!(asked, [release.clone(), Request::Line { pid: 4711, scope: wanted() }, release]);
}

#[test]
fn only_what_happens_in_scopes_of_ours_is_told_and_harmlessly() {
    let mut place = Place::new();
    let (sender, _asked) = channel();
    serve(place.accepted(), sender, Vec::new());
    let mut link = place.link();
    // Register the scope's number before an event can arrive.
    link.own.push_back(7);
    link.run(wanted());
    until(&mut link, |link| !link.refused.is_empty());
    let words = link.words().unwrap();
    assert!(words.contains("killed /bin/n\\u{1b}c") && words.contains("the name is denied"), "{words}");
    assert!(
        words.ends_with("hint: palisade scope events --scope 7\n") && !words.contains("other"),
        "{words}"
    );
    assert_eq!(link.words(), None);
}

#[test]
fn nobody_there_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let mut link = Link::of(4711, &directory.path().join("none"), PATIENCE);
    link.possible = true;
    for _ in 0..100 {
        link.run(wanted());
        link.over();
    }
    assert_eq!((link.waits(), link.words()), (0, None));
}

/// The kernel accepts connections for a stopped process, and that process doesn't answer.
#[test]
fn who_hangs_is_waited_for_once() {
    let place = Place::new();
    let mut link = place.link();
    for line in 0..100 {
        link.run(wanted());
        assert_eq!(link.held(), None);
        link.over();
        // poll may return early. The test checks that no later line waits again.
        assert!(link.waits() >= 1);
        let first = link.waits();
        link.run(wanted());
        assert_eq!(link.waits(), first, "line {line}");
        link.over();
    }
    let words = link.words().unwrap();
    assert!(words.contains("doesn't answer") && words.contains("it was updated since"), "{words}");
    assert_eq!(link.words(), None, "it is said once");
}

/// The daemon continues and answers an old request. The shell must not stay marked.
#[test]
fn an_answer_that_comes_too_late_is_taken_back() {
    let mut place = Place::new();
    let mut link = place.link();
    link.run(wanted());
    link.over();
    assert_eq!(link.held(), None);
    let (sender, asked) = channel();
    serve(place.accepted(), sender, Vec::new());
    until(&mut link, |link| link.due.is_empty() && link.own.contains(&7));
    assert_eq!(link.held(), None);
    let last = asked.try_iter().filter(|asked| !matches!(asked, Request::Follow { .. })).last();
    assert_eq!(last, Some(Request::Release { pid: 4711 }));
    // Then a new request is sent.
    link.run(wanted());
    until(&mut link, |link| link.held() == Some(7));
}

#[test]
fn garbage_is_no_answer() {
    let endless = 600_u32.to_le_bytes();
    for garbage in
        [b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(), &[0xff; 64], &[2, 0, 0, 0, b'{', b'}'], &endless]
    {
        let mut place = Place::new();
        let streams = place.accepted();
        let bytes = garbage.to_vec();
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for mut stream in streams {
                let _taken = stream.write_all(&bytes);
                open.push(stream);
            }
        });
        let mut link = place.link();
        for _ in 0..20 {
            link.run(wanted());
            assert_eq!(link.held(), None);
            link.over();
        }
        // Each problem is reported once. A message that never ends has the same effect as a daemon that hangs.
        let words = link.words().unwrap();
        assert!(words.contains("it was updated since"), "{words}");
    }
}

#[test]
fn who_dies_midway_is_not_waited_for() {
    for said in [0, 1] {
        let mut place = Place::new();
        let streams = place.accepted();
        std::thread::spawn(move || {
            for stream in streams {
                if said == 0 {
                    drop(stream);
                } else if let Ok(mut talk) = Connection::begin(stream, "test") {
                    let _asked = talk.receive::<Request>();
                    // Half of an answer.
                    let _taken = rustix::io::write(talk.socket(), &[99, 0, 0, 0, b'{']);
                }
            }
        });
        let mut link = place.link();
        for _ in 0..20 {
            link.run(wanted());
            assert_eq!(link.held(), None);
            link.over();
        }
        assert_eq!(link.words(), None, "the daemon may end");
    }
}

#[test]
fn a_refusal_is_said_once_and_somebody_elses_scope_not_at_all() {
    let refusal = |class: &str| {
        let message = format!("no: {class}");
        Response::Refused(Refusal {
            class: class.into(),
            message,
            hint: Some("palisade scope status".into()),
        })
    };
    let mut place = Place::new();
    let (sender, _asked) = channel();
    let streams = place.accepted();
    // Only the connection that asks receives these answers; the other one requests no line.
    let (pass, passed) = channel();
    std::thread::spawn(move || {
        for (number, stream) in streams.into_iter().enumerate() {
            let (own, own_passed) = channel();
            own.send(stream).unwrap();
            drop(own);
            let _sent = pass.send((number, own_passed));
        }
    });
    let lines = vec![refusal("inside"), refusal("not-here"), refusal("not-here")];
    let mut link = place.link();
    link.begin();
    for _ in 0..2 {
        let (_, stream) = passed.recv().unwrap();
        serve(stream, sender.clone(), lines.clone());
    }
    until(&mut link, |link| link.due.is_empty());
    let mut said = Vec::new();
    for _ in 0..3 {
        link.run(wanted());
        until(&mut link, |link| !link.due.contains(&Asked::Line));
        link.over();
        said.extend(link.words());
    }
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("no: not-here") && said[0].contains("hint: palisade scope status"), "{said:?}");
}

#[test]
fn any_bytes_of_a_daemon_are_taken() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let place = Place::new();
        let mut link = place.link();
        link.begin();
        let listener = place.listener.as_ref().unwrap();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let _taken = stream.write_all(&bytes[..bytes.len().min(4096)]);
        }
        link.hear();
        let _any = link.words();
    });
}
