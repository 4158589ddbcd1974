// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What scopes cost, by the kernel's own run-time statistics: for each depth, with nothing marked, marked, and watched;
//! beside it what others do, rebuilt; and what tables of marks do when a tree of processes is larger than they are.
//!
//! `./x bench scopes`, or `cargo run --release -p palisade-bpf --example scopes [--json] [EXECS [ROUNDS]]`, as root. What
//! the programs see of others on the host counts as unmarked runs; the load is most of it. The statistics' own cost (two
//! clock readings) is in every figure, also in `nothing`.

#[path = "scopes/pressure.rs"]
mod pressure;
#[path = "scopes/report.rs"]
mod report;
#[path = "scopes/statistics.rs"]
mod statistics;

use std::error::Error;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};
use palisade_bpf::scope::{Depth, Scope, ScopePrograms, Settings};
use report::Row;
use statistics::{Statistics, median, run_time};

pub(crate) const RIVALS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rivals.bpf.o"));

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    if let [_, word, count] = words.as_slice()
        && word == "work"
    {
        return work(count.parse()?);
    }
    let json = words.iter().any(|word| word == "--json");
    let mut arguments =
        words.iter().skip(1).filter(|word| *word != "--json").map(|word| word.parse::<usize>());
    let execs = arguments.next().transpose()?.unwrap_or(4000);
    let rounds = arguments.next().transpose()?.unwrap_or(5);
    let _statistics = Statistics::begin()?;
    let [spawn, shell] = baseline(execs, rounds, json)?;
    let cases = cases();
    let mut figures: Vec<Vec<Vec<f64>>> = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for (case, figures) in cases.iter().zip(&mut figures) {
            figures.push(case.measure(execs)?);
        }
    }
    let rows: Vec<Row> = cases.iter().zip(&figures).map(|(case, figures)| case.row(figures)).collect();
    if json {
        rows.iter().for_each(as_json);
    } else {
        report::print(&rows, spawn, shell);
    }
    pressure::all(json)
}

fn as_json(row: &Row) {
    let programs: Vec<String> = row.programs.iter().map(|program| format!("{program:.0}")).collect();
    let (sum, least, most) = row.sum;
    println!(
        "{{\"who\":\"{}\",\"mode\":\"{}\",\"load\":\"{}\",\"ns\":{sum:.0},\"least\":{least:.0},\"most\":{most:.0},\
         \"programs\":[{}]}}",
        row.who,
        row.mode,
        row.load,
        programs.join(",")
    );
}

/// The load: so many commands, one after another.
fn work(count: usize) -> Result<()> {
    std::io::stdin().read_to_end(&mut Vec::new())?;
    for _ in 0..count {
        if !Command::new("/bin/true").status()?.success() {
            return Err("a command failed".into());
        }
    }
    Ok(())
}

/// A load that waits for its input to end.
fn worker(execs: usize) -> Result<Child> {
    Ok(Command::new(std::env::current_exe()?)
        .args(["work", &execs.to_string()])
        .stdin(Stdio::piped())
        .spawn()?)
}

fn finish(mut worker: Child) -> Result<()> {
    drop(worker.stdin.take());
    if worker.wait()?.success() { Ok(()) } else { Err("the load failed".into()) }
}

/// What a command costs without any program: of a small program that starts it, and of a shell.
fn baseline(execs: usize, rounds: usize, json: bool) -> Result<[f64; 2]> {
    let shell = format!("i=0; while [ $i -lt {execs} ]; do /bin/true; i=$((i+1)); done");
    let mut figures = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (kind, figures) in figures.iter_mut().enumerate() {
            let began = Instant::now();
            if kind == 0 {
                finish(worker(execs)?)?;
            } else if !Command::new("sh").args(["-c", &shell]).status()?.success() {
                return Err("the shell failed".into());
            }
            #[expect(clippy::cast_precision_loss, reason = "some thousands")]
            figures.push(began.elapsed().as_nanos() as f64 / execs as f64);
        }
    }
    let mut medians = [0.0; 2];
    for ((name, figures), kept) in ["spawn", "shell"].iter().zip(&mut figures).zip(&mut medians) {
        let (median, least, most) = median(figures);
        *kept = median;
        if json {
            println!(
                "{{\"baseline\":\"{name}\",\"ns\":{median:.0},\"least\":{least:.0},\"most\":{most:.0},\"commands\":{execs}}}"
            );
        }
    }
    Ok(medians)
}

/// Whose programs, and what the load is to them.
struct Case {
    who: &'static str,
    mode: &'static str,
    load: Load,
    programs: Programs,
}

#[derive(Clone, Copy, PartialEq)]
enum Load {
    Unmarked,
    Marked,
    Watched,
}

enum Programs {
    Ours(Depth),
    /// Mode and depth.
    Rival(u32, u32),
    Stored,
    Nothing,
}

fn cases() -> Vec<Case> {
    let mut cases =
        vec![Case { who: "statistics", mode: "nothing", load: Load::Unmarked, programs: Programs::Nothing }];
    for load in [Load::Unmarked, Load::Marked, Load::Watched] {
        for (mode, depth) in [
            ("one_level", Depth::OneLevel),
            ("ancestry(8)", Depth::Ancestry(8)),
            ("propagate_on_fork", Depth::Inherit),
            ("cgroup", Depth::Cgroup { level: 0 }),
        ] {
            cases.push(Case { who: "palisade", mode, load, programs: Programs::Ours(depth) });
        }
        for (mode, number) in [("one_level", 0), ("ancestry(8)", 1), ("propagate_on_fork", 2)] {
            cases.push(Case { who: "atty, rebuilt", mode, load, programs: Programs::Rival(number, 8) });
        }
        if load != Load::Watched {
            let programs = Programs::Stored;
            cases.push(Case { who: "task storage", mode: "propagate_on_fork", load, programs });
        }
    }
    cases
}

