# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What real clients ask of the small internet of `internet.py`: registries of one tiny package each, git, ssh, HTTP/2.

Each web server of that internet has, besides what `internet.py` says:

    /npm /pip /crates /go /apt    one package each, made on the fly
    /git/tiny.git                 a repository, as `git http-backend` serves it

At port 8443 of every address is HTTP/2 inside TLS; at 443 of UDP an echo; at 22 sshd, which knows the key `id` of the
directory and nobody but who has started it; `known_hosts` has its own key.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import socketserver
import ssl
import subprocess
import tarfile
import urllib.parse
import zipfile

DIRECTORY = ""
REPOSITORY = "tiny.git"


def digest(kind, data):
    return hashlib.new(kind, data).hexdigest()


def tarball(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def zipped(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return packed.getvalue()


NPM_MANIFEST = {"name": "tiny", "version": "1.0.0", "main": "index.js"}
NPM = tarball({"package/package.json": json.dumps(NPM_MANIFEST), "package/index.js": "module.exports = 'tiny';\n"})
WHEEL = zipped({
    "tiny.py": "NAME = 'tiny'\n",
    "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
    "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "tiny-1.0.dist-info/RECORD": "tiny.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\n"
                                "tiny-1.0.dist-info/RECORD,,\n",
})
CRATE = tarball({
    "tiny-1.0.0/Cargo.toml": '[package]\nname = "tiny"\nversion = "1.0.0"\nedition = "2021"\n',
    "tiny-1.0.0/src/lib.rs": "",
})
GO_MODULE = "module example.com/tiny\n\ngo 1.20\n"
GO = zipped({"example.com/tiny@v1.0.0/go.mod": GO_MODULE, "example.com/tiny@v1.0.0/tiny.go": "package tiny\n"})
DEB = b"!<arch>\n"
PACKAGES = (f"Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\n"
            f"Filename: ./tiny_1.0_all.deb\nSize: {len(DEB)}\nSHA256: {digest('sha256', DEB)}\n"
            f"Description: tiny\n\n").encode()
RELEASE = (f"Origin: test\nSuite: tiny\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nArchitectures: all\nSHA256:\n"
           f" {digest('sha256', PACKAGES)} {len(PACKAGES)} Packages\n").encode()


def packages(base):
    """Every file of the registries by its path, as it is to who knows this server as `base`."""
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(NPM).digest()).decode()
    npm = {"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": NPM_MANIFEST | {
        "dist": {"tarball": f"{base}/npm/tiny/-/tiny-1.0.0.tgz", "integrity": integrity, "shasum": digest("sha1", NPM)},
    }}}
    wheel = "tiny-1.0-py3-none-any.whl"
    crate = {"name": "tiny", "vers": "1.0.0", "deps": [], "cksum": digest("sha256", CRATE), "features": {},
             "yanked": False}
    return {
        "/npm/tiny": ("application/json", json.dumps(npm).encode()),
        "/npm/tiny/-/tiny-1.0.0.tgz": ("application/octet-stream", NPM),
        "/pip/simple/tiny/": ("text/html", f'<a href="{wheel}#sha256={digest("sha256", WHEEL)}">{wheel}</a>'.encode()),
        f"/pip/simple/tiny/{wheel}": ("application/zip", WHEEL),
        "/crates/config.json": ("application/json", json.dumps({"dl": f"{base}/crates/dl"}).encode()),
        "/crates/ti/ny/tiny": ("text/plain", json.dumps(crate).encode()),
        "/crates/dl/tiny/1.0.0/download": ("application/gzip", CRATE),
        "/go/example.com/tiny/@v/list": ("text/plain", b"v1.0.0\n"),
        "/go/example.com/tiny/@v/v1.0.0.info": ("application/json", b'{"Version": "v1.0.0"}'),
        "/go/example.com/tiny/@v/v1.0.0.mod": ("text/plain", GO_MODULE.encode()),
        "/go/example.com/tiny/@v/v1.0.0.zip": ("application/zip", GO),
        "/apt/./Release": ("text/plain", RELEASE),
        "/apt/./Packages": ("text/plain", PACKAGES),
        "/apt/./tiny_1.0_all.deb": ("application/octet-stream", DEB),
    }


def answer(request, scheme, body):
    """Status, headers and body for a request that is one of these clients'; else nothing."""
    url = urllib.parse.urlsplit(request.path)
    if url.path.startswith("/git/"):
        return of_git(request, url, body)
    base = f"{scheme}://{request.headers.get('Host')}"
    if not re.match(r"/(npm|pip|crates|go|apt)/", url.path):
        return None
    files = packages(base)
    found = files.get(url.path) or files.get(url.path.replace("/apt/", "/apt/./"))
    if not found:
        return 404, [("Content-Type", "text/plain")], b"not here\n"
    return 200, [("Content-Type", found[0])], found[1]


def of_git(request, url, body):
    headers = request.headers
    if headers.get("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": DIRECTORY,
        "GIT_HTTP_EXPORT_ALL": "1",
        "REQUEST_METHOD": request.command,
        "PATH_INFO": url.path.removeprefix("/git"),
        "QUERY_STRING": url.query,
        "CONTENT_TYPE": headers.get("Content-Type") or "",
        "CONTENT_LENGTH": str(len(body)),
        "GIT_PROTOCOL": headers.get("Git-Protocol") or "",
    }
    said = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True, timeout=30).stdout
    head, _, body = said.partition(b"\r\n\r\n")
    lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    return int(lines.pop("Status", "200").split()[0]), list(lines.items()), body


