// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a filtered network: names decide which hosts are reached, whichever program connects and by whatever means.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

pub(crate) mod bed;

use crate::support::terminal::{Terminal, words};
use crate::support::{eventually, has, job};
use bed::{Bed, people};
use palisade_acceptance::patience::Patience;
use rustix::process::{Pid, Signal};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Lines that each fetch `$URL` by another client, and print what came.
pub(crate) const FETCH: [(&str, &str); 6] = [
    ("curl", "curl -fsS --max-time 8 --cacert $CA $URL"),
    ("curl without a proxy", "curl -fsS --max-time 8 --noproxy '*' --cacert $CA $URL"),
    ("curl by SOCKS", "curl -fsS --max-time 8 --proxy socks5h://127.0.0.1:1023 --cacert $CA $URL"),
    ("wget", "wget -qO- -T 8 -t 1 --ca-certificate=$CA $URL"),
    ("wget without a proxy", "wget -qO- -T 8 -t 1 --no-proxy --ca-certificate=$CA $URL"),
    (
        "python",
        "python3 -c 'import os, ssl, urllib.request as u; \
         o = u.build_opener(u.ProxyHandler({}), u.HTTPSHandler(context=ssl.create_default_context(cafile=os.environ[\"CA\"]))); \
         print(o.open(os.environ[\"URL\"], timeout=8).read().decode(), end=\"\")'",
    ),
];

#[test]
fn an_allowed_name_is_reached_and_its_neighbour_is_not() {
    names_decide(&[]);
}

/// Names decide in launches with `options`, whichever client asks.
pub(crate) fn names_decide(options: &[&str]) {
    for place in people() {
        let bed = Bed::new(place);
        for (client, line) in FETCH {
            for scheme in ["http", "https"] {
                for (name, reached) in
                    [("www.allowed.example", true), ("denied.example", false), ("other.example", false)]
                {
                    let url = format!("{scheme}://{name}/page");
                    let line = format!("URL={url}; export URL; {line}");
                    let answer = format!("{scheme} {name} GET /page 0\n");
                    // Outside there is no proxy.
                    if !line.contains("--proxy") {
                        let outside = bed.outside(&line);
                        assert_eq!(outside.out, answer, "{client} outside: {outside:?}");
                    }
                    bed.reached();
                    let options = [options, &["--allow", "*.allowed.example"]].concat();
                    let inside = bed.sh(&options, &line);
                    let seen = bed.reached();
                    if reached {
                        assert_eq!(inside.out, answer, "{client} of {url}: {inside:?}");
                    } else {
                        assert_ne!(inside.code, 0, "{client} of {url}: {inside:?}");
                        assert!(seen.is_empty(), "{client} of {url}: {seen:?}");
                        assert!(inside.err.contains(&format!("palisade run --allow {name}")), "{inside:?}");
                    }
                }
            }
        }
    }
}

/// What must not be reached, as `internet.py` tells of it.
const FORBIDDEN: [&str; 9] = [
    " 93.184.216.40",
    "2606:2800:220:1::40",
    " 10.9.8.7",
    " 169.254.169.254",
    " 127.0.0.1",
    "ther.example",
    "THER.example",
    "stolen",
    "abstract",
];

/// Names that are allowed, but lead to addresses that are not.
const LURES: [&str; 6] = [
    "private.example",
    "metadata.example",
    "loopback.example",
    "mapped.example",
    "rebind.example",
    "to-private.example",
];

#[test]
fn attacks_reach_nobody() {
    nobody_is_reached(&[]);
}

