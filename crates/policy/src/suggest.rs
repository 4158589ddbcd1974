// SPDX-License-Identifier: Apache-2.0 OR MIT
//! "Did you mean": finds the most similar of a few known names.

/// Longer words aren't compared: the table of distances grows with the square of their length, and no key is that
/// long.
const LONGEST: usize = 64;

/// The number of single-character edits (insert, delete, replace, swap neighbours) between two
/// words.
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut current = vec![i + 1];
        for j in 0..b.len() {
            let replace = previous[j] + usize::from(a[i] != b[j]);
            let mut best = replace.min(previous[j + 1] + 1).min(current[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                best = best.min(before[j - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut previous, current);
    }
    previous[b.len()]
}

/// The candidate most similar to `word`, if it is similar enough.
///
/// The limit is a third of the longer word's length: `netwrok` finds `network`, `foo` finds nothing. Case is ignored.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| {
            let length = word.chars().count().max(candidate.chars().count());
            (distance(&word, &candidate.to_lowercase()), length, candidate)
        })
        .filter(|(distance, length, _)| *distance <= (length / 3).max(1) && distance < length)
        .min_by_key(|(distance, _, _)| *distance)
        .map(|(_, _, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let keys = ["filesystem", "network", "limits", "read", "write"];
        assert_eq!(nearest("netwrok", keys), Some("network"));
        assert_eq!(nearest("Network", keys), Some("network"));
        assert_eq!(nearest("file-system", keys), Some("filesystem"));
        assert_eq!(nearest("raed", keys), Some("read"));
        assert_eq!(nearest("foo", keys), None);
        assert_eq!(nearest("", keys), None);
        assert_eq!(nearest(&"x".repeat(100_000), keys), None);
    }

    #[test]
    fn neighbours_swapped_are_one_edit() {
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
