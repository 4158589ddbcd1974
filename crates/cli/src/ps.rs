// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade ps`: lists the sandboxes that run.

use crate::verb::{self, Failure, YES};
use crate::{output, situation};
use palisade_host::places;
use palisade_protocol::date;
use palisade_sandbox::error::quoted;
use palisade_sandbox::registry::RegistryError;
use palisade_sandbox::registry::directory;
use palisade_sandbox::registry::list::{self, Listed, Sandbox, State};
use palisade_sandbox::registry::process::Processes;
use palisade_text::harmless;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Lists the sandboxes that run: yours, as root everybody's.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code: 0, also when none runs; 2 error.

PROCS: 3+ are 3 at least, where nothing but Landlock holds a command's processes together; ? where
nobody here can tell. A number of the first column fits `palisade watch --sandbox`.

Examples:
  palisade ps
  palisade ps --json
  palisade watch --all --sandbox \"$(palisade ps --quiet | tail -n 1)\"")]
pub(crate) struct Options {
    /// Print JSON
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print numbers only
    #[arg(long, short)]
    quiet: bool,
}

/// The JSON answer.
#[derive(Serialize)]
struct Output<'l> {
    sandboxes: Vec<Entry<'l>>,
}

#[derive(Serialize)]
struct Entry<'l> {
    id: &'l str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'l str>,
    user: u32,
    state: &'static str,
    tier: &'static str,
    network: &'static str,
    /// `None`: only the rules for every command hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    /// The policy files that apply, without the built-in layer.
    policies: Vec<String>,
    /// How many further policy files there are.
    #[serde(skip_serializing_if = "is_zero")]
    more_policies: u32,
    command: Vec<String>,
    /// The command has more words, or a longer last one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more_words: bool,
    /// `None`: this process can't find out.
    processes: Option<usize>,
    /// There may be more processes than the number says.
    at_least: bool,
    pids: Pids,
    /// RFC 3339, UTC.
    started: String,
    age_seconds: u64,
}

