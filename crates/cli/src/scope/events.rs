// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade scope events`: what happens in scopes.

use super::Answer;
use crate::output;
use crate::palisaded::{self, DaemonError, Listening};
use palisade_protocol::scope::{Happened, Request, Response, Verdict};
use palisade_text::harmless;
use std::path::Path;

/// Which events.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Go on with those that happen
    #[arg(long, short)]
    follow: bool,
    /// Only those that happen from now on; with --follow
    #[arg(long, requires = "follow")]
    new: bool,
    /// Only of this scope
    #[arg(long, value_name = "SCOPE")]
    scope: Option<u32>,
    /// Print one JSON object a line
    #[arg(long)]
    pub(super) json: bool,
}

/// Shows events until it is interrupted or nobody reads any more (yes), or palisaded ends (no).
pub(super) fn events(socket: &Path, options: &Options) -> Answer {
    let mut connection = palisaded::begin(socket)?;
    let request =
        Request::Follow { scope: options.scope, past: !options.new, end: !options.follow, refused: false };
    connection.send(&request).map_err(DaemonError::Talk)?;
    if options.follow && !options.json {
        output::note(&"waiting for what happens in scopes");
    }
    let gone = "palisaded has ended; what is marked stays so where it is pinned";
    let how = Listening { json: options.json, ends: !options.follow, gone };
    let news = |answer| match answer {
        Response::Happened(happened) => Ok(Some(*happened)),
        Response::Done { .. } => Ok(None),
        Response::Refused(refusal) => Err(DaemonError::Refused(refusal)),
        _ => Err(DaemonError::Strange),
    };
    palisaded::listen(&mut connection, &how, news, words)
}

fn words(happened: &Happened) -> String {
    let Happened { what, scope, verdict, why, pid, uid, path, .. } = happened;
    let verdict = match (what.as_str(), verdict) {
        ("killed", _) | (_, Verdict::Kill) => "killed",
        (_, Verdict::Refuse) => "refused",
        (_, Verdict::Warn) => "warned",
        (_, Verdict::Watch) => "seen",
    };
    let command = match &happened.arguments {
        Some(arguments) if !arguments.is_empty() => {
            let cut = if happened.arguments_cut { " …" } else { "" };
            format!("{path} [{}{cut}]", arguments.join(" "))
        }
        _ => path.clone(),
    };
    let parents: Vec<String> =
        happened.parents.iter().take(4).map(|parent| format!("{} ({})", parent.comm, parent.pid)).collect();
    let parents = parents.join(" < ");
    let what = match (what.as_str(), &happened.call) {
        ("call", Some((call, _))) => format!("calls {call}: {} ({pid}, user {uid})", happened.comm),
        ("ended", _) => "has ended".to_owned(),
        ("began", _) => format!("begins: {command} ({pid}, user {uid})"),
        _ => format!("{verdict}: {command} ({pid}, user {uid}): {why}: below {parents}"),
    };
    harmless(&format!("{} scope {scope} {what}", palisaded::clock(happened.time)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::scope::Parent;

    #[test]
    fn one_line_each() {
        let happened = Happened {
            time: 3_723_000_000_000,
            what: "exec".into(),
            scope: 3,
            verdict: Verdict::Kill,
            why: "the name is denied".into(),
            pid: 9,
            uid: 1000,
            path: "/bin/nc".into(),
            arguments: Some(vec!["nc".into(), "-l\u{1b}".into()]),
            arguments_cut: false,
            parents: vec![Parent { pid: 8, comm: "sh".into() }, Parent { pid: 7, comm: "node".into() }],
            ..Happened::default()
        };
        assert_eq!(
            words(&happened),
            "01:02:03Z scope 3 killed: /bin/nc [nc -l\\u{1b}] (9, user 1000): the name is denied: below sh (8) < node (7)"
        );
        let call = Happened { what: "call".into(), call: Some(("socket(AF_ALG)".into(), 38)), ..happened };
        assert_eq!(words(&call), "01:02:03Z scope 3 calls socket(AF_ALG):  (9, user 1000)");
    }
}
