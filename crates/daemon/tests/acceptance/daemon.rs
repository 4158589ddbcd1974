// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests how the daemon begins, works and ends.

use crate::support::lines::tell;
use crate::support::{Bed, ORDINARY, Settings};
use palisade_acceptance::patience::Patience;
use palisade_event::{Detail, Verdict};
use palisade_protocol::guard::{Request, Response};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A guard that refuses `refused`, allows everything else, and asks about each open.
fn plain(options: &[&'static str]) -> Bed {
    let mut bed = Bed::new();
    for name in ["a", "b", "refused"] {
        bed.copy("/bin/true", bed.at(name));
    }
    bed.write(bed.at("data"), "data\n");
    bed.options.extend(options);
    bed.settings(&Settings { trust: "sources = []".into(), ..Settings::enforce() });
    bed.rules("deny_audit perm=any all : path=BED/refused\nallow perm=any all : all\n");
    bed.start();
    bed
}

pub(crate) fn reload() {
    let bed = plain(&[]);
    let generation = bed.status().generation;
    bed.rule_file("60-more.rules", "alow perm=any all : all\n");
    bed.signal("-HUP");
    bed.wait("the mistake is told", |bed| bed.log().contains("60-more.rules:1:"));
    bed.run("./a").ok();
    bed.run("./refused").refused();
    assert!(bed.status().alarms.iter().any(|alarm| alarm.contains("60-more.rules")), "{:?}", bed.status());
    assert!(matches!(bed.ask(&Request::Reload { force: true }), Response::Refused(_)));
    assert_eq!(bed.status().generation, generation);
    bed.rule_file("60-more.rules", "allow perm=any all : all\n");
    bed.rules("deny_audit perm=any all : path=BED/a\n");
    bed.options.contains(&"--force").then_some(()).unwrap();
    bed.signal("-HUP");
    bed.wait("the rules are in force", |bed| bed.status().generation == generation + 1);
    bed.run("./a").refused();
    bed.run("./refused").ok();
}

/// `CAP_SYS_RESOURCE`: root in a container may not have it.
fn may_raise_limits() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap() & 1 << 24 != 0
}

/// Connects a hundred times without sending a message, and counts accepted connections. Holds them until the input ends.
const CROWD: &str = "
import os, socket, sys
crowd = []
for number in range(100):
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(20)
    one.connect(os.environ['SOCKET'])
    try:
        heard = one.recv(1)
    except ConnectionResetError:
        heard = b''
    if heard: crowd.append(one)
print(len(crowd), flush=True)
sys.stdin.read()
";