#[derive(Serialize)]
struct Pids {
    launcher: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    init: Option<i32>,
    command: i32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Lists the sandboxes. Returns 0, or 2 for an error.
pub(crate) fn run(options: &Options) -> u8 {
    verb::finish(options.json, ps(options))
}

fn ps(options: &Options) -> Result<u8, Failure> {
    let places = situation::facts()?.places;
    let uid = rustix::process::geteuid().as_raw();
    let mut directories: Vec<(PathBuf, u32)> = places.runtimes().map(|path| (path.to_owned(), uid)).collect();
    if uid == 0 {
        let others = list::of_all_users();
        directories.extend(others.into_iter().filter(|(_path, user)| *user != 0));
    }
    let mut listed = list::list(directories.iter().map(|(path, user)| (path.as_path(), *user)));
    let failure = complaints(&places, &mut listed);
    if !options.json {
        let text = if options.quiet { numbers(&listed) } else { table(&listed.sandboxes, uid == 0, width()) };
        verb::print(&text)?;
    } else if failure.is_none() {
        verb::print_json(&Output { sandboxes: listed.sandboxes.iter().map(entry).collect() })?;
    }
    failure.map_or(Ok(YES), |error| Err(error.into()))
}

/// Reports what keeps sandboxes from being seen. Returns an error if there is no answer: launches from here can't be
/// listed anywhere, or the list can't be read.
fn complaints(places: &places::Places, listed: &mut Listed) -> Option<RegistryError> {
    let mut failure = None;
    if let Err(error) = directory::check(&places.runtime) {
        if error.is_told() {
            failure = Some(error);
        } else {
            let hint = error.hint().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
            output::note(&format_args!("launches from here aren't listed: {error}{hint}"));
        }
    }
    for error in listed.errors.drain(..) {
        let own = places.runtimes().any(|own| error.directory() == Some(own));
        match error {
            RegistryError::File { .. } if own => failure = failure.or(Some(error)),
            // Launchers use another directory instead.
            _ if !error.is_told()
                || failure.as_ref().is_some_and(|failure| failure.directory() == error.directory()) => {}
            _ => output::note(&error),
        }
    }
    if listed.newer > 0 {
        output::note(&format_args!("{} sandboxes of a newer palisade aren't shown", listed.newer));
    }
    failure
}

fn numbers(listed: &Listed) -> String {
    listed.sandboxes.iter().map(|sandbox| format!("{}\n", harmless(&sandbox.id))).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn entry(sandbox: &Sandbox) -> Entry<'_> {
    let (processes, at_least) = match sandbox.processes {
        Processes::All(count) => (Some(count), false),
        Processes::AtLeast(count) => (Some(count), true),
        Processes::Unknown => (None, false),
    };
    let lossy = |parts: &[Vec<u8>]| parts.iter().map(|part| text(part)).collect();
    Entry {
        id: &sandbox.id,
        name: sandbox.name.as_deref(),
        user: sandbox.user,
        state: sandbox.state.word(),
        tier: sandbox.tier.word(),
        network: sandbox.network.key(),
        profile: sandbox.profile.as_deref().map(text),
        policies: lossy(&sandbox.policies),
        more_policies: sandbox.more_policies,
        command: lossy(&sandbox.words),
        more_words: sandbox.more_words,
        processes,
        at_least,
        pids: Pids { launcher: sandbox.launcher, init: sandbox.init, command: sandbox.command },
        started: moment(sandbox.started),
        age_seconds: sandbox.age.as_secs(),
    }
}

fn moment(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    format!("{}T{}Z", date::day(seconds), date::time(seconds))
}

/// A line for each sandbox. Root's list shows the users. Commands are cut to the width.
fn table(sandboxes: &[Sandbox], users: bool, width: Option<usize>) -> String {
    let mut names = users.then(UserNames::default);
    let mut rows: Vec<Vec<String>> = vec![heading(users)];
    for sandbox in sandboxes {
        let shown = |bytes: &[u8]| harmless(&text(bytes));
        let absent = || "-".to_owned();
        let mut row = vec![sandbox.id.clone(), sandbox.name.clone().unwrap_or_else(absent)];
        row.extend(names.as_mut().map(|names| names.of(sandbox.user)));
        row.extend([
            sandbox.profile.as_deref().map_or_else(absent, shown),
            sandbox.tier.word().to_owned(),
            sandbox.network.key().to_owned(),
            match sandbox.processes {
                Processes::All(count) => count.to_string(),
                Processes::AtLeast(count) => format!("{count}+"),
                Processes::Unknown => "?".to_owned(),
            },
            match sandbox.state {
                State::Running => ago(sandbox.age),
                other => format!("{}, {}", ago(sandbox.age), other.word()),
            },
            command(sandbox),
        ]);
        rows.push(row.iter().map(|cell| harmless(cell)).collect());
    }
    let columns = rows[0].len();
    let last = columns - 1;
    let widest = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..last).map(widest).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        let room = width.map(|width| width.saturating_sub(line.chars().count()).max(10));
        text.push_str(&line);
        text.push_str(&cut(&row[last], room));
        text.push('\n');
    }
    text
}

fn heading(users: bool) -> Vec<String> {
    let user = users.then_some("USER");
    let columns = ["ID", "NAME"].into_iter().chain(user);
    let columns = columns.chain(["PROFILE", "TIER", "NET", "PROCS", "STARTED", "COMMAND"]);
    columns.map(str::to_owned).collect()
}

/// The command, quoted for a shell.
fn command(sandbox: &Sandbox) -> String {
    let mut words: Vec<String> = sandbox.words.iter().map(|word| quoted(&text(word))).collect();
    if sandbox.more_words {
        words.push("…".to_owned());
    }
    words.join(" ")
}

/// As much of a line as there is room for.
fn cut(line: &str, room: Option<usize>) -> String {
    match room {
        Some(room) if line.chars().count() > room => {
            line.chars().take(room.saturating_sub(1)).chain(std::iter::once('…')).collect()
        }
        _ => line.to_owned(),
    }
}

