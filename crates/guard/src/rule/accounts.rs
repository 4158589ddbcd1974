// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts names of users and groups to numbers.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Looks up the numbers of users and groups. The parser uses this trait so that it reads no files itself.
pub trait Accounts {
    /// The number of the user of this name.
    fn user(&self, name: &[u8]) -> Option<u32>;
    /// The number of the group of this name.
    fn group(&self, name: &[u8]) -> Option<u32>;
}

/// The accounts in `passwd` and `group` files, read when a rule first names one.
///
/// Accounts of directory services aren't included: the guard can't wait for a network to load its rules. Rules name
/// those accounts by number.
#[derive(Debug)]
pub struct AccountFiles {
    passwd: PathBuf,
    group: PathBuf,
    users: OnceCell<HashMap<Vec<u8>, u32>>,
    groups: OnceCell<HashMap<Vec<u8>, u32>>,
}

impl AccountFiles {
    /// This host's: `/etc/passwd` and `/etc/group`.
    #[must_use]
    pub fn host() -> Self {
        Self::at(Path::new("/etc/passwd"), Path::new("/etc/group"))
    }

    /// Files of the same format at other paths.
    #[must_use]
    pub fn at(passwd: &Path, group: &Path) -> Self {
        Self {
            passwd: passwd.to_owned(),
            group: group.to_owned(),
            users: OnceCell::new(),
            groups: OnceCell::new(),
        }
    }
}

impl Accounts for AccountFiles {
    fn user(&self, name: &[u8]) -> Option<u32> {
        self.users.get_or_init(|| read(&self.passwd)).get(name).copied()
    }

    fn group(&self, name: &[u8]) -> Option<u32> {
        self.groups.get_or_init(|| read(&self.group)).get(name).copied()
    }
}

/// Reads lines `name:password:number:…`. A file that can't be read counts as empty: a rule that needs it is refused
/// then.
fn read(file: &Path) -> HashMap<Vec<u8>, u32> {
    let content = std::fs::read(file).unwrap_or_default();
    let mut accounts = HashMap::new();
    for line in content.split(|&byte| byte == b'\n') {
        let mut fields = line.split(|&byte| byte == b':');
        let (Some(name), Some(_), Some(number)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        if let Some(number) = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok()) {
            // The first line with a name counts, as for getpwnam(3).
            accounts.entry(name.to_owned()).or_insert(number);
        }
    }
    accounts
}
