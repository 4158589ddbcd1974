// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests faults around a guard, and that the host doesn't notice them.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::stopped::standby;
use crate::support::{Bed, ORDINARY, Settings, has};
use palisade_protocol::guard::{Request, Response};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The longest that a process of the host may wait for a guard in trouble, on an idle machine.
pub(crate) const WAIT: Duration = Duration::from_secs(2);

/// How long a guard takes at most to notice that its reading thread is blocked, and some more.
const UNREAD: Duration = Duration::from_millis(2500);

const ALLOW: &str = "allow perm=any all : all\n";

/// Enforces, and trusts nothing.
fn trusting_nothing() -> Settings {
    Settings { trust: "sources = []".into(), ..Settings::enforce() }
}

/// A bed with these settings and rules, if the machine can run a guard.
fn bed(settings: &Settings, rules: &str) -> Option<Bed> {
    has("fanotify").then(|| {
        let bed = Bed::new();
        bed.settings(settings);
        bed.rules(rules);
        bed
    })
}

/// A guard whose standard error is a full pipe that no process reads.
fn unheard() -> Option<(Bed, std::io::PipeReader)> {
    let mut bed =
        bed(&trusting_nothing(), "deny_log perm=any all : path=BED/secret\nallow perm=any all : all\n")?;
    bed.copy("/bin/cat", bed.at("cat"));
    bed.write(bed.at("secret"), "secret");
    bed.write(bed.at("plain"), "plain");
    let (reader, writer) = std::io::pipe().unwrap();
    bed.said = Some(Stdio::from(OwnedFd::from(writer)));
    bed.launch();
    bed.wait(
        "the guard begins",
        |bed| matches!(bed.try_ask(&Request::Status), Some(Response::Status(status)) if status.enforcing),
    );
    let denied = bed.run(
        "/usr/bin/python3 -c '\nfor _ in range(10000):\n    try: open(\"secret\")\n    except PermissionError: pass\n    else: raise SystemExit(1)'",
    );
    denied.ok();
    Some((bed, reader))
}

/// The time that `act` takes, scaled to an idle machine.
pub(crate) fn took(act: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    act();
    begun.elapsed().div_f64(palisade_acceptance::patience::crowd().max(1.0))
}

