// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Model Context Protocol's transport on standard input and output: JSON-RPC 2.0, one message on each line.
//!
//! The client may be anything. Each message has a limit, requests are answered one after the other, and a client that
//! doesn't read its answers waits for itself. Only a question to the user takes long: it has a thread, so that the client
//! can go on meanwhile.

use super::tools::{Call, Tools};
use serde_json::{Map, Value, json};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A longer line is skipped.
const LONGEST: usize = 1 << 20;
/// A batch with more messages is refused.
const MOST: usize = 64;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    /// Tools with text.
    November2024,
    /// Adds batches.
    March2025,
    /// Removes batches; adds structured results of tools.
    June2025,
}

impl Version {
    const ALL: [Self; 3] = [Self::November2024, Self::March2025, Self::June2025];
    const NEWEST: Self = Self::June2025;

    const fn name(self) -> &'static str {
        match self {
            Self::November2024 => "2024-11-05",
            Self::March2025 => "2025-03-26",
            Self::June2025 => "2025-06-18",
        }
    }

    /// The version for a client that offers this one. A client that doesn't know it ends the connection.
    fn agreed(offered: &str) -> Self {
        Self::ALL.into_iter().find(|version| version.name() == offered).unwrap_or(Self::NEWEST)
    }

    /// Whether results of tools have a structured form.
    pub(super) fn has_structure(self) -> bool {
        self >= Self::June2025
    }
}

type Output = Arc<Mutex<Box<dyn Write + Send>>>;

struct Session {
    tools: Arc<Tools>,
    output: Output,
    version: Option<Version>,
    /// A question waits for the user.
    asking: Arc<AtomicBool>,
}

/// Serves until the input ends, or nobody reads the output.
pub(super) fn serve(input: impl Read, output: Box<dyn Write + Send>, tools: &Arc<Tools>) -> io::Result<()> {
    let mut session = Session {
        tools: Arc::clone(tools),
        output: Arc::new(Mutex::new(output)),
        version: None,
        asking: Arc::default(),
    };
    let mut input = BufReader::new(input);
    loop {
        let reply = match next(&mut input)? {
            None => return Ok(()),
            Some(Line::TooLong) => {
                let why = format!("a message has more than {LONGEST} bytes");
                Some(failure(&Value::Null, PARSE_ERROR, &why))
            }
            // serde_json refuses what is nested deeper than 128 levels.
            Some(Line::Text(line)) if line.iter().all(u8::is_ascii_whitespace) => None,
            Some(Line::Text(line)) => match serde_json::from_slice::<Value>(&line) {
                Ok(message) => session.message(message),
                Err(error) => Some(failure(&Value::Null, PARSE_ERROR, &format!("no JSON: {error}"))),
            },
        };
        if let Some(reply) = reply {
            match write(&session.output, &reply) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                written => written?,
            }
        }
    }
}

enum Line {
    Text(Vec<u8>),
    TooLong,
}

/// Reads a line. Of one that is too long, nothing is kept.
fn next(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let (mut any, mut too_long) = (false, false);
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
        any |= !available.is_empty();
        if line.len() + taken.len() > LONGEST {
            too_long = true;
            line = Vec::new();
        } else if !too_long {
            line.extend_from_slice(taken);
        }
        let (ended, consumed) =
            (available.is_empty() || end.is_some(), taken.len() + usize::from(end.is_some()));
        input.consume(consumed);
        if ended {
            return Ok(any.then_some(if too_long { Line::TooLong } else { Line::Text(line) }));
        }
    }
}

fn write(output: &Output, reply: &Value) -> io::Result<()> {
    let mut line = palisade_text::json(reply.to_string());
    line.push('\n');
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    output.write_all(line.as_bytes())?;
    output.flush()
}

