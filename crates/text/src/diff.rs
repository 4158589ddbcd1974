// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The differences between two texts, line by line, in the format of `diff -u`.

use std::fmt;
use std::ops::Range;

/// Equal lines that are shown around a change.
const CONTEXT: usize = 3;
/// The largest table of common lines: 16 MiB. If two texts need more, all old lines are shown as replaced by all new ones.
const LARGEST_TABLE: usize = 4 << 20;

/// Whether a line was kept, removed or added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It is in both texts.
    Equal,
    /// Only the old text has it.
    Removed,
    /// Only the new text has it.
    Added,
}

impl Sign {
    /// The character in front of the line.
    pub const fn character(self) -> char {
        match self {
            Self::Equal => ' ',
            Self::Removed => '-',
            Self::Added => '+',
        }
    }
}

/// Changes that lie close to each other, with the equal lines around them.
#[derive(Debug)]
pub struct Hunk<'t> {
    /// Lines of the old text, counted from 0.
    old: Range<usize>,
    /// Lines of the new text, counted from 0.
    new: Range<usize>,
    /// The lines, each with its newline unless the text ends without.
    pub lines: Vec<(Sign, &'t str)>,
}

impl Hunk<'_> {
    /// `@@ -1,3 +1,4 @@`.
    pub fn header(&self) -> String {
        let side = |lines: &Range<usize>| match lines.len() {
            // An empty range is named by the line before it.
            0 => format!("{},0", lines.start),
            1 => format!("{}", lines.start + 1),
            length => format!("{},{length}", lines.start + 1),
        };
        format!("@@ -{} +{} @@", side(&self.old), side(&self.new))
    }
}

impl fmt::Display for Hunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.header())?;
        for (sign, line) in &self.lines {
            write!(f, "{}{line}", sign.character())?;
            if !line.ends_with('\n') {
                f.write_str("\n\\ No newline at end of file\n")?;
            }
        }
        Ok(())
    }
}

/// The changes from `old` to `new`; none if they are equal.
pub fn hunks<'t>(old: &'t str, new: &'t str) -> Vec<Hunk<'t>> {
    let mut hunks: Vec<Hunk<'t>> = Vec::new();
    let (mut old_at, mut new_at) = (0, 0);
    // Equal lines since the last change.
    let mut equal: Vec<&'t str> = Vec::new();
    for (sign, line) in changes(old, new) {
        if sign == Sign::Equal {
            equal.push(line);
            (old_at, new_at) = (old_at + 1, new_at + 1);
            continue;
        }
        match hunks.last_mut() {
            Some(hunk) if equal.len() <= 2 * CONTEXT => hunk.extend(&equal),
            last => {
                if let Some(hunk) = last {
                    hunk.extend(&equal[..CONTEXT]);
                }
                let before = equal.len().min(CONTEXT);
                let mut hunk = Hunk {
                    old: old_at - before..old_at - before,
                    new: new_at - before..new_at - before,
                    lines: Vec::new(),
                };
                hunk.extend(&equal[equal.len() - before..]);
                hunks.push(hunk);
            }
        }
        equal.clear();
        if let Some(hunk) = hunks.last_mut() {
            hunk.lines.push((sign, line));
            if sign == Sign::Removed {
                old_at += 1;
                hunk.old.end += 1;
            } else {
                new_at += 1;
                hunk.new.end += 1;
            }
        }
    }
    if let Some(hunk) = hunks.last_mut() {
        hunk.extend(&equal[..equal.len().min(CONTEXT)]);
    }
    hunks
}

impl<'t> Hunk<'t> {
    fn extend(&mut self, equal: &[&'t str]) {
        self.lines.extend(equal.iter().map(|line| (Sign::Equal, *line)));
        self.old.end += equal.len();
        self.new.end += equal.len();
    }
}

/// Every line of both texts, in order, those removed before those added in their place.
fn changes<'t>(old: &'t str, new: &'t str) -> Vec<(Sign, &'t str)> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let first = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let last =
        old[first..].iter().rev().zip(new[first..].iter().rev()).take_while(|(old, new)| old == new).count();
    let (old_middle, new_middle) = (&old[first..old.len() - last], &new[first..new.len() - last]);
    let equal = |line: &&'t str| (Sign::Equal, *line);
    let mut changes: Vec<_> = old[..first].iter().map(equal).collect();
    middle(old_middle, new_middle, &mut changes);
    changes.extend(old[old.len() - last..].iter().map(equal));
    changes
}

