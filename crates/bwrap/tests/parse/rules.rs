// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each option asks for.

use palisade_bwrap::arguments::{Identity, Stop, check, parse};
use palisade_bwrap::request::{
    Access, Changes, Descriptors, EnvironmentChange, Namespaces, Origin, Request, Setup,
};

use crate::differential::split;
use crate::host::{Fake, arguments, failure, request};

const ROOT: Identity = Identity { uid: 0, gid: 0, capabilities: 0b1111 };
const USER: Identity = Identity { uid: 1000, gid: 100, capabilities: 0 };

fn by(identity: Identity, list: &str) -> Request {
    let mut host = Fake { identity, ..Fake::default() };
    parse(&split(list), &mut host).unwrap_or_else(|stop| panic!("{list}: {stop:?}"))
}

fn steps(list: &str) -> Vec<Setup> {
    by(ROOT, list).setup
}

fn step(list: &str) -> Setup {
    let steps = steps(list);
    assert_eq!(steps.len(), 1, "{list}");
    steps.into_iter().next().unwrap()
}

fn text(text: &str) -> std::ffi::CString {
    std::ffi::CString::new(text).unwrap()
}

#[test]
fn binds_differ_in_access_and_in_what_may_be_missing() {
    for (option, access, optional) in [
        ("--bind", Access::Write, false),
        ("--bind-try", Access::Write, true),
        ("--ro-bind", Access::Read, false),
        ("--ro-bind-try", Access::Read, true),
        ("--dev-bind", Access::Devices, false),
        ("--dev-bind-try", Access::Devices, true),
    ] {
        let bind = Setup::Bind { source: Origin::Path(text("a")), dest: text("b"), access, optional };
        assert_eq!(step(&format!("{option} a b c")), bind);
    }
    for (option, access) in [("--bind-fd", Access::Write), ("--ro-bind-fd", Access::Read)] {
        let bind = Setup::Bind { source: Origin::Descriptor(7), dest: text("b"), access, optional: false };
        assert_eq!(step(&format!("{option} 7 b")), bind);
    }
}

#[test]
fn an_overlay_has_its_last_layer_on_top() {
    let layers = |names: &[&str]| names.iter().map(|name| text(name)).collect::<Vec<_>>();
    assert_eq!(
        steps("--overlay-src a --overlay-src b --overlay u w d --overlay-src c --tmp-overlay e"),
        [
            Setup::Overlay {
                changes: Changes::Kept { upper: text("u"), work: text("w") },
                layers: layers(&["b", "a"]),
                dest: text("d"),
            },
            Setup::Overlay { changes: Changes::Temporary, layers: layers(&["c"]), dest: text("e") },
        ]
    );
    assert_eq!(
        step("--overlay-src a --overlay-src b --ro-overlay d"),
        Setup::Overlay { changes: Changes::None, layers: layers(&["b", "a"]), dest: text("d") }
    );
}

#[test]
fn layers_may_be_outside_the_data_that_has_the_overlay() {
    let mut host = Fake::with(3, b"--overlay-src\0b\0--tmp-overlay\0d");
    let request = parse(&arguments(&["--overlay-src", "a", "--args", "3"]), &mut host).unwrap();
    let layers = vec![text("b"), text("a")];
    assert_eq!(request.setup, [Setup::Overlay { changes: Changes::Temporary, layers, dest: text("d") }]);
}

#[test]
fn permissions_have_defaults_and_are_taken_once() {
    let d = || text("d");
    assert_eq!(
        steps(
            "--perms 700 --tmpfs d --tmpfs d --perms 1 --dir d --dir d --perms 2 --file 5 d --file 5 d \
             --perms 3 --bind-data 5 d --bind-data 5 d --perms 07777 --ro-bind-data 5 d --ro-bind-data 5 d \
             --chmod 0 d"
        ),
        [
            Setup::Tmpfs { dest: d(), mode: 0o700, size: None },
            Setup::Tmpfs { dest: d(), mode: 0o755, size: None },
            Setup::Directory { dest: d(), mode: 1 },
            Setup::Directory { dest: d(), mode: 0o755 },
            Setup::File { content: 5, dest: d(), mode: 2 },
            Setup::File { content: 5, dest: d(), mode: 0o666 },
            Setup::Data { content: 5, dest: d(), mode: 3, read_only: false },
            Setup::Data { content: 5, dest: d(), mode: 0o600, read_only: false },
            Setup::Data { content: 5, dest: d(), mode: 0o7777, read_only: true },
            Setup::Data { content: 5, dest: d(), mode: 0o600, read_only: true },
            Setup::Permissions { dest: d(), mode: 0 },
        ]
    );
}

