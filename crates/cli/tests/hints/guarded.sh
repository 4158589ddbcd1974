#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs a line of shell as root where palisaded guards a file system that no other process has: `guarded LINE`.
# Its settings, its state and its socket are at the usual places, and kept in ~/guard until the next line. The host's own
# are covered. `palisaded --only guard` is ended before the next line. FILES is the guarded directory, with the programs `good` and `bad`, and `daemon` is its process.
mkdir -p ~/guard/host-etc/palisade/guard.d ~/guard/var/palisade ~/guard/files
cp /etc/passwd /etc/group /etc/nsswitch.conf /etc/ld.so.cache ~/guard/host-etc
[ -e ~/guard/host-etc/palisade/guard.toml ] || printf 'schema = 1\n[guard]\n[guard.watch]\nonly = ["%s/guard/files"]\n[guard.trust]\nsources = ["files"]\n[guard.log]\nterminal = false\n' "$HOME" >~/guard/host-etc/palisade/guard.toml
[ -e ~/guard/host-etc/palisade/guard.d/10.rules ] || printf 'allow perm=any all : trust=1\ndeny_audit perm=execute all : path=%s/guard/files/bad\nallow perm=any all : all\n' "$HOME" >~/guard/host-etc/palisade/guard.d/10.rules
# shellcheck disable=SC2016  # another shell expands it
FILES=~/guard/files exec unshare --mount --propagation private sh -c '
    mount --bind ~/guard/host-etc /etc && mount --bind ~/guard/var /var/lib && mount -t tmpfs palisade-test /run || exit 90
    mount -t tmpfs palisade-test "$FILES" && cp /bin/true "$FILES/good" && cp /bin/true "$FILES/bad" || exit 91
    palisaded --only guard 2>~/guard/log & export daemon=$!
    tries=0
    until palisade guard status --json 2>/dev/null | tr -d " \n" | grep -q "\"watched\":\[[^]]"; do
        sleep 0.05; tries=$((tries + 1)); [ $tries -lt 400 ] || { cat ~/guard/log >&2; exit 92; }
    done
    sh -c "$1"; code=$?
    kill $daemon; wait $daemon; exit $code' sh "$1"
