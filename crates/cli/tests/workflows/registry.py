# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Package registries on the loopback interface: of npm, pip, cargo and Go. Each has the package `tinylib`, version 1.0.0.

Prints the port, and ends when its standard input is closed.
"""
import base64
import hashlib
import http.server
import io
import json
import sys
import tarfile
import threading
import zipfile


def tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def npm(url):
    package = tar({
        "package/package.json": '{"name": "tinylib", "version": "1.0.0", "main": "index.js"}',
        "package/index.js": "module.exports = 1;\n",
    })
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(package).digest()).decode()
    version = {
        "name": "tinylib",
        "version": "1.0.0",
        "dist": {"tarball": url + "/tinylib/-/tinylib-1.0.0.tgz", "integrity": integrity},
    }
    about = {"name": "tinylib", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    return {"/tinylib": json.dumps(about).encode(), "/tinylib/-/tinylib-1.0.0.tgz": package}


def pip(_url):
    name = "tinylib-1.0.0-py3-none-any.whl"
    info = "tinylib-1.0.0.dist-info/"
    wheel = zipped({
        "tinylib.py": "one = 1\n",
        info + "METADATA": "Metadata-Version: 2.1\nName: tinylib\nVersion: 1.0.0\n",
        info + "WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        info + "RECORD": "tinylib.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n",
    })
    return {"/simple/tinylib/": f'<a href="/files/{name}">{name}</a>'.encode(), "/files/" + name: wheel}


def cargo(url):
    crate = tar({
        "tinylib-1.0.0/Cargo.toml": '[package]\nname = "tinylib"\nversion = "1.0.0"\nedition = "2021"\n',
        "tinylib-1.0.0/src/lib.rs": "pub fn one() -> u8 { 1 }\n",
    })
    entry = {"name": "tinylib", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False}
    entry["cksum"] = hashlib.sha256(crate).hexdigest()
    return {
        "/index/config.json": json.dumps({"dl": url + "/crates/{crate}-{version}.crate"}).encode(),
        "/index/ti/ny/tinylib": json.dumps(entry).encode() + b"\n",
        "/crates/tinylib-1.0.0.crate": crate,
    }


def go(_url):
    top = "/example.org/tinylib/@v/"
    module = "module example.org/tinylib\n"
    inside = "example.org/tinylib@v1.0.0/"
    package = zipped({inside + "go.mod": module, inside + "t.go": "package tinylib\n\nfunc One() int { return 1 }\n"})
    return {
        top + "list": b"v1.0.0\n",
        top + "v1.0.0.info": b'{"Version": "v1.0.0", "Time": "2020-01-01T00:00:00Z"}',
        top + "v1.0.0.mod": module.encode(),
        top + "v1.0.0.zip": package,
    }


class Handler(http.server.BaseHTTPRequestHandler):
    files = {}

    def do_GET(self):
        content = self.files.get(self.path.split("?")[0])
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Length", str(len(content or b"")))
        if self.path.endswith("/"):
            self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
port = server.server_address[1]
for registry in (npm, pip, cargo, go):
    Handler.files.update(registry(f"http://127.0.0.1:{port}"))
threading.Thread(target=server.serve_forever, daemon=True).start()
print(port, flush=True)
sys.stdin.read()