/// No attack of the list reaches what no rule allows, in launches with `more` options.
pub(crate) fn nobody_is_reached(more: &[&str]) {
    for place in people() {
        let bed = Bed::new(place);
        let prologue = format!(
            "T=3; INTERNET={}; ASK={}; RAW() {{ python3 {} \"$@\"; }}; ",
            bed.pid(),
            bed.place.write("work/ask.py", include_str!("network/ask.py")).display(),
            bed.place.write("work/raw.py", include_str!("network/raw.py")).display(),
        );
        let inside = "PROXY() { curl --noproxy '' --proxy http://127.0.0.1:1023 \"$@\"; }; \
                      SOCKS() { curl --noproxy '' --proxy socks5h://127.0.0.1:1023 \"$@\"; }; ";
        let outside = "PROXY() { curl --noproxy '*' \"$@\"; }; SOCKS() { curl --noproxy '*' \"$@\"; }; ";
        let mut options = [more, &["--allow", "*.allowed.example"]].concat();
        for lure in LURES {
            options.extend(["--allow", lure]);
        }
        let forbidden = |seen: &[String]| {
            let bad = |line: &&String| FORBIDDEN.iter().any(|word| line.contains(word));
            seen.iter().find(bad).cloned()
        };
        let (mut tried, mut through) = (0, Vec::new());
        for line in include_str!("network/attacks.list").lines() {
            let Some((name, line)) = line.split_once(' ').filter(|(name, _line)| !name.starts_with('#'))
            else {
                continue;
            };
            bed.reached();
            let control = bed.outside_bash(&format!("{prologue}{outside}{line}"));
            assert!(forbidden(&bed.reached()).is_some(), "{name} reaches nobody outside: {control:?}");
            // The internet remembers which clients have asked.
            bed.forget();
            let began = Instant::now();
            let run = bed.bash(&options, &format!("{prologue}{inside}{line}"));
            let took = began.elapsed();
            let seen = bed.reached();
            if let Some(seen) = forbidden(&seen) {
                through.push(format!("{name}: {seen}: {run:?}"));
            }
            assert!(took < Duration::from_secs(30), "{name} hangs: {took:?}");
            assert!(!run.err.contains("network gateway has ended"), "{name}: {run:?}");
            tried += 1;
        }
        let who = bed.place.name();
        assert!(
            through.is_empty(),
            "as {who}, {} of {tried} are through:\n{}",
            through.len(),
            through.join("\n")
        );
        println!("as {who}: {tried} attacks, 0 through");
        assert!(tried >= 50);
    }
}

#[test]
fn ports_are_published_and_reached() {
    for place in people() {
        let bed = Bed::new(place);
        // The host's own port, and no other.
        let fetch = "curl -sS -m 8 --noproxy '*' http://127.0.0.1:80/own";
        let run = bed.sh(&["--reach", "80"], fetch);
        assert_eq!(run.ok(), "http 127.0.0.1 GET /own 0", "{run:?}");
        let run = bed.sh(&["--reach", "7"], fetch);
        assert_eq!((run.code, run.out.as_str()), (7, ""), "{run:?}");
        let run = bed.sh(&["--net", "filtered"], fetch);
        assert_eq!((run.code, run.out.as_str()), (7, ""), "{run:?}");
        // The same for programs that ask the proxy for a loopback address.
        for ask in ["-x http://127.0.0.1:1023", "-px http://127.0.0.1:1023", "-x socks5h://127.0.0.1:1023"] {
            for host in ["127.0.0.1", "localhost", "[::1]"] {
                let fetch = format!("curl -fsS -m 8 --noproxy '' {ask} http://{host}:80/own");
                let run = bed.sh(&["--reach", "80"], &fetch);
                assert!(run.ok().ends_with(" GET /own 0"), "{fetch}: {run:?}");
                let run = bed.sh(&["--reach", "7"], &fetch);
                assert!(run.code != 0 && run.out.is_empty(), "{fetch}: {run:?}");
            }
        }
        // A server inside, asked from outside while it runs.
        let serve = "mkdir -p served && cd served && echo from inside >page && \
                     exec timeout 30 python3 -m http.server 8000 --bind 127.0.0.1 2>/dev/null";
        let mut inside =
            bed.palisade(&["--publish", "18080:8000"], serve).stderr(Stdio::piped()).spawn().unwrap();
        let ask = "curl -sS -m 2 http://127.0.0.1:18080/page";
        assert!(
            eventually(|| bed.outside(ask).out == "from inside\n"),
            "not reached: {:?}",
            bed.outside(ask)
        );
        // The same port can't be had twice, and nothing is started then.
        let taken = bed.sh(&["--publish", "18080:8000"], "echo started");
        assert_eq!(taken.out, "");
        taken.refused(125, &["can't publish a port at 127.0.0.1:18080"]);
        rustix::process::kill_process(Pid::from_raw(inside.id().cast_signed()).unwrap(), Signal::TERM)
            .unwrap();
        job::bounded(&mut inside);
        assert_eq!(bed.outside(ask).code, 7, "the port is given back");
    }
}

#[test]
fn when_nobody_serves_any_more_everything_is_refused_at_once() {
    everything_is_refused_after_the_gateway(&[]);
}

