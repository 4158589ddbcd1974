// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The third tier: the user's own model in ONNX. It is asked about lines of which the second tier isn't sure.
//!
//! The model can cause a question about a line, but it can never let a line through: its answer is one more reason. A
//! separate thread reads and runs it, because it may be slow. After the first answer that is too slow or invalid, the
//! model is not asked again.
//!
//! - [`input`]: what the model is told about a line
//! - `runtime`: runs the model, if the program was built with the feature `onnx`

pub mod input;
#[cfg(feature = "onnx")]
mod runtime;

use palisade_text::Show as _;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::verdict::{Level, Reason};
use input::Features;

/// The largest model that is accepted, in bytes.
#[cfg(feature = "onnx")]
const LARGEST: u64 = 64 << 20;
/// A model that isn't ready after this time is given up.
const READY: Duration = Duration::from_secs(30);

/// A part of the whole, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "f64", try_from = "f64")]
pub struct Share(u32);

impl Share {
    const WHOLE: f64 = 1e6;
}

impl From<Share> for f64 {
    fn from(share: Share) -> Self {
        Self::from(share.0) / Share::WHOLE
    }
}

impl TryFrom<f64> for Share {
    type Error = &'static str;

    fn try_from(number: f64) -> Result<Self, Self::Error> {
        if !(0.0..=1.0).contains(&number) {
            return Err("it must be from 0 to 1");
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is from 0 to a million"
        )]
        Ok(Self((number * Self::WHOLE).round() as u32))
    }
}

/// `[guard.model]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The file; from `/` or `~/`.
    pub path: PathBuf,
    /// A line is asked about if the model's score is at least this.
    #[serde(default = "usual_threshold")]
    pub threshold: Share,
    /// How long to wait for the model's answer, in milliseconds.
    #[serde(default = "usual_bound", rename = "bound-ms")]
    pub bound: u64,
}

fn usual_threshold() -> Share {
    Share(900_000)
}

fn usual_bound() -> u64 {
    20
}

/// The model's answer about a line.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Opinion {
    /// How likely it is that the line does harm.
    Score {
        /// From 0 to 1.
        score: f64,
        /// The line is asked about from this score on.
        threshold: f64,
    },
    /// There is no score because the model wasn't asked. The text says why.
    NotAsked(&'static str),
    /// There is no score because the model can't be used.
    LeftOut {
        /// Why.
        why: String,
        /// The user wasn't told this before.
        first: bool,
    },
}

impl Opinion {
    /// A message for the user, given once: the model can't be used.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::LeftOut { why, first: true } => {
                Some(format!("the guard continues without its model: {why}"))
            }
            _ => None,
        }
    }

    /// The reason why the line isn't simply run, if the score reaches the threshold.
    pub(super) fn reason(&self, line: &str) -> Option<Reason> {
        let Self::Score { score, threshold } = self else { return None };
        (score >= threshold).then(|| Reason {
            rule: "model/score".to_owned(),
            level: Level::Confirm,
            span: 0..line.len(),
            words: format!("Your model rates it as harmful ({score:.2}; you are asked from {threshold:.2})"),
            reference: String::new(),
        })
    }
}

/// A question to the thread, and the channel for its answer.
struct Question {
    features: Features,
    answer: SyncSender<Result<f32, String>>,
}

/// The state of the model.
#[derive(Debug)]
enum State {
    /// The thread reads it, since this time.
    Reading(Receiver<Result<(), String>>, Instant),
    Ready,
    /// The model can't be used. The flag says whether the user was told.
    Out(String, bool),
}

/// The model.
#[derive(Debug)]
pub(super) struct Model {
    settings: Settings,
    state: Mutex<(State, Option<SyncSender<Question>>)>,
}

impl core::fmt::Debug for Question {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        to.write_str("Question")
    }
}

impl Model {
    /// Starts to read the model.
    pub(super) fn new(settings: &Settings) -> Self {
        let path = at_home(&settings.path);
        let (questions, asked) = sync_channel::<Question>(1);
        let (ready, is_ready) = sync_channel(1);
        let work = move || work(&path, &ready, &asked);
        let state = match std::thread::Builder::new().name("guard-model".to_owned()).spawn(work) {
            Ok(_) => (State::Reading(is_ready, Instant::now()), Some(questions)),
            Err(error) => (State::Out(format!("can't start a thread: {error}"), false), None),
        };
        Self { settings: settings.clone(), state: Mutex::new(state) }
    }

    /// Waits until the model is read or reading has failed.
    pub(super) fn prepare(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Reading(is_ready, since) = &state.0 else { return };
        let left = READY.saturating_sub(since.elapsed());
        let heard = is_ready.recv_timeout(left).unwrap_or_else(|_| Err(never(&self.settings.path)));
        Self::turn(&mut state, heard);
    }

    fn turn(state: &mut (State, Option<SyncSender<Question>>), heard: Result<(), String>) {
        match heard {
            Ok(()) => state.0 = State::Ready,
            Err(why) => *state = (State::Out(why, false), None),
        }
    }

    /// Asks the model about a line.
    pub(super) fn ask(&self, features: Features) -> Opinion {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Reading(is_ready, since) = &state.0 {
            let heard = match is_ready.try_recv() {
                Ok(heard) => heard,
                Err(_) if since.elapsed() < READY => {
                    return Opinion::NotAsked("the model is still being read");
                }
                Err(_) => Err(never(&self.settings.path)),
            };
            Self::turn(&mut state, heard);
        }
        if let (State::Ready, Some(questions)) = &*state {
            match self.put(questions, features) {
                Ok(score) => {
                    return Opinion::Score {
                        score: f64::from(score),
                        threshold: self.settings.threshold.into(),
                    };
                }
                Err(why) => *state = (State::Out(why, false), None),
            }
        }
        match &mut state.0 {
            State::Out(why, said) => {
                Opinion::LeftOut { why: why.clone(), first: !core::mem::replace(said, true) }
            }
            State::Reading(..) | State::Ready => Opinion::NotAsked("the model is still being read"),
        }
    }

