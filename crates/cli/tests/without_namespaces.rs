// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a kernel without user namespaces, as in many containers: a clear refusal, or the remaining walls if
//! the user asks for them.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{self, everybody, job};

/// Runs a line where no further user namespace can be made. `$P` is palisade.
fn confined(place: &support::Place, line: &str) -> String {
    let script = format!("echo 0 >/proc/sys/user/max_user_namespaces || exit 99\n{line}\n");
    let binary = place.binary().to_str().unwrap().to_owned();
    place.outside(&format!("P={binary} unshare -Ur sh -c '{script}' 2>&1; true"))
}

#[test]
fn a_guarantee_that_cannot_be_given_stops_the_launch() {
    for place in everybody() {
        let said = confined(&place, "$P run -- touch started; echo code $?; ls");
        assert!(said.contains("user.max_user_namespaces is 0"), "{said}");
        assert!(said.contains("hint: sysctl -w user.max_user_namespaces=10000"), "{said}");
        assert!(said.contains("code 125"), "{said}");
        assert!(!said.lines().any(|line| line == "started"), "{said}");
    }
}

#[test]
fn best_effort_keeps_the_other_walls_and_says_which_are_missing() {
    for place in everybody() {
        let secret = place.write("secret", "outside\n");
        let secret = secret.to_str().unwrap();
        let said = confined(
            &place,
            &format!(
                "$P run --best-effort -- sh -c \"touch made; cat {secret}; grep Seccomp: /proc/self/status\"; ls"
            ),
        );
        assert!(said.contains("note: no user namespaces on this host"), "{said}");
        assert!(said.lines().any(|line| line == "made"), "{said}");
        assert!(!said.contains("outside\n"), "{said}");
        assert!(said.contains("Seccomp:\t2"), "{said}");
    }
}

