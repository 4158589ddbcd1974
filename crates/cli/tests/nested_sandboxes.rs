// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests programs that make namespaces or a sandbox of their own inside: what `--allow-namespaces` allows, and what a
//! refusal says where no option helps.

use crate::support::{everybody, has, root};

#[test]
fn a_user_namespace_is_refused_with_the_option_that_allows_it() {
    for place in everybody().iter().filter(|_| has("userns")) {
        let own = "unshare -Ur sh -c 'id -u; echo in a namespace'";
        assert!(place.outside(own).contains("in a namespace"));
        let refused = place.sh(&[], own);
        assert!(!refused.out.contains("in a namespace"), "{refused:?}");
        assert!(refused.err.contains("hint: palisade run --allow-namespaces …"), "{refused:?}");
        let allowed = place.sh(&["--allow-namespaces"], own);
        if place.is_root() {
            // The option doesn't help root, and a note says what does.
            assert!(!allowed.out.contains("in a namespace"), "{allowed:?}");
            assert!(allowed.err.contains("palisade run --account NAME --allow-namespaces …"), "{allowed:?}");
        } else {
            assert_eq!(allowed.ok(), "0\nin a namespace");
            assert_eq!(allowed.err, "");
        }
    }
}

#[test]
fn root_follows_the_note_with_an_account() {
    let Some(root) = root().filter(|_| has("userns")) else { return };
    let user = crate::support::ordinary();
    let mut palisade =
        root.palisade(&["--account", user.name(), "--allow-namespaces"], &["unshare", "-Ur", "id", "-u"]);
    let run = crate::support::job::finish(palisade.current_dir(&user.work));
    assert_eq!((run.ok(), run.err.as_str()), ("0", ""));
}

#[test]
fn a_sandbox_inside_is_refused_and_the_message_says_to_leave_it_out() {
    for place in everybody().iter().filter(|_| has("bwrap") && has("userns")) {
        let nested = ["bwrap", "--unshare-user", "--ro-bind", "/", "/", "--dev", "/dev", "echo", "nested"];
        assert!(place.outside(&nested.join(" ")).contains("nested"));
        let refused = place.run(&[], &nested);
        assert_ne!(refused.code, 0, "{refused:?}");
        assert!(
            refused.err.contains("bwrap makes a sandbox, and needs mounts, which no option allows"),
            "{refused:?}"
        );
        assert!(
            refused.err.contains("hint: palisade run -- COMMAND…   # the command without bwrap"),
            "{refused:?}"
        );
        assert!(!refused.err.contains("--allow-namespaces"), "{refused:?}");
        // With namespaces it fails at its first mount.
        if !place.is_root() {
            let refused = place.run(&["--allow-namespaces"], &nested);
            assert_ne!(refused.code, 0, "{refused:?}");
            assert!(
                refused.err.contains("no option allows it: run the program without a sandbox of its own"),
                "{refused:?}"
            );
        }
        // What the hint says.
        assert_eq!(place.run(&[], &["echo", "nested"]).ok(), "nested");
    }
}
