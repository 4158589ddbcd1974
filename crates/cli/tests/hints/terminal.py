#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs a line of shell on a terminal, and prints what it prints there: `terminal LINE [SHOWN TYPED]…`.

Once the terminal shows the text SHOWN, TYPED is typed, with Enter. After a minute without output the line is ended."""
import fcntl, os, pty, select, signal, struct, sys, termios, time

pid, terminal = pty.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-c", sys.argv[1]])
# Without a size, `palisade shell` draws nothing. Its messages fit into a line.
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 500, 0, 0))
awaited = list(zip(sys.argv[2::2], sys.argv[3::2]))
# What was printed after the last text that was awaited.
new = b""
while True:
    if not select.select([terminal], [], [], 60)[0]:
        os.kill(pid, signal.SIGKILL)
        break
    try:
        read = os.read(terminal, 65536)
    except OSError:
        break
    os.write(1, read)
    new += read
    if awaited and awaited[0][0].encode() in new:
        # A question is shown before it takes what is typed.
        time.sleep(0.5)
        shown, typed = awaited.pop(0)
        os.write(terminal, typed.encode() + b"\n")
        new = new.split(shown.encode(), 1)[1]
_pid, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
