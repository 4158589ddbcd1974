#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs a line of shell as root on a host that refuses user namespaces, as AppArmor does on Ubuntu: `refusing LINE`. Another root makes the
# kernel refuse them with the same error; the setting is a file; the compiler of profiles says yes to each profile and loads none.
# OLD=1: it says no. What is written is gone when the line ends: `apart.sh`.
# shellcheck disable=SC2016  # another shell expands it
LINE=$1 exec apart '
    mkdir -p /mnt/kernel /mnt/root /etc/apparmor.d || exit 80
    # A few of these files can be read by nobody.
    cp -r /proc/sys/kernel/. /mnt/kernel 2>/dev/null
    echo 1 >/mnt/kernel/apparmor_restrict_unprivileged_userns && mount --bind /mnt/kernel /proc/sys/kernel || exit 81
    printf "#!/bin/sh\n[ \"\$1\" != --version ] || { echo AppArmor parser version 3; exit 0; }\n" >/usr/sbin/apparmor_parser || exit 82
    [ -z "$OLD" ] || printf "echo syntax error, unexpected TOK_ID >&2; exit 1\n" >>/usr/sbin/apparmor_parser
    chmod 755 /usr/sbin/apparmor_parser && mount --rbind / /mnt/root || exit 83
    exec chroot /mnt/root sh -c "cd ~/work && exec sh -c \"\$LINE\""'
