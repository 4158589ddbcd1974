// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a sandbox's own time of day: which calls report it, which waits use it, and new programs.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::job::below;
use crate::support::{Place, Run, eventually, everybody, has, is_root, job};
use rustix::process::{Signal, kill_process};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// 2040-01-01 and 1980-01-01: both far from any day on which this runs.
const STARTS: [(&str, i64); 2] = [("\"2040-01-01\"", 2_208_988_800), ("315532800", 315_532_800)];

/// Tolerance in seconds: a busy machine may take half a minute.
const SLACK: i64 = 60;

/// What the lines of Python below have in common: times in nanoseconds, and the C library. A wait is measured from the
/// moment its end was computed: a busy machine may take long from there to the call.
const PYTHON: &str = "import ctypes, errno, os, resource, signal, subprocess, sys, threading, time\n\
    l = ctypes.CDLL(None, use_errno=True); l.syscall.restype = ctypes.c_long\n\
    class T(ctypes.Structure): _fields_ = [('s', ctypes.c_long), ('n', ctypes.c_long)]\n\
    class I(ctypes.Structure): _fields_ = [('i', T), ('v', T)]\n\
    asked = None\n\
    def at(ns): return T(ns // 10**9, ns % 10**9)\n\
    def now(clock): global asked; asked = time.monotonic(); return clock()\n\
    def after(s): return at(now(time.time_ns) + int(s * 1e9))\n\
    def tai(): return time.clock_gettime_ns(11)\n\
    def call(f, *a):\n\
    \x20   global asked; began = asked or time.monotonic(); ctypes.set_errno(0); value = f(*a); asked = None\n\
    \x20   return value, errno.errorcode.get(ctypes.get_errno(), 0), time.monotonic() - began\n";

/// Writes the profile `told`.
fn profile(place: &Place, time: &str, body: &str) {
    let text = format!("schema = 1\nname = \"told\"\n[process]\ntime = {time}\n{body}\n");
    place.write(".config/palisade/profiles/told.toml", text);
}

fn told(place: &Place, options: &[&str], command: &[&str]) -> Run {
    let mut palisade = place.command(place.binary());
    job::finish(palisade.args(["run", "--profile", "told"]).args(options).arg("--").args(command))
}

/// Runs lines of Python inside.
fn python(place: &Place, options: &[&str], lines: &str) -> Run {
    place.write("work/lines.py", format!("{PYTHON}{lines}"));
    told(place, options, &["python3", "lines.py"])
}

/// And outside.
fn outside(place: &Place, lines: &str) -> String {
    place.write("work/lines.py", format!("{PYTHON}{lines}"));
    place.outside("python3 lines.py")
}

/// Each word of what was printed is a time shortly after the start.
#[track_caller]
fn all_shortly_after(start: i64, run: &Run, count: usize) {
    let seconds: Vec<i64> = run.ok().split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!(seconds.len(), count, "{run:?}");
    assert!(seconds.iter().all(|second| (start..start + SLACK).contains(second)), "{start}: {run:?}");
}

#[test]
fn the_clock_starts_when_the_policy_says_and_runs_on() {
    for place in everybody() {
        for (time, start) in STARTS {
            profile(&place, time, "");
            // Also without protected names, where the broker runs only for this.
            for options in
                [&[][..], &["--protect", "off"], &["--syscalls", "learn"], &["--syscalls", "enforce"]]
            {
                for _cold_and_hot in 0..2 {
                    let line =
                        "date +%s; perl -e 'print time'; sh -c 'echo; sh -c \"sh -c \\\"exec date +%s\\\"\"'";
                    all_shortly_after(start, &told(&place, options, &["sh", "-c", line]), 3);
                }
            }
            let run = told(&place, &[], &["sh", "-c", "date +%s%N; sleep 0.3; date +%s%N"]);
            let times: Vec<i64> = run.ok().lines().map(|line| line.parse().unwrap()).collect();
            assert!(times[1] - times[0] >= 300_000_000, "{run:?}");
            // The clock of each sandbox starts again.
            all_shortly_after(start, &told(&place, &[], &["date", "+%s"]), 1);
        }
        let shown = told(&place, &["--dry-run"], &["true"]);
        assert!(shown.ok().contains("the clock starts at 1980-01-01T00:00:00Z"), "{shown:?}");
        let mut shown = place.command(place.binary());
        let shown = job::finish(shown.args(["config", "show", "--profile", "told"]));
        assert!(shown.ok().contains("1980-01-01T00:00:00Z"), "{shown:?}");
        place.assert_all_dead();
    }
}

