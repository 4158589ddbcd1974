// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ways in which a player can write a path.

use super::random::Random;

/// What one sandbox's player has: the directories of its descriptors and its own, as far as that is known.
#[derive(Default)]
pub(super) struct Player {
    pub(super) directory: String,
    pub(super) kept: [Option<String>; 4],
}

impl Player {
    /// `path`, which is relative to the ground, as this player says it: in a way that is `odd`, or the usual one.
    pub(super) fn spell(&self, random: &mut Random, odd: bool, plain: &[&str], path: &str) -> String {
        if odd && random.chance(40) {
            for (slot, kept) in self.kept.iter().enumerate() {
                let rest = kept.as_ref().and_then(|kept| path.strip_prefix(kept.as_str())?.strip_prefix('/'));
                if let Some(rest) = rest {
                    return if random.chance(50) {
                        format!("{slot}:{rest}")
                    } else {
                        format!("#{slot}/{rest}")
                    };
                }
            }
        }
        let path = if odd { noisy(random, plain, path) } else { path.to_owned() };
        if self.directory.is_empty() {
            return if odd && random.chance(25) { format!("@/{path}") } else { path };
        }
        let rest = path.strip_prefix(self.directory.as_str()).and_then(|rest| rest.strip_prefix('/'));
        if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
            return rest.to_owned();
        }
        // From further below a directory that isn't entered after all would lead out of the tree.
        if self.directory.contains('/') || random.chance(50) {
            return format!("@/{path}");
        }
        format!("../{path}")
    }
}

/// The same path with a part that changes nothing, or with a letter of another case.
fn noisy(random: &mut Random, plain: &[&str], path: &str) -> String {
    let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
    let at = random.below(parts.len());
    match random.below(8) {
        0 => parts.insert(at, ".".to_owned()),
        1 => parts.insert(at, format!("{}/..", random.pick(plain))),
        2 if at > 0 => parts.insert(at, String::new()),
        3 => parts[at] = parts[at].to_uppercase(),
        4 => parts.push(String::new()),
        5 if random.chance(30) => parts.push(".".to_owned()),
        6 => parts.insert(at, "./.".to_owned()),
        _ => {}
    }
    parts.join("/")
}
