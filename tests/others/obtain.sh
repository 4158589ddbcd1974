# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=sh
#
# Functions for the key `obtain` of the suites (CONTRIBUTING.md, "Others' suites").

# apt-get with lists and caches of its own, sources among them: the machine's configuration stays as it is.
suites=$(cd .. && pwd)
own_apt() {
    at=$suites/apt
    mkdir -p "$at/lists/partial" "$at/cache/archives/partial" "$at/parts"
    # In both forms in which a machine may have it.
    [ ! -e /etc/apt/sources.list.d/debian.sources ] \
        || sed 's/^Types:.*/Types: deb deb-src/' /etc/apt/sources.list.d/debian.sources >"$at/parts/all.sources"
    [ ! -e /etc/apt/sources.list ] \
        || sed -n 's/^deb \(.*debian.*\)/deb \1\ndeb-src \1/p' /etc/apt/sources.list >"$at/parts/all.list"
    apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$at/parts" \
        -o Dir::State::lists="$at/lists" -o Dir::Cache="$at/cache" -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}
# Several suites may be obtained at the same time.
apt_lists() {
    mkdir -p ../apt
    exec 8>../apt/lock
    flock 8
    [ -n "$(find ../apt -name updated -mmin -600)" ] || { own_apt update && touch ../apt/updated; }
    flock -u 8
}

# Unpacks what Debian's package $1 is made from, as its authors published it, into the directory $2.
source_of() {
    apt_lists
    mkdir -p "$2" archives
    (cd archives && own_apt source --download-only --tar-only "$1" 2>&1) || return 1
    for archive in archives/"$1"_*.orig.tar.*; do
        case $archive in *.asc) continue ;; esac
        tar -x -f "$archive" -C "$2" --strip-components 1
    done
}

# Unpacks Debian's package $1 into the directory $2, without installing it.
files_of() {
    apt_lists
    mkdir -p "$2" archives
    (cd archives && own_apt download "$1" 2>&1) || return 1
    dpkg-deb -x archives/"$1"_*.deb "$2"
}

# Unpacks what $1 names, a source archive of a distribution with the SHA-256 $2, into the directory $3. Fetched as apt
# fetches: by its configuration.
archive_of() {
    mkdir -p "$3" archives
    # Without the right of another user, which can't write here.
    /usr/lib/apt/apt-helper -qq -o APT::Sandbox::User=root download-file "$1" "archives/${1##*/}" "SHA256:$2" 2>&1 || return 1
    tar -x -f "archives/${1##*/}" -C "$3" --strip-components 1
}
