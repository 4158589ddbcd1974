// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scenarios of fapolicyd's performance document: one program again and again, many programs once each, opens in a window.

use std::fs;

use super::bed::{Bed, Counts, Kind, Sort};
use super::daemon::{Guard, Program};
use super::policy::{Policy, Rules};
use super::race::{Contender, Placement, Reading, Scenario, WARM_UP, Work, race};
use super::trace::Tracepoints;
use super::{GuardError, goals};
use crate::bench::{Bench, BenchError};
use crate::entry::Missing;
use crate::programs;
use crate::suite::rounds;
use crate::suites::guard::{Daemons, window};
use crate::summary::Table;

pub(crate) const OFF: &str = "off";
pub(crate) const OFF_AGAIN: &str = "off again (A/A)";
pub(crate) const PALISADE: &str = "palisade";
const KNOWN_LIBS: &str = "palisade, fapolicyd's rules";
pub(crate) const ALLOW_ALL: &str = "palisade, allow all first";
pub(crate) const ASK_ALWAYS: &str = "palisade --ask-always";
pub(crate) const FAPOLICYD: &str = "fapolicyd";
const FAPOLICYD_ALLOW_ALL: &str = "fapolicyd, allow all first";

pub(crate) const ONE_CALL: &str = "one program, call";
pub(crate) const ONE_WALL: &str = "one program, wall";
pub(crate) const FIRST_CALL: &str = "many programs, first pass, call";
pub(crate) const FIRST_WALL: &str = "many programs, first pass, wall";
pub(crate) const SECOND_CALL: &str = "many programs, second pass, call";
pub(crate) const SECOND_WALL: &str = "many programs, second pass, wall";
pub(crate) const TOUCH: &str = "open+close, first touch";
pub(crate) const STEADY: &str = "open+close, steady";
pub(crate) const USERS_TOUCH: &str = "open+close of a user's files, first touch";
pub(crate) const USERS_STEADY: &str = "open+close of a user's files, steady";
pub(crate) const WINDOW: &str = "open+close in a window";
pub(crate) const ONE_STRACE: &str = "one program, strace -f -T";
pub(crate) const MANY_STRACE: &str = "many programs, first pass, strace -f -T";
const ONE_TRACE: &str = "one program, tracepoints";
const MANY_TRACE: &str = "many programs, first pass, tracepoints";
const IDLE_CALL: &str = "one program, call, no daemon runs";
const IDLE_OPEN: &str = "open+close, steady, no daemon runs";
const TITLES: [&str; 17] = [
    ONE_CALL,
    ONE_WALL,
    FIRST_CALL,
    FIRST_WALL,
    SECOND_CALL,
    SECOND_WALL,
    TOUCH,
    STEADY,
    USERS_TOUCH,
    USERS_STEADY,
    WINDOW,
    ONE_STRACE,
    MANY_STRACE,
    ONE_TRACE,
    MANY_TRACE,
    IDLE_CALL,
    IDLE_OPEN,
];

/// The number of execs of one program in a round; the second number is for a run under a tracer.
const AGAIN: [usize; 2] = [200, 50];
const AGAIN_QUICK: [usize; 2] = [50, 20];

/// A contender. Its daemon must end before its bed is unmounted.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) guard: Option<Guard>,
    pub(crate) bed: Bed,
}

impl Entry {
    pub(crate) fn contender(&self) -> Contender<'_> {
        Contender { name: &self.name, bed: &self.bed, guard: self.guard.as_ref() }
    }
}

/// All contenders.
#[derive(Debug)]
pub(crate) struct Field {
    entries: Vec<Entry>,
    counts: Counts,
}

/// The placements of load and daemons, on cores that this process may use.
pub(crate) fn placements() -> Vec<Placement> {
    let allowed = rustix::thread::sched_getaffinity(None);
    let cores: Vec<usize> = allowed
        .map(|cores| (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| cores.is_set(core)).collect())
        .unwrap_or_else(|_| vec![0]);
    // The first cores handle interrupts.
    let load = cores.last().copied().unwrap_or(0);
    let mut all = vec![Placement { name: "same core", load: Some(load), daemon: Some(load) }];
    if let Some(&other) = cores.iter().rev().nth(1) {
        all.push(Placement { name: "different cores", load: Some(load), daemon: Some(other) });
    }
    all
}

/// Makes a bed, fills it and starts a daemon. A daemon that can't be measured is added to `missing`.
pub(crate) fn enter(
    bench: &Bench,
    name: &str,
    program: Option<&Program>,
    policy: &Policy,
    counts: Counts,
    equip: &dyn Fn(&Bed) -> Result<(), GuardError>,
    missing: &mut Vec<Missing>,
) -> Result<Option<Entry>, GuardError> {
    let scratch = bench.session.scratch();
    let kind = if bench.options.guard.ext4 { Kind::Ext4 } else { Kind::Tmpfs };
    let directory: String =
        name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let bed = Bed::create(&scratch.join("beds"), &directory, kind, counts)?;
    equip(&bed)?;
    let Some(program) = program else { return Ok(Some(Entry { name: name.to_owned(), guard: None, bed })) };
    let own = scratch.join("daemons").join(&directory);
    match Guard::start(program, &own, &bed, policy, bench.session.stop())? {
        Ok(guard) => Ok(Some(Entry { name: name.to_owned(), guard: Some(guard), bed })),
        Err(why) => {
            missing.push(Missing { name: name.to_owned(), how: why.to_string() });
            Ok(None)
        }
    }
}