class Http2(socketserver.BaseRequestHandler):
    """The least of HTTP/2: every request gets `200`, `h2`."""

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.tls.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def send(self, kind, flags, stream, body=b""):
        self.tls.sendall(len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body)

    def handle(self):
        try:
            self.tls = self.server.context.wrap_socket(self.request, server_side=True)
            self.server.reached(f"http2 {self.tls.getsockname()} {self.tls.selected_alpn_protocol()}")
            self.exactly(24)
            self.send(4, 0, 0)
            while True:
                head = self.exactly(9)
                body = self.exactly(int.from_bytes(head[:3], "big"))
                kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
                if kind in (4, 6) and not flags & 1:
                    self.send(kind, 1, 0, b"" if kind == 4 else body)
                if kind == 1:
                    self.send(1, 4, stream, b"\x88")
                    self.send(0, 1, stream, b"h2\n")
        except (OSError, EOFError):
            pass


class Ssh(socketserver.BaseRequestHandler):
    def handle(self):
        self.server.reached(f"ssh {self.request.getsockname()}")
        command = [shutil.which("sshd", path="/usr/sbin:/usr/bin"), "-i", "-f", f"{DIRECTORY}/sshd_config",
                   "-E", f"{DIRECTORY}/sshd.log"]
        subprocess.run(command, stdin=self.request, stdout=self.request, timeout=80)


class Datagram(socketserver.BaseRequestHandler):
    def handle(self):
        data, socket = self.request
        self.server.reached(f"udp {socket.getsockname()}")
        socket.sendto(data, self.client_address)


def quietly(*words, **more):
    subprocess.run(words, cwd=DIRECTORY, check=True, capture_output=True, timeout=60, **more)


def make_repository():
    quietly("git", "init", "-q", "--bare", "-b", "main", REPOSITORY)
    stream = b"commit refs/heads/main\ncommitter A <a@example.org> 1700000000 +0000\ndata 5\nfirst" \
             b"\nM 100644 inline file\ndata 4\ntiny\n"
    quietly("git", f"--git-dir={REPOSITORY}", "fast-import", "--quiet", input=stream)


def make_keys():
    for name in ["id", "host"]:
        quietly("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", name)
    # Whoever root's command is inside has to read it.
    os.chmod(f"{DIRECTORY}/id", 0o644)
    with open(f"{DIRECTORY}/host.pub", encoding="ascii") as own:
        known = f"* {own.read()}"
    with open(f"{DIRECTORY}/known_hosts", "w", encoding="ascii") as hosts:
        hosts.write(known)
    # It runs what it is asked for here, whatever the shell and the home of who logs in.
    settings = {
        "HostKey": f"{DIRECTORY}/host",
        "AuthorizedKeysFile": f"{DIRECTORY}/id.pub",
        "AuthenticationMethods": "publickey",
        "PermitRootLogin": "yes",
        "PermitUserRC": "no",
        "StrictModes": "no",
        "UsePAM": "no",
        "PrintMotd": "no",
        "ForceCommand": f"cd {DIRECTORY} && eval \"$SSH_ORIGINAL_COMMAND\"",
    }
    with open(f"{DIRECTORY}/sshd_config", "w", encoding="ascii") as configuration:
        configuration.writelines(f"{name} {value}\n" for name, value in settings.items())
    if os.geteuid() == 0 and not os.path.isdir("/run/sshd"):
        # Root's sshd wants an empty directory there. This mount namespace is the internet's own.
        quietly("mount", "-t", "tmpfs", "tmpfs", "/run")
        os.mkdir("/run/sshd", 0o755)


def start(directory, addresses, reached):
    """What is served: pairs of a server class and its arguments."""
    global DIRECTORY
    DIRECTORY = directory
    make_repository()
    # Who has no privilege pings, too, where the kernel has it so.
    with open("/proc/sys/net/ipv4/ping_group_range", "w", encoding="ascii") as groups:
        groups.write(f"{os.getgid()} {os.getgid()}")
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(f"{DIRECTORY}/web.pem", f"{DIRECTORY}/web.key")
    secure.set_alpn_protocols(["h2"])
    secure.sni_callback = lambda _socket, name, _context: reached(f"sni {name}")
    ports = [(8443, socketserver.ThreadingTCPServer, Http2), (443, socketserver.ThreadingUDPServer, Datagram)]
    if shutil.which("sshd", path="/usr/sbin:/usr/bin") and shutil.which("ssh-keygen"):
        make_keys()
        ports.append((22, socketserver.ThreadingTCPServer, Ssh))
    servers = []
    for address in addresses:
        for port, kind, handler in ports:
            class Server(kind):
                address_family = socketserver.socket.AF_INET6 if ":" in address else socketserver.socket.AF_INET
                daemon_threads = True
                allow_reuse_address = True
                context = secure

                def handle_error(self, *_words):
                    pass

            Server.reached = staticmethod(reached)
            servers.append(Server((address, port), handler))
    return servers