#[test]
fn every_clock_that_tells_the_day_is_moved_and_no_other() {
    let lines = "def read(clock):\n\
        \x20   t = T(); return l.syscall(228, clock, ctypes.byref(t)), t.s\n\
        print(*(read(c)[1] for c in (0, 5, 8, 11)), l.syscall(201, None), int(time.time()), int(time.clock_gettime(0)))\n\
        v = (ctypes.c_long * 2)(); z = (ctypes.c_int * 2)(7, 7)\n\
        l.syscall(96, ctypes.byref(v), ctypes.byref(z)); t = ctypes.c_long(); l.syscall(201, ctypes.byref(t)); print(v[0], t.value)\n\
        assert list(z) == [0, 0] and 0 <= v[1] < 10**6\n\
        l.gettimeofday(ctypes.byref(v), None); l.time.restype = ctypes.c_long; print(v[0], l.time(None))\n\
        assert call(l.syscall, 228, 0, None)[:2] == (-1, 'EFAULT') and call(l.syscall, 228, 77, None)[:2] == (-1, 'EINVAL')\n\
        assert call(l.syscall, 96, None, None)[0] == 0\n\
        print(*(read(c)[1] for c in (1, 4, 6, 7)), *(read(c)[0] for c in (2, 3)), file=sys.stderr)\n";
    for place in everybody() {
        for (time, start) in STARTS {
            profile(&place, time, "");
            let clock = "print(int(time.monotonic()))";
            let before: i64 = outside(&place, clock).trim().parse().unwrap();
            let run = python(&place, &[], lines);
            let after: i64 = outside(&place, clock).trim().parse().unwrap();
            all_shortly_after(start, &run, 11);
            let others = run.err.lines().last().unwrap();
            let others: Vec<i64> = others.split(' ').map(|word| word.parse().unwrap()).collect();
            let (monotonic, processor) = others.split_at(4);
            // Where the machine has slept, the last one is ahead of the others.
            assert!(monotonic[..3].iter().all(|second| (before - 1..=after).contains(second)), "{run:?}");
            assert!(monotonic[3] >= before, "{run:?}");
            assert_eq!(processor, [0, 0], "{run:?}");
        }
        // Outside, the time is not changed.
        let real: i64 = outside(&place, "print(int(time.time()))").trim().parse().unwrap();
        assert!(STARTS.iter().all(|(_, start)| !(start - SLACK..start + 2 * SLACK).contains(&real)));
    }
}

