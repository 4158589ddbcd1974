// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Remembers the content that a configuration file had before any process inside changed it.

use super::{Place, Refusal, judge};

/// The part of one file's history that matters for judging changes.
///
/// Each change is judged against the file's content before the first change made inside, not against the last
/// content. So a change in two steps is recognised (first `branch.main` is removed, then a new one is added that
/// leads elsewhere). Settings that came from inside may be removed and changed freely, which git does often: a clone
/// writes the file nine times.
#[derive(Debug, Clone)]
pub struct Baseline {
    /// `None`: there was no file, so the repository was made inside.
    before: Option<Vec<u8>>,
    /// The file's content when a change was last allowed, and the content that it was to get. Writing can fail, for
    /// example on a full disk, which a program inside can cause. So both contents count as written from inside.
    inside: [Option<Vec<u8>>; 2],
}

impl Baseline {
    /// Begins with the file's present content; `None` if there is no file.
    #[must_use]
    pub fn new(now: Option<Vec<u8>>) -> Self {
        Self { inside: [now.clone(), now.clone()], before: now }
    }

    /// The number of bytes that it keeps in memory.
    #[must_use]
    pub fn size(&self) -> usize {
        self.inside.iter().chain([&self.before]).flatten().map(Vec::len).sum()
    }

    /// Whether the file, whose present content is `now`, may become `new`. If a program outside has changed the file
    /// meanwhile, its present content is the new baseline.
    ///
    /// # Errors
    /// [`Refusal`] with the first change that isn't allowed.
    pub fn judge(&mut self, now: Option<&[u8]>, new: &[u8], place: &Place<'_>) -> Result<(), Refusal> {
        if !self.inside.iter().any(|known| known.as_deref() == now) {
            *self = Self::new(now.map(<[u8]>::to_vec));
        }
        judge(self.before.as_deref(), new, place)?;
        self.inside = [now.map(<[u8]>::to_vec), Some(new.to_vec())];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn place() -> Place<'static> {
        Place { git_directory: Path::new("/w/.git"), work_tree_top: Path::new("/w") }
    }

    const USERS: &str =
        "[remote \"origin\"]\n\turl = https://example.org/x\n[branch \"main\"]\n\tremote = origin\n";
    const OTHER: &str = "[remote \"other\"]\n\turl = https://example.org/y\n";

    fn step(baseline: &mut Baseline, now: &str, new: &str) -> bool {
        baseline.judge(Some(now.as_bytes()), new.as_bytes(), &place()).is_ok()
    }

    #[test]
    fn two_steps_are_one_change() {
        let without = USERS.split("[branch").next().unwrap().to_owned() + OTHER;
        let turned = without.clone() + "[branch \"main\"]\n\tremote = other\n";
        let mut baseline = Baseline::new(Some(USERS.into()));
        assert!(step(&mut baseline, USERS, &without));
        assert!(!step(&mut baseline, &without, &turned));
        assert!(
            judge(Some(without.as_bytes()), turned.as_bytes(), &place()).is_ok(),
            "each step alone is fine"
        );
    }

    #[test]
    fn a_write_that_fails_is_no_new_beginning() {
        let without = USERS.split("[branch").next().unwrap().to_owned() + OTHER;
        let turned = without.clone() + "[branch \"main\"]\n\tremote = other\n";
        let mut baseline = Baseline::new(Some(USERS.into()));
        assert!(step(&mut baseline, USERS, &without));
        // The change is allowed, but the file stays unchanged.
        assert!(step(&mut baseline, &without, &format!("{without}# more\n")));
        assert!(!step(&mut baseline, &without, &turned));
    }

    #[test]
    fn what_came_from_inside_may_change_and_go() {
        let mut baseline = Baseline::new(Some(USERS.into()));
        let added = format!("{USERS}{OTHER}");
        let changed = added.replace("/y", "/z");
        assert!(step(&mut baseline, USERS, &added));
        assert!(step(&mut baseline, &added, &changed));
        assert!(step(&mut baseline, &changed, USERS));
    }

    #[test]
    fn what_came_from_outside_meanwhile_stays() {
        let mut baseline = Baseline::new(Some(USERS.into()));
        assert!(step(&mut baseline, USERS, &format!("{USERS}{OTHER}")));
        // The user removes it again and sets a value that would be refused from inside.
        let users = format!("{USERS}[core]\n\thooksPath = /home/ann/hooks\n");
        assert!(step(&mut baseline, &users, &format!("{users}\tbare = false\n")));
        assert!(!step(&mut baseline, &format!("{users}\tbare = false\n"), USERS));
    }

    #[test]
    fn a_repository_made_inside_stays_one() {
        let mut baseline = Baseline::new(None);
        let first = "[core]\n\tbare = false\n";
        assert!(baseline.judge(None, first.as_bytes(), &place()).is_ok());
        assert!(step(&mut baseline, first, &format!("{first}[remote \"origin\"]\n\turl = /w/other\n")));
        // Once the user has changed the file, its content is the user's.
        let users = format!("{first}[user]\n\tname = Ann\n");
        assert!(!step(&mut baseline, &users, &format!("{users}[remote \"origin\"]\n\turl = /w/other\n")));
    }
}
