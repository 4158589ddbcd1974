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
                    let outside = bed.outside(&line);
                    let answer = format!("{scheme} {name} GET /page 0\n");
                    assert_eq!(outside.out, answer, "{client} outside: {outside:?}");
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
