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
if "LIMIT" in os.environ:
    # A namespace of the same users, with a limit of its own. A process of the outer one maps them.
    ready, go = os.pipe()
    if (helper := os.fork()) == 0:
        os.read(ready, 1)
        for file in ("uid_map", "gid_map"):
            with open(f"/proc/{os.getppid()}/{file}", "w") as maps:
                maps.write("0 0 4294967295")
        os._exit(0)
    call("unshare", 0x10000000)
    os.write(go, b"x")
    if os.waitpid(helper, 0)[1]:
        sys.exit("can't map users")
    with open("/proc/sys/user/max_user_namespaces", "w") as limit:
        limit.write(os.environ["LIMIT"])
if os.path.isdir(os.environ.get("IN_WORK", "")):
    os.chdir(os.environ["IN_WORK"])
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
os.execvpe(command[0], command, {name[3:]: value for name, value in os.environ.items() if name.startswith("IN_") and value})
