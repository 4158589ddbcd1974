// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A filtered message bus of a plan.

use super::Plan;
use crate::plan::text::Text;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// A bus that the command reaches through a filter. The filter is started at the first connection.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bus<'a> {
    /// The bus.
    pub which: BusName,
    /// The application's id, if portals need it. They look the launch up by its number.
    #[serde(borrow)]
    pub portals: Option<Text<'a>>,
    /// The plan of the filter's sandbox.
    #[serde(borrow)]
    pub proxy: Nested<'a>,
}

/// The message buses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BusName {
    /// The session bus of the user.
    Session,
    /// The system bus.
    System,
}

impl fmt::Display for BusName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Session => "session bus",
            Self::System => "system bus",
        })
    }
}

/// A plan in a plan. In the cache it stays encoded until it is needed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nested<'a>(Cow<'a, [u8]>);

impl Nested<'static> {
    /// Encodes it.
    ///
    /// # Errors
    /// None is known.
    pub fn new(plan: &Plan<'_>) -> Result<Self, postcard::Error> {
        plan.to_bytes().map(|bytes| Self(Cow::Owned(bytes)))
    }
}

impl Nested<'_> {
    /// The plan, as [`Plan::from_bytes`] takes it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Decodes it.
    ///
    /// # Errors
    /// When the bytes are invalid, because the cache file was damaged.
    pub fn get(&self) -> Result<Plan<'_>, postcard::Error> {
        Plan::from_bytes(&self.0)
    }
}

impl Serialize for Nested<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            self.get().map_err(serde::ser::Error::custom)?.serialize(to)
        } else {
            to.serialize_bytes(&self.0)
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Nested<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() {
            let plan = Plan::deserialize(from)?;
            return Nested::new(&plan).map_err(serde::de::Error::custom);
        }
        <&'de [u8]>::deserialize(from).map(|bytes| Self(Cow::Borrowed(bytes)))
    }
}