/// Until a time of day; from now on; and with a condition that comes true, or a signal.
#[test]
fn what_waits_for_a_time_of_day_waits_as_long_as_it_should() {
    let lines = "r = []\n\
        def waited(what, result, least=0.2, most=20):\n\
        \x20   value, error, took = result\n\
        \x20   r.append((what, value, error, 'waited' if least <= took < most else took))\n\
        none = None; ref = ctypes.byref\n\
        waited('sleep', call(l.clock_nanosleep, 0, 1, ref(after(0.25)), none))\n\
        waited('tai', call(l.clock_nanosleep, 11, 1, ref(at(now(tai) + 250000000)), none))\n\
        waited('late', call(l.clock_nanosleep, 0, 1, ref(after(-9)), none), 0)\n\
        waited('wrong', call(l.clock_nanosleep, 0, 1, ref(T(5, -1)), none), 0)\n\
        waited('from now', call(l.clock_nanosleep, 0, 0, ref(T(0, 250000000)), none))\n\
        fd = l.timerfd_create(0, 0); old = I()\n\
        def timer(first, every=0):\n\
        \x20   l.timerfd_settime(fd, 1, ref(I(at(every), first)), ref(old)); return len(os.read(fd, 8))\n\
        waited('timer', call(timer, after(0.25)))\n\
        waited('late timer', call(timer, after(-1)), 0)\n\
        waited('timer again', call(timer, after(0.1), 150000000), 0)\n\
        waited('and again', call(lambda: len(os.read(fd, 8))), 0)\n\
        l.timerfd_settime(fd, 1, ref(I(T(), after(1000))), ref(old)); l.timerfd_settime(fd, 1, ref(I()), ref(old))\n\
        r.append(('left', 900 < old.v.s <= 1000))\n\
        fd = l.timerfd_create(1, 0); waited('monotonic timer', call(timer, at(now(time.monotonic_ns) + 250000000)))\n\
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n\
        def alarm(clock, first, every=0):\n\
        \x20   t = ctypes.c_int(); l.timer_create(clock, none, ref(t))\n\
        \x20   v = l.timer_settime(t, 1, ref(I(at(every), first)), none); w = signal.sigwait([signal.SIGALRM])\n\
        \x20   if every: signal.sigwait([signal.SIGALRM])\n\
        \x20   l.timer_settime(t, 1, ref(I(T(), after(1000))), none); l.timer_settime(t, 1, ref(I()), ref(old)); l.timer_delete(t)\n\
        \x20   return v\n\
        waited('alarm', call(alarm, 0, after(0.25)))\n\
        r.append(('left', 900 < old.v.s <= 1000))\n\
        waited('late alarm', call(alarm, 0, after(-9)), 0)\n\
        waited('alarms', call(alarm, 0, after(0.1), 150000000))\n\
        waited('tai alarm', call(alarm, 11, at(now(tai) + 250000000)))\n\
        waited('monotonic alarm', call(alarm, 1, at(now(time.monotonic_ns) + 250000000)))\n\
        r.append(('no alarm',) + call(l.syscall, 223, 77, 1, ref(I()), none)[:2])\n\
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])\n\
        for bad in (0, 99, -1): r.append((bad, call(l.timerfd_settime, bad, 1, ref(I()), none)[:2]))\n\
        s = ctypes.create_string_buffer(64); l.sem_init(s, 0, 0)\n\
        waited('semaphore', call(l.sem_timedwait, s, ref(after(0.25))))\n\
        waited('late semaphore', call(l.sem_timedwait, s, ref(after(-9))), 0)\n\
        def beside(f, *a):\n\
        \x20   began = time.monotonic(); threading.Thread(target=f).start(); return call(*a)[:2] + (time.monotonic() - began,)\n\
        def post(): time.sleep(0.25); l.sem_post(s)\n\
        waited('posted', beside(post, l.sem_timedwait, s, ref(after(1000))))\n\
        m = ctypes.create_string_buffer(64); c = ctypes.create_string_buffer(64); l.pthread_mutex_init(m, 0); l.pthread_cond_init(c, 0)\n\
        l.pthread_mutex_lock(m); waited('condition', call(l.pthread_cond_timedwait, c, m, ref(after(0.25))))\n\
        def wake(): time.sleep(0.25); l.pthread_mutex_lock(m); l.pthread_cond_signal(c); l.pthread_mutex_unlock(m)\n\
        waited('signalled', beside(wake, l.pthread_cond_timedwait, c, m, ref(after(1000))))\n\
        held = threading.Lock(); held.acquire(); waited('lock', call(held.acquire, True, 0.25))\n\
        p = threading.Condition(); p.acquire(); waited('python', call(p.wait, 0.25))\n\
        word = ctypes.c_int(7)\n\
        waited('word', call(l.syscall, 202, ref(word), 0x189, 8, ref(after(9)), 0, -1), 0)\n\
        waited('no mask', call(l.syscall, 202, ref(word), 0x189, 7, ref(after(9)), 0, 0), 0)\n\
        waited('no word', call(l.syscall, 202, none, 0x189, 7, ref(after(9)), 0, -1), 0)\n\
        came = []; signal.signal(signal.SIGALRM, lambda *_: came.append(1))\n\
        def interrupted(*a):\n\
        \x20   signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3); value = call(*a); signal.setitimer(signal.ITIMER_REAL, 0); return value\n\
        waited('interrupted', interrupted(l.clock_nanosleep, 0, 1, ref(after(1000)), none), 0)\n\
        waited('also', interrupted(l.sem_timedwait, s, ref(after(1000))), 0)\n\
        signal.signal(signal.SIGALRM, signal.SIG_IGN); waited('ignored', interrupted(l.clock_nanosleep, 0, 1, ref(after(0.5)), none), 0.45)\n\
        r.append(bool(came))\n\
        for one in r: print(*one) if type(one) is tuple else print(one)\n";
    let expected = "sleep 0 0 waited\ntai 0 0 waited\nlate 0 0 waited\nwrong 22 0 waited\nfrom now 0 0 waited\n\
        timer 8 0 waited\nlate timer 8 0 waited\ntimer again 8 0 waited\nand again 8 0 waited\nleft True\nmonotonic timer 8 0 waited\n\
        alarm 0 0 waited\nleft True\nlate alarm 0 0 waited\nalarms 0 0 waited\ntai alarm 0 0 waited\nmonotonic alarm 0 0 waited\nno alarm -1 EINVAL\n\
        0 (-1, 'EINVAL')\n99 (-1, 'EBADF')\n-1 (-1, 'EBADF')\n\
        semaphore -1 ETIMEDOUT waited\nlate semaphore -1 ETIMEDOUT waited\nposted 0 0 waited\n\
        condition 110 0 waited\nsignalled 0 0 waited\nlock False 0 waited\npython False 0 waited\n\
        word -1 EAGAIN waited\nno mask -1 EINVAL waited\nno word -1 EFAULT waited\n\
        interrupted 4 0 waited\nalso -1 EINTR waited\nignored 0 0 waited\nTrue";
    for place in everybody() {
        // The kernel gives the same results, so no line of `expected` is specific to Palisade.
        assert_eq!(outside(&place, lines).trim_end(), expected);
        for (time, _) in STARTS {
            profile(&place, time, "");
            let run = python(&place, &[], lines);
            assert_eq!(run.ok(), expected, "{time}: {run:?}");
        }
        place.assert_all_dead();
    }
}

