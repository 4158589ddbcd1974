// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that the terminal stays usable when the proxy dies.

use super::screen::{Screen, Setting};
use palisade_acceptance::patience::pause;
use rustix::process::{Signal, kill_process};
use std::time::Duration;

/// A shell that has no proxy starts one, which dies by a signal: the outer shell's terminal must be in order.
fn dies_by(signal: Signal) -> Screen {
    let mut screen = Setting::of("bash", "").start();
    screen.wait_for_line("$");
    assert!(!screen.is_restored(), "it is raw");
    kill_process(screen.pid(), signal).unwrap();
    screen.end();
    screen.wait_for_restored();
    screen
}

#[test]
fn by_term() {
    dies_by(Signal::TERM);
}

#[test]
fn by_hup() {
    dies_by(Signal::HUP);
}

#[test]
fn by_kill() {
    dies_by(Signal::KILL);
}

#[test]
fn by_abort() {
    dies_by(Signal::ABORT);
}

#[test]
fn by_an_instruction() {
    dies_by(Signal::ILL);
}

#[test]
fn in_the_alternate_screen() {
    let mut screen = Setting::of("bash", "").ready();
    screen.line("printf '\\e[?1049h\\e[?1000h\\e[?25l\\e[>1u'; echo al''ternate; sleep 1000");
    screen.wait_for("alternate");
    assert!(screen.screen().alternate_screen());
    kill_process(screen.pid(), Signal::KILL).unwrap();
    screen.end();
    screen.wait_for_restored();
    screen.wait_until("the main screen with a cursor and no mouse", |screen| {
        !screen.alternate_screen()
            && !screen.hide_cursor()
            && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
    });
    assert!(screen.raw().windows(7).any(|window| window == b"\x1b[=0;1u"));
}

#[test]
fn the_outer_shell_goes_on() {
    let proxy = super::screen::PALISADE;
    let mut screen =
        Setting::of("bash", "").command(&["/bin/bash", "--norc", "-i"]).with("PS1", "outer> ").start();
    screen.wait_for_line("outer>");
    screen.line(&format!("'{proxy}' shell --shell /bin/bash"));
    screen.wait_for_last("$");
    screen.line("kill -KILL $PPID");
    // That is asked about.
    screen.wait_for("Enter again");
    pause(Duration::from_millis(400));
    screen.keys("\r");
    screen.wait_for("Killed");
    // Behind it may be what the proxy had no time to take away.
    screen.wait_until("the outer prompt", |screen| screen.contents().contains("\nouter>"));
    pause(Duration::from_millis(200));
    screen.line("clear; echo us''able; stty -a | grep -ow icanon");
    screen.wait_for_line("usable");
    screen.wait_for_line("icanon");
}

#[test]
fn it_stops_and_comes_back() {
    let mut screen = Setting::of("bash", "").ready();
    kill_process(screen.pid(), Signal::TSTP).unwrap();
    screen.wait_for_stopped();
    kill_process(screen.pid(), Signal::CONT).unwrap();
    screen.line("echo ba''ck");
    screen.wait_for_line("back");
    assert!(!screen.is_restored());
}

#[test]
fn a_shell_that_ends_takes_its_modes_along() {
    let mut screen = Setting::of("bash", "").ready();
    screen.line("printf '\\e[?1049h\\e[?25l'; exit 5");
    assert_eq!(screen.end().code(), Some(5));
    screen.wait_until("the main screen", |screen| !screen.alternate_screen() && !screen.hide_cursor());
    assert!(screen.is_restored());
}