#[test]
fn nobody_waits_for_what_nobody_reads() {
    let Some((mut bed, mut reader)) = unheard() else { return };
    // Messages of threads other than those that log decisions.
    bed.write(bed.config("guard.toml"), "nonsense");
    for _ in 0..300 {
        bed.signal("-HUP");
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut strange = std::os::unix::net::UnixStream::connect(bed.outside(bed.socket())).unwrap();
    let _refused = strange.write_all(&[0xff; 64]);
    assert!(took(|| drop(bed.run("./cat plain").ok())) < WAIT);
    assert!(took(|| bed.run("./cat secret").refused()) < WAIT);
    assert!(took(|| drop(bed.status())) < WAIT);
    assert_ne!(bed.metrics().unlogged, 0);
    assert!(matches!(bed.ask(&Request::Stop), Response::Done { .. }));
    assert!(took(|| assert_eq!(bed.ended(), Some(0))) < WAIT);
    bed.run("./cat secret").ok();
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert!(said.contains("dec=deny_log"), "{said}");
}

/// Messages that any user can cause can't forge a line of the log, and can't flood the log.
#[test]
fn what_users_say_is_no_line_of_the_log() {
    let Some(mut bed) = bed(&trusting_nothing(), ALLOW) else { return };
    bed.start();
    let socket = bed.outside(bed.socket()).with_file_name("learn.sock");
    let begun = Instant::now();
    for _ in 0..500 {
        let mut connection = palisade_protocol::Connection::open(&socket, "test").unwrap();
        connection.send(&"x\nrule=1 dec=allow perm=open : path=/forged").unwrap();
        let _ended = connection.receive::<Response>();
    }
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap() + 2;
    bed.stop();
    let log = bed.log();
    let said = log.lines().filter(|line| line.contains("forged")).count();
    // Ten lines in a second, and a line with the number of the others.
    assert!((1..=10 * seconds).contains(&said), "{said} lines in {seconds} s");
    assert!(log.contains("more lines of that kind weren't logged") || seconds == 2, "{log}");
    assert!(!log.lines().any(|line| line.starts_with("rule=1")), "{log}");
}

/// A follower that got all decisions leaves no cost when it has ended.
#[test]
fn nobody_pays_for_who_followed_once() {
    let Some(mut bed) = bed(&trusting_nothing(), ALLOW) else { return };
    bed.write(bed.at("plain"), "plain");
    bed.start();
    let opens = |bed: &Bed| {
        let before = bed.metrics().questions;
        bed.run("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do : <plain; done").ok();
        bed.metrics().questions - before
    };
    let passed = |bed: &Bed| {
        opens(bed);
        opens(bed) < 5
    };
    bed.wait("the kernel answers by itself", passed);
    let mut follower = bed.talk();
    follower.send(&Request::Follow { all: true, past: false, end: false, refused: false }).unwrap();
    assert!(matches!(follower.receive().unwrap(), Response::Done { .. }));
    assert!(opens(&bed) >= 20, "each is asked about");
    drop(follower);
    bed.wait("the kernel answers by itself again", passed);
    bed.stop();
}

/// The guard examines a program for rules about it, and the server of the program's file system needn't answer.
#[test]
fn whose_program_is_served_holds_up_nobody() {
    const PROGRAM: &str = "#include <fcntl.h>\n#include <unistd.h>\nint main(int n, char **v) {\n\
        for (;;) { close(open(v[1], O_RDONLY)); usleep(20000); } }";
    if !["fanotify", "fuse", "gcc"].into_iter().all(has) {
        return;
    }
    let mut bed = Bed::new();
    bed.write(bed.at("plain"), "plain");
    bed.settings(&trusting_nothing());
    // Rules about the program's path, its file and the file's kind.
    bed.rules(
        "deny_log perm=open exe=/no/such/program : all\ndeny_log perm=any pattern=ld_so : all\n\
         deny_log perm=open ftype=text/x-lua : all\nallow perm=any all : all\n",
    );
    let [served, mirror] = ["served", "mirror"].map(|name| bed.base.join(name));
    for directory in [&served, &mirror] {
        std::fs::create_dir(directory).unwrap();
    }
    bed.start();
    let program = served.join("program (deleted)");
    std::fs::write(&program, crate::support::compile(PROGRAM, &["-static"])).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let names = [&served, &mirror].map(|directory| directory.to_str().unwrap().to_owned());
    // What is known of a file is cached only for a moment.
    let mut server = bed
        .command(0, "60", &["bindfs", "-f", "-o", "attr_timeout=0,entry_timeout=0", &names[0], &names[1]])
        .spawn()
        .unwrap();
    let runs = format!("{}/program (deleted)", names[1]);
    bed.wait("it is served", |bed| bed.run(&format!("[ -x '{runs}' ]")).worked());
    let plain = bed.at("plain").display().to_string();
    let mut users: Vec<_> = (0..6).map(|_| bed.command(0, "60", &[&runs, &plain]).spawn().unwrap()).collect();
    std::thread::sleep(Duration::from_millis(300));
    let bindfs = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.id())).unwrap();
    crate::stopped::signal("-STOP", bindfs.trim().parse().unwrap());
    // Without a defence, each thread would be blocked, one after the other.
    for _ in 0..12 {
        std::thread::sleep(Duration::from_millis(500));
        let took = took(|| drop(bed.run("cat plain").ok()));
        let crowd = palisade_acceptance::patience::crowd().max(1.0);
        assert!(took < WAIT.mul_f64(crowd), "{took:?}: {}", bed.log());
    }
    crate::stopped::signal("-CONT", bindfs.trim().parse().unwrap());
    for user in &mut users {
        let below = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", user.id())).unwrap();
        crate::stopped::signal("-KILL", below.trim().parse().unwrap());
        user.wait().unwrap();
    }
    crate::stopped::signal("-TERM", bindfs.trim().parse().unwrap());
    server.wait().unwrap();
    bed.stop();
}

