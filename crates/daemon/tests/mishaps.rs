// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests mishaps of a guard, one after the other and at random: how long the host waits, what is answered meanwhile, and
//! that the mishap is reported. An unaffected process measures this.
//!
//! `PALISADE_SOAK_SECONDS` sets how long random mishaps happen; `./x test soak` uses ten minutes. `PALISADE_MISHAPS_ONLY`
//! selects the mishaps whose name contains this text.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

pub(crate) mod gauge;
mod kinds;
mod surroundings;

use crate::faults::WAIT;
use crate::support::lines::tell;
use crate::support::{Bed, Settings, compile, has};
use gauge::Gauge;
use kinds::Mishap;
use palisade_protocol::guard::Request;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use surroundings::MemoryGroup;

/// How long random mishaps happen without `PALISADE_SOAK_SECONDS`.
const SECONDS: u64 = 20;

/// The guard reads a file on the disk before it is opened.
const RULES: &str = "deny_log perm=execute all : path=BED/untrusted,BED/more/untrusted\n\
                     deny_log perm=open all : dir=BED/disk/,BED/text/ ftype=text/x-python,text/x-script.python\nallow perm=any all : all\n";

/// A guard, and a thread that reads its messages unless that is stopped.
struct Scene {
    bed: Bed,
    said: Arc<Mutex<Vec<u8>>>,
    reads: Arc<AtomicBool>,
    /// How long something is stopped.
    stopped: Duration,
    /// The guard's memory group, if there can be one.
    memory: Option<MemoryGroup>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tell(&String::from_utf8_lossy(&self.said.lock().unwrap()));
            tell(&format!("status: {:?}", self.bed.try_ask(&Request::Status)));
            let guard = self.bed.guard_lives().then(|| self.bed.pid());
            let standby = guard.and_then(|_| crate::stopped::standby(&self.bed));
            for pid in guard.into_iter().chain(standby) {
                let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
                for thread in threads {
                    let of =
                        |name: &str| std::fs::read_to_string(thread.path().join(name)).unwrap_or_default();
                    tell(&format!("{} {}", of("stat"), of("wchan")));
                }
            }
        }
    }
}

impl Scene {
    fn new(stopped: Duration) -> Option<Self> {
        if !["fanotify", "gcc"].into_iter().all(has) {
            return None;
        }
        let mut bed = Bed::new();
        let points = ["", "/disk", "/more"].map(|name| format!("\"{}{name}\"", bed.point.display()));
        let watch = format!("only = [{}]", points.join(", "));
        bed.settings(&Settings { trust: "sources = []".into(), watch, ..Settings::enforce() });
        bed.rules(RULES);
        bed.life = 1200;
        bed.write(bed.at("plain"), "plain");
        let program = compile("int main() { return 0; }", &["-static"]);
        for name in ["trusted", "untrusted"] {
            bed.program(bed.at(name), &program);
        }
        bed.program(bed.at("gauge"), compile(gauge::PROGRAM, &["-static"]));
        let memory = MemoryGroup::new();
        if let Some(memory) = &memory {
            bed.starter = memory.starter();
        }
        let reads = Arc::new(AtomicBool::new(true));
        let mut scene = Self { bed, said: Arc::default(), reads, stopped, memory };
        scene.start();
        Some(scene)
    }

    /// Starts a guard. A thread reads its messages.
    fn start(&mut self) {
        let (mut reader, writer) = std::io::pipe().unwrap();
        self.bed.said = Some(Stdio::from(OwnedFd::from(writer)));
        let (said, reads) = (Arc::clone(&self.said), Arc::clone(&self.reads));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                while !reads.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                match reader.read(&mut buffer) {
                    Ok(count @ 1..) => said.lock().unwrap().extend(&buffer[..count]),
                    _ => return,
                }
            }
        });
        self.bed.launch();
        self.bed.wait("the guard refuses", |bed| {
            bed.run("./untrusted").code == Some(126) && crate::stopped::standby(bed).is_some()
        });
    }

    fn has_said(&self, what: &str) -> bool {
        String::from_utf8_lossy(&self.said.lock().unwrap()).contains(what)
    }
}

/// When a mishap happened, in µs, and which.
struct Window {
    mishap: &'static Mishap,
    from: u64,
    to: u64,
}

