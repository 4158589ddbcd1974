// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds a layer in code: the options of the command line become a layer like any other.
//!
//! `argument` is always the index of the argument, so that a message can point to it.

use std::ffi::OsStr;

use crate::environment::EnvironmentRule;
use crate::feature::Want;
use crate::layer::{Layer, Origin, Sourced, Strength};
use crate::limits::{Amount, AmountError, Limit};
use crate::names::{NameChange, NameError, NameSubject};
use crate::network::{Fallback, NetworkError, NetworkRule, Target, Upstream, port};
use crate::pattern::{PathPattern, PatternError};
use crate::rule::{Access, PathRule};
use crate::settings::LayerPolicy;
use crate::value::{Hostname, NetworkMode, Protect, SyscallRule, ValueError, View};
use crate::word::{Chosen, List, Switch, Word};

impl LayerPolicy {
    /// The empty layer for this launch's arguments.
    #[must_use]
    pub fn command_line() -> Self {
        Self::empty(Layer::CommandLine, None)
    }

    fn state<T>(&self, value: T, argument: u32) -> Sourced<T> {
        Sourced {
            value,
            origin: Origin { layer: self.layer, file: self.file.clone(), line: argument, column: 0 },
            strength: Strength::Set,
        }
    }

    /// Adds `HOST` or, for lists that take one, `HOST=DEST` to a list.
    ///
    /// `--ro P` is [`Access::Execute`]; `--rw P` is [`Access::Write`] and [`Access::Execute`].
    ///
    /// # Errors
    /// When the text is no valid path or pattern.
    pub fn add_path(
        &mut self,
        access: Access,
        text: impl AsRef<OsStr>,
        argument: u32,
    ) -> Result<&mut Self, PatternError> {
        let (pattern, destination) = if access.takes_destination() {
            PathPattern::with_destination(text)?
        } else {
            (PathPattern::new(text)?, None)
        };
        let stated = self.state((), argument);
        self.settings.paths.push(PathRule {
            pattern,
            destination,
            access,
            origin: stated.origin,
            strength: stated.strength,
        });
        Ok(self)
    }

    /// Adds exactly this path to a list, whatever characters it contains.
    ///
    /// # Errors
    /// When it is too long or contains `..` after a name.
    pub fn add_exactly(
        &mut self,
        access: Access,
        path: impl AsRef<OsStr>,
        argument: u32,
    ) -> Result<&mut Self, PatternError> {
        let pattern = PathPattern::exactly(path)?;
        let Sourced { origin, strength, .. } = self.state((), argument);
        self.settings.paths.push(PathRule { pattern, destination: None, access, origin, strength });
        Ok(self)
    }

    /// States the view.
    pub fn set_view(&mut self, view: View, argument: u32) -> &mut Self {
        self.settings.view.push(self.state(view, argument));
        self
    }

    /// States how protected names are protected.
    pub fn set_protect(&mut self, protect: Protect, argument: u32) -> &mut Self {
        self.settings.protect.push(self.state(protect, argument));
        self
    }

    /// Adds to the protected names, or removes from them: a name, or `group:` and a group of the built-in names.
    ///
    /// # Errors
    /// When the text is no valid name.
    pub fn add_name(&mut self, name: &str, protect: bool, argument: u32) -> Result<&mut Self, NameError> {
        let stated = self.state(NameChange { name: NameSubject::new(name)?, protect }, argument);
        self.settings.names.push(stated);
        Ok(self)
    }

    /// States the network mode.
    pub fn set_network(&mut self, mode: NetworkMode, argument: u32) -> &mut Self {
        self.settings.network.push(self.state(mode, argument));
        self
    }

    /// Adds a host that the command may or may not connect to.
    ///
    /// # Errors
    /// When the text names no host.
    pub fn add_host(&mut self, text: &str, allow: bool, argument: u32) -> Result<&mut Self, NetworkError> {
        let stated = self.state(text.parse::<Target>()?, argument);
        self.settings.hosts.push(NetworkRule {
            target: stated.value,
            allow,
            reason: None,
            origin: stated.origin,
            strength: stated.strength,
        });
        Ok(self)
    }

    /// States the verdict for hosts that match no rule.
    pub fn set_fallback(&mut self, fallback: Fallback, argument: u32) -> &mut Self {
        self.settings.fallback.push(self.state(fallback, argument));
        self
    }

    /// Publishes a port inside on the host.
    ///
    /// # Errors
    /// When the text isn't of the form `[ADDRESS:][HOSTPORT:]PORT`.
    pub fn add_publish(&mut self, text: &str, argument: u32) -> Result<&mut Self, NetworkError> {
        let stated = self.state(text.parse()?, argument);
        self.settings.publish.push(stated);
        Ok(self)
    }

    /// Makes a port of the host's loopback reachable inside.
    ///
    /// # Errors
    /// When the text is no port.
    pub fn add_reach(&mut self, text: &str, argument: u32) -> Result<&mut Self, NetworkError> {
        let found = port(text).ok_or_else(|| NetworkError::Port { text: text.to_owned() })?;
        self.settings.reach.push(self.state(found, argument));
        Ok(self)
    }

    /// States the proxy for outgoing connections.
    ///
    /// # Errors
    /// When the text is no proxy's URL, nor `direct` or `environment`.
    pub fn set_proxy(&mut self, text: &str, argument: u32) -> Result<&mut Self, NetworkError> {
        let stated = self.state(text.parse::<Upstream>()?, argument);
        self.settings.upstream_proxy.push(stated);
        Ok(self)
    }

