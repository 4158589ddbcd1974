# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Asks a name server for a name: `ask.py udp|tcp ADDRESS[:PORT] NAME TYPE`. Prints its answer's code and length."""

import socket
import struct
import sys

how, place, name, kind = sys.argv[1:5]
address, _colon, port = place.partition(":")
labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
question = struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, int(kind), 1)
client = socket.socket(socket.AF_INET, socket.SOCK_STREAM if how == "tcp" else socket.SOCK_DGRAM)
client.settimeout(2)
client.connect((address, int(port or 53)))
client.send(struct.pack(">H", len(question)) + question if how == "tcp" else question)
answer = client.recv(4096)
print(answer[5 if how == "tcp" else 3] & 15, len(answer))
