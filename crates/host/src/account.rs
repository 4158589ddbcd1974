// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the account of a user id in `/etc/passwd` and `/etc/group`.
//!
//! The launcher is a static musl binary and has no NSS, so it doesn't find accounts that are in LDAP or
//! systemd-homed. For those it uses `HOME`, `USER` and `SHELL` of the environment. Programs use `HOME` anyway.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::file::{self, FileError, Links};

/// `/etc/passwd` of a large site has some ten thousand lines of about 70 bytes.
const CAP: usize = 16 * 1024 * 1024;

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The user id.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// The login name; the number as text if no name is known.
    pub name: String,
    /// The home directory: `$HOME` if absolute, else the database's.
    pub home: PathBuf,
    /// The login shell; `/bin/sh` if it isn't known.
    pub shell: PathBuf,
    /// The groups that the database lists the user in, the primary one first.
    pub groups: Vec<Group>,
    /// Whether the primary group is the user's alone (named as the user, no other member), so
    /// that "writable by the group" means "writable by the user" (umask 002).
    pub private_group: bool,
    /// Whether `/etc/passwd` has the user.
    pub in_database: bool,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The group id.
    pub gid: u32,
    /// Its name; the number as text where the database has none.
    pub name: String,
}

/// Where the databases are.
#[derive(Debug, Clone)]
pub struct Databases {
    /// Normally `/etc/passwd`.
    pub passwd: PathBuf,
    /// Normally `/etc/group`.
    pub group: PathBuf,
}

impl Default for Databases {
    fn default() -> Self {
        Self { passwd: PathBuf::from("/etc/passwd"), group: PathBuf::from("/etc/group") }
    }
}

/// Why an account couldn't be described.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// A database is there but can't be read.
    #[error("can't read the account database: {0}")]
    Database(#[from] FileError),
    /// Neither `$HOME` nor the database names a home.
    #[error("user {uid} has no home directory: not in {passwd}, and HOME isn't an absolute path")]
    NoHome {
        /// The user.
        uid: u32,
        /// The database that was read.
        passwd: PathBuf,
    },
}

/// Describes the user `uid` with primary group `gid`.
///
/// # Errors
/// [`AccountError`] when a database can't be read or no home is known.
pub fn lookup(
    uid: u32,
    gid: u32,
    databases: &Databases,
    environment: &Environment,
) -> Result<Account, AccountError> {
    let passwd = read_or_empty(&databases.passwd)?;
    let group = read_or_empty(&databases.group)?;
    let entry = passwd_entry(&passwd, uid);
    let in_database = entry.is_some();

    let name = entry
        .as_ref()
        .map(|entry| entry.name.clone())
        .or_else(|| environment.get("USER").map(|name| name.to_string_lossy().into_owned()))
        .unwrap_or_else(|| uid.to_string());
    let home = environment
        .absolute("HOME")
        .map(Path::to_path_buf)
        .or_else(|| entry.as_ref().map(|entry| entry.home.clone()).filter(|home| home.is_absolute()))
        .ok_or_else(|| AccountError::NoHome { uid, passwd: databases.passwd.clone() })?;
    let shell = entry
        .map(|entry| entry.shell)
        .filter(|shell| shell.is_absolute())
        .or_else(|| environment.absolute("SHELL").map(Path::to_path_buf))
        .unwrap_or_else(|| PathBuf::from("/bin/sh"));

    let (groups, private_group) = groups_of(&group, &name, gid);
    Ok(Account { uid, gid, name, home, shell, groups, private_group, in_database })
}

fn read_or_empty(path: &Path) -> Result<Vec<u8>, FileError> {
    match file::read(path, CAP, Links::Follow) {
        Err(error) if error.is_absent() => Ok(Vec::new()),
        other => other,
    }
}

/// The ids of the account named `name`: user, primary group, home.
///
/// # Errors
/// When the database can't be read.
pub fn by_name(name: &str, databases: &Databases) -> Result<Option<(u32, u32, PathBuf)>, AccountError> {
    let passwd = read_or_empty(&databases.passwd)?;
    Ok(passwd.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        if fields.next()? != name.as_bytes() || !is_name(name.as_bytes()) {
            return None;
        }
        let _password = fields.next()?;
        let (uid, gid) = (number(fields.next()?)?, number(fields.next()?)?);
        let _gecos = fields.next()?;
        Some((uid, gid, PathBuf::from(OsStr::from_bytes(fields.next()?))))
    }))
}

struct PasswdEntry {
    name: String,
    home: PathBuf,
    shell: PathBuf,
}

