# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# What the hosts of tests/hosts.toml are entered with. It runs as root, in mount and PID namespaces of its own.
#
#   $HOSTS   the directory of this file        $P     palisade, where the host has it
#   $PLACE   a directory of this run only      $WORK  the working directory, below $HOME
#   $TREE    the host's root                   $ID    the user's number
set -eu

# The kernel's files, with the options $1.
proc() { mount -t proc ${1:+-o "$1"} proc "$TREE/proc"; }

# The devices that every program expects. `dev noshm` leaves out /dev/shm.
dev() {
    mount -t tmpfs -o mode=755 dev "$TREE/dev"
    for device in null zero full random urandom tty; do
        touch "$TREE/dev/$device"
        mount --bind "/dev/$device" "$TREE/dev/$device"
    done
    for link in fd:fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do ln -s "/proc/self/${link#*:}" "$TREE/dev/${link%%:*}"; done
    [ "${1:-}" = noshm ] || { mkdir "$TREE/dev/shm" && mount -t tmpfs -o mode=1777 shm "$TREE/dev/shm"; }
}

# A file system can only be made the root if it is one.
own_mount() { mount --bind "$TREE" "$TREE"; }

# Everything but the home and /tmp is read-only.
read_only() {
    for kept in "$HOME" /tmp; do mount --bind "$TREE$kept" "$TREE$kept"; done
    mount -o remount,bind,ro "$TREE"
}

# Runs the line as $ID, with the tree as its root: `pivot` or `chroot`.
step() { exec /usr/bin/python3 "$HOSTS/step.py" "$1" "$TREE" "$ID" /bin/sh /host/line.sh; }

# A machine whose root the tree is.
machine() {
    own_mount
    proc
    dev
    "$@"
    step pivot
}

# Runs a command of this machine as $ID.
user() { exec /usr/bin/python3 "$HOSTS/step.py" here / "$ID" "$@"; }

# crun and podman refuse a host that has both versions of control groups.
one_cgroup_version() { mount -t cgroup2 cgroup2 /sys/fs/cgroup; }
