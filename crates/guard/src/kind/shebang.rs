// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recognizes scripts that name their interpreter in their first line.
//!
//! Only the interpreter's name without its directory and version counts, because that program will read the script:
//! `#!/usr/bin/python3.11 -I`, `#! /opt/x/perl -w`, `#!/usr/bin/env -S FOO=1 ruby --jit`. The kernel reads only the
//! first 256 bytes; here a line may be longer, because its first word is within these bytes anyway.

/// How much of the first line is read, in bytes.
const LINE: usize = 512;

/// A language: the stems of its interpreters' names, and the MIME type of its scripts.
struct Language {
    kind: &'static str,
    stems: &'static [&'static str],
}

/// The languages whose interpreters are known by name. Only a version may follow a stem (`python3.11`, `guile-3.0`,
/// `ruby_3`).
const LANGUAGES: &[Language] = &[
    Language {
        kind: "text/x-shellscript",
        stems: &[
            "sh",
            "bash",
            "rbash",
            "dash",
            "ash",
            "ksh",
            "rksh",
            "mksh",
            "lksh",
            "pdksh",
            "oksh",
            "loksh",
            "yash",
            "posh",
            "zsh",
            "rzsh",
            "csh",
            "tcsh",
            "bcsh",
            "fish",
            "sash",
            "hush",
            "openrc-run",
        ],
    },
    Language { kind: "text/x-plan9-shellscript", stems: &["rc"] },
    Language { kind: "text/x-execline", stems: &["execlineb"] },
    Language {
        kind: "text/x-python",
        stems: &["python", "pypy", "platform-python", "jython", "micropython", "graalpy", "ipython"],
    },
    Language { kind: "text/x-perl", stems: &["perl", "raku"] },
    Language { kind: "text/x-ruby", stems: &["ruby", "jruby", "truffleruby", "mruby"] },
    Language { kind: "text/x-luatex", stems: &["texlua", "luatex", "lualatex", "texluajit", "luahbtex"] },
    Language { kind: "text/x-lua", stems: &["lua", "luajit"] },
    Language { kind: "text/x-php", stems: &["php", "php-cgi", "hhvm"] },
    Language {
        kind: "application/javascript",
        stems: &["node", "nodejs", "gjs", "cjs", "deno", "bun", "qjs", "d8", "js"],
    },
    Language { kind: "text/x-script.guile", stems: &["guile"] },
    Language { kind: "text/x-tcl", stems: &["tclsh", "wish", "jimsh", "tcl", "expect", "expectk"] },
    Language { kind: "text/x-awk", stems: &["awk", "mawk", "original-awk"] },
    Language { kind: "text/x-gawk", stems: &["gawk", "pgawk", "dgawk"] },
    Language { kind: "text/x-nawk", stems: &["nawk"] },
    Language { kind: "text/x-nftables", stems: &["nft"] },
    Language { kind: "text/x-systemtap", stems: &["stap"] },
    Language { kind: "text/x-bpftrace", stems: &["bpftrace"] },
    Language { kind: "text/x-R", stems: &["Rscript", "R", "littler"] },
    Language { kind: "text/x-m4", stems: &["m4"] },
    Language { kind: "text/x-makefile", stems: &["make", "gmake"] },
    Language { kind: "text/x-java", stems: &["java", "jshell"] },
    Language { kind: "text/x-lisp", stems: &["sbcl", "clisp", "ecl", "emacs"] },
    Language { kind: "application/x-bytecode.ocaml", stems: &["ocamlrun"] },
];

/// The kind of a script, if the first bytes name a known interpreter.
///
/// A byte order mark before the `#!` is skipped: the kernel won't execute such a script, but a shell will.
pub fn kind(head: &[u8]) -> Option<&'static str> {
    let name = interpreter(head)?;
    LANGUAGES
        .iter()
        .find(|language| language.stems.iter().any(|stem| is_version_of(name, stem)))
        .map(|found| found.kind)
}

/// The name of the interpreter that will read the script, without directory. For `env` or `busybox`, it is the program
/// that these start.
pub fn interpreter(head: &[u8]) -> Option<&[u8]> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let line = head.strip_prefix(b"#!")?;
    let line = &line[..line.len().min(LINE)];
    let end = line.iter().position(|byte| matches!(byte, b'\n' | b'\r' | 0)).unwrap_or(line.len());
    let mut words = line[..end].split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let mut name = base(words.next()?);
    if name == b"env" {
        name = base(started_by_env(&mut words)?);
    }
    if name == b"busybox" || name == b"toybox" {
        name = words.next().map_or(name, base);
    }
    Some(name)
}

