# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the npm packages as `npm pack` names them: `NAME-VERSION.tgz` and `SCOPE-PLATFORM-VERSION.tgz`."""
import gzip
import io
import json
import os
import pathlib
import sys
import tarfile

ROOT = pathlib.Path(os.environ["PACKAGE_ROOT"])
sys.path.insert(0, str(ROOT / "packaging"))
sys.dont_write_bytecode = True
import licences
import machine

LICENCES = ("LICENSE-APACHE", "LICENSE-MIT")
# The licences of the code of others, in the packages with a program.
OTHERS = "licences.txt.gz"
# Node's name of each machine.
MACHINES = {"x86_64": "x64", "aarch64": "arm64"}
VERSION, PUBLISHED = os.environ["PACKAGE_VERSION"], os.environ["PUBLISHED"]
SCOPE = f"@{PUBLISHED}"


def manifest(name, more):
    return {
        "name": name,
        "version": VERSION,
        "description": os.environ["SUMMARY"],
        "license": os.environ["LICENCE"],
        "repository": {"type": "git", "url": f"git+{os.environ['REPOSITORY']}.git"},
        **more,
    }


def pack(name, about, files):
    """The same bytes for the same files: order, times, owners and modes are stated."""
    output = pathlib.Path(os.environ["PACKAGE_OUTPUT"])
    path = output / f"{name.replace('@', '').replace('/', '-')}-{VERSION}.tgz"
    readme = f"# {name}\n\n{about['description']}. See {os.environ['REPOSITORY']}.\n"
    files = {
        "package.json": (json.dumps(about, indent=2).encode() + b"\n", 0o644),
        "README.md": (readme.encode(), 0o644),
        **{file: ((ROOT / file).read_bytes(), 0o644) for file in LICENCES},
        **files,
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for file, (content, mode) in sorted(files.items()):
            member = tarfile.TarInfo(f"package/{file}")
            member.size, member.mode, member.mtime = len(content), mode, int(os.environ["SOURCE_DATE_EPOCH"])
            archive.addfile(member, io.BytesIO(content))
    partial = path.with_name(path.name + ".part")
    partial.write_bytes(gzip.compress(packed.getvalue(), compresslevel=9, mtime=0))
    partial.replace(path)
    print(path.name)


def platform(directory, expected=None):
    """Packs the program in `directory`. Returns the name of its package."""
    program = pathlib.Path(directory) / "palisade"
    target = machine.of(program)
    if expected not in (None, target):
        raise SystemExit(f"packaging: error: {program} is for {target}, not for {expected}")
    cpu = MACHINES[target]
    name = f"{SCOPE}/linux-{cpu}"
    # No field `libc`: a static program runs with each, and package managers that guess wrong would leave it out.
    # Yarn keeps packages packed, and a packed program can't be executed: `preferUnplugged`.
    about = manifest(name, {"os": ["linux"], "cpu": [cpu], "files": ["bin/palisade", OTHERS], "preferUnplugged": True})
    others = gzip.compress(licences.text("palisade-cli", program).encode(), compresslevel=9, mtime=0)
    pack(name, about, {"bin/palisade": (program.read_bytes(), 0o755), OTHERS: (others, 0o644)})
    return name


platforms = [platform(os.environ["PACKAGE_BINARIES"])]
if os.environ.get("PACKAGE_BINARIES_ARM64"):
    platforms.append(platform(os.environ["PACKAGE_BINARIES_ARM64"], "aarch64"))
launcher = manifest(PUBLISHED, {
    "bin": {"palisade": "palisade.js"},
    "files": ["palisade.js"],
    "engines": {"node": ">=14.18"},
    "optionalDependencies": {name: VERSION for name in sorted(set(platforms))},
})
pack(PUBLISHED, launcher, {"palisade.js": ((ROOT / "packaging/npm/palisade.js").read_bytes(), 0o755)})
