// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the replies to system calls that a policy states: fixed values, other files, descriptors, questions.

use crate::support::job::below;
use crate::support::terminal::{Terminal, words};
use crate::support::{Place, Run, eventually, everybody, has, job, root};

use palisade_acceptance::patience::pause;
use rustix::process::{Signal, kill_process};
use std::process::Stdio;
use std::time::Duration;

/// Writes the profile `told`.
fn profile(place: &Place, body: &str) -> std::path::PathBuf {
    let text = format!("schema = 1\nname = \"told\"\n{body}\n");
    place.write(".config/palisade/profiles/told.toml", text)
}

fn told(place: &Place, options: &[&str], line: &str) -> Run {
    let mut command = place.command(place.binary());
    let command = command.args(["run", "--profile", "told"]).args(options);
    job::finish(command.args(["--", "python3", "-c", line]))
}

fn palisade(place: &Place, arguments: &[&str]) -> Run {
    job::finish(place.command(place.binary()).args(arguments))
}

#[test]
fn calls_are_answered_as_the_policy_says() {
    let line = "import os, socket, errno\n\
                def tried(f):\n\
                \x20   try: return f()\n\
                \x20   except OSError as e: return errno.errorcode[e.errno]\n\
                print(20 - os.getpriority(os.PRIO_PROCESS, 0))\n\
                print(tried(lambda: os.sched_rr_get_interval(0)))\n\
                print(tried(lambda: os.chown('/etc/passwd', 5, 5)))\n\
                print([tried(lambda: socket.socket(socket.AF_UNIX, kind).close()) for kind in (1, 5)])\n\
                print(tried(lambda: os.posix_fadvise(0, 0, 0, os.POSIX_FADV_NORMAL)))\n";
    for place in everybody() {
        profile(
            &place,
            "[syscalls]\nanswers = [\n\
             { call = \"getpriority\", action = \"return\", value = 7 },\n\
             { call = \"sched_rr_get_interval\", action = \"deny\", errno = \"ENOTTY\" },\n\
             { call = \"chown\", action = \"return\", value = 0 },\n\
             { call = \"fchownat\", action = \"return\", value = 0 },\n\
             { call = \"socket\", when = \"arg0 in 1 and arg1 has 0x4\", action = \"deny\", errno = \"EPROTOTYPE\" },\n\
             { call = \"fadvise64\", when = \"arg3 in 0\", action = \"deny\", errno = \"EXDEV\" },\n]",
        );
        let answered = "7\nENOTTY\nNone\n[None, 'EPROTOTYPE']\nEXDEV";
        // Also without protected names, where the broker runs only for this.
        for options in [&[][..], &["--protect", "off"], &["--syscalls", "learn"], &["--syscalls", "enforce"]]
        {
            for _cold_and_hot in 0..2 {
                let run = told(&place, options, line);
                assert_eq!(run.ok(), answered, "{options:?}: {run:?}");
            }
        }
        assert!(!place.outside(&format!("python3 -c \"{line}\"")).contains(answered));
        let shown = palisade(&place, &["run", "--profile", "told", "--dry-run", "--", "true"]);
        assert!(shown.ok().contains("getpriority returns 7"), "{shown:?}");
        let shown = palisade(&place, &["explain", "--profile", "told", "--syscall", "sched_rr_get_interval"]);
        assert!(shown.code == 1 && shown.out.contains("refused with ENOTTY"), "{shown:?}");
        assert!(shown.out.contains("told.toml:6"), "{shown:?}");
        place.assert_all_dead();
    }
}