/// A file system that a process serves: only the processes that wait for its server wait, and the file system isn't
/// reported as watched.
#[test]
fn who_serves_files_holds_up_nobody_else() {
    if !has("fanotify") || !has("fuse") {
        return;
    }
    let mut bed = Bed::new();
    bed.copy("/bin/cat", bed.at("cat"));
    bed.write(bed.at("plain"), "plain");
    bed.write(bed.at("served/file"), "served");
    bed.program(bed.at("tree/ran"), std::fs::read("/bin/true").unwrap());
    bed.run("mkdir mirror image && chmod 777 image && mksquashfs tree squash -quiet -no-progress >/dev/null")
        .ok();
    // Every user may use the device, as on most machines. fusermount needs an account.
    bed.run(
        "mknod fuse c 10 229 && chmod 666 fuse && mount --bind fuse /dev/fuse; cp /etc/passwd passwd; \
         echo somebody:x:47110:47110::/:/bin/sh >>passwd; mount --bind passwd /etc/passwd",
    )
    .ok();
    let point = bed.point.display().to_string();
    bed.settings(&Settings {
        trust: "sources = []".into(),
        // Leave this machine's other file systems out of the test.
        watch: format!("exclude = [{}]\n# only", others(&bed)),
        ..Settings::enforce()
    });
    bed.rules("deny_audit perm=execute all : path=BED/image/ran\nallow perm=any all : all\n");
    bed.start();
    assert!(bed.status().watched.contains(&point), "{:?}", bed.status());
    let [served, mirror] = ["served", "mirror"].map(|name| format!("{point}/{name}"));
    let mut server = bed.command(0, "60", &["bindfs", "-f", &served, &mirror]).spawn().unwrap();
    let [squash, image] = ["squash", "image"].map(|name| format!("{point}/{name}"));
    let mut user = bed.command(ORDINARY, "60", &["squashfuse", "-f", &squash, &image]).spawn().unwrap();
    for name in ["mirror", "image"] {
        let path = format!("{point}/{name}");
        bed.wait("it is listed", |bed| bed.status().unwatched.iter().any(|(at, _)| *at == path));
        let why = bed.status().unwatched.into_iter().find(|(at, _)| *at == path).unwrap().1;
        assert!(
            why.contains("a process that opens one waits") && !bed.status().watched.contains(&path),
            "{why}"
        );
    }
    bed.run("./cat mirror/file").ok();
    // A program on a file system that isn't watched runs. The status reports that the file system isn't watched.
    bed.run_as_user("image/ran").ok();
    let bindfs = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.id())).unwrap();
    bed.run(&format!("kill -STOP {bindfs}")).ok();
    let mut waiting =
        bed.command(0, "60", &[bed.at("cat").to_str().unwrap(), &format!("{point}/mirror/file")]);
    let mut waiting = waiting.stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(waiting.try_wait().unwrap().is_none(), "it waits for its server");
    for _ in 0..20 {
        assert!(took(|| drop(bed.run("./cat plain").ok())) < WAIT);
    }
    assert!(took(|| drop(bed.status())) < WAIT);
    bed.run(&format!("kill -CONT {bindfs}")).ok();
    assert!(waiting.wait().unwrap().success());
    bed.run("umount mirror; umount image").ok();
    assert!(server.wait().unwrap().success() && user.wait().unwrap().success());
    bed.stop();
}

/// A file that can't be opened for the guard, because the file's server ends, must not end the guard.
#[test]
fn what_cannot_be_opened_for_the_guard_ends_nothing() {
    if !has("fuse") {
        return;
    }
    let Some(mut bed) = bed(&trusting_nothing(), ALLOW) else { return };
    bed.copy("/bin/cat", bed.at("cat"));
    bed.write(bed.at("plain"), "plain");
    bed.write(bed.at("tree/file"), "served");
    bed.run("mkdir image && mksquashfs tree squash -quiet -no-progress >/dev/null").ok();
    let watch = format!("exclude = [{}]\nfilesystems = [\"tmpfs\", \"fuse\"]\n# only", others(&bed));
    bed.settings(&Settings { watch, ..trusting_nothing() });
    bed.start();
    let [squash, image] = ["squash", "image"].map(|name| bed.at(name).display().to_string());
    let mut server = bed.command(0, "60", &["squashfuse", "-f", &squash, &image]).spawn().unwrap();
    bed.wait("it is watched, for it is named", |bed| bed.status().watched.contains(&image));
    let squashfuse = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.id())).unwrap();
    // Now the name is cached, and only the open needs the server.
    bed.run("./cat image/file").ok();
    bed.run(&format!("kill -STOP {squashfuse}")).ok();
    let mut waiting = bed.command(0, "60", &[&bed.at("cat").display().to_string(), &format!("{image}/file")]);
    let mut waiting = waiting.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(waiting.try_wait().unwrap().is_none(), "it waits for its server, and so does the guard");
    // Nothing in the bed can be opened now, until the guard notices that questions lie unread.
    assert!(took(|| drop(bed.run("./cat plain").ok())) < UNREAD);
    bed.wait("it is said", |bed| bed.log().contains("another thread continues"));
    for _ in 0..20 {
        assert!(took(|| drop(bed.run("./cat plain").ok())) < WAIT);
    }
    assert!(waiting.try_wait().unwrap().is_none());
    assert!(Command::new("kill").args(["-KILL", squashfuse.trim()]).status().unwrap().success());
    server.wait().unwrap();
    assert!(!waiting.wait().unwrap().success());
    for _ in 0..5 {
        assert!(took(|| drop(bed.run("./cat plain").ok())) < WAIT);
    }
    assert_ne!(bed.metrics().lost, 0);
    bed.run("umount image").ok();
    bed.stop();
}

