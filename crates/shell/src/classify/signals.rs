// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The second tier: weak signs, whose weights are added.

use std::ops::Range;

use super::argument::{Argument, address, host, is_odd_port, is_public};
use super::command::{Command, Inside, Reading};
use super::subject::{Program, Subject};
use super::verdict::{Level, Origin, Reason};

/// A sign: its weight, its place, and its description.
struct Sign {
    weight: u32,
    span: Range<usize>,
    words: &'static str,
}

/// The scores from which on a line causes a warning and a question.
fn thresholds(origin: Origin) -> (u32, u32) {
    match origin {
        Origin::Typed => (8, 14),
        Origin::Pasted => (7, 11),
        Origin::Machine => (6, 9),
    }
}

/// The sum of the signs in a line, and the reason if the sum is too high. `heat` is the score of earlier lines.
pub(super) fn weigh(
    reading: &Reading,
    subjects: &[Subject<'_>],
    origin: Origin,
    heat: u32,
) -> (u32, Option<Reason>) {
    let mut signs = Vec::new();
    for subject in subjects {
        of_command(subject, reading, &mut signs);
        for word in &subject.command.words {
            of_word(&word.value, word.span.clone(), &mut signs);
        }
    }
    // Each kind of sign counts once, where it is strongest.
    signs.sort_by(|one, other| (one.words, other.weight).cmp(&(other.words, one.weight)));
    signs.dedup_by(|one, other| one.words == other.words);
    signs.sort_by_key(|sign| std::cmp::Reverse(sign.weight));
    let score: u32 = signs.iter().map(|sign| sign.weight).sum();
    if signs.is_empty() {
        return (0, None);
    }
    let (warn, confirm) = thresholds(origin);
    // Earlier lines alone never stop a line that has no signs of its own.
    let total = score + (heat / 3).min(score);
    let level = if total >= confirm {
        Level::Confirm
    } else if total >= warn {
        Level::Warn
    } else {
        return (score, None);
    };
    let words: Vec<&str> = signs.iter().take(4).map(|sign| sign.words).collect();
    let span = signs.first().map_or(0..0, |sign| sign.span.clone());
    let reason = Reason {
        rule: "signals/sum".to_owned(),
        level,
        span,
        words: format!("It has several signs of an attack: {}", words.join(", ")),
        reference: "T1027".to_owned(),
    };
    (score, Some(reason))
}

fn of_command(subject: &Subject<'_>, reading: &Reading, signs: &mut Vec<Sign>) {
    let command = subject.command;
    let span = command.span.clone();
    let mut add = |weight, words| signs.push(Sign { weight, span: span.clone(), words });
    let name = command.words.first();
    let fetched = |other: &Command| Program::Network.is(other);
    if name.is_some_and(|name| name.broken) {
        add(6, "a command's name spelled in pieces");
    }
    if command.arguments().iter().any(|word| word.broken && word.value.len() > 3) {
        add(1, "arguments spelled in pieces");
    }
    if name.is_some_and(|name| Argument::Temporary.is(&name.value, name.dynamic)) {
        add(3, "runs a file in a directory to which everybody can write");
    }
    if name.is_some_and(|name| Argument::HiddenTemporary.is(&name.value, name.dynamic)) {
        add(3, "runs a hidden file");
    }
    if Program::Decoder.is(command) {
        add(2, "decodes something");
        if reading.is_fed(subject.index, &fetched) {
            add(3, "decodes what it gets from the network");
        }
    }
    if command.way.decoded {
        add(5, "runs what it decodes");
    }
    if name.is_some_and(|name| name.dynamic)
        && reading.holds(subject.index, &|_, kind| kind == Inside::Substitution)
    {
        add(4, "runs whatever another command writes");
    }
    if Program::Network.is(command) && !matches!(subject.name, "cat" | "exec" | "read") {
        let quiet = command
            .arguments()
            .iter()
            .any(|word| matches!(word.value.as_str(), "-k" | "--insecure" | "--no-check-certificate"));
        if quiet {
            add(3, "doesn't check the server's certificate");
        }
        if reading.is_fed(subject.index, &|other| {
            matches!(
                other.name(),
                "tar" | "zip" | "gzip" | "base64" | "xxd" | "openssl" | "gpg" | "env" | "printenv"
            )
        }) {
            add(5, "sends what it packs");
        }
        if command.arguments().iter().any(|word| word.value.parse::<u16>().is_ok_and(is_odd_port)) {
            add(3, "a port that attackers often use");
        }
    }
    let discards = command.redirects.iter().any(|redirect| redirect.target.value == "/dev/null");
    if discards && command.background {
        add(2, "runs in the background without output");
    }
    if subject.writes.iter().any(|place| Argument::HiddenTemporary.is(&place.path, place.dynamic)) {
        add(3, "writes a hidden file where everybody can write");
    }
}

fn of_word(value: &str, span: Range<usize>, signs: &mut Vec<Sign>) {
    let mut add = |weight, words| signs.push(Sign { weight, span: span.clone(), words });
    if value.contains("://") {
        if address(value).is_some_and(is_public) {
            add(3, "a server without a name");
        }
        let host = host(value);
        let rest = value.split_once("://").map_or("", |(_, rest)| rest);
        let port = rest.split(['/', '?']).next().and_then(|authority| authority.rsplit_once(':'));
        if port.and_then(|(_, port)| port.parse().ok()).is_some_and(is_odd_port) {
            add(3, "a port that attackers often use");
        }
        if SHORT_LIVED.iter().any(|suffix| host.ends_with(suffix)) {
            add(4, "a server under a temporary public name");
        }
        if [".tk", ".ml", ".ga", ".cf", ".gq", ".top", ".xyz", ".su", ".zip", ".mov", ".click", ".onion"]
            .iter()
            .any(|suffix| host.ends_with(suffix))
        {
            add(2, "a host name that is cheap to get");
        }
        if value.starts_with("http://")
            && [".sh", ".py", ".pl", ".elf", ".bin", ".so"].iter().any(|end| value.ends_with(end))
        {
            add(2, "a program over unencrypted HTTP");
        }
    }
    if value.len() >= 64 && is_packed(value) {
        add(3, "a long text that can't be read");
    }
    if value.matches("\\x").count() >= 8 {
        add(4, "text written as numbers");
    }
}

const SHORT_LIVED: &[&str] = &[
    "ngrok.io",
    "ngrok-free.app",
    "ngrok.app",
    "trycloudflare.com",
    "serveo.net",
    "localtunnel.me",
    "loca.lt",
    "webhook.site",
    "requestbin.com",
    "requestbin.net",
    "pipedream.net",
    "interact.sh",
    "oast.fun",
    "oast.pro",
    "oast.live",
    "oast.site",
    "oast.online",
    "oast.me",
    "burpcollaborator.net",
    "oastify.com",
    "transfer.sh",
    "file.io",
    "0x0.st",
    "termbin.com",
    "pastebin.com",
    "paste.ee",
    "hastebin.com",
    "ix.io",
    "sprunge.us",
    "anonfiles.com",
    "gofile.io",
    "catbox.moe",
    "bashupload.com",
    "dpaste.com",
    "ghostbin.com",
    "rentry.co",
    "temp.sh",
    "beeceptor.com",
    "requestcatcher.com",
    "canarytokens.com",
    "dnslog.cn",
    "ceye.io",
    "duckdns.org",
    "no-ip.org",
    "ddns.net",
    "hopto.org",
    "bore.pub",
    "pinggy.io",
    "localhost.run",
];

/// Whether a text looks packed: many different characters, and none of them separates words.
fn is_packed(value: &str) -> bool {
    let body = value.trim_end_matches('=');
    if body.contains('/') && body.matches('/').count() > body.len() / 16 || body.contains("://") {
        return false;
    }
    if !body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/_".contains(&byte)) {
        return false;
    }
    // A hexadecimal text of a usual hash length is a hash.
    if body.bytes().all(|byte| byte.is_ascii_hexdigit()) && matches!(body.len(), 64 | 96 | 128) {
        return false;
    }
    entropy(body.as_bytes()) > 4.0
}

/// The entropy in bits per byte.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes.iter().take(4096) {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let total = f64::from(counts.iter().sum::<u32>());
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / total)
        .map(|share| -share * share.log2())
        .sum()
}
