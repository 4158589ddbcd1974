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

# Runs the line as $ID, with the tree as its root: `pivot` or `chroot`. $THROUGH is a command that executes it.
# shellcheck disable=SC2086 # words are wanted
step() { exec /usr/bin/python3 "$HOSTS/step.py" "$1" "$TREE" "$ID" ${THROUGH:-} /bin/sh /host/line.sh; }

# `limit N machine`: at most N user namespaces.
limit() {
    export LIMIT="$1"
    shift
    "$@"
}

# A machine whose root the tree is, as changed by the command $@.
machine() {
    own_mount
    proc
    dev
    "$@"
    step pivot
}

# In bubblewrap with these options.
in_bwrap() {
    exec /usr/bin/python3 "$HOSTS/step.py" here / "$ID" bwrap --bind "$TREE" / --dev /dev --proc /proc --tmpfs /tmp "$@" \
        /bin/sh /host/line.sh
}

# An account that has other users at its disposal, as newuidmap reads it. Sets `outside`, its number.
subordinate() {
    outside=$(stat -c %u "$TREE/home/user")
    printf 'root:100000:65536\nuser:200000:65536\n' >"$PLACE/subordinate"
    sed "/^[^:]*:[^:]*:$outside:/d" /etc/passwd >"$PLACE/passwd"
    echo "user:x:$outside:$outside::$PLACE/home:/bin/sh" >>"$PLACE/passwd"
    mount --bind "$PLACE/passwd" /etc/passwd
    for file in /etc/subuid /etc/subgid; do mount --bind "$PLACE/subordinate" "$file"; done
}

# A container of an unprivileged LXC, with further lines of its configuration.
in_lxc() {
    subordinate
    one_cgroup_version
    mapped
    {
        printf 'lxc.include = /usr/share/lxc/config/%s.conf\n' common userns
        printf 'lxc.idmap = %s 0 100000 65536\n' u g
        printf '%s\n' "lxc.rootfs.path = dir:$TREE" 'lxc.uts.name = host' 'lxc.net.0.type = empty' \
            'lxc.console.path = none' 'lxc.apparmor.profile = unconfined' 'lxc.init.cmd = /bin/sh /host/line.sh' \
            "lxc.init.uid = $ID" "lxc.init.gid = $ID" "$@"
        env | sed -n 's/^IN_/lxc.environment = /p'
    } >"$PLACE/config"
    exec lxc-start --foreground --lxcpath "$PLACE" --name host --rcfile "$PLACE/config"
}

# A container of podman's, made by an ordinary user. The container's user is root, or `user` with an option.
in_podman() {
    subordinate
    one_cgroup_version
    mkdir -p "$PLACE/home/run"
    chown -R "$outside:$outside" "$PLACE/home" "$TREE"
    cd "$PLACE/home"
    env | sed -n 's/^IN_//p' >"$PLACE/environment"
    IN_HOME=$PLACE/home IN_XDG_RUNTIME_DIR=$PLACE/home/run exec /usr/bin/python3 "$HOSTS/step.py" here / "$outside" podman \
        --cgroup-manager=cgroupfs run --cgroups=disabled --network=none --env-file "$PLACE/environment" "$@" \
        --rootfs "$TREE" /bin/sh /host/line.sh
}

# crun and podman refuse a host that has both versions of control groups.
one_cgroup_version() { mount -t cgroup2 cgroup2 /sys/fs/cgroup; }

# The tree's owners, as a container's user namespace maps them.
mapped() {
    chown -R 100000:100000 "$TREE"
    chown -R "$((100000 + ID)):$((100000 + ID))" "$TREE/home/user"
    chmod 755 "$PLACE"
}

# A program of this machine, as $ID.
user() { exec /usr/bin/python3 "$HOSTS/step.py" here / "$ID" "$@"; }
