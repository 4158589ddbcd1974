#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# What systemd does for `systemctl start palisaded` and `systemctl restart palisaded`: there is no systemd where `scoped.sh`
# runs a line. Other arguments fail, and so does a unit that isn't Palisade's. The daemon gets the options that keep it from the host.
[ $# = 2 ] && [ "$2" = palisaded ] && grep -q ^ExecStart=/usr/sbin/palisaded$ /run/systemd/system/palisaded.service || exit 5
case $1 in
    start) ;;
    restart) kill "$(cat ~/served)" || exit 6 ;;
    *) exit 5 ;;
esac
# shellcheck disable=SC2086  # several options, or none
palisaded $ALONE >~/scoped/log 2>&1 & echo $! >~/served
tries=0
until palisade scope status >/dev/null 2>&1; do
    sleep 0.05; tries=$((tries + 1)); [ $tries -lt 400 ] || exit 7
done
