// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts what keys allocate on their way through the shell's modules, with this process's counting allocator.

use palisade_shell::chain::Module;
use palisade_sys::counting::allocations;

use crate::shell::{ShellError, operations};

/// The number of keys.
pub(crate) const KEYS: u64 = 1000;

/// The number of blocks that a thousand keys allocate, each key with its echo and ghost text. `more` are modules after those
/// that a user has.
pub(crate) fn allocated(more: Vec<Box<dyn Module>>) -> Result<u64, ShellError> {
    let mut engine = operations::engine_with(operations::few(), more)?;
    let keys: [&[u8]; 8] = [b"g", b"i", b"t", b" ", b"c", b"\x7f", b"\x1b[D", b"o"];
    let mut round = |count: u64| {
        for (_, key) in (0..count).zip(keys.iter().cycle()) {
            engine.input(key, &mut |bytes| {
                std::hint::black_box(bytes);
            });
            let echo: &[u8] = match *key {
                b"\x7f" | b"\x1b[D" => b"\x08\x1b[K",
                // Begins a new line before the line is as wide as the window.
                b"g" => b"\r\x1b[2C\x1b[Kg",
                other => other,
            };
            if *key == b"o" {
                engine.input(b"\x15", &mut |_| ());
            }
            engine.output(echo, &mut |_| (), &mut |_| ());
            engine.settle(&mut |_| (), &mut |_| ());
        }
    };
    // The first keys may fill buffers that are kept.
    round(KEYS);
    let before = allocations();
    round(KEYS);
    Ok(allocations() - before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::baseline::{Baseline, Finding};
    use palisade_shell::chain::{Acts, Flow, View};
    use palisade_shell::key::Input;

    /// A module with the flaw that the gate must find: it allocates one block per key.
    #[derive(Default)]
    struct Forgetful {
        last: Option<Box<u64>>,
    }

    impl Module for Forgetful {
        fn name(&self) -> &'static str {
            "forgetful"
        }

        fn input(&mut self, _input: &Input<'_>, _view: &View<'_>, _acts: &mut Acts) -> Flow {
            let count = self.last.as_deref().map_or(0, |last| last + 1);
            self.last = Some(std::hint::black_box(Box::new(count)));
            Flow::Forward
        }
    }

    #[test]
    fn one_more_allocation_per_key_is_caught() {
        let clean = allocated(Vec::new()).unwrap();
        let planted = allocated(vec![Box::new(Forgetful::default())]).unwrap();
        assert!(planted - clean >= KEYS, "{planted} - {clean}");
        let finding = |now| Finding {
            what: String::new(),
            now,
            before: Baseline::empty().allocations_of_1000_keys,
            allowed: 0,
        };
        assert!(!finding(clean).is_worse(), "{clean}");
        assert!(finding(planted).is_worse());
    }
}
