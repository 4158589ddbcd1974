# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs a command as on a kernel without nf_tables: a socket to netfilter can't be had, as where the module isn't there.

It takes NETLINK_NETFILTER away by a filter of system calls, which all that is started from here inherits.
"""

import ctypes
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
AF_NETLINK, NETLINK_NETFILTER, EPROTONOSUPPORT = 16, 12, 93
SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO = 0x7FFF0000, 0x00050000
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
SOCKET = {"x86_64": 41, "aarch64": 198}[platform.machine()]
# Offsets in struct seccomp_data: the call's number, and the low halves of its first and third arguments.
NUMBER, FAMILY, PROTOCOL = 0, 16, 32

PROGRAM = [
    (LOAD, 0, 0, NUMBER),
    (EQUAL, 0, 5, SOCKET),
    (LOAD, 0, 0, FAMILY),
    (EQUAL, 0, 3, AF_NETLINK),
    (LOAD, 0, 0, PROTOCOL),
    (EQUAL, 0, 1, NETLINK_NETFILTER),
    (RETURN, 0, 0, SECCOMP_RET_ERRNO | EPROTONOSUPPORT),
    (RETURN, 0, 0, SECCOMP_RET_ALLOW),
]


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in PROGRAM)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(PROGRAM), ctypes.addressof(buffer))
    # Who has no privilege may only filter who gets none either.
    if os.geteuid() != 0 and libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")
    os.execvp(sys.argv[1], sys.argv[1:])


main()
