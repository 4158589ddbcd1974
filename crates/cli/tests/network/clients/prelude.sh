# SPDX-License-Identifier: Apache-2.0 OR MIT
# What the lines of `clients.list` use.

says() {
    word=$1
    shift
    said=$("$@" 2>&1) || { code=$?; printf '%s\n' "$said" >&2; return "$code"; }
    case $said in *"$word"*) ;; *) printf 'no %s in: %s\n' "$word" "$said" >&2; return 9 ;; esac
}

direct() {
    env -u http_proxy -u https_proxy -u all_proxy -u no_proxy -u HTTP_PROXY -u HTTPS_PROXY -u ALL_PROXY -u NO_PROXY \
        -u npm_config_proxy -u npm_config_https_proxy "$@"
}

# What takes a proxy on its command line has none outside.
tunnel() {
    "$@" ${http_proxy:+-p}
}

socks() {
    scheme=$1
    shift
    "$@" ${http_proxy:+--proxy "$scheme://${http_proxy#http://}"}
}

by_proxy() {
    echo "${http_proxy:+-proxy ${http_proxy#http://}}"
}

# ssh wants a key that nobody else can read.
keys() {
    cp "$KEYS/id" key && chmod 600 key
    GIT_SSH_COMMAND="ssh -F none -i $PWD/key -o BatchMode=yes -o ConnectTimeout=30 -o IdentitiesOnly=yes \
        -o UserKnownHostsFile=$KEYS/known_hosts -o GlobalKnownHostsFile=/dev/null"
    export GIT_SSH_COMMAND
}

PIP="/usr/bin/python3 -m pip --isolated --disable-pip-version-check --no-cache-dir"
