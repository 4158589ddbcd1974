// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tools: their descriptions for the model, their arguments, and where their answers come from.

use super::outside::Outside;
use super::permission::{Asked, Permission};
use super::server::Version;
use super::{inside, permission};
use clap::ValueEnum;
use palisade_policy::Wanted;
use palisade_sandbox::refusals::InsidePolicy;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// A longer argument is refused: no path and no host is longer.
const LONGEST: usize = 4096;

/// What answers are about.
#[derive(Debug)]
pub(super) enum Place {
    /// The sandbox in which this process runs. `None`: its launch told nothing of its policy.
    Inside(Option<Box<InsidePolicy>>),
    /// A launch on this host.
    Outside(Box<Outside>),
}

/// What a tool is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// A path, with the wanted access.
    Path(PathBuf, Access),
    /// A host, with its port where that matters.
    Host(String),
    /// A command.
    Command(String),
}

/// The wanted access to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Access {
    Read,
    Write,
    Execute,
}

impl From<Access> for Wanted {
    fn from(access: Access) -> Self {
        match access {
            Access::Read => Self::Read,
            Access::Write => Self::Write,
            Access::Execute => Self::Execute,
        }
    }
}

/// A call of a tool, with valid arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    WhatMayIDo(Subject),
    Refusals,
    RequestPermission(Subject),
}

/// The result of a tool.
#[derive(Debug)]
pub(super) struct Answer {
    /// A JSON object.
    body: Value,
    is_error: bool,
}

impl Answer {
    /// An answer.
    pub(super) const fn new(body: Value) -> Self {
        Self { body, is_error: false }
    }

    /// The tool can't answer.
    pub(super) fn error(why: &str) -> Self {
        Self { body: json!({ "error": why }), is_error: true }
    }

    /// As the protocol has it.
    pub(super) fn shown(&self, version: Version) -> Value {
        let text = serde_json::to_string_pretty(&self.body).unwrap_or_default();
        let mut shown = json!({ "content": [{ "type": "text", "text": text }], "isError": self.is_error });
        if version.has_structure() && !self.is_error {
            shown["structuredContent"] = self.body.clone();
        }
        shown
    }
}

impl Call {
    /// The call that these parameters of `tools/call` describe; else what is wrong with them.
    pub(super) fn of(parameters: &Map<String, Value>) -> Result<Self, String> {
        let none = Map::new();
        let arguments = match parameters.get("arguments") {
            None | Some(Value::Null) => &none,
            Some(Value::Object(arguments)) => arguments,
            Some(_other) => return Err("the arguments are a JSON object".to_owned()),
        };
        match parameters.get("name").and_then(Value::as_str) {
            Some("what_may_i_do") => subject(arguments, &["path", "host", "command"]).map(Self::WhatMayIDo),
            Some("refusals") => Ok(Self::Refusals),
            Some("request_permission") => subject(arguments, &["path", "host"]).map(Self::RequestPermission),
            Some(other) => Err(format!("there is no tool {other:?}")),
            None => Err("a tool has a name".to_owned()),
        }
    }

    /// Whether the user may be asked, which takes long.
    pub(super) const fn may_ask(&self) -> bool {
        matches!(self, Self::RequestPermission(_))
    }
}

/// The one subject among the arguments.
fn subject(arguments: &Map<String, Value>, kinds: &[&str]) -> Result<Subject, String> {
    let given: Vec<(&str, &Value)> =
        kinds.iter().filter_map(|kind| arguments.get(*kind).map(|value| (*kind, value))).collect();
    let [(kind, value)] = given.as_slice() else {
        return Err(format!("exactly one of these arguments is needed: {}", kinds.join(", ")));
    };
    let text = match value.as_str() {
        Some(text) if !text.is_empty() && text.len() <= LONGEST && !text.contains('\0') => text,
        _ => return Err(format!("{kind} is a text of 1 to {LONGEST} bytes")),
    };
    let access = match arguments.get("access") {
        None => Access::Read,
        Some(word) => {
            let known = word.as_str().and_then(|word| Access::from_str(word, false).ok());
            known.ok_or("access is one of read, write, execute")?
        }
    };
    Ok(match *kind {
        "path" => Subject::Path(PathBuf::from(text), access),
        "host" => Subject::Host(text.to_owned()),
        _ => Subject::Command(text.to_owned()),
    })
}

/// The tools of one server.
#[derive(Debug)]
pub(super) struct Tools {
    place: Place,
    asked: Asked,
}

