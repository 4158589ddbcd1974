// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests which way connections leave: directly, or by the proxy that the caller's variables name.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::network::bed::{Bed, people};
use crate::support::{Place, Run, job};

fn bed(place: Place) -> Bed {
    Bed::serving(place, &[("proxies", include_str!("network/proxies.py"))])
}

/// Runs a line inside, with variables of the caller's.
fn with(bed: &Bed, variables: &[&str], options: &[&str], line: &str) -> Run {
    let command = bed.palisade(options, line);
    let mut words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    // Behind the `env` that enters the internet, and its directory.
    let env = words.iter().position(|word| word == "env").unwrap();
    words.splice(env + 2..env + 2, variables.iter().map(|variable| (*variable).into()));
    let mut whole = bed.place.command(command.get_program());
    job::finish(whole.args(words))
}

const ENVIRONMENT: [&str; 4] = ["--proxy", "environment", "--allow", "*.example"];
const FETCH: &str = "curl -fsS -m 20 --noproxy '*'";

#[test]
fn the_callers_variables_lead_out_where_the_policy_says_so() {
    for place in people() {
        let bed = bed(place);
        let proxy = "http_proxy=http://me:s3cret@93.184.216.35:3128";
        let none = "NO_PROXY=.allowed.example";
        // A name that only the proxy knows, and one to which one goes directly.
        let line = format!(
            "{FETCH} http://only.example/1 http://www.allowed.example/2; env | grep -c 93.184.216.35"
        );
        let run = with(&bed, &[proxy, none], &ENVIRONMENT, &line);
        assert_eq!(run.out, "http only.example GET /1 0\nhttp www.allowed.example GET /2 0\n0\n", "{run:?}");
        let seen = bed.reached();
        let proxied: Vec<_> = seen.iter().filter(|line| line.starts_with("proxy ")).collect();
        assert_eq!(proxied, ["proxy CONNECT only.example:80 by Basic bWU6czNjcmV0"], "{seen:?}");
        // The proxy resolves this name, so no query for it was sent here.
        assert!(!seen.iter().any(|line| line.starts_with("dns only.")), "{seen:?}");
        // A host that the policy refuses is also refused by way of the proxy.
        let run =
            with(&bed, &[proxy], &["--proxy", "environment", "--allow", "www.allowed.example"], FETCH_ONLY);
        assert_ne!(run.code, 0, "{run:?}");
        assert!(!bed.reached().iter().any(|line| line.starts_with("proxy ")), "{run:?}");
        // The password is neither printed nor recorded.
        let events = format!("{} watch --all --no-follow --json", bed.place.binary().display());
        assert!(!run.err.contains("s3cret") && !bed.outside(&events).out.contains("s3cret"), "{run:?}");
        let found = bed.place.outside("grep -rl s3cret .. 2>/dev/null; true");
        assert_eq!(found, "", "kept");
        // Without the option no proxy is used.
        let run =
            with(&bed, &[proxy], &["--allow", "*.example"], &format!("{FETCH} http://www.allowed.example/3"));
        assert_eq!(run.out, "http www.allowed.example GET /3 0\n", "{run:?}");
        assert!(!bed.reached().iter().any(|line| line.starts_with("proxy ")), "{run:?}");
    }
}

const FETCH_ONLY: &str = "curl -fsS -m 20 --noproxy '*' http://only.example/";

#[test]
fn a_variable_that_names_no_proxy_leads_nowhere() {
    for place in people() {
        let bed = bed(place);
        for value in ["https://me:s3cret@93.184.216.35:3128", "http://me:s3cret@93.184.216.35"] {
            let variable = format!("ALL_PROXY={value}");
            let line = format!("{FETCH} http://www.allowed.example/");
            let run = with(&bed, &[&variable], &ENVIRONMENT, &line);
            assert_ne!(run.code, 0, "{run:?}");
            assert!(
                run.err.contains("ALL_PROXY: a proxy's URL")
                    || run.err.contains("ALL_PROXY: a proxy is a URL"),
                "{run:?}"
            );
            assert!(!run.err.contains("s3cret"), "{run:?}");
            assert!(!bed.reached().iter().any(|line| line.starts_with("http")), "{run:?}");
        }
    }
}

#[test]
fn who_gets_nowhere_directly_hears_of_the_variables() {
    const HINT: &str = "hint: palisade run --proxy environment";
    for place in people() {
        let bed = bed(place);
        let line = format!("{FETCH} http://dead.example/");
        let proxy = ["HTTPS_PROXY=http://me:s3cret@93.184.216.35:3128"];
        for (variables, options, told) in [
            (&proxy[..], &["--allow", "*.example"][..], true),
            (&["NO_PROXY=x"], &["--allow", "*.example"], false),
            (&proxy, &["--allow", "*.example", "--proxy", "direct"], false),
            (&proxy, &["--allow", "www.example"], false),
        ] {
            let run = with(&bed, variables, options, &line);
            assert_ne!(run.code, 0, "{run:?}");
            assert_eq!(run.err.contains(HINT), told, "{options:?} {run:?}");
            assert!(!run.err.contains("s3cret"), "{run:?}");
        }
    }
}
