// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The import filter: which files of a source are imported.
//!
//! The syntax is that of fapolicyd-filter.conf(5), because its users bring their own. A line is `+` or `-`, a space and
//! a pattern. A line that is indented by one more space continues where the pattern above it ended. Lines are tried
//! from top to bottom, and deeper lines before their parent's own sign counts:
//!
//! - a pattern that ends in `/` is a directory, and its sign counts for everything below that no deeper line matches
//! - any other pattern is a file; if it has deeper lines and none matches, the search continues behind it
//! - `*` and `?` match `/`, too; a directory with wildcards matches as many components as it has slashes
//! - a path that no line matches isn't imported

use super::entry::is_real_path;

/// How deep lines may be indented.
const DEEPEST: usize = 64;

/// A filter can't be read: the line, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A line begins with something else.
    #[error("line {line} of the import filter begins neither with + nor with - nor with #")]
    Sign {
        /// Which line, from 1 on.
        line: usize,
    },
    /// There is no space, or nothing behind it.
    #[error("line {line} of the import filter has no pattern: write a sign, a space and a path")]
    Pattern {
        /// Which line, from 1 on.
        line: usize,
    },
    /// A line is indented by more than one space more than the one before.
    #[error("line {line} of the import filter is indented by more than one space below the line above it")]
    Indentation {
        /// Which line, from 1 on.
        line: usize,
    },
    /// Lines are nested too deeply.
    #[error("line {line} of the import filter is nested more than {DEEPEST} levels deep")]
    Depth {
        /// Which line, from 1 on.
        line: usize,
    },
    /// There is no line that says anything, so that nothing would be imported.
    #[error("the import filter is empty, so nothing would be trusted: `+ /` imports everything")]
    Empty,
}

/// An import filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    import: bool,
    pattern: Vec<u8>,
    wild: bool,
    /// The pattern is a star and plain bytes, as in most lines: comparing the end is enough.
    suffix: bool,
    deeper: Vec<Line>,
}

impl Default for Filter {
    /// Palisade's own filter: what can be executed, interpreted or loaded.
    fn default() -> Self {
        // A test checks that it parses.
        Self::parse(include_bytes!("../../data/filter.conf")).unwrap_or(Self { lines: Vec::new() })
    }
}

impl Filter {
    /// A filter that imports everything.
    #[must_use]
    pub fn everything() -> Self {
        let pattern = b"/".to_vec();
        Self { lines: vec![Line { import: true, pattern, wild: false, suffix: false, deeper: Vec::new() }] }
    }

    /// Reads a filter.
    ///
    /// # Errors
    ///
    /// If a line is invalid, or there is none.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let mut root = Vec::new();
        let mut last = 0;
        for (number, text) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = number + 1;
            let text = text.trim_ascii_end();
            let depth = text.iter().take_while(|byte| **byte == b' ').count();
            let import = match text.get(depth) {
                None | Some(b'#') => continue,
                Some(b'+') => true,
                Some(b'-') => false,
                Some(_) => return Err(Error::Sign { line }),
            };
            let rest = &text[depth + 1..];
            let pattern = rest.trim_ascii_start();
            if pattern.is_empty() || pattern.len() == rest.len() {
                return Err(Error::Pattern { line });
            }
            if depth >= DEEPEST {
                return Err(Error::Depth { line });
            }
            if depth > last || (root.is_empty() && depth > 0) {
                return Err(Error::Indentation { line });
            }
            let mut siblings = &mut root;
            for _ in 0..depth {
                siblings = match siblings.last_mut() {
                    Some(Line { deeper, .. }) => deeper,
                    None => return Err(Error::Indentation { line }),
                };
            }
            let wild = pattern.iter().any(|byte| b"*?[".contains(byte));
            let plain = |rest: &[u8]| !rest.iter().any(|byte| b"*?[\\/".contains(byte));
            let suffix = pattern.strip_prefix(b"*").is_some_and(plain);
            siblings.push(Line { import, pattern: pattern.into(), wild, suffix, deeper: Vec::new() });
            last = depth + 1;
        }
        if root.is_empty() { Err(Error::Empty) } else { Ok(Self { lines: root }) }
    }

    /// Is a file with this path imported? Paths that aren't absolute and normalized never are.
    #[must_use]
    pub fn imports(&self, path: &[u8]) -> bool {
        is_real_path(path) && decide(&self.lines, path).unwrap_or(false)
    }
}

fn decide(lines: &[Line], rest: &[u8]) -> Option<bool> {
    lines.iter().find_map(|line| {
        let directory = line.pattern.ends_with(b"/");
        let left = line.matches(rest)?;
        let ended = line.deeper.is_empty() && (line.wild || left.is_empty());
        if ended {
            return Some(line.import);
        }
        decide(&line.deeper, left).or(directory.then_some(line.import))
    })
}

impl Line {
    /// The rest of `rest` behind this line's pattern, if it matches.
    fn matches<'a>(&self, rest: &'a [u8]) -> Option<&'a [u8]> {
        if !self.wild {
            return rest.strip_prefix(&self.pattern[..]);
        }
        if self.suffix {
            return rest.ends_with(&self.pattern[1..]).then_some(rest);
        }
        let slashes = self.pattern.iter().filter(|byte| **byte == b'/').count();
        let ends = rest.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let taken = ends.take(slashes).last().map_or(0, |(at, _)| at + 1);
        let (head, left) = rest.split_at(taken);
        let whole = if self.pattern.ends_with(b"/") { head } else { rest };
        matches(&self.pattern, whole).then_some(left)
    }
}

