// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A terminal with the proxy in it: a test types into it and reads its screen of 80 by 24.

use crate::support::job;
use palisade_acceptance::patience::Patience;
use palisade_sys::terminal::{self, Pair};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The program.
pub(crate) const PALISADE: &str = env!("CARGO_BIN_EXE_palisade");
/// On a loaded machine everything takes long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether the machine has a program.
pub(crate) fn has(program: &str) -> bool {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|directory| directory.join(program).is_file());
    if !found {
        eprintln!("this machine lacks {program}: nothing is tested with it");
    }
    found
}

/// How a shell is set up for a test.
pub(crate) struct Setting {
    home: tempfile::TempDir,
    command: Vec<String>,
    variables: Vec<(String, String)>,
    size: (u16, u16),
}

impl Setting {
    /// A shell whose start-up file has the line, and in front of it what is given.
    pub(crate) fn of(shell: &str, start: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        match shell {
            "bash" => fs::write(
                path(".bashrc"),
                format!("PS1='$ '; HISTFILE=\n{start}\neval \"$('{PALISADE}' shell init bash)\"\n"),
            ),
            "zsh" => fs::write(
                path(".zshrc"),
                format!("PS1='$ '; HISTFILE=; KEYTIMEOUT=1\n{start}\neval \"$('{PALISADE}' shell init zsh)\"\n"),
            ),
            "fish" => {
                fs::create_dir_all(path(".config/fish")).unwrap();
                // Without it fish reads all manual pages in the background, in each new home, for ten seconds or more.
                fs::create_dir_all(path(".local/share/fish/generated_completions")).unwrap();
                fs::write(
                    path(".config/fish/config.fish"),
                    format!(
                        "function fish_prompt; echo -n '$ '; end\nset -g fish_greeting\n{start}\n'{PALISADE}' shell init fish | source\n"
                    ),
                )
            }
            other => panic!("{other}"),
        }
        .unwrap();
        let program = format!("/usr/bin/{shell}");
        let command = vec![PALISADE.to_owned(), "shell".into(), "--shell".into(), program];
        Self { home, command, variables: Vec::new(), size: (80, 24) }
    }

