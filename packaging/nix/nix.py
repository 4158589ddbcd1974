# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the archive and the flake.

The format of the archive (NAR) is described in "The Purely Functional Software Deployment Model", E. Dolstra, 2006, figure 5.2.
"""
import base64
import gzip
import hashlib
import io
import lzma
import os
import pathlib
import struct
import sys
import tarfile

ROOT = pathlib.Path(os.environ["PACKAGE_ROOT"])
sys.path.insert(0, str(ROOT / "packaging"))
sys.dont_write_bytecode = True
import licences
import machine

VERSION, OUTPUT = os.environ["PACKAGE_VERSION"], pathlib.Path(os.environ["PACKAGE_OUTPUT"])
LICENCES = ("LICENSE-APACHE", "LICENSE-MIT")


def word(text):
    content = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(content)) + content + bytes(-len(content) % 8)


def file(content, executable=False):
    mark = ["executable", ""] if executable else []
    return b"".join(map(word, ["(", "type", "regular", *mark, "contents", content, ")"]))


def directory(entries):
    parts = [word(part) for part in ("(", "type", "directory")]
    for name, node in sorted(entries.items()):
        parts += [word("entry"), word("("), word("name"), word(name), word("node"), node, word(")")]
    return b"".join(parts) + word(")")


def write(name, content):
    partial = OUTPUT / f"{name}.part"
    partial.write_bytes(content)
    partial.replace(OUTPUT / name)
    print(name)


def flake(text):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        member = tarfile.TarInfo("palisade-flake/flake.nix")
        member.size, member.mode, member.mtime = len(text), 0o644, int(os.environ["SOURCE_DATE_EPOCH"])
        archive.addfile(member, io.BytesIO(text))
    return gzip.compress(packed.getvalue(), compresslevel=9, mtime=0)


program = pathlib.Path(os.environ["PACKAGE_BINARIES"]) / "palisade"
target = f"{machine.of(program)}-linux"
documents = {name: file((ROOT / name).read_bytes()) for name in LICENCES}
# The licences of the code of others.
others = gzip.compress(licences.text("palisade-cli", program).encode(), compresslevel=9, mtime=0)
documents["licences.txt.gz"] = file(others)
tree = directory({
    "bin": directory({"palisade": file(program.read_bytes(), executable=True)}),
    "share": directory({"doc": directory({"palisade": directory(documents)})}),
})
archive = word("nix-archive-1") + tree
name = f"palisade-{VERSION}-{target}.nar.xz"
write(name, lzma.compress(archive, preset=9))
stated = {
    "@SUMMARY@": os.environ["SUMMARY"],
    "@VERSION@": VERSION,
    "@SYSTEM@": target,
    "@URL@": f"{os.environ['RELEASES']}/download/v{VERSION}/{name}",
    "@HASH@": "sha256-" + base64.b64encode(hashlib.sha256(archive).digest()).decode(),
}
text = (ROOT / "packaging/nix/flake.nix.in").read_text()
for mark, value in stated.items():
    text = text.replace(mark, value)
write("palisade-flake.tar.gz", flake(text.encode()))