pub(crate) fn one_user_is_not_everybody() {
    let bed = plain(&[]);
    // Other users may need access to the daemon's directory; the daemon itself decides which users it answers.
    let socket = bed.socket();
    let crowd = |uid| {
        let mut command = bed.command(uid, "60", &["python3", "-c", CROWD]);
        command.env("SOCKET", &socket).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        (child, said.trim().parse::<u32>().unwrap())
    };
    let (many, heard) = crowd(ORDINARY);
    assert!((1..64).contains(&heard), "{heard} conversations of one user");
    // Root and other users are still served.
    assert!(bed.status().generation > 0);
    let (others, heard) = crowd(ORDINARY + 1);
    assert!(heard > 0);
    // Three users take all places for ordinary users, and root is still served.
    let (rest, heard) = crowd(ORDINARY + 2);
    assert!(heard > 0);
    let (mut late, heard) = crowd(ORDINARY + 3);
    assert_eq!(heard, 0);
    drop(late.stdin.take());
    assert!(late.wait().unwrap().success());
    assert!(bed.status().generation > 0);
    // A client that holds a connection and never sends a message keeps others out only for a short time.
    bed.wait("silent connections are ended", |_| {
        let (mut late, heard) = crowd(ORDINARY + 3);
        drop(late.stdin.take());
        late.wait().unwrap().success() && heard > 0
    });
    for mut child in [many, others, rest] {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
    bed.wait("the seats are free again", |_| {
        let (mut child, now) = crowd(ORDINARY);
        drop(child.stdin.take());
        child.wait().unwrap().success() && now == 24
    });
}

pub(crate) fn memory() {
    let bed = plain(&[]);
    let score = fs::read_to_string(format!("/proc/{}/oom_score_adj", bed.pid())).unwrap();
    if may_raise_limits() {
        assert_eq!(score.trim(), "-900");
    }
    // The daemon answers even when no memory is available: deciding allocates none.
    let pid = bed.pid().to_string();
    let size = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = size.split(' ').next().unwrap().parse().unwrap();
    let limit = format!("--as={0}:{0}", pages * 4096);
    assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
    for _ in 0..20 {
        bed.run("./a && ./b && cat data").ok();
        bed.run("./refused").refused();
    }
}

pub(crate) fn open_files() {
    let bed = plain(&["--ask-always"]);
    let pid = bed.pid().to_string();
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let hard: usize = line.split_whitespace().nth(4).unwrap().parse().unwrap();
    assert!(
        line.split_whitespace().nth(3)
            == Some(if may_raise_limits() { "65536" } else { line.split_whitespace().nth(4).unwrap() }),
        "{line}"
    );
    let limit = |soft: usize| {
        let limit = format!("--nofile={soft}:{hard}");
        assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
    };
    limit(fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() / 2);
    // The kernel can't give the guard the file. The open may fail, but no process may wait, and nothing may be let through.
    let mut patience = Patience::new(Duration::from_secs(8));
    assert!(!bed.run("timeout 10 ./refused").worked());
    assert!(!bed.run("timeout 10 cat data").worked());
    assert!(!patience.is_spent());
    limit(hard);
    bed.run("./a").ok();
    bed.run("./refused").refused();
    assert!(bed.metrics().lost > 0, "{:?}", bed.metrics());
}

pub(crate) fn leaks() {
    let bed = plain(&["--ask-always"]);
    let pid = bed.pid();
    let loads = |count: u32| {
        bed.run(&format!(
            "python3 -c \"
for _ in range({count}):
    open('data').close()
    try: open('refused')
    except PermissionError: pass
\""
        ))
        .ok();
    };
    let look = || {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        let size = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
        let pages: u64 = size.split(' ').nth(1).unwrap().parse().unwrap();
        (descriptors, pages * 4)
    };
    loads(2000);
    bed.run("i=0; while [ $i -lt 300 ]; do ./a; i=$((i+1)); done").ok();
    let before = look();
    let questions = bed.metrics().questions;
    loads(10_000);
    let after = look();
    assert!(bed.metrics().questions >= questions + 20_000);
    assert!(after.0 <= before.0 + 4, "descriptors: {before:?}, then {after:?}");
    assert!(after.1 <= before.1 + 4096, "KiB: {before:?}, then {after:?}");
}

pub(crate) fn log_channels() {
    let mut bed = Bed::new();
    for name in ["a", "quiet", "system"] {
        bed.copy("/bin/true", bed.at(name));
    }
    // A system log inside the bed.
    let log = bed.base.join("syslog");
    let listen = "import os, socket
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.bind('/dev/log')
print('listening', flush=True)
for _ in range(2): print(log.recv(4096).decode(), flush=True)";
    bed.run(&format!(
        "cd '{}'; mkdir dev; for d in null zero urandom tty ptmx; do cp -a /dev/$d dev/; done; mkdir dev/pts; \
         mount --bind /dev/pts dev/pts; mount --rbind dev /dev",
        bed.base.display()
    ))
    .ok();
    let mut listener = bed.command(0, "60", &["/usr/bin/python3", "-c", listen]);
    let mut listener = listener.stdout(fs::File::create(&log).unwrap()).spawn().unwrap();
    bed.wait("the log listens", |_| fs::read_to_string(&log).unwrap().contains("listening"));
    let settings = Settings { trust: "sources = []".into(), ..Settings::enforce() };
    bed.settings(&settings.log("format = \"rule,dec,perm,uid,exe,:,path,ftype,trust\""));
    bed.rules(
        "deny_log perm=execute all : path=BED/a\nallow perm=any all : path=BED/quiet\n\
         deny_syslog perm=execute all : path=BED/system\nallow perm=any all : all\n",
    );
    bed.start();
    let mut follower = bed.talk();
    follower.send(&Request::Follow { all: false, past: false, end: false, refused: false }).unwrap();
    for _begun_and_nothing_remembered in 0..2 {
        assert!(matches!(follower.receive().unwrap(), Response::Done { .. }));
    }
    bed.run_as_user("./a; ./quiet").ok();
    bed.run("./system").refused();
    listener.wait().unwrap();
    let syslog = fs::read_to_string(&log).unwrap();
    assert!(
        syslog.contains("palisaded[") && syslog.contains("dec=deny_syslog perm=execute uid=0"),
        "{syslog}"
    );
    let error = bed.log();
    let wanted = format!(
        "rule=1 dec=deny_log perm=execute uid=47110 exe=/usr/bin/dash : path={}/a",
        bed.point.display()
    );
    assert!(error.contains(&wanted) && !error.contains("quiet"), "{error}");
    let Response::Event(first) = follower.receive().unwrap() else { panic!("no decision") };
    let Detail::Guard(guard) = &first.detail else { panic!("{first:?}") };
    assert!(first.object.path().unwrap().ends_with("/a") && guard.rule == Some(1), "{first:?}");
    assert_eq!((first.verdict, first.subject.uid), (Verdict::Refused, Some(ORDINARY)), "{first:?}");
    assert!(first.why.origin.as_ref().unwrap().to_string().ends_with("50-test.rules:1"), "{first:?}");
    // The message goes to the terminal of the process, which is gone when its exec is refused. The terminal stays until then.
    let typescript = bed.base.join("typescript");
    let told = || fs::read_to_string(&typescript).unwrap_or_default();
    let line =
        format!("script -qefc './a; while [ ! -e heard ]; do sleep 0.05; done' '{}'", typescript.display());
    let mut session = bed.command(0, "60", &["/bin/sh", "-c", &format!("cd \"$BED\"; {line}")]);
    let mut session = session.stdout(Stdio::null()).spawn().unwrap();
    bed.wait("the terminal is told", |_| told().contains("hint: palisade guard explain"));
    assert!(told().contains("palisade: refused to execute"), "{}", told());
    bed.write(bed.at("heard"), "");
    session.wait().unwrap();
}

pub(crate) fn audit() {
    let bed = plain(&[]);
    // The kernel accepted the rule's number in the answer. Otherwise it would have rejected the answer, and the exec would hang.
    bed.run("timeout 10 ./refused").refused();
    assert_eq!(bed.metrics().unanswered, 0);
    let Response::Rules { rules } = bed.ask(&Request::Rules) else { panic!("no rules") };
    assert_eq!((rules[0].number, rules[0].hits), (1, 1), "{rules:?}");
    let known = Command::new("dmesg").output().unwrap().stdout;
    let known = String::from_utf8_lossy(&known);
    if known.contains("type=1331") {
        assert!(known.contains("fan_info=1") || known.contains("fan_info=0"), "{known}");
    } else {
        tell(
            "audit: the audit system records nothing here (no audit=1): that the answer is taken is all that shows",
        );
    }
}

pub(crate) fn missing_end_of_line() {
    let mut bed = Bed::new();
    for name in ["a", "b"] {
        bed.copy("/bin/true", bed.at(name));
    }
    bed.write(bed.config("trust.d/test"), bed.trust_line(&bed.at("a")).trim_end());
    bed.settings(&Settings::enforce());
    let toml = fs::read_to_string(bed.outside(bed.config("guard.toml"))).unwrap();
    bed.write(bed.config("guard.toml"), toml.trim_end());
    bed.rules("allow perm=any all : trust=1\ndeny_audit perm=any all : all");
    bed.start();
    assert_eq!(bed.status().rules, 2);
    bed.run("./a").ok();
    bed.run("./b").refused();
}

pub(crate) fn late_mount() {
    let mut bed = Bed::new();
    let late = bed.at("late");
    bed.copy("/bin/true", bed.at("refused"));
    fs::create_dir(bed.outside(&late)).unwrap();
    let settings = Settings { trust: "sources = []".into(), ..Settings::enforce() };
    bed.settings(&Settings {
        watch: format!("only = [\"{0}\", \"{1}\"]", bed.point.display(), late.display()),
        ..settings
    });
    bed.rules(&format!("deny_audit perm=execute all : dir={}/\ndeny_audit perm=any all : path=BED/refused\nallow perm=any all : all\n", late.display()));
    bed.start();
    assert_eq!(bed.status().watched.len(), 1);
    let late = late.display();
    bed.run(&format!("mount -t tmpfs late {late} && cp /bin/true {late}/a")).ok();
    bed.wait("it is watched", |bed| bed.status().watched.len() == 2);
    bed.run(&format!("{late}/a")).refused();
    // The guard doesn't keep the file system busy, and what is below its mount point stays watched.
    bed.run(&format!("umount {late}")).ok();
    bed.wait("it is forgotten", |bed| bed.status().watched.len() == 1);
    bed.run("./refused").refused();
    bed.run(&format!("mount -t tmpfs late {late} && cp /bin/true {late}/a")).ok();
    bed.wait("it is watched again", |bed| bed.status().watched.len() == 2);
    bed.run(&format!("{late}/a")).refused();
    // Another file system gets the device number of one that has just gone.
    let generations = |bed: &Bed| (bed.run(&format!("{late}/a")), bed.status().watched.len());
    bed.run(&format!("umount {late} && mount -t tmpfs late {late} && cp /bin/true {late}/a")).ok();
    bed.wait("it is watched at last", |bed| matches!(generations(bed), (run, 2) if !run.worked()));
    // A mount over it hides it, and doesn't end the watch.
    bed.run(&format!("mount -t tmpfs over {late} && cp /bin/true {late}/a")).ok();
    bed.wait("what is seen is watched", |bed| !bed.run(&format!("{late}/a")).worked());
    bed.run(&format!("umount {late}")).ok();
    bed.wait("what was hidden is watched", |bed| !bed.run(&format!("{late}/a")).worked());
    bed.run("./refused").refused();
}

pub(crate) fn overlay() {
    let mut bed = Bed::new();
    bed.run("mkdir lower upper work merged && cp /bin/true lower/a && cp /bin/true lower/b && mount -t overlay o -o lowerdir=lower,upperdir=upper,workdir=work merged").ok();
    let merged = bed.at("merged");
    let lines = ["a", "b"].map(|name| bed.trust_line(&merged.join(name)));
    bed.write(bed.config("trust.d/test"), lines.concat());
    let watch = format!("only = [\"{}\"]", merged.display());
    bed.settings(&Settings { watch, ..Settings::enforce().trust("integrity = \"sha256\"") });
    bed.start();
    bed.run("cp /bin/true merged/stranger").ok();
    for _ in 0..2 {
        bed.run_as_user("merged/a && merged/b").ok();
    }
    bed.run_as_user("merged/stranger").refused();
    // Changing the file copies it up.
    bed.run("printf x | dd of=merged/a bs=1 seek=20000 conv=notrunc 2>&1").ok();
    bed.run_as_user("merged/a").refused();
    bed.run_as_user("merged/b").ok();
}

pub(crate) fn interrupted() {
    // The process that asks may be interrupted while it waits, and so may the guard while it reads and answers.
    let bed = plain(&["--ask-always"]);
    let script = "import signal
caught = 0
def count(*_):
    global caught
    caught += 1
signal.signal(signal.SIGALRM, count)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for _ in range(3000):
    open('data').close()
signal.setitimer(signal.ITIMER_REAL, 0)
print(caught)";
    let pid = bed.pid().to_string();
    let mut signals = Command::new("timeout");
    signals.args(["5", "sh", "-c", "while kill -WINCH $0 2>/dev/null; do :; done", &pid]);
    let mut signals = signals.spawn().unwrap();
    let caught: u32 = bed.run(&format!("python3 -c \"{script}\"")).ok().trim().parse().unwrap();
    assert!(caught > 10, "{caught}");
    // A debugger that stops and continues every thread interrupts its calls.
    for _ in 0..20 {
        bed.signal("-STOP");
        bed.signal("-CONT");
        bed.run("./a").ok();
    }
    signals.kill().unwrap();
    signals.wait().unwrap();
    bed.run("./refused").refused();
}

pub(crate) fn state_that_can_not_be_written() {
    let mut bed = Bed::new();
    bed.copy("/bin/true", bed.at("a"));
    bed.trust("test", &[&bed.at("a")]);
    bed.settings(&Settings::enforce());
    bed.start();
    // The state is on a file system that is watched, and full.
    bed.stop();
    bed.run(&format!("mount -t tmpfs -o size=16k full '{}'", bed.state("").display())).ok();
    let watch = format!("only = [\"{}\", \"{}\"]", bed.point.display(), bed.base.join("state").display());
    bed.settings(&Settings { watch, ..Settings::enforce() });
    bed.start();
    bed.run("./a").ok();
    bed.run(&format!("dd if=/dev/zero of={} bs=1k count=64 2>&1; true", bed.state("fill").display())).ok();
    bed.copy("/bin/true", bed.at("b"));
    for name in ["x", "y"] {
        bed.trust(name, &[&bed.at("a")]);
        std::thread::sleep(Duration::from_millis(100));
    }
    bed.run("timeout 30 ./a").ok();
    bed.run(&format!("rm {}", bed.state("fill").display())).ok();
    bed.run("timeout 30 ./b").refused();
    bed.stop();
}

/// Many processes that execute and open files, until they are ended.
fn load(bed: &Bed, seconds: &str) -> Vec<Child> {
    let script = "cd \"$BED\"; while :; do ./a; ./refused 2> /dev/null; cat data > /dev/null; done";
    let start =
        |_| bed.command(0, seconds, &["/bin/sh", "-c", script]).stderr(Stdio::null()).spawn().unwrap();
    (0..6).map(start).collect()
}

fn end(children: Vec<Child>) {
    for mut child in children {
        let _gone = Command::new("kill").arg(child.id().to_string()).status();
        child.wait().unwrap();
    }
}

pub(crate) fn shutdown() {
    let mut bed = plain(&["--ask-always"]);
    let children = load(&bed, "30");
    std::thread::sleep(Duration::from_millis(300));
    // A process that waits while the guard doesn't read gets its answer when the guard ends.
    bed.signal("-STOP");
    let mut waiting =
        bed.command(0, "30", &["/bin/sh", "-c", "cat \"$BED/data\""]).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert!(waiting.try_wait().unwrap().is_none(), "nobody answers, and yet it goes on");
    let mut patience = Patience::new(Duration::from_secs(10));
    bed.signal("-TERM");
    bed.signal("-CONT");
    assert_eq!(bed.ended(), Some(0));
    assert!(waiting.wait().unwrap().success());
    let mut said = String::new();
    waiting.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "data\n");
    assert!(!patience.is_spent());
    end(children);
    bed.run("timeout 30 ./refused && timeout 30 cat data").ok();
}