/// Connections are refused when the gateway has been killed, in launches with `more` options.
pub(crate) fn everything_is_refused_after_the_gateway(more: &[&str]) {
    for place in people() {
        let bed = Bed::new(place);
        let fetch = "curl -fsS -m 20 --noproxy '*' http://www.allowed.example";
        let line = format!(
            "{fetch}/1; touch asked; while [ ! -e killed ]; do sleep 0.05; done; {fetch}/2; echo $?; \
             curl -sS -m 20 http://www.allowed.example/3; echo $?; {fetch}/4 --resolve www.allowed.example:80:198.18.0.1; echo $?"
        );
        let options = [more, &["--allow", "*.allowed.example"]].concat();
        let mut palisade = bed.palisade(&options, &line);
        let child = palisade.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let asked = bed.place.work.join("asked");
        assert!(eventually(|| asked.exists()));
        let launcher = child.id().to_string();
        let children = bed.place.outside(&format!("pgrep -P {launcher} palisade-net"));
        let served: i32 = children.trim().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(served).unwrap(), Signal::KILL).unwrap();
        bed.place.write("work/killed", "");
        let mut patience = Patience::new(Duration::from_secs(15));
        let run = job::wait(child);
        assert!(!patience.is_spent(), "{run:?}");
        assert_eq!(run.out, "http www.allowed.example GET /1 0\n6\n7\n7\n", "{run:?}");
        assert!(run.err.contains("the network gateway has ended"), "{run:?}");
        assert!(
            !bed.reached()
                .iter()
                .any(|line| line.contains("/2") || line.contains("/3") || line.contains("/4"))
        );
    }
}

#[test]
fn who_serves_has_next_to_no_rights() {
    for place in people() {
        let bed = Bed::new(place);
        let line = "curl -fsS -m 20 --noproxy '*' http://www.allowed.example/1; touch asked; sleep 30";
        let mut palisade = bed.palisade(&["--allow", "*.allowed.example"], line);
        palisade.env("SECRET", "a secret of the launcher's");
        let mut child = palisade.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let asked = bed.place.work.join("asked");
        assert!(eventually(|| asked.exists()));
        let served = bed.place.outside(&format!("pgrep -P {} palisade-net", child.id()));
        let served = served.trim();
        let status = std::fs::read_to_string(format!("/proc/{served}/status")).unwrap();
        let value = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(value("NoNewPrivs:"), ["1"]);
        assert_eq!(value("Seccomp:"), ["2"]);
        assert_eq!(value("CapEff:"), ["0000000000000000"]);
        assert_eq!(value("CapPrm:"), ["0000000000000000"]);
        if bed.place.is_root() {
            assert!(value("Uid:").iter().all(|uid| uid != "0"), "{status}");
            let environment = std::fs::read(format!("/proc/{served}/environ")).unwrap();
            assert!(!String::from_utf8_lossy(&environment).contains("a secret"));
        }
        // It ends with the launcher, however that ends.
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(eventually(|| !Path::new(&format!("/proc/{served}")).exists()));
        assert!(eventually(|| bed.outside("curl -s -m 2 http://198.18.0.1/").code != 0));
    }
}

#[test]
fn a_name_server_that_is_silent_holds_nobody_up() {
    for place in people() {
        let bed = Bed::new(place);
        let mut patience = Patience::new(Duration::from_secs(30));
        let run = bed.sh(
            &["--allow", "silent.example", "--allow", "dead.example"],
            "for how in 'http://silent.example' '--noproxy * http://silent.example' 'http://dead.example' '--noproxy * http://dead.example'; \
             do set -f; curl -fsS -m 20 $how/; echo $?; done",
        );
        assert!(!patience.is_spent(), "{run:?}");
        let codes: Vec<&str> = run.out.lines().collect();
        assert_eq!(codes.len(), 4, "{run:?}");
        assert!(codes.iter().all(|code| *code != "0" && *code != "28"), "{run:?}");
    }
}

#[test]
fn without_a_terminal_nobody_is_asked_and_the_answer_is_no() {
    for place in people() {
        let bed = Bed::new(place);
        let mut patience = Patience::new(Duration::from_secs(15));
        let run = bed.sh(&["--net-default", "ask"], "curl -fsS -m 20 http://www.allowed.example/; echo $?");
        assert!(!patience.is_spent(), "{run:?}");
        assert_ne!(run.out, "0\n", "{run:?}");
        assert!(bed.reached().iter().all(|line| line.starts_with("dns")), "{run:?}");
    }
}

