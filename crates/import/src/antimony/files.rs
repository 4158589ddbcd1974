// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports statements about files, libraries and the home.

use super::{Importer, NO_FLAG, NO_LIST, NO_TABLE, NO_TEXT, Place, UNSAYABLE, place, variables};
use crate::document::Value as Written;
use crate::draft::Draft;
use crate::text;
use crate::tree::{Node, Value};
use palisade_policy::word::Word;
use std::path::Path;

/// What is allowed with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Read,
    Write,
    Execute,
}

impl Mode {
    fn of(written: &str) -> Option<Self> {
        Some(match written {
            "ro" => Self::Read,
            "rw" => Self::Write,
            "rx" => Self::Execute,
            _ => return None,
        })
    }

    const fn key(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
        }
    }
}

/// Directories of data: no program is started from there.
const DATA: [&str; 10] = [
    "/etc",
    "/sys",
    "/run",
    "/proc",
    "/var",
    "/tmp",
    "/usr/share",
    "/usr/include",
    "${runtime}",
    "${config}",
];

const MODES: &str = "files are shown `ro`, `rw` or `rx`";

impl Importer<'_> {
    pub(super) fn files(&mut self, entries: &[(String, Node)]) {
        for (key, node) in entries {
            let statement = format!("files.{key} = {}", node.quoted());
            match key.as_str() {
                "passthrough" => match node.text().and_then(Mode::of) {
                    Some(mode) => {
                        self.draft.table("program").text("pass_files", mode.key());
                        self.draft.taken();
                    }
                    None => self.left_out(node, &statement, place("program", "pass_files"), MODES),
                },
                "temp" => self.texts(node, "files.temp", place("filesystem", "tmpfs"), Self::temporary),
                "user" => self.lists(node, key, true),
                "platform" | "resources" | "runtime" => self.lists(node, key, false),
                "direct" => self.direct(node),
                "link" | "links" => self.links(node),
                _ => self.unknown(node, &statement),
            }
        }
    }

    fn temporary(&mut self, node: &Node, written: &str) {
        let to = place("filesystem", "tmpfs");
        match variables::path(written, false) {
            Ok(path) => {
                let could = self.draft.push(to.section, to.key, &path);
                self.said_if(could, node, &format!("files.temp: {written:?}"), to);
            }
            Err(why) => self.left_out(node, &format!("files.temp: {written:?}"), to, why),
        }
    }

    /// `ro`, `rw` and `rx` of one group.
    fn lists(&mut self, node: &Node, group: &str, in_home: bool) {
        let Value::Table(modes) = &node.value else {
            return self.left_out(node, &format!("files.{group}"), place("filesystem", ""), NO_TABLE);
        };
        for (key, list) in modes {
            let name = format!("files.{group}.{key}");
            match Mode::of(key) {
                Some(mode) => {
                    self.texts(list, &name, place("filesystem", mode.key()), |importer, node, written| {
                        importer.file(node, &format!("{name}: {written:?}"), written, mode, in_home);
                    });
                }
                None => self.not_kept(list, &name, place("filesystem", ""), MODES),
            }
        }
    }

    fn file(&mut self, node: &Node, statement: &str, written: &str, mode: Mode, in_home: bool) {
        let to = place("filesystem", mode.key());
        if matches!(mode, Mode::Write) && !in_home && matches!(written.trim_end_matches('/'), "/tmp" | "/run")
        {
            return self.approximated(node, statement, to, "each sandbox has its own");
        }
        let path = match variables::mapping(written, in_home) {
            Ok(path) => path,
            Err(why) => return self.left_out(node, statement, to, why),
        };
        let program = self.program.as_deref().map(Path::new);
        let holds_program = program.is_some_and(|program| program.starts_with(written));
        let data =
            DATA.iter().any(|top| path == *top || path.starts_with(&format!("{top}/"))) && !holds_program;
        if !Draft::takes(to.section, to.key, Written::List(vec![path.clone()])) {
            return self.left_out(node, statement, to, UNSAYABLE);
        }
        if mode == Mode::Read && self.socket(node, statement, &path) {
            return;
        }
        let table = self.draft.table("filesystem");
        match mode {
            Mode::Read if data => table.push("read", &path),
            Mode::Read | Mode::Execute => table.push("execute", &path),
            Mode::Write => {
                table.push("write", &path);
                if !data {
                    table.push("execute", &path);
                }
            }
        }
        if in_home && written == "/" {
            let why = "`/` is the home in this list; Antimony may show the whole host";
            return self.approximated(node, statement, to, why);
        }
        self.draft.taken();
    }

    /// Imports a path in a directory of sockets. Antimony lets programs connect to sockets that they may read. Palisade
    /// requires that they may write to each socket by its own name. Returns whether it was such a path.
    fn socket(&mut self, node: &Node, statement: &str, path: &str) -> bool {
        let known: (&[&str], &[&str]) = match path {
            "${runtime}/${WAYLAND_DISPLAY}" | "${runtime}/pipewire-0" | "${SSH_AUTH_SOCK}" => (&[], &[path]),
            "${runtime}/pulse" => (&["${runtime}/pulse"], &["${runtime}/pulse/native"]),
            "${runtime}/at-spi" => (&["${runtime}/at-spi"], &["${runtime}/at-spi/bus*"]),
            "/tmp/.X11-unix" => (&[], &["${x11}"]),
            _ if ["${runtime}/", "/run/", "/var/run/", "/tmp/"].iter().any(|top| path.starts_with(top)) => {
                self.draft.table("filesystem").push("read", path);
                let why = "programs can't connect to sockets there: name each socket in `write`";
                self.approximated(node, statement, place("filesystem", "read"), why);
                return true;
            }
            _ => return false,
        };
        for (key, paths) in [("read", known.0), ("write", known.1)] {
            for path in paths {
                self.draft.table("filesystem").push(key, *path);
            }
        }
        self.draft.taken();
        true
    }

    /// Files with content.
    fn direct(&mut self, node: &Node) {
        let Value::Table(modes) = &node.value else {
            return self.left_out(node, "files.direct", place("files", ""), NO_TABLE);
        };
        for (key, list) in modes {
            let name = format!("files.direct.{key}");
            let (Some(mode), Value::Table(files)) = (Mode::of(key), &list.value) else {
                self.left_out(list, &name, place("files", ""), MODES);
                continue;
            };
            for (file, content) in files {
                let statement = format!("{name}: {file:?}");
                let to = place("files", mode.key());
                let Some(content_text) = content.text() else {
                    self.left_out(content, &statement, to, NO_TEXT);
                    continue;
                };
                let path = match variables::path(file, false) {
                    Ok(path) => path,
                    Err(why) => {
                        self.left_out(content, &statement, to, why);
                        continue;
                    }
                };
                let (filled, unsure) = variables::content(content_text);
                if !self.draft.pair(to.section, to.key, &path, &filled) {
                    self.left_out(content, &statement, to, UNSAYABLE);
                } else if unsure {
                    let why = "Antimony replaces variables that are set; a variable that may be missing stays as it is written";
                    self.approximated(content, &statement, to, why);
                } else {
                    self.draft.taken();
                }
            }
        }
    }

    fn links(&mut self, node: &Node) {
        let to = place("files", "links");
        let Value::Table(links) = &node.value else {
            return self.left_out(node, "files.links", to, NO_TABLE);
        };
        for (target, node) in links {
            let statement = format!("files.links: {target:?} = {}", node.quoted());
            let Some(link) = node.text() else {
                self.left_out(node, &statement, to, NO_TEXT);
                continue;
            };
            match variables::path(link, false) {
                Ok(link) => {
                    let could = self.draft.pair(to.section, to.key, &link, &variables::literal(target));
                    self.said_if(could, node, &statement, to);
                }
                Err(why) => self.left_out(node, &statement, to, why),
            }
        }
    }

    pub(super) fn libraries(&mut self, node: &Node) {
        let to = place("closure", "libraries");
        let entries = match &node.value {
            Value::Table(entries) => entries,
            // Older versions write it this way.
            Value::List(_) => {
                return self.texts(node, "libraries", to, |importer, node, written| {
                    importer.library(node, written, &[]);
                });
            }
            _ => return self.left_out(node, "libraries", to, NO_TABLE),
        };
        let find = |wanted: &str| entries.iter().find(|(key, _node)| key == wanted).map(|(_key, node)| node);
        let all = find("no_sof").and_then(Node::flag) == Some(true);
        let roots: Vec<&str> = match find("roots").map(|node| &node.value) {
            Some(Value::List(list)) => list.iter().filter_map(Node::text).collect(),
            _ => Vec::new(),
        };
        for (key, node) in entries {
            let statement = format!("libraries.{key} = {}", node.quoted());
            match (key.as_str(), &node.value) {
                ("files" | "directories", _) => {
                    self.texts(node, &format!("libraries.{key}"), to, |importer, node, written| {
                        importer.library(node, written, &roots);
                    });
                }
                ("roots", Value::List(_)) => self.roots(node, &statement, all),
                ("roots", _) => self.left_out(node, &statement, to, NO_LIST),
                ("no_sof", Value::Flag(all)) => {
                    if *all {
                        for root in ["/usr/lib", "/usr/lib64"] {
                            self.draft.table("filesystem").push("execute", root);
                        }
                    }
                    self.draft.taken();
                }
                ("no_sof", _) => self.left_out(node, &statement, to, NO_FLAG),
                _ => self.unknown(node, &statement),
            }
        }
    }

    fn roots(&mut self, node: &Node, statement: &str, all: bool) {
        let to = place("closure", "libraries");
        if all {
            return self.texts(node, "libraries.roots", to, |importer, node, root| {
                importer.file(node, &format!("libraries.roots: {root:?}"), root, Mode::Execute, false);
            });
        }
        let why = "the libraries of this file are searched there, too; the libraries of features aren't";
        self.approximated(node, statement, to, why);
    }

    fn library(&mut self, node: &Node, written: &str, roots: &[&str]) {
        let to = place("closure", "libraries");
        let statement = format!("libraries: {written:?}");
        if written.is_empty() || written.contains("..") || written.contains(|c: char| c.is_control()) {
            return self.left_out(node, &statement, to, "it names no library");
        }
        let pattern = |written: &str| written.split('*').map(text::exact).collect::<Vec<_>>().join("*");
        let said = if written.starts_with(['/', '~', '$']) {
            let parts: Result<Vec<String>, _> = if written.contains('*') {
                Ok(vec![pattern(written)])
            } else {
                variables::path(written, false).map(|path| vec![path])
            };
            parts
        } else {
            let below = roots.iter().filter(|root| root.starts_with('/'));
            let below =
                below.map(|root| format!("{}/{}", text::exact(root.trim_end_matches('/')), pattern(written)));
            Ok(std::iter::once(pattern(written)).chain(below).collect())
        };
        match said {
            Ok(patterns) => {
                let mut could = true;
                for pattern in &patterns {
                    could &= self.draft.push(to.section, to.key, pattern);
                }
                self.said_if(could, node, &statement, to);
            }
            Err(why) => self.left_out(node, &statement, to, why),
        }
    }

    pub(super) fn home(&mut self, entries: &[(String, Node)]) {
        let find = |wanted: &str| entries.iter().find(|(key, _node)| key == wanted).map(|(_key, node)| node);
        let at = |key: &'static str| -> Place { place("home", key) };
        for (key, node) in entries {
            let statement = format!("home.{key} = {}", node.quoted());
            match (key.as_str(), &node.value) {
                ("policy", Value::Text(policy)) => {
                    let policy = match policy.as_str() {
                        "None" => "none",
                        "Enabled" => "private",
                        "ReadOnly" => "read-only",
                        "Overlay" => "overlay",
                        _ => {
                            self.left_out(node, &statement, at("policy"), "Antimony has no such policy");
                            continue;
                        }
                    };
                    self.draft.table("home").text("policy", policy);
                    self.draft.taken();
                }
                ("name", Value::Text(name)) => self.home_name(node, name, &statement),
                ("lock", Value::Flag(lock)) => {
                    let policy = find("lock_policy").and_then(Node::text);
                    let held = match policy {
                        _ if !*lock => "none",
                        Some("Overlay") => "overlay",
                        _ => "refuse",
                    };
                    self.draft.table("home").text("lock", held);
                    match policy {
                        None | Some("Notify") if *lock => {
                            let why = "Palisade doesn't ask: the second launch is refused";
                            self.approximated(node, &statement, at("lock"), why);
                        }
                        _ => self.draft.taken(),
                    }
                }
                ("lock_policy", Value::Text(policy)) => match policy.as_str() {
                    "Abort" | "Notify" | "Overlay" => self.draft.taken(),
                    _ => self.left_out(node, &statement, at("lock"), "Antimony has no such policy"),
                },
                ("path", Value::Text(path)) if path == "/home/antimony" => self.draft.taken(),
                ("path", _) => {
                    self.left_out(node, &statement, at(""), "the home has the same path inside as outside");
                }
                ("policy" | "name" | "lock_policy", _) => self.left_out(node, &statement, at(""), NO_TEXT),
                ("lock", _) => self.left_out(node, &statement, at("lock"), NO_FLAG),
                _ => self.unknown(node, &statement),
            }
        }
    }

    fn home_name(&mut self, node: &Node, name: &str, statement: &str) {
        if Word::HomeName.check(name).is_err() {
            return self.left_out(node, statement, place("home", "name"), "no home can have this name");
        }
        if !self.draft.set("home", "name", Written::Text(name.to_owned())) {
            return self.left_out(node, statement, place("home", "name"), UNSAYABLE);
        }
        self.draft.taken();
    }
}
