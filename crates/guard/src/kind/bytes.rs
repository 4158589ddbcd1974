// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recognizes kinds by the first bytes.
//!
//! [`kind`] covers the unambiguous ones, for which libmagic gives the same answer hundreds of times slower. [`likely`]
//! covers those where libmagic examines more of the file; it is used only without libmagic.

/// A kind and the bytes at the beginning of its files.
struct Magic {
    start: &'static [u8],
    kind: &'static str,
}

const fn magic(start: &'static [u8], kind: &'static str) -> Magic {
    Magic { start, kind }
}

const JAR: &str = "application/java-archive";

const CERTAIN: &[Magic] = &[
    magic(b"\x1f\x8b", "application/gzip"),
    magic(b"\x89PNG\x0d\x0a\x1a\x0a", "image/png"),
    magic(b"BZh", "application/x-bzip2"),
    magic(b"\xfd7zXZ\0", "application/x-xz"),
    magic(b"\x28\xb5\x2f\xfd", "application/zstd"),
    magic(b"\xde\x12\x04\x95", "application/x-gettext-translation"),
    magic(b"\x95\x04\x12\xde", "application/x-gettext-translation"),
    magic(b"!<arch>\n__.SYMDEF", "application/x-archive"),
    magic(b"\x93NUMPY", "application/x-numpy-data"),
    magic(b"Caml1999X", "application/x-bytecode.ocaml"),
    magic(b"Caml1999O", "application/x-bytecode.ocaml"),
    magic(b"Caml1999A", "application/x-bytecode.ocaml"),
];

const LIKELY: &[Magic] = &[
    magic(b"PK\x03\x04", "application/zip"),
    magic(b"PK\x05\x06", "application/zip"),
    magic(b"!<arch>\ndebian-binary", "application/vnd.debian.binary-package"),
    magic(b"!<arch>\n", "application/x-archive"),
    magic(b"GIF8", "image/gif"),
    magic(b"\xff\xd8\xff", "image/jpeg"),
    magic(b"%PDF-", "application/pdf"),
    magic(b"%!", "application/postscript"),
    magic(b"SQLite format 3\0", "application/vnd.sqlite3"),
    magic(b"OggS", "audio/ogg"),
    magic(b"wOFF", "font/woff"),
    magic(b"wOF2", "font/woff2"),
    magic(b"OTTO", "application/vnd.ms-opentype"),
    magic(b"\0\x01\0\0\0", "font/sfnt"),
    magic(b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    magic(b"\x1a\x01", "application/x-terminfo"),
    magic(b"\x1e\x02", "application/x-terminfo2"),
    magic(b"MZ", "application/x-dosexec"),
    magic(b"\0asm", "application/wasm"),
    magic(b"JM\x01\0", "application/x-java-jmod"),
    magic(b"/* XPM */", "image/x-xpixmap"),
];

/// The kind, if it is unambiguous.
pub fn kind(head: &[u8]) -> Option<&'static str> {
    if is_python(head) {
        return Some("application/x-bytecode.python");
    }
    if is_emacs(head) {
        return Some("application/x-elc");
    }
    if is_java_class(head) {
        return Some("application/x-java-applet");
    }
    // libmagic recognizes these by the directory at the archive's end, if at all.
    if head.starts_with(b"PK\x03\x04") && zip(head) == JAR {
        return Some(JAR);
    }
    CERTAIN.iter().find(|magic| head.starts_with(magic.start)).map(|magic| magic.kind)
}

/// The probable kind. libmagic also distinguishes what an archive contains or which program made a file.
pub fn likely(head: &[u8]) -> Option<&'static str> {
    if head.starts_with(b"PK\x03\x04") {
        return Some(zip(head));
    }
    if let Some(wave) = head.strip_prefix(b"RIFF").and_then(|riff| riff.get(4..8)) {
        return Some(match wave {
            b"WAVE" => "audio/x-wav",
            b"WEBP" => "image/webp",
            _ => "application/octet-stream",
        });
    }
    if head.get(257..262) == Some(b"ustar") {
        return Some("application/x-tar");
    }
    LIKELY.iter().find(|magic| head.starts_with(magic.start)).map(|magic| magic.kind)
}

