// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts about processes from `/proc`: whether a process is still the same one, and how many descend from it.

use rustix::io::Errno;
use rustix::process::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// `/proc` counts a process's start in hundredths of a second, on every architecture (`USER_HZ`).
const TICK: u64 = 10_000_000;

/// A process, as described in `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: i32,
    /// In ticks since the machine's start.
    began: u64,
    /// It has ended and wasn't reaped yet.
    ended: bool,
}

impl Process {
    fn find(pid: i32) -> Option<Self> {
        Self::read(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name may hold any character. It ends with the last parenthesis.
    fn read(line: &[u8]) -> Option<Self> {
        let end = line.iter().rposition(|byte| *byte == b')')?;
        let mut fields = std::str::from_utf8(line.get(end + 1..)?).ok()?.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        // The first of these fields is field 3. The start time is field 22.
        let began = fields.nth(17)?.parse().ok()?;
        Some(Self { parent, began, ended: matches!(state, "Z" | "X" | "x") })
    }
}

/// Whether process `pid` lives and began before `written`, in nanoseconds since the machine's start. A process that
/// reuses the number began later, because a number is reused only after its process has ended.
pub(super) fn lives(pid: i32, written: u64) -> bool {
    pid > 0 && Process::find(pid).is_some_and(|process| !process.ended && process.began <= written / TICK)
}

/// Whether no process that this process can see has this number.
pub(super) fn is_nobody(pid: i32) -> bool {
    Pid::from_raw(pid).is_none_or(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
}

/// The `/proc` of this process, by its device: processes with the same device see the same numbers. Two devices may
/// show the same PID namespace, too. The namespace's own number would take ten times as long to read, because the
/// kernel creates the entries below `/proc/self` anew for each process.
pub(super) fn own_view() -> u32 {
    // Never 0, because 0 means that there is no view.
    rustix::fs::stat(c"/proc").map_or(u32::MAX, |stat| rustix::fs::minor(stat.st_dev) | 1 << 31)
}

/// Whether a process resembles its record. Used where the time at which it began can't decide this.
pub(super) fn resembles(pid: i32, init: bool, words: impl Iterator<Item = Vec<u8>>) -> bool {
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    if init {
        return read("comm") == b"palisade-init\n";
    }
    let base = |word: &[u8]| word.rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec).unwrap_or_default();
    let line = read("cmdline");
    let shown: Vec<Vec<u8>> = line.split(|byte| *byte == 0).map(base).collect();
    // The interpreter of a script precedes its words, and each word may have become a longer path.
    words.map(|word| base(&word)).all(|word| shown.contains(&word))
}

/// The number of a sandbox's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processes {
    /// The exact number.
    All(usize),
    /// The number of the command's descendants. Others may have left it, because only Landlock confines them.
    AtLeast(usize),
    /// The number can't be determined from here.
    Unknown,
}

/// All processes at one moment, read once for all sandboxes.
#[derive(Debug)]
pub(super) struct Tree {
    children: BTreeMap<i32, Vec<i32>>,
    /// Living processes, each with its start in ticks.
    living: BTreeMap<i32, u64>,
}

impl Tree {
    pub(super) fn read() -> Self {
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        Self::of(pids.filter_map(|pid| Some((pid, Process::find(pid)?))))
    }

    fn of(processes: impl Iterator<Item = (i32, Process)>) -> Self {
        let mut tree = Self { children: BTreeMap::new(), living: BTreeMap::new() };
        for (pid, process) in processes {
            tree.children.entry(process.parent).or_default().push(pid);
            if !process.ended {
                tree.living.insert(pid, process.began);
            }
        }
        tree
    }

    /// How many of these processes and their descendants live.
    fn count(&self, roots: &[i32]) -> usize {
        let mut seen = BTreeSet::new();
        let mut waiting = roots.to_vec();
        while let Some(pid) = waiting.pop() {
            // A number that was reused during the reading may seem to be its own ancestor.
            if seen.insert(pid) {
                waiting.extend(self.children.get(&pid).into_iter().flatten());
            }
        }
        seen.iter().filter(|pid| self.living.contains_key(pid)).count()
    }

