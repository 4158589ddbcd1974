// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a kernel without user namespaces, as in many containers: a clear refusal, or the remaining walls if
//! the user asks for them.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{self, everybody};

/// Runs a line where no further user namespace can be made. `$P` is palisade.
fn confined(place: &support::Place, line: &str) -> String {
    let script = format!("echo 0 >/proc/sys/user/max_user_namespaces || exit 99\n{line}\n");
    let binary = place.binary().to_str().unwrap().to_owned();
    place.outside(&format!("P={binary} unshare -Ur sh -c '{script}' 2>&1; true"))
}

#[test]
fn a_guarantee_that_cannot_be_given_stops_the_launch() {
    for place in everybody() {
        let said = confined(&place, "$P run -- touch started; echo code $?; ls");
        assert!(said.contains("namespaces"), "{said}");
        assert!(said.contains("hint: palisade doctor"), "{said}");
        assert!(said.contains("code 125"), "{said}");
        assert!(!said.lines().any(|line| line == "started"), "{said}");
    }
}

#[test]
fn best_effort_keeps_the_other_walls_and_says_which_are_missing() {
    for place in everybody() {
        let secret = place.write("secret", "outside\n");
        let secret = secret.to_str().unwrap();
        let said = confined(
            &place,
            &format!(
                "$P run --best-effort -- sh -c \"touch made; cat {secret}; grep Seccomp: /proc/self/status\"; ls"
            ),
        );
        assert!(said.contains("note: no user namespaces on this host"), "{said}");
        assert!(said.lines().any(|line| line == "made"), "{said}");
        assert!(!said.contains("outside\n"), "{said}");
        assert!(said.contains("Seccomp:\t2"), "{said}");
    }
}
