// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records the call sites that were found by trap, and their files, for `--sites`: a list that all programs share.

use crate::layout::{ANONYMOUS, CODE, CODE_LENGTH, FILES, FOUND, File, OFFSET};
use crate::maps::{self, Mapping};
use crate::{shared, state};
use core::sync::atomic::Ordering;

/// Records a site that has trapped for the first time in this process, and the code that is mapped.
pub(crate) fn note(site: u64) {
    // Under the program's own filter our code makes no calls of its own, so it can't read the mappings.
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

/// The number of a file; `None` if there is no room for it.
fn file(mapping: &Mapping) -> Option<usize> {
    for (number, file) in shared().files.iter().enumerate() {
        // Another thread may be writing it for a moment, or was killed while it did.
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
