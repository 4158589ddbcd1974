# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Package registries on the loopback interface: of npm, pip, cargo, Go and Maven. Each has the package `tinylib`, version
1.0.0; Maven's has what the distribution's packages of plugins hold.

Prints the port, and ends when its standard input is closed.
"""
import base64
import hashlib
import http.server
import io
import json
import pathlib
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
    """`tinylib` has a program of its name; `create-tinylib` makes a project in a directory."""
    create = "#!/usr/bin/env node\nrequire('fs').writeFileSync(process.argv[2] + '/index.html', 'tiny');\n"
    tool = "#!/usr/bin/env node\nconsole.log('tiny');\n"
    files = {}
    for name, program in (("tinylib", tool), ("create-tinylib", create)):
        about = {"name": name, "version": "1.0.0", "main": "index.js", "bin": {name: "tool.js"}}
        package = tar({
            "package/package.json": json.dumps(about),
            "package/index.js": "module.exports = 1;\n",
            "package/tool.js": program,
        })
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(package).digest()).decode()
        path = f"/{name}/-/{name}-1.0.0.tgz"
        about["dist"] = {"tarball": url + path, "integrity": integrity, "shasum": hashlib.sha1(package).hexdigest()}
        document = {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": about}}
        files |= {f"/{name}": json.dumps(document).encode(), path: package}
    return files


def pip(_url):
    name = "tinylib-1.0.0-py3-none-any.whl"
    info = "tinylib-1.0.0.dist-info/"
    wheel = zipped({
        "tinylib.py": "one = 1\n\n\ndef main():\n    print('tiny')\n",
        info + "METADATA": "Metadata-Version: 2.1\nName: tinylib\nVersion: 1.0.0\n",
        info + "WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        info + "entry_points.txt": "[console_scripts]\ntinylib = tinylib:main\n",
        info + "RECORD": "".join(
            f"{file},,\n"
            for file in ["tinylib.py"] + [info + name for name in ("METADATA", "WHEEL", "entry_points.txt", "RECORD")]
        ),
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


MAVEN = pathlib.Path("/usr/share/maven-repo")


class Handler(http.server.BaseHTTPRequestHandler):
    files = {}

    def do_GET(self):
        path = self.path.split("?")[0]
        content = self.files.get(path)
        artifact = MAVEN / path.removeprefix("/maven/")
        if path.startswith("/maven/") and ".." not in path and artifact.is_file():
            content = artifact.read_bytes()
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Length", str(len(content or b"")))
        if self.path.endswith("/"):
            self.send_header("Content-Type", "text/html")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content or b"")

    do_HEAD = do_GET

    def log_message(self, *_arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
port = server.server_address[1]
for registry in (npm, pip, cargo, go):
    Handler.files.update(registry(f"http://127.0.0.1:{port}"))
threading.Thread(target=server.serve_forever, daemon=True).start()
print(port, flush=True)
sys.stdin.read()
