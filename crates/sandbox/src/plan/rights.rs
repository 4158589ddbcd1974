// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Landlock rights: a number in the cache, names in JSON.

use palisade_sys::landlock::Rights;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Names by bit, as in `linux/landlock.h`.
const NAMES: [&str; 16] = [
    "execute",
    "write-file",
    "read-file",
    "read-dir",
    "remove-dir",
    "remove-file",
    "make-char",
    "make-dir",
    "make-reg",
    "make-sock",
    "make-fifo",
    "make-block",
    "make-sym",
    "refer",
    "truncate",
    "ioctl-dev",
];

pub(super) fn serialize<S: Serializer>(rights: &Rights, to: S) -> Result<S::Ok, S::Error> {
    if to.is_human_readable() {
        let names = NAMES.iter().enumerate().filter(|(bit, _name)| rights.0 >> bit & 1 == 1);
        to.collect_seq(names.map(|(_bit, name)| name))
    } else {
        rights.0.serialize(to)
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Rights, D::Error> {
    if !from.is_human_readable() {
        return u64::deserialize(from).map(Rights);
    }
    let mut rights = 0;
    for name in Vec::<String>::deserialize(from)? {
        let bit = NAMES.iter().position(|known| *known == name);
        rights |= 1 << bit.ok_or_else(|| de::Error::unknown_variant(&name, &NAMES))?;
    }
    Ok(Rights(rights))
}
