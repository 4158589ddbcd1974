# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The machine that a program is for, and whether it runs on every Linux of that machine."""
import struct

# The numbers of ELF (elf.h).
MACHINES = {62: "x86_64", 183: "aarch64"}
INTERPRETER = 3


def of(path):
    """The machine of the static program at `path`."""
    with open(path, "rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
            raise SystemExit(f"packaging: error: {path} is no 64-bit program for Linux")
        offset, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        file.seek(offset)
        table = file.read(size * count)
    kinds = [struct.unpack_from("<I", table, at)[0] for at in range(0, len(table), size)]
    if INTERPRETER in kinds:
        raise SystemExit(f"packaging: error: {path} needs a loader and libraries of the host: build it for musl")
    machine = MACHINES.get(struct.unpack_from("<H", head, 18)[0])
    if machine is None:
        raise SystemExit(f"packaging: error: {path} is for a machine that Palisade doesn't support")
    return machine
