// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that calls which the broker makes end like the kernel's own: the same programs run with and without it, in equal trees.

use crate::support::{Place, everybody, has, job};

/// Intended differences between a call that the kernel makes inside and one that the broker makes.
fn as_brokered(line: &str) -> String {
    // For an unmapped user the kernel returns EINVAL. The broker returns EPERM, as for a user that one may not become.
    if line.contains("to another") { line.replace("EINVAL", "EPERM") } else { line.to_owned() }
}

/// Intended differences between outside and inside: the root directory and `/proc` can't be written to.
fn is_of_walls(line: &str) -> bool {
    line.split(' ').any(|word| word == "/") || line.starts_with("unlink by number")
}

fn differences(one: &str, other: &str, counts: impl Fn(&str) -> bool) -> Vec<String> {
    assert_eq!(one.lines().count(), other.lines().count());
    let pairs = one.lines().zip(other.lines()).filter(|(one, _)| counts(one));
    pairs
        .filter(|(one, other)| as_brokered(one) != *other)
        .map(|(one, other)| format!("{one} | {other}"))
        .collect()
}

/// The same calls by the kernel, inside and for an ordinary user outside as well, and by the broker.
fn ends_alike(kind: &str, least: usize) {
    for place in everybody().iter().filter(|_| has("python3")) {
        place.write("work/calls.py", include_str!("fidelity/calls.py"));
        let run = |options: &[&str]| {
            let options = [&["--quiet"], options].concat();
            place.run(&options, &["python3", "calls.py", kind]).ok().to_owned()
        };
        let (brokered, kernel) = (run(&[]), run(&["--protect", "off"]));
        assert!(kernel.lines().count() >= least, "{}", kernel.lines().count());
        let found = differences(&kernel, &brokered, |_| true);
        assert!(found.is_empty(), "{} kernel | broker:\n{}", found.len(), found.join("\n"));
        if !place.is_root() {
            let native = place.outside(&format!("python3 calls.py {kind}"));
            let found = differences(native.trim_end(), &brokered, |line| !is_of_walls(line));
            assert!(found.is_empty(), "{} outside | inside:\n{}", found.len(), found.join("\n"));
        }
    }
}

#[test]
fn opening_ends_alike() {
    ends_alike("open", 1000);
}

#[test]
fn calls_with_a_path_end_alike() {
    ends_alike("one", 1500);
}

#[test]
fn calls_with_two_paths_end_alike() {
    ends_alike("two", 7000);
}

#[test]
fn calls_on_descriptors_end_alike() {
    ends_alike("descriptor", 350);
}

/// Inside and outside the same is printed. Root's calls are made with all capabilities outside, and none inside.
#[track_caller]
fn same_inside(place: &Place, options: &[&str], script: &str) -> String {
    place.write("work/script.py", script);
    let options = [&["--quiet"], options].concat();
    let prepare = "rm -rf d && mkdir d";
    place.outside(prepare);
    let outside = place.outside("cd d && python3 ../script.py");
    place.outside(prepare);
    let inside = place.run(&options, &["sh", "-c", "cd d && python3 ../script.py"]);
    assert_eq!(inside.ok(), outside.trim_end(), "{inside:?}");
    inside.out
}

/// Opens files when no descriptor number is free.
const FULL: &str = r#"
import errno, os, resource
def tell(path, flags):
    try: print(path, os.open(path, flags))
    except OSError as error: print(path, errno.errorcode[error.errno])
with open("keep", "w") as file: file.write("text")
here = os.open(".", os.O_RDONLY)
W, C, T = os.O_WRONLY, os.O_CREAT, os.O_TRUNC
def attempt():
    for path, flags in [("keep", W | T), ("keep", W | C | T), ("keep", T), ("new", W | C), ("new", C | os.O_EXCL), ("missing", W),
                        ("missing/x", W | C), (".", W), (".", W | os.O_TMPFILE), ("", W)]:
        tell(path, flags)
    print(os.stat("keep").st_size, [name for name in ("keep", "new") if os.path.exists(name)])
resource.setrlimit(resource.RLIMIT_NOFILE, (12, 64))
taken = []
try:
    while True: taken.append(os.dup(here))
except OSError: pass
attempt()
# The highest number is taken, and a lower one isn't.
os.close(taken[1])
tell("keep", W | T)
print(os.stat("keep").st_size)
# Of those that are taken some are beyond the limit.
resource.setrlimit(resource.RLIMIT_NOFILE, (8, 64))
attempt()
"#;

#[test]
fn who_has_no_number_left_changes_nothing_by_opening() {
    for place in everybody().iter().filter(|_| has("python3")) {
        let told = same_inside(place, &[], FULL);
        assert!(told.starts_with("keep EMFILE\nkeep EMFILE\nkeep EMFILE\nnew EMFILE\n"), "{told}");
        assert!(told.contains("4 ['keep']"), "{told}");
    }
}