pub(crate) fn process_numbers() {
    let mut bed = Bed::new();
    for name in ["a", "b"] {
        bed.copy("/bin/true", bed.at(name));
    }
    bed.options.push("--ask-always");
    bed.settings(&Settings { trust: "sources = []".into(), ..Settings::enforce() });
    // What the guard remembers of a process must not apply to the next process with the same number.
    bed.rules("allow perm=any gid=47110 : path=BED/a\nallow perm=any gid=0 : path=BED/b\ndeny_audit perm=any all : all\n");
    bed.start();
    let script = "cd \"$BED\"; i=0; while [ $i -lt 60 ]; do
./b || exit 1
setpriv --reuid 47110 --regid 47110 --clear-groups ./a || exit 2
setpriv --reuid 47110 --regid 47110 --clear-groups ./b 2> /dev/null && exit 3
./a 2> /dev/null && exit 4
i=$((i+1)); done";
    // The kernel can be told the next process number, in a namespace of its own: a dozen numbers, again and again.
    let words = ["unshare", "--pid", "--fork", "--mount-proc", "/bin/sh", "-c"];
    let wrapped = format!("echo 320 > /proc/sys/kernel/pid_max 2> /dev/null; {script}");
    let own = bed.command(0, "60", &words).arg(&wrapped).stderr(Stdio::piped()).output().unwrap();
    assert!(own.status.success(), "{own:?}\n{}", bed.log());
    assert_eq!(bed.metrics().unknown_subject, 0, "{:?}", bed.metrics());
}

