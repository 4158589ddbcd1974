# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends standard input to a host as it is, and prints what comes: `raw.py HOST PORT [slowly|pause]`."""

import socket
import sys
import time

host, port, *how = sys.argv[1:]
said = sys.stdin.buffer.read()
client = socket.create_connection((host, int(port)), timeout=3)
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
if "slowly" in how:
    for byte in said:
        client.send(bytes([byte]))
        time.sleep(0.002)
elif "pause" in how:
    for part in said.split(b"\r\n\r\n"):
        client.send(part + b"\r\n\r\n")
        time.sleep(0.3)
else:
    client.sendall(said)
client.settimeout(1.5)
try:
    while data := client.recv(65536):
        sys.stdout.buffer.write(data)
except TimeoutError:
    pass