/// Every mount point of the bed other than its own, as the settings name them.
fn others(bed: &Bed) -> String {
    let text = std::fs::read_to_string(bed.outside("/proc/self/mountinfo")).unwrap_or_default();
    let points = text.lines().filter_map(|line| line.split(' ').nth(4));
    let points = points.filter(|point| Path::new(point) != bed.point).map(|point| format!("{point:?}"));
    points.collect::<Vec<_>>().join(", ")
}

/// The most memory that the guard has had, in MiB.
fn peak(bed: &Bed) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", bed.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// A list of a million files takes little memory, and no exec waits until it is read.
#[test]
fn a_long_list_of_trusted_files_holds_up_nobody() {
    const LINES: usize = 300_000;
    let rules =
        "allow perm=any all : trust=1\ndeny_audit perm=execute all : dir=BED\nallow perm=any all : all\n";
    let Some(mut bed) = bed(&Settings::enforce(), rules) else { return };
    let (known, strange) = (bed.copy("/bin/true", bed.at("known")), bed.copy("/bin/true", bed.at("strange")));
    bed.trust("10-known", &[&known]);
    bed.start();
    let before = peak(&bed);
    let sum = "61a9960bf7d255a85811f4afcac51067b8f2e4c75e21cf4f2af95319d4ed1b87";
    let mut longest = Duration::ZERO;
    // The number of lines that the environment asks for, for a measurement.
    let many = std::env::var("PALISADE_TRUST_LINES").map_or(LINES, |text| text.parse().unwrap());
    for lines in [many, many + 1, 10] {
        let text: String =
            (0..lines).map(|number| format!("/usr/lib/of/nobody/{number:09} {number} {sum}\n")).collect();
        bed.write(bed.config("trust.d/50-many"), text);
        assert!(matches!(bed.ask(&Request::Trust { everything: false, files: true }), Response::Done { .. }));
        let mut patience = palisade_acceptance::patience::Patience::new(Duration::from_secs(60));
        while bed.status().trusted != lines as u64 + 1 {
            assert!(!patience.is_spent(), "{lines}: {:?}", bed.status());
            longest = longest.max(took(|| bed.run("./strange").refused()));
        }
        bed.run("./known").ok();
        bed.run("./strange").refused();
    }
    let more = peak(&bed) - before;
    assert!(longest < WAIT, "{longest:?}");
    // A million lines take as much per line; the rest belongs to the allocator.
    assert!(more < 100.max(many as u64 / 5000), "{more} MiB for {many} lines");
    crate::support::lines::tell(&format!(
        "{many} lines: {more} MiB more, {} in all, longest wait {longest:?}",
        peak(&bed)
    ));
    drop(strange);
    bed.stop();
}

