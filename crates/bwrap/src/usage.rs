// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The texts of `--help` and `--version`.

/// What `--version` prints: the version whose behaviour this is.
pub const VERSION: &str = "bubblewrap 0.11.1\n";

/// The options with their values, and what they do.
const OPTIONS: &[(&str, &str)] = &[
    ("--help", "Show these options and stop"),
    ("--version", "Show the version of bubblewrap that this behaves as, and stop"),
    ("--args FD", "Insert the NUL-separated arguments that FD holds"),
    ("--argv0 VALUE", "Start COMMAND with VALUE as its argument 0"),
    ("--policy NAME", "Keep to a policy of Palisade's, too: a profile, by name or file"),
    ("--level-prefix", "Begin each message with its severity, as in <3>"),
    ("--unshare-all", "New namespaces of all kinds, of users and cgroups where possible"),
    ("--share-net", "Stay in the network namespace in spite of --unshare-all"),
    ("--unshare-user", "A new user namespace; always the case unless root starts this"),
    ("--unshare-user-try", "A new user namespace where the system allows it"),
    ("--unshare-ipc", "A new IPC namespace"),
    ("--unshare-pid", "A new PID namespace"),
    ("--unshare-net", "A new network namespace, with nothing but a loopback device"),
    ("--unshare-uts", "A new UTS namespace (host name)"),
    ("--unshare-cgroup", "A new cgroup namespace"),
    ("--unshare-cgroup-try", "A new cgroup namespace where the system allows it"),
    ("--userns FD", "Enter the user namespace FD; not with --unshare-user"),
    ("--userns2 FD", "Enter the user namespace FD once the file tree stands, after that of --userns"),
    ("--disable-userns", "Let nothing inside make user namespaces; needs --unshare-user"),
    ("--assert-userns-disabled", "Fail if something inside could make user namespaces"),
    ("--pidns FD", "Enter the PID namespace FD; --unshare-pid makes one below it"),
    ("--uid UID", "User inside; needs --unshare-user or --userns"),
    ("--gid GID", "Group inside; needs --unshare-user or --userns"),
    ("--hostname NAME", "Host name inside; needs --unshare-uts"),
    ("--chdir DIR", "Start COMMAND in DIR"),
    ("--clearenv", "Remove all environment variables"),
    ("--setenv VAR VALUE", "Set the environment variable VAR"),
    ("--unsetenv VAR", "Remove the environment variable VAR"),
    ("--lock-file DEST", "Hold a read lock on the file DEST while the sandbox lives"),
    ("--sync-fd FD", "Hold FD open while the sandbox lives"),
    ("--bind SRC DEST", "Show the host's SRC at DEST"),
    ("--bind-try SRC DEST", "As --bind; without SRC nothing is done"),
    ("--dev-bind SRC DEST", "As --bind, and device files work"),
    ("--dev-bind-try SRC DEST", "As --dev-bind; without SRC nothing is done"),
    ("--ro-bind SRC DEST", "As --bind, and nothing can be written"),
    ("--ro-bind-try SRC DEST", "As --ro-bind; without SRC nothing is done"),
    ("--bind-fd FD DEST", "Show the open file or directory FD at DEST"),
    ("--ro-bind-fd FD DEST", "As --bind-fd, and nothing can be written"),
    ("--remount-ro DEST", "Make the mount at DEST read-only, but not those below it"),
    ("--overlay-src SRC", "A layer of the overlay that follows, on top of earlier ones"),
    (
        "--overlay RWSRC WORKDIR DEST",
        "Overlay at DEST; changes go to RWSRC, and WORKDIR is empty and beside it",
    ),
    ("--tmp-overlay DEST", "Overlay at DEST; changes are gone with the sandbox"),
    ("--ro-overlay DEST", "Overlay at DEST that can't be changed"),
    ("--exec-label LABEL", "SELinux label of COMMAND; not supported here"),
    ("--file-label LABEL", "SELinux label of new files; not supported here"),
    ("--proc DEST", "A proc file system at DEST"),
    ("--dev DEST", "A small set of devices at DEST"),
    ("--tmpfs DEST", "An empty tmpfs at DEST"),
    ("--mqueue DEST", "A file system of message queues at DEST"),
    ("--dir DEST", "A directory at DEST"),
    ("--file FD DEST", "A file at DEST with what FD holds"),
    ("--bind-data FD DEST", "As --file, as a mount of its own"),
    ("--ro-bind-data FD DEST", "As --bind-data, and it can't be written"),
    ("--symlink SRC DEST", "A symbolic link at DEST that leads to SRC"),
    ("--seccomp FD", "Filter system calls with the program that FD holds; once"),
    ("--add-seccomp-fd FD", "Filter system calls with the program that FD holds; may be repeated"),
    ("--block-fd FD", "Start COMMAND when FD can be read"),
    ("--userns-block-fd FD", "Go on when FD can be read; the caller maps users before"),
    ("--info-fd FD", "Write a JSON document about the sandbox to FD"),
    ("--json-status-fd FD", "Write JSON documents to FD when the sandbox starts and ends"),
    ("--new-session", "Start COMMAND in a session without the terminal"),
    ("--die-with-parent", "End the sandbox when this program or its parent ends"),
    ("--as-pid-1", "Let COMMAND be process 1, without one that collects orphans"),
    ("--cap-add CAP", "Keep the capability CAP, or ALL, when root starts this"),
    ("--cap-drop CAP", "Drop the capability CAP, or ALL, when root starts this"),
    ("--perms OCTAL", "Permissions of what the next option makes (--dir, --file, --tmpfs, ...)"),
    ("--size BYTES", "Size of the next --tmpfs"),
    ("--chmod OCTAL PATH", "Set the permissions of PATH, which exists"),
];

/// The text of `--help`, which is also printed when no command is given. The name is this program's argument 0; when there
/// is none it is `bwrap`.
#[must_use]
pub fn usage(name: &[u8]) -> Vec<u8> {
    let mut text = b"usage: ".to_vec();
    text.extend_from_slice(name);
    text.extend_from_slice(b" [OPTIONS...] [--] COMMAND [ARGS...]\n\n");
    for (option, purpose) in OPTIONS {
        text.extend_from_slice(format!("    {option:<28} {purpose}\n").as_bytes());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_comes_first_and_each_option_has_a_line() {
        let text = usage(b"/x/\xffbwrap");
        let first = b"usage: /x/\xffbwrap [OPTIONS...] [--] COMMAND [ARGS...]\n\n    --help    ";
        assert!(text.starts_with(first));
        let lines = text.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"    --")).count();
        assert_eq!(lines, OPTIONS.len());
        assert!(text.ends_with(b"which exists\n"));
    }
}