impl Tools {
    pub(super) fn new(place: Place) -> Self {
        Self { place, asked: Asked::default() }
    }

    /// What the model is told first.
    pub(super) const fn instructions(&self) -> &'static str {
        match self.place {
            Place::Inside(_) => {
                "You run in a Palisade sandbox. What it refuses stays refused: don't retry, and don't look for another way. \
                 Ask what_may_i_do before you try something unusual. Only the user can permit more."
            }
            Place::Outside(_) => {
                "Commands run in a Palisade sandbox on this host. What it refuses stays refused: don't retry. Ask \
                 what_may_i_do before you try something unusual. Only the user can permit more."
            }
        }
    }

    /// The tools, as the protocol lists them.
    pub(super) fn list() -> Value {
        let path = json!({ "type": "string", "description": "An absolute path, or one relative to the working directory" });
        let host = json!({ "type": "string", "description": "A host with its port: example.org:443" });
        let access = json!({ "type": "string", "enum": ["read", "write", "execute"], "default": "read" });
        json!([
            {
                "name": "what_may_i_do",
                "description": "Says whether the sandbox lets you use one path, host or command, why, and which command \
                                of the user permits it. Nothing is tried.",
                "inputSchema": { "type": "object", "properties": {
                    "path": path, "access": access, "host": host,
                    "command": { "type": "string", "description": "The name or path of a program" },
                } },
            },
            {
                "name": "refusals",
                "description": "Lists what was refused so far, how often, and which command of the user permits it. None \
                                of it succeeds when it is tried again.",
                "inputSchema": { "type": "object", "properties": {} },
            },
            {
                "name": "request_permission",
                "description": "Asks the user for a permission: to reach a host, or to use a path. The user decides. If the \
                                user can't be asked now, the answer has the command that the user has to run; tell the user.",
                "inputSchema": { "type": "object", "properties": { "host": host, "path": path, "access": access } },
            },
        ])
    }

    /// While a question waits for the user.
    pub(super) fn busy() -> Answer {
        Answer::error("an earlier request still waits for the user's answer; wait for it")
    }

    /// Calls a tool.
    pub(super) fn call(&self, call: Call) -> Answer {
        match (call, &self.place) {
            (Call::WhatMayIDo(subject), Place::Inside(policy)) => {
                inside::explain(policy.as_deref(), &subject)
            }
            (Call::WhatMayIDo(subject), Place::Outside(outside)) => outside.explain(&subject),
            (Call::Refusals, Place::Inside(_)) => inside::refusals(),
            (Call::Refusals, Place::Outside(outside)) => outside.refusals(),
            (Call::RequestPermission(subject), place) => {
                if !self.asked.permits() {
                    return Answer::error(permission::TOO_MANY);
                }
                match place {
                    Place::Inside(policy) => Permission::inside(policy.as_deref(), &subject),
                    Place::Outside(outside) => outside.permission(&subject),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: Value) -> Result<Call, String> {
        let parameters = json!({ "name": name, "arguments": arguments });
        Call::of(parameters.as_object().unwrap())
    }

    #[test]
    fn arguments_are_read_or_refused_with_what_is_needed() {
        assert_eq!(
            call("what_may_i_do", json!({ "path": "/a", "access": "write" })),
            Ok(Call::WhatMayIDo(Subject::Path("/a".into(), Access::Write)))
        );
        assert_eq!(
            call("request_permission", json!({ "host": "example.org" })),
            Ok(Call::RequestPermission(Subject::Host("example.org".into())))
        );
        assert_eq!(call("refusals", Value::Null), Ok(Call::Refusals));
        for (name, arguments, said) in [
            ("what_may_i_do", json!({}), "exactly one"),
            ("what_may_i_do", json!({ "path": "/a", "host": "b" }), "exactly one"),
            ("request_permission", json!({ "command": "ls" }), "exactly one"),
            ("what_may_i_do", json!({ "path": 7 }), "a text"),
            ("what_may_i_do", json!({ "path": "" }), "a text"),
            ("what_may_i_do", json!({ "path": "/a\0b" }), "a text"),
            ("what_may_i_do", json!({ "path": "x".repeat(5000) }), "a text"),
            ("what_may_i_do", json!({ "path": "/a", "access": "all" }), "access is one of"),
            ("grant", json!({}), "no tool"),
            ("refusals", json!([]), "a JSON object"),
        ] {
            let error = call(name, arguments.clone()).unwrap_err();
            assert!(error.contains(said), "{name} {arguments}: {error}");
        }
    }
}
