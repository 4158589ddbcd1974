# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs a command under a filter that refuses what Docker's default profile refuses a container without capabilities:
`contained.py COMMAND…`. The source is that of `hosts/docker.toml`."""

import ctypes
import errno
import os
import platform
import struct
import sys

NO_NEW_PRIVS, SECCOMP = 38, 22
LOAD, EQUAL, AND, RETURN = 0x20, 0x15, 0x54, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NAMESPACES = 0x7E020080
# x86-64's number, and that of the table that newer architectures share.
CALLS = {
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "unshare": (272, 97), "setns": (308, 268),
    "bpf": (321, 280), "perf_event_open": (298, 241), "keyctl": (250, 219), "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "pidfd_getfd": (438, 438), "chroot": (161, 51), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
CLONE, CLONE3 = (56, 220), 435
# AF_ALG and AF_VSOCK
SOCKET, FAMILIES = (41, 198), (38, 40)
COLUMN = {"x86_64": 0, "aarch64": 1}[platform.machine()]


def instruction(code, value, if_so=0, otherwise=0):
    return struct.pack("HBBI", code, if_so, otherwise, value)


program = [instruction(LOAD, 0)]
for numbers in CALLS.values():
    program += [instruction(EQUAL, numbers[COLUMN], 0, 1), instruction(RETURN, ERRNO | errno.EPERM)]
program += [
    instruction(EQUAL, CLONE3, 0, 1),
    instruction(RETURN, ERRNO | errno.ENOSYS),
    instruction(EQUAL, SOCKET[COLUMN], 0, 5),
    instruction(LOAD, 16),
    *(instruction(EQUAL, family, 1 - which, which) for which, family in enumerate(FAMILIES)),
    instruction(RETURN, ERRNO | errno.EPERM),
    instruction(RETURN, ALLOW),
    instruction(EQUAL, CLONE[COLUMN], 0, 4),
    instruction(LOAD, 16),
    instruction(AND, NAMESPACES),
    instruction(EQUAL, 0, 1, 0),
    instruction(RETURN, ERRNO | errno.EPERM),
    instruction(RETURN, ALLOW),
]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
if libc.prctl(SECCOMP, 2, ctypes.byref(Program(len(program), b"".join(program))), 0, 0):
    sys.exit(f"can't load the filter: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