#[test]
fn what_is_required_by_name_holds_or_the_launch_stops() {
    for place in everybody() {
        let said = confined(
            &place,
            "$P run --require unchanged,no-network --status-fd 3 -- touch made 3>status; echo code $?; ls; cat status; \
             $P run --require hidden -- touch started; echo code $?; ls",
        );
        assert!(said.contains(r#""unchanged":"Landlock""#) && said.contains(r#""hidden":null"#), "{said}");
        assert!(said.lines().any(|line| line == "code 0"), "{said}");
        assert!(said.lines().any(|line| line == "made"), "{said}");
        assert!(said.lines().any(|line| line == "code 125"), "{said}");
        assert!(!said.lines().any(|line| line == "started"), "{said}");
    }
}

/// A file that the caller can't open by its name, such as the log of a runner that started it as another user.
#[test]
fn the_status_goes_to_a_descriptor_of_another_user() {
    let Some(root) = support::root() else { return };
    let log = root.write("log", "");
    let descriptor = std::fs::File::options().append(true).open(&log).unwrap();
    let place = support::ordinary();
    let mut palisade = place.palisade(&["--status-fd", "0"], &["true"]);
    let mut child = palisade.stdin(descriptor).stdout(std::process::Stdio::null()).spawn().unwrap();
    assert!(support::job::bounded(&mut child).success());
    let told = root.read("log");
    assert!(told.contains(r#""event":"started""#) && told.contains(r#""event":"ended""#), "{told}");
}

#[test]
fn no_namespaces_and_what_only_they_give_contradict_each_other() {
    for place in everybody() {
        let options = ["--namespaces", "none", "--require", "ends-together"];
        let run = place.run(&options, &["touch", "started"]);
        run.refused(125, &["everything inside ends with the launcher", "user namespaces"]).with_hint();
        assert!(!place.outside("ls").contains("started"));
    }
}

#[test]
fn explain_says_why_a_guarantee_is_missing_and_what_adds_it() {
    for place in everybody() {
        let ask = |options: &[&str]| job::finish(place.command(place.binary()).arg("explain").args(options));
        let lacking = ask(&["--guarantee", "processes-unseen", "--namespaces", "none"]);
        assert_eq!((lacking.code, lacking.err.as_str()), (1, ""));
        assert!(lacking.out.contains(": no: that needs user namespaces\n"), "{lacking:?}");
        let add = "palisade run -- COMMAND…   # without --namespaces none";
        assert!(lacking.out.ends_with(&format!("  to add     {add}\n")), "{lacking:?}");
        // What it says of a launch without the option is true of that launch.
        let with = ask(&["--guarantee", "processes-unseen"]);
        assert!(with.code == 0 && with.out.contains(": yes: PID namespace\n"), "{with:?}");
        let all = ask(&["--guarantees", "--namespaces", "none"]);
        let names = ["hidden", "not-executed", "processes-unseen", "ends-together"];
        let names = if place.is_root() { [&names[..], &["root-is-nobody"]].concat() } else { names.to_vec() };
        assert!(all.out.contains(&format!("to add {}:\n  {add}\n", names.join(", "))), "{all:?}");
        assert_eq!(all.code, 1);
        let complete = ask(&["--guarantees"]);
        assert!(complete.code == 0 && !complete.out.contains("NO "), "{complete:?}");
    }
}

#[test]
fn explain_names_what_the_host_refuses_to_a_launch_that_stops() {
    for place in everybody() {
        let said = confined(
            &place,
            "$P explain --guarantees; echo code $?; $P explain --guarantee no-network; echo code $?; \
             $P explain --guarantee no-network --best-effort; echo code $?",
        );
        let stops = "can't make user namespaces: user.max_user_namespaces is 0";
        assert!(
            said.starts_with(&format!("the launch doesn't start: {stops}\n  to add     sysctl -w ")),
            "{said}"
        );
        assert!(
            said.contains("\nNO   hidden: what isn't granted isn't there: that needs user namespaces: "),
            "{said}"
        );
        assert!(said.contains(": no: the launch doesn't start: "), "{said}");
        assert!(said.contains("no-network: nothing leaves by the network: yes: no sockets\n"), "{said}");
        let codes: Vec<&str> = said.lines().filter(|line| line.starts_with("code ")).collect();
        assert_eq!(codes, ["code 1", "code 1", "code 0"], "{said}");
    }
}

/// Landlock doesn't know mappings, and the guarantee's mechanism says so.
#[test]
fn a_loader_runs_what_landlock_alone_keeps_from_running() {
    let loader = "for L in /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.*; do [ ! -e $L ] || break; done";
    for place in everybody() {
        let data = place.home.join("data");
        let program = data.join("program").display().to_string();
        place.outside(&format!(
            "mkdir -p {0}; cp /bin/true {0}/program; chmod 755 {0}/program",
            data.display()
        ));
        let profile = place.write("read.toml", format!("schema = 1\n[filesystem]\nread = [{data:?}]\n"));
        let run = |options: &str, command: &str| {
            let (palisade, profile) = (place.binary().display(), profile.display());
            place.outside(&format!(
                "{loader}; {palisade} run --profile {profile} {options} --status-fd 3 -- {command} {program} 3>status 2>&1; \
                 echo code $?; cat status"
            ))
        };
        let weak = r#""not-executed":"Landlock, except a file that is named to a loader (ld.so FILE)""#;
        let loaded = run("--namespaces none", "$L");
        assert!(loaded.contains("code 0\n") && loaded.contains(weak), "{loaded}");
        let direct = run("--namespaces none", "");
        assert!(direct.contains("code 126\n"), "{direct}");
        let mounted = run("", "$L");
        assert!(
            !mounted.contains("code 0\n") && mounted.contains(r#""not-executed":"own file tree""#),
            "{mounted}"
        );
        assert!(place.outside(&format!("{program}; echo code $?")).contains("code 0\n"));
    }
}

#[test]
fn a_profile_that_requires_a_guarantee_can_not_be_talked_out_of_it() {
    for place in everybody() {
        place.outside("mkdir -p ~/.config/palisade && printf 'schema = 1\\n[process]\\nrequire = [\"hidden\"]\\n' >~/.config/palisade/config.toml");
        let said = confined(&place, "$P run --best-effort -- touch started; echo code $?; ls");
        assert!(said.contains("code 125"), "{said}");
        assert!(!said.lines().any(|line| line == "started"), "{said}");
        place.outside("rm ~/.config/palisade/config.toml");
    }
}

/// Runs a line as in a container with Docker's default profile: no namespace, no mount, no `clone3`, no `pidfd_getfd`.
fn contained(place: &support::Place, line: &str) -> String {
    let filter = place.write("contained.py", include_str!("without_namespaces/contained.py"));
    let line = place.write("line.sh", line);
    let (filter, line, binary) = (filter.display(), line.display(), place.binary().display());
    place.outside(&format!("P={binary} python3 {filter} sh {line} 2>&1; true"))
}

#[test]
fn names_are_protected_in_a_container_too() {
    for place in everybody() {
        place.outside("git config --global user.name outside");
        let change = "echo x >>.git/config; mkdir .vscode; echo made >new; mv new .gitmodules; echo fine >file; mv file other; \
                      git add other; git config user.name; echo done";
        let run = format!(
            "rm -rf project; git init -q project; cd project; \
             $P run --require names-protected,unchanged,no-network --status-fd 3 -- sh -c '{change}' 3>../status; \
             cat ../status; ls -A; git status --short"
        );
        let said = contained(&place, &run);
        assert!(said.contains(r#""names-protected":"broker behind the filter""#), "{said}");
        assert!(said.contains("cannot create .git/config: Permission denied"), "{said}");
        assert!(said.contains("hint: palisade run --allow-name .git/config …"), "{said}");
        assert!(
            said.lines().any(|line| line == "done") && said.lines().any(|line| line == "A  other"),
            "{said}"
        );
        assert!(!said.lines().any(|line| [".vscode", ".gitmodules"].contains(&line)), "{said}");
        assert!(!said.lines().any(|line| line == "outside"), "{said}");
        // Outside, the same line changes all of them.
        let outside =
            place.outside(&format!("rm -rf project; git init -q project; cd project; {change}; ls -A"));
        for name in [".vscode", ".gitmodules"] {
            assert!(outside.lines().any(|line| line == name), "{outside}");
        }
    }
}

#[test]
fn the_broker_ends_stops_and_goes_on_as_the_command_does() {
    for place in everybody() {
        let run = |line: &str| place.run(&["--namespaces", "none"], &["sh", "-c", line]);
        assert_eq!(run("exit 7").code, 7);
        assert_eq!(run("kill -TERM $$").code, 143);
        assert_eq!(run("kill -KILL $$").code, 137);
        let palisade = place.binary().display();
        let stopped = format!(
            "set -m; {palisade} run --namespaces none -- sh -c 'echo begins; kill -TSTP $$; echo goes on; exit 3' & \
             for i in $(seq 200); do jobs %1 | grep -q Stopped && break; sleep 0.05; done; jobs %1 | grep -o Stopped; \
             kill -CONT %1; wait %1; echo code $?"
        );
        let said = place.outside(&format!("bash -c {}", palisade_text::quoted(&stopped)));
        assert_eq!(said.lines().collect::<Vec<_>>(), ["begins", "Stopped", "goes on", "code 3"]);
    }
}

#[test]
fn the_broker_adopts_orphans_and_ends_them_with_the_command() {
    for place in everybody() {
        let line = "sh -c 'sh -c \"echo \\$\\$ >orphan; exec sleep 600\" & while [ ! -s orphan ]; do :; done'; \
                    echo $PPID; grep PPid: /proc/$(cat orphan)/status";
        let run = place.run(&["--namespaces", "none"], &["sh", "-c", line]);
        let (broker, parent) = run.ok().split_once('\n').unwrap();
        assert_eq!(parent, format!("PPid:\t{broker}"));
        let orphan = place.read("work/orphan");
        assert!(!std::path::Path::new(&format!("/proc/{}", orphan.trim())).exists(), "{orphan} lives");
    }
}

#[test]
fn nothing_goes_on_without_launcher_or_broker() {
    for place in everybody() {
        for (whom, code) in [("broker", "137"), ("launcher", "137")] {
            let palisade = place.binary().display();
            let line = "echo $$ >command; echo $PPID >broker; exec sleep 600";
            let script = format!(
                "rm -f command broker; {palisade} run --namespaces none -- sh -c {} & echo $! >launcher; \
                 for i in $(seq 500); do [ ! -s broker ] || break; sleep 0.02; done; kill -KILL $(cat {whom}); wait $(cat launcher); echo code $?; \
                 for i in $(seq 200); do [ -e /proc/$(cat command) ] || break; sleep 0.05; done; \
                 for process in launcher broker command; do [ ! -e /proc/$(cat $process) ] || echo $process lives; done",
                palisade_text::quoted(line)
            );
            let said = place.outside(&script);
            assert_eq!(said.trim(), format!("code {code}"), "{whom}");
        }
    }
}

/// Changes mode, times and an extended attribute of each file, as far as possible, and prints what the files then have.
const ATTRIBUTES: &str = r#"
import os, sys
def attempt(call, *arguments):
    try: call(*arguments)
    except OSError: pass
for file in sys.argv[2:]:
    if sys.argv[1] == "change":
        attempt(os.chmod, file, 0o600)
        attempt(os.utime, file, (1000, 1000))
        attempt(os.setxattr, file, "user.palisade", b"x")
    found = os.stat(file)
    print(oct(found.st_mode & 0o777), int(found.st_mtime), len(os.listxattr(file)))
"#;

#[test]
fn what_is_not_granted_for_writing_keeps_its_attributes() {
    for place in everybody() {
        let other = place.write("other", "outside\n").display().to_string();
        let script = place.write("work/attributes.py", ATTRIBUTES).display().to_string();
        let palisade = place.binary().display();
        let files = format!("{other} own");
        let reset = format!("touch own; chmod 644 own {other}; touch -d @150 own {other}");
        let inside =
            format!("{palisade} run --namespaces none -- python3 {script} change {files} >/dev/null");
        let look = format!("python3 {script} look {files}");
        let said = place.outside(&format!("{reset}; {inside}; {look}"));
        assert_eq!(said.lines().collect::<Vec<_>>(), ["0o644 150 0", "0o600 1000 1"], "as inside");
        let said = place.outside(&format!("python3 {script} change {files}"));
        assert_eq!(said.lines().collect::<Vec<_>>(), ["0o600 1000 1", "0o600 1000 1"], "as outside");
    }
}

/// Tries to open files for writing, and prints those that it could open.
const OPENING: &str = r#"
import os, sys
def attempt(path):
    try: os.close(os.open(path, os.O_RDWR)); print("opened", path)
    except OSError: pass
"#;

/// The broker is in the command's `/proc`, and the kernel lets each process write to its own memory.
#[test]
fn files_in_proc_of_processes_outside_are_out_of_reach() {
    let attack = r#"
broker, outside, here = os.getppid(), sys.argv[1], os.getcwd()
directories = [os.open(f"/proc/{broker}", os.O_PATH), os.open(f"/proc/{broker}/task", os.O_PATH)]
os.symlink(f"/proc/{broker}/mem", "link")
for path in [f"/proc/{broker}/mem", f"/proc/{broker}/task/{broker}/mem", f"/proc/./{broker}/oom_score_adj",
             f"/proc/self/fd/{directories[0]}/mem", f"/proc/self/fd/{directories[1]}/{broker}/mem",
             f"/proc/{broker}/fd/0", f"/proc/{broker}/comm", "link", f"/proc/{outside}/oom_score_adj"]:
    attempt(path)
for thread in os.listdir(f"/proc/{broker}/task"):
    attempt(f"/proc/{thread}/mem")
os.chdir(f"/proc/{broker}")
attempt("mem")
os.chdir(here)
"#;
    let own = r#"
os.symlink("/proc/self/oom_score_adj", "own")
child = os.fork()
if child == 0: os.pause() if hasattr(os, "pause") else __import__("signal").pause()
for path, whose in [("/proc/self/oom_score_adj", "self"), ("own", "self"), (f"/proc/{os.getpid()}/oom_score_adj", "self"),
                    (f"/proc/{child}/oom_score_adj", child)]:
    read = lambda: int(open(f"/proc/{whose}/oom_score_adj").read())
    before = read()
    with open(path, "w") as file: file.write(str(before + 1))
    print(read() - before)
os.kill(child, 9)
"#;
    for place in everybody() {
        let attack = place.write("attack.py", format!("{OPENING}{attack}"));
        let own = place.write("own.py", format!("{OPENING}{own}"));
        let (attack, own) = (attack.display(), own.display());
        let palisade = place.binary().display();
        place.outside("rm -f link own");
        let inside = |options: &str, script: &str| {
            format!(
                "sleep 60 & {palisade} run --namespaces none {options} -- python3 {script} $! 2>&1; kill $!; rm -f link own"
            )
        };
        // Scripts lie beside the working directory.
        let shown = format!("--ro {attack} --ro {own}");
        let said = place.outside(&inside(&shown, &attack.to_string()));
        assert!(!said.contains("opened") && !said.contains("Traceback"), "{said}");
        if !place.is_root() {
            assert_eq!(place.outside(&inside(&shown, &own.to_string())).trim(), "1\n1\n1\n1");
        }
    }
}

/// Root without capabilities owns them.
#[test]
fn settings_of_the_kernel_and_disks_stay_as_they_are_for_root() {
    let Some(place) = support::root() else { return };
    let attack = r#"
disks = [f"/dev/{name}" for name in os.listdir("/sys/block") if os.path.exists(f"/dev/{name}")]
for path in ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger"] + disks[:1]:
    attempt(path)
"#;
    let attack = place.write("attack.py", format!("{OPENING}{attack}"));
    let attack = attack.display().to_string();
    assert!(place.outside(&format!("python3 {attack}")).contains("opened /proc/sys/kernel/core_pattern"));
    for options in [&[][..], &["--protect", "off"]] {
        let options = [&["--namespaces", "none", "--ro", &attack, "--ro", "/sys/block"], options].concat();
        let run = place.run(&options, &["python3", &attack]);
        assert_eq!(run.ok(), "", "{options:?}");
    }
}
