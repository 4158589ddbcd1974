// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the JSON schema of a policy file, for editors. Uses the same table as the parser.

use serde_json::{Map, Value, json};

use crate::grammar::{Kind, SECTIONS, Section};
use crate::guarantee::Guarantee;
use crate::launch::{Capture, When};
use crate::layer::SCHEMA;
use crate::limits::Unit;
use crate::network::{Fallback, NetworkKey, NetworkList};
use crate::parse::{AGENT, ENTRY, HOOK, STANZA};
use crate::reply::{ACTIONS, KEYS as ANSWER};
use crate::value::{MOST_PROCESSORS, NetworkMode, Protect, View};
use crate::word::List;

/// The JSON schema (draft 2020-12) of a policy file.
#[must_use]
pub fn json_schema() -> Value {
    let sections = sections();
    let mut properties = Map::new();
    properties.insert(
        "schema".into(),
        json!({ "const": SCHEMA, "description": "The version of the policy language." }),
    );
    properties.insert("name".into(), json!({ "type": "string", "description": "The profile's name." }));
    properties
        .insert("description".into(), json!({ "type": "string", "description": "What the profile is for." }));
    properties.insert(
        "caveat".into(),
        json!({ "type": "string", "description": "What a user should know, said at each launch." }),
    );
    properties.insert("inherits".into(), strings("Profiles that are merged before this one."));
    properties.insert("features".into(), strings("Features that it needs."));
    properties.insert("without".into(), strings("Features that it does without."));
    properties.insert("launch".into(), stanza());
    properties.insert("agent".into(), agent());
    let mut variant = sections.clone();
    variant.insert("features".into(), strings("Features that it needs."));
    variant.insert("without".into(), strings("Features that it does without."));
    properties.insert(
        "configurations".into(),
        json!({
            "type": "object",
            "description": "Variants of the profile.",
            "additionalProperties": object(variant, "What is different."),
        }),
    );
    properties.extend(sections.clone());
    for (strength, about) in [
        ("default", "Statements that yield to all others of their layer."),
        (
            "locked",
            "Statements that no later layer loosens; in files of the distribution and the \
             administrator only.",
        ),
    ] {
        properties.insert(strength.into(), object(sections.clone(), about));
    }
    let mut schema = object(properties, "What a program may see and touch.");
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Palisade policy");
    schema["required"] = json!(["schema"]);
    schema
}

fn object(properties: Map<String, Value>, about: &str) -> Value {
    json!({
        "type": "object",
        "description": about,
        "properties": properties,
        "additionalProperties": false,
    })
}

fn strings(about: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": about })
}

fn sections() -> Map<String, Value> {
    SECTIONS.iter().map(|section| (section.name.to_owned(), object(keys(section), section.about))).collect()
}

fn keys(section: &Section) -> Map<String, Value> {
    section.keys.iter().map(|key| (key.name.to_owned(), value(key.kind, key.about))).collect()
}

