// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures what a connection costs. `cargo test --release -p palisade-network measured -- --ignored --nocapture` shows
//! numbers.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

use super::{Serve, World, exactly, run, say};
use crate::accept::redirected;
use crate::carry::Link;

/// How much of our own memory an idle connection may take, in addition to the kernel's.
const IDLE: usize = 4096;

#[test]
fn an_idle_connection_is_small() {
    run(async {
        let world = World::new(Serve::Echo).await;
        let task = redirected(Rc::clone(&world.engine), world.direct().await);
        // The runtime keeps 2 × 256 bytes for the two sockets beside the task itself.
        let size = size_of_val(&task) + size_of::<Link>() + 2 * 256;
        println!("{size} bytes: the task {}, the link {}", size_of_val(&task), size_of::<Link>());
        assert!(size <= IDLE, "{size}");
    });
}

/// The CPU time of this thread.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.try_into().unwrap())
}

const SENT: usize = 4 << 30;

/// A server that sends, in a thread of its own. Returns its address.
fn source() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::Write;
        while let Ok((mut stream, _peer)) = listener.accept() {
            let bytes = vec![7; 1 << 20];
            for _ in 0..SENT / bytes.len() {
                if stream.write_all(&bytes).is_err() {
                    break;
                }
            }
        }
    });
    address
}

fn drained(mut stream: std::net::TcpStream) -> f64 {
    use std::io::Read;
    let mut buffer = vec![0; 1 << 20];
    let (begun, mut all) = (Instant::now(), 0);
    stream.set_nonblocking(false).unwrap();
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => return all as f64 / begun.elapsed().as_secs_f64() / f64::from(1 << 30),
            count => all += count,
        }
    }
}

#[test]
#[ignore = "a measurement"]
fn throughput_and_latency() {
    for _round in 0..3 {
        let address = source();
        let direct = drained(std::net::TcpStream::connect(address).unwrap());
        run(async {
            let world = World::with(
                Serve::Echo,
                &super::rules(
                    palisade_policy::network::Fallback::Deny,
                    &["allow good.example", "allow 127.0.0.0/8"],
                ),
                |engine| engine.place = Box::new(move |_anywhere| address),
            )
            .await;
            let client = world.named("good.example", 5000).await.into_std().unwrap();
            let before = cpu();
            let (done, finished) = tokio::sync::oneshot::channel();
            std::thread::spawn(move || done.send(drained(client)));
            let relayed = finished.await.unwrap();
            let cpu = (cpu() - before).as_secs_f64() / (SENT as f64 / f64::from(1 << 30));
            println!("{direct:.2} GiB/s directly, {relayed:.2} relayed; {cpu:.3} CPU-s per GiB");
        });
    }
    run(async {
        let world = World::new(Serve::Echo).await;
        let mut client = world.named("good.example", 5000).await;
        say(&mut client, b"\0", false).await.unwrap();
        exactly(&mut client, 1).await;
        let mut straight = TcpStream::connect(world.server).await.unwrap();
        for (name, stream) in [("straight", &mut straight), ("relayed", &mut client)] {
            let mut times: Vec<Duration> = Vec::new();
            for _ in 0..5000 {
                let begun = Instant::now();
                stream.write_all(b"ping").await.unwrap();
                let mut answer = [0; 4];
                stream.read_exact(&mut answer).await.unwrap();
                times.push(begun.elapsed());
            }
            times.sort();
            println!("{name}: a round trip {:?}, 99 % within {:?}", times[2500], times[4950]);
        }
        let mut times = Vec::new();
        for _ in 0..500 {
            let begun = Instant::now();
            let mut client = world.named("good.example", 5000).await;
            say(&mut client, b"\0", false).await.unwrap();
            exactly(&mut client, 1).await;
            times.push(begun.elapsed());
        }
        times.sort();
        println!("connect and first byte: {:?}, 99 % within {:?}", times[250], times[495]);
    });
}

#[test]
#[ignore = "a measurement"]
fn memory_of_idle_connections() {
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    run(async {
        let _limit = crate::admission::affordable();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        spawn_local(async move {
            let mut all = Vec::new();
            while let Ok((stream, _peer)) = listener.accept().await {
                all.push(stream.into_std().unwrap());
            }
        });
        let world = World::with(
            Serve::Silent,
            &super::rules(
                palisade_policy::network::Fallback::Deny,
                &["allow good.example", "allow 127.0.0.0/8"],
            ),
            |engine| engine.place = Box::new(move |_anywhere| address),
        )
        .await;
        let mut clients = Vec::new();
        let mut before = 0;
        for number in 0..4200 {
            if number == 200 {
                before = resident();
            }
            let mut client = world.named("good.example", 5000).await;
            say(&mut client, b"\0", false).await.unwrap();
            clients.push(client.into_std().unwrap());
            tokio::time::sleep(Duration::from_micros(300)).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let after = resident();
        println!("{} bytes for each idle connection", (after - before) * 1024 / 4000);
    });
}
