# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends a datagram and waits for its echo: a refusal comes at once, silence would take longer than a test may."""

import os
import socket

for family, kind, protocol, _name, address in socket.getaddrinfo(os.environ["HOST"], 443, type=socket.SOCK_DGRAM):
    sender = socket.socket(family, kind, protocol)
    sender.settimeout(600)
    sender.connect(address)
    sender.send(b"echoed")
    print(sender.recv(100))