#[test]
fn a_program_is_told_of_another_machine() {
    let line = "import os; print(os.uname().nodename, os.uname().release, os.cpu_count(), len(os.sched_getaffinity(0)), \
                open('/proc/cpuinfo').read().count('processor\\t'), open('/etc/hostname').read().strip())\n\
                print(os.popen('uname -n; uname -r; nproc').read().split())";
    for place in everybody() {
        for count in [1, 5, 70] {
            profile(
                &place,
                &format!("[process]\nhostname = \"box\"\nrelease = \"2.6.39-x\"\nprocessors = {count}"),
            );
            for options in [&[][..], &["--protect", "off"], &["--view", "host"], &["--syscalls", "learn"]] {
                let run = told(&place, options, line);
                let expected =
                    format!("box 2.6.39-x {count} {count} {count} box\n['box', '2.6.39-x', '{count}']");
                assert_eq!((run.code, run.out.trim_end()), (0, &*expected), "{count} {options:?}: {run:?}");
            }
        }
        // A buffer that can't be written, and one that is too small.
        let line = "import ctypes; l = ctypes.CDLL(None, use_errno=True)\n\
                    def call(*a): return l.syscall(*a), ctypes.get_errno()\n\
                    b = ctypes.create_string_buffer(64)\n\
                    print(call(63, None), call(204, 0, 8, b), call(204, 0, 9, b), call(204, 0, 16, b), call(204, 0, 16, None))";
        let run = told(&place, &[], line);
        assert_eq!(run.ok(), "(-1, 14) (-1, 22) (-1, 22) (16, 22) (-1, 14)", "{run:?}");
        profile(&place, "");
        let own = place.outside("uname -r");
        assert_eq!(told(&place, &[], "import os; print(os.uname().release)").ok(), own.trim());
    }
}

#[test]
fn opening_one_path_opens_another() {
    for place in everybody() {
        profile(
            &place,
            "[syscalls]\nanswers = [\n\
             { open = \"/etc/os-release\", action = \"redirect\", to = \"/etc/hostname\" },\n\
             { open = \"/run/nothing\", action = \"redirect\", to = \"/tmp/made\" },\n\
             { open = \"/etc/services\", action = \"redirect\", to = \"/proc/self/mem\" },\n\
             { open = \"/etc/protocols\", action = \"redirect\", to = \"/tmp/link\" },\n\
             { open = \"/etc/shells\", action = \"redirect\", to = \"/tmp/not/there\" },\n]",
        );
        let line = "import os\n\
            host = open('/etc/hostname').read()\n\
            os.symlink('/etc/os-release', 'link')\n\
            os.chdir('/etc')\n\
            fd = os.open('os-release', os.O_RDONLY)\n\
            print(open('/etc/os-release').read() == host, open('os-release').read() == host)\n\
            print(os.read(fd, 99).decode() == host, os.get_inheritable(fd))\n\
            print(open('/usr/../etc/./os-release').read() == host, open('/tmp/../etc//os-release').read() == host)\n\
            print(open('/proc/self/cwd/os-release').read() == host)\n\
            print(os.popen('cat /etc/os-release').read() == host)\n\
            f = open('/run/nothing', 'x'); f.write('a'); f.close()\n\
            print(open('/tmp/made').read(), os.path.exists('/run/nothing'), oct(os.stat('/tmp/made').st_mode))\n\
            for target in ('/proc/self/mem', '/proc/1/environ', '/proc/self/fd/0'):\n\
            \x20   os.symlink(target, '/tmp/link.new'); os.rename('/tmp/link.new', '/tmp/link')\n\
            \x20   try: print(open('/etc/protocols', 'rb').read(1))\n\
            \x20   except OSError as e: print('refused', e.errno in (2, 13, 40))\n\
            for path in ('/etc/services', '/etc/shells'):\n\
            \x20   try: print(open(path).read(1))\n\
            \x20   except OSError as e: print(path, e.errno)\n\
            print(open('/etc/passwd').read()[:5])\n";
        let expected = "True True\nTrue False\nTrue True\nTrue\nTrue\na False 0o100644\n\
                        refused True\nrefused True\nrefused True\n/etc/services 2\n/etc/shells 2\nroot:";
        for options in [&[][..], &["--protect", "off"], &["--syscalls", "learn"]] {
            let run = told(&place, options, line);
            assert_eq!(run.ok(), expected, "{options:?}: {run:?}");
            let cleaned = place.outside("rm -f link; find . -name link");
            assert_eq!(cleaned, "");
        }
        // The walls still apply: an answer with another file opens nothing more.
        let secret = place.write("secret", "secret");
        profile(
            &place,
            &format!(
                "[filesystem]\nprotect_names = [\"kept\"]\n[syscalls]\nanswers = [\n\
                 {{ open = \"/etc/services\", action = \"redirect\", to = \"{}\" }},\n\
                 {{ open = \"/run/kept\", action = \"redirect\", to = \"{}/kept\" }}]",
                secret.display(),
                place.work.display()
            ),
        );
        let line = "for path, how in (('/etc/services', 'r'), ('/run/kept', 'w')):\n\
                    \x20   try: open(path, how); print('opened')\n\
                    \x20   except OSError as e: print(e.errno)\n";
        let run = told(&place, &[], line);
        assert_eq!((run.code, run.out.as_str()), (0, "2\n13\n"), "{run:?}");
    }
}

