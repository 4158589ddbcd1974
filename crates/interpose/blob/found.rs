// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which sites were found by trap, and in which files, for who wants to know: a list that all programs share.

use crate::layout::{ANONYMOUS, CODE, CODE_LENGTH, FILES, FOUND, File, OFFSET};
use crate::maps::{self, Mapping};
use crate::{shared, state};
use core::sync::atomic::Ordering;

/// Puts down a site that has trapped for the first time in this process, and what code is mapped.
pub(crate) fn note(site: u64) {
    // What is mapped can't be asked for any more.
    if state().sealed.load(Ordering::Relaxed) != 0 {
        shared().unlisted.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let mut key = ANONYMOUS | site & OFFSET;
    maps::each(|mapping| {
        let own = (CODE..CODE + CODE_LENGTH).contains(&(mapping.start as usize));
        if mapping.is_program()
            && !own
            && let Some(file) = file(mapping)
            && (mapping.start..mapping.end).contains(&site)
        {
            key = (file as u64 + 1) << OFFSET.count_ones() | (site - mapping.start + mapping.offset) & OFFSET;
        }
        false
    });
    let hash = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    for step in 0..FOUND {
        let place = &shared().found[(hash + step) % FOUND];
        match place.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            Err(known) if known == key => return,
            Err(_) => {}
        }
    }
    shared().unlisted.fetch_add(1, Ordering::Relaxed);
}

/// The number of a file; none if there is no room for it.
fn file(mapping: &Mapping) -> Option<usize> {
    for (number, file) in shared().files.iter().enumerate() {
        // Being written: by another thread, for a moment, or by one that was killed.
        let mut state = file.state.load(Ordering::Acquire);
        if state == 0 {
            match file.state.compare_exchange(0, File::FILLING, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => {
                    fill(file, mapping);
                    return Some(number);
                }
                Err(other) => state = other,
            }
        }
        let mut patience = 1_000_000;
        while state == File::FILLING && patience > 0 {
            core::hint::spin_loop();
            patience -= 1;
            state = file.state.load(Ordering::Acquire);
        }
        let same = state == File::WHOLE
            && file.device.load(Ordering::Relaxed) == mapping.device
            && file.inode.load(Ordering::Relaxed) == mapping.inode;
        if same {
            return Some(number);
        }
    }
    const { assert!(FILES < 1 << 14) };
    None
}

fn fill(file: &File, mapping: &Mapping) {
    file.device.store(mapping.device, Ordering::Relaxed);
    file.inode.store(mapping.inode, Ordering::Relaxed);
    for (to, from) in file.path.iter().zip(&mapping.path[..mapping.length]) {
        to.store(*from, Ordering::Relaxed);
    }
    file.length.store(mapping.length as u32, Ordering::Relaxed);
    file.state.store(File::WHOLE, Ordering::Release);
}
