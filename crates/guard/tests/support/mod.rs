// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Helpers of the tests against the real fapolicyd.

#![allow(dead_code, reason = "each test uses some of it")]
#![expect(clippy::expect_used, reason = "a test dies of what it doesn't find")]

pub(crate) mod observed;
pub(crate) mod oracle;
pub(crate) mod world;

/// Is fapolicyd installed? A machine that declares it (`PALISADE_TEST_HAS=fapolicyd,…`) and doesn't have it is a
/// failure.
pub(crate) fn has_fapolicyd() -> bool {
    let there = ["/usr/sbin/fapolicyd", "/usr/sbin/fapolicyd-cli"]
        .iter()
        .all(|path| std::path::Path::new(path).exists());
    let declared = std::env::var("PALISADE_TEST_HAS").unwrap_or_default();
    assert!(
        there || !declared.split(',').any(|name| name == "fapolicyd"),
        "fapolicyd is declared, but not installed"
    );
    there
}
