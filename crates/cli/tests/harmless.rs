// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that untrusted names can't control the terminal or forge a line, whichever verb prints them.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Place, everybody, has};
use palisade_text::is_hidden;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Output, Stdio};

/// A name with every kind of misleading character; the text after the line break would be a line of its own.
const NAME: &str = "n\nforged: x\r\u{1b}]0;forged\u{7}\u{9b}31m\u{202e}\u{2066}\u{200b}\u{feff}\u{ad}\u{e0041}\u{2028}\u{34f}z";
/// The same for names that needn't be UTF-8.
const BYTES: &[u8] = b"r\xff\nforged: x\x1b[2J\x9b\xe2\x80\xae";
/// What the name begins with when it is shown as it should be.
const SHOWN: [&str; 5] = ["n forged", "n\\nforged", "r\\xff\\nforged", "r\u{fffd}\\nforged", "\\nforged"];

/// What a case has to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// The name, as escapes.
    Name,
    /// Something else, or nothing: the name is given to it all the same.
    Other,
}
use Shows::{Name, Other};

/// Every verb with untrusted names: `{n}` is [`NAME`], `{r}` is [`BYTES`], `{h}` the home, `{g}` options that give the
/// guard's verbs files with such names. A verb that isn't here fails the test. The order matters: later lines find what
/// earlier lines make.
const CASES: &[(&str, Shows)] = &[
    ("run --protect-name {n} -- sh -c touch·\"$1\"·2>/dev/null sh {n}", Name),
    ("run -- sh -c mkdir·-p·\"$1\"/.git&&touch·\"$1\"/.git/hooks·2>/dev/null sh made-{n}", Name),
    ("caches list", Other),
    ("caches remove {n} {r}", Other),
    ("why", Name),
    ("why --json", Name),
    ("run -- git init -q git-{n}", Name),
    ("run --trace -- sh -c cat·\"$1\"·2>/dev/null sh {h}/{n}", Name),
    ("run --trace -- sh -c cat·\"$1\"·2>/dev/null sh {h}/{r}", Name),
    ("run --dry-run --ro {h}/{n} -- {n} {r}", Name),
    ("run --dry-run --json --ro {h}/{n} -- true", Name),
    ("run --verbose --ro {h}/{n} -- true", Name),
    ("run --cwd /gone-{n} -- true", Name),
    ("run --ro /gone-{r} -- true", Name),
    ("run --limit {n}=1 -- true", Name),
    ("run --{n} -- true", Name),
    ("run --home={n} -- true", Name),
    ("run --profile {n} -- true", Name),
    ("run -- {h}/{r}", Name),
    ("run -- ./gone-{n}", Name),
    ("open {n}", Name),
    ("open gone-{n}", Name),
    ("agent {n}", Name),
    ("agent list", Other),
    ("agent doctor {n}", Name),
    ("agent setup {n} --yes", Name),
    ("agent learn --yes {n}", Name),
    ("run --secrets hide -- true", Other),
    ("learn --yes -o {n}.toml -- sh -c cat·\"$@\"·2>/dev/null sh {h}/{n} {h}/{r}", Name),
    ("learn --name {n} -- true", Name),
    ("explain {h}/{n}", Name),
    ("explain --json {h}/{n}", Name),
    ("explain {h}/{r}", Name),
    ("explain --command {n}", Name),
    ("explain --host {n}", Name),
    ("explain --env {n}", Name),
    ("explain --syscall {n}", Name),
    ("explain --names --profile {n}", Name),
    ("explain --guarantees --profile {n}", Name),
    ("explain --profile {n} {h}/{n}", Name),
    ("check bad-{n}.toml", Name),
    ("check syntax-{n}.toml", Name),
    ("check --json bad-{n}.toml", Name),
    ("check {h}/.config/palisade/profiles/{n}.toml", Name),
    ("check gone-{r}", Name),
    ("config show --profile {n}", Name),
    ("config show --origin --profile {n}", Name),
    ("config show --json --profile {n}", Name),
    ("config show --origin --profile misled", Name),
    ("config show --json --profile misled", Name),
    ("explain --profile misled {h}/{n}", Name),
    ("explain --names --profile misled", Name),
    ("explain --guarantees --profile misled", Other),
    ("explain --guarantee hidden --profile misled", Other),
    ("profile show misled", Name),
    ("profile export misled", Name),
    ("run --dry-run --profile misled -- true", Name),
    ("config paths", Other),
    ("doctor --verbose", Other),
    ("setup --{n}", Name),
    ("setup --check", Other),
    ("setup --undo --dry-run", Other),
    ("profile list", Name),
    ("profile list --json", Name),
    ("profile show {n}", Name),
    ("profile show gone-{n}", Name),
    ("profile create made-{n}", Name),
    ("profile edit gone-{n}", Name),
    ("profile diff {n}", Name),
    ("profile refresh {n}", Name),
    ("profile export {n}", Name),
    ("profile remove --yes made-{n}", Name),
    ("feature list", Other),
    ("feature show {n}", Name),
    ("feature edit gone-{n}", Name),
    ("feature diff {n}", Name),
    ("feature remove --yes {n}", Name),
    ("guard status {g}", Name),
    ("guard metrics {g}", Name),
    ("guard rules {g}", Name),
    ("guard reload {g}", Name),
    ("guard enforce {g}", Name),
    ("guard permissive {g}", Name),
    ("guard try {g}", Name),
    ("guard keep {g}", Name),
    ("guard revert {g}", Name),
    ("guard watch {g}", Name),
    ("guard timing {g} start", Name),
    ("guard stop {g}", Name),
    ("guard check {g}", Name),
    ("guard check {g} --json", Name),
    ("guard check rules-{n}.rules", Name),
    ("guard lint {g}", Name),
    ("guard lint rules-{n}.rules", Name),
    ("guard explain {g} {h}/{n}", Name),
    ("guard explain {h}/gone-{r}", Name),
    ("guard ftype {h}/{n} {h}/{n}", Name),
    ("guard check-path {g}", Name),
    ("guard check-watch-fs {g}", Name),
    ("guard default restrictive", Other),
    ("guard trust list {g}", Name),
    ("guard trust add {g} {h}/{n}", Other),
    ("guard trust add {g} {h}/gone-{n}", Name),
    ("guard trust delete {g} {h}/gone-{n}", Name),
    ("guard trust update {g} {h}/{n}", Other),
    ("guard trust update {g} {h}/gone-{n}", Name),
    ("guard trust verify {g}", Name),
    ("guard trust check {g} {h}/{n}", Name),
    ("guard trust rebuild {g}", Name),
    ("guard trust sync {g}", Name),
    ("guard trust dump {g}", Name),
    ("scope run {s} --label {n} -- {n}", Name),
    ("scope mark {s} --label {n} 1", Name),
    ("scope list {s}", Name),
    ("scope status {s}", Name),
    ("scope clear {s}", Name),
    ("scope verdict {s} 1 watch", Name),
    ("scope events {s}", Name),
    ("scope profile {s}", Name),
    ("scope depth {s}", Name),
    ("import --from firejail firejail-{n}.profile", Name),
    ("import --from firejail --name imported --json firejail-{n}.profile", Other),
    ("import --from antimony firejail-{n}.profile", Name),
    ("import --from fapolicyd --dry-run --into {h}/{n} fapolicyd-{n}", Name),
    ("store enable {n}", Name),
    ("store disable {n}", Name),
    ("store status {n}", Name),
    ("project status --json {n}", Name),
    ("project status {n}", Name),
    ("project allow {n}", Name),
    ("project allow --yes {n}", Name),
    ("project status {n}", Name),
    ("project revoke {n}", Name),
    ("project allow --yes bad-{n}", Name),
    ("agent install {n}", Name),
    ("agent install --list", Other),
    ("agent install --show --profile {n} claude", Name),
    ("agent install --allow {n} claude", Name),
    ("agent remove {n}", Name),
    ("agent remove claude", Other),
    ("mcp list {n}", Name),
    ("mcp list misled.json", Name),
    ("mcp wrap {n}", Name),
    ("mcp wrap misled.json {n}", Name),
    ("mcp wrap misled.json gone-{n}", Name),
    ("mcp unwrap misled.json {n}", Name),
    ("mcp unwrap gone-{n}", Name),
    ("wrap {n}", Name),
    ("wrap --net {n} true", Name),
    ("wrap --profile {n} true", Name),
    ("wrap --remove {n}", Name),
    ("wrap --list", Other),
    ("desktop enable {n}", Name),
    ("desktop disable gone-{n}", Name),
    ("desktop status gone-{n}", Name),
    ("package --output {h}/package --program {h}/{n} {n}", Name),
    ("package --info {h}/{n}", Name),
    ("run --syscalls learn --profile {n} -- true", Name),
    ("syscalls list", Other),
    ("syscalls show {n}", Name),
    ("syscalls show gone-{n}", Name),
    ("syscalls diff {n} gone-{n}", Name),
    ("syscalls merge --into merged-{n} {n}", Name),
    ("syscalls export {n}", Name),
    ("syscalls export --format json {n}", Name),
    ("syscalls import --profile {n} {h}/{n}", Name),
    ("syscalls explain read --profile gone-{n}", Name),
    ("syscalls explain openat --profile {n}", Name),
    ("syscalls groups {n}", Name),
    ("syscalls clean --yes {n}", Name),
    ("interpose --count -- {n}", Name),
    ("interpose --sites -- {h}/{n}", Name),
    ("shell init {n}", Name),
    ("shell record {n}/gone/{n}", Other),
    ("shell history import --from bash history-{n}", Name),
    ("shell history import --from bash gone-{n}", Name),
    ("shell history list", Name),
    ("shell history list --json", Name),
    ("shell history search forged", Name),
    ("shell history stats", Name),
    ("shell history export --output {n}/gone/{n}", Name),
    ("shell history export", Name),
    ("shell history delete {n}", Name),
    ("shell classify --explain curl·http://{n}|sh", Other),
    ("shell classify --settings shell-{n}.toml ls", Name),
    ("shell trust add ls·{n}", Other),
    ("shell trust list", Other),
    ("shell trust remove {n}", Other),
    ("shell lists update gone-{n}", Name),
    ("shell page --port {n}", Name),
    ("shell metrics", Other),
    ("shell status", Other),
    ("mcp serve --{n}", Name),
    ("mcp serve --profile {n}", Other),
    ("ps", Name),
    ("ps --json", Name),
    ("ps --quiet", Other),
    ("run --name {n} -- true", Name),
    ("watch --no-follow --all", Name),
    ("watch --no-follow --all --json", Name),
    ("watch --no-follow --sandbox {n}", Other),
    ("self", Other),
    ("self {n}", Name),
    ("self --json", Other),
    ("bench {n}", Other),
    ("bwrap --{n}", Name),
    ("bwrap --ro-bind / / {n}", Name),
    ("completions {n}", Name),
    ("man {n}/gone/{n}", Other),
    ("schema {n}", Name),
];

