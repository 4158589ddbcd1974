#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Prints the bill of materials of a program as CycloneDX JSON: sbom.py PACKAGE BINARY

PACKAGE is the crate that the program is built from. The components are the crates whose code is in the program: what cargo
resolves for its features and its target, without build scripts, procedural macros and what only tests use. The C libraries that
two crates bring are components of their own, and so are Rust's standard library and musl. The same sources give the same bytes.
"""

import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
import uuid

sys.dont_write_bytecode = True
import machine

# A crate that compiles a C library: the library, its licence, and the header that states its version.
BUNDLED = {
    "libsqlite3-sys": ("sqlite", "blessing", "sqlite3/sqlite3.h", r'#define SQLITE_VERSION\s+"([^"]+)"'),
    "libbpf-sys": ("libbpf", "LGPL-2.1-only OR BSD-2-Clause", "libbpf/src/libbpf_version.h", r"LIBBPF_(?:MAJOR|MINOR)_VERSION (\d+)"),
}
TERMS = {library: terms for library, terms, _header, _pattern in BUNDLED.values()}
TERMS.update({"rust-std": "MIT OR Apache-2.0", "musl": "MIT"})


def run(*words, cwd):
    """The output of a program."""
    return subprocess.run(words, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def is_static(binary):
    """Whether an ELF file names no interpreter: then it is the one for musl."""
    with open(binary, "rb") as file:
        return b"ld-linux" not in file.read(1024)


def tree(root, package, target):
    """The crates of the program as (name, version), and what each one uses."""
    words = ["cargo", "tree", "--locked", "-p", package, "--target", target, "-e", "normal,no-proc-macro"]
    text = run(*words, "--prefix", "depth", "--format", " {p}", cwd=root)
    uses, above = {}, []
    for line in text.splitlines():
        depth, name, version = re.match(r"(\d+) (\S+) v(\S+)", line).groups()
        crate = (name, version)
        uses.setdefault(crate, set())
        del above[int(depth):]
        if above:
            uses[above[-1]].add(crate)
        above.append(crate)
    return uses


def licence(expression):
    """A licence as CycloneDX writes it. Old crates write a slash for "OR"."""
    return [{"expression": expression.replace("/", " OR ")}] if expression else []


def musl(libraries):
    """The version of the C library that comes with Rust's target."""
    with open(os.path.join(libraries, "self-contained", "libc.a"), "rb") as file:
        return re.search(rb"\x00(1\.\d+\.\d+)\x00", file.read()).group(1).decode()


def target_of(binary, root):
    """Rust's target for which a program was built."""
    host = re.search(r"^host: (\S+)$", run("rustc", "-vV", cwd=root), re.M).group(1)
    # A static program may be for another machine.
    return f"{machine.of(binary)}-unknown-linux-musl" if is_static(binary) else host


def described(root, target):
    """What cargo knows of each crate, by name and version."""
    metadata = json.loads(run("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target, cwd=root))
    return {(one["name"], one["version"]): one for one in metadata["packages"]}


def bundled(name, directory):
    """The C libraries that a crate brings, with their versions."""
    if name not in BUNDLED:
        return []
    library, _terms, header, pattern = BUNDLED[name]
    with open(os.path.join(directory, header), encoding="utf-8") as file:
        return [(library, ".".join(re.findall(pattern, file.read())))]


def runtime(root, target):
    """What every program for the target has in it, with the versions."""
    found = [("rust-std", run("rustc", "--version", cwd=root).split()[1])]
    if target.endswith("-musl"):
        found.append(("musl", musl(run("rustc", "--print", "target-libdir", "--target", target, cwd=root).strip())))
    return found


def main():
    package, binary = sys.argv[1:]
    root = os.environ["PACKAGE_ROOT"]
    target = target_of(binary, root)
    uses, crates = tree(root, package, target), described(root, target)
    # Python before 3.11 reads no TOML. Cargo writes this file itself, in this order.
    with open(os.path.join(root, "Cargo.lock"), encoding="utf-8") as file:
        found = re.findall(r'name = "(.+)"\nversion = "(.+)"\n(?:source = .+\n)?(?:checksum = "(.+)")?', file.read())
    locked = {(name, version): checksum for name, version, checksum in found}

    def purl(crate):
        return "pkg:cargo/%s@%s" % crate

    components, dependencies = [], []
    for crate in sorted(uses):
        name, version = crate
        about = crates[crate]
        depends = sorted(purl(one) for one in uses[crate])
        component = {"type": "library", "bom-ref": purl(crate), "name": name, "version": version}
        if locked[crate]:
            component["purl"] = purl(crate)
            component["hashes"] = [{"alg": "SHA-256", "content": locked[crate]}]
        component["licenses"] = licence(about["license"])
        if about["repository"]:
            component["externalReferences"] = [{"type": "vcs", "url": about["repository"]}]
        libraries = bundled(name, os.path.dirname(about["manifest_path"]))
        if name != package:
            components.append(component)
        else:
            own = {**component, "type": "application"}
            libraries = libraries + runtime(root, target)
        for library, of in libraries:
            reference = f"pkg:generic/{library}@{of}"
            component = {"type": "library", "bom-ref": reference, "name": library, "version": of, "purl": reference}
            components.append({**component, "licenses": licence(TERMS[library])})
            dependencies.append({"ref": reference})
            depends.append(reference)
        dependencies.append({"ref": purl(crate), "dependsOn": sorted(depends)})

    with open(binary, "rb") as file:
        own["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(file.read()).hexdigest()}]
    own["name"] = os.path.basename(binary)
    when = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": own},
        "components": sorted(components, key=lambda one: one["bom-ref"]),
        "dependencies": sorted(dependencies, key=lambda one: one["ref"]),
    }
    # The number of a bill is unique, and the same for the same content.
    content = json.dumps(bill, sort_keys=True).encode()
    number = uuid.UUID(bytes=hashlib.sha256(content).digest()[:16], version=5)
    bill["serialNumber"] = f"urn:uuid:{number}"
    json.dump(bill, sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