/// How often threads of the guard have gone to sleep.
fn pauses(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_one = |task: std::fs::DirEntry| -> u64 {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    tasks.flatten().map(of_one).sum()
}

/// A guard that gets no questions wakes the processor once in ten seconds, and its standby once in a second.
///
/// `PALISADE_SOAK_SECONDS` sets how long to count, up to a minute; `./x test soak` uses that.
#[test]
fn nothing_to_do_is_nothing_done() {
    let seconds =
        std::env::var("PALISADE_SOAK_SECONDS").map_or(20, |text| text.parse().unwrap()).clamp(20, 60);
    let Some(mut bed) = bed(&Settings::enforce(), ALLOW) else { return };
    bed.start();
    std::thread::sleep(Duration::from_secs(1));
    let both = [bed.pid(), standby(&bed).unwrap()];
    let before = both.map(pauses);
    std::thread::sleep(Duration::from_secs(seconds));
    let woken: u64 = both.map(pauses).iter().zip(before).map(|(now, before)| now - before).sum();
    crate::support::lines::tell(&format!("{woken} wake-ups in {seconds} s"));
    assert!((1..=seconds).contains(&woken), "{woken} in {seconds} s");
    bed.stop();
}

/// An alarm ends when its reason is gone.
#[test]
fn an_alarm_ends_with_its_reason() {
    // Rules that would stop the host: enforcing doesn't begin.
    let Some(mut bed) = bed(&Settings::enforce(), "deny perm=any all : all\n") else { return };
    bed.options.clear();
    let known = bed.copy("/bin/true", bed.at("known"));
    bed.trust("10-known", &[&known]);
    bed.launch();
    let alarms = |bed: &Bed| bed.status().alarms;
    bed.wait("it says why it doesn't enforce", |bed| {
        matches!(bed.try_ask(&Request::Status), Some(Response::Status(status))
            if status.alarms.iter().any(|alarm| alarm.contains("is only reported")))
    });
    assert!(!bed.status().enforcing);
    bed.write(bed.config("guard.d/60-more.rules"), "nonsense\n");
    bed.signal("-HUP");
    bed.wait("it says what is wrong", |bed| alarms(bed).iter().any(|alarm| alarm.contains("60-more.rules")));
    std::fs::remove_file(bed.outside(bed.config("guard.d/60-more.rules"))).unwrap();
    bed.rules("allow perm=any all : trust=1\nallow perm=any all : all\n");
    bed.signal("-HUP");
    bed.wait("it enforces, and nothing is wrong", |bed| bed.status().enforcing && alarms(bed).is_empty());
    bed.wait("it says so", |bed| {
        bed.log().contains("palisaded: alarm ended: the reloaded settings are not in force")
    });
    bed.stop();
}

/// A file that any user can make huge must not delay others by its hash.
#[test]
fn huge_files_are_not_hashed_for_a_rule() {
    let sum = crate::support::sha256(&std::fs::read("/bin/true").unwrap());
    let rules =
        format!("allow perm=execute all : filehash={sum}\ndeny_audit perm=execute all : dir=BED\n{ALLOW}");
    let Some(mut bed) = bed(&trusting_nothing(), &rules) else { return };
    let known = bed.copy("/bin/true", bed.at("known"));
    bed.write(bed.at("plain"), "plain");
    bed.start();
    let huge: Vec<String> = (0..6).map(|number| format!("{}/huge-{number}", bed.point.display())).collect();
    for path in &huge {
        // The file has holes, except for the beginning of a program.
        bed.run(&format!("head -c 4096 /bin/true >{path}; truncate -s 2T {path}; chmod 755 {path}")).ok();
    }
    let mut tries: Vec<_> = huge
        .iter()
        .map(|path| bed.command(ORDINARY, "60", &[path]).stderr(Stdio::null()).spawn().unwrap())
        .collect();
    for _ in 0..10 {
        assert!(took(|| drop(bed.run("cat plain").ok())) < WAIT);
    }
    for one in &mut tries {
        assert_eq!(one.wait().unwrap().code(), Some(126), "it can't be executed");
    }
    assert!(took(|| drop(bed.run("./known").ok())) < WAIT, "{}", known.display());
    bed.stop();
}

/// A user's large files are read one after another, and only that user waits.
#[test]
fn a_users_large_files_hold_up_that_user_alone() {
    let mut large = std::fs::read("/bin/true").unwrap();
    large.resize(1 << 20, 0);
    let sum = crate::support::sha256(&large);
    let rules =
        format!("allow perm=execute all : filehash={sum}\ndeny_audit perm=execute all : dir=BED\n{ALLOW}");
    let Some(mut bed) = bed(&trusting_nothing(), &rules) else { return };
    for name in ["one", "two", "three"] {
        bed.program(bed.at(name), &large);
    }
    bed.write(bed.at("plain"), "plain");
    bed.start();
    let users: Vec<String> =
        (0..24).map(|number| format!("{}/users-{number}", bed.point.display())).collect();
    for path in &users {
        bed.run(&format!("head -c 4096 /bin/true >{path}; truncate -s 300M {path}; chmod 755 {path}")).ok();
    }
    let mut tries: Vec<_> = users
        .iter()
        .map(|path| bed.command(ORDINARY, "240", &[path]).stderr(Stdio::null()).spawn().unwrap())
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    for name in ["one", "two", "three"] {
        assert!(took(|| drop(bed.run("cat plain").ok())) < WAIT);
        // This file has to be read, too.
        assert!(took(|| drop(bed.run(&format!("./{name}")).ok())) < WAIT);
    }
    assert!(tries.last_mut().unwrap().try_wait().unwrap().is_none(), "the user still waits");
    for one in &mut tries {
        assert_eq!(one.wait().unwrap().code(), Some(126), "it can't be executed");
    }
    bed.stop();
}