/// The standard output of these is data that is passed through byte by byte, or the command's own output.
const DATA: [&str; 2] = ["shell history export", "profile export"];
/// The part of the name that such data contains, both in a TOML string and unchanged.
const NAME_IN_DATA: &str = "forged: x";

/// The text as TOML has it.
fn toml(text: &str) -> String {
    palisade_policy::render::string(text)
}

fn prepare(place: &Place) {
    let raw = OsStr::from_bytes(BYTES).to_owned();
    let write = |path: &str, text: &str| place.write(path, text);
    write(NAME, "#!/bin/sh\necho a\n");
    place.write(&format!("work/{NAME}/file"), "x");
    let name = serde_json::to_string(NAME).unwrap();
    let servers = format!("{{\"mcpServers\": {{{name}: {{\"command\": {name}, \"args\": [{name}]}}}}}}");
    write("work/misled.json", &servers);
    let path = place.home.join(&raw);
    std::fs::write(&path, "x").unwrap();
    crate::support::give(place, &path);
    let profile = format!(
        "schema = 1\nname = {0}\ndescription = {0}\n[program]\npath = \"/usr/bin/true\"\n[filesystem]\nread = [{1}]\nprotect_names = [{0}]\n\
         [environment]\nset = {{ A = {0} }}\n[network]\nallow = [\"{2}\"]\n",
        toml(NAME),
        toml(&format!("~/{NAME}")),
        "example.com",
    );
    write(&format!(".config/palisade/profiles/{NAME}.toml"), &profile);
    let named = profile.replacen(&toml(NAME), "\"misled\"", 1);
    write(".config/palisade/profiles/misled.toml", &named);
    write(
        &format!(".config/palisade/features/{NAME}.toml"),
        &format!("schema = 1\nname = {0}\ndescription = {0}\n", toml(NAME)),
    );
    write(
        &format!("work/{NAME}/.palisade.toml"),
        &format!("schema = 1\n[filesystem]\nread = [{}]\n", toml(&format!("./{NAME}"))),
    );
    let bad = format!("schema = 1\n{} = 1\n[filesystem]\nread = [{}]\n", toml(NAME), toml("$x"));
    write(&format!("work/bad-{NAME}.toml"), &bad);
    write(&format!("work/bad-{NAME}/.palisade.toml"), &bad);
    write(&format!("work/syntax-{NAME}.toml"), &format!("schema = 1\nx = \"{NAME}\"\n"));
    write(
        &format!("work/firejail-{NAME}.profile"),
        &format!("whitelist {NAME}\nno-such {NAME}\ninclude {NAME}.inc\n"),
    );
    let one_line = NAME.replace('\n', " \\nforged: ");
    write(
        &format!("work/rules-{NAME}.rules"),
        &format!("allow perm=open {one_line} : all\nallow {one_line}\n"),
    );
    write(&format!("work/guard-{NAME}/guard.d/{NAME}.rules"), &format!("allow perm=open {one_line} : all\n"));
    write(&format!("work/fapolicyd-{NAME}/fapolicyd.rules"), "allow perm=any all : all\n");
    write(&format!("work/fapolicyd-{NAME}/fapolicyd.conf"), &format!("permissive = {one_line}\n"));
    // bash writes a line of several as it is: here a time stands before each.
    write(
        &format!("work/history-{NAME}"),
        &format!("#1700000000\necho {}\n#1700000001\nls\n", NAME.replace('\n', "\\nforged")),
    );
    write(
        &format!("work/shell-{NAME}.toml"),
        &format!("schema = 1\n{} = 1\n", toml(&NAME.replace('\n', " "))),
    );
}

