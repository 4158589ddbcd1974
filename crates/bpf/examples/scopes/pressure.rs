// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures trees of processes that are larger than the table of marks: how many marks are lost, what a fork costs, and how
//! much memory is used.
//!
//! Tables have 256 entries here, and trees have some hundred or thousand processes. The ratio is that of a table of 16,384
//! entries and a fork bomb.

use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::{Child, Command, Stdio};

use libbpf_rs::{MapCore, MapFlags, MapType, Object, ObjectBuilder};
use palisade_bpf::scope::{Depth, Scope, ScopePrograms, Settings};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::statistics::{RunTime, field, run_time};
use super::{RIVALS, Result, attach, map};

/// Entries of each table.
const TABLE: u32 = 256;

/// Each process writes its number, then waits until its standard input ends. The first line is the shell's own.
const TREES: [(&str, usize, &str); 3] = [
    ("wide", 3000, "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); ( own; hold ) & done; hold"),
    ("deep", 900, "f() { own; if [ $1 -gt 1 ]; then ( f $(($1-1)) ) & fi; hold; }; ( f 900 ) & hold"),
    (
        "fork bomb",
        3000,
        "f() { own; if [ $1 -gt 1 ]; then ( f $(($1-1)) ) & ( f $(($1-1)) ) & fi; hold; }; ( f 12 ) & hold",
    ),
];
/// Subshells in the background have no standard input, so it is kept as descriptor 3.
const WORDS: &str =
    "own() { read own rest </proc/self/stat; echo $own; }; hold() { read end <&3; }; exec 3<&0; read go; ";

/// Marks a process in the rivals' task storage.
pub(crate) fn store(object: &Object, process: u32) -> Result<()> {
    let pidfd = pidfd_open(Pid::from_raw(i32::try_from(process)?).ok_or("process 0")?, PidfdFlags::empty())?;
    map(object, "stored")?.update(&pidfd.as_raw_fd().to_ne_bytes(), &1_u64.to_ne_bytes(), MapFlags::ANY)?;
    Ok(())
}

/// The kind of table to measure.
#[derive(Clone, Copy, PartialEq)]
enum Table {
    Hash,
    Lru,
    Storage,
    Ours,
}

pub(crate) fn all() -> Result<()> {
    for (tree, count, script) in TREES {
        for (name, table) in [
            ("hash", Table::Hash),
            ("LRU hash", Table::Lru),
            ("task storage", Table::Storage),
            ("palisade", Table::Ours),
        ] {
            let found =
                if table == Table::Ours { ours(script, count)? } else { others(script, count, table)? };
            println!(
                "{{\"kind\":\"tree\",\"tree\":\"{tree}\",\"table\":\"{name}\",\"entries\":{TABLE},\"processes\":{},\"lost\":{},\
                 \"root_lost\":{},\"fork_ns\":{:.0},\"bytes\":{}}}",
                found.processes, found.lost, found.root_lost, found.fork, found.bytes
            );
        }
    }
    Ok(())
}

struct Found {
    processes: usize,
    lost: usize,
    root_lost: bool,
    fork: f64,
    bytes: u64,
}

/// A shell that waits for a line, then starts a tree of processes. The tree ends when its input closes.
struct Tree(Child);

impl Tree {
    fn plant(script: &str) -> Result<Self> {
        let mut command = Command::new("/bin/dash");
        command.args(["-c", &format!("{WORDS}{script}")]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Self(command.spawn()?))
    }

    /// The process numbers of the whole tree.
    fn grow(&mut self, count: usize) -> Result<Vec<u32>> {
        use std::io::Write;
        self.0.stdin.as_mut().ok_or("no input")?.write_all(b"\n")?;
        let lines = BufReader::new(self.0.stdout.take().ok_or("no output")?).lines();
        let mut processes = Vec::new();
        for line in lines {
            processes.push(line?.parse()?);
            if processes.len() == count {
                break;
            }
        }
        Ok(processes)
    }

    fn fell(mut self) -> Result<()> {
        drop(self.0.stdin.take());
        self.0.wait()?;
        Ok(())
    }
}

fn measure(
    tree: &mut Tree,
    count: usize,
    program: BorrowedFd<'_>,
    marked: impl Fn(u32) -> Result<bool>,
) -> Result<(usize, usize, bool, f64)> {
    let before: RunTime = run_time(program)?;
    let processes = tree.grow(count)?;
    let fork = run_time(program)?.since(before);
    let mut lost = 0;
    for process in &processes {
        lost += usize::from(!marked(*process)?);
    }
    Ok((processes.len(), lost, !marked(tree.0.id())?, fork))
}

fn others(script: &str, count: usize, table: Table) -> Result<Found> {
    let mut opened = ObjectBuilder::default().open_memory(RIVALS)?;
    for mut map in opened.maps_mut().filter(|map| map.name() == "threats") {
        map.set_max_entries(TABLE)?;
        if table == Table::Lru {
            map.set_type(MapType::LruHash)?;
        }
    }
    let object = opened.load()?;
    map(&object, "config")?.update(
        &[0; 4],
        &[2_u32, 0, 0, 0].map(u32::to_ne_bytes).concat(),
        MapFlags::ANY,
    )?;
    let mut tree = Tree::plant(script)?;
    let (names, at): (&[&str], _) = match table {
        Table::Storage => {
            store(&object, tree.0.id())?;
            (&["stored_fork"], "stored")
        }
        _ => {
            let threats = map(&object, "threats")?;
            threats.update(&tree.0.id().to_ne_bytes(), &1_u32.to_ne_bytes(), MapFlags::ANY)?;
            (&["rival_exit", "rival_fork"], "threats")
        }
    };
    let links = attach(&object, names)?;
    let fork = names[names.len() - 1];
    let program = object.progs().find(|program| program.name() == fork).ok_or("no such program")?;
    let at = map(&object, at)?;
    let marked = |process: u32| {
        let pid = Pid::from_raw(i32::try_from(process)?).ok_or("process 0")?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let key =
            if table == Table::Storage { pidfd.as_raw_fd().to_ne_bytes() } else { process.to_ne_bytes() };
        Ok(at.lookup(&key, MapFlags::ANY)?.is_some())
    };
    let (processes, lost, root_lost, fork) = measure(&mut tree, count, program.as_fd(), marked)?;
    let bytes = field(at.as_fd(), "memlock:")?;
    tree.fell()?;
    drop(links);
    Ok(Found { processes, lost, root_lost, fork, bytes })
}

fn ours(script: &str, count: usize) -> Result<Found> {
    let programs = ScopePrograms::load_with_table_of(Some(TABLE))?;
    programs.change(|settings| *settings = Settings { depth: Depth::Inherit, ..Settings::default() })?;
    programs.open_scope(&Scope { id: 1, ..Scope::default() })?;
    let mut tree = Tree::plant(script)?;
    programs.mark(tree.0.id(), 1, true)?;
    let (_, fork) = programs.loaded().find(|(name, _)| name.ends_with("fork")).ok_or("no such program")?;
    let marked = |process: u32| Ok(programs.scope_of(process)? == Some(1));
    let (processes, lost, root_lost, fork) = measure(&mut tree, count, fork, marked)?;
    let mut bytes = 0;
    for (name, table) in programs.tables() {
        if ["marks", "gates", "overflow"].contains(&name) {
            bytes += field(table, "memlock:")?;
        }
    }
    tree.fell()?;
    Ok(Found { processes, lost, root_lost, fork, bytes })
}
