// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests which hosts a command may reach: how options and files state it, and how it is explained.
//! The effect in the kernel is tested elsewhere.

use crate::support::{self, Place, Run, job, ordinary};

const CONFIG: &str = ".config/palisade/config.toml";

fn palisade(place: &Place, words: &[&str]) -> Run {
    job::finish(place.command(place.binary()).args(words))
}

/// A place with this text in the user's configuration.
fn saying(body: &str) -> Place {
    let place = ordinary();
    place.write(CONFIG, format!("schema = 1\n{body}"));
    place
}

fn json(place: &Place, words: &[&str]) -> (i32, serde_json::Value) {
    let run = palisade(place, words);
    let value = serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    (run.code, value)
}

#[test]
fn a_host_is_refused_and_the_command_that_permits_it_is_said() {
    let place = ordinary();
    let no = palisade(&place, &["explain", "example.com"]);
    assert_eq!(no.code, 1, "{no:?}");
    assert_eq!(
        no.out,
        "example.com: no: the sandbox's network has only its own loopback interface (built in)\n  \
         to permit  palisade run --allow example.com -- COMMAND…\n"
    );
    // The proposed command works.
    let yes = palisade(&place, &["explain", "--allow", "example.com", "example.com"]);
    assert_eq!(yes.code, 0, "{yes:?}");
    assert!(yes.out.contains("example.com: yes: allow = \"example.com\" (command line)"), "{yes:?}");
    assert!(yes.out.contains("must resolve to an address of the public internet"), "{yes:?}");
    for (words, code, expected) in [
        (&["https://example.com/x"][..], 1, "--allow example.com:443"),
        (&["--net", "host", "10.0.0.1"], 0, "uses the host's network"),
        (&["--allow", "*", "10.0.0.1:22"], 1, "isn't an address of the public internet"),
        (&["--allow", "10.0.0.0/8:22", "10.0.0.1:22"], 0, "10.0.0.0/8:22"),
        (&["--allow", "10.0.0.0/8:22", "10.0.0.1:23"], 1, "to permit  palisade run --allow 10.0.0.1:23"),
        (&["--net-default", "ask", "example.com"], 1, "example.com: ask: "),
        (
            &["--net-default", "allow", "--deny-host", "*.example.com", "a.example.com"],
            1,
            "deny = \"*.example.com\"",
        ),
        (&["--reach", "5432", "localhost:5432"], 0, "reach = 5432 (command line)"),
        (&["127.0.0.1:5432"], 1, "to permit  palisade run --reach 5432"),
        (&["[2001:db8::1]:443"], 1, "--allow '[2001:db8::1]:443'"),
        (&["--host", "build"], 1, "--allow build"),
    ] {
        let run = palisade(&place, &[&["explain"], words].concat());
        assert_eq!(run.code, code, "{words:?} {run:?}");
        assert!(run.out.contains(expected), "{words:?} {run:?}");
    }
    let wrong = palisade(&place, &["explain", "--host", "a b"]);
    wrong.refused(2, &["\"a b\" is no host"]).with_hint();
}

#[test]
fn a_file_a_program_and_a_host_are_told_apart() {
    let place = ordinary();
    place.write("work/notes.md", "text");
    let kind = |words: &[&str]| json(&place, &[&["explain", "--json"], words].concat()).1["kind"].clone();
    assert_eq!(kind(&["notes.md"]), "path", "a file here");
    assert_eq!(kind(&["--host", "notes.md"]), "host");
    assert_eq!(kind(&["other.md"]), "host");
    assert_eq!(kind(&["--path", "other.md"]), "path");
    assert_eq!(kind(&["sh"]), "command");
    assert_eq!(kind(&["--command", "example.com"]), "command");
    assert_eq!(kind(&["./example.com"]), "path");
}

