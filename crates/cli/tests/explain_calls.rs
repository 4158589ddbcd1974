// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that calls inside have the results that `palisade explain --syscall` states.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use crate::support::{Place, everybody, job};
use serde_json::Value;

/// A call with arguments with which it does no harm. Pointers are 0, but for those that `PREPARED` makes.
type Tried = (&'static str, [&'static str; 6]);

const CALLS: [Tried; 34] = [
    ("openat2", ["-100", "path", "how", "24", "0", "0"]),
    ("openat", ["-100", "path", "0", "0", "0", "0"]),
    ("mq_open", ["queue", "0x42", "0x180", "0", "0", "0"]),
    ("socket", ["1", "1", "0", "0", "0", "0"]),
    ("socket", ["1", "2", "0", "0", "0", "0"]),
    ("socket", ["1", "0x80803", "0", "0", "0", "0"]),
    ("socket", ["2", "1", "0", "0", "0", "0"]),
    ("socket", ["17", "3", "0", "0", "0", "0"]),
    ("socket", ["40", "1", "0", "0", "0", "0"]),
    ("socketpair", ["1", "1", "0", "pair", "0", "0"]),
    ("socketpair", ["1", "2", "0", "pair", "0", "0"]),
    ("socketpair", ["2", "1", "0", "pair", "0", "0"]),
    ("ptrace", ["0x4206", "0", "0", "0", "0", "0"]),
    ("mount", ["path", "path", "0", "0x1000", "0", "0"]),
    ("kcmp", ["me", "me", "0", "0", "0", "0"]),
    ("unshare", ["0x10000000", "0", "0", "0", "0", "0"]),
    ("unshare", ["0x200", "0", "0", "0", "0", "0"]),
    ("personality", ["0xffffffff", "0", "0", "0", "0", "0"]),
    ("personality", ["0x40000", "0", "0", "0", "0", "0"]),
    ("setuid", ["own", "0", "0", "0", "0", "0"]),
    ("setuid", ["other", "0", "0", "0", "0", "0"]),
    ("setreuid", ["0xffffffff", "own", "0", "0", "0", "0"]),
    ("setreuid", ["0xffffffff", "other", "0", "0", "0", "0"]),
    ("setresuid", ["own", "own", "own", "0", "0", "0"]),
    ("setresuid", ["own", "own", "other", "0", "0", "0"]),
    ("setgid", ["other", "0", "0", "0", "0", "0"]),
    ("setgid", ["group", "0", "0", "0", "0", "0"]),
    ("setresgid", ["other", "0xffffffff", "0xffffffff", "0", "0", "0"]),
    ("setgroups", ["0", "0", "0", "0", "0", "0"]),
    ("sethostname", ["path", "1", "0", "0", "0", "0"]),
    ("memfd_create", ["path", "0", "0", "0", "0", "0"]),
    ("getpriority", ["0", "0", "0", "0", "0", "0"]),
    ("keyctl", ["0", "0xffffffff", "0", "0", "0", "0"]),
    ("umask", ["0o22", "0", "0", "0", "0", "0"]),
];

const PREPARED: &str = "\
import ctypes, os, struct, sys
l = ctypes.CDLL(None, use_errno=True)
made = dict(path=ctypes.create_string_buffer(b'/etc/passwd'), how=ctypes.create_string_buffer(24),
            pair=ctypes.create_string_buffer(8), queue=ctypes.create_string_buffer(b'explained'))
own, group, other, me = os.getuid(), os.getgid(), 54321, os.getpid()
for line in sys.argv[1].split(';'):
    number, *words = line.split()
    values = [globals()[w] if w in ('own', 'group', 'other', 'me')
              else made[w] if w in made else int(w, 0) for w in words]
    ctypes.set_errno(0)
    result = l.syscall(int(number), *[v if w in made else ctypes.c_uint64(v & (1 << 64) - 1) for w, v in zip(words, values)])
    print(0 if result != -1 else ctypes.get_errno())
";

fn number(word: &str) -> Option<u64> {
    if let Some(digits) = word.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    if let Some(digits) = word.strip_prefix("0o") {
        return u64::from_str_radix(digits, 8).ok();
    }
    word.parse::<i64>().ok().map(i64::cast_unsigned)
}