    /// The number of processes in a sandbox that existed at `written`: the command's and those that init has adopted,
    /// without init.
    pub(super) fn inside(&self, command: i32, init: Option<i32>, written: u64) -> Processes {
        let is_it = |pid: &i32| self.living.get(pid).is_some_and(|began| *began <= written / TICK);
        let command = Some(command).filter(is_it);
        match (init, command) {
            (Some(init), _) if is_it(&init) => {
                let roots: Vec<i32> = std::iter::once(init).chain(command).collect();
                Processes::All(self.count(&roots).saturating_sub(1))
            }
            (None, Some(command)) => Processes::AtLeast(self.count(&[command])),
            _ => Processes::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_sys::process::since_boot as now;
    use proptest::prelude::*;
    use std::process::Command;

    #[test]
    fn a_name_may_look_like_the_rest() {
        let rest = "S 7 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        let wanted = Some(Process { parent: 7, began: 4242, ended: false });
        assert_eq!(Process::read(format!("12 (a) Z 1 (b) {rest}\n").as_bytes()), wanted);
        let zombie = format!("12 (sh) {}", rest.replacen('S', "Z", 1));
        assert!(Process::read(zombie.as_bytes()).unwrap().ended);
        for strange in ["", "12", "12 (sh)", "12 (sh) S", "12 (sh) S x", "12 (sh) S 7 1"] {
            assert_eq!(Process::read(strange.as_bytes()), None, "{strange}");
        }
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _whatever = Process::read(&line);
        }
    }

    #[test]
    fn who_began_later_is_another() {
        let before = now();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(lives(pid, now()), "it was there when it was written down");
        assert!(!lives(pid, before), "it wasn't");
        child.kill().unwrap();
        // It isn't reaped yet.
        assert!(eventually(|| !lives(pid, now())));
        child.wait().unwrap();
        assert!(!lives(pid, now()) && !lives(0, now()) && !lives(-1, now()));
        assert!(is_nobody(pid) && is_nobody(i32::MAX) && is_nobody(0) && !is_nobody(1));
    }

    #[test]
    fn a_process_resembles_what_it_was_started_as() {
        let mut child = Command::new("sleep").arg("61").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let words = |words: &str| words.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        assert!(eventually(|| resembles(pid, false, words("/bin/sleep 61").into_iter())));
        assert!(resembles(pid, false, words("sleep").into_iter()));
        assert!(!resembles(pid, false, words("sleep 62").into_iter()));
        assert!(!resembles(pid, true, std::iter::empty()), "that is no init");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!resembles(pid, false, words("sleep 61").into_iter()));
    }

    fn eventually(mut condition: impl FnMut() -> bool) -> bool {
        (0..200).any(|_| {
            let holds = condition();
            if !holds {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            holds
        })
    }

    #[test]
    fn a_sandbox_is_what_descends_from_its_command_and_its_init() {
        let process = |parent, ended| Process { parent, began: 100, ended };
        let then = 100 * TICK;
        let tree = Tree::of(
            [
                (1, process(0, false)),
                (10, process(1, false)),
                (11, process(10, false)), // init
                (12, process(10, false)), // command
                (13, process(12, false)),
                (14, process(13, true)),
                (15, process(11, false)), // left its parent
                (20, process(1, false)),
            ]
            .into_iter(),
        );
        assert_eq!(tree.inside(12, Some(11), then), Processes::All(3));
        assert_eq!(tree.inside(12, Some(99), then), Processes::Unknown);
        assert_eq!(tree.inside(12, None, then), Processes::AtLeast(2));
        assert_eq!(tree.inside(99, None, then), Processes::Unknown);
        assert_eq!(tree.inside(12, None, then - 1), Processes::Unknown, "another of that number");
        // The command has ended. Init's children are left.
        assert_eq!(tree.inside(99, Some(11), then), Processes::All(1));
        // A circle, which can appear if numbers are reused during the reading.
        let circle = Tree::of([(2, process(3, false)), (3, process(2, false))].into_iter());
        assert_eq!(circle.inside(2, None, then), Processes::AtLeast(2));
    }
}
