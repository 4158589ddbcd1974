// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The statements about a sandbox, in the words of the command line.

use crate::command::Prepared;
use crate::error::StatementError;
use crate::{Command, Error, Helper, HelperError, PlanningError, Request, Subject, Surroundings};
use palisade_policy::word::List;
use palisade_policy::{Access, Guarantee, LayerPolicy, Limit, NetworkMode, Protect, View};
use palisade_sandbox::plan::planner::Isolation;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

/// The description of a sandbox. The default is that of `palisade run`: a command sees the system read-only, its
/// working directory, and no other process. Each statement is an option of `palisade run`. Of two statements that
/// contradict each other, the later one counts.
///
/// A statement that isn't valid is reported when a command is started, as [`Error::Statement`].
///
/// A sandbox keeps its plans. A program that starts many similar commands makes one sandbox and starts all of them from it.
#[derive(Debug, Clone)]
pub struct Sandbox {
    state: Arc<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    profile: Option<OsString>,
    words: LayerPolicy,
    statements: u32,
    /// The statement that makes the repository writable.
    repository: Option<u32>,
    isolation: Isolation,
    directory: Option<PathBuf>,
    variables: Vec<(OsString, OsString)>,
    helper: OnceLock<Helper>,
    wrong: Option<(&'static str, String, StatementError)>,
    /// The plans that were made. Some are for one program only.
    pub(crate) kept: Mutex<Vec<Arc<Prepared>>>,
}

impl Clone for State {
    fn clone(&self) -> Self {
        Self {
            profile: self.profile.clone(),
            words: self.words.clone(),
            statements: self.statements,
            repository: self.repository,
            isolation: self.isolation,
            directory: self.directory.clone(),
            variables: self.variables.clone(),
            helper: self.helper.clone(),
            wrong: self.wrong.clone(),
            // Another statement makes other plans, so none is kept.
            kept: Mutex::default(),
        }
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// The default sandbox, without any statement.
    #[must_use]
    pub fn new() -> Self {
        let state = State {
            profile: None,
            words: LayerPolicy::command_line(),
            statements: 0,
            repository: None,
            isolation: Isolation::Full,
            directory: None,
            variables: Vec::new(),
            helper: OnceLock::new(),
            wrong: None,
            kept: Mutex::default(),
        };
        Self { state: Arc::new(state) }
    }

    /// Uses the rules of a profile: a name, or a file.
    #[must_use]
    pub fn profile(self, profile: impl AsRef<OsStr>) -> Self {
        self.change(|state| state.profile = Some(profile.as_ref().to_owned()))
    }

    /// Shows a path read-only. What lies there may be executed. `HOST=DEST` shows it at another path.
    #[must_use]
    pub fn read(self, path: impl AsRef<OsStr>) -> Self {
        self.path("a path to read", &[Access::Execute], path.as_ref())
    }

    /// Shows a path, writable. `HOST=DEST` shows it at another path.
    #[must_use]
    pub fn write(self, path: impl AsRef<OsStr>) -> Self {
        self.path("a path to write", &[Access::Write, Access::Execute], path.as_ref())
    }

    /// Makes the whole git repository of the working directory writable: from a directory below its top, in a worktree or
    /// a submodule. Starting a command fails if there is no repository.
    #[must_use]
    pub fn repository(self) -> Self {
        self.change(|state| {
            state.statements += 1;
            state.repository = Some(state.statements);
        })
    }

    /// Hides a path: it is absent, or empty if it lies in something shown.
    #[must_use]
    pub fn hide(self, path: impl AsRef<OsStr>) -> Self {
        self.path("a path to hide", &[Access::Hide], path.as_ref())
    }

    /// Refuses every access to a path.
    #[must_use]
    pub fn deny(self, path: impl AsRef<OsStr>) -> Self {
        self.path("a path to deny", &[Access::Deny], path.as_ref())
    }

    /// Puts a private, empty, writable directory at a path.
    #[must_use]
    pub fn tmpfs(self, path: impl AsRef<OsStr>) -> Self {
        self.path("a private directory", &[Access::Tmpfs], path.as_ref())
    }

    /// Lets the command reach a host: `example.com`, `*.example.com:443`, `10.0.0.0/8:5432`. The network is filtered then.
    #[must_use]
    pub fn allow(self, host: &str) -> Self {
        self.state_word("a host to allow", host, |words, at| {
            words.add_host(host, true, at)?;
            words.set_network(NetworkMode::Filtered, at);
            Ok(())
        })
    }

    /// Refuses a host, written as for [`Sandbox::allow`].
    #[must_use]
    pub fn deny_host(self, host: &str) -> Self {
        self.state_word("a host to deny", host, |words, at| {
            words.add_host(host, false, at)?;
            words.set_network(NetworkMode::Filtered, at);
            Ok(())
        })
    }

    /// Which part of the network is available.
    #[must_use]
    pub fn network(self, mode: NetworkMode) -> Self {
        self.state_word("the network mode", mode.key(), |words, at| {
            words.set_network(mode, at);
            Ok(())
        })
    }

    /// What is visible before any path is granted.
    #[must_use]
    pub fn view(self, view: View) -> Self {
        self.state_word("the view", view.key(), |words, at| {
            words.set_view(view, at);
            Ok(())
        })
    }

    /// How names are protected that programs outside obey.
    #[must_use]
    pub fn protect(self, protect: Protect) -> Self {
        self.state_word("the protection of names", protect.key(), |words, at| {
            words.set_protect(protect, at);
            Ok(())
        })
    }

    /// Gives a variable a value.
    #[must_use]
    pub fn env(self, name: &str, value: &str) -> Self {
        self.state_word("a variable", name, |words, at| {
            words.set_env(name, value, at)?;
            Ok(())
        })
    }

    /// Keeps variables that would be removed. `name` is a glob.
    #[must_use]
    pub fn keep_env(self, name: &str) -> Self {
        self.state_word("a variable to keep", name, |words, at| {
            words.keep_env(name, at)?;
            Ok(())
        })
    }

    /// The host name inside.
    #[must_use]
    pub fn hostname(self, name: &str) -> Self {
        self.state_word("the host name", name, |words, at| {
            words.set_hostname(name, at)?;
            Ok(())
        })
    }

    /// Limits a resource, as `--limit` does: `512M`, `100`.
    #[must_use]
    pub fn limit(self, limit: Limit, amount: &str) -> Self {
        self.state_word("a limit", amount, |words, at| {
            words.set_limit_text(limit, amount, at)?;
            Ok(())
        })
    }

    /// Whether to go on without guarantees that this host can't give. The default is to stop.
    #[must_use]
    pub fn best_effort(self, yes: bool) -> Self {
        self.state_word("best effort", "", |words, at| {
            words.set_best_effort(yes, at);
            Ok(())
        })
    }

    /// Fails without this guarantee, and goes on without others that this host can't give, as `--require` does.
    #[must_use]
    pub fn require(self, guarantee: Guarantee) -> Self {
        self.state_word("a guarantee", guarantee.name(), |words, at| {
            words.set_best_effort(true, at);
            words.add_to(List::Guarantees, guarantee.name(), at)?;
            Ok(())
        })
    }

    /// Uses no namespaces, only Landlock and seccomp. Without protected names, processes that the command starts can
    /// outlive it.
    #[must_use]
    pub fn without_namespaces(self) -> Self {
        self.change(|state| state.isolation = Isolation::InPlace)
    }

    /// Makes any other statement that a policy file can make.
    #[must_use]
    pub fn words(self, change: impl FnOnce(&mut LayerPolicy)) -> Self {
        self.change(|state| change(&mut state.words))
    }

    /// The working directory outside, which is writable inside; the process's own by default.
    #[must_use]
    pub fn current_dir(self, directory: impl AsRef<Path>) -> Self {
        self.change(|state| state.directory = Some(directory.as_ref().to_owned()))
    }

    /// Gives the launch a variable in addition to those of this process. The policy decides which of them the command gets.
    #[must_use]
    pub fn variable(self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.change(|state| state.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned())))
    }

