# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A registry of npm's on the loopback interface, with the packages of the directories that are its arguments.

Prints the port, and ends when its standard input is closed.
"""
import base64
import hashlib
import http.server
import json
import pathlib
import sys
import tarfile
import threading
import urllib.parse

packages = {}
files = {}
for directory in sys.argv[1:]:
    for path in sorted(pathlib.Path(directory).glob("*.tgz")):
        with tarfile.open(path) as archive:
            about = json.load(archive.extractfile("package/package.json"))
        content = path.read_bytes()
        files[f"/-/{path.name}"] = content
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
        about["dist"] = {"integrity": integrity, "file": path.name}
        packages.setdefault(about["name"], []).append(about)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = urllib.parse.unquote(self.path)
        if path in files:
            return self.reply(200, files[path])
        versions = packages.get(path[1:])
        if versions is None:
            return self.reply(404, b"{}")
        for about in versions:
            about["dist"]["tarball"] = f"http://{self.headers['Host']}/-/{about['dist']['file']}"
        document = {
            "name": path[1:],
            "dist-tags": {"latest": versions[-1]["version"]},
            "versions": {about["version"]: about for about in versions},
        }
        return self.reply(200, json.dumps(document).encode())

    def reply(self, code, content):
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
