// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which lines are kept out of the history: lines that begin with a space, and lines that contain a secret.
//!
//! This examines the text of one line. It can't see a secret that is not in the line (an answer to a prompt, a
//! variable's value), and it can't recognise a secret that looks like any other word. It prevents accidents and is no
//! boundary.

use std::borrow::Cow;
use std::ops::Range;

mod words;

use words::{Word, words};

/// Which lines the user wants kept out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Privacy {
    /// Lines that begin with a space or a tab.
    pub leading_space: bool,
    /// Lines that contain a secret.
    pub secrets: bool,
}

impl Default for Privacy {
    fn default() -> Self {
        Self { leading_space: true, secrets: true }
    }
}

/// Why a line is kept out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It begins with a space or a tab.
    LeadingSpace,
    /// It contains a secret, at these bytes.
    Secret(Range<usize>),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(match self {
            Self::LeadingSpace => "it begins with a space",
            Self::Secret(_) => "it carries what looks like a secret",
        })
    }
}

impl Privacy {
    /// Why a line is kept out of the history, if it is kept out.
    #[must_use]
    pub fn keeps_out(&self, line: &str) -> Option<Reason> {
        if self.leading_space && line.starts_with([' ', '\t']) {
            return Some(Reason::LeadingSpace);
        }
        if !self.secrets {
            return None;
        }
        secrets(line).into_iter().next().map(Reason::Secret)
    }
}

/// The line with `…` in place of each secret, for showing or logging it.
#[must_use]
pub fn redacted(line: &str) -> Cow<'_, str> {
    let secrets = secrets(line);
    if secrets.is_empty() {
        return Cow::Borrowed(line);
    }
    let (mut text, mut from) = (String::with_capacity(line.len()), 0);
    for secret in secrets {
        text.push_str(&line[from..secret.start]);
        text.push('…');
        from = secret.end;
    }
    text.push_str(&line[from..]);
    Cow::Owned(text)
}

/// The places of secrets in a line: byte ranges, in order, not overlapping.
#[must_use]
pub fn secrets(line: &str) -> Vec<Range<usize>> {
    let words = words(line);
    let mut found = Vec::new();
    let mut start = 0;
    for (at, word) in words.iter().enumerate() {
        if word.starts_command {
            start = at;
        }
        let next = words.get(at + 1).filter(|next| !next.starts_command);
        found.extend(in_word(line, word));
        found.extend(after(line, word, next, &words[start..at]));
    }
    found.extend(in_headers(line));
    found.extend(keys(line));
    found.sort_unstable_by_key(|range: &Range<usize>| (range.start, range.end));
    let mut apart: Vec<Range<usize>> = Vec::new();
    for range in found {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

/// Parts of names that mark the value as a secret.
const NAMES: [&str; 15] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "auth_key",
    "credential",
    "account_key",
    "encryption_key",
    "signing_key",
    "pgpass",
];
/// Ends of names that mark the value as a secret's place, or as a fact about a secret, but not as the secret itself.
const HARMLESS: [&str; 19] = [
    "_file", "_path", "_dir", "_id", "_ids", "_name", "_url", "_uri", "_env", "_type", "_length", "_ttl",
    "_stdin", "_fd", "_command", "_manager", "_store", "_policy", "_arn",
];

/// Whether an option or a variable with this name holds a secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.trim_start_matches('-').to_ascii_lowercase().replace('-', "_");
    if HARMLESS.iter().any(|end| name.ends_with(end)) || name.starts_with("no_") {
        return false;
    }
    // The value of `max_tokens` is a number.
    NAMES.iter().any(|part| name.contains(part) && !name.ends_with("tokens"))
        || ["pass", "pwd", "pw"].iter().any(|whole| {
            name == *whole && name != "pwd"
                || name.ends_with(&format!("_{whole}")) && name.len() > whole.len() + 1
        })
}

/// Whether a value is the secret itself, and not its place, a way to ask for it, or nothing.
fn is_literal(value: &str) -> bool {
    let value = value.trim_matches(['"', '\'']);
    let is_place = ["$", "`", "@", "<(", "/", "./", "~/", "file:", "env:", "op://", "vault:"]
        .iter()
        .any(|start| value.starts_with(start));
    let is_word = ["", "-", "true", "false", "yes", "no", "none", "null", "1", "0"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word));
    let is_blank = value.chars().all(|c| "*x.…<>_-".contains(c));
    !is_place && !is_word && !is_blank
}

