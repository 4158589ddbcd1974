// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints what `palisade run` says while and after the command runs: refusals, and what the command made.

use crate::aftermath;
use crate::asking::Asking;
use crate::bwrap::hint_by_policy;
use crate::calls::Calls;
use crate::embedded;
use crate::opened::This;
use crate::output;
use crate::repositories::{Repositories, lost_worktrees};
use crate::scan::Presentation;
use crate::situation;
use crate::why::{self, LastLaunch};
use palisade_event::{
    Detail, Event, Launch, Mechanism, Network, Object, Operation, Outcome, Sandbox, Subject, Verdict, Why,
};
use palisade_events::{Notices, Recorder, RefusalOutlet, Refusals};
use palisade_protocol::network::Told;
use palisade_sandbox::apply::question;
use palisade_sandbox::apply::start::LaunchEvent;
use palisade_sandbox::network::reports::Reports;
use palisade_sandbox::plan::{Approvals, Plan};
use palisade_sandbox::registry::Number;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::path::PathBuf;
use std::time::SystemTime;

/// Exit codes of programs that the kernel ended because of what they did: ILL, TRAP, ABRT, BUS, FPE, SEGV, SYS.
const CRASHES: [u8; 7] = [132, 133, 134, 135, 136, 139, 159];
/// Programs that fail to say no.
const PREDICATES: [&str; 8] = ["[", "cmp", "diff", "egrep", "false", "grep", "rg", "test"];

/// The places where programs read refusals.
struct Outlets(Vec<Box<dyn RefusalOutlet>>);

impl std::fmt::Debug for Outlets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Outlets").field(&self.0.len()).finish()
    }
}

/// Receives the events of a launch.
#[derive(Debug)]
pub(crate) struct Reporter<'c> {
    command: &'c [OsString],
    number: Number,
    name: Option<&'c str>,
    /// The policy of `palisade bwrap`.
    policy: Option<&'c OsStr>,
    application: Option<This<'c>>,
    quiet: bool,
    /// Programs inside act on what standard error says.
    for_model: bool,
    /// Where programs read refusals. Taken for the recorder.
    outlets: Outlets,
    /// Made at the first refusal: most launches have none.
    recorder: Option<Recorder>,
    lost: u64,
    repositories: Repositories,
    /// Worktrees of them that are gone with the sandbox.
    lost_worktrees: Vec<PathBuf>,
    asking: Asking,
    calls: Calls<'c>,
    reports: Reports,
}

impl<'c> Reporter<'c> {
    pub(crate) fn new(
        command: &'c [OsString],
        plan: &'c Plan<'c>,
        number: Number,
        presentation: Presentation<'c>,
        outlets: Vec<Box<dyn RefusalOutlet>>,
    ) -> Self {
        let answers = plan.network.as_ref().and_then(|network| network.answers.as_ref());
        Self {
            command,
            number,
            name: presentation.name,
            policy: presentation.policy,
            application: presentation.application,
            quiet: presentation.quiet,
            for_model: plan.lifecycle.refusals,
            outlets: Outlets(outlets),
            recorder: None,
            lost: 0,
            repositories: Repositories::default(),
            lost_worktrees: Vec::new(),
            calls: Calls::new(plan),
            asking: Asking::new(answers.map(Approvals::to_owned)),
            reports: Reports::new(plan),
        }
    }

