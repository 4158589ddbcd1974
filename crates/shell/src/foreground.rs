// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds out which program has the shell's terminal: the shell itself, a command, or a program that reads lines itself:
//! on another machine, for another user, in a container, or as an inner shell.
//!
//! The kernel names the process group, and `/proc` gives the arguments of its processes. Printed output is not used. A
//! program may lie about its arguments, but then the proxy only does less.
//!
//! - `layer`: where a command line's program sends the lines that are typed

mod layer;

use std::fs;

pub use layer::{Kind, Layer};

/// The number of processes that are examined, from the foreground process up to the shell.
const DEPTH: usize = 32;
/// The number of bytes that are read of a command line.
const CAP: u64 = 16 << 10;

/// Where typed lines go at the moment: through these layers, the outermost first. None: to the shell or an ordinary
/// command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Foreground {
    layers: Vec<Layer>,
}

impl Foreground {
    /// Lines go through these layers.
    #[must_use]
    pub fn of(layers: Vec<Layer>) -> Self {
        Self { layers }
    }

    /// The layers of the process group `group`, seen from the shell with the process id `shell`.
    #[must_use]
    pub fn read(group: i32, shell: i32) -> Self {
        let mut layers = Vec::new();
        let mut next = Some(group).filter(|group| *group > 1 && *group != shell);
        for _ in 0..DEPTH {
            let Some(process) = next else { break };
            let parent = match process_of(process) {
                Some((parent, _)) => parent,
                // The leader of a pipeline may have ended while other members still run.
                None if process == group => match member(group, shell) {
                    Some(other) => {
                        next = Some(other);
                        continue;
                    }
                    None => break,
                },
                None => break,
            };
            layers.extend(command_line(process).and_then(|words| {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                Layer::of(&words)
            }));
            next = Some(parent).filter(|parent| *parent > 1 && *parent != shell);
        }
        layers.reverse();
        // `sudo -i` is one program and the shell that it starts; one layer is enough.
        layers.dedup_by(|inner, outer| inner.kind == Kind::Shell && outer.kind == Kind::User);
        // If sudo uses its own terminal, it is two processes.
        layers.dedup();
        Self { layers }
    }

    /// Whether lines that are typed now don't go to the shell.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        !self.layers.is_empty()
    }

    /// Whether paths that are printed now belong to another machine or another root directory.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        self.layers.iter().any(|layer| matches!(layer.kind, Kind::Remote | Kind::Container))
    }

    /// The layers, the outermost first.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }
}

impl core::fmt::Display for Foreground {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (index, layer) in self.layers.iter().enumerate() {
            let between = if index == 0 { "" } else { " > " };
            write!(to, "{between}{layer}")?;
        }
        Ok(())
    }
}

/// A process's parent and process group.
fn process_of(process: i32) -> Option<(i32, i32)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(1).map(str::parse);
    Some((fields.next()?.ok()?, fields.next()?.ok()?))
}

/// A child of the shell in that group.
fn member(group: i32, shell: i32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).ok()?;
    children
        .split_ascii_whitespace()
        .filter_map(|child| child.parse().ok())
        .find(|child| process_of(*child).is_some_and(|(_, of)| of == group))
}

fn command_line(process: i32) -> Option<Vec<String>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = fs::File::open(format!("/proc/{process}/cmdline")).ok()?;
    file.take(CAP).read_to_end(&mut bytes).ok()?;
    let words = bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    Some(words.take(256).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn what_is_in_front_is_read_from_the_kernel() {
        // A shell in a shell in a shell; the innermost one waits for its input.
        let mut child = Command::new("bash")
            .args(["-c", "sh -c 'echo $$; bash --norc; :'; :"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        use std::io::{BufRead, BufReader, Write};
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let middle: i32 = lines.next().unwrap().unwrap().parse().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"echo $$\n").unwrap();
        let inner: i32 = lines.next().unwrap().unwrap().parse().unwrap();
        let outer = i32::try_from(child.id()).unwrap();
        assert_eq!(Foreground::read(inner, outer).to_string(), "bash");
        assert!(!Foreground::read(middle, outer).is_foreign(), "a script is a command");
        assert!(!Foreground::read(outer, outer).is_foreign());
        // The group of the process that has ended is still the group of its children.
        assert!(!Foreground::read(i32::MAX, outer).is_foreign());
        drop(input);
        child.wait().unwrap();
    }
}
