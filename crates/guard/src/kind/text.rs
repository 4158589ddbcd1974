// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recognizes text without a shebang by its content, where libmagic isn't available.
//!
//! Rules ask whether a file is a program in some language, so this module looks for a few marks that such programs have
//! and other text doesn't. Names are those that libmagic gives: `text/x-script.python` for Python without a shebang.

/// How much is searched for marks, in bytes, as in libmagic's own rules.
const SEARCHED: usize = 8 << 10;

/// The kind of a file that no other check recognized: a language, a format of text, `text/plain`, or bytes.
pub fn kind(head: &[u8]) -> &'static str {
    if !is_text(head) {
        return "application/octet-stream";
    }
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let searched = &head[..head.len().min(SEARCHED)];
    let text = Text { all: head, searched };
    MARKS.iter().find(|(_, is_it)| is_it(&text)).map_or("text/plain", |(kind, _)| kind)
}

/// Words at the beginning of lines of programs, in the languages that rules ask for.
const BEGINNINGS: &[&str] = &[
    "\"\"\"",
    "\"use",
    "#!",
    "%",
    "'''",
    "'use",
    "(",
    "/*",
    "//",
    ";",
    "<",
    "=",
    "@",
    "BEGIN",
    "\\",
    "add",
    "chain",
    "change",
    "class",
    "const",
    "def",
    "delete",
    "divert",
    "dnl",
    "end",
    "exec",
    "export",
    "flush",
    "for",
    "from",
    "func",
    "function",
    "global",
    "if",
    "import",
    "include",
    "interface",
    "let",
    "library",
    "local",
    "m4",
    "module",
    "my",
    "namespace",
    "oo::",
    "our",
    "package",
    "print",
    "private",
    "probe",
    "proc",
    "protected",
    "public",
    "puts",
    "raise",
    "read",
    "require",
    "return",
    "set",
    "static",
    "sub",
    "switch",
    "table",
    "try",
    "undefine",
    "use",
    "var",
    "while",
    "with",
];

/// Whether text may be a program in a language that rules ask for, as far as libmagic would say so. Binary content may
/// be anything. False for most data, prose and settings.
pub fn may_be_program(head: &[u8]) -> bool {
    if !is_text(head) || std::str::from_utf8(head).is_err_and(|error| error.error_len().is_some()) {
        return true;
    }
    let begins = |line: &[u8]| BEGINNINGS.iter().any(|word| line.starts_with(word.as_bytes()));
    let has = |word: &&str| head.windows(word.len()).any(|window| window == word.as_bytes());
    head.split(|byte| *byte == b'\n').any(|line| begins(line.trim_ascii_start()))
        || ["function", "require", "<-", "<?", "=>"].iter().any(has)
}

/// Has no bytes that text doesn't have; UTF-16 with its mark is text, too.
fn is_text(head: &[u8]) -> bool {
    let utf16 = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
    utf16 || !head.iter().any(|byte| matches!(byte, 0..=6 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f))
}

struct Text<'a> {
    all: &'a [u8],
    searched: &'a [u8],
}

impl<'a> Text<'a> {
    fn lines(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.searched.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
    }

    fn starts(&self, with: &str) -> bool {
        starts(self.searched.trim_ascii_start(), with)
    }

    fn has(&self, what: &[u8]) -> bool {
        self.searched.windows(what.len()).any(|window| window == what)
    }

    fn has_line(&self, is_it: impl Fn(&[u8]) -> bool) -> bool {
        self.lines().any(is_it)
    }
}

/// Ignores case.
fn starts(text: &[u8], with: &str) -> bool {
    text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
}

type Mark = (&'static str, fn(&Text<'_>) -> bool);

/// The more certain marks come first.
const MARKS: &[Mark] = &[
    ("image/svg+xml", |text| {
        (text.starts("<?xml") || text.starts("<!DOCTYPE svg") || text.starts("<svg")) && text.has(b"<svg")
    }),
    ("text/html", is_html),
    ("text/xml", |text| text.starts("<?xml")),
    ("text/x-php", |text| text.starts("<?php") || text.has_line(|line| starts(line, "<?php"))),
    ("text/rtf", |text| text.starts("{\\rtf")),
    ("application/json", is_json),
    ("text/troff", is_troff),
    ("text/x-perl", is_perl),
    ("text/x-ruby", is_ruby),
    ("text/x-script.python", is_python),
    ("text/x-c", is_c),
    ("text/x-java", is_java),
    ("text/x-m4", |text| text.has_line(|line| line == b"dnl" || line.starts_with(b"dnl "))),
    ("text/x-lisp", |text| text.starts("(def") || text.starts(";;")),
    ("text/x-tex", |text| {
        text.has_line(|line| starts(line, "\\documentclass") || starts(line, "\\documentstyle"))
    }),
    ("text/x-makefile", |text| {
        text.has_line(|line| line.starts_with(b".PHONY") || line.starts_with(b"# Makefile"))
    }),
    ("application/javascript", is_javascript),
];

fn is_html(text: &Text<'_>) -> bool {
    ["<!doctype html", "<html", "<head", "<title", "<body"].iter().any(|tag| text.starts(tag))
}