    /// Handles an event.
    pub(crate) fn tell(&mut self, launch_event: &LaunchEvent<'_>) {
        match launch_event {
            // `palisade learn` records what is used.
            LaunchEvent::Used { .. } => {}
            LaunchEvent::Started(running, _number) => {
                self.asking.started(*running);
                self.reports.started(*running);
            }
            LaunchEvent::Refused { event, .. }
            | LaunchEvent::Denied(event)
            | LaunchEvent::Unlearned { event, .. } => {
                self.record((*event).clone());
            }
            LaunchEvent::Unlisted(error) => {
                if !self.quiet {
                    let hint = error.hint().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
                    output::note(&format_args!("palisade ps won't list this sandbox: {error}{hint}"));
                }
            }
            LaunchEvent::Called { program, call } => self.calls.note(program, *call),
            LaunchEvent::Asked { question, answers } => self.calls.ask(question, &mut self.asking, *answers),
            LaunchEvent::Repository(path) => self.repositories.note(path),
            LaunchEvent::Lost(count) => self.lost += count,
            LaunchEvent::Bus { which, why, last } => {
                if !self.quiet {
                    let then =
                        if *last { "it isn't started again" } else { "the next connection starts it again" };
                    output::note(&format_args!("the filter of the {which} has ended: {why}; {then}"));
                }
            }
            LaunchEvent::Network { told, control } => self.network(told, *control),
            LaunchEvent::Unled(why) => {
                if !self.quiet {
                    output::note(&format_args!(
                        "the transparent proxy is unavailable (nftables: {why}): only programs that \
                         use a proxy reach the network"
                    ));
                }
            }
            LaunchEvent::Gone(paths) => {
                // Another line is about worktrees.
                self.lost_worktrees = lost_worktrees(&self.repositories, paths);
                let paths: Vec<PathBuf> =
                    paths.iter().filter(|path| !self.lost_worktrees.contains(*path)).cloned().collect();
                if !self.quiet && !paths.is_empty() {
                    let directory = std::env::current_dir().unwrap_or_default();
                    let home = std::env::home_dir().unwrap_or_default();
                    output::note(&aftermath::gone(&paths, &directory, &home));
                }
            }
            LaunchEvent::Unanswered(error) => {
                output::error(error, error.hint().as_deref());
                if !self.quiet {
                    output::note(&"saved approvals have no effect: you are asked about these hosts again");
                }
            }
            LaunchEvent::NetworkEnded(why) => {
                let text =
                    format!("the network gateway has ended: {why}; every connection is refused from now on");
                let object = Object::words("every connection");
                let verdict = (Verdict::Refused, Mechanism::Gateway);
                self.came_to((Operation::Connect, object), verdict, text, None);
            }
            LaunchEvent::Overload { call, source } => {
                let text = format!("the broker can't make the call {call}: {source}");
                let object = Object::syscall(*call, None);
                self.came_to((Operation::Syscall, object), (Verdict::Refused, Mechanism::Broker), text, None);
            }
            LaunchEvent::Uncovered(why) => {
                let why = match why {
                    Some(Errno::LOOP) => "it is a symbolic link now".to_owned(),
                    Some(errno) => errno.to_string(),
                    None => "the mask refresher was killed".to_owned(),
                };
                let text = format!(
                    "a program outside replaced a hidden or protected name, and it can't be masked again: {why}; \
                     every process inside was ended"
                );
                let hint = "palisade run --hide DIRECTORY …   # hide the directory instead of the file";
                let object = Object::words("a covered name");
                self.came_to(
                    (Operation::Read, object),
                    (Verdict::Killed, Mechanism::Mount),
                    text,
                    Some(hint),
                );
            }
            LaunchEvent::BrokerEnded => {
                let text = "the broker has ended: calls that write names or connect fail from now on";
                let hint = "palisade run --protect mounts …   # protects what exists, without a broker";
                let object = Object::words("every call for the broker");
                let verdict = (Verdict::Refused, Mechanism::Broker);
                self.came_to((Operation::Syscall, object), verdict, text.into(), Some(hint));
            }
        }
    }

    /// Handles a message of the process that serves the network.
    fn network(&mut self, told: &Told, control: BorrowedFd<'_>) {
        let program = self.command.first().map(|program| program.to_string_lossy()).unwrap_or_default();
        match told {
            Told::Event { event, held } => {
                if let Some(event) = self.reports.complete(event, held.as_ref(), &program, control) {
                    self.record(event);
                }
            }
            Told::Lost { count } => self.lost += count,
            Told::Question(question) => self.asking.ask(question.clone(), &program, control),
        }
    }

    /// Reports an event of the launch itself: prints it, and records it as an event of the launcher.
    fn came_to(
        &mut self,
        wanted: (Operation, Object),
        verdict: (Verdict, Mechanism),
        text: String,
        hint: Option<&str>,
    ) {
        output::error(&text, hint);
        let subject = Subject {
            pid: Some(std::process::id()),
            uid: Some(rustix::process::getuid().as_raw()),
            program: "palisade".to_owned(),
            ..Subject::default()
        };
        let detail = match verdict.1 {
            Mechanism::Gateway => Detail::Network(Network::new(Outcome::Strained)),
            _ => Detail::Sandbox(Sandbox::default()),
        };
        let event = Event::new(SystemTime::now(), detail, subject, wanted, verdict, Why::text(text));
        self.record(event.with_hint(hint.map(str::to_owned)));
    }