/// While another thread exchanges the path, a call opens one of the two files, and no other.
#[test]
fn a_path_that_changes_meanwhile_opens_the_one_or_the_other() {
    for place in everybody() {
        profile(
            &place,
            "[syscalls]\nanswers = [{ open = \"/etc/os-release\", action = \"redirect\", to = \"/etc/hostname\" }]",
        );
        let line = "import ctypes, os, threading\n\
            l = ctypes.CDLL(None, use_errno=True)\n\
            one, two = b'/etc/os-release\\0', b'/etc/ld.so.conf\\0'\n\
            path = ctypes.create_string_buffer(one)\n\
            over = []\n\
            def change():\n\
            \x20   while not over:\n\
            \x20       ctypes.memmove(path, two, len(two)); ctypes.memmove(path, one, len(one))\n\
            thread = threading.Thread(target=change); thread.start()\n\
            seen = {}\n\
            for _ in range(20000):\n\
            \x20   fd = l.open(path, 0)\n\
            \x20   seen[os.readlink(f'/proc/self/fd/{fd}') if fd >= 0 else ctypes.get_errno()] = 1\n\
            \x20   if fd >= 0: os.close(fd)\n\
            over.append(1); thread.join()\n\
            seen.pop(2, None)\n\
            print(sorted(seen, key=str))\n";
        let run = told(&place, &[], line);
        // The file itself can be come by so: `hide` is what keeps it.
        let real = place.outside("readlink -f /etc/os-release").trim().to_owned();
        let allowed = ["/etc/hostname", "/etc/ld.so.conf", &real, "/etc/os-release"];
        let out = run.ok().to_owned();
        let opened: Vec<&str> =
            out.trim_matches(['[', ']']).split(", ").map(|path| path.trim_matches('\'')).collect();
        assert!(opened.contains(&"/etc/hostname"), "{run:?}");
        assert!(opened.iter().all(|path| allowed.contains(path)), "{run:?}");
    }
}

