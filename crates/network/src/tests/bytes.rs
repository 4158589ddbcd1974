// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests with many bytes, many connections, and connections that are half closed.

use std::hash::Hasher;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, spawn_local};

use super::{Serve, World, exactly, rest, run, say};
use crate::pipe::Pool;
use crate::relay::{Pump, relay};
use palisade_event::Outcome;

/// Bytes that are the same each time, and don't repeat.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..count).map(|_| next()).collect()
}

fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

#[test]
fn a_large_transfer_both_ways_at_once_is_what_was_sent() {
    run(async {
        let world = World::new(Serve::Echo).await;
        let mut bytes = noise(32 << 20);
        bytes[0] = 0;
        let client = world.named("good.example", 5000).await;
        let (mut read, mut write) = client.into_split();
        let (sent, count) = (sum(&bytes), bytes.len());
        let sender = spawn_local(async move {
            write.write_all(&bytes).await.unwrap();
            write.shutdown().await.unwrap();
        });
        let mut back = Vec::with_capacity(count);
        read.read_to_end(&mut back).await.unwrap();
        sender.await.unwrap();
        assert_eq!(back.len(), count);
        assert_eq!(sum(&back), sent);
        let closed = world.told(&[Outcome::Opened]).await.detail;
        assert_eq!(
            (closed.outcome, closed.sent, closed.received),
            (Outcome::Closed, count as u64, count as u64)
        );
    });
}

#[test]
fn a_thousand_connections_at_once() {
    run(async {
        let world = World::new(Serve::Echo).await;
        let mut clients = Vec::new();
        for _ in 0..1000 {
            clients.push(world.named("good.example", 5000).await);
        }
        let mut tasks = JoinSet::new();
        for (number, mut client) in clients.into_iter().enumerate() {
            tasks.spawn_local(async move {
                let bytes = [&[0], format!("number {number}").repeat(100).as_bytes()].concat();
                client.write_all(&bytes).await.unwrap();
                assert_eq!(exactly(&mut client, bytes.len()).await, bytes);
                client.shutdown().await.unwrap();
                assert_eq!(rest(&mut client).await, b"");
            });
        }
        let mut done = 0;
        while let Some(result) = tasks.join_next().await {
            result.unwrap();
            done += 1;
        }
        assert_eq!(done, 1000);
    });
}

/// Two ends of a connection.
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

#[test]
fn either_half_ends_on_its_own() {
    run(async {
        let (mut client, inner) = pair().await;
        let (outer, mut server) = pair().await;
        let task = spawn_local(async move {
            let pool = Pool::default();
            let (mut up, mut down) = (Pump::new(b"early ".to_vec()), Pump::new(Vec::new()));
            relay(&inner, &outer, &mut up, &mut down, &pool).await.unwrap();
            (up.bytes, down.bytes)
        });
        say(&mut client, b"words", false).await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(rest(&mut server).await, b"early words");
        say(&mut server, b"after the end", false).await.unwrap();
        assert_eq!(exactly(&mut client, 13).await, b"after the end");
        drop(server);
        assert_eq!(rest(&mut client).await, b"");
        assert_eq!(task.await.unwrap(), (11, 13));
    });
}

#[test]
fn a_reset_of_one_side_is_a_reset_of_the_other() {
    run(async {
        let (mut client, inner) = pair().await;
        let (outer, server) = pair().await;
        let task = spawn_local(async move {
            let pool = Pool::default();
            let (mut up, mut down) = (Pump::new(Vec::new()), Pump::new(Vec::new()));
            relay(&inner, &outer, &mut up, &mut down, &pool).await
        });
        crate::stream::abort(&server);
        drop(server);
        let error = client.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        assert!(task.await.unwrap().is_err());
    });
}

#[test]
fn a_reader_that_does_not_read_stops_the_writer_and_nothing_else() {
    run(async {
        let world = World::new(Serve::Silent).await;
        let mut slow = world.named("good.example", 5000).await;
        let mut fast = world.named("good.example", 5001).await;
        say(&mut slow, b"\0", false).await.unwrap();
        say(&mut fast, b"\0fast", false).await.unwrap();
        while !super::contains(&world.heard.borrow(), "fast") {
            tokio::task::yield_now().await;
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
}