    fn record(&mut self, mut event: Event) {
        if let Some(name) = self.name {
            event.subject.sandbox = Some(name.to_owned());
        }
        if let Some(policy) = self.policy {
            event.hint = event.hint.map(|hint| hint_by_policy(hint, policy));
        }
        if let Some(application) = self.application {
            event.hint = event.hint.map(|hint| application.hint(hint));
        }
        self.recorder().record(event);
    }

    /// Leaves a note for `palisade why`.
    fn keep(&self, code: u8) {
        let place = || situation::facts().ok().map(|facts| facts.places.state);
        let launch = Launch::new(self.command, self.number.launcher, self.number.time());
        let arguments: Vec<OsString> = std::env::args_os().collect();
        LastLaunch::now(&launch, code, &arguments).keep(place);
    }

    /// Says why the command may have failed, besides what was refused.
    fn explain_failure(&self, refused: bool, plan: &Plan<'_>) {
        let program = self.command.first().map(|program| program.to_string_lossy()).unwrap_or_default();
        let inherited: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        if let Some((text, hint)) = aftermath::removed(&plan.environment, &inherited, &program) {
            let hint = match self.application {
                Some(application) => application.hint(hint),
                None => hint,
            };
            output::note(&format_args!("{text}{hint}"));
        }
        if let Some(text) = aftermath::of_the_host(self.command) {
            return output::note(&text);
        }
        // A script that tests something fails all the time, so only a person is told.
        let predicate = Path::new(&*program)
            .file_name()
            .is_some_and(|name| PREDICATES.iter().any(|known| name == *known));
        if !refused && !predicate && rustix::termios::isatty(rustix::stdio::stderr()) {
            let arguments: Vec<OsString> = std::env::args_os().collect();
            if let Some(text) = why::without_refusal(&arguments) {
                output::note(&text);
            }
        }
    }

    fn recorder(&mut self) -> &Recorder {
        self.recorder.get_or_insert_with(|| {
            let place = || situation::facts().ok().map(|facts| facts.places.events());
            // The number that `palisade ps` lists.
            let launch = Launch::new(self.command, self.number.launcher, self.number.time());
            let notices = Notices::stderr(self.quiet).for_model(self.for_model);
            let recorder = Recorder::new(launch, notices.waiting_while(question::is_shown), place);
            let recorder = recorder.passing_on(Refusals::new(std::mem::take(&mut self.outlets.0)));
            match embedded::link() {
                Some(link) => recorder.watched_by(|event| link.recorded(event)),
                None => recorder,
            }
        })
    }

    /// Handles calls that the kernel recorded.
    pub(crate) fn called(
        &mut self,
        called: &[palisade_protocol::learn::Program],
        lost: u64,
        tell: &mut dyn FnMut(&LaunchEvent<'_>),
    ) {
        self.calls.called(called, tell);
        if lost > 0 {
            output::note(&format_args!(
                "{lost} system calls were lost: some of them may not be learned; learn from another run"
            ));
        }
    }

    /// Completes the reports when the command has ended. `code`: its exit code, if it was started.
    pub(crate) fn conclude(&mut self, code: Option<u8>, plan: &Plan<'_>) {
        // A question is left on the screen if the command was ended during it.
        question::conclude();
        output::draw("");
        // Above are signals. Users send some of them; others are a program's own failure.
        let failed = code.filter(|code| (1..=128).contains(code) || CRASHES.contains(code));
        let refused = self.recorder.is_some();
        if let Some(recorder) = self.recorder.take() {
            recorder.finish(failed.is_some());
        }
        if (refused || failed.is_some()) && embedded::link().is_none() {
            self.keep(code.unwrap_or_default());
        }
        if let Some(_failed) = failed.filter(|_| !self.quiet) {
            self.explain_failure(refused, plan);
        }
        self.calls.keep(self.quiet);
        if let Some(link) = embedded::link() {
            link.lost(self.lost);
        }
        if self.quiet {
            return;
        }
        if self.lost > 0 {
            output::note(&format_args!("{} more refusals came too fast to be recorded", self.lost));
        }
        crate::repositories::tell(&self.repositories, &self.lost_worktrees);
    }
}