impl Case {
    /// Nanoseconds of each program: of a fork, an exec and, where there is one, an exit.
    fn measure(&self, execs: usize) -> Result<Vec<f64>> {
        match &self.programs {
            Programs::Ours(depth) => self.ours(*depth, execs),
            Programs::Rival(mode, depth) => {
                self.others(execs, &["rival_fork", "rival_exec", "rival_exit"], (*mode, *depth))
            }
            Programs::Stored => self.others(execs, &["stored_fork", "stored_exec"], (2, 0)),
            Programs::Nothing => self.others(execs, &["nothing_exec"], (0, 0)),
        }
    }

    fn ours(&self, depth: Depth, execs: usize) -> Result<Vec<f64>> {
        let programs = ScopePrograms::load()?;
        let report = self.load == Load::Watched;
        programs.change(|settings| *settings = Settings { depth, report, ..Settings::default() })?;
        programs.open_scope(&Scope { id: 1, ..Scope::default() })?;
        // Somebody is marked in every case: an empty table would be no measure.
        let bystander = worker(0)?;
        programs.mark(bystander.id(), 1, true)?;
        let worker = worker(execs)?;
        if self.load != Load::Unmarked {
            match depth {
                // The root group: everybody is watched, and nothing becomes of that.
                Depth::Cgroup { .. } => programs.mark_group(1, 1)?,
                _ => drop(programs.mark(worker.id(), 1, true)?),
            }
        }
        let mut order: Vec<_> = programs.loaded().collect();
        // As the others': fork before exec.
        order.sort_by_key(|(name, _)| ["fork", "exec"].iter().position(|word| name.ends_with(word)));
        let before = order.iter().map(|(_, program)| run_time(*program)).collect::<Result<Vec<_>>>()?;
        let mut heard = 0_usize;
        reading(&programs, report, &mut heard, || finish(worker))?;
        let after = order.iter().map(|(_, program)| run_time(*program)).collect::<Result<Vec<_>>>()?;
        finish(bystander)?;
        if report && heard < execs {
            return Err(format!("{heard} of {execs} execs were heard of").into());
        }
        Ok(before.iter().zip(&after).map(|(before, after)| after.since(*before)).collect())
    }

    fn others(&self, execs: usize, names: &[&str], (mode, depth): (u32, u32)) -> Result<Vec<f64>> {
        let object = ObjectBuilder::default().open_memory(RIVALS)?.load()?;
        let words = [mode, depth, u32::from(self.load == Load::Watched), 0];
        map(&object, "config")?.update(&[0; 4], &words.map(u32::to_ne_bytes).concat(), MapFlags::ANY)?;
        let worker = worker(execs)?;
        let bystander = self::worker(0)?;
        for marked in
            [Some(&bystander), (self.load != Load::Unmarked).then_some(&worker)].into_iter().flatten()
        {
            let process = marked.id().to_ne_bytes();
            for table in ["threats", "watched"] {
                map(&object, table)?.update(&process, &1_u32.to_ne_bytes(), MapFlags::ANY)?;
            }
            pressure::store(&object, marked.id())?;
        }
        let links = attach(&object, names)?;
        let programs = || {
            names.iter().map(|name| {
                let found =
                    object.progs().find(|program| program.name() == *name).ok_or("no such program")?;
                run_time(found.as_fd())
            })
        };
        let before = programs().collect::<Result<Vec<_>>>()?;
        let mut builder = libbpf_rs::RingBufferBuilder::new();
        let classified = map(&object, "classified")?;
        builder.add(&classified, |_| 0)?;
        let buffer = builder.build()?;
        drained(|| buffer.consume().map_err(Into::into), || finish(worker))?;
        let after = programs().collect::<Result<Vec<_>>>()?;
        drop(links);
        finish(bystander)?;
        Ok(before.iter().zip(&after).map(|(before, after)| after.since(*before)).collect())
    }

    fn row(&self, rounds: &[Vec<f64>]) -> Row {
        let mut sums: Vec<f64> = rounds.iter().map(|programs| programs.iter().sum()).collect();
        let programs = (0..rounds[0].len())
            .map(|number| {
                let mut each: Vec<f64> = rounds.iter().map(|programs| programs[number]).collect();
                median(&mut each).0
            })
            .collect();
        let load = match self.load {
            Load::Unmarked => "unmarked",
            Load::Marked => "marked",
            Load::Watched => "watched",
        };
        Row { who: self.who, mode: self.mode, load, sum: median(&mut sums), programs }
    }
}

/// Does `act` while somebody reads events.
fn reading(
    programs: &ScopePrograms,
    read: bool,
    heard: &mut usize,
    act: impl FnOnce() -> Result<()> + Send,
) -> Result<()> {
    if !read {
        return act();
    }
    let events = programs.events(|_| *heard += 1)?;
    drained(|| events.drain().map_err(Into::into), act)
}

fn drained(drain: impl Fn() -> Result<()>, act: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    std::thread::scope(|scope| {
        let acting = scope.spawn(|| act().map_err(|error| error.to_string()));
        while !acting.is_finished() {
            drain()?;
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        drain()?;
        acting.join().map_err(|_| "the load panicked")?.map_err(Into::into)
    })
}

pub(crate) fn map<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::Map<'a>> {
    object.maps().find(|map| map.name() == name).ok_or_else(|| format!("no map {name}").into())
}

pub(crate) fn attach(object: &Object, names: &[&str]) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for name in names {
        let program = object.progs_mut().find(|program| program.name() == *name).ok_or("no such program")?;
        links.push(program.attach_trace()?);
    }
    Ok(links)
}