#[test]
fn a_size_and_permissions_may_come_in_any_order() {
    let tmpfs = Setup::Tmpfs { dest: text("d"), mode: 0, size: Some(16) };
    assert_eq!(step("--perms 0 --size 0x10 --tmpfs d"), tmpfs);
    assert_eq!(step("--size 020 --perms 0 --tmpfs d"), tmpfs);
    let largest = Setup::Tmpfs { dest: text("d"), mode: 0o755, size: Some(u64::MAX >> 1) };
    assert_eq!(step("--size 9223372036854775807 --tmpfs d"), largest);
    assert_eq!(
        failure(&["--size", "9223372036854775808", "--tmpfs", "d"], &mut Fake::default()),
        "--size (for tmpfs) is limited to 9223372036854775807"
    );
}

#[test]
fn modifiers_before_the_command_are_ignored() {
    assert_eq!(by(ROOT, "--perms 700 --size 5 true").command, [text("true")]);
    assert_eq!(by(ROOT, "--perms 700 -- true").command, [text("true")]);
}

#[test]
fn the_other_steps() {
    assert_eq!(
        steps("--proc a --dev b --mqueue c --symlink d e --remount-ro f --hostname g"),
        [
            Setup::Proc { dest: text("a") },
            Setup::Devices { dest: text("b") },
            Setup::MessageQueues { dest: text("c") },
            Setup::Symlink { target: text("d"), dest: text("e") },
            Setup::ReadOnly { dest: text("f") },
            Setup::Hostname { name: text("g") },
        ]
    );
    assert!(request(&["--dev", "/dev"]).needs_devices());
}

#[test]
fn namespaces() {
    let all = Namespaces {
        user_if_possible: true,
        ipc: true,
        pid: true,
        network: true,
        uts: true,
        cgroup_if_possible: true,
        ..Namespaces::default()
    };
    assert_eq!(by(ROOT, "--unshare-all").namespaces, all);
    let shared = Namespaces { network: false, ..all };
    assert_eq!(by(ROOT, "--unshare-all --share-net").namespaces, shared);
    assert_eq!(by(ROOT, "--share-net --unshare-all").namespaces, all);
    assert_eq!(by(USER, "--unshare-all").namespaces, Namespaces { user: true, ..all });
    let each = "--unshare-user --unshare-user-try --unshare-ipc --unshare-pid --unshare-net --unshare-uts \
                --unshare-cgroup --unshare-cgroup-try";
    let each = by(ROOT, each).namespaces;
    assert_eq!(each, Namespaces { user: true, cgroup: true, ..all });
}

#[test]
fn users_other_than_root_get_a_user_namespace_after_the_checks() {
    assert!(!by(ROOT, "a").namespaces.user);
    assert!(by(USER, "a").namespaces.user);
    assert!(!by(USER, "--userns 5 a").namespaces.user);
    for identity in [ROOT, USER] {
        let mut host = Fake { identity, ..Fake::default() };
        assert_eq!(
            failure(&["--disable-userns", "a"], &mut host),
            "--disable-userns requires --unshare-user"
        );
        let texts = ["--userns-block-fd", "5", "a"];
        assert_eq!(failure(&texts, &mut host), "--userns-block-fd requires --unshare-user");
    }
    assert!(by(USER, "--disable-userns --unshare-user a").disable_user_namespaces);
}

#[test]
fn descriptors_and_ids_are_the_last_that_are_given() {
    let list = "--sync-fd 1 --sync-fd 2 --block-fd 3 --userns-block-fd 4 --info-fd 5 --json-status-fd 6 \
                --userns2 8 --pidns 9 --seccomp 10 --unshare-user --uid 11 --gid 12";
    let mut host = Fake::default();
    let request = parse(&split(list), &mut host).unwrap();
    let descriptors = Descriptors {
        sync: Some(2),
        block: Some(3),
        user_map_block: Some(4),
        info: Some(5),
        status: Some(6),
        user_namespace: None,
        second_user_namespace: Some(8),
        pid_namespace: Some(9),
        filter: Some(10),
    };
    assert_eq!(request.descriptors, descriptors);
    assert_eq!((request.uid, request.gid), (Some(11), Some(12)));
    assert_eq!(host.errors, b"bwrap: Only the last --sync-fd option will take effect\n");
    assert_eq!(by(ROOT, "--userns 4294967296").descriptors.user_namespace, Some(0));
}

#[test]
fn the_other_settings() {
    let list = "--chdir a --argv0 b --lock-file c --lock-file d --setenv e f --clearenv --unsetenv g --setenv h {} \
                --assert-userns-disabled --new-session --die-with-parent --as-pid-1 --level-prefix i -- --j";
    let request = by(ROOT, list);
    assert_eq!(request.directory, Some(text("a")));
    assert_eq!(request.first_argument, Some(text("b")));
    assert_eq!(request.locks, [text("c"), text("d")]);
    assert_eq!(
        request.environment,
        [
            EnvironmentChange::Set { name: text("e"), value: text("f") },
            EnvironmentChange::Clear,
            EnvironmentChange::Unset { name: text("g") },
            EnvironmentChange::Set { name: text("h"), value: text("") },
        ]
    );
    assert!(request.assert_user_namespaces_disabled && request.new_session && request.die_with_parent);
    assert!(request.as_pid_1 && request.level_prefix);
    assert_eq!(request.command, [text("i"), text("--"), text("--j")]);
}