/// The changes by a longest common subsequence.
fn middle<'t>(old: &[&'t str], new: &[&'t str], changes: &mut Vec<(Sign, &'t str)>) {
    let width = new.len() + 1;
    let size = width.saturating_mul(old.len() + 1);
    let (mut at, mut new_at) = (0, 0);
    if size <= LARGEST_TABLE {
        // How many lines the rests of both texts have in common.
        let mut common = vec![0_u32; size];
        for (row, old_line) in old.iter().enumerate().rev() {
            for (column, new_line) in new.iter().enumerate().rev() {
                common[row * width + column] = if old_line == new_line {
                    common[(row + 1) * width + column + 1] + 1
                } else {
                    common[(row + 1) * width + column].max(common[row * width + column + 1])
                };
            }
        }
        while let (Some(old_line), Some(new_line)) = (old.get(at), new.get(new_at)) {
            if old_line == new_line {
                changes.push((Sign::Equal, old_line));
                (at, new_at) = (at + 1, new_at + 1);
            } else if common[(at + 1) * width + new_at] >= common[at * width + new_at + 1] {
                changes.push((Sign::Removed, old_line));
                at += 1;
            } else {
                changes.push((Sign::Added, new_line));
                new_at += 1;
            }
        }
    }
    changes.extend(old[at..].iter().map(|line| (Sign::Removed, *line)));
    changes.extend(new[new_at..].iter().map(|line| (Sign::Added, *line)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(hunks: &[Hunk<'_>]) -> String {
        hunks.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn it_reads_as_diff_u_prints_it() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n14\n15\n16\n17\n18\n19\n";
        assert_eq!(
            text(&hunks(old, new)),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n\
             @@ -10,10 +10,9 @@\n 10\n 11\n 12\n-13\n 14\n 15\n 16\n 17\n 18\n\
             -19\n\\ No newline at end of file\n+19\n"
        );
        assert_eq!(text(&hunks("", "a\n")), "@@ -0,0 +1 @@\n+a\n");
        assert_eq!(text(&hunks("a\n", "")), "@@ -1 +0,0 @@\n-a\n");
        assert_eq!(text(&hunks("a\n", "a\n")), "");
    }

    /// What `patch` would make of the hunks.
    fn patched(old: &str, hunks: &[Hunk<'_>]) -> (String, String) {
        let lines: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut from, mut to, mut at) = (String::new(), String::new(), 0);
        for hunk in hunks {
            let before = lines[at..hunk.old.start].concat();
            from += &before;
            to += &before;
            for (sign, line) in &hunk.lines {
                from += if *sign == Sign::Added { "" } else { line };
                to += if *sign == Sign::Removed { "" } else { line };
            }
            at = hunk.old.end;
        }
        let rest = lines[at..].concat();
        (from + &rest, to + &rest)
    }

    proptest! {
        #[test]
        fn the_hunks_lead_from_the_old_text_to_the_new(old in "([abc]\n){0,30}[abc]?", new in "([abc]\n){0,30}[abc]?") {
            let hunks = hunks(&old, &new);
            prop_assert_eq!(patched(&old, &hunks), (old.clone(), new.clone()));
            for hunk in &hunks {
                let count = |not| hunk.lines.iter().filter(|(sign, _)| *sign != not).count();
                prop_assert_eq!((hunk.old.len(), hunk.new.len()), (count(Sign::Added), count(Sign::Removed)));
                prop_assert!(hunk.lines.iter().any(|(sign, _)| *sign != Sign::Equal));
            }
        }
    }

    #[test]
    fn long_texts_are_replaced_as_a_whole() {
        let long = |word: &str| (0..5000).map(|line| format!("{word}{line}\n")).collect::<String>();
        let (old, new) = (long("a"), long("b"));
        let hunks = hunks(&old, &new);
        assert_eq!(hunks.len(), 1);
        assert_eq!(patched(&old, &hunks).1, new);
    }
}