fn value(kind: Kind, about: &str) -> Value {
    let mut schema = match kind {
        Kind::View => json!({ "enum": View::ALL.map(View::key) }),
        Kind::Network(key) => network(key),
        Kind::Protect => json!({ "enum": Protect::ALL.map(Protect::key) }),
        Kind::Paths(_) => json!({
            "type": "array",
            "items": { "type": "string", "minLength": 1 },
        }),
        Kind::Names { .. } => json!({
            "type": "array",
            "items": { "type": "string", "pattern": "^[^/~].*$" },
        }),
        Kind::Hostname => json!({
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
        }),
        Kind::Uid | Kind::Gid => json!({
            "type": "integer", "minimum": 0, "maximum": u32::MAX - 1,
        }),
        Kind::Cwd => json!({ "type": "string", "minLength": 1 }),
        Kind::BestEffort | Kind::InheritTerminal => json!({ "type": "boolean" }),
        Kind::Syscalls { .. } => json!({
            "type": "array",
            "items": { "type": "string", "pattern": "^[a-z0-9_]{1,64}$" },
        }),
        Kind::Answers => json!({
            "type": "array",
            "items": answer(),
            "examples": [[{ "call": "sethostname", "action": "deny", "errno": "EPERM" }]],
        }),
        Kind::Processors => json!({ "type": "integer", "minimum": 1, "maximum": MOST_PROCESSORS }),
        Kind::Time => json!({
            "oneOf": [
                {
                    "type": "string",
                    "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?$",
                },
                { "type": "integer", "minimum": 0, "maximum": crate::clock::LATEST },
            ],
            "examples": ["2030-01-01", "2030-01-01T12:00:00Z", 1_893_456_000],
        }),
        Kind::KeepVariables | Kind::RemoveVariables => json!({
            "type": "array",
            "items": { "type": "string", "pattern": "^[^=\u{0}]+$" },
        }),
        Kind::SetVariables => json!({
            "type": "object",
            "propertyNames": { "pattern": "^[^=\u{0}]+$" },
            "additionalProperties": { "type": "string" },
        }),
        Kind::Choice(choice) => {
            json!({ "enum": choice.possible().into_iter().map(|(word, _)| word).collect::<Vec<_>>() })
        }
        Kind::Word(_) => json!({ "type": "string", "minLength": 1 }),
        Kind::Switch(_) => json!({ "type": "boolean" }),
        Kind::List(List::IgnoreExit) => json!({
            "type": "array",
            "items": { "type": "integer", "minimum": 1, "maximum": 255 },
        }),
        Kind::List(List::Guarantees) => json!({
            "type": "array",
            "items": { "enum": Guarantee::ALL.map(Guarantee::name) },
            "examples": [["hidden", "no-network"]],
        }),
        Kind::List(list) => json!({
            "type": "array",
            "items": { "type": "string", "minLength": 1 },
            "examples": [[example_of(list)]],
        }),
        Kind::Made(_) => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        Kind::Hooks(When::Parent) => hook(),
        Kind::Hooks(_) => json!({ "type": "array", "items": hook() }),
        Kind::Amount(limit) => {
            let pattern = match limit.unit() {
                Unit::Bytes => r"^\s*([0-9]+\s*(B|[KMGT](iB)?)?|[Uu]nlimited)\s*$",
                Unit::Count => r"^\s*([0-9]+|[Uu]nlimited)\s*$",
                Unit::Seconds => r"^\s*([0-9]+\s*[smh]?|[Uu]nlimited)\s*$",
            };
            json!({ "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": pattern },
            ] })
        }
    };
    schema["description"] = json!(about);
    schema
}

/// An example entry for users.
const fn example_of(list: List) -> &'static str {
    match list {
        List::Devices => "/dev/dri",
        List::See | List::Talk | List::Own | List::SystemSee | List::SystemTalk | List::SystemOwn => {
            "org.freedesktop.Notifications"
        }
        List::Call | List::Broadcast | List::SystemCall => {
            "org.freedesktop.Notifications=org.freedesktop.Notifications.Notify@/*"
        }
        List::Portals => "FileChooser",
        _ => "a",
    }
}

fn network(key: NetworkKey) -> Value {
    let text = || json!({ "type": "string", "minLength": 1 });
    let list =
        |items: Value, example: &str| json!({ "type": "array", "items": items, "examples": [[example]] });
    match key {
        NetworkKey::Mode => json!({ "enum": NetworkMode::ALL.map(NetworkMode::key) }),
        NetworkKey::Default => json!({ "enum": Fallback::ALL.map(Fallback::key) }),
        NetworkKey::Hosts { .. } => {
            let properties = ENTRY.map(|key| (key.to_owned(), json!({ "type": "string" })));
            let mut entry = object(properties.into_iter().collect(), "A host, and why.");
            entry["required"] = json!(["host"]);
            list(json!({ "oneOf": [text(), entry] }), "example.com")
        }
        NetworkKey::List(NetworkList::Publish) => list(text(), "8080"),
        NetworkKey::List(NetworkList::Reach) => {
            let number = json!({ "type": "integer", "minimum": 1, "maximum": u16::MAX });
            list(json!({ "anyOf": [number, { "type": "string", "pattern": "^[0-9]{1,5}$" }] }), "5432")
        }
        NetworkKey::List(NetworkList::Dns) => list(text(), "9.9.9.9"),
        NetworkKey::Proxy => json!({
            "type": "string",
            "pattern": "^(direct|environment|(http|socks5h?)://.+)$",
            "examples": ["http://proxy.example.com:3128"],
        }),
    }
}

/// The schema of an entry of `syscalls.answers`.
fn answer() -> Value {
    let mut properties = Map::new();
    for key in ANSWER {
        let value = match key {
            "action" => json!({ "enum": ACTIONS }),
            "value" => json!({ "type": "integer" }),
            "descriptor" => json!({ "type": "integer", "minimum": 0 }),
            _ => json!({ "type": "string", "minLength": 1 }),
        };
        properties.insert(key.into(), value);
    }
    let mut answer = object(properties, "An answer to a call, or to opening a path.");
    answer["required"] = json!(["action"]);
    answer["oneOf"] = json!([{ "required": ["call"] }, { "required": ["open"] }]);
    answer
}

