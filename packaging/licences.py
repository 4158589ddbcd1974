#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Prints the licence texts of all code in a program: licences.py PACKAGE BINARY

PACKAGE is the crate that the program is built from. The parts are those of the bill of materials (sbom.py): crates, the C
libraries that two crates bring, Rust's standard library and musl. Each text is there once, behind the parts that it is for. A
part without a text is an error. Texts that their parts don't bring are in packaging/licences/NAME. The same sources give the
same bytes.
"""

import glob
import html
import os
import re
import sys

sys.dont_write_bytecode = True
import sbom

ROOT = os.environ["PACKAGE_ROOT"]
# How files with licences are called.
NAMED = re.compile(r"(un)?licen[sc]es?|copying|copyright|notice", re.I)
TEXTS = (".md", ".txt", ".html")
# Where the texts of a bundled C library are, below the crate that brings it.
BUNDLED = {"libbpf": "libbpf"}
RULE = "=" * 78
# The shortest text is SQLite's, of 44 words.
LEAST = 30


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def is_text(name):
    """Whether a file with this name has a licence, such as LICENSE-MIT, COPYING.LESSER or license.txt."""
    stem = re.split(r"[-_. ]", name, maxsplit=1)[0]
    end = os.path.splitext(name)[1].lower()
    return bool(NAMED.fullmatch(stem)) and (end in TEXTS or not re.fullmatch(r"\.[a-z]{1,4}", end))


def texts_of(directory):
    """The licence files of a directory, and of its directory of licences, as (name, text)."""
    found = []
    for name in sorted(os.listdir(directory) if os.path.isdir(directory) else []):
        path = os.path.join(directory, name)
        if os.path.isdir(path) and NAMED.fullmatch(name):
            found += [(f"{name}/{file}", read(os.path.join(path, file))) for file in sorted(os.listdir(path))]
        elif os.path.isfile(path) and is_text(name):
            found.append((name, read(path)))
    return found


def kept(name):
    """The texts that are kept here for a part."""
    return texts_of(os.path.join(ROOT, "packaging/licences", name))


def crate_texts(about):
    directory = os.path.dirname(about["manifest_path"])
    found = texts_of(directory)
    stated = about["license_file"]
    if stated and stated not in dict(found):
        found.append((stated, read(os.path.join(directory, stated))))
    # The crates of the checkout have the texts of the checkout.
    return found or (texts_of(ROOT) if not about["source"] else kept(about["name"]))


def sqlite_texts(directory):
    """SQLite is in the public domain: the first comment of its header says so."""
    header = read(os.path.join(directory, "sqlite3/sqlite3.h"))
    blessing = re.search(r"(The author disclaims.*?)\*{20,}", header, re.S).group(1)
    return [("sqlite3.h", re.sub(r"^\*\* ?", "", blessing, flags=re.M))]


def standard_library_texts():
    """What a toolchain says of Rust's standard library and of the crates in it: a page with all texts, and the licences."""
    sysroot = sbom.run("rustc", "--print", "sysroot", cwd=ROOT).strip()
    directory = os.path.join(sysroot, "share/doc/rust")
    page = os.path.join(directory, "COPYRIGHT-library.html")
    if not os.path.isfile(page):
        sys.exit(f"licences: error: this toolchain lacks the licences of Rust's standard library: no file {page}\n"
                 "hint: rustup toolchain install stable")
    written = read(page)
    blocks = re.findall(r"<summary><code>(.*?)</code></summary>\s*<pre>(.*?)</pre>", written, re.S)
    found = [(html.unescape(name), html.unescape(text)) for name, text in blocks]
    # What is left are the names of authors, without the texts of the crates.
    words = re.sub(r"<details>.*?</details>|<head>.*?</head>", "", written, flags=re.S)
    words = html.unescape(re.sub(r"<[^>]+>", "", words))
    words = re.sub(r"\n\s*\n\s*", "\n\n", re.sub(r"[ \t]+", " ", words))
    licences = [(os.path.basename(path), read(path)) for path in sorted(glob.glob(os.path.join(directory, "licenses/*.txt")))]
    # The compiler's other licences, such as those of its documentation, are for no code in a program.
    of_code = {"Apache-2.0.txt", "LLVM-exception.txt", "MIT.txt", "NCSA.txt", "Unicode-3.0.txt"}
    return [("COPYRIGHT-library.html", words), *found, *(one for one in licences if one[0] in of_code)]


def parts(package, binary):
    """Each part as (name, version, texts)."""
    target = sbom.target_of(binary, ROOT)
    described = sbom.described(ROOT, target)
    for name, version in sorted(sbom.tree(ROOT, package, target)):
        about = described[name, version]
        directory = os.path.dirname(about["manifest_path"])
        yield name, version, crate_texts(about)
        for library, of in sbom.bundled(name, directory):
            if library == "sqlite":
                yield library, of, sqlite_texts(directory)
            else:
                yield library, of, texts_of(os.path.join(directory, BUNDLED[library]))
    for library, of in sbom.runtime(ROOT, target):
        yield library, of, standard_library_texts() if library == "rust-std" else kept(library)


def plain(text):
    return "\n".join(line.rstrip() for line in text.replace("\f", "\n").splitlines()).strip("\n")


def text(package, binary):
    """The licence texts of all code in a program."""
    texts, users, lacking = {}, {}, []
    for name, version, found in parts(package, binary):
        found = [(file, plain(content)) for file, content in found if content.strip()]
        # A file may only name the licence.
        if all(len(content.split()) < LEAST for _file, content in found):
            lacking.append(f"{name} {version}")
        for file, content in found:
            key = " ".join(content.split())
            texts.setdefault(key, content)
            line = f"{name} {version}: {file}"
            if line not in users.setdefault(key, []):
                users[key].append(line)
    if lacking:
        names = " ".join(sorted({part.split()[0] for part in lacking}))
        sys.exit(f"licences: error: there is no licence text of {', '.join(lacking)}\n"
                 f"hint: ls packaging/licences   # put the text of {names} into a directory of that name")
    blocks = ["\n".join([RULE, *sorted(users[key]), RULE, "", texts[key], ""]) for key in texts]
    blocks.sort()
    head = f"Licences of the code in {os.path.basename(binary)}: each text follows the parts that it is for.\n\n"
    return head + "\n".join(blocks)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(text(*sys.argv[1:]))
