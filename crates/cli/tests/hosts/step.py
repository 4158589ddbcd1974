# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Makes a directory the root, becomes a user and executes a program of the new root: `step.py HOW TREE UID COMMAND…`.

HOW is `pivot` (as a machine or a container has it), `chroot`, or `here` (the root stays). Nothing of the tree is executed before
the last step, so the tree needs no program of its own for it. The variable IN_NAME becomes NAME, and there are no others."""

import ctypes
import os
import sys

how, tree, uid, command = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
libc = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    if libc[name](*arguments):
        error = ctypes.get_errno()
        sys.exit(f"{name} {tree}: {os.strerror(error)}")


if how != "here":
    os.chdir(tree)
if how == "pivot":
    call("pivot_root", b".", b".")
    # The old root lies on top of the new one.
    call("umount2", b".", 2)
    os.chdir("/")
elif how == "chroot":
    os.chroot(".")
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
os.execvpe(command[0], command, {name[3:]: value for name, value in os.environ.items() if name.startswith("IN_") and value})
