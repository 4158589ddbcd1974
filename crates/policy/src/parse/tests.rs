// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::value::NetworkMode;

fn problems(body: &str, layer: Layer) -> String {
    let text = format!("schema = 1\n{body}");
    parse(&text, Some(Path::new("/p.toml")), layer)
        .unwrap_err()
        .iter()
        .map(|error| error.render(false))
        .collect::<Vec<_>>()
        .join("\n\n")
}

#[test]
fn every_value_knows_its_place() {
    let text =
        "schema = 1\n[filesystem]\nread = [\"~/a\",\n  \"/b=/c\"]\n[locked.network]\nmode = \"none\"\n";
    let policy = parse(text, Some(Path::new("/etc/p.toml")), Layer::Administrator).unwrap();
    let [a, b] = policy.settings.paths.as_slice() else {
        panic!("{policy:?}");
    };
    assert_eq!((a.origin.line, a.origin.column), (3, 9));
    assert_eq!((b.origin.line, b.origin.column), (4, 3));
    assert_eq!(b.origin.to_string(), "/etc/p.toml:4");
    assert_eq!(b.destination.as_ref().unwrap().to_string(), "/c");
    let network = &policy.settings.network[0];
    assert_eq!(network.strength, Strength::Locked);
    assert_eq!(network.value, NetworkMode::None);
}

