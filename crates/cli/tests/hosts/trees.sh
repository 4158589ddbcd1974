# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Makes the roots of hosts: `trees.sh NAME TREE PALISADE`, with files of this machine. Each is as small as it can be and has
# what tells it from the others.
set -eu
name=$1 tree=$2 palisade=$3
here=$(dirname "$0")
# What the tests' shell needs.
programs='sh mkdir rm'

make() { mkdir -p "$tree/$1"; }

# A program that needs a loader and a C library: `linked COMPILER OPTION…`.
linked() {
    printf '#include <stdio.h>\nint main(void) { return puts("linked") < 0; }\n' >"$tree/linked.c"
    "$@" -o "$tree/linked" "$tree/linked.c"
    rm "$tree/linked.c"
}

# A program of this machine with its libraries, into the directories $2 and $3.
copied() {
    cp -L "$(command -v "$1")" "$tree/$2/$1"
    ldd "$(command -v "$1")" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | while read -r library; do cp -Lu "$library" "$tree/$3"; done
}
loader() { cp -L "$(ldd /bin/sh | sed -n 's/^[[:space:]]*\(\/[^ ]*\) .*/\1/p')" "$tree/$1"; }

all_in_one() {
    make "$1"
    cp -L "$(command -v busybox)" "$tree/$1/busybox"
    for applet in $("$tree/$1/busybox" --list); do
        [ "$applet" = busybox ] || ln -s busybox "$tree/$1/$applet"
    done
}

# Shell and libraries as a distribution has them: `glibc DIRECTORY-OF-PROGRAMS DIRECTORY-OF-LIBRARIES`.
glibc() {
    for program in $programs; do copied "$program" "$1" "$2"; done
    linked cc
    mv "$tree/linked" "$tree/usr/bin/linked"
}

release() { printf 'ID=%s\nPRETTY_NAME="%s"\n' "$1" "$2" >"$tree/etc/os-release"; }

make etc
case $name in
    busybox) all_in_one bin ;;
    musl)
        # As Alpine: musl's loader, and busybox for everything.
        all_in_one bin
        make lib
        make usr/bin
        # The C library is the loader.
        cp -L "/lib/ld-musl-$(uname -m).so.1" "$tree/lib"
        chmod 755 "$tree/lib/ld-musl-$(uname -m).so.1"
        linked musl-gcc
        mv "$tree/linked" "$tree/usr/bin/linked"
        echo 3.20.0 >"$tree/etc/alpine-release"
        release alpine 'Alpine Linux'
        ;;
    merged)
        # As Debian 12.
        libraries=usr/lib/$(uname -m)-linux-gnu
        for directory in usr/bin usr/sbin "$libraries" usr/lib64; do make "$directory"; done
        for link in bin sbin lib lib64; do ln -s "usr/$link" "$tree/$link"; done
        loader usr/lib64
        glibc usr/bin "$libraries"
        release debian 'Debian GNU/Linux'
        ;;
    unmerged)
        # As Debian 11 could be.
        libraries=lib/$(uname -m)-linux-gnu
        for directory in bin sbin usr/bin usr/sbin "$libraries" lib64; do make "$directory"; done
        loader lib64
        glibc bin "$libraries"
        release debian 'Debian GNU/Linux'
        ;;
    lib64)
        # As Fedora: libraries in /usr/lib64, and /usr/sbin is a link.
        for directory in usr/bin usr/lib usr/lib64; do make "$directory"; done
        for link in bin lib lib64; do ln -s "usr/$link" "$tree/$link"; done
        ln -s bin "$tree/usr/sbin"
        ln -s usr/bin "$tree/sbin"
        loader usr/lib64
        glibc usr/bin usr/lib64
        # This machine's loader looks elsewhere.
        echo /usr/lib64 >"$tree/etc/ld.so.conf"
        /sbin/ldconfig -r "$tree"
        release fedora 'Fedora Linux'
        ;;
    nix)
        # As NixOS: programs and libraries in the store, and two links for scripts.
        store=nix/store/2222222222222222222222222222222
        all_in_one "${store}0-busybox/bin"
        make "${store}1-glibc/lib"
        make "${store}2-linked/bin"
        loader "${store}1-glibc/lib"
        cp -L "$(cc -print-file-name=libc.so.6)" "$tree/${store}1-glibc/lib"
        loaded=$(ls "$tree/${store}1-glibc/lib" | sed -n '/^ld-/p')
        linked cc "-Wl,--dynamic-linker=/${store}1-glibc/lib/$loaded,-rpath,/${store}1-glibc/lib"
        mv "$tree/linked" "$tree/${store}2-linked/bin/linked"
        make bin
        make usr/bin
        ln -s "/${store}0-busybox/bin/sh" "$tree/bin/sh"
        ln -s "/${store}0-busybox/bin/env" "$tree/usr/bin/env"
        make run
        make "${store}3-system/sw/bin"
        for program in "$tree/${store}0-busybox/bin"/* "$tree/${store}2-linked/bin/linked"; do
            ln -s "${program#"$tree"}" "$tree/${store}3-system/sw/bin/${program##*/}"
        done
        ln -s "/${store}3-system" "$tree/run/current-system"
        release nixos NixOS
        ;;
    *) echo "no such tree: $name" >&2 && exit 1 ;;
esac
printf 'root:x:0:0::/root:/bin/sh\nuser:x:%s:%s::/home/user:/bin/sh\n' "$ID" "$ID" >"$tree/etc/passwd"
printf 'root:x:0:\nuser:x:%s:\n' "$ID" >"$tree/etc/group"
for directory in dev proc sys run tmp host root/work home/user/work github/home __w/project; do make "$directory"; done
chmod 1777 "$tree/tmp"
chmod 755 "$tree"
# The mark of a container's engine.
[ -z "${MARK:-}" ] || { mkdir -p "$(dirname "$tree/$MARK")" && touch "$tree/$MARK"; }
cp "$palisade" "$tree/host/palisade"
cp "$here/line.sh" "$tree/host/line.sh"
chown -R "$ID:$ID" "$tree/home/user"
