#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs a line of shell as root where it changes nothing of the host: `apart LINE`. What it writes to /etc, /usr, /var and /home
# goes to layers above these directories, /run is empty, and all of it ends with the line. UNIT=1 puts palisaded's unit and
# systemd's mark there.
# shellcheck disable=SC2016  # another shell expands it
UNIT_FILE=$(dirname "$0")/palisaded.service LAYERS=~/layers exec unshare --mount --propagation private sh -c '
    mkdir -p "$LAYERS" && mount -t tmpfs palisade-test "$LAYERS" && mkdir "$LAYERS/moved" || exit 90
    for top in etc usr var home; do
        mkdir -p "$LAYERS/above/$top" "$LAYERS/work/$top"
    done
    # The layers are in /home: another way leads to them.
    mount --bind "$LAYERS" /mnt && cd /mnt || exit 91
    # The home and /var/tmp may be mounts of their own, which the layers lack.
    mkdir own tmp && mount --bind ~ own && mount --bind /var/tmp tmp || exit 95
    for top in etc usr var home; do
        mount -t overlay palisade-test -o "lowerdir=/$top,upperdir=above/$top,workdir=work/$top" "/$top" || exit 92
    done
    mkdir -p ~ && mount --bind own ~ && mount --bind tmp /var/tmp || exit 96
    mount -t tmpfs palisade-test /run || exit 93
    if [ -n "$UNIT" ]; then
        mkdir -p /run/systemd/system && cp "$UNIT_FILE" /run/systemd/system || exit 94
    fi
    cd ~/work && exec sh -c "$1"' sh "$1"