/// Finds secrets in one word: `NAME=value`, `--name=value`, `name: value`, an address with a password.
fn in_word(line: &str, word: &Word) -> Vec<Range<usize>> {
    let text = &line[word.range.clone()];
    let mut found = Vec::new();
    if let Some(at) = text.find('=') {
        let (name, value) = (&text[..at], &text[at + 1..]);
        // A query (`?access_token=…`) is part of an address. Its parameters are examined one by one below.
        let name_is_plain =
            name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) && !name.is_empty();
        if name_is_plain && is_secret_name(name) && is_literal(value) {
            found.push(word.range.start + at + 1..word.range.end);
        }
    }
    found.extend(in_address(text).map(|range| word.range.start + range.start..word.range.start + range.end));
    found.extend(in_query(text).map(|range| word.range.start + range.start..word.range.start + range.end));
    found
}

/// Finds the password in `scheme://user:password@host`, and the token in `https://token@host`.
fn in_address(text: &str) -> Option<Range<usize>> {
    let scheme = text.find("://")?;
    let from = scheme + 3;
    let authority = &text[from..];
    let end = authority.find(['/', '?', '#', ' ', '"', '\'']).unwrap_or(authority.len());
    let at = authority[..end].rfind('@')?;
    let userinfo = &authority[..at];
    match userinfo.split_once(':') {
        Some((user, password)) if is_literal(password) => Some(from + user.len() + 1..from + at),
        Some(_) => None,
        // A user name alone is no secret (ssh://git@host), but an HTTP user name this long is a token.
        None => (text[..scheme].ends_with("http") || text[..scheme].ends_with("https"))
            .then_some(from..from + at)
            .filter(|_| userinfo.len() >= 16 && is_literal(userinfo)),
    }
}

/// Finds a secret in an address's query: `?access_token=…&…`.
fn in_query(text: &str) -> Option<Range<usize>> {
    let query = text.find("://").and_then(|scheme| Some(scheme + text[scheme..].find('?')? + 1))?;
    let mut from = query;
    for parameter in text[query..].split(['&', ';']) {
        if let Some((name, value)) = parameter.split_once('=') {
            let value = value.trim_end_matches(['"', '\'']);
            if (is_secret_name(name) || ["sig", "signature", "key"].contains(&name)) && is_literal(value) {
                let start = from + name.len() + 1;
                return Some(start..start + value.len());
            }
        }
        from += parameter.len() + 1;
    }
    None
}

/// A command's name and verb are among this many of its first words.
const FIRST: usize = 16;

/// Finds a secret after its option: `--password value`, and short options of programs that are known for it.
fn after(line: &str, word: &Word, next: Option<&Word>, before: &[Word]) -> Option<Range<usize>> {
    let text = &line[word.range.clone()];
    let value = next.map(|next| (&line[next.range.clone()], next.range.clone()));
    let value = value.filter(|(value, _range)| is_literal(value) && !value.starts_with('-'));
    if text.starts_with("--") && !text.contains('=') && is_secret_name(text) {
        return value.map(|(_value, range)| range);
    }
    let command = command(line, before);
    let attached = |short: &str| {
        let rest = text.strip_prefix(short)?;
        (!rest.is_empty() && is_literal(rest)).then(|| word.range.start + short.len()..word.range.end)
    };
    let separate = |short: &str| value.clone().filter(|_| text == short).map(|(_value, range)| range);
    match command {
        "mysql" | "mysqldump" | "mysqladmin" | "mariadb" | "mariadb-dump" | "mariadb-admin" | "mycli" => {
            attached("-p")
        }
        "sshpass" => attached("-p").or_else(|| separate("-p")),
        "redis-cli" | "redis-benchmark" => separate("-a"),
        "ldapsearch" | "ldapmodify" | "ldapadd" | "ldapwhoami" => separate("-w").or_else(|| attached("-w")),
        "docker" | "podman" | "skopeo" | "buildah" | "helm" | "oc" | "az"
            if before.iter().take(FIRST).any(|word| &line[word.range.clone()] == "login") =>
        {
            separate("-p")
        }
        "curl" | "http" | "https" | "xh" | "smbclient" | "wget" => {
            let short = ["-u", "--user", "-U", "--proxy-user", "-a", "--auth"];
            let mark = if command == "smbclient" { '%' } else { ':' };
            short
                .iter()
                .find_map(|short| separate(short).or_else(|| attached(&format!("{short}="))))
                .and_then(|range| {
                    let (user, password) = line[range.clone()].split_once(mark)?;
                    is_literal(password).then(|| range.start + user.len() + 1..range.end)
                })
        }
        "openssl" => {
            let at = text.strip_prefix("pass:").map(|_password| word.range.start + 5)?;
            (at < word.range.end).then_some(at..word.range.end)
        }
        "7z" | "7za" | "7zz" | "rar" | "unrar" => attached("-p"),
        "zip" | "unzip" => separate("-P"),
        _ => None,
    }
}