    /// Adds a name server.
    ///
    /// # Errors
    /// When the text is no address.
    pub fn add_dns(&mut self, text: &str, argument: u32) -> Result<&mut Self, NetworkError> {
        let stated = self.state(text.parse()?, argument);
        self.settings.upstream_dns.push(stated);
        Ok(self)
    }

    /// States the machine's name inside.
    ///
    /// # Errors
    /// When it is no host name.
    pub fn set_hostname(&mut self, name: &str, argument: u32) -> Result<&mut Self, ValueError> {
        let stated = self.state(Hostname::new(name)?, argument);
        self.settings.hostname.push(stated);
        Ok(self)
    }

    /// States the user's number inside.
    pub fn set_uid(&mut self, uid: u32, argument: u32) -> &mut Self {
        self.settings.uid.push(self.state(uid, argument));
        self
    }

    /// States the group's number inside.
    pub fn set_gid(&mut self, gid: u32, argument: u32) -> &mut Self {
        self.settings.gid.push(self.state(gid, argument));
        self
    }

    /// States the working directory inside.
    ///
    /// # Errors
    /// When the text doesn't name one path.
    pub fn set_cwd(&mut self, path: impl AsRef<OsStr>, argument: u32) -> Result<&mut Self, PatternError> {
        let stated = self.state(PathPattern::one_path(path)?, argument);
        self.settings.cwd.push(stated);
        Ok(self)
    }

    /// States whether to launch even without a guarantee.
    pub fn set_best_effort(&mut self, yes: bool, argument: u32) -> &mut Self {
        self.settings.best_effort.push(self.state(yes, argument));
        self
    }

    /// States whether the command keeps descriptors that are terminals.
    pub fn set_inherit_terminal(&mut self, yes: bool, argument: u32) -> &mut Self {
        let stated = self.state(yes, argument);
        self.settings.inherit_terminal.push(stated);
        self
    }

    /// Gives an environment variable a value.
    ///
    /// # Errors
    /// When no variable can have this name or value.
    pub fn set_env(&mut self, name: &str, value: &str, argument: u32) -> Result<&mut Self, ValueError> {
        let stated = self.state(EnvironmentRule::set(name, value)?, argument);
        self.settings.environment.push(stated);
        Ok(self)
    }

    /// Keeps environment variables whose names match.
    ///
    /// # Errors
    /// When no variable can have this name.
    pub fn keep_env(&mut self, glob: &str, argument: u32) -> Result<&mut Self, ValueError> {
        let stated = self.state(EnvironmentRule::keep(glob)?, argument);
        self.settings.environment.push(stated);
        Ok(self)
    }

    /// Removes environment variables whose names match.
    ///
    /// # Errors
    /// When no variable can have this name.
    pub fn remove_env(&mut self, glob: &str, argument: u32) -> Result<&mut Self, ValueError> {
        let stated = self.state(EnvironmentRule::remove(glob)?, argument);
        self.settings.environment.push(stated);
        Ok(self)
    }

    /// Allows or refuses a system call.
    ///
    /// # Errors
    /// When no call can have this name.
    pub fn add_syscall(&mut self, name: &str, allow: bool, argument: u32) -> Result<&mut Self, ValueError> {
        let stated = self.state(SyscallRule::new(name, allow)?, argument);
        self.settings.syscalls.push(stated);
        Ok(self)
    }

    /// States a limit.
    pub fn set_limit(&mut self, limit: Limit, amount: Amount, argument: u32) -> &mut Self {
        let stated = self.state((limit, amount), argument);
        self.settings.limits.push(stated);
        self
    }

    /// States a limit, given as text (`512M`, `90s`, `unlimited`).
    ///
    /// # Errors
    /// When the text is no valid amount for this limit.
    pub fn set_limit_text(
        &mut self,
        limit: Limit,
        text: &str,
        argument: u32,
    ) -> Result<&mut Self, AmountError> {
        let amount = limit.unit().parse(text)?;
        Ok(self.set_limit(limit, amount, argument))
    }

    /// Asks for a feature, or excludes it.
    pub fn want(&mut self, name: &str, wanted: bool, argument: u32) -> &mut Self {
        let want = self.state(Want { name: name.to_owned(), wanted }, argument);
        self.features.push(want);
        self
    }

    /// Adds an entry to a list.
    ///
    /// # Errors
    /// When the entry isn't valid in this list.
    pub fn add_to(&mut self, list: List, text: &str, argument: u32) -> Result<&mut Self, ValueError> {
        list.check(text)?;
        let stated = self.state((list, text.to_owned()), argument);
        self.settings.lists.push(stated);
        Ok(self)
    }

    /// States a key that takes a word.
    ///
    /// # Errors
    /// When the word isn't valid for this key.
    pub fn say(&mut self, word: Word, text: &str, argument: u32) -> Result<&mut Self, ValueError> {
        word.check(text)?;
        let stated = self.state((word, text.to_owned()), argument);
        self.settings.words.push(stated);
        Ok(self)
    }

    /// States a key that takes one of several words.
    pub fn choose(&mut self, chosen: Chosen, argument: u32) -> &mut Self {
        let chosen = self.state(chosen, argument);
        self.settings.chosen.push(chosen);
        self
    }

    /// Switches something on or off.
    pub fn set_switch(&mut self, switch: Switch, on: bool, argument: u32) -> &mut Self {
        let stated = self.state((switch, on), argument);
        self.settings.switches.push(stated);
        self
    }
}