/// Compiled Python modules begin with a number for the version, and with a line end.
///
/// Numbers: 3.0 to 3.x from 3000 on, in steps that never left the range below 4000; before that, 50428 and more (1.6,
/// 2.0, …) and 62011 to 62211 (2.3 to 2.7). None of these is two letters.
fn is_python(head: &[u8]) -> bool {
    let [low, high, b'\r', b'\n', ..] = head else { return false };
    matches!(u16::from_le_bytes([*low, *high]), 3000..=3999 | 50428 | 50823 | 60202 | 60717 | 62011..=62211)
}

/// Compiled Emacs Lisp: `;ELC` and a version.
fn is_emacs(head: &[u8]) -> bool {
    matches!(head, [b';', b'E', b'L', b'C', version, 0, 0, 0, ..] if (0x0a..0xc8).contains(version))
}

/// Java classes share their first four bytes with programs for several kinds of Macs. In those the number of kinds
/// follows, which is never above 42; a class file has its version (at least 45) in the same place.
fn is_java_class(head: &[u8]) -> bool {
    matches!(head, [0xca, 0xfe, 0xba, 0xbe, _, _, high, low, ..] if u16::from_be_bytes([*high, *low]) >= 45)
}

/// The kind of an archive by its first file.
fn zip(head: &[u8]) -> &'static str {
    let length =
        |at: usize| head.get(at..at + 2).map_or(0, |two| usize::from(u16::from_le_bytes([two[0], two[1]])));
    let (name, extra) = (length(26), length(28));
    // Java's `jar` marks its archives in the first file's extra field; other tools don't, but also begin with the
    // manifest.
    if extra >= 4 && head.get(30 + name..32 + name) == Some(b"\xfe\xca") {
        return JAR;
    }
    let first = head.get(30..30 + name).unwrap_or_default();
    if first.starts_with(b"META-INF/") {
        return JAR;
    }
    if first == b"mimetype" {
        return match head.get(38 + extra..) {
            Some(rest) if rest.starts_with(b"application/vnd.oasis.opendocument.text-template") => {
                "application/vnd.oasis.opendocument.text-template"
            }
            Some(rest) if rest.starts_with(b"application/vnd.oasis.opendocument.text") => {
                "application/vnd.oasis.opendocument.text"
            }
            Some(rest) if rest.starts_with(b"application/epub+zip") => "application/epub+zip",
            _ => "application/zip",
        };
    }
    "application/zip"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_languages() {
        assert_eq!(kind(b"\xa7\x0d\x0d\x0a\0\0\0\0"), Some("application/x-bytecode.python"));
        assert_eq!(kind(b"\x2b\x0e\x0d\x0a\0\0\0\0"), Some("application/x-bytecode.python"));
        assert_eq!(kind(b"\x03\xf3\x0d\x0a"), Some("application/x-bytecode.python"));
        assert_eq!(kind(b"ab\r\n"), None);
        assert_eq!(kind(b";ELC\x17\0\0\0\n"), Some("application/x-elc"));
        assert_eq!(kind(b"\xca\xfe\xba\xbe\0\0\0\x3d"), Some("application/x-java-applet"));
        assert_eq!(kind(b"\xca\xfe\xba\xbe\0\0\0\x02"), None);
        let zip = |name: &[u8]| {
            [b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09\0\0\0", name].concat()
        };
        assert_eq!(kind(&zip(b"META-INF/")), Some("application/java-archive"));
        assert_eq!(kind(&zip(b"anything/")), None);
    }

    #[test]
    fn any_bytes_are_taken() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = (kind(bytes), likely(bytes), zip(bytes));
        });
    }
}
