// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cases to measure: which programs, at which depth, and whether the load is marked.

use std::os::fd::AsFd;

use libbpf_rs::{MapCore, MapFlags, ObjectBuilder};
use palisade_bpf::scope::{Depth, Scope, ScopePrograms, Settings};

use super::load::{Kind, finish, start};
use super::statistics::run_time;
use super::{RIVALS, Result, attach, list, map, pressure};

/// The names of all cases.
pub(crate) fn names() -> Vec<String> {
    cases().iter().map(Case::name).collect()
}

/// Measures every case in every round, one after another.
pub(crate) fn all(commands: usize, rounds: usize, wanted: impl Fn(&str) -> bool) -> Result<()> {
    let cases: Vec<Case> = cases().into_iter().filter(|case| wanted(&case.name())).collect();
    let mut figures: Vec<Vec<Vec<f64>>> = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for (case, figures) in cases.iter().zip(&mut figures) {
            figures.push(case.measure(commands)?);
        }
    }
    for (case, figures) in cases.iter().zip(&figures) {
        let rounds: Vec<String> = figures.iter().map(|programs| list(programs)).collect();
        println!(
            "{{\"kind\":\"case\",\"who\":\"{}\",\"depth\":\"{}\",\"load\":\"{}\",\"programs\":{},\"ns\":[{}]}}",
            case.who,
            case.depth,
            case.load.name(),
            case.programs.names(),
            rounds.join(",")
        );
    }
    Ok(())
}

/// One case.
struct Case {
    who: &'static str,
    depth: &'static str,
    load: Load,
    programs: Programs,
}

#[derive(Clone, Copy, PartialEq)]
enum Load {
    Unmarked,
    Marked,
    Watched,
}

impl Load {
    fn name(self) -> &'static str {
        match self {
            Self::Unmarked => "unmarked",
            Self::Marked => "marked",
            Self::Watched => "watched",
        }
    }
}

enum Programs {
    Ours(Depth),
    /// Mode and depth.
    Rival(u32, u32),
    Stored,
    Nothing,
}

impl Programs {
    /// The names of the programs, in the order of the figures.
    fn names(&self) -> &'static str {
        match self {
            Self::Ours(_) | Self::Stored => r#"["fork","exec"]"#,
            Self::Rival(..) => r#"["fork","exec","exit"]"#,
            Self::Nothing => r#"["exec"]"#,
        }
    }
}

/// All of them.
fn cases() -> Vec<Case> {
    let nothing =
        |depth| Case { who: "statistics", depth, load: Load::Unmarked, programs: Programs::Nothing };
    let mut cases = vec![nothing("nothing"), nothing("nothing again")];
    for load in [Load::Unmarked, Load::Marked, Load::Watched] {
        for (name, depth) in [
            ("one_level", Depth::OneLevel),
            ("ancestry(8)", Depth::Ancestry(8)),
            ("propagate_on_fork", Depth::Inherit),
            ("cgroup", Depth::Cgroup { level: 0 }),
        ] {
            cases.push(Case { who: "palisade", depth: name, load, programs: Programs::Ours(depth) });
        }
        for (depth, number) in [("one_level", 0), ("ancestry(8)", 1), ("propagate_on_fork", 2)] {
            cases.push(Case { who: "atty, rebuilt", depth, load, programs: Programs::Rival(number, 8) });
        }
        if load != Load::Watched {
            let programs = Programs::Stored;
            cases.push(Case { who: "task storage", depth: "propagate_on_fork", load, programs });
        }
    }
    cases
}

impl Case {
    /// The name by which `--only` chooses a case.
    fn name(&self) -> String {
        format!("{} {} {}", self.who, self.depth, self.load.name())
    }

    /// Nanoseconds of each program: at a fork, at an exec and, if there is a program for it, at an exit.
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
        // Another process is marked in every case: with an empty table the measurement would be meaningless.
        let bystander = start(Kind::Bare, 0)?;
        programs.mark(bystander.id(), 1, true)?;
        let worker = start(Kind::Bare, execs)?;
        if self.load != Load::Unmarked {
            match depth {
                // The root group: every process is in the scope, and nothing follows from that.
                Depth::Cgroup { .. } => programs.mark_group(1, 1)?,
                _ => drop(programs.mark(worker.id(), 1, true)?),
            }
        }
        let mut order: Vec<_> = programs.loaded().collect();
        // Same order as in the other designs: fork before exec.
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
        let worker = start(Kind::Bare, execs)?;
        let bystander = start(Kind::Bare, 0)?;
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
}

/// Does `act` while another thread reads events, if `read`.
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
