// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects hidden characters: those that have another effect than to show a sign.

/// Whether a character steers a terminal, ends a line, changes the direction of text or can't be seen.
///
/// Those are Unicode's categories Cc (control: C0, DEL, C1), Cf (format: directions, joiners, tags), Zl and Zp (ends of
/// lines and paragraphs), and what has the property `Default_Ignorable_Code_Point` (fillers, variation selectors, code
/// points reserved for further ones). Of Unicode 17.0: `DerivedGeneralCategory.txt`, `DerivedCoreProperties.txt`.
#[must_use]
pub const fn is_hidden(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{34f}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(first: u32, last: u32) -> impl Iterator<Item = char> {
        (first..=last).map(|code| char::from_u32(code).unwrap())
    }

    /// What people have been misled with, class by class.
    #[test]
    fn each_class_is_hidden_to_its_last_character() {
        for (class, first, last) in [
            ("C0", 0, 0x1f),
            ("DEL and C1", 0x7f, 0x9f),
            ("soft hyphen", 0xad, 0xad),
            ("grapheme joiner", 0x34f, 0x34f),
            ("Arabic letter mark", 0x61c, 0x61c),
            ("Hangul fillers", 0x115f, 0x1160),
            ("Khmer vowels without a shape", 0x17b4, 0x17b5),
            ("Mongolian selectors", 0x180b, 0x180f),
            ("zero width, directions", 0x200b, 0x200f),
            ("line and paragraph", 0x2028, 0x2029),
            ("embeddings and overrides", 0x202a, 0x202e),
            ("word joiner, invisible operators", 0x2060, 0x2064),
            ("isolates", 0x2066, 0x2069),
            ("deprecated format characters", 0x206a, 0x206f),
            ("Hangul filler", 0x3164, 0x3164),
            ("variation selectors", 0xfe00, 0xfe0f),
            ("byte order mark", 0xfeff, 0xfeff),
            ("half width Hangul filler", 0xffa0, 0xffa0),
            ("interlinear annotation", 0xfff9, 0xfffb),
            ("Egyptian joiners", 0x13430, 0x1343f),
            ("shorthand format", 0x1bca0, 0x1bca3),
            ("musical format", 0x1d173, 0x1d17a),
            ("tags", 0xe0000, 0xe007f),
            ("more variation selectors", 0xe0100, 0xe01ef),
        ] {
            for character in all(first, last) {
                assert!(is_hidden(character), "{class}: {character:?}");
            }
        }
    }

    /// Compared with the standard library's table: a character that `{:?}` doesn't escape is visible, except for fillers and
    /// marks that the table counts as letters.
    #[test]
    fn what_has_a_shape_is_kept() {
        let ignored = |c: char| {
            matches!(c, '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}')
        };
        let mut kept = 0;
        for character in (0..=0x0010_ffff).filter_map(char::from_u32) {
            let printable = character.escape_debug().len() == 1;
            if printable && !ignored(character) {
                assert!(!is_hidden(character), "{character:?}");
                kept += 1;
            }
            if character.is_control() {
                assert!(is_hidden(character), "{character:?}");
            }
        }
        assert!(kept > 140_000, "{kept}");
        for text in ["naïve", "a b\u{a0}c\u{3000}", "e\u{301}", "日本語", "👍🏽", "\u{e0b0}", "\\n", "ภาษา"]
        {
            assert!(!text.contains(is_hidden), "{text:?}");
        }
    }

    #[test]
    fn there_are_so_many() {
        let hidden = (0..=0x0010_ffff).filter_map(char::from_u32).filter(|c| is_hidden(*c)).count();
        assert_eq!(hidden, 4273);
    }
}