#[test]
fn a_descriptor_is_given_for_a_path() {
    for place in everybody() {
        profile(
            &place,
            "[syscalls]\nanswers = [{ open = \"/run/token\", action = \"give\", descriptor = 7 }]",
        );
        place.write("token", "0123456789");
        let run = |redirection: &str, line: &str| {
            place.write("work/line.py", line);
            let palisade = place.binary().display();
            place.outside(&format!(
                "{palisade} run --profile told -- python3 line.py {redirection} 2>&1; echo $?"
            ))
        };
        let line = "import os\n\
            print(open('/run/token').read(4 + 0 * os.getpid())[:4])\n\
            print(os.path.exists('/run/token'), sorted(os.listdir('/proc/self/fd')))\n\
            fd = os.open('/run/token', os.O_RDONLY | os.O_CLOEXEC); print(os.get_inheritable(fd), os.pread(fd, 10, 0).decode())\n\
            for flags in (os.O_WRONLY, os.O_RDWR, os.O_CREAT | os.O_EXCL, os.O_DIRECTORY):\n\
            \x20   try: print(os.open('/run/token', flags))\n\
            \x20   except OSError as e: print(e.errno)\n";
        assert_eq!(
            run("7<~/token", line),
            "0123\nFalse ['0', '1', '2', '3']\nFalse 0123456789\n13\n13\n17\n20\n0\n"
        );
        // A pipe, too.
        place.write("work/line.py", "print(open('/run/token').read())");
        let palisade = place.binary().display();
        let piped =
            format!("echo piped | {palisade} run --profile told -- python3 line.py 7<&0 </dev/null 2>&1");
        assert_eq!(place.outside(&piped), "piped\n\n");
        let refused = run("", "pass");
        assert!(refused.contains("can't give descriptor 7") && refused.ends_with("125\n"), "{refused}");
        // A descriptor of a host directory would give access to everything.
        let refused = run("7</", "pass");
        assert!(refused.contains("can't give descriptor 7") && refused.contains("irectory"), "{refused}");
    }
}

#[test]
fn mistakes_are_told_before_anything_starts() {
    for place in everybody() {
        for (entry, message) in [
            ("{ call = \"sethostnam\", action = \"ask\" }", "did you mean `sethostname`?"),
            (
                "{ call = \"openat\", when = \"arg1 in 3\", action = \"deny\" }",
                "argument 1 of `openat` is an address",
            ),
            ("{ call = \"execve\", action = \"deny\" }", "starting or ending a program needs it"),
            ("{ call = \"mmap\", action = \"return\", value = 0 }", "starting or ending a program needs it"),
            ("{ call = \"prctl\", action = \"deny\", errno = \"EPREM\" }", "did you mean `EPERM`?"),
            (
                "{ call = \"prctl\", when = \"arg0 is 1\", action = \"ask\" }",
                "invalid condition on the arguments of `prctl`",
            ),
            ("{ call = \"unlinkat\", action = \"allow\" }", "is judged by its path"),
            ("{ call = \"prctl\", action = \"denny\" }", "did you mean `deny`?"),
            (
                "{ call = \"a\", action = \"deny\" }, { call = \"a\", action = \"ask\" }",
                "has another answer in line 4",
            ),
            ("{ call = \"prctl\", action = \"deny\", error = \"EPERM\" }", "unknown key `error`"),
        ] {
            let file = profile(&place, &format!("[syscalls]\nanswers = [{entry}]"));
            let run = told(&place, &[], "print('started')");
            assert_eq!((run.code, run.out.as_str()), (125, ""), "{entry}: {run:?}");
            assert!(run.err.contains(message), "{entry}: {run:?}");
            let run = palisade(&place, &["check", file.to_str().unwrap()]);
            assert_eq!(run.code, 1, "{entry}: {run:?}");
            assert!(run.err.contains(message), "{entry}: {run:?}");
            let run = palisade(&place, &["check", "--json", file.to_str().unwrap()]);
            assert!(run.code == 1 && run.out.contains("\"line\": 4"), "{entry}: {run:?}");
        }
        for (body, message) in [
            ("[process]\nrelease = \"a b\"", "a kernel's release"),
            ("[process]\nprocessors = 0", "1 to 1024"),
            ("[syscalls]\ndeny = [\"mmap\"]", "starting or ending the program"),
            ("[syscalls]\ndeny = [\"mmpa\"]", "did you mean `mmap`"),
        ] {
            profile(&place, body);
            told(&place, &[], "print('started')").refused(125, &[message]);
        }
        // Where no broker runs that could answer.
        profile(&place, "[process]\nrelease = \"5.0\"");
        told(&place, &["--namespaces", "none", "--protect", "off"], "pass")
            .refused(125, &["without namespaces no process can receive the system calls"]);
        // A reply that the filter gives without the broker works there, too.
        profile(
            &place,
            "[syscalls]\nanswers = [{ call = \"sched_rr_get_interval\", action = \"deny\", errno = \"ENOTTY\" }]",
        );
        let run = told(
            &place,
            &["--namespaces", "none", "--protect", "off"],
            "import os; os.sched_rr_get_interval(0)",
        );
        assert!(run.err.contains("Errno 25"), "{run:?}");
    }
}