/// Finds the program that `env` starts, in its arguments: options and assignments come first. With `-S`, the rest is
/// words as in a shell, whose quotes are removed. Without `-S` the kernel passes the rest as one argument, so that
/// `env` looks for a program with that long name; the function still returns the program that was meant.
fn started_by_env<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    while let Some(word) = words.next() {
        let word = word.strip_prefix(b"--split-string=").unwrap_or(word);
        let word = split_string(word).unwrap_or(word);
        match word {
            b"" | b"-" | b"--" => {}
            b"-u" | b"--unset" | b"-C" | b"--chdir" | b"-a" | b"--argv0" => drop(words.next()),
            option if option.starts_with(b"-") => {}
            assignment if assignment.contains(&b'=') => {}
            program => return Some(unquoted(program)),
        }
    }
    None
}

/// The text after `-S` in the same word: `-Spython3`, `-vSpython3`, `-iS`.
fn split_string(word: &[u8]) -> Option<&[u8]> {
    let letters = word.strip_prefix(b"-").filter(|rest| !rest.starts_with(b"-"))?;
    let at = letters.iter().position(|letter| *letter == b'S')?;
    letters[..at].iter().all(|letter| matches!(letter, b'v' | b'i' | b'0')).then(|| &letters[at + 1..])
}

fn unquoted(word: &[u8]) -> &[u8] {
    let word = word.strip_prefix(b"\"").or_else(|| word.strip_prefix(b"'")).unwrap_or(word);
    word.strip_suffix(b"\"").or_else(|| word.strip_suffix(b"'")).unwrap_or(word)
}

/// The name without the directory.
fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Is it the stem, or the stem and a version?
fn is_version_of(name: &[u8], stem: &str) -> bool {
    let Some(rest) = name.strip_prefix(stem.as_bytes()) else { return false };
    let version = rest.strip_prefix(b"-").or_else(|| rest.strip_prefix(b"_")).unwrap_or(rest);
    rest.is_empty()
        || version.first().is_some_and(u8::is_ascii_digit)
        || version == b"dbg"
        || version == b"debug"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_by_their_interpreters() {
        for (line, kind) in [
            ("#!/bin/sh", "text/x-shellscript"),
            ("#!/bin/sh -e\n", "text/x-shellscript"),
            ("#!  /usr/bin/bash\n", "text/x-shellscript"),
            ("#!\t/bin/ksh93\n", "text/x-shellscript"),
            ("#!/bin/busybox sh\n", "text/x-shellscript"),
            ("\u{feff}#!/bin/sh\n", "text/x-shellscript"),
            ("#!/usr/bin/python3.11 -I\n", "text/x-python"),
            ("#!/usr/bin/env python3\n", "text/x-python"),
            ("#!/usr/bin/env -S python3 -u\n", "text/x-python"),
            ("#!/usr/bin/env -Spython3 -u\n", "text/x-python"),
            ("#!/usr/bin/env -vS 'python3' -u\n", "text/x-python"),
            ("#!/usr/bin/env --split-string=python3 -u\n", "text/x-python"),
            ("#!/usr/bin/env -i -u HOME A=b python3\n", "text/x-python"),
            ("#!/usr/bin/python3-dbg\r\n", "text/x-python"),
            ("#!python\n", "text/x-python"),
            ("#! /usr/bin/perl5.36.0 -w\n", "text/x-perl"),
            ("#!/usr/bin/lua5.4\n", "text/x-lua"),
            ("#!/usr/bin/luajit\n", "text/x-lua"),
            ("#!/usr/bin/texlua\n", "text/x-luatex"),
            ("#!/usr/bin/node\n", "application/javascript"),
            ("#!/usr/bin/guile-3.0\n", "text/x-script.guile"),
            ("#!/usr/bin/awk -f\n", "text/x-awk"),
            ("#!/usr/sbin/nft -f\n", "text/x-nftables"),
            ("#!/usr/bin/Rscript --vanilla\n", "text/x-R"),
        ] {
            assert_eq!(super::kind(line.as_bytes()), Some(kind), "{line:?}");
        }
    }

    #[test]
    fn others_are_none() {
        for line in [
            "",
            "#",
            "#!",
            "#! \n/bin/sh",
            "#!/bin/shred\n",
            "#!/usr/bin/env\n",
            "#!/usr/bin/env -S\n",
            "# !/bin/sh",
            " #!/bin/sh",
            "#!/bin/cat\n",
            "#!/bin/pythonic\n",
        ] {
            assert_eq!(super::kind(line.as_bytes()), None, "{line:?}");
        }
    }

    #[test]
    fn any_bytes_are_taken() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let with: Vec<u8> = [b"#!/usr/bin/env ", bytes].concat();
            let _ = (kind(bytes), kind(&with));
            if let Some(name) = interpreter(&with) {
                assert!(!name.contains(&b'/') && !name.contains(&b'\n'));
            }
        });
    }
}
