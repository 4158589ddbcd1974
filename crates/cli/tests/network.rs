// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A filtered network: names decide what is reached, whoever asks and however.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may die of what the machine should give"
)]

#[path = "network/bed.rs"]
mod bed;
mod support;

use bed::Bed;
use std::time::{Duration, Instant};
use support::everybody;

/// Lines that each fetch `$URL` by another client, and print what came.
const FETCH: [(&str, &str); 6] = [
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
    for place in everybody() {
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
                    let inside = bed.sh(&["--allow", "*.allowed.example"], &line);
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

/// Names that may be talked to; where they lead may not.
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
    for place in everybody() {
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
        let mut options = vec!["--allow", "*.allowed.example"];
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
            // It has a memory of who has asked.
            bed.forget();
            let began = Instant::now();
            let run = bed.bash(&options, &format!("{prologue}{inside}{line}"));
            let took = began.elapsed();
            let seen = bed.reached();
            if let Some(seen) = forbidden(&seen) {
                through.push(format!("{name}: {seen}: {run:?}"));
            }
            assert!(took < Duration::from_secs(30), "{name} hangs: {took:?}");
            assert!(!run.err.contains("nobody serves"), "{name}: {run:?}");
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
