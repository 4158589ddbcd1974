// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A running `player.c`: sends it calls and reads their results.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Seconds in which calls that take microseconds must have ended, on whatever machine.
const LIMIT: i64 = 300;

pub(crate) struct Player {
    child: Child,
    calls: ChildStdin,
    results: BufReader<ChildStdout>,
}

impl Player {
    /// Starts it, in a sandbox or not.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::attempt(command).unwrap_or_else(|said| panic!("{command:?}: {said}"))
    }

    /// Starts it. If the launch refuses to start, returns its message.
    pub(crate) fn attempt(command: &mut Command) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let calls = child.stdin.take().unwrap();
        let results = BufReader::new(child.stdout.take().unwrap());
        let mut player = Self { child, calls, results };
        if player.ask("sync\n").ends_with('\n') {
            return Ok(player);
        }
        let Self { child, calls, .. } = player;
        drop(calls);
        let run = crate::support::job::wait(child);
        Err(format!("exit code {}: {}", run.code, run.err))
    }

    /// Makes the calls, one a line; gives 0 or errno of each. If it has died of them, how it or its launch ended.
    pub(crate) fn play(&mut self, calls: &str) -> Result<Vec<i32>, String> {
        let line = self.ask(&format!("{calls}sync\n"));
        if !line.ends_with('\n') {
            return Err(self.last_words());
        }
        Ok(line.split_whitespace().map(|number| number.parse().unwrap()).collect())
    }

    /// Reads every file below `roots` and writes `line` to it; returns the first words that were read.
    pub(crate) fn look(&mut self, line: &str, roots: &str) -> Result<Vec<String>, String> {
        let mut next = self.ask(&format!("look {line} {roots}\n"));
        let mut words = Vec::new();
        while next != ".\n" {
            if !next.ends_with('\n') {
                return Err(self.last_words());
            }
            words.push(next.trim_end().to_owned());
            next.clear();
            self.results.read_line(&mut next).unwrap();
        }
        Ok(words)
    }

    /// How the player, or its launch, ended, and what it printed.
    fn last_words(&mut self) -> String {
        let mut said = String::new();
        let _all_that_is_text = self.child.stderr.as_mut().unwrap().read_to_string(&mut said);
        format!("{:?}: {said}", self.child.wait())
    }

    /// Says something, and waits for the first line of the answer.
    fn ask(&mut self, request: &str) -> String {
        self.answer(request, LIMIT).unwrap_or_else(|_part| panic!("this never ended:\n{request}"))
    }

    /// The same; without a line's end of a player that has died. What has come until then, if that takes too many seconds.
    pub(crate) fn answer(&mut self, request: &str, seconds: i64) -> Result<String, String> {
        // Writing to a player that has died fails; that is detected below.
        let _written = self.calls.write_all(request.as_bytes());
        let limit = Timespec { tv_sec: seconds, tv_nsec: 0 };
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            if self.results.buffer().is_empty() {
                let mut wait = [PollFd::new(self.results.get_ref(), PollFlags::IN)];
                match poll(&mut wait, Some(&limit)) {
                    Err(rustix::io::Errno::INTR) => continue,
                    Ok(0) => return Err(text(line)),
                    ready => _ = ready.unwrap(),
                }
            }
            let come = self.results.fill_buf().unwrap();
            if come.is_empty() {
                break;
            }
            let end = come.iter().position(|byte| *byte == b'\n').map_or(come.len(), |at| at + 1);
            line.extend(&come[..end]);
            self.results.consume(end);
        }
        Ok(text(line))
    }

    /// Ends one that doesn't end by itself.
    pub(crate) fn kill(mut self) {
        let _dead_already = self.child.kill();
        self.end();
    }

    /// Ends it, and waits for that.
    pub(crate) fn end(self) {
        let Self { mut child, calls, results } = self;
        drop(calls);
        drop(results);
        drop(child.stderr.take());
        crate::support::job::bounded(&mut child);
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}
