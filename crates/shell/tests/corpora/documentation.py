#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes documentation.txt: examples of common tools' use from the pages of tldr (https://tldr.sh).

    documentation.py CLONE_OF_TLDR [HALF] > documentation.txt

The examples are the tldr contributors', under CC BY 4.0. Placeholders become what stands in them; the second of two
spellings of an option is left out. Nothing else is changed. A hash takes every second
line, so that nobody has chosen.
"""
import hashlib
import re
import subprocess
import sys

clone = sys.argv[1]
# The other half is for looking at what the guard gets wrong.
HALF = int(sys.argv[2]) if len(sys.argv) > 2 else 0


def git(*words):
    return subprocess.run(["git", "-C", clone, *words], check=True, capture_output=True, text=True).stdout


names = [name for name in git("ls-tree", "-r", "--name-only", "HEAD").split("\n") if re.match(r"pages/(common|linux)/", name)]
wanted = "".join(f"HEAD:{name}\n" for name in names)
texts = subprocess.run(["git", "-C", clone, "cat-file", "--batch"], input=wanted, check=True, capture_output=True, text=True).stdout
# By the pages' own words, read before any verdict: what is made for attacks isn't a common tool, and what destroys or
# switches off isn't harmless.
ATTACKS = re.compile(
    r"attack|brute|penetration|pentest|exploit|crack|hack|vulnerab|security (scan|test|audit)|sniff|tunnel|reverse (proxy|shell)"
    r"|scan(s|ner|ning)? (of |the |for )*(network|port|internet|host|ip|web)|(network|port|web|arp) scanner|fuzz|post-exploitation|kerberos|spoof|wpa|ntlm"
    r"|active directory|guess|payload|metasploit|remote windows|john the ripper|instrumentation|password file|impacket|dos file ?system|on remote Windows|bad blocks|Creates? an? [\w./ ]*file ?system|edit an? [\w./ ]*file ?system",
    re.I,
)
HARM = re.compile(
    r"\b(delet|remov|eras|wip|destroy|format|overwrit|zero|drop|purg|prun|clean|flash|drain|kill|halt|reboot|shut|power|stop"
    r"|disabl|terminat|force|permissive|without (password|confirm|check|verif|valid)|insecure|create an? [\w./ ]*(file ?system|partition|encrypted)"
    r"|initializ|secret key|private key|all (users|interfaces)|anyone|backdoor|execute the (command|script)|from a URL|remote script|trust|capabilit"
    r"|kernel module|mitigation|write mode|partition table|emergency|rescue|empty password|install|boot entr|runlevel|access control)",
    re.I,
)
lines = set()
harmless, common = False, True
for line in texts.split("\n"):
    if line.startswith("# "):
        about = ""
    elif line.startswith("> "):
        about += line
        common = not ATTACKS.search(about)
    elif line.startswith("- "):
        harmless = common and not HARM.search(line)
    if not harmless or len(line) < 3 or line[0] != "`" or line[-1] != "`":
        continue
    line = line[1:-1]
    # `{{[-l|--long]}}`: one of both spellings.
    line = re.sub(r"\{\{\[([^|\]]*)\|[^\]]*\]\}\}", r"\1", line)
    # `{{one|other}}`: the first.
    line = re.sub(r"\{\{([^|{}]*)\|[^{}]*\}\}", r"\1", line)
    line = re.sub(r"\{\{(.*?)\}\}", r"\1", line)
    line = line.replace("path/to/", "files/")
    if line.isascii() and line.isprintable() and " " in line and hashlib.sha256(line.encode()).digest()[1] % 2 == HALF:
        lines.add(line)
print("\n".join(sorted(lines)))
