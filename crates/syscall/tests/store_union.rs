// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that a profile may do the union of what its binaries did under it, and that the union only grows.

use std::collections::{BTreeMap, BTreeSet};

use palisade_syscall::Syscall;
use palisade_syscall::store::{Binary, Store};
use proptest::prelude::*;

type Seen = BTreeMap<Binary, BTreeSet<Syscall>>;

fn some_calls() -> impl Strategy<Value = BTreeSet<Syscall>> {
    let all: Vec<Syscall> = Syscall::all().collect();
    proptest::collection::btree_set(proptest::sample::select(all), 0..6)
}

fn lesson() -> impl Strategy<Value = (u8, Seen)> {
    let binaries =
        (0_u8..4).prop_map(|number| Binary { path: format!("/{number}").into(), hash: [number; 32] });
    (0_u8..3, proptest::collection::btree_map(binaries, some_calls(), 0..4))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Learning more never removes a call from any profile, and the result equals that of a model without SQL.
    #[test]
    fn the_union_only_grows(lessons in proptest::collection::vec(lesson(), 1..8)) {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::open(&directory.path().join("palisade/syscalls.sqlite")).unwrap();
        let mut of_profile: BTreeMap<String, Seen> = BTreeMap::new();
        let mut before: BTreeMap<String, BTreeSet<Syscall>> = BTreeMap::new();
        for (profile, seen) in lessons {
            let profile = profile.to_string();
            let pairs = |all: &Seen| all.values().map(BTreeSet::len).sum::<usize>();
            let new = store.learn(&profile, &seen).unwrap();
            let own = of_profile.entry(profile).or_default();
            let known = pairs(own);
            for (binary, calls) in seen {
                own.entry(binary).or_default().extend(calls);
            }
            prop_assert_eq!(new, pairs(own) - known);
            for (profile, own) in &of_profile {
                let expected: BTreeSet<Syscall> = own.values().flatten().copied().collect();
                let allowed = store.allowed(profile).unwrap().unwrap();
                prop_assert_eq!(&allowed, &expected);
                let previous = before.insert(profile.clone(), allowed).unwrap_or_default();
                prop_assert!(previous.is_subset(&expected));
            }
        }
    }
}
