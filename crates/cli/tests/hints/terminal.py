#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs a line of shell on a terminal, and prints what it prints there: `terminal LINE`."""
import os, pty, sys

pid, terminal = pty.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-c", sys.argv[1]])
while True:
    try:
        read = os.read(terminal, 65536)
    except OSError:
        break
    os.write(1, read)
_pid, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
