// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options that aren't steps.

use std::ffi::CStr;

use super::{Following, Parser, Stop};
use crate::request::{Descriptors, EnvironmentChange};
use crate::{capability, number};

/// The size of one instruction of a filter.
const INSTRUCTION: usize = 8;

impl Parser<'_> {
    /// Takes an option without a value. `false`: it is another.
    pub(super) fn switch(&mut self, option: &CStr) -> bool {
        let request = &mut self.request;
        let namespaces = &mut request.namespaces;
        let (switch, on) = match option.to_bytes() {
            b"--unshare-all" => {
                namespaces.user_if_possible = true;
                namespaces.ipc = true;
                namespaces.pid = true;
                namespaces.uts = true;
                namespaces.cgroup_if_possible = true;
                (&mut namespaces.network, true)
            }
            b"--share-net" => (&mut namespaces.network, false),
            b"--unshare-user" => (&mut namespaces.user, true),
            b"--unshare-user-try" => (&mut namespaces.user_if_possible, true),
            b"--unshare-ipc" => (&mut namespaces.ipc, true),
            b"--unshare-pid" => (&mut namespaces.pid, true),
            b"--unshare-net" => (&mut namespaces.network, true),
            b"--unshare-uts" => (&mut namespaces.uts, true),
            b"--unshare-cgroup" => (&mut namespaces.cgroup, true),
            b"--unshare-cgroup-try" => (&mut namespaces.cgroup_if_possible, true),
            b"--disable-userns" => (&mut request.disable_user_namespaces, true),
            b"--assert-userns-disabled" => (&mut request.assert_user_namespaces_disabled, true),
            b"--new-session" => (&mut request.new_session, true),
            b"--die-with-parent" => (&mut request.die_with_parent, true),
            b"--as-pid-1" => (&mut request.as_pid_1, true),
            b"--level-prefix" => (&mut request.level_prefix, true),
            b"--clearenv" => {
                request.environment.push(EnvironmentChange::Clear);
                return true;
            }
            _ => return false,
        };
        *switch = on;
        true
    }

    /// Takes an option with a value. `false`: it is another.
    pub(super) fn setting(&mut self, following: &mut Following<'_>) -> Result<bool, Stop> {
        match following.option.to_bytes() {
            b"--sync-fd" => self.passed(following, |descriptors| &mut descriptors.sync)?,
            b"--block-fd" => self.passed(following, |descriptors| &mut descriptors.block)?,
            b"--userns-block-fd" => self.passed(following, |descriptors| &mut descriptors.user_map_block)?,
            b"--info-fd" => self.passed(following, |descriptors| &mut descriptors.info)?,
            b"--json-status-fd" => self.passed(following, |descriptors| &mut descriptors.status)?,
            b"--userns" => self.passed(following, |descriptors| &mut descriptors.user_namespace)?,
            b"--userns2" => self.passed(following, |descriptors| &mut descriptors.second_user_namespace)?,
            b"--pidns" => self.passed(following, |descriptors| &mut descriptors.pid_namespace)?,
            b"--seccomp" => self.last_filter(following)?,
            b"--add-seccomp-fd" => self.add_filter(following)?,
            b"--uid" => self.request.uid = Some(self.id(following, self.request.uid, "Invalid uid: ")?),
            b"--gid" => self.request.gid = Some(self.id(following, self.request.gid, "Invalid gid: ")?),
            b"--chdir" => {
                let directory = self.only_one(following)?;
                if self.request.directory.is_some() {
                    self.replaces(following.option);
                }
                self.request.directory = Some(directory.into());
            }
            b"--policy" => {
                let policy = self.one(following)?;
                if self.request.policy.is_some() {
                    return Err(self.failed("--policy used multiple times"));
                }
                self.request.policy = Some(policy.into());
            }
            b"--argv0" => {
                let first = self.only_one(following)?;
                if self.request.first_argument.is_some() {
                    return Err(self.failed("--argv0 used multiple times"));
                }
                self.request.first_argument = Some(first.into());
            }
            b"--lock-file" => {
                let file = self.one(following)?;
                self.request.locks.push(file.into());
            }
            b"--setenv" => {
                let [name, value] = self.two(following)?;
                self.check_variable(name, "setenv failed")?;
                let change = EnvironmentChange::Set { name: name.into(), value: value.into() };
                self.request.environment.push(change);
            }
            b"--unsetenv" => {
                let name = self.one(following)?;
                self.check_variable(name, "unsetenv failed")?;
                self.request.environment.push(EnvironmentChange::Unset { name: name.into() });
            }
            b"--cap-add" => {
                let (set, named) = self.capability(following)?;
                self.request.capabilities = Some(set | named);
            }
            b"--cap-drop" => {
                let (set, named) = self.capability(following)?;
                self.request.capabilities = Some(set & !named);
            }
            b"--exec-label" | b"--file-label" => {
                self.one(following)?;
                return Err(self.failed("labeling not supported on this system"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A descriptor that is used later. The warning comes before the number is looked at.
    fn passed(
        &mut self,
        following: &mut Following<'_>,
        place: fn(&mut Descriptors) -> &mut Option<i32>,
    ) -> Result<(), Stop> {
        let text = self.one(following)?;
        if place(&mut self.request.descriptors).is_some() {
            self.replaces(following.option);
        }
        *place(&mut self.request.descriptors) = Some(self.descriptor(text)?);
        Ok(())
    }

    fn last_filter(&mut self, following: &mut Following<'_>) -> Result<(), Stop> {
        if !following.rest.is_empty() && !self.request.filters.is_empty() {
            return Err(self.failed("--seccomp cannot be combined with --add-seccomp-fd"));
        }
        self.passed(following, |descriptors| &mut descriptors.filter)
    }

    fn add_filter(&mut self, following: &mut Following<'_>) -> Result<(), Stop> {
        let text = self.one(following)?;
        if self.request.descriptors.filter.is_some() {
            return Err(self.failed("--add-seccomp-fd cannot be combined with --seccomp"));
        }
        let descriptor = self.descriptor(text)?;
        let filter = self.read(descriptor, "Can't read seccomp data")?;
        if !filter.len().is_multiple_of(INSTRUCTION) {
            return Err(self.failed("Invalid seccomp data, must be multiple of 8"));
        }
        self.request.filters.push(filter);
        Ok(())
    }

    fn id(
        &mut self,
        following: &mut Following<'_>,
        earlier: Option<u32>,
        invalid: &str,
    ) -> Result<u32, Stop> {
        let text = self.one(following)?.to_bytes();
        if earlier.is_some() {
            self.replaces(following.option);
        }
        let id = number::natural(text).and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| self.failed_about(invalid, text))
    }

    /// The C library refuses these names where they are set.
    fn check_variable(&self, name: &CStr, otherwise: &str) -> Result<(), Stop> {
        if name.is_empty() || name.to_bytes().contains(&b'=') {
            return Err(self.failed(otherwise));
        }
        Ok(())
    }

    /// The capabilities so far, and those that the option names.
    fn capability(&mut self, following: &mut Following<'_>) -> Result<(u64, u64), Stop> {
        let name = self.one(following)?.to_bytes();
        let named = if name.eq_ignore_ascii_case(b"ALL") {
            u64::MAX
        } else {
            capability::set_of(name).ok_or_else(|| self.failed_about("unknown cap: ", name))?
        };
        let set = self.request.capabilities.unwrap_or_else(|| {
            let identity = self.host.identity();
            if identity.uid == 0 { identity.capabilities } else { 0 }
        });
        Ok((set, named))
    }
}