#[test]
fn capabilities_begin_with_those_of_root() {
    assert_eq!(by(ROOT, "a").capabilities, None);
    assert_eq!(by(ROOT, "--cap-drop CAP_CHOWN").capabilities, Some(0b1110));
    assert_eq!(by(ROOT, "--cap-add all").capabilities, Some(u64::MAX));
    assert_eq!(by(ROOT, "--cap-drop ALL --cap-add 40").capabilities, Some(1 << 40));
    let odd = Identity { capabilities: 3, ..USER };
    assert_eq!(by(odd, "--cap-drop CAP_CHOWN").capabilities, Some(0));
    assert_eq!(by(odd, "--cap-add cap_kill").capabilities, Some(1 << 5));
}

#[test]
fn filters_are_read_where_they_stand() {
    let mut host = Fake::with(3, &[1; 8]);
    host.files.insert(4, vec![2; 16]);
    host.files.insert(5, Vec::new());
    let list = "--add-seccomp-fd 4 --add-seccomp-fd 3 --add-seccomp-fd 5";
    let request = parse(&split(list), &mut host).unwrap();
    assert_eq!(request.filters, [vec![2; 16], vec![1; 8], Vec::new()]);
    assert!(host.files.is_empty());
}

#[test]
fn data_stands_where_the_option_stands() {
    let mut host = Fake::with(3, b"--dir\0b\0--level-prefix\0--\0--dir\0x\0");
    host.files.insert(4, b"--dir\0c\0x\0--dir\0y".to_vec());
    let request = parse(&split("--dir a --args 3 --args 4 --dir d e"), &mut host).unwrap();
    let names = ["a", "b", "c", "d"];
    let expected = names.map(|name| Setup::Directory { dest: text(name), mode: 0o755 });
    assert_eq!(request.setup, expected);
    assert_eq!(request.command, [text("e")]);
    assert!(request.level_prefix);
    assert_eq!(
        failure(&["--args", "3"], &mut Fake::default()),
        "Can't read --args data: Bad file descriptor"
    );
}

#[test]
fn without_a_command() {
    assert_eq!(parse(&[], &mut Fake::default()), Err(Stop::Usage));
    assert!(request(&["--"]).command.is_empty());
    assert!(request(&["--clearenv"]).command.is_empty());
    assert_eq!(request(&["--", ""]).command, [text("")]);
}

#[test]
fn the_checks_come_in_order() {
    let wrong = |list: &str, identity: Identity| {
        let mut host = Fake { identity, ..Fake::default() };
        let mut request = parse(&split(list), &mut host).unwrap();
        // As if the kernel had no user namespaces for root.
        request.namespaces.user_if_possible = false;
        check(&request, &identity).err().map(|failure| failure.message().line())
    };
    let all = "--uid 1 --gid 1 --hostname a --as-pid-1 --lock-file b";
    let needs = |option: &str, other: &str| {
        Some(format!("bwrap: Specifying {option} requires {other}\n").into_bytes())
    };
    assert_eq!(wrong(all, ROOT), needs("--uid", "--unshare-user or --userns"));
    let all = all.replace("--uid 1", "--uid 0");
    assert_eq!(wrong(&all, ROOT), needs("--gid", "--unshare-user or --userns"));
    assert_eq!(wrong(&all, USER), needs("--hostname", "--unshare-uts"));
    assert_eq!(wrong(&format!("--userns 5 {all}"), ROOT), needs("--hostname", "--unshare-uts"));
    let all = format!("--unshare-uts --unshare-user {all}");
    assert_eq!(wrong(&all, ROOT), needs("--as-pid-1", "--unshare-pid"));
    let all = format!("--unshare-pid --level-prefix {all}");
    let both = b"<3>bwrap: Specifying --as-pid-1 and --lock-file is not permitted\n".to_vec();
    assert_eq!(wrong(&all, ROOT), Some(both));
    assert_eq!(wrong("--uid 0 --gid 0 --unshare-pid --as-pid-1", ROOT), None);
}

#[test]
fn the_prefix_is_in_force_from_where_it_stands() {
    let mut host = Fake::default();
    let stop = parse(&split("--uid 1 --uid 2 --level-prefix --uid 3 --bad"), &mut host);
    let warning = "bwrap: Only the last --uid option will take effect\n";
    assert_eq!(String::from_utf8(host.errors).unwrap(), format!("{warning}<4>{warning}"));
    let Err(Stop::Failed(failure)) = stop else { panic!("{stop:?}") };
    assert_eq!(failure.message().line(), b"<3>bwrap: Unknown option --bad\n");
}
