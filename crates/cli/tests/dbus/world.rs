// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The test's own buses and services, and the processes of its launches.

use crate::support::{Place, Run, eventually, give, job};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// What every conversation in Python begins with.
pub(crate) const PRELUDE: &str = "
import dbus, os, socket, sys
def echo(bus=None, name='org.example.Echo'):
    return dbus.Interface((bus or dbus.SessionBus()).get_object(name, '/org/example/Echo', introspect=False), 'org.example.Echo')
def tried(what):
    try: return str(what())
    except dbus.DBusException as error: return error.get_dbus_name().rsplit('.', 1)[1]
    except OSError as error: return type(error).__name__
";

pub(crate) fn python(program: &str) -> String {
    format!("{PRELUDE}{program}")
}

/// Says a line to a child, and reads the line that it answers.
pub(crate) fn ask(child: &mut Child, output: &mut impl BufRead, line: &str) -> String {
    writeln!(child.stdin.as_mut().unwrap(), "{line}").unwrap();
    let mut answer = String::new();
    output.read_line(&mut answer).unwrap();
    answer.trim_end().to_owned()
}

pub(crate) fn output_of(child: &mut Child) -> BufReader<ChildStdout> {
    BufReader::new(child.stdout.take().unwrap())
}

/// Does what it is asked for, line by line.
pub(crate) const OBEDIENT: &str = "
for line in sys.stdin:
    print(tried(lambda: eval(line)), flush=True)
";

const SERVICE: &str = include_str!("service.py");

/// A session's and a system's bus of a person's own, with services on them.
pub(crate) struct World<'p> {
    pub(crate) place: &'p Place,
    children: Vec<Child>,
}

/// The bus allows everything to every user, so every refusal is the filter's.
const CONFIGURATION: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=LISTEN</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"#;

impl<'p> World<'p> {
    /// Both buses, and `org.example.Echo` and `org.example.Hidden` on each.
    pub(crate) fn new(place: &'p Place) -> Self {
        let mut world = Self::without_bus(place);
        for bus in ["session", "system"] {
            world.start_bus(bus);
            world.start_service(bus, &["org.example.Echo", "org.example.Hidden"]);
        }
        world
    }

    /// The person's run-time directory, and nothing in it.
    pub(crate) fn without_bus(place: &'p Place) -> Self {
        let runtime = place.home.join("run");
        std::fs::create_dir(&runtime).unwrap();
        std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
        give(place, &runtime);
        Self { place, children: Vec::new() }
    }

    /// The socket of a bus.
    pub(crate) fn socket(&self, bus: &str) -> PathBuf {
        match bus {
            "session" => self.place.home.join("run/bus"),
            other => self.place.home.join(other),
        }
    }

    pub(crate) fn start_bus(&mut self, bus: &str) {
        let socket = self.socket(bus);
        self.start_daemon(bus, &format!("unix:path={}", socket.display()));
        assert!(eventually(|| std::os::unix::net::UnixStream::connect(&socket).is_ok()), "no {bus} bus");
    }

    /// A daemon that listens anywhere.
    pub(crate) fn start_daemon(&mut self, name: &str, address: &str) {
        let configuration = CONFIGURATION.replace("unix:path=LISTEN", address);
        let file = self.place.write(&format!("{name}.conf"), configuration);
        let _stale = std::fs::remove_file(self.socket(name));
        let mut daemon = self.command("dbus-daemon");
        daemon.arg("--nofork").arg(format!("--config-file={}", file.display()));
        self.children.push(spawn(&mut daemon));
    }

    /// Starts services of these names.
    pub(crate) fn start_service(&mut self, bus: &str, names: &[&str]) {
        let script = self.place.write("service.py", SERVICE);
        let notes = self.place.home.join("notes");
        let before = self.notes().len();
        let mut python = self.command("/usr/bin/python3");
        python.arg(script).arg(notes).arg(bus).args(names);
        self.children.push(spawn(&mut python));
        let ready = format!("ready {bus}");
        assert!(eventually(|| self.notes()[before..].contains(&ready)), "no service on the {bus} bus");
    }

