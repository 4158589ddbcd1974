// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The serialised form for formats with member names (JSON), and the parser of older forms.
//!
//! Members of schema 1 keep their form, so `object` stays a text. The typed values are in further members, `kind`,
//! `target` and `detail`, which a reader of schema 1 ignores.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{
    Detail, Event, Kind, Launch, Mechanism, Network, Object, Operation, Sandbox, Subject, Verdict, Why,
};

#[derive(Serialize)]
struct Written<'a> {
    schema: u32,
    time: u64,
    kind: Kind,
    subject: &'a Subject,
    operation: Operation,
    object: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a Object>,
    verdict: Verdict,
    why: &'a Why,
    enforced_by: Mechanism,
    #[serde(skip_serializing_if = "is_nothing")]
    detail: WrittenDetail<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    count: u64,
}

/// Serialised without the kind, which is a separate member.
struct WrittenDetail<'a>(&'a Detail);

fn is_nothing(detail: &WrittenDetail<'_>) -> bool {
    matches!(detail.0, Detail::Sandbox(sandbox) if *sandbox == Sandbox::default())
}

impl Serialize for WrittenDetail<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Detail::Sandbox(sandbox) => sandbox.serialize(to),
            Detail::Network(network) => network.serialize(to),
            Detail::Guard(guard) => guard.serialize(to),
            Detail::Scope(scope) => scope.serialize(to),
        }
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let launch = self.launch.as_ref();
        Written {
            schema: self.schema,
            time: nanoseconds(self.time),
            kind: self.kind(),
            subject: &self.subject,
            operation: self.operation,
            object: self.object.to_string(),
            target: (!matches!(self.object, Object::Words { .. })).then_some(&self.object),
            verdict: self.verdict,
            why: &self.why,
            enforced_by: self.enforced_by,
            detail: WrittenDetail(&self.detail),
            sandbox: launch.map(|launch| &*launch.sandbox),
            command: launch.map(|launch| &*launch.command),
            hint: self.hint.as_deref(),
            count: self.count,
        }
        .serialize(to)
    }
}

#[derive(Deserialize)]
struct Read {
    schema: u32,
    time: u64,
    #[serde(default)]
    kind: Option<Kind>,
    subject: Subject,
    operation: Operation,
    object: String,
    #[serde(default)]
    target: Option<Target>,
    verdict: Verdict,
    why: Why,
    enforced_by: Mechanism,
    #[serde(default)]
    detail: Option<Value>,
    #[serde(default)]
    sandbox: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    hint: Option<String>,
    #[serde(default = "once")]
    count: u64,
}

/// Of an object with a newer type, only the text is known.
#[derive(Deserialize)]
#[serde(untagged)]
enum Target {
    Known(Object),
    Newer(IgnoredAny),
}

const fn once() -> u64 {
    1
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = Read::deserialize(from)?;
        let object = match read.target {
            Some(Target::Known(object)) => object,
            Some(Target::Newer(_)) => Object::words(read.object),
            None => Object::of_text(read.operation, read.object),
        };
        // Schema 1 had two kinds. If the gateway enforced the verdict, the event is from the network.
        let kind = read.kind.unwrap_or(match read.enforced_by {
            Mechanism::Gateway => Kind::Network,
            _ => Kind::Sandbox,
        });
        let detail = match (kind, read.detail) {
            (Kind::Sandbox, None) => Detail::Sandbox(Sandbox::default()),
            (Kind::Network, None) => Detail::Network(Network::of_verdict(read.verdict)),
            (kind, detail) => of_kind(kind, detail.unwrap_or_default())
                .map_err(|error| D::Error::custom(error.to_string()))?,
        };
        Ok(Self {
            schema: read.schema,
            time: UNIX_EPOCH + Duration::from_nanos(read.time),
            subject: read.subject,
            operation: read.operation,
            object,
            verdict: read.verdict,
            why: read.why,
            enforced_by: read.enforced_by,
            detail,
            launch: read.sandbox.map(|sandbox| Launch {
                sandbox: sandbox.into(),
                command: read.command.unwrap_or_default().into(),
            }),
            hint: read.hint,
            count: read.count,
        })
    }
}

fn of_kind(kind: Kind, detail: Value) -> serde_json::Result<Detail> {
    Ok(match kind {
        Kind::Sandbox => Detail::Sandbox(serde_json::from_value(detail)?),
        Kind::Network => Detail::Network(serde_json::from_value(detail)?),
        Kind::Guard => Detail::Guard(serde_json::from_value(detail)?),
        Kind::Scope => Detail::Scope(serde_json::from_value(detail)?),
    })
}

/// A time as one number, nanoseconds since 1970: exact, sortable, and valid until the year 2554.
fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
