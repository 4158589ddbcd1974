// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command's environment.

use crate::request::EnvironmentChange;
use crate::words::{Result, because, joined};
use rustix::io::Errno;
use std::ffi::{CStr, CString};

/// Variables as `NAME=VALUE`, in the order in which programs see them.
#[derive(Clone, Debug)]
pub(crate) struct Environment(Vec<CString>);

impl Environment {
    /// This process's environment, changed as the arguments say.
    pub(crate) fn changed(changes: &[EnvironmentChange]) -> Result<Self> {
        let mut environment = Self(palisade_sys::process::environment().map(CStr::to_owned).collect());
        for change in changes {
            match change {
                EnvironmentChange::Clear => environment.0.clear(),
                EnvironmentChange::Set { name, value } => {
                    check(name, "setenv failed")?;
                    environment.set(name.to_bytes(), value.to_bytes());
                }
                EnvironmentChange::Unset { name } => {
                    check(name, "unsetenv failed")?;
                    environment.0.retain(|variable| value_of(variable, name.to_bytes()).is_none());
                }
            }
        }
        Ok(environment)
    }

    /// Sets a variable; the place of one that exists stays.
    pub(crate) fn set(&mut self, name: &[u8], value: &[u8]) {
        let Ok(variable) = CString::new(joined(&[name, b"=", value])) else { return };
        match self.0.iter_mut().find(|variable| value_of(variable, name).is_some()) {
            Some(existing) => *existing = variable,
            None => self.0.push(variable),
        }
    }

    /// A variable's value.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.iter().find_map(|variable| value_of(variable, name))
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &CStr> {
        self.0.iter().map(CString::as_c_str)
    }
}

fn value_of<'v>(variable: &'v CStr, name: &[u8]) -> Option<&'v [u8]> {
    variable.to_bytes().strip_prefix(name)?.strip_prefix(b"=")
}

fn check(name: &CStr, failed: &str) -> Result<()> {
    if name.is_empty() || name.to_bytes().contains(&b'=') {
        return Err(because(failed, Errno::INVAL));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_made_in_order() {
        let set =
            |name: &CStr, value: &CStr| EnvironmentChange::Set { name: name.into(), value: value.into() };
        let changes = [
            EnvironmentChange::Clear,
            set(c"B", c"1"),
            set(c"A", c""),
            set(c"B", c"2"),
            set(c"C", c"x=y"),
            EnvironmentChange::Unset { name: c"A".into() },
        ];
        let changed = Environment::changed(&changes).unwrap();
        assert_eq!(changed.iter().collect::<Vec<_>>(), [c"B=2", c"C=x=y"]);
        assert_eq!(changed.get(b"C"), Some(&b"x=y"[..]));
        assert!(Environment::changed(&[set(c"A=B", c"")]).is_err());
        assert!(Environment::changed(&[EnvironmentChange::Unset { name: c"".into() }]).is_err());
    }
}
