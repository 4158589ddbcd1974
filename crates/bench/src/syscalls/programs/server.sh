#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Starts redis-server by a command (or bare), puts it under load from outside, and prints how long a request took in
# seconds: the mean of SET and GET, by 50 clients at once over a socket of the file system. Every exit code is looked at.
#
#   sh server.sh REQUESTS PALISADED|'' [COMMAND…]
#
# With PALISADED, that runs meanwhile at its usual place, in the mount namespace of the caller's own.
set -eu
requests=$1 palisaded=$2
shift 2
here=$(mktemp -d "$PWD/server.XXXXXX")
cd "$here"
server='' daemon=''
finish() {
    status=$?
    for process in $server $daemon; do
        kill "$process" 2>/dev/null || :
    done
    wait
    [ "$status" = 0 ] || cat -- *.log >&2 || :
    cd / && rm -rf "$here"
    exit "$status"
}
trap finish EXIT
# Until a command succeeds, for half a minute.
until_it() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { echo "it takes for ever: $*" >&2; exit 1; }
        sleep 0.05
    done
}
if [ -n "$palisaded" ]; then
    mount -t tmpfs none /run
    mkdir /run/palisade config state pins
    echo 'schema = 1' >config/scopes.toml
    "$palisaded" --only scopes --config "$here/config" --state "$here/state" \
        --socket /run/palisade/guard.sock --scope-pins "$here/pins" 2>daemon.log &
    daemon=$!
    until_it [ -S /run/palisade/learn.sock ]
    "$1" run --dry-run --syscalls learn -- true >plan.log
    grep -q 'put down by the kernel' plan.log
fi
"$@" redis-server --port 0 --unixsocket ./socket --save '' --appendonly no >server.log 2>&1 &
server=$!
until_it redis-cli -s ./socket ping
redis-benchmark -s ./socket -c 50 -n "$requests" -t set,get --csv >load.csv
redis-cli -s ./socket shutdown nosave
wait "$server"
server=''
# "test","rps",…
awk -F '"' '$2 == "SET" || $2 == "GET" { sum += 1 / $4; lines++ }
    END { if (lines != 2) exit 1; printf "%e served\n", sum / lines }' load.csv
