// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions of agents that run outside of a sandbox, and whose hook (`palisade agent install`) confines each command.

use super::agents::{self, Agent, Installed};
use super::script::{self, Kind};
use super::{Model, SESSION, make_project};
use crate::support::{Place, everybody, has, job};
use palisade_acceptance::process;
use std::fs::File;
use std::process::Stdio;

#[test]
fn of_claude() {
    play(&agents::CLAUDE);
}

#[test]
fn of_opencode() {
    play(&agents::OPENCODE);
}

fn play(agent: &Agent) {
    if !["git", agent.feature()].iter().all(|feature| has(feature)) {
        return;
    }
    let people = everybody();
    let installed = Installed::new(agent, people.first().unwrap());
    for place in people {
        play_as(agent, &installed, &place);
    }
}

/// Plays a session whose commands the hook confines. The agent itself isn't confined.
fn play_as(agent: &Agent, installed: &Installed, place: &Place) {
    make_project(place, agent, installed);
    let script = script::hooked();
    let model = Model::start_by(place.command("python3"), place, &script.written(place, agent));
    let mut command = place.command("env");
    command.arg(format!("--chdir={}", place.work.join("sub").display()));
    agent.prepare(place, &place.home, &mut command, model.port);
    let before = place.read(agent.settings);
    let hook = |verb: &str| {
        let run = job::finish(place.command(place.binary()).args(["agent", verb, agent.name]));
        assert_eq!(run.code, 0, "{verb}: {run:?}");
    };
    hook("install");
    // Claude Code as root wants to know that it is in a sandbox.
    command.arg("IS_SANDBOX=1").arg(&installed.program).args(agent.arguments());
    let (out, err) = (place.home.join("out"), place.home.join("err"));
    command.stdin(Stdio::null()).stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let mut session = command.spawn().unwrap();
    let ended = process::wait(&mut session, SESSION).unwrap();
    if ended.is_none() {
        let _killed = session.kill();
        let _reaped = session.wait();
    }
    let [out, err] = [out, err].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let all = format!("{}, as {}: {ended:?}\n{}\n{out}\n{err}", agent.name, place.name(), model.record());
    assert!(ended.is_some_and(|status| status.success()), "{all}");
    let results = model.results();
    for step in &script.steps {
        let result = results.get(step.name).unwrap_or_else(|| panic!("no step {:?}: {all}", step.name));
        match &step.kind {
            Kind::Works { prints } => assert!(result.contains(prints), "{}: {result}\n{all}", step.name),
            Kind::Forbidden { prints, .. } => {
                assert!(result.contains(script::TRIED), "{} wasn't tried: {result}\n{all}", step.name);
                assert!(!result.contains(prints), "{} works: {result}\n{all}", step.name);
            }
        }
    }
    // The model reads what was refused, and that it is useless to try again.
    let told = &results["namespace"];
    assert!(told.contains("refused: syscall unshare") && told.contains("Do not retry."), "{told}");
    for step in &script.steps {
        if let Kind::Forbidden { prints, .. } = &step.kind {
            let line = script::filled(step.command, place, agent);
            let line = line.replace("@PID@", &model.child.id().to_string());
            let outside = place.outside(&format!("cd ~/work/sub; {line}"));
            assert!(outside.contains(prints), "{} doesn't work outside: {outside:?}", step.name);
        }
    }
    hook("remove");
    assert_eq!(place.read(agent.settings), before);
}