/// How wide the terminal is, if there is one.
fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// The age, in the largest unit of which it has at least one.
pub(crate) fn ago(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds}s ago"),
        60..3600 => format!("{}m ago", seconds / 60),
        3600..86_400 => format!("{}h ago", seconds / 3600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

/// The names of users. The file is read once.
#[derive(Default)]
struct UserNames(Option<BTreeMap<u32, String>>);

impl UserNames {
    fn of(&mut self, uid: u32) -> String {
        let names = self.0.get_or_insert_with(|| {
            let passwords = std::fs::read_to_string(Path::new("/etc/passwd")).unwrap_or_default();
            let name = |line: &str| {
                let mut fields = line.split(':');
                let name = fields.next()?.to_owned();
                Some((fields.nth(1)?.parse::<u32>().ok()?, name))
            };
            // If a number has several names, the first one counts.
            passwords.lines().rev().filter_map(name).collect()
        });
        names.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::NetworkMode;
    use palisade_sandbox::registry::Tier;

    fn sandbox() -> Sandbox {
        Sandbox {
            id: "4711-0a1b2c".to_owned(),
            name: Some("web".to_owned()),
            user: 0,
            state: State::Running,
            tier: Tier::Full,
            network: NetworkMode::Filtered,
            profile: None,
            policies: vec![b"/etc/palisade/config.toml".to_vec()],
            more_policies: 0,
            words: vec![b"sh".to_vec(), b"-c".to_vec(), b"echo \x1b[2J\n".to_vec()],
            more_words: false,
            launcher: 4711,
            init: Some(4713),
            command: 4714,
            processes: Processes::All(2),
            started: UNIX_EPOCH + Duration::from_secs(951_782_400),
            age: Duration::from_secs(3601),
        }
    }

    #[test]
    fn a_table_is_aligned_and_harmless() {
        let other = Sandbox {
            id: "12-000001".to_owned(),
            name: None,
            profile: Some(b"chromium\x1b".to_vec()),
            state: State::Unattended,
            tier: Tier::Landlock,
            processes: Processes::AtLeast(3),
            age: Duration::from_secs(59),
            ..sandbox()
        };
        let text = table(&[sandbox(), other.clone()], false, None);
        let wanted = "\
ID           NAME  PROFILE         TIER      NET       PROCS  STARTED              COMMAND
4711-0a1b2c  web   -               full      filtered  2      1h ago               sh -c 'echo \\u{1b}[2J\\n'
12-000001    -     chromium\\u{1b}  landlock  filtered  3+     59s ago, unattended  sh -c 'echo \\u{1b}[2J\\n'
";
        assert_eq!(text, wanted);
        let text = table(&[other], true, Some(70));
        assert!(text.starts_with("ID         NAME  USER  PROFILE"), "{text}");
        assert!(text.lines().nth(1).unwrap().contains("  root  "), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(text.trim_end().ends_with('…'), "{text}");
        assert_eq!(table(&[], false, None).lines().count(), 1);
    }

    #[test]
    fn json_says_what_is_known() {
        let json = |sandbox: &Sandbox| serde_json::to_value(entry(sandbox)).unwrap();
        let whole = json(&sandbox());
        assert_eq!(whole["started"], "2000-02-29T00:00:00Z");
        assert_eq!((&whole["processes"], &whole["at_least"]), (&2.into(), &false.into()));
        assert_eq!(whole["pids"], serde_json::json!({"launcher": 4711, "init": 4713, "command": 4714}));
        assert_eq!(whole["command"][2], "echo \x1b[2J\n");
        assert!(whole.get("profile").is_none() && whole.get("more_words").is_none());
        let less = json(&Sandbox { processes: Processes::Unknown, more_words: true, ..sandbox() });
        assert!(less["processes"].is_null() && less["more_words"] == true);
    }

    #[test]
    fn ages_are_short() {
        for (seconds, wanted) in
            [(0, "0s ago"), (60, "1m ago"), (3599, "59m ago"), (3600, "1h ago"), (172_800, "2d ago")]
        {
            assert_eq!(ago(Duration::from_secs(seconds)), wanted);
        }
    }
}
