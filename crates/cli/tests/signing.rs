// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that a commit is signed by the user's GnuPG agent, and that the keys stay with it.

use crate::support::{Place, has, job, ordinary};

/// The agent of a place, which ends with it.
struct Agent<'p>(&'p Place);

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        let _ended = job::finish(self.0.command("gpgconf").args(["--kill", "gpg-agent"]));
    }
}

#[test]
fn commits_are_signed_by_the_agent_and_its_keys_stay() {
    let place = ordinary();
    if !has("git") || job::finish(place.command("sh").args(["-c", "command -v gpg gpg-agent"])).code != 0 {
        eprintln!("not tried: no gpg here");
        return;
    }
    let _agent = Agent(&place);
    place.outside(
        "gpg --batch --quiet --passphrase '' --quick-gen-key 'a <a@example.org>' default default never 2>&1; \
         printf '[user]\\n\\tname = a\\n\\temail = a@example.org\\n' >~/.gitconfig; \
         git init -q .; echo 1 >file; git add file; git commit -q -m one",
    );
    let sign = |options: &[&str]| place.sh(options, "echo 2 >>file; git commit -q -a -S -m two");
    let without = sign(&[]);
    assert_ne!(without.code, 0, "{without:?}");
    let signed = sign(&["--feature", "gpg-agent"]);
    assert_eq!(signed.code, 0, "{signed:?}");
    let verified = place.outside("git verify-commit HEAD 2>&1; git log --format=%s -1");
    assert!(verified.contains("Good signature") && verified.ends_with("two\n"), "{verified}");
    for steal in [
        "ls ~/.gnupg/private-keys-v1.d",
        "gpg --batch --pinentry-mode loopback --passphrase '' --export-secret-keys | grep -q .",
        "gpg --batch --yes --delete-secret-keys a@example.org",
    ] {
        let run = place.sh(&["--feature", "gpg-agent"], steal);
        assert_ne!(run.code, 0, "{steal}: {run:?}");
    }
    assert!(place.outside("gpg --batch -K 2>&1").contains("a@example.org"));
    assert!(std::fs::read_dir(place.home.join(".gnupg/private-keys-v1.d")).unwrap().count() > 0);
}