    /// The program that launches, instead of the one that [`Helper::find`] finds.
    #[must_use]
    pub fn helper(self, helper: Helper) -> Self {
        self.change(|state| state.helper = OnceLock::from(helper))
    }

    /// A command in this sandbox.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        Command::new(self.clone(), program.as_ref())
    }

    /// The request when a command is started.
    ///
    /// # Errors
    /// When a statement isn't valid, or the working directory is gone.
    pub fn request(&self, command: Vec<OsString>) -> Result<Request, Error> {
        if let Some((what, value, source)) = &self.state.wrong {
            return Err(Error::Statement { what, value: value.clone(), source: source.clone() });
        }
        let surroundings =
            Surroundings { directory: self.directory()?, environment: self.environment().collect() };
        Ok(Request {
            subject: Subject::Command { words: command, profile: self.state.profile.clone() },
            words: self.state.words.clone(),
            repository: self.state.repository,
            isolation: self.state.isolation,
            surroundings,
        })
    }

    /// The variables of a launch.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (OsString, OsString)> {
        std::env::vars_os().chain(self.state.variables.iter().cloned())
    }

    /// The working directory of a launch.
    pub(crate) fn directory(&self) -> Result<PathBuf, PlanningError> {
        let directory = match &self.state.directory {
            Some(directory) => std::path::absolute(directory),
            None => std::env::current_dir(),
        };
        directory.map_err(|source| PlanningError::Directory { source })
    }

    pub(crate) fn kept(&self) -> &Mutex<Vec<Arc<Prepared>>> {
        &self.state.kept
    }

    /// The program that launches. It is looked for once.
    pub(crate) fn launcher(&self) -> Result<&Helper, HelperError> {
        if let Some(helper) = self.state.helper.get() {
            return Ok(helper);
        }
        let found = Helper::find()?;
        Ok(self.state.helper.get_or_init(|| found))
    }

    fn change(mut self, change: impl FnOnce(&mut State)) -> Self {
        let state = Arc::make_mut(&mut self.state);
        state.kept = Mutex::default();
        change(state);
        self
    }

    fn path(self, what: &'static str, accesses: &[Access], path: &OsStr) -> Self {
        self.state_word(what, &path.to_string_lossy(), |words, at| {
            for access in accesses {
                words.add_path(*access, path, at)?;
            }
            Ok(())
        })
    }

    fn state_word(
        self,
        what: &'static str,
        value: &str,
        say: impl FnOnce(&mut LayerPolicy, u32) -> Result<(), StatementError>,
    ) -> Self {
        self.change(|state| {
            // A rule records the position of its word on the command line.
            state.statements += 1;
            if let Err(source) = say(&mut state.words, state.statements)
                && state.wrong.is_none()
            {
                state.wrong = Some((what, value.to_owned(), source));
            }
        })
    }
}
