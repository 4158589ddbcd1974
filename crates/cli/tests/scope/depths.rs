// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the depths of scopes: how far below the marked process the mark is inherited.

use super::world::World;

/// A command so many processes below the shell: each subshell is one, the command itself the last.
fn below(levels: usize) -> String {
    let mut script = "/bin/true; echo $?".to_owned();
    for _ in 1..levels {
        script = format!("( {script}; : )");
    }
    script
}

#[track_caller]
fn expect(world: &World, levels: usize, code: &str) {
    let run = world.script(&["--verdict", "kill"], &below(levels));
    assert_eq!(run.out, format!("{code}\n"), "{levels} below: {run:?}");
}

pub(crate) fn one_level_and_ancestry() {
    let world = World::new("[enforcement]\ndepth = \"one_level\"");
    expect(&world, 1, "137");
    expect(&world, 2, "0");
    assert_eq!(world.scope(&["depth", "ancestry"]).code, 0);
    assert_eq!(world.scope(&["depth"]).out, "ancestry(8)\n");
    expect(&world, 2, "137");
    expect(&world, 9, "0");
}

pub(crate) fn ancestry_and_inheritance() {
    let world = World::new("[enforcement]\ndepth = \"ancestry\"\nancestry_max_depth = 2");
    expect(&world, 2, "137");
    expect(&world, 4, "0");
    assert_eq!(world.scope(&["depth", "propagate_on_fork"]).code, 0);
    expect(&world, 4, "137");
    expect(&world, 20, "137");
    assert_eq!(world.scope(&["depth", "ancestry(17)"]).code, 2);
}

pub(crate) fn control_group() {
    let world = World::new("[enforcement]\ndepth = \"cgroup\"");
    expect(&world, 1, "137");
    expect(&world, 4, "137");
    let run = world.script(&[], "grep -o '/palisade/scope-.*' /proc/self/cgroup");
    assert!(run.out.starts_with("/palisade/scope-"), "{run:?}");
    let id = run.out.trim().trim_start_matches("/palisade/scope-").to_owned();
    world.event(|event| {
        event["operation"] == "exit" && event["subject"]["scope"] == id.parse::<u64>().unwrap()
    });
}

pub(crate) fn daemons_stay_marked() {
    let world = World::new("");
    let script = "
import os, time
if os.fork() == 0:
    os.setsid()
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == middle:
        time.sleep(0.001)
    if os.fork() == 0:
        os.execv('/bin/echo', ['echo', 'ran'])
    print(os.wait()[1], flush=True)
    os._exit(0)
";
    let run = world.python(&["--verdict", "kill"], script);
    assert_eq!((run.code, run.out.as_str()), (0, "9\n"), "{run:?}");
}
