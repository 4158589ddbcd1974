// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any arguments. `cargo bolero test any_arguments_are_parsed` runs the parser until it is stopped.

use palisade_bwrap::arguments::{Identity, check, parse};

use crate::differential::Original;
use crate::host::{Fake, arguments};

/// Pieces of arguments, so that random lists get past the first option. The paths aren't on any machine.
const PIECES: &[&str] = &[
    "--args",
    "--unshare-all",
    "--unshare-user",
    "--unshare-user-try",
    "--unshare-pid",
    "--unshare-uts",
    "--share-net",
    "--clearenv",
    "--chdir",
    "--remount-ro",
    "--bind",
    "--ro-bind-try",
    "--dev-bind",
    "--proc",
    "--dev",
    "--tmpfs",
    "--mqueue",
    "--dir",
    "--file",
    "--bind-data",
    "--ro-bind-data",
    "--symlink",
    "--lock-file",
    "--sync-fd",
    "--block-fd",
    "--userns-block-fd",
    "--info-fd",
    "--json-status-fd",
    "--seccomp",
    "--add-seccomp-fd",
    "--userns",
    "--userns2",
    "--pidns",
    "--setenv",
    "--unsetenv",
    "--uid",
    "--gid",
    "--hostname",
    "--as-pid-1",
    "--disable-userns",
    "--cap-add",
    "--cap-drop",
    "--perms",
    "--perms",
    "--size",
    "--size",
    "--chmod",
    "--",
    "-x",
    "0",
    "0",
    "0",
    "0700",
    "0700",
    "99",
    "-1",
    "4294967296",
    "",
    "A",
    "A=",
    "ALL",
    "cap_kill",
    "/palisade-not-here",
    "/palisade-not-here",
    "/palisade-not-here",
    "0x7fffffffffffffff",
    "--file-label",
    "--help",
    "--version",
    // Newer than 0.8:
    "--argv0",
    "--level-prefix",
    "--level-prefix",
    "--bind-fd",
    "--ro-bind-fd",
    "--overlay-src",
    "--overlay-src",
    "--overlay-src",
    "--overlay",
    "--tmp-overlay",
    "--ro-overlay",
];
/// How many of these are newer than 0.8.
const NEWER: usize = 11;
/// How many random lists are compared.
const LISTS: u32 = 300;

#[test]
fn any_arguments_are_parsed() {
    bolero::check!().with_type::<(Vec<Vec<u8>>, Vec<u8>)>().for_each(|(lists, data)| {
        let whole = lists.iter().map(|list| list.iter().copied().filter(|&byte| byte != 0).collect());
        let pieces = lists.concat().into_iter().map(|byte| piece(PIECES, usize::from(byte)));
        for texts in [whole.collect::<Vec<Vec<u8>>>(), pieces.collect()] {
            for uid in [0, 1000] {
                let mut host = Fake::with(0, data);
                host.identity = Identity { uid, gid: 5, capabilities: 7 };
                if let Ok(request) = parse(&arguments(&texts), &mut host) {
                    let _result = check(&request, &host.identity);
                    assert!(
                        uid == 0 || request.namespaces.user != request.descriptors.user_namespace.is_some()
                    );
                }
            }
        }
    });
}

fn piece(pieces: &[&str], place: usize) -> Vec<u8> {
    pieces.get(place % pieces.len().max(1)).unwrap_or(&"").as_bytes().to_vec()
}

/// Numbers by a multiplication, so that a failure comes again.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit.max(1)
    }

    fn texts(&mut self, pieces: &[&str], most: usize) -> Vec<Vec<u8>> {
        (0..self.below(most)).map(|_| piece(pieces, self.below(pieces.len()))).collect()
    }
}

#[test]
fn random_arguments_end_as_with_the_original() {
    let Some(original) = Original::find() else {
        eprintln!("this machine has no bubblewrap");
        return;
    };
    let known = if original.newer { PIECES.len() } else { PIECES.len() - NEWER };
    let pieces = PIECES.get(..known).unwrap_or_default();
    let mut numbers = Numbers(1);
    let mut compared = 0;
    for _ in 0..LISTS {
        let mut texts = numbers.texts(pieces, 9);
        let mut data = numbers.texts(pieces, 9).join(&0);
        if numbers.below(3) == 0 {
            texts.splice(0..0, [b"--args".to_vec(), b"0".to_vec()]);
        } else {
            data.resize(data.len().next_multiple_of(8), b' ');
        }
        compared += u32::from(original.compare(&arguments(&texts), &data));
    }
    assert!(compared > LISTS / 2, "{compared}");
}
