// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The archive: an ordinary user unpacks it, runs the program, and removes it.

use super::made::{Binaries, VERSION};
use super::{assert_same, files, host};
use crate::support::has;

#[test]
fn an_archive_is_unpacked_and_removed_by_an_ordinary_user() {
    if !["fanotify", "overlay"].into_iter().all(has) {
        return;
    }
    let bed = host();
    Binaries::new().pack("tar", VERSION, &[]).bring(&bed, "/tmp/archive");
    let before = files(&bed);
    let home = "export HOME=/home/stranger; cd; ";
    let unpacked = bed.run_as_user(&format!(
        "{home} mkdir -p .local && tar -xzf /tmp/archive/palisade-{VERSION}-*-linux.tar.gz -C .local --strip-components=1 &&
.local/bin/palisade --version && .local/bin/palisade run -- sh -c 'echo inside' && ls .local/share"
    ));
    let said = unpacked.ok();
    assert!(said.contains(&format!("palisade {VERSION}\ninside\n")), "{said}");
    for directory in ["bash-completion", "doc", "fish", "man", "zsh"] {
        assert!(said.contains(directory), "{directory}: {said}");
    }
    // The bill of materials is the one beside the archive, and is about this program.
    let same =
        format!("cmp .local/share/doc/palisade/palisade.cdx.json /tmp/archive/palisade-{VERSION}.cdx.json");
    bed.run_as_user(&format!("{home}{same}")).ok();
    let about = bed.run_as_user(&format!(
        "{home} python3 -c 'import hashlib, json; bill = json.load(open(\".local/share/doc/palisade/palisade.cdx.json\"));
own = hashlib.sha256(open(\".local/bin/palisade\", \"rb\").read()).hexdigest()
assert bill[\"metadata\"][\"component\"][\"hashes\"][0][\"content\"] == own
names = {{part[\"name\"] for part in bill[\"components\"]}}
assert {{\"clap\", \"rusqlite\", \"sqlite\", \"rust-std\", \"palisade-sandbox\"}} <= names, names
assert not {{\"proptest\", \"thiserror-impl\", \"palisade-acceptance\", \"libbpf-sys\"}} & names, names'"
    ));
    about.ok();
    let remove = format!(
        "{home} tar -tzf /tmp/archive/palisade-{VERSION}-*-linux.tar.gz | cut -d / -f 2- | tac |
(cd .local && while read -r name; do case $name in '') ;; */) rmdir \"$name\" ;; *) rm \"$name\" ;; esac; done) && rm -r .local .cache .config; ls -A"
    );
    bed.run_as_user(&remove).ok();
    bed.run_as_user("rm -rf /home/stranger/.cache /home/stranger/.config /home/stranger/.local").ok();
    assert_same(&before, &files(&bed));
}