#[test]
fn the_user_is_asked_at_the_terminal() {
    if !has("tmux") {
        return;
    }
    for place in people() {
        let bed = Bed::new(place);
        let terminal = Terminal::open(&bed.place);
        let line = |host: &str| format!("curl -fsS -m 30 --noproxy '*' http://{host}/; echo came $?");
        let both = format!(
            "{}; {}; {}; read typed; echo typed $typed",
            line("www.allowed.example"),
            line("www.allowed.example"),
            line("denied.example")
        );
        // What is typed before the question isn't its answer.
        let command = bed.palisade(&["--net-default", "ask"], &format!("sleep 1; {both}"));
        terminal.line(&words(&command));
        terminal.text("y\n");
        terminal.answer("wants to reach www.allowed.example:80", "session");
        terminal.answer("wants to reach denied.example:80", "n");
        terminal.wait_for("http www.allowed.example GET / 0");
        terminal.line("afterwards");
        terminal.wait_for("typed ");
        let screen = terminal.screen();
        assert_eq!(screen.matches("wants to reach www.allowed.example").count(), 1, "{screen}");
        assert_eq!(screen.matches("came 0").count(), 2, "{screen}");
        assert!(bed.reached().iter().all(|line| !line.contains(" 93.184.216.40")), "{screen}");
    }
}

#[test]
fn who_is_always_allowed_is_not_asked_about_again() {
    if !has("tmux") {
        return;
    }
    for place in people() {
        let bed = Bed::new(place);
        let terminal = Terminal::open(&bed.place);
        let fetch = |host: &str| format!("curl -fsS -m 30 --noproxy '*' http://{host}/");
        let asked = |options: &[&str], line: &str| {
            let all = [&["--net-default", "ask"], options].concat();
            words(&bed.palisade(&all, line))
        };
        terminal.line(&asked(&[], &format!("{}; echo came $?", fetch("www.allowed.example"))));
        terminal.answer("always    allow it from now on", "always");
        terminal.wait_for("came 0");
        let screen = terminal.screen();
        assert!(screen.contains("http www.allowed.example GET / 0"), "{screen}");
        // In a user namespace of one user the directories above belong to no mapped user, so files below them aren't trusted.
        if !bed.place.is_root() {
            assert!(screen.contains("allowed for this session only"), "{screen}");
            continue;
        }
        let directory = bed.place.home.join(".local/state/palisade/answers");
        let kept: Vec<_> = std::fs::read_dir(&directory).unwrap().flatten().collect();
        assert_eq!(kept.len(), 1, "{kept:?}");
        let file = kept[0].path();
        let answered = std::fs::read_to_string(&file).unwrap();
        assert!(answered.contains("\n    \"www.allowed.example:80\",\n"), "{answered}");
        let flat: String = screen.split('\n').map(str::trim_end).collect();
        assert!(flat.contains(&format!("from {}", file.display())), "{screen}");
        // Without a terminal, where no user can be asked, the saved approval applies, and only that.
        let again = |options: &[&str], host: &str| {
            let all = [&["--net-default", "ask"], options].concat();
            bed.sh(&all, &fetch(host)).out
        };
        let reached = "http www.allowed.example GET / 0\n";
        assert_eq!(again(&[], "www.allowed.example"), reached);
        assert_eq!(again(&[], "api.allowed.example"), "");
        assert_eq!(again(&[], "www.allowed.example:7"), "", "another port");
        // An approval doesn't override a rule, another default, another profile, or a denied address of the name.
        for options in [
            &["--deny-host", "*.allowed.example"][..],
            &["--deny-host", "93.184.216.34", "--deny-host", "2606:2800:220:1::34"],
            &["--net-default", "deny"],
        ] {
            let mut all = options.to_vec();
            if options[0] != "--net-default" {
                all.extend(["--net-default", "ask"]);
            }
            assert_eq!(bed.sh(&all, &fetch("www.allowed.example")).out, "", "{options:?}");
        }
        bed.place.write("other.toml", "schema = 1\nname = \"other\"\n");
        let other = bed.place.home.join("other.toml");
        assert_eq!(again(&["--profile", other.to_str().unwrap()], "www.allowed.example"), "");
        // A command inside can't write an approval.
        let write = format!("echo '# x' >>{}; echo $?", file.display());
        let home = bed.place.home.to_str().unwrap();
        let run = bed.sh(&["--net-default", "ask", "--rw", home], &write);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), answered, "{run:?}");
        // The user removes the approval.
        let without = answered.replace("    \"www.allowed.example:80\",\n", "");
        std::fs::write(&file, without).unwrap();
        assert_eq!(again(&[], "www.allowed.example"), "");
        // A file that other users could have written isn't trusted, and a message says so.
        std::fs::write(&file, &answered).unwrap();
        assert_eq!(again(&[], "www.allowed.example"), reached);
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        let run = bed.sh(&["--net-default", "ask"], &fetch("www.allowed.example"));
        assert_eq!(run.out, "", "{run:?}");
        assert!(run.err.contains("refusing the answers") && run.err.contains("chmod go-w"), "{run:?}");
    }
}

