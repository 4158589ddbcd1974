# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# For the other scripts: a directory of its own, which goes with all that was started, and palisaded at its usual place, in
# the mount namespace of the caller's own.
set -eu
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
# PALISADED PALISADE: until calls are learned by the kernel, which is looked at.
begin_learning() {
    mount -t tmpfs none /run
    mkdir /run/palisade config daemon pins
    echo 'schema = 1' >config/scopes.toml
    "$1" --only scopes --config "$here/config" --state "$here/daemon" \
        --socket /run/palisade/guard.sock --scope-pins "$here/pins" 2>daemon.log &
    daemon=$!
    until_it [ -S /run/palisade/learn.sock ]
    export XDG_STATE_HOME="$here/state" XDG_CACHE_HOME="$here/cache"
    "$2" run --dry-run --syscalls learn -- true >plan.log
    grep -q 'recorded by the kernel' plan.log
}
