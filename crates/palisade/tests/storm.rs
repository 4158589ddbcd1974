// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts many sandboxes from one process, and checks that its threads, descriptors and children don't increase.

use crate::everybody::{Place, children, held};
use palisade_acceptance::patience::eventually;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How many are started each second.
const RATE: u32 = 100;
/// Threads that start them.
const THREADS: u32 = 8;

/// For how long: `PALISADE_SOAK_SECONDS`, or shortly.
fn seconds() -> u64 {
    std::env::var("PALISADE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// Prints how many were started of those that should have been.
fn tell(who: &str, started: usize) {
    let wanted = u64::from(RATE) * seconds();
    eprintln!("{who}: {started} of {wanted} sandboxes in {} s", seconds());
    assert!(started > 0);
}

#[test]
fn a_program_with_many_threads_starts_many() {
    let place = Place::new();
    let sandbox = place.sandbox();
    sandbox.command("true").status().unwrap();
    let before = held();
    let started = AtomicUsize::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (sandbox, started) = (&sandbox, &started);
            scope.spawn(move || {
                let command = sandbox.command("true");
                let each = Duration::from_secs(1) * THREADS / RATE;
                let mut next = begun + each * number / THREADS;
                while begun.elapsed() < Duration::from_secs(seconds()) {
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                    next += each;
                    assert!(command.status().unwrap().success());
                    started.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    tell("threads", started.into_inner());
    // A thread that was joined may still be visible for a moment.
    assert!(eventually(Duration::from_secs(5), || held() == before), "{:?} {before:?}", held());
    assert_eq!(children(), Vec::<u32>::new());
}

#[cfg(feature = "tokio")]
#[test]
fn a_server_with_tokio_starts_many() {
    let place = Place::new();
    let sandbox = place.sandbox();
    sandbox.command("true").status().unwrap();
    let before = held();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let started = runtime.block_on(async {
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / RATE);
        let begun = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        let mut started = 0;
        while begun.elapsed() < Duration::from_secs(seconds()) {
            ticks.tick().await;
            // A server handles this many at once.
            if tasks.len() >= 32 {
                tasks.join_next().await.unwrap().unwrap();
            }
            let command = sandbox.command("true");
            tasks.spawn(async move {
                let mut child = command.spawn_async().await.unwrap();
                assert!(child.wait_async().await.unwrap().success());
            });
            started += 1;
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        started
    });
    drop(runtime);
    tell("tokio", started);
    // A thread that was joined may still be visible for a moment.
    assert!(eventually(Duration::from_secs(5), || held() == before), "{:?} {before:?}", held());
    assert_eq!(children(), Vec::<u32>::new());
}
