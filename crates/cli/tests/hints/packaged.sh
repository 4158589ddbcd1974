#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs a line of shell as root on a host whose apt knows one package: `packaged NAME FILE LINE`. The package has the file, a
# program that prints its name. What is installed is gone when the line ends: `apart.sh`.
# shellcheck disable=SC2016  # another shell expands it
NAME=$1 FILE=$2 LINE=$3 exec apart '
    mkdir -p /mnt/source "/mnt/package/DEBIAN" "/mnt/package/$(dirname "$FILE")" && cd /mnt || exit 95
    printf "Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: a test\n" "$NAME" >package/DEBIAN/control
    printf "#!/bin/sh\necho %s\n" "$NAME" >"package/$FILE" && chmod 755 "package/$FILE"
    dpkg-deb --build --root-owner-group package "source/$NAME.deb" >/dev/null || exit 96
    rm -rf /etc/apt/* /var/lib/apt/lists/* && mkdir -p /etc/apt/apt.conf.d /etc/apt/preferences.d
    (cat package/DEBIAN/control; printf "Filename: ./%s.deb\nSize: %s\nSHA256: %s\n" "$NAME" "$(stat -c %s "source/$NAME.deb")" "$(sha256sum "source/$NAME.deb" | cut -d " " -f 1)") >source/Packages
    echo "deb [trusted=yes] file:/mnt/source ./" >/etc/apt/sources.list
    apt-get update >said 2>&1 || { cat said >&2; exit 97; }
    cd ~/work; exec sh -c "$LINE"'
