// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The mounts that a process can reach, from its `mountinfo`.

/// A line of `mountinfo`.
#[derive(Debug)]
struct Mount<'a> {
    number: &'a str,
    parent: &'a str,
    point: &'a str,
    /// What is mounted and how.
    what: String,
}

impl<'a> Mount<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut words = line.split(' ');
        let (number, parent, _device) = (words.next()?, words.next()?, words.next()?);
        let (root, point) = (words.next()?, words.next()?);
        let rest: Vec<String> = words.map(without_group).collect();
        Some(Self { number, parent, point, what: format!("{} {}", unnamed(root), rest.join(" ")) })
    }
}

/// The number of a peer group means nothing.
fn without_group(word: &str) -> String {
    match word.split_once(':') {
        Some((kind @ ("shared" | "master" | "propagate_from"), _number)) => format!("{kind}:N"),
        _ => word.to_owned(),
    }
}

/// The file of `--bind-data` has a random name.
pub(super) fn unnamed(path: &str) -> String {
    let Some((before, name)) = path.split_once("bindfile") else { return path.to_owned() };
    let random = name.bytes().take_while(u8::is_ascii_alphanumeric).count().min(6);
    format!("{before}bindfile{}", name.get(random..).unwrap_or_default())
}

/// Where each reachable mount is, and what it is, in order.
pub(super) fn reachable(lines: &[&str]) -> Vec<(String, String)> {
    let mounts: Vec<Mount<'_>> = lines.iter().filter_map(|line| Mount::read(line)).collect();
    let is_first = |mount: &&Mount<'_>| {
        mount.point == "/" && !mounts.iter().any(|other| other.number == mount.parent && other.point == "/")
    };
    let mut found = Vec::new();
    if let Some(first) = mounts.iter().find(is_first) {
        reach(first, &mounts, &mut found);
    }
    found.sort();
    found
}

/// The mount on top of this one at its place, and what can be reached from there.
fn reach(lowest: &Mount<'_>, mounts: &[Mount<'_>], found: &mut Vec<(String, String)>) {
    let mut mount = lowest;
    let on_top = |below: &Mount<'_>| {
        mounts.iter().find(|other| {
            other.parent == below.number && other.number != below.number && other.point == below.point
        })
    };
    while let Some(other) = on_top(mount) {
        mount = other;
    }
    found.push((mount.point.to_owned(), mount.what.clone()));
    let children: Vec<&Mount<'_>> =
        mounts.iter().filter(|other| other.parent == mount.number && other.number != mount.number).collect();
    let is_below =
        |path: &str, directory: &str| path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
    for child in &children {
        if !children.iter().any(|other| is_below(child.point, other.point)) {
            reach(child, mounts, found);
        }
    }
}

#[test]
fn covered_mounts_are_left_out() {
    let lines = [
        "20 1 0:1 /newroot / rw - tmpfs tmpfs rw",
        "21 20 0:2 / /a ro master:7 - ext4 x rw",
        "22 21 0:3 / /a/b rw - tmpfs covered rw",
        "23 21 0:4 /bindfileAb3dEf//deleted /a rw - tmpfs tmpfs rw",
        "24 20 0:5 / /c/d rw - tmpfs covered rw",
        "25 20 0:6 / /c rw - tmpfs t rw",
        "26 25 0:7 / /c/d rw shared:3 - tmpfs seen rw",
    ];
    let found = reachable(&lines);
    let expected = [
        ("/", "/newroot rw - tmpfs tmpfs rw"),
        ("/a", "/bindfile//deleted rw - tmpfs tmpfs rw"),
        ("/c", "/ rw - tmpfs t rw"),
        ("/c/d", "/ rw shared:N - tmpfs seen rw"),
    ];
    assert_eq!(found, expected.map(|(point, what)| (point.to_owned(), what.to_owned())));
}
