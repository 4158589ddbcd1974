// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the guard's programs on the host itself: they load, or the kernel refuses them for a known reason. Nothing is
//! attached.
#![expect(clippy::panic, reason = "a test")]

use palisade_bpf::support::{absence, modules, probe};
use palisade_bpf::{Absence, GuardPrograms, Pins, Support};

#[test]
fn the_kernel_takes_the_programs_or_refuses_in_a_known_way() {
    let found = probe().unwrap_or_else(|error| panic!("neither taken nor refused as expected: {error:?}"));
    let root = rustix::process::geteuid().is_root();
    match found {
        Support::Loads => assert!(root, "programs are for root"),
        Support::Absent(reason) => {
            assert_eq!(reason == Absence::NotRoot, !root, "{reason}");
            if let Err(error) = GuardPrograms::load() {
                assert_eq!(absence(&error), Some(reason), "it is the same twice");
            }
        }
    }
    eprintln!("here: {found:?}, modules {:?}", modules());
}

#[test]
fn where_nothing_is_pinned_nothing_is_opened_and_clearing_is_no_error() {
    let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let pins = Pins::below(directory.path().join("none"));
    assert!(!pins.exist());
    assert!(matches!(GuardPrograms::open(&pins), Ok(None)));
    assert!(matches!(pins.clear(), Ok(0)));
}
