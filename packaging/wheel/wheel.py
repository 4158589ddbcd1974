# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the wheel. The program is in `scripts`, so installers put it on PATH as it is, and no Python starts it.

The format: packaging.python.org, "Binary distribution format" and "Core metadata specifications".
"""
import base64
import hashlib
import os
import pathlib
import re
import sys
import time
import zipfile

ROOT = pathlib.Path(os.environ["PACKAGE_ROOT"])
sys.path.insert(0, str(ROOT / "packaging"))
sys.dont_write_bytecode = True
import licences
import machine

# A static program runs with any C library. Installers take a wheel that says manylinux or musllinux.
LIBRARIES = ("manylinux_2_17", "musllinux_1_1")
LICENCES = ("LICENSE-APACHE", "LICENSE-MIT")
# The licences of the code of others. A wheel packs it, and its format wants texts.
OTHERS = "licences.txt"
# The oldest time that a zip archive can state.
OLDEST = 315532800


def version_of(text):
    """Python's form of a version, in which a name of a wheel has no other hyphens."""
    match = re.fullmatch(r"(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.?(\d+))?", text)
    if match is None:
        raise SystemExit(f"wheel: error: {text} has no form in Python: it isn't like 1.2.3 or 1.2.3-rc.4")
    release, kind, number = match.groups()
    return release if kind is None else release + {"alpha": "a", "beta": "b", "rc": "rc"}[kind] + number


def wheel(program, target):
    published, version = os.environ["PUBLISHED"], version_of(os.environ["PACKAGE_VERSION"])
    repository, licence = os.environ["REPOSITORY"], os.environ["LICENCE"]
    name = f"{published.replace('-', '_')}-{version}"
    info = f"{name}.dist-info"
    tags = [f"py3-none-{library}_{target}" for library in LIBRARIES]
    metadata = "".join([
        "Metadata-Version: 2.4\n",
        f"Name: {published}\n",
        f"Version: {version}\n",
        f"Summary: {os.environ['SUMMARY']}\n",
        f"License-Expression: {licence}\n",
        *(f"License-File: {file}\n" for file in (*LICENCES, OTHERS)),
        f"Project-URL: Source, {repository}\n",
        "Classifier: Operating System :: POSIX :: Linux\n",
        "Classifier: Topic :: Security\n",
        "Description-Content-Type: text/markdown\n\n",
        f"`pip install {published}` installs the program `palisade`. It is one static binary; no Python starts it.\n\n",
        f"See {repository}.\n",
    ])
    about = "Wheel-Version: 1.0\nGenerator: palisade\nRoot-Is-Purelib: false\n" + "".join(f"Tag: {tag}\n" for tag in tags)
    files = {
        f"{name}.data/scripts/palisade": (program.read_bytes(), 0o755),
        f"{info}/METADATA": (metadata.encode(), 0o644),
        f"{info}/WHEEL": (about.encode(), 0o644),
        **{f"{info}/licenses/{file}": ((ROOT / file).read_bytes(), 0o644) for file in LICENCES},
        f"{info}/licenses/{OTHERS}": (licences.text("palisade-cli", program).encode(), 0o644),
    }
    record = "".join(f"{path},sha256={digest(content)},{len(content)}\n" for path, (content, _mode) in files.items())
    files[f"{info}/RECORD"] = ((record + f"{info}/RECORD,,\n").encode(), 0o644)
    libraries = ".".join(f"{library}_{target}" for library in LIBRARIES)
    return f"{name}-py3-none-{libraries}.whl", files


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def write(path, files):
    """The same bytes for the same files: names, order, times and modes are stated."""
    stamp = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), OLDEST))[:6]
    partial = path.with_name(path.name + ".part")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name, stamp)
            entry.create_system = 3
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    partial.replace(path)


program = pathlib.Path(os.environ["PACKAGE_BINARIES"]) / "palisade"
name, files = wheel(program, machine.of(program))
write(pathlib.Path(os.environ["PACKAGE_OUTPUT"]) / name, files)
print(name)