/// A call of the deny list can be allowed for certain arguments, but no call can bypass the broker.
#[test]
fn a_permission_is_for_the_arguments_that_it_names() {
    let line = "import ctypes; l = ctypes.CDLL(None, use_errno=True)\n\
                print([(l.syscall(101, r, 0, 0, 0), ctypes.get_errno()) for r in (0, 4294967295)])";
    for place in everybody() {
        profile(
            &place,
            "[syscalls]\nanswers = [{ call = \"ptrace\", when = \"arg0 in 0\", action = \"allow\" }]",
        );
        told(&place, &[], line).refused(125, &["names can't be protected"]);
        let run = told(&place, &["--protect", "off"], line);
        assert_eq!(run.ok(), "[(0, 0), (-1, 1)]", "{run:?}");
    }
}

#[test]
fn a_question_is_asked_and_no_is_the_answer_of_nobody() {
    let line = "import os\nfor n in range(2):\n try: print('made', os.sched_rr_get_interval(0) >= 0)\n except OSError as e: print('refused', e.errno)";
    for place in everybody() {
        profile(&place, "[syscalls]\nanswers = [{ call = \"sched_rr_get_interval\", action = \"ask\" }]");
        let run = told(&place, &[], line);
        assert_eq!(run.out, "refused 1\nrefused 1\n", "{run:?}");
        let why = "the policy asks about this call, and no answer allowed it";
        assert!(
            run.err.contains("refused: syscall sched_rr_get_interval") && run.err.contains(why),
            "{run:?}"
        );
        if !has("tmux") {
            continue;
        }
        let terminal = Terminal::open(&place);
        place.write("work/ask.py", line);
        let mut command = place.command(place.binary());
        command.args(["run", "--profile", "told", "--", "python3", "ask.py"]);
        let question = "wants to call sched_rr_get_interval";
        terminal.line(&words(&command));
        terminal.answer(question, "y");
        terminal.answer(question, "n");
        terminal.wait_for("refused 1");
        assert!(terminal.screen().contains("made True"), "{}", terminal.screen());
    }
}

/// A user's answers can't override a lock of the administrator.
#[test]
fn what_is_locked_stays_answered_so() {
    use palisade_policy::{Layer, merge, parse};
    let read = |layer, text: &str| parse(&format!("schema = 1\n{text}"), None, layer).unwrap();
    let policy = merge(vec![
        read(
            Layer::Administrator,
            "[locked.syscalls]\ndeny = [\"kcmp\"]\nanswers = [{ call = \"prctl\", action = \"deny\" }, { open = \"/a\", action = \"redirect\", to = \"/b\" }]",
        ),
        read(
            Layer::User,
            "[syscalls]\nanswers = [{ call = \"prctl\", action = \"allow\" }, { call = \"kcmp\", action = \"allow\" }, { open = \"/a\", action = \"redirect\", to = \"/c\" }]",
        ),
    ]);
    let first = |subject: &str| {
        let answers = policy.answers();
        answers
            .into_iter()
            .find(|answer| answer.value.question.subject() == subject)
            .unwrap()
            .value
            .to_string()
    };
    assert_eq!(first("prctl"), "prctl: deny EPERM");
    assert_eq!(first("/a"), "opening /a: redirect to /b");
    let kcmp = policy.answers().into_iter().find(|answer| answer.value.question.subject() == "kcmp").unwrap();
    assert!(policy.is_outdone(&kcmp));
}

