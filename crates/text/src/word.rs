// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words of a command line, as a POSIX shell reads them back.

/// A word for a POSIX shell: quoted if the shell would read another word without quotes.
#[must_use]
pub fn quoted(word: &str) -> String {
    // No `~`: at the beginning of a word the shell expands it.
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_word_back() {
        for (word, line) in [
            ("/usr/bin/a-b_c.d", "/usr/bin/a-b_c.d"),
            ("--user=me@host:1,2", "--user=me@host:1,2"),
            ("", "''"),
            ("a b", "'a b'"),
            ("~", "'~'"),
            ("$x`y`\"", "'$x`y`\"'"),
            ("it's", r"'it'\''s'"),
            ("ü", "'ü'"),
        ] {
            assert_eq!(quoted(word), line);
        }
    }
}