/// A thread that waits until a day in ten years sleeps without polling, and wakes when it is woken.
#[test]
fn nobody_spins_and_nobody_is_forgotten() {
    let lines = "s = ctypes.create_string_buffer(64); l.sem_init(s, 0, 0); used = []\n\
        def wait():\n\
        \x20   l.sem_timedwait(s, ctypes.byref(after(3e8)))\n\
        \x20   u = resource.getrusage(resource.RUSAGE_THREAD); used.append(u.ru_nvcsw + u.ru_nivcsw)\n\
        threads = [threading.Thread(target=wait) for _ in range(8)]\n\
        [t.start() for t in threads]; began = time.monotonic(); time.sleep(1)\n\
        [l.sem_post(s) for _ in threads]; [t.join() for t in threads]\n\
        print(len(used), max(used) <= 250 * (time.monotonic() - began) + 50, used)\n";
    for place in everybody() {
        for (time, _) in STARTS {
            profile(&place, time, "");
            let run = python(&place, &[], lines);
            assert!(run.ok().starts_with("8 True"), "{run:?}");
        }
    }
}

/// Several at once, from threads that aren't the first, and programs that aren't there.
#[test]
fn programs_begin_as_ever() {
    let lines = "ps = [subprocess.Popen(['date', '+%Y'], stdout=subprocess.PIPE) for _ in range(10)]\n\
        print({p.communicate()[0] for p in ps})\n\
        got = []\n\
        def run():\n\
        \x20   for _ in range(10): got.append(subprocess.run(['date', '+%Y'], stdout=subprocess.PIPE).stdout)\n\
        threads = [threading.Thread(target=run) for _ in range(8)]; [t.start() for t in threads]; [t.join() for t in threads]\n\
        print(set(got), len(got))\n\
        def fork(f):\n\
        \x20   sys.stdout.flush(); child = os.fork()\n\
        \x20   if child == 0: f(); time.sleep(50); os._exit(3)\n\
        \x20   print(os.waitpid(child, 0)[1])\n\
        fork(lambda: threading.Thread(target=lambda: os.execvp('date', ['date', '+thread %Y'])).start())\n\
        def race():\n\
        \x20   for n in range(6): threading.Thread(target=lambda: os.execvp('date', ['date', '+race %Y'])).start()\n\
        for _ in range(5): fork(race)\n\
        for path in (b'/not/there', b'/etc/passwd', b'/', None): print(call(l.execve, path, None, None)[:2])\n\
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); os.kill(os.getpid(), signal.SIGUSR1)\n\
        print(call(l.execve, b'/not/there', None, None)[:2], signal.sigpending(), signal.sigwait(blocked | {signal.SIGUSR1}))\n\
        with open('script', 'w') as f: f.write('#!/bin/sh\\nexec date +%Y\\n')\n\
        os.chmod('script', 0o755); print(subprocess.run('./script', stdout=subprocess.PIPE).stdout)\n\
        file = os.open('/bin/true', os.O_RDONLY)\n\
        fork(lambda: os.execve(file, ['true'], {}))\n\
        print('TracerPid:\\t0' in open('/proc/self/status').read())\n\
        sys.stdout.flush(); os.execvp('sh', ['sh', '-c', 'date +%Y'])\n";
    let year = |year: &str| {
        format!(
            "{{b'{year}\\n'}}\n{{b'{year}\\n'}} 80\nthread {year}\n0\n{}\
             (-1, 'ENOENT')\n(-1, 'EACCES')\n(-1, 'EACCES')\n(-1, 'EFAULT')\n\
             (-1, 'ENOENT') {{<Signals.SIGUSR1: 10>}} 10\nb'{year}\\n'\n0\nTrue\n{year}",
            format!("race {year}\n0\n").repeat(5)
        )
    };
    for place in everybody() {
        let real = place.outside("date +%Y");
        assert_eq!(outside(&place, lines).trim_end(), year(real.trim()));
        for options in [&[][..], &["--protect", "off"], &["--syscalls", "learn"]] {
            profile(&place, "\"2040-01-01\"", "");
            let run = python(&place, options, lines);
            assert_eq!(run.ok(), year("2040"), "{options:?}: {run:?}");
            place.outside("rm -f script");
        }
        // The command itself may not be there.
        told(&place, &[], &["not-there"]).refused(127, &["not-there"]);
        assert_eq!(told(&place, &[], &["sh", "-c", "exit 7"]).code, 7);
        place.assert_all_dead();
    }
}

