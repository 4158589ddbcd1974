// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This process's own arguments and environment, where the kernel put them.

use core::ffi::{CStr, c_char};

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The environment as it was at exec: no copies.
///
/// Palisade never changes its own environment, so the strings stay where they are.
pub fn environment() -> impl Iterator<Item = &'static CStr> {
    // SAFETY: needed to read the environment without two allocations a variable. Sound: the array
    // ends in a null pointer, and nothing in this program calls setenv or putenv.
    let mut next = unsafe { environ };
    core::iter::from_fn(move || {
        if next.is_null() {
            return None;
        }
        // SAFETY: as above; `next` points into the array or at its null end.
        let string = unsafe { *next };
        if string.is_null() {
            return None;
        }
        // SAFETY: as above: not at the end, so there is a next element.
        next = unsafe { next.add(1) };
        // SAFETY: as above: each element is a C string that lives as long as the process.
        Some(unsafe { CStr::from_ptr(string) })
    })
}