/// The name of the command, given its first words.
fn command<'a>(line: &'a str, words: &[Word]) -> &'a str {
    const WRAPPERS: [&str; 7] = ["sudo", "doas", "env", "time", "nohup", "exec", "command"];
    let words = words.iter().take(FIRST).map(|word| &line[word.range.clone()]);
    let name = words
        .map(|word| word.rsplit('/').next().unwrap_or(word))
        .find(|word| !WRAPPERS.contains(word) && !word.contains('=') && !word.starts_with('-'));
    name.unwrap_or_default()
}

/// Finds secrets in `Authorization: Bearer …` and other headers that authenticate the client.
fn in_headers(line: &str) -> Vec<Range<usize>> {
    const HEADERS: [&str; 8] = [
        "authorization:",
        "proxy-authorization:",
        "x-api-key:",
        "private-token:",
        "x-auth-token:",
        "x-vault-token:",
        "cookie:",
        "api-key:",
    ];
    const SCHEMES: [&str; 5] = ["bearer ", "basic ", "token ", "digest ", "apikey "];
    let lower = line.to_ascii_lowercase();
    let mut found = Vec::new();
    for header in HEADERS {
        for (at, _header) in lower.match_indices(header) {
            let mut from = at + header.len();
            from += lower[from..].len() - lower[from..].trim_start().len();
            let scheme = SCHEMES.iter().find(|scheme| lower[from..].starts_with(**scheme));
            from += scheme.map_or(0, |scheme| scheme.len());
            let end = from + line[from..].find(['"', '\'']).unwrap_or(line.len() - from);
            if is_literal(line[from..end].trim()) {
                found.push(from..end);
            }
        }
    }
    for (at, _bearer) in lower.match_indices("bearer ") {
        let from = at + "bearer ".len();
        let end = from + line[from..].find([' ', '"', '\'', '\n']).unwrap_or(line.len() - from);
        let token = &line[from..end];
        if token.len() >= 16 && is_literal(token) && token.chars().any(|c| c.is_ascii_digit()) {
            found.push(from..end);
        }
    }
    found
}

/// The beginnings of keys of well-known services, and the minimum number of characters after them. Source: each
/// service's documentation of its formats, as collected by secret scanners.
const KEYS: [(&str, usize); 27] = [
    ("ghp_", 30),
    ("gho_", 30),
    ("ghu_", 30),
    ("ghs_", 30),
    ("ghr_", 30),
    ("github_pat_", 30),
    ("glpat-", 16),
    ("xoxb-", 16),
    ("xoxp-", 16),
    ("xoxa-", 16),
    ("xapp-", 16),
    ("AKIA", 16),
    ("ASIA", 16),
    ("sk_live_", 16),
    ("rk_live_", 16),
    ("sk-ant-", 16),
    ("sk-proj-", 16),
    ("AIza", 35),
    ("npm_", 36),
    ("hf_", 30),
    ("pypi-AgEI", 20),
    ("dop_v1_", 30),
    ("SG.", 40),
    ("hvs.", 20),
    ("tskey-", 16),
    ("eyJ", 40),
    ("AGE-SECRET-KEY-", 40),
];

/// Finds keys with a known beginning, and private keys.
fn keys(line: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    for (start, least) in KEYS {
        for (at, _start) in line.match_indices(start) {
            if line[..at].ends_with(|c: char| c.is_ascii_alphanumeric()) {
                continue;
            }
            let length = line[at..].find(|c| !is_part(c)).unwrap_or(line.len() - at);
            // A JSON Web Token has three parts; other texts may be any data in base 64.
            let parts = line[at..at + length].matches('.').count();
            if length >= start.len() + least && (start != "eyJ" || parts == 2) {
                found.push(at..at + length);
            }
        }
    }
    if let Some(at) = line.find("-----BEGIN ").filter(|at| line[*at..].contains("PRIVATE KEY")) {
        found.push(at..line.len());
    }
    found
}

#[cfg(test)]
mod tests;