fn is_troff(text: &Text<'_>) -> bool {
    [".\\\"", "'\\\"", "'.\\\"", ".TH ", ".Dd ", ".SH "]
        .iter()
        .any(|start| text.searched.starts_with(start.as_bytes()))
}

fn is_perl(text: &Text<'_>) -> bool {
    text.has_line(|line| {
        let statement =
            |word: &[u8]| line.strip_prefix(word).is_some_and(|rest| rest.trim_ascii_end().ends_with(b";"));
        statement(b"use strict")
            || statement(b"use warnings")
            || statement(b"package ") && line.contains(&b':')
            || line == b"=head1 NAME"
            || statement(b"use vars ")
    })
}

fn is_ruby(text: &Text<'_>) -> bool {
    let requires = text.has_line(|line| {
        line.starts_with(b"require '")
            || line.starts_with(b"require \"")
            || line.starts_with(b"require_relative ")
    });
    let ends = text.has_line(|line| line.trim_ascii() == b"end");
    let defines = text.has_line(|line| {
        let line = line.trim_ascii_start();
        line.starts_with(b"module ") || line.starts_with(b"class ") || line.starts_with(b"def ")
    });
    !text.has_line(|line| {
        line.trim_ascii_end().ends_with(b":") && line.trim_ascii_start().starts_with(b"def ")
    }) && (requires && (ends || defines) || ends && defines)
}

fn is_python(text: &Text<'_>) -> bool {
    text.has_line(|line| {
        let line = line.trim_ascii_end();
        let inner = line.trim_ascii_start();
        let ends = inner.ends_with(b":");
        let from = inner.strip_prefix(b"from ").is_some_and(|rest| contains(rest, b" import "));
        let import = line.strip_prefix(b"import ").is_some_and(|rest| {
            rest.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._, ".contains(byte))
        });
        let defines = inner.starts_with(b"def ") && (ends || contains(inner, b"("));
        let class = inner.starts_with(b"class ") && ends;
        let handled = inner.starts_with(b"except") && ends || inner == b"try:" || inner == b"finally:";
        from || import || defines || class || handled || inner.starts_with(b"if __name__ ")
    }) || text.has(b"\"\"\"")
}

fn is_c(text: &Text<'_>) -> bool {
    text.has_line(|line| {
        let line = line.trim_ascii_start();
        let Some(directive) = line.strip_prefix(b"#") else { return false };
        let directive = directive.trim_ascii_start();
        [&b"include "[..], b"include<", b"ifndef ", b"ifdef ", b"define ", b"pragma ", b"endif"]
            .iter()
            .any(|word| directive.starts_with(word))
    })
}

fn is_java(text: &Text<'_>) -> bool {
    text.has_line(|line| {
        let line = line.trim_ascii_end();
        line.ends_with(b";")
            && (line.starts_with(b"import java")
                || line.starts_with(b"package ")
                || line.starts_with(b"import org."))
    })
}

fn is_javascript(text: &Text<'_>) -> bool {
    text.has_line(|line| {
        let line = line.trim_ascii_start();
        let declared = [&b"const "[..], b"let ", b"var "].iter().any(|word| line.starts_with(word));
        line.starts_with(b"'use strict'")
            || line.starts_with(b"\"use strict\"")
            || line.starts_with(b"module.exports")
            || line.starts_with(b"exports.")
            || declared && contains(line, b"require(")
    })
}

/// A complete object or array; libmagic requires that all of it is well-formed.
fn is_json(text: &Text<'_>) -> bool {
    let inner = text.all.trim_ascii();
    let (Some(first), Some(last)) = (inner.first(), inner.last()) else { return false };
    let second = inner[1..].trim_ascii_start().first();
    match (first, last) {
        (b'{', b'}') => matches!(second, Some(b'"' | b'}')),
        (b'[', b']') => {
            matches!(second, Some(b'"' | b'{' | b'[' | b']' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n'))
        }
        _ => false,
    }
}

fn contains(line: &[u8], what: &[u8]) -> bool {
    line.windows(what.len()).any(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_without_shebang() {
        for (text, kind) in [
            ("import os\nprint(os)\n", "text/x-script.python"),
            ("# comment\nfrom a.b import c\n", "text/x-script.python"),
            ("def f(a, b):\n    return a\n", "text/x-script.python"),
            ("use strict;\nprint 1;\n", "text/x-perl"),
            ("require 'set'\nmodule A\nend\n", "text/x-ruby"),
            ("<?php echo 1;\n", "text/x-php"),
            ("#include <stdio.h>\nint main(void);\n", "text/x-c"),
            ("package a.b;\nclass C {}\n", "text/x-java"),
            ("'use strict';\nmodule.exports = 1;\n", "application/javascript"),
            ("<?xml version=\"1.0\"?><a/>", "text/xml"),
            ("<!DOCTYPE html><p>", "text/html"),
            ("{\"a\": [1, 2]}\n", "application/json"),
            (".TH LS 1\n", "text/troff"),
            ("Dear reader,\n", "text/plain"),
        ] {
            assert_eq!(super::kind(text.as_bytes()), kind, "{text:?}");
        }
        assert_eq!(super::kind(b"a\0b"), "application/octet-stream");
    }

    #[test]
    fn any_bytes_are_taken() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = kind(bytes);
        });
    }
}
