#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs a line of shell as root on a host whose apt knows one package: `packaged NAME FILE LINE`. The package has the file, a
# program that prints its name. What is installed goes to layers above the host's directories, and ends with the line.
LAYERS=~/layers exec unshare --mount --propagation private sh -c '
    mkdir -p "$LAYERS" && mount -t tmpfs palisade-test "$LAYERS" && cd "$LAYERS" || exit 90
    mkdir -p package/DEBIAN "package/$(dirname "$2")" source etc-apt lists
    printf "Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: a test\n" "$1" >package/DEBIAN/control
    printf "#!/bin/sh\necho %s\n" "$1" >"package/$2" && chmod 755 "package/$2"
    dpkg-deb --build --root-owner-group package "source/$1.deb" >/dev/null || exit 91
    for top in etc usr var; do
        mkdir -p "above/$top" "work/$top" && mount -t overlay palisade-test -o "lowerdir=/$top,upperdir=above/$top,workdir=work/$top" "/$top" || exit 92
    done
    rm -rf /etc/apt/* /var/lib/apt/lists/* && mkdir -p /etc/apt/apt.conf.d /etc/apt/preferences.d
    (cat package/DEBIAN/control; printf "Filename: ./%s.deb\nSize: %s\nSHA256: %s\n" "$1" "$(stat -c %s "source/$1.deb")" "$(sha256sum "source/$1.deb" | cut -d " " -f 1)") >source/Packages
    echo "deb [trusted=yes] file:$LAYERS/source ./" >/etc/apt/sources.list
    apt-get update >said 2>&1 || { cat said >&2; exit 93; }
    cd ~/work; exec sh -c "$3"' sh "$@"
