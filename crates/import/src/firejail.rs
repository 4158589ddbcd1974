// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports firejail's profiles: lines that apply in order, with files that they include.
//!
//! Firejail starts from the whole host and takes parts away. In Palisade, only what is granted exists. So the import
//! grants by name what firejail leaves, and states nothing about what firejail takes away from other places.
//!
//! - `reader`: lines, includes, conditions; `statements`, `confinement`: one line after the other
//! - `path`, `places`: which files statements name, and what all statements together result in
//! - `calls`, `sets`: system calls and firejail's names for sets of calls and files; `ground`: what firejail does by itself
//! - `build`: makes the profile from all that

mod build;
mod calls;
mod confinement;
mod ground;
mod path;
mod places;
mod reader;
mod sets;
mod statements;

use crate::ImportError;
use crate::draft::Draft;
use crate::profile::Host;
use crate::report::At;
use path::{Known, Place};
use places::Verb;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A statement on files.
#[derive(Debug)]
struct FileStatement {
    at: At,
    text: String,
    verb: Verb,
    places: Vec<Place>,
    /// The places of the `noblacklist` and `nowhitelist` lines before it.
    except: Rc<[Place]>,
    /// A `whitelist` statement: everything else beside the place is gone.
    alone: bool,
}

/// What is stated about a message bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Bus {
    #[default]
    Unsaid,
    Filtered,
    None,
}

/// The home.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Home {
    #[default]
    Real,
    Empty,
    /// Another directory in the home's place.
    Directory(Place),
}

/// A list of names, and whether it was stated.
#[derive(Debug, Default)]
struct Names {
    said: bool,
    names: Vec<String>,
}

/// What the lines so far result in.
#[derive(Debug)]
struct Profile<'d> {
    draft: &'d mut Draft,
    known: Known,
    /// The program that the profile is for.
    program: Option<String>,
    ignored: Vec<String>,
    files: Vec<FileStatement>,
    not_hidden: Vec<Place>,
    not_alone: Vec<Place>,
    /// `not_hidden` in the form that statements share. `None` if it has grown since.
    shared: Option<Rc<[Place]>>,
    /// The statements of one word that were made.
    switches: BTreeSet<&'static str>,
    home: Home,
    lists: BTreeMap<&'static str, Names>,
    /// Directories and files that are made on the host before the launch.
    made: Vec<(bool, Place)>,
    no_network: bool,
    protocols: BTreeSet<String>,
    protocol_said: Vec<(At, String)>,
    session: Bus,
    system: Bus,
    calls: calls::Calls,
    name_servers: Vec<std::net::IpAddr>,
    /// Another file is shown as /etc/hosts.
    hosts_file: bool,
}

/// Imports a profile.
pub(crate) fn import(path: &Path, text: &str, host: &Host<'_>, draft: &mut Draft) -> Result<(), ImportError> {
    let names = host.home.components().filter_map(|part| match part {
        std::path::Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    });
    let known = Known {
        home: names.collect(),
        uid: host.uid,
        directories: path::directories(host.home, host.config),
    };
    let mut profile = Profile {
        draft,
        known,
        program: path.file_stem().map(|stem| stem.to_string_lossy().into_owned()),
        ignored: Vec::new(),
        files: Vec::new(),
        not_hidden: Vec::new(),
        not_alone: Vec::new(),
        shared: None,
        switches: BTreeSet::new(),
        home: Home::default(),
        lists: BTreeMap::new(),
        made: Vec::new(),
        no_network: false,
        protocols: BTreeSet::new(),
        protocol_said: Vec::new(),
        session: Bus::default(),
        system: Bus::default(),
        calls: calls::Calls::default(),
        name_servers: Vec::new(),
        hosts_file: false,
    };
    reader::read(path, text, &places_of_includes(path, host), host.home, &mut profile)?;
    profile.build();
    Ok(())
}

/// The directories in which included files may lie, in the order of the search.
fn places_of_includes(path: &Path, host: &Host<'_>) -> Vec<PathBuf> {
    let beside = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut places = vec![host.home.join(".config/firejail"), beside, PathBuf::from(SYSTEM)];
    places.dedup();
    places
}

/// The directory of firejail's own files.
const SYSTEM: &str = "/etc/firejail";
