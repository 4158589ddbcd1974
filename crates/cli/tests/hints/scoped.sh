#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs a line of shell as root where palisaded serves scopes: `scoped LINE`. The daemon's settings, state and socket are at
# the usual places of a mount namespace of its own, and it is ended before the next line. It marks nothing of the host: a
# scope has only the processes that the line gives it.
mkdir -p ~/scoped/host-etc/palisade ~/scoped/var/palisade ~/scoped/bpf
cp /etc/passwd /etc/group /etc/nsswitch.conf /etc/ld.so.cache ~/scoped/host-etc
printf 'schema = 1\n' >~/scoped/host-etc/palisade/scopes.toml
BPF=~/scoped/bpf exec unshare --mount --propagation private sh -c '
    mount --bind ~/scoped/host-etc /etc && mount --bind ~/scoped/var /var/lib && mount -t tmpfs palisade-test /run &&
        mount -t bpf palisade-test "$BPF" || exit 90
    palisaded --only scopes --other-calls kill --scope-pins "$BPF/scope" 2>~/scoped/log & daemon=$!
    tries=0
    until palisade scope status >/dev/null 2>&1; do
        sleep 0.05; tries=$((tries + 1)); [ $tries -lt 400 ] || { cat ~/scoped/log >&2; exit 92; }
    done
    sh -c "$1"; code=$?
    palisade scope clear >/dev/null 2>&1
    kill $daemon; wait $daemon; exit $code' sh "$1"