#[test]
fn a_sandbox_that_is_killed_in_the_midst_leaves_nobody() {
    for place in everybody() {
        profile(&place, "\"2040-01-01\"", "");
        for line in ["while true; do date >/dev/null; done", "date +%s -f - & exec sleep 1000"] {
            let mut palisade = place.palisade(&["--profile", "told"], &["sh", "-c", line]);
            let mut child = palisade.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
            let name = if line.starts_with("while") { "sh" } else { "sleep" };
            assert!(eventually(|| below(child.id(), name).is_some()), "{line}");
            let palisade = rustix::process::Pid::from_child(&child);
            kill_process(palisade, Signal::KILL).unwrap();
            job::bounded(&mut child);
            place.assert_all_dead();
        }
    }
}

/// What isn't Python: other languages' run-times, and C libraries in static programs.
#[test]
fn real_programs_see_the_same_time() {
    let mut tried = 0;
    for place in everybody() {
        for (time, start) in STARTS {
            profile(&place, time, "");
            if has("node") {
                tried += 1;
                let line = "console.log(Math.floor(Date.now() / 1000)); setTimeout(() => console.log(Math.floor(Date.now() / 1000)), 99)";
                all_shortly_after(start, &told(&place, &[], &["node", "-e", line]), 2);
            }
            if has("java") {
                tried += 1;
                place.write(
                    "work/J.java",
                    "public class J { public static void main(String[] a) throws Exception {\n\
                     var lock = new java.util.concurrent.locks.ReentrantLock(); lock.lock();\n\
                     lock.newCondition().awaitUntil(new java.util.Date(System.currentTimeMillis() + 99));\n\
                     java.util.concurrent.locks.LockSupport.parkUntil(System.currentTimeMillis() + 99);\n\
                     System.out.println(java.time.Instant.now().getEpochSecond()); } }",
                );
                all_shortly_after(start, &told(&place, &[], &["java", "J.java"]), 1);
            }
            if has("gcc") {
                place.write(
                    "work/t.c",
                    "#include <errno.h>\n#include <pthread.h>\n#include <stdio.h>\n#include <sys/time.h>\n#include <time.h>\n\
                     int main(void) { struct timespec s; struct timeval v; pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n\
                     pthread_cond_t c = PTHREAD_COND_INITIALIZER; clock_gettime(CLOCK_REALTIME, &s); gettimeofday(&v, 0);\n\
                     s.tv_sec++; pthread_mutex_lock(&m); if (pthread_cond_timedwait(&c, &m, &s) != ETIMEDOUT) return 1;\n\
                     printf(\"%ld %ld %ld\\n\", (long)time(0), (long)s.tv_sec, (long)v.tv_sec); return 0; }\n",
                );
                for compiler in ["cc -static", "cc", "musl-gcc -static"] {
                    let built = format!("{compiler} -o t t.c 2>/dev/null && echo built || true");
                    if place.outside(&built).contains("built") {
                        tried += 1;
                        all_shortly_after(start, &told(&place, &[], &["./t"]), 3);
                    }
                }
            }
        }
    }
    assert!(tried > 0, "none of these programs is here");
}