/// The first line with that id, as `getpwuid` returns it.
fn passwd_entry(text: &[u8], uid: u32) -> Option<PasswdEntry> {
    text.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        let name = fields.next().filter(|name| is_name(name))?;
        let _password = fields.next()?;
        if number(fields.next()?)? != uid {
            return None;
        }
        let _gid = fields.next()?;
        let _gecos = fields.next()?;
        let home = fields.next()?;
        let shell = fields.next().unwrap_or_default();
        Some(PasswdEntry {
            name: String::from_utf8_lossy(name).into_owned(),
            home: PathBuf::from(OsStr::from_bytes(home)),
            shell: PathBuf::from(OsStr::from_bytes(shell.trim_ascii_end())),
        })
    })
}

/// Groups that list `name`, the primary one first, and whether the primary one is private.
fn groups_of(text: &[u8], name: &str, gid: u32) -> (Vec<Group>, bool) {
    let mut primary = Group { gid, name: gid.to_string() };
    let mut private = false;
    let mut others = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        let mut fields = line.split(|&byte| byte == b':');
        let (Some(group), Some(_password), Some(id)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let Some(id) = number(id).filter(|_| is_name(group)) else {
            continue;
        };
        let members = fields.next().unwrap_or_default().trim_ascii_end();
        let mut members = members.split(|&byte| byte == b',').filter(|member| !member.is_empty());
        let group_name = String::from_utf8_lossy(group).into_owned();
        if id == gid {
            private = group_name == name && members.all(|member| member == name.as_bytes());
            primary.name = group_name;
        } else if members.any(|member| member == name.as_bytes()) {
            others.push(Group { gid: id, name: group_name });
        }
    }
    let mut groups = vec![primary];
    groups.append(&mut others);
    (groups, private)
}

/// Whether a field is a name. NIS compatibility lines (`+name`, `-name`, `+`) and comments have none.
fn is_name(field: &[u8]) -> bool {
    field.first().is_some_and(|first| !matches!(first, b'+' | b'-' | b'#'))
}

fn number(field: &[u8]) -> Option<u32> {
    if field.is_empty() || !field.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "# comment\nroot:x:0:0:root:/root:/bin/bash\n+nis::1000::::\n\
        broken line\nann:x:1000:1000:Ann,,,:/home/ann:/usr/bin/zsh\nann2:x:1000:1000::/x:/y\n\
        svc:x:99:99::relative:\n";
    const GROUP: &str =
        "root:x:0:\nann:x:1000:\nwheel:x:10:bob,ann\nshared:x:50:annabel\nusers:x:100:ann,bob\n";

    fn databases(dir: &Path) -> Databases {
        let databases = Databases { passwd: dir.join("passwd"), group: dir.join("group") };
        std::fs::write(&databases.passwd, PASSWD).unwrap();
        std::fs::write(&databases.group, GROUP).unwrap();
        databases
    }

    #[test]
    fn finds_name_home_shell_and_groups() {
        let dir = tempfile::tempdir().unwrap();
        let account = lookup(1000, 1000, &databases(dir.path()), &Environment::empty()).unwrap();
        assert_eq!(account.name, "ann");
        assert_eq!(account.home, Path::new("/home/ann"));
        assert_eq!(account.shell, Path::new("/usr/bin/zsh"));
        let names: Vec<&str> = account.groups.iter().map(|g| g.name.as_str()).collect();
        assert_eq!(names, ["ann", "wheel", "users"]);
        assert!(account.private_group);
        assert!(account.in_database);
    }

    #[test]
    fn the_environment_names_the_home_first() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::from_iter([("HOME", "/elsewhere")]);
        let account = lookup(1000, 100, &databases(dir.path()), &environment).unwrap();
        assert_eq!(account.home, Path::new("/elsewhere"));
        assert!(!account.private_group, "users is shared");
        let relative = Environment::from_iter([("HOME", "here")]);
        let account = lookup(1000, 100, &databases(dir.path()), &relative).unwrap();
        assert_eq!(account.home, Path::new("/home/ann"));
    }

    #[test]
    fn an_unknown_user_lives_by_the_environment() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::from_iter([("HOME", "/h"), ("USER", "ldap")]);
        let account = lookup(4242, 4242, &databases(dir.path()), &environment).unwrap();
        assert_eq!(account.name, "ldap");
        assert_eq!(account.shell, Path::new("/bin/sh"));
        assert!(!account.in_database);
        assert!(matches!(
            lookup(4242, 1, &databases(dir.path()), &Environment::empty()),
            Err(AccountError::NoHome { uid: 4242, .. })
        ));
    }

    #[test]
    fn a_relative_home_in_the_database_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(
            lookup(99, 99, &databases(dir.path()), &Environment::empty()),
            Err(AccountError::NoHome { .. })
        ));
    }

    #[test]
    fn missing_databases_are_empty_ones() {
        let dir = tempfile::tempdir().unwrap();
        let databases = Databases { passwd: dir.path().join("a"), group: dir.path().join("b") };
        let environment = Environment::from_iter([("HOME", "/h")]);
        let account = lookup(7, 8, &databases, &environment).unwrap();
        assert_eq!(account.name, "7");
        assert_eq!(account.groups[0].name, "8");
    }
}
