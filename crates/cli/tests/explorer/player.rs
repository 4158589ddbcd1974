// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A running `player.c`: it gets calls, and tells what came of them.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Seconds in which calls that take microseconds must have ended, on whatever machine.
const LIMIT: i64 = 300;

pub(super) struct Player {
    child: Child,
    calls: ChildStdin,
    results: BufReader<ChildStdout>,
}

impl Player {
    /// Starts it, in a sandbox or not.
    pub(super) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let calls = child.stdin.take().unwrap();
        let results = BufReader::new(child.stdout.take().unwrap());
        let mut player = Self { child, calls, results };
        player.play("");
        player
    }

    /// Makes the calls, one a line; gives 0 or errno of each.
    pub(super) fn play(&mut self, calls: &str) -> Vec<i32> {
        let all = format!("{calls}sync\n");
        self.calls.write_all(all.as_bytes()).unwrap_or_else(|error| panic!("{error}: {calls}"));
        let limit = Timespec { tv_sec: LIMIT, tv_nsec: 0 };
        let mut wait = [PollFd::new(self.results.get_ref(), PollFlags::IN)];
        let ready = loop {
            match poll(&mut wait, Some(&limit)) {
                Err(rustix::io::Errno::INTR) => {}
                ready => break ready.unwrap(),
            }
        };
        assert!(ready > 0, "these calls never ended:\n{calls}");
        let mut line = String::new();
        self.results.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the player has died of these calls:\n{calls}");
        line.split_whitespace().map(|number| number.parse().unwrap()).collect()
    }

    /// Ends it, and waits for that.
    pub(super) fn end(self) {
        let Self { mut child, calls, results } = self;
        drop(calls);
        drop(results);
        crate::support::job::bounded(&mut child);
    }
}
