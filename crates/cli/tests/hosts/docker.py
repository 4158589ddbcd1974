#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Compares docker.toml with Docker's default profile: `docker.py DEFAULT.JSON`, where the argument is a copy of
seccomp/default.json of https://github.com/moby/profiles. Prints each difference for x86-64 and AArch64, and exits with 1
if there is one."""

import json
import pathlib
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
TABLES = HERE.parents[2] / "syscall/src/data"
# The profile's names of the architectures, by those of the tables.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
ALLOW = "SCMP_ACT_ALLOW"


def calls():
    """The calls of both architectures."""
    known = {}
    for name, architecture in ARCHITECTURES.items():
        lines = (TABLES / f"{name}.calls").read_text().splitlines()
        words = [line.split() for line in lines if line and not line.startswith("#")]
        known[architecture] = {word for pair in words for word in pair if not word.isdigit()}
    return known


def of_profile(profile, known):
    """What the profile states: allowed calls, calls by capability, and calls that are allowed by an argument."""
    everywhere = set().union(*known.values())
    allowed, by_capability, by_argument, without_admin = set(), {}, set(), set()
    for rule in profile["syscalls"]:
        includes, names = rule.get("includes", {}), set(rule["names"]) & everywhere
        if "arches" in includes:
            names = set().union(*(names & known[one] for one in known if one in includes["arches"]))
        if not names or rule["action"] != ALLOW:
            continue
        if "args" in rule:
            of = without_admin if "caps" in rule.get("excludes", {}) else by_argument
            # Each rule has one test.
            [test] = rule["args"]
            of.update((name, test["index"], test["op"].removeprefix("SCMP_CMP_"), test["value"]) for name in names)
        elif "caps" in includes:
            [capability] = includes["caps"]
            by_capability.setdefault(capability, set()).update(names)
        else:
            allowed |= names
    return allowed, by_capability, by_argument, without_admin


def main():
    profile = json.loads(pathlib.Path(sys.argv[1]).read_text())
    allowed, by_capability, by_argument, without_admin = of_profile(profile, calls())
    ours = tomllib.loads((HERE / "docker.toml").read_text())
    differences = []

    def compare(what, theirs, own):
        differences.extend(f"{what}: {name} is missing" for name in sorted(theirs - own))
        differences.extend(f"{what}: {name} isn't in the profile" for name in sorted(own - theirs))

    compare("allowed", allowed, set(ours["allowed"].split()))
    for key, theirs in [("by_argument", by_argument), ("without_admin", without_admin)]:
        compare(key, theirs, {tuple(test) for test in ours[key]})
    capabilities = {name: set(text.split()) for name, text in ours["by_capability"].items()}
    for capability in sorted(by_capability.keys() | capabilities.keys()):
        compare(capability, by_capability.get(capability, set()), capabilities.get(capability, set()))
    print("\n".join(differences) or "no difference")
    return 1 if differences else 0


sys.exit(main())