#[test]
fn what_was_reached_and_refused_is_recorded() {
    for place in people() {
        let bed = Bed::new(place);
        let run = bed.sh(
            &["--allow", "*.allowed.example"],
            "curl -fsS -m 20 --noproxy '*' http://www.allowed.example/bytes/5000 | wc -c; \
             curl -fsS -m 20 http://denied.example/; curl -fsS -m 20 --noproxy '*' http://10.9.8.7/",
        );
        assert_eq!(run.out, "5000\n", "{run:?}");
        let watched =
            bed.place.outside(&format!("{} watch --all --no-follow --json", bed.place.binary().display()));
        let event = |object: &str, verdict: &str| {
            let found = watched.lines().find(|line| line.contains(&format!("\"object\":\"{object}\"")));
            let found = found.unwrap_or_else(|| panic!("nothing of {object}: {watched}"));
            assert!(found.contains(&format!("\"verdict\":\"{verdict}\"")), "{found}");
            assert!(
                found.contains("\"operation\":\"connect\"") && found.contains("\"enforced_by\":\"gateway\""),
                "{found}"
            );
            found.to_owned()
        };
        let allowed = event("www.allowed.example:80", "allowed");
        assert!(allowed.contains("bytes out") && allowed.contains("2606:2800:220:1::34"), "{allowed}");
        event("denied.example:80", "refused");
        let private = event("10.9.8.7:80", "refused");
        assert!(private.contains("--allow 10.9.8.7:80"), "{private}");
    }
}

#[test]
fn whom_a_command_talks_to_is_learned() {
    for place in people() {
        let bed = Bed::new(place);
        let line = "curl -fsS -m 20 --noproxy '*' http://www.allowed.example/; curl -fsS -m 20 http://api.allowed.example/; \
                    curl -fsS -m 20 --noproxy '*' http://denied.example/; true";
        let binary = bed.place.binary().to_owned();
        let mut learn = bed.command(&binary);
        learn.args([
            "learn",
            "--net-default",
            "allow",
            "--deny-host",
            "denied.example",
            "--name",
            "fetch",
            "--yes",
            "--",
        ]);
        let run = job::finish(learn.args(["sh", "-c", line]));
        assert_eq!(run.code, 0, "{run:?}");
        let profile = bed.place.read(".config/palisade/profiles/fetch.toml");
        for wanted in [
            "mode = \"filtered\"",
            "\"www.allowed.example:80\"",
            "\"api.allowed.example:80\"",
            "deny = [\"denied.example\"]",
        ] {
            assert!(profile.contains(wanted), "no {wanted} in\n{profile}");
        }
        assert!(!profile.contains("default ="), "{profile}");
        // In a user namespace of one user the directories above belong to no mapped user, so policy below them isn't trusted.
        if !bed.place.is_root() {
            continue;
        }
        bed.reached();
        let mut again = bed.command(&binary);
        let line = "curl -fsS -m 20 --noproxy '*' http://www.allowed.example/; curl -fsS -m 20 http://six.allowed.example/";
        let run = job::finish(again.args(["run", "--profile", "fetch", "--", "sh", "-c", line]));
        assert_eq!(run.out, "http www.allowed.example GET / 0\n", "{run:?}");
        assert!(bed.reached().iter().all(|line| !line.contains("six.")), "{run:?}");
    }
}