#[test]
fn rules_are_explained_by_file_and_line() {
    let place = saying(
        "[network]\ndefault = \"ask\"\nallow = [\n  { host = \"*.example.com:443\", reason = \"our own\" },\n]\ndeny = [\"old.example.com\"]\n",
    );
    let (code, answer) = json(&place, &["explain", "--json", "a.example.com:443"]);
    assert_eq!(code, 0, "{answer}");
    assert_eq!(
        (&answer["kind"], &answer["verdict"], &answer["port"], &answer["mode"]["value"]),
        (&"host".into(), &"allow".into(), &443.into(), &"filtered".into())
    );
    assert_eq!(answer["rule"]["target"], "*.example.com:443");
    assert_eq!((&answer["rule"]["line"], &answer["rule"]["reason"]), (&5.into(), &"our own".into()));
    assert!(answer["rule"]["file"].as_str().unwrap().ends_with(CONFIG));
    assert_eq!(answer["default"]["value"], "ask");
    let (code, answer) = json(&place, &["explain", "--json", "old.example.com"]);
    assert_eq!((code, &answer["verdict"], &answer["rule"]["line"]), (1, &"deny".into(), &7.into()));
    assert_eq!(answer["permit"], "palisade run --allow old.example.com -- COMMAND…");
    let (_code, answer) = json(&place, &["explain", "--json", "example.org"]);
    assert_eq!(answer["verdict"], "ask");
}

#[test]
fn bad_values_are_refused_alike_in_files_and_options() {
    for (option, value, key, words) in [
        (
            "--allow",
            "https://example.com",
            "allow = [\"https://example.com\"]",
            "a rule names a host: `example.com`",
        ),
        ("--deny-host", "a*.com", "deny = [\"a*.com\"]", "`*` must stand alone or at the start"),
        ("--allow", "example.com:0", "allow = [\"example.com:0\"]", "a port is a number from 1 to 65535"),
        ("--allow", "10.0.0.0/33", "allow = [\"10.0.0.0/33\"]", "no range of addresses"),
        ("--publish", "80/tcp", "publish = [\"80/tcp\"]", "[ADDRESS:][HOSTPORT:]PORT"),
        ("--reach", "0", "reach = [0]", "a number from 1 to 65535"),
        ("--proxy", "https://p:1", "proxy = \"https://p:1\"", "begins with `http://`"),
        ("--proxy", "http://u:s3cret@p", "proxy = \"http://u:s3cret@p\"", "has a port"),
        ("--dns", "dns.google", "dns = [\"dns.google\"]", "no address of a name server"),
    ] {
        let place = ordinary();
        let run = place.run(&[option, value], &["true"]);
        run.refused(125, &[words, option]).with_hint();
        assert!(!run.err.contains("s3cret"), "{run:?}");
        let explained = palisade(&place, &["explain", option, value, "example.com"]);
        explained.refused(2, &[words, option]).with_hint();
        let file = place.write("policy.toml", format!("schema = 1\n[network]\n{key}\n"));
        let checked = palisade(&place, &["check", &file.to_string_lossy()]);
        assert_eq!(checked.code, 1, "{checked:?}");
        assert!(checked.err.contains(words) && checked.err.contains('^'), "{checked:?}");
        assert!(!checked.err.contains("s3cret"), "{checked:?}");
    }
    for (option, value) in [("--net", "filterd"), ("--net-default", "maybe")] {
        let place = ordinary();
        let run = place.run(&[option, value], &["true"]);
        assert_eq!(run.code, 125, "{run:?}");
        assert!(run.err.contains("possible values"), "{run:?}");
    }
}