/// The words of a case.
fn words(place: &Place, line: &str) -> Vec<OsString> {
    let mut words = Vec::new();
    for word in line.split(' ') {
        let (socket, files) =
            (format!("--socket=/run/{NAME}"), format!("{}/guard-{NAME}", place.work.display()));
        match word {
            "{s}" => words.push(socket.into()),
            "{g}" => words.extend(
                [socket, format!("--config={files}"), format!("--state={files}/state")].map(Into::into),
            ),
            word => {
                let home = place.home.to_str().unwrap();
                let word = word.replace('·', " ").replace("{h}", home).replace("{n}", NAME);
                let bytes = match word.split_once("{r}") {
                    Some((before, behind)) => [before.as_bytes(), BYTES, behind.as_bytes()].concat(),
                    None => word.into_bytes(),
                };
                words.push(OsString::from_vec(bytes));
            }
        }
    }
    words
}

fn output(place: &Place, arguments: &[OsString]) -> Output {
    // Some verbs wait for what happens; none does that without what it is given here.
    let mut command = place.command("timeout");
    command.args(["-k", "1", "60"]).arg(place.binary()).args(arguments);
    command.env("EDITOR", "true").env("SHELL", "/bin/sh").stdin(Stdio::null()).output().unwrap()
}

/// What is wrong with what a verb printed.
fn wrong(what: &str, bytes: &[u8]) -> Option<String> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Some(format!("{what} is no UTF-8")) };
    if let Some(hidden) = text.chars().find(|c| is_hidden(*c) && !matches!(c, '\n' | '\t')) {
        return Some(format!("{what} has {hidden:?}"));
    }
    let forged = text.lines().find(|line| line.trim_start().starts_with("forged"));
    forged.map(|line| format!("{what} has a line of its own: {line:?}"))
}