#[test]
fn a_misspelt_key_is_named_with_the_right_one() {
    insta::assert_snapshot!(problems("[filesystem]\nraed = [\"/a\"]\n", Layer::User), @r#"
    error: unknown key `raed` in `[filesystem]`
     --> /p.toml:3:1
      |
    3 | raed = ["/a"]
      | ^^^^ not a key here
      |
      = hint: did you mean `read`?
    "#);
    insta::assert_snapshot!(problems("zzz = 1\n", Layer::User), @r"
    error: unknown key `zzz`
     --> /p.toml:2:1
      |
    2 | zzz = 1
      | ^^^ not a key here
      |
      = hint: known keys: `schema`, `name`, `description`, `caveat`, `inherits`, `features`, `without`, `configurations`, `launch`, `agent`, `filesystem`, `program`, `closure`, `devices`, `home`, `files`, `dbus`, `hooks`, `behaviour`, `network`, `syscalls`, `process`, `terminal`, `environment`, `limits`, `default`, `locked`
    ");
}

#[test]
fn a_user_can_not_lock() {
    insta::assert_snapshot!(problems("[locked.network]\nmode = \"none\"\n", Layer::User), @r"
    error: a user policy can't lock anything
     --> /p.toml:2:2
      |
    2 | [locked.network]
      |  ^^^^^^ locked here
      |
      = hint: only files of the distribution and the administrator can lock; remove `locked.`
    ");
}

#[test]
fn several_mistakes_are_reported_at_once_and_in_order() {
    let text = problems(
        "[limits]\nmemory = \"5MB\"\n[process]\nuid = -1\n[network]\nmode = \"hots\"\n",
        Layer::User,
    );
    insta::assert_snapshot!(text, @r#"
    error: `MB` is no unit of size
     --> /p.toml:3:10
      |
    3 | memory = "5MB"
      |          ^^^^^ this amount
      |
      = hint: sizes are bytes, or "64K", "512M", "2G", "1T" (powers of 1024)

    error: `process.uid` is a number from 0 to 4294967294
     --> /p.toml:5:7
      |
    5 | uid = -1
      |       ^^ this amount

    error: `network.mode` can't be "hots"
     --> /p.toml:7:8
      |
    7 | mode = "hots"
      |        ^^^^^^ not a possible value
      |
      = hint: did you mean `host`?
    "#);
}

#[test]
fn a_path_that_can_not_be_meant_is_shown() {
    insta::assert_snapshot!(problems("[filesystem]\nwrite = [\"$HOME/x\"]\n", Layer::User), @r#"
    error: `$HOME` is not expanded in a path
     --> /p.toml:3:10
      |
    3 | write = ["$HOME/x"]
      |          ^^^^^^^^^ this path
      |
      = hint: write `${home}`
    "#);
}

#[test]
fn a_file_without_schema_or_with_another_is_refused() {
    let error = |text: &str| parse(text, None, Layer::User).unwrap_err().remove(0);
    assert_eq!(error("").problem, Problem::MissingSchema);
    assert_eq!(error("schema = 2").problem, Problem::UnsupportedSchema { found: 2 });
    assert_eq!(error("schema = 1\nx = [").to_string().lines().count(), 1);
    assert!(matches!(error("schema = "), ParseError { problem: Problem::Syntax { .. }, .. }));
}

#[test]
fn a_file_can_not_drive_the_terminal() {
    let text = "schema = 1\n\"\\u001b[31mx\" = 1\n[network]\nmode = \"\\u001b]0;x\\u0007\"\n";
    for error in parse(text, None, Layer::Project).unwrap_err() {
        for shown in [error.to_string(), error.render(false)] {
            assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
        }
    }
}

#[test]
fn what_is_too_large_is_not_looked_at() {
    let error = &parse(&"x".repeat(LARGEST_FILE + 1), None, Layer::User).unwrap_err()[0];
    assert!(matches!(error.problem, Problem::TooLarge { .. }));
    let many = format!("schema = 1\n[filesystem]\nread = [{}]", "\"/a\",".repeat(MOST_ENTRIES + 9));
    let errors = parse(&many, None, Layer::User).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].problem, Problem::TooManyEntries);
}

#[test]
fn many_errors_in_one_long_line_take_no_time() {
    let many = format!("schema = 1\nfilesystem.read = [{}]", "1,".repeat(MOST_ENTRIES));
    let errors = parse(&many, None, Layer::User).unwrap_err();
    assert_eq!(errors.len(), 64);
    assert!(errors[63].render(false).len() < 2000);
}

#[test]
fn names_and_the_list_of_paths_are_told_apart() {
    let text =
        "[filesystem]\nprotect = [\"./x\"]\nprotect_names = [\"~/.ssh\", \"**\"]\nallow_names = [\"./a\"]\n";
    insta::assert_snapshot!(problems(text, Layer::User), @r#"
    error: `filesystem.protect` takes a word; the list of paths is `protect_paths`
     --> /p.toml:3:11
      |
    3 | protect = ["./x"]
      |           ^^^^^^^ wrong type
      |
      = hint: write `protect_paths = […]`

    error: a protected name applies at any depth, so it can't begin with `/`, `~` or a variable
     --> /p.toml:4:18
      |
    4 | protect_names = ["~/.ssh", "**"]
      |                  ^^^^^^^^ this name
      |
      = hint: for one place use `protect_paths`

    error: "**" would protect every name
     --> /p.toml:4:28
      |
    4 | protect_names = ["~/.ssh", "**"]
      |                            ^^^^ this name
      |
      = hint: to protect everything in a directory, remove the directory from `write`

    error: `.` can't be a part of a protected name
     --> /p.toml:5:16
      |
    5 | allow_names = ["./a"]
      |                ^^^^^ this name
      |
      = hint: write `.git/hooks`, without `./` in front
    "#);
    let text = "schema = 1\n[filesystem]\nprotect = \"mounts\"\nprotect_names = [\n \"a/\"]\nallow_names = [\"b\"]\n";
    let settings = parse(text, Some(Path::new("/p.toml")), Layer::User).unwrap().settings;
    assert_eq!(settings.protect[0].value, Protect::Mounts);
    let names: Vec<_> =
        settings.names.iter().map(|n| (n.value.name.as_str(), n.value.protect, n.origin.line)).collect();
    assert_eq!(names, [("a", true, 5), ("b", false, 6)]);
    insta::assert_snapshot!(problems("filesystem.protect = \"brokr\"\n", Layer::User), @r#"
    error: `filesystem.protect` can't be "brokr"
     --> /p.toml:2:22
      |
    2 | filesystem.protect = "brokr"
      |                      ^^^^^^^ not a possible value
      |
      = hint: did you mean `broker`?
    "#);
}