#[test]
fn what_has_no_effect_is_a_note() {
    let place = ordinary();
    let run = place.run(&["--net", "host", "--deny-host", "example.com"], &["true"]);
    assert_eq!(run.code, 0, "{run:?}");
    let note = "note: network.deny (command line) has no effect: network.mode is \"host\" (command line)";
    assert!(run.err.contains(note), "{run:?}");
    let again = place.run(&["--net", "host", "--deny-host", "example.com"], &["true"]);
    assert!(again.err.contains(note), "also by a kept plan: {again:?}");
    let quiet = place.run(&["--quiet", "--net", "host", "--deny-host", "example.com"], &["true"]);
    assert_eq!(quiet.err, "", "{quiet:?}");

    let file = place.write("policy.toml", "schema = 1\n[network]\nmode = \"host\"\nallow = [\"a.org\"]\n");
    let checked = palisade(&place, &["check", &file.to_string_lossy()]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(checked.err.contains("policy.toml:4) has no effect"), "{checked:?}");
    let (code, answer) = json(&place, &["check", "--json", &file.to_string_lossy()]);
    assert_eq!((code, answer["notes"].as_array().map(Vec::len)), (0, Some(1)), "{answer}");

    // Removing a grant deliberately produces no message.
    let place = saying("[network]\nallow = [\"a.org\"]\n");
    let run = place.run(&["--net", "none"], &["true"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
}

#[test]
fn an_option_means_a_filtered_network_over_what_files_say() {
    let shows = |body: &str, options: &[&str]| {
        let place = saying(body);
        let (_code, answer) = json(&place, &[&["explain", "--json"], options, &["example.com:443"]].concat());
        (answer["mode"]["value"].as_str().unwrap().to_owned(), answer["allowed"].as_bool().unwrap())
    };
    let (none, host) = ("[network]\nmode = \"none\"\n", "[network]\nmode = \"host\"\n");
    let filtered = |allowed| ("filtered".to_owned(), allowed);
    for body in ["", none, host] {
        assert_eq!(shows(body, &["--allow", "example.com"]), filtered(true));
        assert_eq!(shows(body, &["--deny-host", "example.org"]), filtered(false));
        assert_eq!(shows(body, &["--net-default", "allow"]), filtered(true));
        assert_eq!(shows(body, &["--publish", "8080"]), filtered(false));
        assert_eq!(shows(body, &["--reach", "8080"]), filtered(false));
        assert_eq!(shows(body, &["--net", "none", "--allow", "example.com"]), ("none".to_owned(), false));
        assert_eq!(shows(body, &["--net", "host", "--allow", "example.org"]), ("host".to_owned(), true));
    }
    // The proxy setting doesn't change whether a connection is allowed.
    assert_eq!(shows(none, &["--proxy", "http://p:1", "--dns", "9.9.9.9"]), ("none".to_owned(), false));
    assert_eq!(shows(host, &["--proxy", "direct"]), ("host".to_owned(), true));
}

#[test]
fn features_name_the_hosts_of_registries() {
    let place = ordinary();
    place.write(
        ".config/palisade/profiles/npm.toml",
        "schema = 1\nname = \"npm\"\nfeatures = [\"registry-npm\"]\n",
    );
    let yes = palisade(&place, &["explain", "--profile", "npm", "registry.npmjs.org:443"]);
    assert_eq!(yes.code, 0, "{yes:?}");
    assert!(yes.out.contains("reason     packages and what is known of them"), "{yes:?}");
    assert_eq!(palisade(&place, &["explain", "--profile", "npm", "example.com"]).code, 1);
    let shown = palisade(&place, &["profile", "show", "--expanded", "npm"]);
    assert!(shown.out.contains("host = \"registry.npmjs.org:443\""), "{shown:?}");
}

#[test]
fn the_merged_policy_shows_rules_with_origins_and_no_password() {
    let place = saying(
        "[network]\nallow = [\"a.org\"]\npublish = [\"127.0.0.1:8080:80\"]\nreach = [\"5432\"]\nproxy = \"http://ann:s3cret@p:3128\"\ndns = [\"9.9.9.9:53\"]\n",
    );
    let run = palisade(&place, &["config", "show", "--origin"]);
    assert_eq!(run.code, 0, "{run:?}");
    for line in [
        "    \"a.org\",  # ",
        "    \"8080:80\",  # ",
        "    5432,  # ",
        "proxy = \"http://***@p:3128\"  # ",
        "    \"9.9.9.9\",  # ",
        "mode = \"filtered\"  # ",
    ] {
        assert!(run.out.contains(line), "{line} {run:?}");
    }
    for words in [
        &["config", "show", "--json"][..],
        &["explain", "a.org"],
        &["run", "--dry-run", "--", "true"],
        &["run", "--net", "host", "--dry-run", "--", "true"],
    ] {
        let run = palisade(&place, words);
        assert!(!run.out.contains("s3cret") && !run.err.contains("s3cret"), "{words:?} {run:?}");
    }
}

#[test]
fn a_plan_made_with_a_proxy_on_the_command_line_is_not_kept() {
    let place = ordinary();
    let plans = place.home.join(".cache/palisade/plans");
    let kept = || std::fs::read_dir(&plans).map_or(0, Iterator::count);
    // A plan isn't kept while its inputs are new.
    let one = support::eventually(|| {
        place.run(&["--net", "host"], &["true"]).ok();
        kept() == 1
    });
    assert!(one, "others are");
    place.run(&["--net", "host", "--proxy", "http://ann:s3cret@p:1"], &["true"]).ok();
    assert_eq!(kept(), 1, "{plans:?}");
    place.run(&["--net", "host", "--dns", "9.9.9.9"], &["true"]).ok();
    assert_eq!(kept(), 2, "{plans:?}");
}
