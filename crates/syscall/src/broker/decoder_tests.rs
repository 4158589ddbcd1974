// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzz tests of the decoding of notifications. Whatever a notification says and the caller's memory holds, the
//! broker reads no more than it asked for, and unreadable memory is an error.

use super::*;
use crate::broker::caller::{Caller, PATH_MAX};
use palisade_sys::notify::Notification;

/// Larger than any thread's number on Linux.
const NOBODY: u32 = 0x0040_0001;

fn shared(learn: bool) -> Arc<Shared> {
    let open = |path: &str| -> OwnedFd { std::fs::File::open(path).unwrap().into() };
    Arc::new(Shared {
        // Answers go nowhere.
        listener: Listener::from(open("/dev/null")),
        workers: workers::Workers::default(),
        proc: open("/proc"),
        callers: Callers::new(),
        name_policy: NamePolicy::new(ProtectedPaths::default()),
        refusals: refusals::Refusals::new(all_allowed()),
        order: RwLock::new(()),
        reporter: Reporter::new(open("/dev/null")),
        waiters: waiter::Waiters::default(),
        bound: bound::Bound::default(),
        connections: None,
        given_names: given_names::GivenNames::default(),
        baselines: config::Baselines::default(),
        being_written: written::BeingWritten::default(),
        umask: 0o22,
        session: 0,
        in_place: false,
        apart: true,
        terminal: None,
        observer: learn.then(observe::Observer::default),
        judge: None,
        answerer: None,
        programs: None,
    })
}

fn all_allowed() -> Filter {
    crate::compile(&crate::Rules::new(crate::Action::Allow), Arch::NATIVE).unwrap()
}

fn worker(shared: &Arc<Shared>) -> Worker<'_> {
    Worker {
        shared,
        umask: core::cell::Cell::new(0o22),
        operations: core::cell::RefCell::default(),
        locks: repository::Locks::default(),
        spot: together::Spot::default(),
        judged: walls::Judged::default(),
    }
}

fn notification(number: i32, thread: u32, arguments: [u64; 6]) -> Notification {
    let mut call = Notification::default();
    (call.id, call.number, call.thread, call.arguments) = (1, number, thread, arguments);
    call
}

/// This thread's number, as a notification would report it.
fn own() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

#[test]
fn calls_of_threads_that_are_gone_all_fail() {
    let (plain, learning) = (shared(false), shared(true));
    let mut tried = 0;
    bolero::check!().with_iterations(30_000).with_type::<(u16, bool, u32, u32, [u64; 6])>().for_each(
        |(number, known, any, thread, arguments)| {
            // Mostly numbers of existing calls.
            let number = if *known { i32::from(number % 470) } else { any.cast_signed() };
            let call = notification(number, thread | NOBODY, *arguments);
            for shared in [&plain, &learning] {
                let worker = worker(shared);
                let failed = match worker.make(&call) {
                    Err(_) => true,
                    // While a command is learned, the kernel makes calls that only read. It also makes opens by
                    // `O_PATH`, which change nothing.
                    Ok(Outcome::Continue) => shared.observer.is_some() || calls::opens_by_path(&call),
                    Ok(_) => false,
                };
                assert!(failed, "{call:?}");
                // The answer reaches no caller: no such call exists.
                worker.conclude(&call, Err(Errno::NOSYS));
            }
            tried += 1;
        },
    );
    assert!(tried > 0);
}

#[test]
fn strings_end_where_they_end() {
    let shared = shared(false);
    let (mut read, mut refused) = (0, 0);
    bolero::check!().with_iterations(20_000).with_type::<(Vec<u8>, u16, u16, u8)>().for_each(
        |(bytes, from, limit, index)| {
            // Append a null: the memory behind these bytes belongs to this process too.
            let mut memory = bytes.clone();
            memory.push(0);
            let from = usize::from(*from) % memory.len();
            let mut arguments = [0; 6];
            let index = usize::from(index % 6);
            arguments[index] = memory[from..].as_ptr().expose_provenance() as u64;
            let call = notification(0, own(), arguments);
            let worker = worker(&shared);
            let caller = Caller::new(&worker, &call);
            let expected = memory[from..].split(|byte| *byte == 0).next().unwrap();
            let limit = usize::from(*limit) % (PATH_MAX + 1);
            match caller.string(index, limit) {
                Ok(text) => {
                    read += 1;
                    assert_eq!(text.as_bytes(), expected);
                    assert!(text.as_bytes().len() < limit);
                }
                Err(Errno::RANGE) => assert!(expected.len() >= limit, "{} {limit}", expected.len()),
                Err(errno) => panic!("{errno}"),
            }
            match caller.path(index) {
                Ok(path) => assert_eq!(path.as_bytes(), expected),
                Err(errno) => {
                    refused += 1;
                    assert_eq!((errno, expected), (Errno::NOENT, &b""[..]));
                }
            }
            assert_eq!(caller.bytes(index, memory.len() - from).unwrap(), memory[from..]);
            // An argument beyond the sixth reads as 0.
            assert_eq!(caller.argument(6 + index), 0);
        },
    );
    assert!(read > 0 && refused > 0);
}

#[test]
fn addresses_that_cant_be_read_are_errors() {
    let shared = shared(false);
    bolero::check!().with_iterations(20_000).with_type::<(u64, u16)>().for_each(|(any, length)| {
        // Addresses in the first page, in the kernel's half, and at the wrap-around.
        for address in [any % 4096, any | 1 << 63, u64::MAX - any % 4096] {
            let call = notification(0, own(), [address; 6]);
            let worker = worker(&shared);
            let caller = Caller::new(&worker, &call);
            assert_eq!(caller.path(0), Err(Errno::FAULT), "{address:x}");
            assert_eq!(caller.string(1, usize::from(*length) + 1), Err(Errno::FAULT), "{address:x}");
            assert_eq!(caller.bytes(2, usize::from(*length) + 1), Err(Errno::FAULT), "{address:x}");
        }
    });
}

#[test]
fn a_string_without_an_end_is_too_long() {
    let shared = shared(false);
    let memory = vec![b'a'; 3 * PATH_MAX];
    for from in [0, 1, 255, 256, 257, 4095, 4096] {
        let call = notification(0, own(), [memory[from..].as_ptr().expose_provenance() as u64; 6]);
        let worker = worker(&shared);
        let caller = Caller::new(&worker, &call);
        assert_eq!(caller.path(0), Err(Errno::NAMETOOLONG));
        assert_eq!(caller.string(0, 300), Err(Errno::RANGE));
    }
}
