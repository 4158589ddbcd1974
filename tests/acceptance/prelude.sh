# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=sh
# Put before the shell snippets that the harness runs outside (setup, via, effect, cleanup).

# A program of C in the workspace, compiled once for all cases of a person: compiled NAME OPTION… FILE…
compiled() {
    name=$1
    shift
    if [ ! -x "$KEPT/$name" ]; then
        mkdir -p "$KEPT" && cc "$@" -o "$KEPT/$name-$T" && mv "$KEPT/$name-$T" "$KEPT/$name" || return
    fi
    cp "$KEPT/$name" "$name"
}

# What a setup makes in H and O, once for all cases of a person:
#
#     kept NAME || { …; keep NAME; }
#
# The token of the case that made it, which is in every path, is replaced in files of text: no path may be in what git
# has packed.
kept() {
    [ -d "$KEPT/$1" ] || return
    cp -a "$KEPT/$1/home" "$KEPT/$1/outside" "${H%/home}/" || exit
    read -r before <"$KEPT/$1/token"
    (cd "${H%/home}" && xargs sed -i "s/$before/$T/g" <"$KEPT/$1/files") || exit
}
keep() {
    made=$KEPT/$1-$T
    mkdir -p "$made" && cp -a "$H" "$O" "$made/" && printf '%s\n' "$T" >"$made/token" || exit
    (cd "$made" && grep -rlI "$T" home outside >files) || exit
    # Another case of this person may have been faster.
    mv -T "$made" "$KEPT/$1" 2>/dev/null || rm -rf "$made"
}

# Waits until a file has something in it. The harness ends what waits too long, later on a busy machine; a second
# argument is for what need not come: so many times 20 ms are enough.
wait_for() {
    tries=0
    while [ ! -s "$1" ] && [ "$tries" -lt "${2:-10000}" ]; do
        sleep 0.02
        tries=$((tries + 1))
    done
    [ -s "$1" ]
}

# A process of the host that a snippet may go for: sleeps, its pid in W/victim. It carries the
# secret in its arguments and in its environment, has a file with the secret open, and the
# directory O as its own.
start_victim() {
    printf '%s\n' "$SECRET" >"$L/victim-secret"
    (
        cd "$O" || exit
        exec 6<"$L/victim-secret"
        VICTIM=$SECRET exec /usr/bin/python3 -c '
import sys, time
memory = sys.argv[1].encode() * 64
open(sys.argv[2], "w").write(str(__import__("os").getpid()))
time.sleep(99)' "$SECRET" "$W/victim"
    ) >/dev/null 2>&1 &
    wait_for "$W/victim"
}

# What bears our name in the host's /tmp, but for this suite's own directories. Other names would
# tell of other programs that happen to run.
ours_in_tmp() {
    find /tmp -maxdepth 1 -name '*palisade*' ! -name 'palisade-acc-*' | sort
}
