#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Boots an emulated aarch64 machine, which runs the script `init` as process 1, and prints what its console says.

guest.py DIRECTORY PALISADE: the program for aarch64; what is downloaded and made goes below the directory.
guest.py DIRECTORY --compiler: prints the path of a C compiler with musl's headers for aarch64, which it makes.

apt gets the packages of that architecture with lists of its own, so that the host's package database stays as it is.
"""
import lzma
import os
import pathlib
import stat
import subprocess
import sys

# Its pages have 16 KB, which finds code that takes 4 KB for granted.
KERNEL = "linux-image-6.12-arm64-16k"
DRIVERS = ["crc32c_generic", "libcrc32c", "nf_defrag_ipv4", "nf_defrag_ipv6", "nf_conntrack", "nfnetlink", "nf_nat",
           "nf_tables", "nft_chain_nat", "nft_redir"]
LIMIT = 600

directory = pathlib.Path(sys.argv[1])


def apt(*words):
    state = directory / "apt"
    (state / "lists/partial").mkdir(parents=True, exist_ok=True)
    (state / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    settings = state / "apt.conf"
    settings.write_text(
        'APT::Architecture "arm64";\nAPT::Architectures { "arm64"; };\nAPT::Sandbox::User "root";\n'
        f'Dir::State::lists "{state}/lists";\nDir::State::status "{state}/status";\nDir::Cache "{state}/cache";\n'
    )
    done = subprocess.run(words, cwd=directory, env={**os.environ, "APT_CONFIG": str(settings)},
                          stdout=subprocess.PIPE, text=True)
    return done.stdout if done.returncode == 0 else None


def needed(*words):
    said = apt(*words)
    if said is None:
        sys.exit(f"{' '.join(words)} failed\nhint: apt-get update   # shows whether packages can be had at all")
    return said


def download(name):
    """Gets a package, or the package with a version in its name that it depends on. Returns its file."""
    real = name
    for line in needed("apt-cache", "depends", "--important", name).splitlines():
        if line.strip().startswith("Depends: linux-image-"):
            real = line.split()[1]
    if apt("apt-get", "download", "-q", real) is None:
        return None
    [file] = directory.glob(f"{real}_*.deb")
    return file


def package(name):
    """The directory with the files of a package; of the package with a version in its name, if that is empty."""
    unpacked = directory / name
    if not unpacked.exists():
        file = None
        if list((directory / "apt/lists").glob("*_Packages*")):
            # These lists may be old, and name a version that is no longer there.
            file = download(name)
        if file is None:
            needed("apt-get", "update", "-q")
            file = download(name)
        if file is None:
            sys.exit(f"apt-get download {name} failed\nhint: apt-get update   # shows whether packages can be had at all")
        subprocess.run(["dpkg-deb", "-x", file, unpacked.with_suffix(".partly")], check=True)
        unpacked.with_suffix(".partly").rename(unpacked)
        file.unlink()
    return unpacked


def compiler():
    headers = package("musl-dev") / "usr/include/aarch64-linux-musl"
    script = directory / "cc"
    # Atomic operations outside of the code are functions of libgcc, which isn't linked.
    script.write_text(
        '#!/bin/sh\nown=$(aarch64-linux-gnu-gcc -print-file-name=include)\n'
        f'exec aarch64-linux-gnu-gcc -nostdinc -isystem "{headers}" -isystem "$own" -mno-outline-atomics "$@"\n'
    )
    script.chmod(0o755)
    return script


class Archive:
    """cpio's format `newc` (kernel: driver-api/early-userspace/buffer-format)."""

    def __init__(self):
        self.bytes, self.number = bytearray(), 0

    def add(self, name, mode, content=b"", device=(0, 0)):
        self.number += 1
        name = name.encode() + b"\0"
        fields = [self.number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name), 0]
        self.bytes += b"070701" + b"".join(b"%08x" % field for field in fields) + name
        self.bytes += bytes(-len(self.bytes) % 4) + content
        self.bytes += bytes(-len(self.bytes) % 4)


def image(palisade, kernel):
    archive = Archive()
    for name in ["dev", "proc", "sys", "tmp", "new", "usr", "usr/bin", "drivers"]:
        archive.add(name, stat.S_IFDIR | 0o755)
    archive.add("bin", stat.S_IFLNK | 0o777, b"usr/bin")
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add("usr/bin/busybox", stat.S_IFREG | 0o755, (package("busybox-static") / "bin/busybox").read_bytes())
    archive.add("usr/bin/sh", stat.S_IFLNK | 0o777, b"busybox")
    archive.add("usr/bin/palisade", stat.S_IFREG | 0o755, palisade.read_bytes())
    archive.add("init", stat.S_IFREG | 0o755, pathlib.Path(__file__).with_name("init").read_bytes())
    for number, name in enumerate(DRIVERS):
        [driver] = kernel.glob(f"lib/modules/*/kernel/**/{name}.ko.xz")
        archive.add(f"drivers/{number}.ko", stat.S_IFREG | 0o644, lzma.decompress(driver.read_bytes()))
    archive.add("TRAILER!!!", 0)
    path = directory / f"image-{os.getpid()}.cpio"
    path.write_bytes(archive.bytes)
    return path


def boot(palisade):
    kernel = package(KERNEL)
    [linux] = (kernel / "boot").glob("vmlinuz-*")
    archive = image(palisade, kernel)
    try:
        subprocess.run(
            ["qemu-system-aarch64", "-machine", "virt", "-cpu", "max,pauth-impdef=on", "-accel", "tcg,thread=multi",
             "-smp", "2", "-m", "1024", "-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio",
             "-kernel", linux, "-initrd", archive,
             "-append", "console=ttyAMA0 quiet loglevel=3 panic=-1 lsm=capability,landlock,yama"],
            stdin=subprocess.DEVNULL, timeout=LIMIT, check=True,
        )
    finally:
        archive.unlink()


directory.mkdir(parents=True, exist_ok=True)
if sys.argv[2] == "--compiler":
    print(compiler())
else:
    boot(pathlib.Path(sys.argv[2]))
