// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that a lookup in the index allocates nothing: there is one at each keystroke.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use palisade_shell::history::{Entry, Found, Index, LIST};

struct Counting;

thread_local! {
    // Counts only this thread's allocations: the index sorts in another thread.
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _thread_ends = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn entry(number: i64) -> Entry {
    let line = match number % 4 {
        0 => format!("git commit -m 'change {number}'"),
        1 => format!("ls größe/{}", number / 9),
        2 => format!("{}{number}", "kubectl --namespace=production-eu ".repeat(4)),
        _ => format!("x{}", "y".repeat(usize::try_from(number % 3000).unwrap_or(0))),
    };
    Entry {
        line,
        directory: format!("/home/p{}", number % 50),
        started: number,
        exit: Some(i32::from(number % 7 == 0)),
        ..Entry::default()
    }
}

#[test]
fn asking_allocates_nothing() {
    let entries: Vec<Entry> = (0..4_000).map(entry).collect();
    let mut index = Index::build(&entries);
    // Some lines are fresh.
    for number in 4_000..4_020 {
        index.add(&entry(number));
    }
    let lines: Vec<&str> = entries.iter().step_by(97).map(|entry| entry.line.as_str()).collect();
    let mut into = [Found::default(); LIST];
    let (mut suggested, mut listed) = (0, 0);
    let before = COUNT.with(Cell::get);
    for line in lines {
        for length in [0, 1, 2, 5, 9, 20, 100, line.len().saturating_sub(1), line.len()] {
            let Some(typed) = line.get(..length.min(line.len())) else { continue };
            for directory in ["/home/p1", "/home/p49", "/never", ""] {
                suggested += usize::from(index.suggest(typed, directory).is_some());
                listed += index.list(typed, directory, &mut into);
            }
        }
        listed += index.list("no such line", "/", &mut into) + index.list("roduction", "/home/p2", &mut into);
    }
    assert_eq!(COUNT.with(Cell::get), before);
    assert!(suggested > 1000 && listed > 5_000, "{suggested} {listed}");
}