/// A lock can't be loosened by a later rule that repeats it less firmly and also answers the call.
#[test]
fn a_lock_stands_though_it_is_said_again() {
    let Some(place) = root() else { return };
    let line = "import os\ntry: print('made', os.memfd_create('x') > 0)\nexcept OSError as e: print('refused', e.errno)";
    let said = |answer: &str| {
        format!(
            "[default.syscalls]\ndeny = [\"memfd_create\"]\n\
             [syscalls]\nanswers = [{{ call = \"memfd_create\", {answer}action = \"allow\" }}]"
        )
    };
    let run = |lock: &str| {
        let mut palisade = place.administered(lock);
        job::finish(palisade.args(["run", "--profile", "told", "--", "python3", "-c", line]))
    };
    for answer in ["", "when = \"arg1 in 0,1\", "] {
        profile(&place, &said(answer));
        assert_eq!(run("").ok(), "made True", "{answer}");
        for lock in
            ["deny = [\"memfd_create\"]", "answers = [{ call = \"memfd_create\", action = \"deny\" }]"]
        {
            let run = run(&format!("[locked.syscalls]\n{lock}\n"));
            assert_eq!(run.ok(), "refused 1", "{answer} {lock}: {run:?}");
        }
    }
}

/// With `--best-effort` a launch runs although no broker can ask the user. A call that needs a question then fails.
#[test]
fn a_question_is_answered_with_no_where_nobody_is_there() {
    let options = ["--namespaces", "none", "--protect", "off", "--best-effort"];
    let line = "import os\nfor f in (os.sched_rr_get_interval, os.getpgid):\n try: print('made', f(0) >= 0)\n except OSError as e: print('refused', e.errno)";
    for place in everybody() {
        profile(
            &place,
            "[syscalls]\nanswers = [{ call = \"sched_rr_get_interval\", action = \"ask\" }, \
             { call = \"getpgid\", action = \"return\", value = 7 }]",
        );
        let run = told(&place, &options, line);
        assert_eq!(run.out, "refused 1\nrefused 1\n", "{run:?}");
        assert!(
            run.err.contains("getpgid fails with EPERM; sched_rr_get_interval fails with EPERM\n"),
            "{run:?}"
        );
    }
}

