// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that decisions don't allocate: the guard answers while every open on the host waits, and also when memory is
//! short.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use palisade_guard::decide::Decider;
use palisade_guard::facts::{Access, Start};
use palisade_guard::known::Known;
use palisade_guard::rule::accounts::AccountFiles;
use palisade_guard::rule::parse::parse;

struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
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

#[test]
fn decisions_do_not_allocate() {
    let mut text = String::new();
    for number in 0..2_000u32 {
        text.push_str(&match number % 6 {
            0 => format!("allow perm=any all : path=/opt/tool{number} trust=1\n"),
            1 => format!("deny perm=any exe=untrusted,/usr/bin/a{number} : dir=/home/,untrusted\n"),
            2 => format!("allow perm=any gid={number} : path=glob:/home/*/tool{number}\n"),
            3 => format!("deny_audit perm=execute uid={number} pattern=ld_so : filehash={number:064x}\n"),
            4 => format!("allow perm=any exe=/a exe=/b{number} : ftype=text/x-{number}\n"),
            _ => format!("deny perm=any comm=c{number} : dir=/usr{}\n", "/a".repeat(number as usize % 50)),
        });
    }
    let rules = parse(Path::new("x"), text.as_bytes(), &AccountFiles::host()).unwrap();
    let decider = Decider::new(&rules);
    let all: Vec<Known> = (0..200u32)
        .map(|number| Known {
            access: if number % 2 == 0 { Access::Open } else { Access::Execute },
            path: format!("/usr{}", "/a".repeat(number as usize)).into_bytes(),
            exe: b"/a".to_vec(),
            gids: (0..number).collect(),
            uids: vec![number; 4],
            comm: format!("c{number}").into_bytes(),
            start: Start::LinkerItself,
            subject_trusted: true,
            hash: Some("0".repeat(64)),
            ..Known::default()
        })
        .collect();
    let before = COUNT.load(Ordering::Relaxed);
    for facts in &all {
        std::hint::black_box(decider.decide(facts));
        std::hint::black_box(decider.for_every_subject(facts));
    }
    assert_eq!(COUNT.load(Ordering::Relaxed) - before, 0);
}