    fn put(&self, questions: &SyncSender<Question>, features: Features) -> Result<f32, String> {
        let path = self.settings.path.shown();
        let (answer, answered) = sync_channel(1);
        let gone = || format!("{path}: the thread that runs the model has ended");
        questions.try_send(Question { features, answer }).map_err(|_| gone())?;
        let score = match answered.recv_timeout(Duration::from_millis(self.settings.bound)) {
            Ok(score) => score.map_err(|why| format!("{path}: {why}"))?,
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("{path} took longer than {} ms for an answer", self.settings.bound));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(gone()),
        };
        if !(0.0..=1.0).contains(&score) {
            return Err(format!("{path} answers {score}, which isn't from 0 to 1"));
        }
        Ok(score)
    }
}

fn never(path: &Path) -> String {
    format!("{} wasn't read within {} s", path.shown(), READY.as_secs())
}

/// The path, with `~/` replaced by the home directory.
fn at_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => path.to_owned(),
    }
}

/// The thread that reads and runs the model.
#[cfg(feature = "onnx")]
fn work(path: &Path, ready: &SyncSender<Result<(), String>>, asked: &Receiver<Question>) {
    let read = read(path).and_then(|bytes| {
        runtime::Runtime::load(bytes).map_err(|why| format!("can't use {}: {why}", path.shown()))
    });
    let runtime = match read {
        Ok(runtime) => runtime,
        Err(why) => {
            let _nobody_waits = ready.send(Err(why));
            return;
        }
    };
    let _nobody_waits = ready.send(Ok(()));
    while let Ok(Question { features, answer }) = asked.recv() {
        let _nobody_waits = answer.send(runtime.run(&features));
    }
}

#[cfg(feature = "onnx")]
fn read(path: &Path) -> Result<Vec<u8>, String> {
    use std::io::Read;
    if !path.is_absolute() {
        return Err(format!("{} doesn't begin with / or ~/", path.shown()));
    }
    let failed = |error: std::io::Error| format!("can't read {}: {error}", path.shown());
    let file = std::fs::File::open(path).map_err(failed)?;
    // Opening or reading something that isn't a regular file may block for ever.
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(format!("{} isn't a file", path.shown()));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("{} is larger than {LARGEST} bytes", path.shown()));
    }
    Ok(bytes)
}

/// The thread in a program without the feature `onnx`: it only reports the error.
#[cfg(not(feature = "onnx"))]
fn work(path: &Path, ready: &SyncSender<Result<(), String>>, asked: &Receiver<Question>) {
    let why = format!("this program was built without the feature `onnx`, which {} needs", path.shown());
    let _nobody_waits = ready.send(Err(why));
    // The thread's caller asks no questions after that error.
    if let Ok(Question { features, answer }) = asked.recv() {
        let _nobody_waits =
            answer.send(Err(format!("{} numbers, but no model that could rate them", features.len())));
    }
}

/// The opinion as a line of `palisade shell classify --explain`.
#[must_use]
pub fn explained(opinion: &Opinion) -> String {
    let mut text = "  model: ".to_owned();
    let _infallible = match opinion {
        Opinion::Score { score, threshold } => {
            write!(text, "{score:.3}, asks from {threshold:.3}")
        }
        Opinion::NotAsked(why) => write!(text, "not asked: {why}"),
        Opinion::LeftOut { why, .. } => write!(text, "not used: {why}"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings as File;

    fn parse(text: &str) -> Result<Option<Settings>, String> {
        let file = File::parse(&format!("schema = 1\n[guard.model]\n{text}"), Path::new("/shell.toml"));
        file.map(|file| file.guard.model).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_are_understood_or_said_to_be_wrong() {
        let settings = parse("path = '~/m.onnx'").unwrap().unwrap();
        assert_eq!((f64::from(settings.threshold), settings.bound), (0.9, 20));
        let settings = parse("path = '/m.onnx'\nthreshold = 0.25\nbound-ms = 5").unwrap().unwrap();
        assert_eq!((f64::from(settings.threshold), settings.bound), (0.25, 5));
        for (text, words) in [
            ("threshold = 0.5", "path"),
            ("path = '/m'\nthreshold = 1.5", "from 0 to 1"),
            ("path = '/m'\nthreshold = nan", "from 0 to 1"),
            ("path = '/m'\nbound-ms = -1", "line 4"),
            ("path = '/m'\nbound = 1", "bound-ms"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn only_a_score_from_the_threshold_on_is_a_reason() {
        let reason = |score| Opinion::Score { score, threshold: 0.5 }.reason("ls").map(|reason| reason.level);
        assert_eq!((reason(0.49), reason(0.5)), (None, Some(Level::Confirm)));
        assert_eq!(Opinion::NotAsked("x").reason("ls"), None);
        let out = |first| Opinion::LeftOut { why: "x".to_owned(), first };
        assert_eq!(out(true).reason("ls"), None);
        assert!(out(true).problem().is_some() && out(false).problem().is_none());
    }

    #[cfg(not(feature = "onnx"))]
    #[test]
    fn without_the_feature_it_is_left_out_and_said_once() {
        let model = Model::new(&parse("path = '/m.onnx'").unwrap().unwrap());
        model.prepare();
        for first in [true, false] {
            let why = "this program was built without the feature `onnx`, which /m.onnx needs".to_owned();
            assert_eq!(model.ask(vec![0.0; input::LENGTH]), Opinion::LeftOut { why, first });
        }
    }
}