/// The test kills the broker: a call that it would have answered is not made.
#[test]
fn without_who_answers_nothing_is_answered() {
    for place in everybody() {
        profile(&place, "[process]\nrelease = \"5.0\"");
        let line = "import os, sys\nprint(os.uname().release, flush=True); sys.stdin.readline()\n\
                    try: print('told', os.uname())\n\
                    except OSError as e: print('refused', e.errno)\n";
        let mut command = place.command(place.binary());
        command.args(["run", "--profile", "told", "--", "python3", "-c", line]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut broker = None;
        eventually(|| {
            broker = below(child.id(), "palisade-broker");
            broker.is_some()
        });
        pause(Duration::from_millis(300));
        kill_process(broker.expect("no broker"), Signal::KILL).unwrap();
        pause(Duration::from_millis(200));
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert_eq!(out, "5.0\nrefused 38\n");
    }
}

/// Threads, children by fork and vfork, handlers, and programs that hide their memory: all are answered.
#[test]
fn answers_come_to_threads_children_and_handlers() {
    let line = "import ctypes, os, signal, subprocess, threading\n\
        l = ctypes.CDLL(None)\n\
        wrong, counted = [], []\n\
        def look():\n\
        \x20   for _ in range(200):\n\
        \x20       if os.uname().release != '5.0' or len(os.sched_getaffinity(0)) != 9: wrong.append(1)\n\
        \x20   counted.append(1)\n\
        signal.signal(signal.SIGALRM, lambda *a: wrong.append(2) if os.uname().release != '5.0' else None)\n\
        signal.siginterrupt(signal.SIGALRM, False)\n\
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)\n\
        threads = [threading.Thread(target=look) for _ in range(16)]\n\
        [t.start() for t in threads]\n\
        children = [subprocess.Popen(['uname', '-r'], stdout=subprocess.PIPE) for _ in range(8)]\n\
        print({c.communicate()[0] for c in children})\n\
        if os.fork() == 0:\n\
        \x20   signal.setitimer(signal.ITIMER_REAL, 0); look(); os._exit(len(wrong))\n\
        print(os.wait()[1])\n\
        [t.join() for t in threads]\n\
        signal.setitimer(signal.ITIMER_REAL, 0)\n\
        print(wrong, len(counted))\n\
        l.prctl(4, 0, 0, 0, 0)\n\
        print(os.uname().release, len(os.sched_getaffinity(0)), open('hidden', 'w').write('x'))\n";
    for place in everybody() {
        profile(&place, "[process]\nrelease = \"5.0\"\nprocessors = 9");
        let run = told(&place, &[], line);
        assert_eq!(run.ok(), "{b'5.0\\n'}\n0\n[] 16\n5.0 9 1", "{run:?}");
        place.assert_all_dead();
    }
}

#[test]
fn real_programs_are_told_of_the_same_machine() {
    let mut tried = 0;
    for place in everybody() {
        profile(&place, "[process]\nhostname = \"box\"\nrelease = \"5.0.1-made\"\nprocessors = 3");
        let told = |line: &str| {
            palisade(&place, &["run", "--profile", "told", "--net", "none", "-c", line]).ok().to_owned()
        };
        assert_eq!(told("uname -nr; nproc; getconf _NPROCESSORS_ONLN"), "box 5.0.1-made\n3\n3");
        if has("node") {
            tried += 1;
            let line = "node -p 'const os = require(\"os\"); [os.release(), os.hostname(), os.availableParallelism()].join()'";
            assert_eq!(told(line), "5.0.1-made,box,3");
        }
        if has("java") {
            tried += 1;
            place.write(
                "work/J.java",
                "public class J { public static void main(String[] a) { System.out.println(\
                 System.getProperty(\"os.version\") + Runtime.getRuntime().availableProcessors()); } }",
            );
            assert_eq!(told("java J.java"), "5.0.1-made3");
        }
        if has("gcc") {
            place.write(
                "work/u.c",
                "#define _GNU_SOURCE\n#include <sys/utsname.h>\n#include <sched.h>\n#include <stdio.h>\n\
                 int main(void) { struct utsname u; cpu_set_t s; uname(&u); sched_getaffinity(0, sizeof s, &s);\n\
                 printf(\"%s %d\\n\", u.release, CPU_COUNT(&s)); return 0; }\n",
            );
            for compiler in ["cc -static", "musl-gcc -static"] {
                let built = format!("{compiler} -o u u.c 2>/dev/null && echo built || true");
                if place.outside(&built).contains("built") {
                    tried += 1;
                    assert_eq!(told("./u"), "5.0.1-made 3", "{compiler}");
                }
            }
        }
    }
    assert!(tried > 0, "none of these programs is here");
}

/// A server and its clients, while the broker answers some of their calls, and learns.
#[test]
fn a_server_under_load_goes_on() {
    if !has("redis") {
        return;
    }
    for place in everybody() {
        profile(
            &place,
            "[process]\nprocessors = 4\n[syscalls]\nanswers = [{ call = \"getpriority\", action = \"return\", value = 7 }, \
             { open = \"/etc/os-release\", action = \"redirect\", to = \"/etc/hostname\" }]",
        );
        let line = "redis-server --port 7778 --appendonly yes --dir . >/dev/null & \
            for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.2; redis-cli -p 7778 ping 2>/dev/null && break; done; \
            for i in 1 2 3 4 5 6 7 8; do redis-cli -p 7778 -r 500 incr a >/dev/null & all=\"$all $!\"; done; wait $all; \
            redis-cli -p 7778 get a; redis-cli -p 7778 bgrewriteaof >/dev/null; redis-cli -p 7778 shutdown; wait";
        for mode in ["off", "learn", "enforce"] {
            place.outside("rm -rf appendonlydir");
            let run = palisade(
                &place,
                &["run", "--profile", "told", "--net", "none", "--syscalls", mode, "-c", line],
            );
            assert_eq!(run.ok(), "PONG\n4000", "{mode}: {run:?}");
        }
        place.assert_all_dead();
    }
}

/// Each key of a policy that states what programs learn, what they get without a broker, and a line that shows that.
const UNANSWERED: [(&str, &str, &str); 6] = [
    (
        "[process]\ntime = \"1980-01-01\"",
        "the clock is the host's",
        "import time; print(time.time() > 1.7e9)",
    ),
    (
        "[process]\nrelease = \"9.9.9-told\"",
        "the kernel's release is the host's",
        "import os; print(os.uname().release != '9.9.9-told')",
    ),
    (
        "[process]\nprocessors = 77",
        "the number of processors is the host's",
        "import os; print(len(os.sched_getaffinity(0)) != 77)",
    ),
    (
        "[syscalls]\nanswers = [{ open = \"/etc/os-release\", action = \"redirect\", to = \"/etc/passwd\" }]",
        "opening /etc/os-release opens that file",
        "print('root:' not in open('/etc/os-release').read())",
    ),
    (
        "[syscalls]\nanswers = [{ call = \"getpriority\", action = \"return\", value = 7 }]",
        "getpriority fails with EPERM",
        "import os\ntry: os.getpriority(os.PRIO_PROCESS, 0)\nexcept PermissionError: print(True)",
    ),
    (
        "[syscalls]\nanswers = [{ call = \"getpriority\", action = \"ask\" }]",
        "getpriority fails with EPERM",
        "import os\ntry: os.getpriority(os.PRIO_PROCESS, 0)\nexcept PermissionError: print(True)",
    ),
];

#[test]
fn what_is_not_answered_without_namespaces_is_named() {
    let reason = "without namespaces no process can receive the system calls, so ";
    for place in everybody() {
        for (body, missing, shows) in UNANSWERED {
            profile(&place, body);
            // All of the policy is required if nothing else is said.
            let refused = told(&place, &["--namespaces", "none"], "print('started')");
            refused.refused(125, &["calls are answered as the policy says", &format!("{reason}{missing}")]);
            assert!(!refused.out.contains("started"), "{refused:?}");
            for options in [
                &["--namespaces", "none", "--require", "unchanged"][..],
                &["--namespaces", "none", "--best-effort"],
            ] {
                let run = told(&place, options, shows);
                assert_eq!((run.code, run.out.as_str()), (0, "True\n"), "{run:?}");
                let note = format!("note: calls aren't answered as the policy says: {reason}{missing}\n");
                assert!(run.err.contains(&note), "{run:?}");
            }
            let full = told(&place, &[], shows);
            // A question that nobody answers is refused here, too.
            let is_question = body.contains("ask");
            assert!(is_question || full.out != "True\n", "{full:?}");
            assert!(!full.err.contains("note: "), "{full:?}");
        }
        let all = "[process]\nhostname = \"told\"\ntime = 0\nrelease = \"9.9.9-told\"\nprocessors = 77";
        profile(&place, all);
        let run =
            told(&place, &["--namespaces", "none", "--best-effort"], "import os; print(os.uname().nodename)");
        assert!(run.code == 0 && run.out != "told\n", "{run:?}");
        let named = [
            "the kernel's release is the host's; the number of processors is the host's; the clock is the host's\n",
            "note: the machine's name inside is the host's: another one needs namespaces\n",
        ];
        assert!(named.iter().all(|words| run.err.contains(words)), "{run:?}");
    }
}