fn success(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn failure(id: &Value, code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

impl Session {
    /// The reply to a message, if it needs one.
    fn message(&mut self, message: Value) -> Option<Value> {
        let Value::Array(batch) = message else { return self.one(message, false) };
        let refused = match (self.version, batch.len()) {
            (Some(Version::March2025), 1..=MOST) => None,
            (Some(Version::March2025), 0) => Some("the batch is empty".to_owned()),
            (Some(Version::March2025), _) => Some(format!("a batch may have {MOST} messages")),
            _ => Some("this version of the protocol has no batches".to_owned()),
        };
        if let Some(why) = refused {
            return Some(failure(&Value::Null, INVALID_REQUEST, &why));
        }
        let replies: Vec<Value> = batch.into_iter().filter_map(|message| self.one(message, true)).collect();
        (!replies.is_empty()).then_some(Value::Array(replies))
    }

    fn one(&mut self, message: Value, in_batch: bool) -> Option<Value> {
        let invalid = |why: &str| Some(failure(&Value::Null, INVALID_REQUEST, why));
        let Value::Object(mut message) = message else { return invalid("a message is a JSON object") };
        if message.get("jsonrpc") != Some(&json!("2.0")) {
            return invalid("a message has \"jsonrpc\": \"2.0\"");
        }
        let id = message.remove("id");
        let Some(Value::String(method)) = message.remove("method") else {
            // A response: this server asks the client nothing.
            let is_response =
                id.is_some() && (message.contains_key("result") || message.contains_key("error"));
            return if is_response { None } else { invalid("a request has a method") };
        };
        let Some(id) = id else {
            // A notification. None of them changes what this server does.
            return None;
        };
        if !id.is_string() && !id.is_number() {
            return invalid("an id is a text or a number");
        }
        let parameters = match message.remove("params") {
            None => Map::new(),
            Some(Value::Object(parameters)) => parameters,
            Some(_other) => return Some(failure(&id, INVALID_PARAMS, "parameters are a JSON object")),
        };
        match (method.as_str(), self.version) {
            ("ping", _) => Some(success(&id, &json!({}))),
            ("initialize", _) if in_batch => {
                Some(failure(&id, INVALID_REQUEST, "initialize can't be in a batch"))
            }
            ("initialize", _) => Some(success(&id, &self.initialize(&parameters))),
            (_, None) => Some(failure(&id, INVALID_REQUEST, "the first request is initialize")),
            ("tools/list", Some(_)) => Some(success(&id, &json!({ "tools": Tools::list() }))),
            ("tools/call", Some(version)) => self.call(id, &parameters, version, in_batch),
            (_, Some(_)) => Some(failure(&id, METHOD_NOT_FOUND, &format!("there is no method {method:?}"))),
        }
    }

    fn initialize(&mut self, parameters: &Map<String, Value>) -> Value {
        let offered = parameters.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let version = Version::agreed(offered);
        self.version = Some(version);
        json!({
            "protocolVersion": version.name(),
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "palisade", "version": env!("CARGO_PKG_VERSION") },
            "instructions": self.tools.instructions(),
        })
    }

    fn call(
        &self,
        id: Value,
        parameters: &Map<String, Value>,
        version: Version,
        in_batch: bool,
    ) -> Option<Value> {
        let call = match Call::of(parameters) {
            Ok(call) => call,
            Err(why) => return Some(failure(&id, INVALID_PARAMS, &why)),
        };
        if in_batch || !call.may_ask() {
            return Some(success(&id, &self.tools.call(call).shown(version)));
        }
        if self.asking.swap(true, Ordering::AcqRel) {
            return Some(success(&id, &Tools::busy().shown(version)));
        }
        let (tools, output, asking) =
            (Arc::clone(&self.tools), Arc::clone(&self.output), Arc::clone(&self.asking));
        let number = id.clone();
        let thread = std::thread::Builder::new().name("palisade-mcp-ask".to_owned()).spawn(move || {
            let reply = success(&number, &tools.call(call).shown(version));
            asking.store(false, Ordering::Release);
            // The main loop notices a client that is gone.
            let _nobody_reads = write(&output, &reply);
        });
        if thread.is_err() {
            self.asking.store(false, Ordering::Release);
            return Some(success(&id, &Tools::busy().shown(version)));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::tools::Place;

    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The replies to these lines.
    fn replies(input: &[u8]) -> Vec<Value> {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let tools = Arc::new(Tools::new(Place::Inside(None)));
        serve(input, Box::new(Kept(Arc::clone(&kept))), &tools).unwrap();
        let bytes = kept.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn initialize(version: &str) -> String {
        let parameters = json!({ "protocolVersion": version });
        format!("{}\n", json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": parameters }))
    }

    const PING: &str = "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n";
    const LIST: &str = "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}\n";

    #[test]
    fn a_version_is_agreed_on() {
        for (offered, agreed) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-03-26", "2025-03-26"),
            ("2025-06-18", "2025-06-18"),
            ("2199-01-01", "2025-06-18"),
            ("", "2025-06-18"),
        ] {
            let replies = replies((initialize(offered) + LIST).as_bytes());
            assert_eq!(replies[0]["result"]["protocolVersion"], agreed);
            assert_eq!(replies[1]["result"]["tools"].as_array().unwrap().len(), 3);
        }
    }

    #[test]
    fn batches_are_answered_in_the_version_that_has_them() {
        let notified = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
        let batch = format!("[{},{},{notified},7]\n", PING.trim(), LIST.trim());
        let with = |version: &str| replies((initialize(version) + &batch).as_bytes()).pop().unwrap();
        let answered = with("2025-03-26");
        let answered = answered.as_array().unwrap();
        assert_eq!(answered.len(), 3);
        assert_eq!((&answered[0]["id"], &answered[1]["id"]), (&json!("p"), &json!(2)));
        assert_eq!(answered[2]["error"]["code"], INVALID_REQUEST);
        for version in ["2024-11-05", "2025-06-18"] {
            assert_eq!(with(version)["error"]["code"], INVALID_REQUEST);
        }
        let many = format!("{}[{}]\n", initialize("2025-03-26"), vec![PING.trim(); MOST + 1].join(","));
        assert_eq!(replies(many.as_bytes())[1]["error"]["code"], INVALID_REQUEST);
        let none = format!("{}[]\n[{notified}]\n", initialize("2025-03-26"));
        assert_eq!(replies(none.as_bytes()).len(), 2, "notifications have no reply");
    }

    #[test]
    fn what_isnt_a_request_is_refused_and_the_next_one_answered() {
        let deep = "[".repeat(100_000);
        let long = format!("\"{}\"", "x".repeat(3 << 20));
        let cases: [(&[u8], Option<i32>); 14] = [
            (b"", None),
            (b"  \t", None),
            (b"{", Some(PARSE_ERROR)),
            (b"\xff\xfe{}", Some(PARSE_ERROR)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", Some(PARSE_ERROR)),
            (deep.as_bytes(), Some(PARSE_ERROR)),
            (long.as_bytes(), Some(PARSE_ERROR)),
            (b"7", Some(INVALID_REQUEST)),
            (b"{\"id\":1,\"method\":\"ping\"}", Some(INVALID_REQUEST)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1}", Some(INVALID_REQUEST)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", Some(INVALID_REQUEST)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}", Some(INVALID_REQUEST)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", Some(INVALID_PARAMS)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", None),
        ];
        for (line, code) in cases {
            let replies = replies(&[line, b"\n", PING.as_bytes()].concat());
            let shown = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
            assert_eq!(replies.len(), 1 + usize::from(code.is_some()), "{shown}");
            if let Some(code) = code {
                assert_eq!(replies[0]["error"]["code"], code, "{shown}");
            }
            assert_eq!(replies.last().unwrap()["id"], "p", "{shown}");
        }
        // The last line needs no end.
        assert_eq!(replies(PING.trim().as_bytes()).len(), 1);
        let unknown =
            initialize("2025-06-18") + "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\"}";
        assert_eq!(replies(unknown.as_bytes())[1]["error"]["code"], METHOD_NOT_FOUND);
    }
}