    /// Something else is started.
    pub(crate) fn command(mut self, command: &[&str]) -> Self {
        self.command = command.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// A variable.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Another size.
    pub(crate) fn sized(mut self, columns: u16, rows: u16) -> Self {
        self.size = (columns, rows);
        self
    }

    /// A file in the home directory.
    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Starts it.
    pub(crate) fn start(self) -> Screen {
        let Pair { outer, inner } = terminal::open(winsize(self.size)).unwrap();
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).current_dir(self.home.path());
        for name in
            ["PALISADE_SHELL", "PALISADE_SHELL_OFF", "ZDOTDIR", "TMUX", "XDG_CONFIG_HOME", "XDG_STATE_HOME"]
        {
            command.env_remove(name);
        }
        command
            .env("HOME", self.home.path())
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .env("SHELL", "/bin/bash")
            .envs(self.variables);
        let before = tcgetattr(&inner).unwrap();
        let child = terminal::start(&mut command, &inner, &[]).unwrap();
        let mut reader = fs::File::from(outer.try_clone().unwrap());
        let (sender, received) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            while let Ok(count) = reader.read(&mut buffer) {
                if count == 0 || sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Screen {
            parser: vt100::Parser::new(self.size.1, self.size.0, 500),
            outer,
            inner,
            child,
            received,
            before,
            home: self.home,
            raw: Vec::new(),
        }
    }

    /// Starts it and waits for the prompt.
    pub(crate) fn ready(self) -> Screen {
        let mut screen = self.start();
        screen.wait_for_line("$");
        screen
    }
}

fn winsize((columns, rows): (u16, u16)) -> Winsize {
    Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Whether the process of this name below another leads the group that its terminal belongs to.
pub(crate) fn is_in_front(below: u32, name: &str) -> bool {
    let Some(pid) = job::below(below, name) else { return false };
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    // After the name, which may hold anything: state, parent, group, session, terminal, the group in front.
    let Some((_name, rest)) = stat.rsplit_once(") ") else { return false };
    let fields: Vec<&str> = rest.split(' ').collect();
    fields.len() > 5 && fields[2] == fields[5]
}

/// The state of a process, as a letter (proc_pid_stat(5)).
fn state_of(pid: rustix::process::Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn is_last(screen: &vt100::Screen, line: &str) -> bool {
    screen
        .contents()
        .lines()
        .rfind(|found| !found.trim().is_empty())
        .is_some_and(|found| found.trim_end() == line)
}

/// What is looked at.
pub(crate) struct Screen {
    parser: vt100::Parser,
    outer: OwnedFd,
    inner: OwnedFd,
    child: Child,
    received: Receiver<Vec<u8>>,
    before: Termios,
    home: tempfile::TempDir,
    raw: Vec<u8>,
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Screen {
    /// A file in the home directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Types bytes.
    pub(crate) fn keys(&mut self, bytes: impl AsRef<[u8]>) {
        let mut bytes = bytes.as_ref();
        while !bytes.is_empty() {
            let count = rustix::io::write(&self.outer, bytes).unwrap();
            bytes = &bytes[count..];
        }
    }

    /// Types keys as people do, one after the other.
    pub(crate) fn slowly(&mut self, text: &str) {
        for character in text.chars() {
            self.keys(character.to_string());
            std::thread::sleep(Duration::from_millis(15));
            self.look();
        }
    }

    /// Types a line and Enter; if a prompt is on its way, at that prompt.
    pub(crate) fn line(&mut self, line: &str) {
        self.prompted();
        self.keys(line);
        self.keys("\r");
    }

    /// Waits for a prompt that is on its way.
    pub(crate) fn prompted(&mut self) {
        const MARK: &[u8] = b"\x1b]133;";
        let begun = Instant::now();
        let mut patience = Patience::new(Duration::from_secs(2));
        while !patience.is_spent() {
            self.look();
            let last = self.raw.windows(MARK.len()).rposition(|bytes| bytes == MARK);
            match last.and_then(|at| self.raw.get(at + MARK.len())) {
                Some(b'A' | b'D') => std::thread::sleep(Duration::from_millis(5)),
                Some(b'C') if begun.elapsed() < Duration::from_millis(100) => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => break,
            }
        }
    }

    /// Takes in what has come.
    pub(crate) fn look(&mut self) {
        while let Ok(bytes) = self.received.try_recv() {
            self.parser.process(&bytes);
            self.raw.extend_from_slice(&bytes);
        }
    }

    /// All bytes that the terminal got.
    pub(crate) fn raw(&mut self) -> &[u8] {
        self.look();
        &self.raw
    }

    /// Waits until the terminal has got those bytes.
    #[track_caller]
    pub(crate) fn wait_for_raw(&mut self, bytes: &[u8]) {
        let mut patience = Patience::new(PATIENCE);
        while !self.raw().windows(bytes.len()).any(|found| found == bytes) {
            assert!(!patience.is_spent(), "no {}: {}", bytes.escape_ascii(), self.raw.escape_ascii());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What is on the screen.
    pub(crate) fn text(&mut self) -> String {
        self.look();
        self.parser.screen().contents()
    }

    /// The screen, as the terminal has it.
    pub(crate) fn screen(&mut self) -> &vt100::Screen {
        self.look();
        self.parser.screen()
    }

    /// Waits until the screen is right.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, what: &str, mut right: impl FnMut(&vt100::Screen) -> bool) {
        let mut patience = Patience::new(PATIENCE);
        loop {
            self.look();
            if right(self.parser.screen()) {
                return;
            }
            if patience.is_spent() {
                let text = self.parser.screen().contents();
                let from = self.raw.len().saturating_sub(1500);
                panic!("no {what} on the screen:\n{text}\n---\n{}", self.raw[from..].escape_ascii());
            }
            if let Ok(bytes) = self.received.recv_timeout(Duration::from_millis(20)) {
                self.parser.process(&bytes);
                self.raw.extend_from_slice(&bytes);
            }
        }
    }

    /// Waits until a text is on the screen.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |screen| screen.contents().contains(text));
    }

    /// Waits until a line of the screen is exactly that.
    #[track_caller]
    pub(crate) fn wait_for_line(&mut self, line: &str) {
        self.wait_until(line, |screen| screen.contents().lines().any(|found| found.trim_end() == line));
    }

    /// Waits until the last line that isn't empty is that.
    #[track_caller]
    pub(crate) fn wait_for_last(&mut self, line: &str) {
        self.wait_until(line, |screen| is_last(screen, line));
    }

    /// Waits until a program below the one that was started has its terminal. A key that interrupts comes too early before
    /// that: a child that bash is just forking dies of it and leaves bash without its terminal, which is the end of its
    /// input; and what is stopped in the middle of a vfork never counts as stopped.
    #[track_caller]
    pub(crate) fn wait_for_program(&mut self, name: &str) {
        let below = self.child.id();
        self.wait_until(&format!("program {name}"), |_| is_in_front(below, name));
    }

    /// Presses Control-C until there is an empty prompt.
    #[track_caller]
    pub(crate) fn dismiss(&mut self) {
        self.press("\x03", "$");
    }

    /// Presses keys that interrupt until the screen ends with this prompt. A shell that is about to fork, and fish while it
    /// evaluates, lose a signal or use it for what just ended. A user would press the keys again.
    #[track_caller]
    pub(crate) fn press(&mut self, keys: &str, prompt: &str) {
        for _ in 0..10 {
            self.keys(keys);
            let mut patience = Patience::new(Duration::from_secs(2));
            while !patience.is_spent() {
                self.look();
                if self.text().trim_end().ends_with(prompt) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        panic!("no {prompt:?} after {keys:?}:\n{}", self.text());
    }

    /// Changes the size.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.look();
        self.parser.screen_mut().set_size(rows, columns);
        tcsetwinsize(&self.outer, winsize((columns, rows))).unwrap();
    }

    /// The process that was started.
    pub(crate) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        let mut patience = Patience::new(PATIENCE);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.look();
                return status;
            }
            assert!(!patience.is_spent(), "it doesn't end:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether the terminal's settings are those before.
    pub(crate) fn is_restored(&self) -> bool {
        let now = tcgetattr(self.inner.as_fd()).unwrap();
        now.local_modes == self.before.local_modes
            && now.input_modes == self.before.input_modes
            && now.output_modes == self.before.output_modes
    }

    /// Waits until they are.
    #[track_caller]
    pub(crate) fn wait_for_restored(&mut self) {
        let mut patience = Patience::new(PATIENCE);
        while !self.is_restored() {
            assert!(!patience.is_spent(), "the terminal isn't as it was");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The proxy restores the terminal before it stops. A continuation that comes in between continues nothing.
    pub(crate) fn wait_for_stopped(&mut self) {
        self.wait_for_restored();
        let mut patience = Patience::new(PATIENCE);
        while state_of(self.pid()) != Some('T') {
            assert!(!patience.is_spent(), "the proxy doesn't stop");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
