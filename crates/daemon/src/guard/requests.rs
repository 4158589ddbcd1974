// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers the requests to a running guard.

use super::{Before, Guard, GuardError, check_safety};
use palisade_guard::rule::files::Writers;
use palisade_guard::setup::Setup;
use palisade_protocol::guard::{Request, Response, Status};
use std::path::Path;
use std::time::Duration;

impl Guard {
    fn attempt(&self, seconds: u64, rules: Option<&str>, force: bool) -> Result<String, GuardError> {
        let _one = self.changing();
        let before = Before { policy: self.engine.policy(), enforcing: self.engine.is_enforcing() };
        match rules {
            Some(path) => {
                let setup = Setup::read(&self.options.config, Some(Path::new(path)), Writers::RootOnly)?;
                let policy = self.policy(setup)?;
                if !force {
                    check_safety(&policy, &self.engine.trust(), &self.options)?;
                }
                self.trial.begin(Duration::from_secs(seconds), before);
                self.waker.wake();
                self.put_in_force(policy, true)?;
            }
            None => {
                if !force {
                    check_safety(&before.policy, &self.engine.trust(), &self.options)?;
                }
                self.trial.begin(Duration::from_secs(seconds), before);
                self.waker.wake();
                self.enforce(true);
                self.follow_mode();
            }
        }
        Ok(format!("enforced for {seconds} s; palisade guard keep leaves it in force"))
    }

    /// Answers a request.
    pub(crate) fn answer(&self, request: Request) -> Response {
        let said = match request {
            Request::Status => return Response::Status(Box::new(self.status())),
            Request::Metrics { reset } => {
                return Response::Metrics(Box::new(self.engine.counts.metrics(reset)));
            }
            Request::Rules => return Response::Rules { rules: self.engine.policy().hits() },
            Request::Timing { start: true } => {
                self.engine.clock.start();
                Ok("decisions are timed".into())
            }
            Request::Timing { start: false } => match self.engine.clock.stop() {
                Some(timing) => return Response::Timing(Box::new(timing)),
                None => Ok("decisions weren't timed".into()),
            },
            Request::Judge(supposition) => match crate::judge::judge(self, &supposition) {
                Ok(event) => return Response::Judged(Box::new(event)),
                Err(refusal) => return Response::Refused(refusal),
            },
            Request::Reload { force } => self.reload(force),
            Request::Mode { enforce, force } => self.mode(enforce, force),
            Request::Try { seconds, rules, force } => self.attempt(seconds, rules.as_deref(), force),
            Request::Keep if self.trial.keep() => Ok("the trial was kept".into()),
            Request::Keep => Err(GuardError::NoTrial),
            Request::Revert => match self.trial.end() {
                Some(before) => {
                    self.go_back(before);
                    Ok("the trial has ended".into())
                }
                None => Err(GuardError::NoTrial),
            },
            Request::Trust { files: true, .. } => {
                self.trust_updater.read_files();
                Ok("the trust files are being read".into())
            }
            Request::Trust { everything, .. } => {
                self.trust_updater.make_anew(everything);
                Ok("the trust database is being rebuilt".into())
            }
            Request::Sync { seconds } => self.sync(Duration::from_secs(seconds)),
            Request::Stop => Ok("the guard ends".into()),
            Request::Measure => Ok("pass it".into()),
            Request::Follow { .. } => Ok("following".into()),
        };
        match said {
            Ok(said) => Response::Done { said },
            Err(error) => error.refusal(),
        }
    }

    /// Waits until the present state of packages and trust files is in force.
    fn sync(&self, patience: Duration) -> Result<String, GuardError> {
        self.trust_updater.sync(patience).map_err(GuardError::NotSynced)?;
        let trust = self.engine.trust();
        Ok(format!("{} files are trusted", trust.store().map_or(0, |store| store.built_records())))
    }

    fn mode(&self, enforce: bool, force: bool) -> Result<String, GuardError> {
        let _one = self.changing();
        if enforce && !force {
            check_safety(&self.engine.policy(), &self.engine.trust(), &self.options)?;
        }
        self.trial.keep();
        self.enforce(enforce);
        self.follow_mode();
        Ok(if enforce { "what the rules deny is refused" } else { "what the rules deny is only reported" }
            .into())
    }

    fn status(&self) -> Status {
        let policy = self.engine.policy();
        let trust = self.engine.trust();
        let (watched, unwatched) = self.territory.list();
        let asked = match policy.settings.watch.asked {
            palisade_guard::settings::Asked::OpenAndExecute => "open and execute",
            palisade_guard::settings::Asked::Execute => "execute",
        };
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            seconds: self.began.elapsed().as_secs(),
            enforcing: self.engine.is_enforcing(),
            trying: self.trial.left(),
            asked: asked.into(),
            mechanisms: self.mechanisms(),
            rules_from: policy.from.clone(),
            rules: policy.rules.len(),
            generation: policy.generation,
            trusted: trust.store().map_or(0, |store| store.built_records()),
            trust_age: self.trust_updater.age(),
            integrity: format!("{:?}", policy.settings.trust.integrity).to_lowercase(),
            watched,
            unwatched,
            blind: crate::blind::spots(self.lsm_refuses()),
            alarms: self.alarms.list(),
        }
    }
}
