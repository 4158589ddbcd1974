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

/// Overwrites arguments and environment, which anybody who may look at `/proc/PID/cmdline` reads.
///
/// For init only, which has its own copy of memory and uses neither.
pub(crate) fn wipe_arguments_and_environment() {
    // SAFETY: needed to reach the strings. Sound: see `environment`.
    let variables = unsafe { environ };
    if variables.is_null() {
        return;
    }
    // The kernel lays out: argc, argv…, NULL, envp…, NULL (System V ABI). Walking back from envp
    // over the null finds argv; its length precedes it and must agree, else nothing is touched.
    let mut count = 0usize;
    // SAFETY: needed and sound as long as the layout holds; the loop ends at argc at the latest,
    // because argc, a small number, equals the count of pointers passed by then.
    let first = unsafe {
        let mut at = variables.sub(2);
        while (*at) as usize != count {
            if count > 1 << 20 {
                return;
            }
            count += 1;
            at = at.sub(1);
        }
        if count == 0 {
            return;
        }
        *at.add(1)
    };
    let Some(last) = environment().last().map(|variable| variable.as_ptr().wrapping_add(variable.to_bytes().len()))
    else {
        return;
    };
    let length = (last as usize).wrapping_sub(first as usize);
    // 6 MiB is the kernel's own limit for arguments and environment together (ARG_MAX/4·3).
    if length > 6 << 20 {
        return;
    }
    // SAFETY: needed to overwrite. Sound: the kernel placed argument and environment strings one
    // after the other in this private, writable memory, and init reads none of them again.
    unsafe { core::ptr::write_bytes(first.cast_mut(), 0, length) };
}
