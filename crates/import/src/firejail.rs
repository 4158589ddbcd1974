// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Firejail's profiles: lines, obeyed in order, with files that they include.
//!
//! Firejail starts from the whole host and takes away; here what isn't granted isn't there. So what it leaves is
//! granted by name, and the profile says nothing of what it takes from there.
//!
//! - `reader`: lines, includes, conditions; `statements`, `confinement`: one line after the other
//! - `path`, `places`: which files are spoken of, and what all statements come to
//! - `calls`, `sets`: system calls and firejail's names for sets of things; `ground`: what firejail does by itself
//! - `build`: from all that to the profile

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
    /// What `noblacklist` and `nowhitelist` said before it.
    except: Rc<[Place]>,
    /// One of `whitelist`: all else beside it is gone.
    alone: bool,
}

/// What is said of a message bus.
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
    /// A directory in its place.
    Directory(Place),
}

/// A list of names, and where it is said first.
#[derive(Debug, Default)]
struct Names {
    said: bool,
    names: Vec<String>,
}

/// What the lines so far come to.
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
    /// `not_hidden` as statements share it; none when it has grown.
    shared: Option<Rc<[Place]>>,
    /// Statements of one word.
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

/// Where included files may lie, in the order in which they are looked for.
fn places_of_includes(path: &Path, host: &Host<'_>) -> Vec<PathBuf> {
    let beside = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut places = vec![host.home.join(".config/firejail"), beside, PathBuf::from(SYSTEM)];
    places.dedup();
    places
}

/// Where firejail's own files lie.
const SYSTEM: &str = "/etc/firejail";
