// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A model of the tree if every call succeeded: without it, most calls would name missing files and test nothing. It knows
//! no rule of Palisade's, so what is refused stays in the model.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Node {
    Directory,
    File,
    Link,
}

/// Paths below the ground, the latest last.
#[derive(Default)]
pub(super) struct Model(Vec<(String, Node)>);

pub(super) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

pub(super) fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Model {
    pub(super) fn of(&self, path: &str) -> Option<Node> {
        self.0.iter().find(|(known, _)| known == path).map(|(_, node)| *node)
    }

    /// The paths of such nodes.
    pub(super) fn paths(&self, is_wanted: impl Fn(&str, Node) -> bool) -> Vec<&str> {
        self.0.iter().filter(|(path, node)| is_wanted(path, *node)).map(|(path, _)| path.as_str()).collect()
    }

    /// Whether something can be made at a path.
    pub(super) fn is_vacant(&self, path: &str) -> bool {
        self.of(path).is_none() && self.may_hold(parent(path))
    }

    /// Whether a file can be opened at a path, and made if it isn't there.
    pub(super) fn may_be_file(&self, path: &str) -> bool {
        self.of(path) != Some(Node::Directory) && self.may_hold(parent(path))
    }

    fn may_hold(&self, directory: &str) -> bool {
        directory.is_empty() || matches!(self.of(directory), Some(Node::Directory | Node::Link))
    }

    pub(super) fn make(&mut self, path: &str, node: Node) {
        if self.is_vacant(path) {
            self.0.push((path.to_owned(), node));
        }
    }

    pub(super) fn remove(&mut self, path: &str) {
        self.0.retain(|(known, _)| !is_below(known, path));
    }

    fn take(&mut self, path: &str) -> Vec<(String, Node)> {
        let (taken, left) =
            std::mem::take(&mut self.0).into_iter().partition(|(known, _)| is_below(known, path));
        self.0 = left;
        taken
    }

    fn put(&mut self, nodes: Vec<(String, Node)>, from: &str, to: &str) {
        self.0.extend(nodes.into_iter().map(|(path, node)| (format!("{to}{}", &path[from.len()..]), node)));
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        if self.of(from).is_some() && self.may_hold(parent(to)) && !is_below(to, from) {
            let moved = self.take(from);
            self.remove(to);
            self.put(moved, from, to);
        }
    }

    pub(super) fn exchange(&mut self, one: &str, other: &str) {
        let apart = !is_below(one, other) && !is_below(other, one);
        if apart && self.of(one).is_some() && self.of(other).is_some() {
            let (first, second) = (self.take(one), self.take(other));
            self.put(first, one, other);
            self.put(second, other, one);
        }
    }
}
