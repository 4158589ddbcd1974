# SPDX-License-Identifier: Apache-2.0 OR MIT
"""More of `internet.py`: a proxy of HTTP at 93.184.216.35:3128, which writes down whom it is asked for and by whom. It
takes names for what they are on this internet, and leads `only.example`, which nobody else knows, to itself."""

import socket
import socketserver
import threading

REACHED = None


def carry(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class Proxy(socketserver.StreamRequestHandler):
    def handle(self):
        method, place, _version = self.rfile.readline().decode().split()
        who = "nobody"
        while (line := self.rfile.readline().decode().strip()):
            name, _, value = line.partition(": ")
            if name.lower() == "proxy-authorization":
                who = value
        REACHED(f"proxy {method} {place} by {who}")
        host, _, port = place.rpartition(":")
        host = "93.184.216.34" if host in ("only.example", "www.allowed.example") else host
        server = socket.create_connection((host, int(port)), timeout=10)
        self.wfile.write(b"HTTP/1.1 200 here you are\r\n\r\n")
        back = threading.Thread(target=carry, args=(server, self.connection), daemon=True)
        back.start()
        carry(self.connection, server)
        back.join()


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


def start(_directory, _addresses, reached):
    global REACHED
    REACHED = reached
    return [Server(("93.184.216.35", 3128), Proxy)]


def answer(_handler, _scheme, _body):
    return None