/// The schema of a hook.
fn hook() -> Value {
    let mut properties = Map::new();
    for key in HOOK {
        let value = match key {
            "command" | "arguments" => json!({ "type": "array", "items": { "type": "string" } }),
            "profile" => json!({ "type": "string" }),
            "capture" => json!({ "enum": Capture::ALL.map(|(word, _)| word) }),
            _ => json!({ "type": "boolean" }),
        };
        properties.insert(key.into(), value);
    }
    let mut hook = object(properties, "A program that is run outside.");
    hook["oneOf"] = json!([{ "required": ["command"] }, { "required": ["profile"] }]);
    hook["examples"] = json!([{ "command": ["true"] }]);
    hook
}

/// The schema of `[launch]`.
fn stanza() -> Value {
    let mut properties = Map::new();
    for key in STANZA {
        let value = match key {
            "arguments" => json!({ "type": "array", "items": { "type": "string" } }),
            "exit" => json!({ "type": "integer", "minimum": 0, "maximum": 255 }),
            "offscreen" => json!({ "type": "boolean" }),
            _ => json!({ "type": "string" }),
        };
        properties.insert(key.into(), value);
    }
    object(properties, "How a test starts it, and what shows that it works.")
}

/// The schema of `[agent]`.
fn agent() -> Value {
    let mut properties = Map::new();
    for key in AGENT {
        let value = match key {
            "login" => json!({ "type": "array", "items": { "type": "string" } }),
            _ => json!({ "type": "string" }),
        };
        properties.insert(key.into(), value);
    }
    object(properties, "Where a coding agent comes from, and where its login is.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Layer;
    use crate::parse::parse;
    use crate::parse_error::Problem;

    /// An example value for the schema of one key, as TOML.
    fn example(schema: &Value) -> String {
        if let Some(first) = schema["enum"].get(0) {
            return first.to_string();
        }
        if let Some(first) = schema["examples"].get(0) {
            return first.to_string().replace("\":", "\"=");
        }
        if schema["items"]["type"] == "integer" {
            return "[1]".into();
        }
        if schema["items"]["oneOf"].is_array() {
            return format!("[{}]", example(&schema["items"]));
        }
        match schema["type"].as_str() {
            Some("array") => "[\"a\"]".into(),
            Some("string") => "\"a\"".into(),
            Some("boolean") => "true".into(),
            Some("object") => "{ A = \"b\" }".into(),
            _ => "1".into(),
        }
    }

    fn read(body: &str) -> Result<(), Vec<Problem>> {
        parse(&format!("schema = 1\n{body}"), None, Layer::Administrator)
            .map(|_| ())
            .map_err(|errors| errors.into_iter().map(|error| error.problem).collect())
    }

    #[test]
    fn the_parser_takes_every_key_of_the_schema_and_no_other() {
        let schema = json_schema();
        let top = schema["properties"].as_object().unwrap();
        let mut keys = 0;
        for (name, section) in top {
            if ["schema", "default", "locked", "launch", "agent", "configurations"].contains(&name.as_str()) {
                continue;
            }
            let Some(properties) = section["properties"].as_object() else {
                read(&format!("{name} = {}", example(section))).unwrap();
                continue;
            };
            for prefix in ["", "default.", "locked."] {
                for (key, value) in properties {
                    let text = format!("[{prefix}{name}]\n{key} = {}", example(value));
                    assert_eq!(read(&text), Ok(()), "{text}");
                    keys += 1;
                }
            }
            // The parser's list of known keys equals the schema's.
            let problems = read(&format!("[{name}]\nzzzzzzzz = 1")).unwrap_err();
            let [Problem::UnknownKey { known, .. }] = problems.as_slice() else {
                panic!("{problems:?}");
            };
            let mut known = known.clone();
            known.sort_unstable();
            let mut described: Vec<&str> = properties.keys().map(String::as_str).collect();
            described.sort_unstable();
            assert_eq!(known, described);
        }
        assert!(keys > 3 * 25, "{keys}");
        let problems = read("zzzzzzzz = 1").unwrap_err();
        let [Problem::UnknownKey { known, .. }] = problems.as_slice() else {
            panic!("{problems:?}");
        };
        assert_eq!(known.len(), top.len());
        assert!(known.iter().all(|key| top.contains_key(*key)));
    }
}