    /// What the services were asked for.
    pub(crate) fn notes(&self) -> Vec<String> {
        let notes = std::fs::read_to_string(self.place.home.join("notes")).unwrap_or_default();
        notes.lines().map(str::to_owned).collect()
    }

    /// Starts something that lives as long as this.
    pub(crate) fn start(&mut self, command: &mut Command) {
        self.children.push(spawn(command));
    }

    /// Ends everything; nothing else may be left of what was started here.
    pub(crate) fn end(self) {
        let place = self.place;
        drop(self);
        place.assert_all_dead();
    }

    /// Ends everything.
    pub(crate) fn end_all(&mut self) {
        while let Some(child) = self.children.pop() {
            end(Some(child));
        }
    }

    /// A program outside, as the user of the test, with the addresses of both buses.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.place.command(program);
        command
            .env("XDG_RUNTIME_DIR", self.place.home.join("run"))
            .env("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}", self.socket("session").display()))
            .env("DBUS_SYSTEM_BUS_ADDRESS", format!("unix:path={}", self.socket("system").display()));
        command
    }

    /// `palisade run OPTIONS -- COMMAND`, not started yet.
    pub(crate) fn palisade(&self, options: &[&str], command: &[&str]) -> Command {
        let mut palisade = self.command(self.place.binary());
        palisade.arg("run").args(options).arg("--").args(command);
        palisade
    }

    pub(crate) fn run(&self, options: &[&str], command: &[&str]) -> Run {
        job::finish(&mut self.palisade(options, command))
    }

    /// Runs Python inside.
    pub(crate) fn python(&self, options: &[&str], program: &str) -> Run {
        self.run(options, &["/usr/bin/python3", "-c", program])
    }

    /// Runs Python outside.
    pub(crate) fn python_outside(&self, program: &str) -> Run {
        job::finish(self.command("/usr/bin/python3").args(["-c", program]))
    }

    /// Opens a profile's application.
    pub(crate) fn open(&self, arguments: &[&str]) -> Run {
        job::finish(self.command(self.place.binary()).arg("open").args(arguments))
    }

    /// Starts Python inside, to talk to it line by line.
    pub(crate) fn converse(&self, options: &[&str], program: &str) -> Child {
        let mut palisade = self.palisade(options, &["/usr/bin/python3", "-uc", program]);
        palisade.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        self.end_all();
    }
}

fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn end(child: Option<Child>) {
    if let Some(mut child) = child {
        let _dead_already = child.kill();
        let _reaped = child.wait();
    }
}

/// A process: its number, and when it was started, which tells it from another of that number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) name: String,
    parent: u32,
    started: String,
}

impl Process {
    fn read(directory: &Path) -> Option<Self> {
        let stat = std::fs::read_to_string(directory.join("stat")).ok()?;
        let (front, rest) = stat.rsplit_once(") ")?;
        let (pid, name) = front.split_once(" (")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        Some(Self {
            pid: pid.parse().ok()?,
            name: name.to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            started: (*fields.get(19)?).to_owned(),
        })
        .filter(|_process| fields.first() != Some(&"Z"))
    }

    /// Whether it lives.
    pub(crate) fn lives(&self) -> bool {
        Self::read(Path::new(&format!("/proc/{}", self.pid))).is_some_and(|now| now.started == self.started)
    }

    /// What it has started and so on.
    pub(crate) fn descendants(of: u32) -> Vec<Self> {
        let all: Vec<Self> = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| Self::read(&entry.path()))
            .collect();
        let mut found: Vec<Self> = Vec::new();
        loop {
            let next = all.iter().find(|process| {
                (process.parent == of || found.iter().any(|known| known.pid == process.parent))
                    && !found.contains(process)
            });
            match next {
                Some(process) => found.push(process.clone()),
                None => return found,
            }
        }
    }

    /// The filters that a launcher has started.
    pub(crate) fn filters(of: u32) -> Vec<Self> {
        // The kernel keeps 15 letters of a name.
        Self::descendants(of)
            .into_iter()
            .filter(|process| process.name.starts_with("xdg-dbus-proxy"))
            .collect()
    }
}