/// Threads take and give back the last numbers, while one empties a file.
const CONTESTED: &str = r#"
import os, resource, threading
kept = os.open("keep", os.O_RDWR | os.O_CREAT)
here = os.open(".", os.O_RDONLY)
resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))
over = False
def contest():
    taken = []
    while not over:
        try: taken.append(os.dup(here))
        except OSError:
            while taken: os.close(taken.pop())
    while taken: os.close(taken.pop())
threads = [threading.Thread(target=contest) for _ in range(3)]
for thread in threads: thread.start()
had, had_not = 0, 0
# On a busy machine one of the two may take long to happen.
while had + had_not < 3000 or (had + had_not < 300_000 and not (had and had_not)):
    os.pwrite(kept, b"text", 0)
    try:
        os.close(os.open("keep", os.O_WRONLY | os.O_TRUNC))
        assert os.fstat(kept).st_size == 0
        had += 1
    except OSError:
        assert os.fstat(kept).st_size == 4, "emptied, and not opened"
        had_not += 1
over = True
for thread in threads: thread.join()
print(had > 0 and had_not > 0)
"#;

#[test]
fn a_file_that_nobody_gets_is_never_emptied() {
    for place in everybody().iter().filter(|_| has("python3")) {
        assert_eq!(same_inside(place, &[], CONTESTED), "True\n");
    }
}

/// What emptying a file shows beside its length.
const EMPTIED: &str = r#"
import os
def times(name): return os.stat(name).st_mtime > 1000
for flags in os.O_WRONLY, os.O_RDWR, os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_RDWR | os.O_APPEND:
    for content in b"", b"text":
        with open("file", "wb") as file: file.write(content)
        os.utime("file", (1, 1))
        for path in "file", os.path.abspath("file"):
            number = os.open(path, flags | os.O_TRUNC)
            print(flags, os.fstat(number).st_size, times("file"))
            os.close(number)
os.mkfifo("fifo")
for path in "/dev/null", "fifo": os.close(os.open(path, os.O_RDWR | os.O_TRUNC))
"#;

#[test]
fn emptying_a_file_is_seen() {
    for place in everybody().iter().filter(|_| has("python3")) {
        same_inside(place, &[], EMPTIED);
    }
}

/// Makes files grow beyond their limit.
const LARGE: &str = r#"
import errno, os, resource, signal, subprocess, sys
signals = []
signal.signal(signal.SIGXFSZ, lambda number, _: signals.append(number))
def tell(path, length):
    try: print(path, length, os.truncate(path, length), os.stat(path).st_size, end=" ")
    except OSError as error: print(path, length, errno.errorcode[error.errno], os.stat(path).st_size, end=" ")
    print(len(signals))
MiB = 1 << 20
with open("small", "w") as file: file.write("text")
if len(sys.argv) < 2:
    with open("large", "w") as file: os.truncate("large", 4 * MiB)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MiB, 2 * MiB))
for path, length in ("small", MiB), ("small", MiB + 1), ("small", 1 << 40), ("small", 2), ("/dev/null", 2 * MiB):
    try: tell(path, length)
    except OSError: print("no")
if len(sys.argv) < 2:
    tell("large", 4 * MiB)
    tell("large", 3 * MiB)
    tell("large", 3 * MiB + 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MiB, 2 * MiB))
    tell("small", 2 * MiB)
ignoring = "import os, signal, sys; signal.signal(signal.SIGXFSZ, getattr(signal, sys.argv[1])); os.truncate('small', 1 << 30)"
for what in "SIG_DFL", "SIG_IGN":
    print(what, subprocess.run([sys.executable, "-c", ignoring, what], stderr=subprocess.DEVNULL).returncode)
"#;

#[test]
fn a_file_grows_no_further_than_the_limit_of_its_size() {
    for place in everybody().iter().filter(|_| has("python3")) {
        let told = same_inside(place, &[], LARGE);
        assert!(told.contains("small 1048577 EFBIG 1048576 1\n") && told.contains("SIG_DFL -25\n"), "{told}");
        place.outside("rm -rf d && mkdir d");
        let run = place.run(
            &["--quiet", "--limit", "file_size=1M"],
            &["sh", "-c", "cd d && python3 ../script.py limited"],
        );
        assert!(
            run.ok().contains("small 1048576 None 1048576 0\nsmall 1048577 EFBIG 1048576 1\n"),
            "{run:?}"
        );
    }
}

/// Connects to a socket that is only a file.
const UNBOUND: &str = r#"
import errno, os, socket, stat
os.mknod("made", 0o600 | stat.S_IFSOCK)
os.rename("made", "moved")
os.link("moved", "linked")
for path in "moved", "linked", "made":
    for kind in socket.SOCK_STREAM, socket.SOCK_SEQPACKET:
        with socket.socket(socket.AF_UNIX, kind) as end:
            try: print(path, end.connect(path))
            except OSError as error: print(path, errno.errorcode[error.errno])
"#;

#[test]
fn nobody_listens_at_a_socket_that_is_only_a_file() {
    for place in everybody().iter().filter(|_| has("python3")) {
        assert_eq!(same_inside(place, &[], UNBOUND).matches(" ECONNREFUSED\n").count(), 4);
    }
}

