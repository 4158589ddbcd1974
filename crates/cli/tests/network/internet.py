# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A small internet for tests, in the network and mount namespaces in which it is started.

Addresses of the public internet, of private networks and of the link are put on the loopback interface; one is a name
server's. Every address answers HTTP at ports 80 and 8080, HTTPS at 443, echoes at 7 and says its name first at 2222. What
has been reached is written to the file `reached` in the working directory, a line for each request or connection.

Started with a directory, in which `ca.pem` is left, and the names of modules beside this file that serve more; prints
`ready` and goes on until its standard input is closed.
"""

import importlib
import os
import signal
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOSTS = {
    "www.allowed.example": ["93.184.216.34", "2606:2800:220:1::34"],
    "api.allowed.example": ["93.184.216.35"],
    "six.allowed.example": ["2606:2800:220:1::36"],
    "other.example": ["93.184.216.34", "2606:2800:220:1::34"],
    "denied.example": ["93.184.216.40", "2606:2800:220:1::40"],
    "stolen.denied.example": ["93.184.216.40"],
    "private.example": ["10.9.8.7"],
    "metadata.example": ["169.254.169.254"],
    "loopback.example": ["127.0.0.1"],
    "mixed.example": ["10.9.8.7", "93.184.216.41"],
    "mapped.example": ["::ffff:10.9.8.7"],
    "dead.example": ["93.184.216.50"],
    "alias.example": "www.allowed.example",
    "to-private.example": "private.example",
    "rebind.example": ["93.184.216.42"],
    "empty.example": [],
}
NAME_SERVER = "11.11.11.11"
# Of dead.example nobody takes connections, of silent.example nobody answers questions.
SILENT = "silent.example"
DIRECTORY = os.path.abspath(sys.argv[1])
MORE = [importlib.import_module(name) for name in sys.argv[2:]]
LOCK = threading.Lock()
REBOUND = {}


def reached(line):
    with LOCK, open(os.path.join(DIRECTORY, "reached"), "a", encoding="ascii", errors="backslashreplace") as log:
        log.write(line.replace("\n", "\\n") + "\n")


def addresses():
    found = [address for value in HOSTS.values() if isinstance(value, list) for address in value]
    kept = [a for a in dict.fromkeys(found) if not a.startswith(("127.", "::ffff:"))]
    return [a for a in kept if a != HOSTS["dead.example"][0]]


def question(message):
    labels, at = [], 12
    while message[at]:
        labels.append(message[at + 1 : at + 1 + message[at]].decode("latin-1").lower())
        at += 1 + message[at]
    return ".".join(labels), struct.unpack(">H", message[at + 1 : at + 3])[0], message[12 : at + 5]


def encoded(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def answer(message):
    name, kind, asked = question(message)
    reached(f"dns {name} {kind}")
    if name == SILENT:
        return None
    records, owner = [], b"\xc0\x0c"
    value = HOSTS.get(name)
    # Today here, tomorrow there, and nobody is to remember it.
    REBOUND[name] = REBOUND.get(name, 0) + 1
    if name == "rebind.example" and REBOUND[name] > 2:
        value = ["10.9.8.7"]
    lasts = 0 if name == "rebind.example" else 30
    if value is None:
        flags = 0x8183
    else:
        flags = 0x8180
        if isinstance(value, str):
            records.append(owner + struct.pack(">HHIH", 5, 1, 30, len(encoded(value))) + encoded(value))
            owner, value = encoded(value), HOSTS[value]
        for address in value:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            if kind == (28 if family == socket.AF_INET6 else 1):
                data = socket.inet_pton(family, address)
                records.append(owner + struct.pack(">HHIH", kind, 1, lasts, len(data)) + data)
    return message[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + asked + b"".join(records)


def serve_names(address, port):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, port))
    while True:
        message, client = server.recvfrom(4096)
        try:
            said = answer(message)
        except (IndexError, struct.error):
            continue
        if said:
            server.sendto(said, client)


def serve_abstract():
    server = socket.socket(socket.AF_UNIX)
    server.bind("\0palisade-internet")
    server.listen()
    while True:
        client, _address = server.accept()
        reached("abstract")
        client.send(b"abstract")
        client.close()


class Names(socketserver.BaseRequestHandler):
    def handle(self):
        length = struct.unpack(">H", self.request.recv(2, socket.MSG_WAITALL))[0]
        said = answer(self.request.recv(length, socket.MSG_WAITALL))
        if said:
            self.request.sendall(struct.pack(">H", len(said)) + said)


class Web(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_one_request(self):
        # As servers do that are liberal in what they accept.
        try:
            while self.rfile.peek(1)[:1] in (b"\r", b"\n"):
                self.rfile.read(1)
        except OSError:
            self.close_connection = True
            return
        super().handle_one_request()

    def respond(self):
        here = self.connection.getsockname()
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        hosts = ",".join(self.headers.get_all("Host") or ["none"])
        reached(f"{self.server.scheme} {here[0]} {hosts} {self.command} {self.path} {len(body)}")
        more = [said for module in MORE if (said := module.answer(self, self.server.scheme, body))]
        status, headers = 200, [("Content-Type", "text/plain")]
        if more:
            status, headers, text = more[0]
        elif self.path.startswith("/bytes/"):
            text = b"x" * int(self.path.split("/")[2])
        else:
            text = f"{self.server.scheme} {self.headers.get('Host')} {self.command} {self.path} {len(body)}\n".encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_HEAD = respond

    def log_message(self, *_words):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    scheme = "http"
    request_queue_size = 512

    def handle_error(self, *_words):
        pass


class Six(Server):
    address_family = socket.AF_INET6


class Plain(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 512


class PlainSix(Plain):
    address_family = socket.AF_INET6


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        reached(f"echo {self.request.getsockname()[0]}")
        while data := self.request.recv(65536):
            self.request.sendall(data)


class SpeaksFirst(socketserver.BaseRequestHandler):
    def handle(self):
        reached(f"first {self.request.getsockname()[0]}")
        self.request.sendall(b"220 hello\r\n")
        self.request.recv(100)


def openssl(*words):
    subprocess.run(["openssl", *words], cwd=DIRECTORY, check=True, capture_output=True, timeout=60)


def certificates():
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "7", "-subj", "/CN=test authority",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign")
    openssl("req", *key, "-keyout", "web.key", "-out", "web.csr", "-subj", "/CN=web")
    names = ",".join([f"DNS:{name}" for name in HOSTS] + ["DNS:*.allowed.example"])
    with open(os.path.join(DIRECTORY, "web.ext"), "w", encoding="ascii") as extensions:
        extensions.write(f"subjectAltName={names}\n")
    openssl("x509", "-req", "-in", "web.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "7",
            "-out", "web.pem", "-extfile", "web.ext")


def in_background(work):
    threading.Thread(target=work, daemon=True).start()


def main():
    signal.signal(signal.SIGUSR1, lambda *_: REBOUND.clear())
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in [NAME_SERVER, *addresses()]:
        width = "128" if ":" in address else "32"
        nodad = ["nodad"] if ":" in address else []
        subprocess.run(["ip", "addr", "add", f"{address}/{width}", "dev", "lo", *nodad], check=True)
    with open(os.path.join(DIRECTORY, "resolv.conf"), "w", encoding="ascii") as configuration:
        configuration.write(f"nameserver {NAME_SERVER}\n")
    subprocess.run(["mount", "--bind", configuration.name, "/etc/resolv.conf"], check=True)
    certificates()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(DIRECTORY, "web.pem"), os.path.join(DIRECTORY, "web.key"))
    context.sni_callback = lambda _socket, name, _context: reached(f"sni {name}")
    for address, port in [(NAME_SERVER, 53), (NAME_SERVER, 5353), (HOSTS["denied.example"][0], 9)]:
        in_background(lambda place=(address, port): serve_names(*place))
    in_background(serve_abstract)
    in_background(socketserver.ThreadingTCPServer((NAME_SERVER, 53), Names).serve_forever)
    for address in [*addresses(), "127.0.0.1"]:
        six = ":" in address
        web, other_web = ((Six if six else Server)((address, port), Web) for port in (80, 8080))
        secure = (Six if six else Server)((address, 443), Web)
        secure.scheme = "https"
        secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
        plain = PlainSix if six else Plain
        for server in [web, other_web, secure, plain((address, 7), Echo), plain((address, 2222), SpeaksFirst)]:
            in_background(server.serve_forever)
    for module in MORE:
        for server in module.start(DIRECTORY, addresses(), reached):
            in_background(server.serve_forever)
    print("ready", flush=True)
    sys.stdin.read()
    time.sleep(0)


main()