fn judge(place: &Place, line: &str, shows: Shows) -> Option<String> {
    let Output { stdout, stderr, .. } = output(place, &words(place, line));
    let told = |why: String| {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string().replace("\\n", "\n").replace("\\\\", "\\");
        Some(format!("{line}: {why}\n{}\n{}", text(&stdout), text(&stderr)))
    };
    let data = DATA.iter().any(|verb| line.starts_with(verb));
    let of_stdout = if data { None } else { wrong("standard output", &stdout) };
    if let Some(why) = of_stdout.or_else(|| wrong("standard error", &stderr)) {
        return told(why);
    }
    let out = String::from_utf8_lossy(&stdout);
    if line.contains("--json") {
        // A JSON escape stands for the character, so a parser returns the real name.
        let documents = serde_json::Deserializer::from_str(&out).into_iter::<serde_json::Value>();
        let documents: Result<Vec<_>, _> = documents.collect();
        match documents {
            Err(error) => return told(format!("no JSON: {error}")),
            Ok(documents)
                if shows == Name
                    && !documents.iter().any(|document| {
                        holds(document, "\u{202e}")
                            || holds(document, "\\u202E")
                            || holds(document, "\\u{202e}")
                    }) =>
            {
                return told("the name isn't in the JSON".to_owned());
            }
            Ok(_) => return None,
        }
    }
    let err = String::from_utf8_lossy(&stderr);
    // Others' data isn't changed: the name is in it as it is.
    let shown = SHOWN.iter().any(|name| err.contains(name) || out.contains(name))
        || data && out.contains(NAME_IN_DATA);
    match (shows, shown) {
        (Name, false) => told("the name isn't shown".to_owned()),
        // A case that shows more than it says would hide that it shows less one day.
        (Other, true) => told("the name is shown: the case is one of `Name`".to_owned()),
        _ => None,
    }
}