impl Field {
    /// `None` if the filter selects none of these tables.
    pub(crate) fn prepare(
        bench: &mut Bench,
        daemons: &Daemons,
        missing: &mut Vec<Missing>,
    ) -> Result<Option<Self>, GuardError> {
        let asked_always = daemons.asked_always();
        let (palisaded, fapolicyd) = (daemons.palisaded.as_ref(), daemons.fapolicyd.as_ref());
        let rows = [
            (PALISADE, palisaded, Rules::Own),
            (KNOWN_LIBS, palisaded, Rules::KnownLibs),
            (ALLOW_ALL, palisaded, Rules::AllowAll),
            (ASK_ALWAYS, asked_always.as_ref(), Rules::Own),
            (FAPOLICYD, fapolicyd, Rules::KnownLibs),
            (FAPOLICYD_ALLOW_ALL, fapolicyd, Rules::AllowAll),
        ];
        let wanted = |name: &str| TITLES.iter().any(|title| bench.filter.accepts(title, name));
        if !rows.iter().map(|row| row.0).chain([OFF, OFF_AGAIN]).any(wanted) {
            return Ok(None);
        }
        let files = bench.options.guard.files.unwrap_or(if bench.options.quick { 500 } else { 10_000 });
        // One more of each sort of program: this one is executed again and again.
        let counts = Counts { clocks: files + 1, dynamic: files / 5 + 1, texts: files, home: false };
        bench.say(&format!("{files} programs and {files} texts on each file system"));
        let mut entries = Vec::new();
        for name in [OFF, OFF_AGAIN] {
            entries.extend(enter(
                bench,
                name,
                None,
                &Policy::plain(Rules::AllowAll),
                counts,
                &|_| Ok(()),
                missing,
            )?);
        }
        for (name, program, rules) in rows {
            if let Some(program) = program.filter(|_| wanted(name)) {
                entries.extend(enter(
                    bench,
                    name,
                    Some(program),
                    &Policy::plain(rules),
                    counts,
                    &|_| Ok(()),
                    missing,
                )?);
            }
        }
        Ok(Some(Self { entries, counts }))
    }

    fn contenders(&self) -> Vec<Contender<'_>> {
        self.entries.iter().map(Entry::contender).collect()
    }
}

