// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains a refused connection to a socket: which program listens there.

use crate::error::quoted;
use palisade_event::{Detail, Event, Mechanism, Object, Operation, Sandbox, Subject, Verdict, Why};
use std::time::SystemTime;

/// Ends of paths, the program that listens there, and what access to it means.
const KNOWN: &[(&str, &str)] = &[
    ("docker.sock", "Docker's: a process that reaches it is root on the host"),
    ("podman.sock", "Podman's: a process that reaches it starts containers with your files"),
    ("containerd.sock", "containerd's: a process that reaches it is root on the host"),
    ("crio.sock", "CRI-O's: a process that reaches it is root on the host"),
    ("buildkitd.sock", "BuildKit's: a process that reaches it runs builds on the host"),
    ("lxd/unix.socket", "LXD's: a process that reaches it is root on the host"),
    ("libvirt-sock", "libvirt's: a process that reaches it controls virtual machines"),
    ("systemd/private", "systemd's: a process that reaches it starts programs outside"),
    ("systemd/notify", "systemd's"),
    ("system_bus_socket", "the system D-Bus: its services act outside"),
    ("/bus", "the session D-Bus: its services start programs outside"),
    ("/at-spi/bus", "the accessibility bus: a process that reaches it reads and controls applications"),
    (".X11-unix/X", "the X server's: a process that reaches it sees and types everything"),
    ("wayland-", "the Wayland compositor's"),
    ("pipewire-", "PipeWire's: a process that reaches it hears and sees you"),
    ("pulse/native", "PulseAudio's: a process that reaches it hears you"),
    ("S.gpg-agent", "the GnuPG agent's: a process that reaches it signs and decrypts as you"),
    ("ssh-agent", "an SSH agent's: a process that reaches it logs in as you"),
    ("/agent.", "an SSH agent's: a process that reaches it logs in as you"),
    ("keyring/", "the keyring's: a process that reaches it asks for your passwords"),
    ("nscd/socket", "the name service cache's"),
    ("dev/log", "the system log's"),
    ("mysqld.sock", "MySQL's"),
    (".s.PGSQL.", "PostgreSQL's"),
    ("tmux-", "a tmux server's: a process that reaches it types into your shells"),
    ("vscode-", "an editor's: a process that reaches it runs commands in it"),
];

/// The refusal as an event.
pub(crate) fn event(subject: Subject, path: &[u8]) -> Event {
    let object = String::from_utf8_lossy(path).into_owned();
    let known = KNOWN.iter().find(|(part, _whose)| object.ends_with(part) || object.contains(part));
    let whose = known.map_or("another program's", |(_part, whose)| whose);
    let hint = format!("palisade run --rw {} …", quoted(&object));
    Event::new(
        SystemTime::now(),
        Detail::Sandbox(Sandbox::default()),
        subject,
        (Operation::Connect, Object::socket(object)),
        (Verdict::Refused, Mechanism::Broker),
        Why::text(format!("the socket is {whose}")),
    )
    .with_hint(Some(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_says_whose_socket_it_is() {
        let subject = Subject { program: "docker".into(), ..Subject::default() };
        let event = event(subject, b"/var/run/docker.sock");
        assert_eq!(
            event.to_string(),
            "refused: connect /var/run/docker.sock by docker: \
             the socket is Docker's: a process that reaches it is root on the host (broker)"
        );
        assert_eq!(event.hint.unwrap(), "palisade run --rw /var/run/docker.sock …");
        assert!(super::event(Subject::default(), b"/w/s").why.text.contains("another program's"));
    }
}