fn holds(document: &serde_json::Value, text: &str) -> bool {
    use serde_json::Value;
    match document {
        Value::String(string) => string.contains(text),
        Value::Array(all) => all.iter().any(|one| holds(one, text)),
        Value::Object(all) => all.iter().any(|(key, one)| key.contains(text) || holds(one, text)),
        _ => false,
    }
}

#[test]
fn no_verb_prints_a_name_that_misleads() {
    for place in everybody() {
        prepare(&place);
        // Start a process with these names among its arguments.
        let mut running = place.palisade(&["--quiet"], &["sh", "-c", "sleep 600", NAME]);
        running.arg(OsStr::from_bytes(BYTES)).stdin(Stdio::null()).stdout(Stdio::null());
        let mut running = running.spawn().unwrap();
        let listed = || String::from_utf8_lossy(&output(&place, &["ps".into()]).stdout).contains("sleep 600");
        assert!(crate::support::eventually(listed));
        let wrong: Vec<String> = CASES
            .iter()
            .filter(|(line, _)| has("git") || !line.contains("git init"))
            .filter_map(|(line, shows)| judge(&place, line, *shows))
            .collect();
        running.kill().unwrap();
        running.wait().unwrap();
        assert!(wrong.is_empty(), "{} as {}:\n{}", wrong.len(), place.name(), wrong.join("\n\n"));
    }
}

/// The verbs that have no verbs below them, by the program's own help.
fn verbs(place: &Place, above: &[&str], all: &mut BTreeSet<String>) {
    let mut command = place.command(place.binary());
    let help = String::from_utf8(command.args(above).arg("--help").output().unwrap().stdout).unwrap();
    let below = help.split_once("\nCommands:\n").map(|(_, below)| below);
    let below: Vec<&str> = below
        .into_iter()
        .flat_map(|below| below.lines().take_while(|line| !line.is_empty()))
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    if below.is_empty() {
        all.insert(above.join(" "));
    }
    for verb in below {
        verbs(place, &[above, &[verb]].concat(), all);
    }
}

#[test]
fn every_verb_has_a_case() {
    let place = crate::support::ordinary();
    let mut all = BTreeSet::new();
    verbs(&place, &[], &mut all);
    assert!(all.len() > 80, "{all:?}");
    let without: Vec<&String> = all
        .iter()
        .filter(|verb| {
            !CASES.iter().any(|(line, _)| {
                line.strip_prefix(verb.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            })
        })
        .collect();
    assert!(without.is_empty(), "verbs that print, without a case in this file: {without:?}");
}