/// Does a pattern of `*`, `?`, `[…]` and `\` match all of a text? No character is special in the text.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    palisade_text::wildcard(pattern, text, one, |_byte| true)
}

/// How many bytes of the pattern match this one byte, if it matches.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', set @ ..] => match class(set, byte) {
            Some((length, inside)) => inside.then_some(length + 1),
            None => (byte == b'[').then_some(1),
        },
        [first, ..] => (*first == byte).then_some(1),
        [] => None,
    }
}

/// The length of a class behind its `[`, and whether the byte is in it; `None` if it isn't closed.
fn class(set: &[u8], byte: u8) -> Option<(usize, bool)> {
    let negated = matches!(set.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let (first, mut inside) = (at, false);
    loop {
        match set.get(at..)? {
            [b']', ..] if at > first => return Some((at + 1, inside != negated)),
            [low, b'-', high, ..] if *high != b']' => {
                inside |= (*low..=*high).contains(&byte);
                at += 3;
            }
            [member, ..] => {
                inside |= *member == byte;
                at += 1;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(filter: &str, path: &str) -> bool {
        Filter::parse(filter.as_bytes()).unwrap().imports(path.as_bytes())
    }

    #[test]
    fn the_examples_of_the_manual() {
        let flat = "# a comment\n- /usr/bin/some_binary1\n- /usr/bin/some_binary2\n+ /\n";
        let nested = "+ /\n + usr/bin/\n  - some_binary1\n  - some_binary2\n";
        for filter in [flat, nested] {
            assert!(!imported(filter, "/usr/bin/some_binary1"));
            assert!(imported(filter, "/usr/bin/some_binary3"));
            assert!(imported(filter, "/usr/bin/some_binary11"));
            assert!(imported(filter, "/etc/x"));
        }
        for filter in ["- /usr/bin/some_binary?\n+ /\n", "+ /\n - usr/bin/some_binary*\n"] {
            assert!(!imported(filter, "/usr/bin/some_binary1"));
            assert!(imported(filter, "/usr/bin/other"));
        }
        let shares = "+ /\n - usr/share/\n  + *.py\n  + *.pl\n";
        assert!(imported(shares, "/usr/bin/ls"));
        assert!(!imported(shares, "/usr/share/something"));
        assert!(imported(shares, "/usr/share/a/b/abcd.py"));
    }

    #[test]
    fn directories_with_wildcards() {
        let filter = "+ /\n - usr/src/*/\n  + */scripts/*\n   - *.c\n  + */tools/objtool/*\n";
        assert!(!imported(filter, "/usr/src/linux-6/kernel/fork.c"));
        assert!(imported(filter, "/usr/src/linux-6/x/tools/objtool/objtool"));
        assert!(!imported(filter, "/usr/src/linux-6/x/scripts/a.c"));
        // A file pattern with deeper lines, none of which matches: the sign of the directory counts.
        assert!(!imported(filter, "/usr/src/linux-6/x/scripts/a.sh"));
        assert!(imported(filter, "/usr/src/file"));
    }

    #[test]
    fn classes() {
        for (pattern, text, expected) in [
            ("*.py[co]", "a/b.pyc", true),
            ("*.py[co]", "a/b.pyx", false),
            ("[!a-c]", "b", false),
            ("[!a-c]", "d", true),
            ("[]x]", "]", true),
            ("[x", "[x", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxcxxb", false),
            ("*", "", true),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let parse = |text: &str| Filter::parse(text.as_bytes());
        assert_eq!(parse("+ /\n* x"), Err(Error::Sign { line: 2 }));
        assert_eq!(parse("+/"), Err(Error::Pattern { line: 1 }));
        assert_eq!(parse("+ "), Err(Error::Pattern { line: 1 }));
        assert_eq!(parse("+ /\n   + a"), Err(Error::Indentation { line: 2 }));
        assert_eq!(parse(" + a"), Err(Error::Indentation { line: 1 }));
        assert_eq!(parse("# nothing\n\n"), Err(Error::Empty));
        let deep: String = (0..70).map(|depth| format!("{}+ a/\n", " ".repeat(depth))).collect();
        assert_eq!(parse(&deep), Err(Error::Depth { line: 65 }));
    }

    #[test]
    fn the_default_filter() {
        let filter = Filter::default();
        for path in [
            "/usr/bin/ls",
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "/etc/cron.daily/dpkg",
            "/usr/sbin/init",
            "/usr/share/perl5/Dpkg.pm",
            "/usr/share/python3/py3versions.py",
            "/opt/app/bin/x",
            "/boot/vmlinuz-6",
            "/usr/share/foo/bin/run",
            "/usr/src/linux-headers-6/scripts/sign-file",
            "/usr/libexec/x",
        ] {
            assert!(filter.imports(path.as_bytes()), "{path}");
        }
        for path in [
            "/usr/include/stdio.h",
            "/usr/share/doc/bash/copyright",
            "/usr/share/man/man1/ls.1.gz",
            "/usr/share/locale/de/LC_MESSAGES/bash.mo",
            "/usr/share/icons/x/y.png",
            "/etc/ssl/openssl.conf",
            "/usr/lib/x/README.md",
            "/usr/bin/../x",
            "relative",
        ] {
            assert!(!filter.imports(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn any_bytes() {
        bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
            let (filter, path) = bytes.split_at(bytes.len() / 2);
            if let Ok(filter) = Filter::parse(filter) {
                let _decided = filter.imports(path);
                let _decided = filter.imports(&[b"/", path].concat());
            }
            let _matched = matches(filter, path);
        });
    }
}