/// Learns a line of shell into the profile `p`. Returns the run and the profile.
fn learned(bed: &Bed, options: &[&str], line: &str) -> (job::Run, String) {
    let mut learn = bed.command(bed.place.binary());
    learn.args(["learn", "--name", "p", "--yes"]).args(options).args(["--", "sh", "-c", line]);
    let run = job::finish(&mut learn);
    assert_eq!(run.code, 0, "{run:?}");
    (run, bed.place.read(".config/palisade/profiles/p.toml"))
}

const FETCH_PRIVATE: &str = "curl -fsS -m 20 --noproxy '*' http://private.example/";

/// A name that leads to an address which isn't of the public internet takes a rule for the address: it is kept with the
/// name, and the profile is enough.
#[test]
fn the_rule_for_the_address_of_a_name_is_learned() {
    for place in people() {
        let bed = Bed::new(place);
        let options = ["--allow", "private.example", "--allow", "10.9.8.0/24", "--verify"];
        let (run, profile) = learned(&bed, &options, FETCH_PRIVATE);
        assert_eq!(run.out, "http private.example GET / 0\n".repeat(2), "{run:?}");
        assert!(run.err.contains("verified: "), "{run:?}");
        for rule in ["\"private.example:80\"", "\"10.9.8.0/24\""] {
            assert!(profile.contains(rule), "{profile}");
        }
        // Only root's policy is trusted here.
        if !bed.place.is_root() {
            continue;
        }
        // A feature has the rule, which isn't in the profile.
        let feature = "schema = 1\nname = \"lan\"\n[network]\nallow = [\"10.9.8.0/24\"]\n";
        bed.place.write(".config/palisade/features/lan.toml", feature);
        let options = ["--allow", "private.example", "--feature", "lan", "--verify"];
        let (run, profile) = learned(&bed, &options, FETCH_PRIVATE);
        assert!(run.err.contains("verified: ") && !run.err.contains("was reached, and"), "{run:?}");
        assert!(profile.contains("\"10.9.8.0/24\""), "{profile}");
    }
}

/// What was refused for the address that a name leads to is refused by the profile, whatever layers the rules were in.
#[test]
fn what_was_refused_by_address_stays_refused() {
    for place in people() {
        let bed = Bed::new(place);
        let line =
            format!("curl -fsS -m 20 --noproxy '*' http://www.allowed.example/; {FETCH_PRIVATE}; true");
        let (run, profile) = learned(&bed, &["--net-default", "allow"], &line);
        assert_eq!(run.out, "http www.allowed.example GET / 0\n", "{run:?}");
        assert!(profile.contains("# \"10.9.8.7:80\",   # private.example leads to 10.9.8.7"), "{profile}");
        if !bed.place.is_root() {
            continue;
        }
        // The profile that is refined has a closer rule, which the option overrides.
        let base =
            "schema = 1\n[network]\nallow = [\"10.9.8.7\", \"www.allowed.example\", \"private.example\"]\n";
        bed.place.write(".config/palisade/profiles/base.toml", base);
        let options = ["--profile", "base", "--deny-host", "10.9.8.0/24"];
        let direct = format!("{FETCH_PRIVATE}; curl -fsS -m 20 --noproxy '*' http://10.9.8.7/");
        // With and without an attempt in the run.
        for line in [line.as_str(), "curl -fsS -m 20 --noproxy '*' http://www.allowed.example/"] {
            let (run, profile) = learned(&bed, &options, line);
            assert_eq!(run.out, "http www.allowed.example GET / 0\n", "{run:?}");
            bed.reached();
            bed.sh(&["--profile", "base"], &direct);
            assert!(
                bed.reached().iter().any(|line| line.contains(" 10.9.8.7")),
                "the first profile allows it"
            );
            bed.sh(&["--profile", "p"], &direct);
            let reached = bed.reached();
            assert!(!reached.iter().any(|line| line.contains(" 10.9.8.7")), "{reached:?}\n{profile}");
        }
        // The other way round: what an option has allowed again is no denial of the profile's.
        let base = "schema = 1\n[network]\ndeny = [\"10.9.8.7\"]\n";
        bed.place.write(".config/palisade/profiles/base.toml", base);
        let options =
            ["--profile", "base", "--allow", "10.9.8.0/24", "--allow", "private.example", "--verify"];
        let (run, profile) = learned(&bed, &options, FETCH_PRIVATE);
        assert!(run.err.contains("verified: "), "{run:?}\n{profile}");
    }
}
