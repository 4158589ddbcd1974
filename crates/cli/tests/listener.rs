// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests launches where another program listens to system calls already, as WSL2's mirrored networking does: the kernel
//! permits one listener.

use crate::support::{Place, everybody};

/// Runs a line below a program that listens. `$P` is palisade.
fn below_a_listener(place: &Place, line: &str) -> String {
    let listen = place.write("listen.py", include_str!("listener/listen.py"));
    let line = place.write("line.sh", line);
    let binary = place.binary();
    let (listen, line, binary) = (listen.display(), line.display(), binary.display());
    place.outside(&format!("P={binary} python3 {listen} sh {line} 2>&1; true"))
}

#[test]
fn the_sandbox_is_whole_and_names_that_exist_are_protected_by_mounts() {
    for place in everybody() {
        place.outside("mkdir -p project && cd project && git init -q . && echo outside >../secret");
        let line = "cd project && $P run --status-fd 3 -- sh -c 'echo x >>.git/config; echo made >new; cat ../secret; \
                    ls /proc | grep -c ^[0-9]' 3>../status; cat new ../status";
        let said = below_a_listener(&place, line);
        assert!(said.contains("are protected by mounts"), "{said}");
        assert!(said.contains("the kernel permits one listener"), "{said}");
        assert!(said.contains(r#""names-protected":"mounts over names that exist""#), "{said}");
        assert!(said.contains(r#""hidden":"own file tree""#), "{said}");
        assert!(said.contains("cannot create .git/config"), "{said}");
        assert!(said.lines().any(|line| line == "made"), "{said}");
        assert!(!said.lines().any(|line| line == "outside"), "{said}");
        // The weaker plan isn't kept: without the listener the broker judges.
        let palisade = place.binary().display().to_string();
        let after = place.outside(&format!(
            "cd project && {palisade} run --status-fd 3 -- true 3>../status; cat ../status"
        ));
        assert!(after.contains(r#""names-protected":"broker behind the filter""#), "{after}");
    }
}

#[test]
fn a_kept_plan_with_a_broker_is_replaced_for_that_launch() {
    for place in everybody() {
        let palisade = place.binary().to_str().unwrap().to_owned();
        place.outside(&format!("{palisade} run -- true && {palisade} run -- true"));
        let said = below_a_listener(&place, "$P run -- echo inside");
        assert!(said.lines().any(|line| line == "inside"), "{said}");
        assert!(said.contains("are protected by mounts"), "{said}");
    }
}

#[test]
fn a_required_broker_and_answers_are_refused() {
    for place in everybody() {
        for options in ["--require names-protected", "--protect broker", "--trace"] {
            let said =
                below_a_listener(&place, &format!("$P run {options} -- touch started; echo code $?; ls"));
            assert!(said.contains("the kernel permits one listener"), "{options}: {said}");
            assert!(said.lines().any(|line| line == "code 125"), "{options}: {said}");
            assert!(!said.lines().any(|line| line == "started"), "{options}: {said}");
        }
        let said = below_a_listener(&place, "$P run --protect broker --best-effort -- echo inside");
        assert!(said.lines().any(|line| line == "inside"), "{said}");
    }
}