fn wanted(bench: &Bench, titles: &[&str], contenders: &[Contender<'_>]) -> bool {
    contenders.iter().any(|contender| titles.iter().any(|title| bench.filter.accepts(title, contender.name)))
}

/// Measures all tables.
pub(crate) fn all(bench: &mut Bench, field: Field, missing: &mut Vec<Missing>) -> Result<(), BenchError> {
    let begin = bench.kept();
    let contenders = field.contenders();
    let measure = |bench: &mut Bench, work, reading: Reading<'_>, rounds, placement: &Placement| {
        let titles: Vec<&str> = match reading {
            Reading::Said(figures) => figures.iter().map(|(_, title)| *title).collect(),
            Reading::Strace(title) | Reading::Tracepoints(title, _) => vec![title],
        };
        if wanted(bench, &titles, &contenders) {
            for table in race(bench, &contenders, &Scenario { work, reading, rounds }, placement)? {
                bench.keep(table)?;
            }
        }
        Ok::<(), BenchError>(())
    };
    let mut placements = placements();
    if bench.options.quick {
        // The slowest placements show the least.
        placements.truncate(1);
    }
    if placements.len() < 2 {
        let how = if bench.options.quick {
            "left out because of --quick"
        } else {
            "this process may use one core only"
        };
        missing.push(Missing { name: "different cores".to_owned(), how: how.to_owned() });
    }
    let Counts { clocks, dynamic, texts, .. } = field.counts;
    let (programs, copies) = (clocks - 1, dynamic - 1);
    let asked = bench.options.rounds();
    let (slices, each) = slices(programs.min(texts), placements.len(), rounds(asked, 5));
    let [again, again_traced] = if bench.options.quick { AGAIN_QUICK } else { AGAIN };
    let sort = Sort::Clocks;
    let one = Work::Same { sort, number: programs, count: again };
    for (number, placement) in placements.iter().enumerate() {
        let first = number * (slices + WARM_UP);
        let many = Work::Slice { sort, count: each, first };
        let touch = |sort| Work::OpenSlice { sort, count: each, first };
        for (work, figures) in [
            (one, &[("call", ONE_CALL), ("each", ONE_WALL)][..]),
            (many, &[("call", FIRST_CALL), ("each", FIRST_WALL)]),
            (many, &[("call", SECOND_CALL), ("each", SECOND_WALL)]),
            (touch(Sort::Texts), &[("each", TOUCH)]),
            (touch(Sort::Users), &[("each", USERS_TOUCH)]),
        ] {
            measure(bench, work, Reading::Said(figures), slices, placement)?;
        }
    }
    for placement in &placements {
        // With the daemon on another core, fapolicyd takes seconds for one round.
        let few = rounds(asked, 20);
        for (sort, title) in [(Sort::Texts, STEADY), (Sort::Users, USERS_STEADY)] {
            measure(
                bench,
                Work::Open { sort, count: texts },
                Reading::Said(&[("each", title)]),
                few,
                placement,
            )?;
        }
    }
    let here = &placements[..1];
    for placement in here {
        let seconds = window(bench).as_secs_f64();
        let work = Work::Window { count: texts, seconds };
        measure(bench, work, Reading::Said(&[("each", WINDOW)]), rounds(asked, 20), placement)?;
        let traced_again = Work::Same { sort: Sort::Dynamic, number: copies, count: again_traced };
        // Each tracer uses half of the copies.
        let (traced, few) = self::slices(copies, 2, rounds(asked, 10));
        let many = |first| Work::Slice { sort: Sort::Dynamic, count: few, first };
        if programs::on_path("strace").is_some() {
            measure(bench, traced_again, Reading::Strace(ONE_STRACE), traced, placement)?;
            measure(bench, many(0), Reading::Strace(MANY_STRACE), traced, placement)?;
        } else {
            let how = "`strace` is not on PATH; apt install strace".to_owned();
            missing.push(Missing { name: "strace".to_owned(), how });
        }
        if !wanted(bench, &[ONE_TRACE, MANY_TRACE], &contenders) {
            continue;
        }
        match Tracepoints::prepare() {
            Ok(tracer) => {
                let (one, other) =
                    (Reading::Tracepoints(ONE_TRACE, &tracer), Reading::Tracepoints(MANY_TRACE, &tracer));
                measure(bench, traced_again, one, traced, placement)?;
                measure(bench, many(traced + WARM_UP), other, traced, placement)?;
            }
            Err(error) => {
                let how = format!("the kernel's tracer can't be used: {error}");
                missing.push(Missing { name: "tracepoints".to_owned(), how });
            }
        }
    }
    drop(contenders);
    for mut table in bench.take_from(begin) {
        table.goals = goals::of(&table, &mut bench.random);
        bench.keep(table)?;
    }
    let watched = bench.kept();
    idle(bench, field, one, texts, &placements[0])?;
    let idle = bench.take_from(watched);
    let mut tables = bench.take_from(begin);
    goals::undisturbed(&mut tables, &idle, &mut bench.random);
    for table in tables.into_iter().chain(idle) {
        bench.keep(table)?;
    }
    Ok(())
}

/// The same without any daemon. It checks that beds without a daemon aren't slower while other beds are watched.
fn idle(
    bench: &mut Bench,
    mut field: Field,
    one: Work,
    texts: usize,
    placement: &Placement,
) -> Result<(), BenchError> {
    field.entries.retain(|entry| entry.guard.is_none());
    let contenders = field.contenders();
    let rounds = rounds(bench.options.rounds(), 5);
    for (work, figures) in [
        (one, [("call", IDLE_CALL)]),
        (Work::Open { sort: Sort::Texts, count: texts }, [("each", IDLE_OPEN)]),
    ] {
        if wanted(bench, &[figures[0].1], &contenders) {
            let scenario = Scenario { work, reading: Reading::Said(&figures), rounds };
            for table in race(bench, &contenders, &scenario, placement)? {
                // This table compares no contenders, so it has no factors.
                bench.keep(Table { category: None, ..table })?;
            }
        }
    }
    Ok(())
}

/// How many rounds are possible, and how many files each round uses, if every round of each part uses new files.
fn slices(files: usize, parts: usize, rounds: usize) -> (usize, usize) {
    let rounds = rounds.min((files / parts).saturating_sub(WARM_UP)).max(1);
    (rounds, (files / (parts * (rounds + WARM_UP))).max(1))
}

/// Removes the files of a daemon, where many daemons follow each other.
pub(crate) fn forget(bench: &Bench, directory: &str) -> Result<(), GuardError> {
    let own = bench.session.scratch().join("daemons").join(directory);
    match fs::remove_dir_all(&own) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(GuardError::prepare("remove", own)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_taken_twice() {
        for (files, parts, rounds) in [(10_000, 2, 40), (1000, 2, 10), (30, 2, 10), (200, 2, 10)] {
            let (rounds, each) = slices(files, parts, rounds);
            assert!(
                each > 0 && parts * (rounds + WARM_UP) * each <= files,
                "{files} {parts} {rounds} {each}"
            );
        }
        assert_eq!(slices(10_000, 2, 40), (40, 121));
    }

    #[test]
    fn cores_are_those_that_may_be_used() {
        let all = placements();
        assert_eq!(all[0].load, all[0].daemon);
        assert!(all.get(1).is_none_or(|apart| apart.load != apart.daemon));
    }
}