/// Causes the mishap, and checks that it is reported.
fn befall(scene: &mut Scene, mishap: &'static Mishap) -> Window {
    if let Some(words) = mishap.said {
        // An alarm is reported once while its cause lasts, and the mishap before may have had the same cause.
        let words = words.trim_start_matches("alarm: ");
        scene.bed.wait(&format!("{}: it isn't so any more", mishap.name), |bed| {
            !bed.status().alarms.iter().any(|alarm| alarm.contains(words))
        });
    }
    scene.said.lock().unwrap().clear();
    let from = gauge::now();
    (mishap.act)(scene);
    let to = gauge::now();
    if let Some(words) = mishap.said {
        scene.bed.wait(&format!("{}: it is said: {words}", mishap.name), |_| scene.has_said(words));
    }
    let again = format!("{}: the guard refuses again", mishap.name);
    scene.bed.wait(&again, |bed| bed.run("./untrusted").code == Some(126));
    Window { mishap, from, to }
}

/// Compares the measurements with what is allowed.
fn judge(gauge: Gauge, windows: &[Window]) {
    let records = gauge.end();
    let crowd = palisade_acceptance::patience::crowd().max(1.0);
    let limit = WAIT.mul_f64(crowd);
    // A guard that was started or continued gets questions only after a moment.
    let moment = 1_000_000 + u64::try_from(WAIT.as_micros()).unwrap();
    let (mut longest, mut counts): (BTreeMap<&str, Duration>, BTreeMap<&str, u32>) = Default::default();
    windows.iter().for_each(|window| *counts.entry(window.mishap.name).or_default() += 1);
    let (mut wrong, mut refused) = (Vec::new(), 0_usize);
    for record in &records {
        let touches = |window: &&Window| record.end >= window.from && record.begin <= window.to + moment;
        let may =
            |what: fn(&Mishap) -> bool| windows.iter().filter(touches).any(|window| what(window.mishap));
        let waited = Duration::from_micros(record.end - record.begin);
        let during = windows.iter().rfind(|window| window.from <= record.end);
        let during = during.map_or("nothing", |window| window.mishap.name);
        let most = longest.entry(during).or_default();
        *most = waited.max(*most);
        let fits = match record.what {
            gauge::What::Untrusted if record.worked => may(|mishap| mishap.opens),
            gauge::What::Untrusted => {
                refused += 1;
                true
            }
            _ => record.worked || may(|mishap| mishap.refuses),
        };
        if !fits || waited > limit {
            wrong.push(format!("{during}: {record:?}"));
        }
    }
    tell(&format!("{} opens and execs were measured, {refused} execs refused", records.len()));
    for (name, most) in &longest {
        let count = counts.get(name).copied().unwrap_or(0);
        tell(&format!("{name}: {count} times, longest wait {} ms", most.as_millis()));
    }
    let enough = refused >= windows.len() && records.len() > 25 * windows.len();
    assert!(enough, "{refused} of {} in {} mishaps", records.len(), windows.len());
    assert!(wrong.is_empty(), "{} of {}: {:#?}", wrong.len(), records.len(), &wrong[..wrong.len().min(20)]);
}

#[test]
fn nothing_that_happens_to_a_guard_holds_up_the_host() {
    let Some(mut scene) = Scene::new(2 * WAIT) else { return };
    let gauge = Gauge::start(&scene.bed);
    let windows: Vec<Window> = kinds::all().into_iter().map(|mishap| befall(&mut scene, mishap)).collect();
    judge(gauge, &windows);
    scene.bed.stop();
}

#[test]
fn whatever_happens_next_an_untrusted_program_is_refused() {
    let Some(mut scene) = Scene::new(WAIT) else { return };
    let seconds = std::env::var("PALISADE_SOAK_SECONDS").map_or(SECONDS, |text| text.parse().unwrap());
    let mut seed = gauge::now() | 1;
    tell(&format!("seed {seed}"));
    let gauge = Gauge::start(&scene.bed);
    let all = kinds::all();
    let (until, mut windows) = (gauge::now() + seconds * 1_000_000, Vec::new());
    while gauge::now() < until {
        // xorshift64
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let next = usize::try_from(seed % u64::try_from(all.len()).unwrap()).unwrap();
        windows.push(befall(&mut scene, all[next]));
    }
    tell(&format!("{} mishaps in {seconds} s", windows.len()));
    judge(gauge, &windows);
    scene.bed.stop();
}
