#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs a line of shell as root where palisaded serves scopes: `scoped LINE`. The daemon's settings (~/scoped/settings, if it is
# there), state and socket are at the usual places of a mount namespace of its own, and it is ended before the next line. It
# marks nothing of the host: a scope has only the processes that the line gives it. OPTIONS are more options of the daemon.
# START=no: the line starts it. UNIT: a unit of systemd, which is there then. COVER: a directory that is empty. ALONE has the options that keep it from the host.
mkdir -p ~/scoped/host-etc/palisade ~/scoped/var/palisade ~/scoped/bpf
cp /etc/passwd /etc/group /etc/nsswitch.conf /etc/ld.so.cache ~/scoped/host-etc
printf 'schema = 1\n' >~/scoped/host-etc/palisade/scopes.toml
[ ! -e ~/scoped/settings ] || cat ~/scoped/settings >>~/scoped/host-etc/palisade/scopes.toml
export BPF=~/scoped/bpf ALONE="--only scopes --other-calls kill --scope-pins $HOME/scoped/bpf/scope"
# shellcheck disable=SC2016  # another shell expands it
exec unshare --mount --propagation private sh -c '
    mount --bind ~/scoped/host-etc /etc && mount --bind ~/scoped/var /var/lib && mount -t tmpfs palisade-test /run &&
        mount -t bpf palisade-test "$BPF" || exit 90
    [ -z "$COVER" ] || mount -t tmpfs palisade-test "$COVER" || exit 91
    [ -z "$UNIT" ] || { mkdir -p /run/systemd/system && cp "$UNIT" /run/systemd/system; } || exit 92
    [ "$START" != no ] || exec sh -c "$1"
    palisaded $ALONE $OPTIONS 2>~/scoped/log & daemon=$!
    tries=0
    until palisade scope status >/dev/null 2>&1; do
        sleep 0.05; tries=$((tries + 1)); [ $tries -lt 400 ] || { cat ~/scoped/log >&2; exit 92; }
    done
    sh -c "$1"; code=$?
    palisade scope clear >/dev/null 2>&1
    kill $daemon; wait $daemon; exit $code' sh "$1"