pub(crate) fn pressure() {
    let bed = plain(&["--ask-always"]);
    let script = "import os
left, running, wrong = 10000, 0, 0
while left or running:
    while left and running < 400:
        name = b'./refused' if left % 10 == 0 else b'./a'
        pid = os.fork()
        if pid == 0:
            try: os.execv(name, [name])
            except PermissionError: os._exit(77)
            except BaseException: os._exit(78)
        left -= 1; running += 1
    _, status = os.wait()
    running -= 1
    code = os.waitstatus_to_exitcode(status)
    wrong += code not in (0, 77)
    refused = globals().get('refused', 0) + (code == 77)
print(wrong, refused)";
    let began = Instant::now();
    let said = bed.run(&format!("python3 -c \"{script}\"")).ok();
    assert_eq!(said.trim(), "0 1000", "{:?}", bed.metrics());
    let metrics = bed.metrics();
    assert_eq!((metrics.lost, metrics.stalls, metrics.unanswered), (0, 0, 0), "{metrics:?}");
    tell(&format!("pressure: 10,000 execs, 400 at once: {} ms", began.elapsed().as_millis()));
}

pub(crate) fn refused_starts() {
    let mut bed = plain(&[]);
    let start = |uid: u32, more: &[&str]| {
        let (config, state, socket) = (bed.config(""), bed.state(""), bed.base.join("socket"));
        let mut words = vec![env!("CARGO_BIN_EXE_palisaded"), "--config", config.to_str().unwrap()];
        words.extend(["--state", state.to_str().unwrap(), "--socket", socket.to_str().unwrap()]);
        words.extend(more);
        let output = bed.command(uid, "20", &words).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = start(0, &["--force"]);
    assert!(code == Some(1) && said.contains("another palisaded answers at"), "{said}");
    assert!(said.contains("hint: palisade guard status"), "{said}");
    let (code, said) = start(crate::support::ORDINARY, &[]);
    assert!(
        code == Some(1) && said.contains("only root can guard a host\nhint: sudo palisaded"),
        "{code:?} {said}"
    );
    bed.run("./refused").refused();
    bed.stop();
    let settings = Settings { trust: "sources = []".into(), ..Settings::enforce() };
    bed.settings(&Settings { guard: format!("{}\nbackend = \"bpf-lsm\"", settings.guard), ..settings });
    bed.launch();
    // This daemon decides by fanotify alone, whatever the kernel offers.
    assert_eq!(bed.ended(), Some(1));
    assert!(bed.log().contains("backend = \"bpf-lsm\""), "{}", bed.log());
}

pub(crate) fn killed() {
    let mut bed = plain(&["--ask-always"]);
    for _ in 0..3 {
        let children = load(&bed, "30");
        std::thread::sleep(Duration::from_millis(200));
        bed.signal("-KILL");
        let _code = bed.ended();
        // No process hangs, and the host continues without a guard.
        bed.run("timeout 30 ./refused && timeout 30 ./a && timeout 30 cat data").ok();
        end(children);
        bed.start();
        bed.run("./refused").refused();
        bed.run("./a").ok();
    }
}

pub(crate) fn killed_while_it_imports() {
    let mut bed = Bed::new();
    bed.copy("/bin/true", bed.at("a"));
    bed.copy("/bin/true", bed.at("stranger"));
    bed.trust("test", &[&bed.at("a")]);
    bed.settings(&Settings { trust: "sources = [\"dpkg\", \"files\"]".into(), ..Settings::enforce() });
    bed.write(bed.config("guard-filter.conf"), "+ /usr/bin/d*\n");
    bed.start();
    let trusted = bed.status().trusted;
    for pause in [5, 50, 300] {
        bed.ask(&Request::Trust { everything: true, files: false });
        std::thread::sleep(Duration::from_millis(pause));
        bed.signal("-KILL");
        let _code = bed.ended();
        bed.start();
        assert!(!bed.log().contains("nothing is trusted until"), "{}", bed.log());
        assert_eq!(bed.status().trusted, trusted);
        bed.run("./a").ok();
        bed.run("./stranger").refused();
    }
}