/// Whether a condition as it is printed holds: `arg1 in NAME=0x5412,3 and arg0 not in 1`.
fn holds(when: &str, arguments: &[u64; 6]) -> bool {
    when.is_empty()
        || when.split(" and ").all(|test| {
            let words: Vec<&str> = test.split_whitespace().collect();
            let (argument, wide) = match words[0].strip_prefix("arg").unwrap().split_once(':') {
                Some((index, "64")) => (index, true),
                _ => (&words[0][3..], false),
            };
            let value = arguments[argument.parse::<usize>().unwrap()];
            let value = if wide { value } else { value & 0xffff_ffff };
            let listed = |list: &str| -> Vec<u64> {
                list.split(',').map(|one| number(one.rsplit('=').next().unwrap()).unwrap()).collect()
            };
            match words[1] {
                "in" => listed(words[2]).contains(&value),
                "not" => !listed(words[3]).contains(&value),
                "has" => listed(words[2])[0] & value != 0,
                other => panic!("{other} in {when}"),
            }
        })
}

/// The error that the explanation predicts; `None`: the call is made, or the broker decides.
fn foretold(explained: &Value, arguments: &[u64; 6]) -> Option<u64> {
    let filter = explained["filter"].as_array().unwrap();
    let fits = filter.iter().find(|rule| holds(rule["when"].as_str().unwrap(), arguments)).unwrap();
    if let Some(errno) = fits["errno"].as_u64() {
        return Some(errno);
    }
    explained["walls"].as_array().unwrap().iter().find_map(|wall| wall["errno"].as_u64())
}

fn compare(place: &Place, body: &str) {
    let text = format!("schema = 1\nname = \"told\"\n{body}\n");
    place.write(".config/palisade/profiles/told.toml", text);
    let ids = place.outside("id -u; id -g");
    let mut ids = ids.lines().map(|id| id.parse::<u64>().unwrap());
    let (own, group) = (ids.next().unwrap(), ids.next().unwrap());
    let value = |word: &str| match word {
        "own" => own,
        "group" => group,
        "other" => 54321,
        "me" => 1,
        word => number(word).unwrap_or(0x7fff_0000_0000),
    };
    let numbered = |name: &str| {
        let call: palisade_syscall::Syscall = name.parse().unwrap();
        call.number(palisade_syscall::Arch::NATIVE).unwrap()
    };
    let lines: Vec<String> =
        CALLS.iter().map(|(name, words)| format!("{} {}", numbered(name), words.join(" "))).collect();
    let mut command = place.command(place.binary());
    command.args(["run", "--profile", "told", "--", "python3", "-c", PREPARED, &lines.join(";")]);
    let run = job::finish(&mut command);
    let found: Vec<u64> = run.ok().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(found.len(), CALLS.len(), "{run:?}");
    for ((name, words), found) in CALLS.iter().zip(found) {
        let mut command = place.command(place.binary());
        let told = job::finish(command.args(["explain", "--json", "--profile", "told", "--syscall", name]));
        let explained: Value = serde_json::from_str(&told.out).unwrap();
        let foretold = foretold(&explained, &words.map(value));
        // A call that no wall of Palisade refuses succeeds with these arguments.
        assert_eq!(found, foretold.unwrap_or(0), "{body:?}: {name} {words:?}: {explained}");
        let allowed = explained["allowed"].as_bool().unwrap();
        assert_eq!(told.code, i32::from(!allowed), "{name}: {told:?}");
        assert!(allowed || found != 0, "{name} {words:?}: {explained}");
    }
}

#[test]
fn what_is_said_of_a_call_happens() {
    for place in everybody() {
        compare(&place, "");
        compare(&place, "[filesystem]\nprotect = \"mounts\"");
        compare(
            &place,
            "[syscalls]\ndeny = [\"memfd_create\"]\nanswers = [\n\
             { call = \"getpriority\", action = \"deny\", errno = \"ENOTTY\" },\n\
             { call = \"personality\", when = \"arg0 in 0x40000\", action = \"deny\", errno = \"EXDEV\" },\n\
             { call = \"setuid\", action = \"deny\", errno = \"ENOENT\" },\n]",
        );
        compare(&place, "[syscalls]\nallow = [\"mount\", \"kcmp\"]\n[filesystem]\nprotect = \"mounts\"");
    }
}