#[test]
fn a_directory_is_moved_by_whoever_cant_read_it() {
    for place in everybody() {
        let prepare = "rm -rf w && mkdir w && cd w && for mode in 000 100 300 500; do for name in plain .cargo .config; do \
                       mkdir -p $mode/$name/inner/leaf; chmod $mode $mode/$name/inner $mode/$name 2>/dev/null; done; done; true";
        let line = "cd w; for mode in *; do cd $mode; for name in plain .cargo .config; do mv $name to-$name; stat -c '%a %n' to-$name; done; cd ..; done";
        let outside = {
            place.outside(prepare);
            place.outside(line)
        };
        place.outside(prepare);
        let inside = place.sh(&["--quiet"], line);
        assert_eq!(inside.out, outside, "{inside:?}");
        assert_eq!(inside.out.lines().count(), 12, "{inside:?}");
        place.outside("chmod -R u+rwx w");
    }
}

/// Whatever its mode is: what is obeyed stays where it is, and the directory as it is.
#[test]
fn a_directory_isnt_moved_with_what_is_protected_in_it() {
    for place in everybody() {
        for mode in ["000", "100", "300", "700"] {
            place.outside(&format!(
                "rm -rf w && mkdir -p w/.cargo/a w/.cargo/b && cd w && echo old >.cargo/config.toml && chmod {mode} .cargo/a .cargo"
            ));
            let run = place.sh(&[], "cd w; mv .cargo moved");
            assert_eq!(run.code, 1, "{run:?}");
            assert!(run.err.contains("refused: write") && run.err.contains(".cargo/config"), "{run:?}");
            let modes = place.outside(
                "cd w; stat -c %a .cargo; chmod 700 .cargo; stat -c %a .cargo/a; cat .cargo/config.toml",
            );
            let mode = mode.trim_start_matches("00");
            assert_eq!(modes, format!("{mode}\n{mode}\nold\n"));
            place.outside("chmod -R u+rwx w");
        }
    }
}

/// A shell's `>` truncates, which Landlock restricts apart from writing.
#[test]
fn files_of_the_kernel_about_oneself_are_written_by_a_shell() {
    let line = "echo 900 >/proc/self/oom_score_adj && cat /proc/self/oom_score_adj";
    for place in everybody() {
        assert_eq!(place.outside(line).trim(), "900");
        for options in [&[][..], &["--protect", "off"], &["--namespaces", "none"], &["--allow-namespaces"]] {
            let run = place.run(options, &["sh", "-c", line]);
            if place.is_root() && options.contains(&"none") {
                // There settings of the kernel would be root's, too.
                assert!(run.err.contains("Permission denied"), "{run:?}");
            } else {
                assert_eq!(run.ok(), "900", "{options:?}");
            }
        }
    }
}

#[test]
fn the_null_device_from_outside_can_be_opened_again() {
    for place in everybody() {
        // Standard input is one that was opened outside.
        let run = place.sh(
            &["--quiet"],
            "echo x >/dev/stdin && echo x >>/proc/self/fd/0 && exec 3<>/proc/self/fd/0 && echo opened",
        );
        assert_eq!(run.ok(), "opened");
    }
}

/// Processes that wait in each call that a broker waits for, and each kind of signal.
fn waits(place: &Place, options: &[&str], calls: &[&str]) -> (String, String) {
    place.write("work/waits.c", include_str!("fidelity/waits.c"));
    place.outside("cc -O1 -pthread -o waits waits.c");
    let command = [&["./waits"], calls].concat();
    let outside = place.outside(&command.join(" "));
    let inside = job::finish(&mut place.palisade(&[&["--quiet"], options].concat(), &command));
    (outside.trim_end().to_owned(), inside.ok().to_owned())
}

#[test]
fn signals_come_to_those_who_wait_in_a_call() {
    for place in &everybody() {
        let (outside, inside) = waits(place, &[], &["write", "read", "connect", "lease"]);
        assert_eq!(inside, outside);
        assert!(
            outside.contains("write plain: h=EINTR handled 1\nwrite restart: =done handled 1\n"),
            "{outside}"
        );
        assert_eq!(outside.lines().count(), 48, "{outside}");
    }
}

/// What was waited for is there, and a signal that ends the wait comes a moment later.
#[test]
fn a_signal_that_comes_too_late_takes_nothing_away() {
    for place in everybody().iter().filter(|_| has("python3")) {
        place.write("work/partners.py", include_str!("fidelity/partners.py"));
        assert_eq!(place.outside("python3 partners.py 200").trim_end(), "lost 0");
        assert_eq!(place.run(&["--quiet"], &["python3", "partners.py", "200"]).ok().trim_end(), "lost 0");
    }
}

#[test]
fn signals_come_to_those_who_wait_for_a_time_of_day() {
    for place in &everybody() {
        let profile = place.write("told.toml", "schema = 1\n[process]\ntime = \"2040-01-01\"\n");
        let (outside, inside) = waits(place, &["--profile", profile.to_str().unwrap()], &["sleep"]);
        assert_eq!(inside, outside);
        assert_eq!(outside.lines().count(), 12, "{outside}");
    }
}
