// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls of a launch that weren't learned: keeps them in the mode `learn`, asks the user in the mode `ask`.

use crate::asking::{Asker, Asking, Turn};
use crate::prompt;
use crate::question::{Wish, Word};
use crate::{output, situation};
use palisade_sandbox::apply::start::{LaunchEvent, Program};
use palisade_sandbox::error::quoted;
use palisade_sandbox::filter::calls::Unanswered;
use palisade_sandbox::learned::recorder::{Changed, PROGRAMS, Recorder, identify};
use palisade_sandbox::plan::Plan;
use palisade_syscall::Syscall;
use palisade_syscall::broker::report::Answer;
use palisade_syscall::store::{Binary, Store, StoreError, key};
use palisade_text::harmless;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Records the calls of a launch.
#[derive(Debug)]
pub(crate) struct Calls<'p>(Recorder<'p>);

/// Why calls aren't kept.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The user's state directory can't be found.
    #[error("can't find the store: {0}")]
    Place(crate::verb::Failure),
}

impl<'p> Calls<'p> {
    pub(crate) const fn new(plan: &'p Plan<'p>) -> Self {
        Self(Recorder::new(plan))
    }

    /// A program made a call for the first time.
    pub(crate) fn note(&mut self, program: &Program, call: Syscall) {
        self.0.note(program, call);
    }

    /// Handles calls that the kernel recorded. `tell` gets an event for each call that is learned.
    pub(crate) fn called(
        &mut self,
        called: &[palisade_protocol::learn::Program],
        tell: &mut dyn FnMut(&LaunchEvent<'_>),
    ) {
        for one in called {
            self.0.called((&one.path, one.device, one.inode), &one.calls, tell);
        }
    }

    /// Keeps what was learned, and prints how much of it is new.
    pub(crate) fn keep(&mut self, quiet: bool) {
        let taught = match self.0.taught() {
            Ok(Some(taught)) => taught,
            Ok(None) => return,
            Err(Changed { profile }) => {
                return output::error(
                    &format_args!(
                        "the learned system calls aren't saved: the program {} was changed or removed while it ran",
                        key::shown(&profile)
                    ),
                    Some(
                        "palisade run --profile NAME --syscalls learn -- COMMAND…   # records calls under the profile",
                    ),
                );
            }
        };
        if taught.overflowed {
            output::note(&format_args!(
                "one run can learn from {PROGRAMS} programs at most: learn again with fewer programs"
            ));
        }
        let (profile, programs) = (&taught.profile, taught.programs);
        match keep(profile, &taught.calls) {
            Ok(new) if !quiet => output::note(&format_args!(
                "{new} new system calls were learned for {:?}, from {programs} programs: palisade syscalls show {}",
                key::shown(profile),
                quoted(profile)
            )),
            Ok(_new) => {}
            Err(error) => output::error(
                &format_args!("the learned system calls aren't saved: {error}"),
                Some("palisade syscalls list   # shows whether the store can be read"),
            ),
        }
    }

    /// Asks the user whether a call may be made.
    pub(crate) fn ask(&self, question: &Unanswered<'_>, asking: &mut Asking, answers: BorrowedFd<'_>) {
        let (number, call) = (question.number, question.call);
        let no = Answer { number, allow: false, keep: false };
        let Ok(answers) = answers.try_clone_to_owned() else { return };
        let (program, profile) = (question.program.clone(), self.0.profile());
        let host = self.0.on_the_host(&program);
        let Ok(unheard) = answers.try_clone() else { return };
        let asker: Asker = Box::new(move |turn| {
            // Where nothing is learned, an answer holds for the session at most.
            let keep = profile.as_deref().map(|profile| || always(profile, &program, host.as_deref(), call));
            let keep = keep.as_ref().map(|keep| keep as prompt::Keep<'_>);
            let word = match turn {
                Turn::Ask(running) => prompt::ask(&wish(&program, call, profile.as_deref()), keep, running),
                Turn::TooMany => Ok(Some(Word::No)),
            };
            let is_asked = word.is_ok() && matches!(turn, Turn::Ask(_));
            // If the user can't be asked now, refuse for the whole session: a later question would fail, too.
            let word = word.ok().flatten().unwrap_or(Word::Never);
            Answer { number, allow: word.allows(), keep: word.stays() }.send(answers.as_fd());
            is_asked
        });
        if !asking.queue(asker, "--syscalls enforce") {
            no.send(unheard.as_fd());
        }
    }
}

fn keep(profile: &str, learned: &BTreeMap<Binary, BTreeSet<Syscall>>) -> Result<usize, KeepError> {
    let facts = situation::facts().map_err(KeepError::Place)?;
    Ok(Store::open(&facts.places.syscalls())?.learn(profile, learned)?)
}

/// Learns one call, and returns a message about it.
fn always(profile: &str, program: &Program, host: Option<&Path>, call: Syscall) -> String {
    let binary = identify(program, host);
    match keep(profile, &BTreeMap::from([(binary, BTreeSet::from([call]))])) {
        Ok(_new) => format!(
            "palisade: {} is learned for {}\r\nhint: to forget all its calls: palisade syscalls clean {}\r\n",
            call.name(),
            harmless(&key::shown(profile)),
            harmless(&quoted(profile)),
        ),
        Err(error) => {
            format!("palisade: allowed for this session only: {}\r\n", harmless(&error.to_string()))
        }
    }
}

fn wish(program: &Program, call: Syscall, profile: Option<&str>) -> Wish {
    let path = String::from_utf8_lossy(&program.path);
    Wish {
        program: if path.is_empty() { "a program".to_owned() } else { path.into_owned() },
        action: format!("call {}", call.name()),
        why: match profile {
            Some(_) => "This system call wasn't learned for the program.",
            None => "The policy says to ask about this system call.",
        },
        scope: profile.map(|profile| format!("programs of {}", quoted(profile))),
    }
}