#[test]
fn mistakes_are_told_before_anything_starts() {
    for place in everybody() {
        for time in
            ["\"soon\"", "\"2030-02-30\"", "2030-01-01", "-1", "true", "\"2030-01-01T12:00:00+01:00\""]
        {
            profile(&place, time, "");
            let run = told(&place, &[], &["true"]);
            run.refused(125, &["told.toml:4:"]);
            if time != "true" {
                assert!(run.err.contains("hint: time = \"2030-01-01\""), "{time}: {run:?}");
            }
        }
        profile(&place, "\"2040-01-01\"", "");
        let in_place = ["--namespaces", "none", "--protect", "off"];
        told(&place, &in_place, &["true"])
            .refused(125, &["without namespaces no process can receive the system calls"]);
        let run = told(&place, &[&in_place[..], &["--best-effort"]].concat(), &["date", "+%Y"]);
        assert_ne!(run.ok(), "2040", "{run:?}");
        assert!(run.err.contains("so the clock is the host's\n"), "{run:?}");
        // A call that the policy denies stays denied.
        profile(&place, "\"2040-01-01\"", "[syscalls]\ndeny = [\"time\"]");
        let line = "print(call(l.syscall, 201, None)[:2], time.gmtime(time.time()).tm_year)";
        assert_eq!(python(&place, &[], line).ok(), "(-1, 'EPERM') 2040");
    }
}

/// Two programs can't start: the broker can't hide the vDSO of a process whose memory it may not read, and it can't watch a
/// process that another one traces.
#[test]
fn what_cant_be_watched_doesnt_begin() {
    let lines = "def traced():\n\
        \x20   l.ptrace(0, 0, 0, 0)\n\
        \x20   try: os.execv('/bin/true', ['true'])\n\
        \x20   except OSError as e: os._exit(e.errno)\n\
        child = os.fork()\n\
        if child == 0: traced()\n\
        status = os.waitpid(child, 0)[1]; stopped = os.WIFSTOPPED(status)\n\
        if stopped: os.kill(child, 9); os.waitpid(child, 0)\n\
        print('begun' if stopped else os.WEXITSTATUS(status))\n";
    for place in everybody() {
        profile(&place, "\"2040-01-01\"", "[syscalls]\nallow = [\"ptrace\"]");
        assert_eq!(outside(&place, lines), "begun\n");
        assert_eq!(python(&place, &["--protect", "off"], lines).ok(), "1");
        profile(&place, "\"2040-01-01\"", "");
        if is_root() && !place.is_root() {
            let file = place.work.join("unreadable");
            std::fs::copy("/bin/true", &file).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o711)).unwrap();
            assert_eq!(place.outside("./unreadable && echo begun"), "begun\n");
            let run = told(&place, &[], &["sh", "-c", "./unreadable; echo $?"]);
            assert_eq!(run.ok(), "137", "{run:?}");
            assert!(run.err.contains("execve without a vDSO"), "{run:?}");
            assert_eq!(told(&place, &[], &["./unreadable"]).code, 137);
        }
        place.assert_all_dead();
    }
}

/// A process that makes its own namespaces sees the same time in them.
#[test]
fn namespaces_of_its_own_change_nothing() {
    for place in everybody().into_iter().filter(|place| !place.is_root()) {
        profile(&place, "\"2040-01-01\"", "namespaces = true");
        let run = told(
            &place,
            &[],
            &["sh", "-c", "unshare -Ur date +%Y; unshare -Urpf sh -c 'date +%Y; date +%Y'"],
        );
        assert_eq!(run.ok(), "2040\n2040\n2040", "{run:?}");
        assert_ne!(place.outside("unshare -Ur date +%Y").trim(), "2040");
    }
}

/// The statement of a later layer applies.
#[test]
fn layers_decide_on_the_time_as_on_anything_else() {
    for place in everybody() {
        profile(&place, "\"2040-01-01\"", "");
        place.write(".config/palisade/config.toml", "schema = 1\n[process]\ntime = \"1990-01-01\"\n");
        let mut bare = place.command(place.binary());
        let bare = job::finish(bare.args(["run", "--", "date", "+%Y"]));
        assert_eq!(bare.ok(), "1990");
        assert_eq!(told(&place, &[], &["date", "+%Y"]).ok(), "2040");
    }
}
