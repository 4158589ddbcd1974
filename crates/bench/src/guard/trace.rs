// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The duration of `execve` as tracers report it: strace, as in fapolicyd's performance document, and the kernel's
//! tracepoints.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};

use crate::statistics::mean;

const TRACING: &str = "/sys/kernel/tracing";
/// The buffer size in KiB per core. It is enough for the execs of one round.
const BUFFER: &str = "8192";

/// Selects the programs of a trace that count: those below the bed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Below<'a>(pub(crate) &'a Path);

impl Below<'_> {
    fn has(self, text: &str) -> bool {
        // Programs that are denied on purpose don't count.
        text.contains(&format!("{}/", self.0.display())) && !text.contains("/refused")
    }
}

/// The mean duration, in seconds, of the successful calls in the output of `strace -f -T`, and their number.
pub(crate) fn strace(text: &str, below: Below<'_>) -> Option<(f64, usize)> {
    let mut begun: BTreeMap<&str, bool> = BTreeMap::new();
    let mut seconds = Vec::new();
    for line in text.lines() {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if rest.ends_with("<unfinished ...>") {
            begun.insert(pid, below.has(rest));
            continue;
        }
        let counts =
            if rest.starts_with("<...") { begun.remove(pid).unwrap_or(false) } else { below.has(rest) };
        let time =
            rest.rsplit_once(" = 0 <").and_then(|(_, time)| time.strip_suffix('>')?.parse::<f64>().ok());
        seconds.extend(time.filter(|_| counts));
    }
    Some((mean(&seconds)?, seconds.len()))
}

/// An instance of the kernel's tracer, as long as this value exists.
#[derive(Debug)]
pub(crate) struct Tracepoints(PathBuf);

impl Tracepoints {
    /// A tracer for calls of `execve` only. An error says why there is none.
    pub(crate) fn prepare() -> io::Result<Self> {
        if !Path::new(TRACING).join("events").is_dir() {
            // In the private mount namespace.
            mount("tracefs", TRACING, "tracefs", MountFlags::empty(), None)?;
        }
        let instance = Path::new(TRACING).join(format!("instances/palisade-bench-{}", std::process::id()));
        fs::create_dir(&instance)?;
        let tracer = Self(instance);
        fs::write(tracer.0.join("buffer_size_kb"), BUFFER)?;
        // Trace only processes that the bench starts from now on. Names don't work: the kernel doesn't keep those of
        // short-lived processes.
        fs::write(tracer.0.join("options/event-fork"), "1")?;
        fs::write(tracer.0.join("set_event_pid"), rustix::thread::gettid().as_raw_nonzero().to_string())?;
        for event in ["sys_enter_execve", "sys_exit_execve"] {
            fs::write(tracer.0.join("events/syscalls").join(event).join("enable"), "1")?;
        }
        fs::write(tracer.0.join("tracing_on"), "0")?;
        Ok(tracer)
    }

    pub(crate) fn begin(&self) -> io::Result<()> {
        fs::write(self.0.join("trace"), "")?;
        fs::write(self.0.join("tracing_on"), "1")
    }

    /// The mean duration of the calls since the start, in seconds, and their number.
    pub(crate) fn end(&self, count: usize) -> io::Result<Option<(f64, usize)>> {
        fs::write(self.0.join("tracing_on"), "0")?;
        Ok(last(&fs::read_to_string(self.0.join("trace"))?, count))
    }
}

impl Drop for Tracepoints {
    fn drop(&mut self) {
        // The kernel removes the content of the directory.
        let _ = fs::remove_dir(&self.0);
    }
}

/// The mean of the last `count` successful calls.
fn last(trace: &str, count: usize) -> Option<(f64, usize)> {
    let mut begun: BTreeMap<&str, f64> = BTreeMap::new();
    let mut seconds = Vec::new();
    for line in trace.lines().filter(|line| !line.starts_with('#')) {
        // `  COMM-PID     [001] .....  1234.567890: sys_execve(…)`, and `sys_execve -> 0x0`.
        let Some((head, call)) = line.split_once(": sys_execve") else { continue };
        let Some((task, rest)) = head.split_once('[') else { continue };
        let Some(pid) = task.trim().rsplit_once('-').map(|(_, pid)| pid) else { continue };
        let Some(time) = rest.split_whitespace().last().and_then(|time| time.parse::<f64>().ok()) else {
            continue;
        };
        if call.starts_with('(') {
            begun.insert(pid, time);
        } else if let Some(start) = begun.remove(pid)
            && call.trim() == "-> 0x0"
        {
            seconds.push(time - start);
        }
    }
    // The proof's calls come before them.
    let first = seconds.len().checked_sub(count)?;
    Some((mean(&seconds[first..])?, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strace_says_is_read() {
        let text = "\
10 execve(\"/x/palisade-bench\", [\"a\"], 0x7 /* 3 vars */) = 0 <0.000900>
11 execve(\"/b/refused\", [\"a\"], 0x7 /* 0 vars */) = 0 <0.000500>
12 execve(\"/b/d1\", [\"/b/d1\"], 0x7 /* 0 vars */ <unfinished ...>
10 <... vfork resumed>) = 12
12 <... execve resumed>) = 0 <0.000200>
13 execve(\"/b/d2\", [\"/b/d2\"], 0x7 /* 0 vars */) = 0 <0.000100>
14 execve(\"/b/d3\", [\"/b/d3\"], 0x7 /* 0 vars */) = -1 EPERM (Operation not permitted) <0.000100>
";
        let (mean, count) = strace(text, Below(Path::new("/b"))).unwrap();
        assert!((mean - 0.000_15).abs() < 1e-9 && count == 2, "{mean} {count}");
        assert_eq!(strace("", Below(Path::new("/b"))), None);
    }

    #[test]
    fn what_the_kernel_says_is_read() {
        let text = "\
# tracer: nop
           <...>-10      [001] .....  100.000000: sys_execve(filename: 7ffd, argv: 7f, envp: 7f)
               d1-10      [001] .....  100.000100: sys_execve -> 0x0
  palisade-bench-9       [000] .....  100.000100: sys_execve(filename: 7ffd, argv: 7f, envp: 7f)
  palisade-bench-11      [001] .....  100.000200: sys_execve(filename: 7ffd, argv: 7f, envp: 7f)
           <...>-9       [000] .....  100.000210: sys_execve -> 0xffffffffffffffff
               d2-11      [001] .....  100.000260: sys_execve -> 0x0
";
        let (mean, count) = last(text, 1).unwrap();
        assert!((mean - 0.000_06).abs() < 1e-9 && count == 1);
        assert!((last(text, 2).unwrap().0 - 0.000_08).abs() < 1e-9);
        assert_eq!(last(text, 3), None);
    }
}
