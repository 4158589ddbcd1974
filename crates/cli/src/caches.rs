// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade caches`: lists and removes what is kept of package managers and compilers for each project.

use crate::situation;
use crate::verb::{self, Failure, NO, YES};
use clap::{Subcommand, ValueHint};
use palisade_sandbox::caches::projects::{self, Project};
use palisade_text::Show as _;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The caches of projects.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the projects that have caches, and the size of each
    List {
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove caches; a command that uses them at this time loses them
    Remove {
        /// The projects' directories; without any: those of projects that are gone
        #[arg(value_name = "PROJECT", value_hint = ValueHint::DirPath, conflicts_with = "all")]
        projects: Vec<PathBuf>,
        /// The caches of all projects
        #[arg(long)]
        all: bool,
    },
}

#[derive(Serialize)]
struct Listed<'p> {
    path: String,
    /// As the file system has it, where `path` isn't exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<&'p [u8]>,
    size: u64,
    gone: bool,
}

#[derive(Serialize)]
struct List<'p> {
    projects: Vec<Listed<'p>>,
}

pub(crate) fn run(options: &Options) -> u8 {
    let json = matches!(options.what, What::List { json: true });
    verb::finish(
        json,
        match &options.what {
            What::List { json } => list(*json),
            What::Remove { projects, all } => remove(projects, *all),
        },
    )
}

fn all() -> Result<Vec<Project>, Failure> {
    let places = situation::facts()?.places;
    projects::list(&places)
        .map_err(|source| Failure::Read { path: palisade_sandbox::caches::directory(&places), source })
}

fn list(json: bool) -> Result<u8, Failure> {
    use std::os::unix::ffi::OsStrExt as _;
    let projects = all()?;
    if json {
        let listed = projects.iter().map(|project| Listed {
            path: project.path.to_string_lossy().into_owned(),
            bytes: project.path.to_str().is_none().then(|| project.path.as_os_str().as_bytes()),
            size: project.size,
            gone: project.gone,
        });
        verb::print_json(&List { projects: listed.collect() })?;
    } else {
        let mut text = String::new();
        for project in &projects {
            let gone = if project.gone { "   (the project is gone)" } else { "" };
            text.push_str(&format!("{:>10}  {}{gone}\n", mebibytes(project.size), project.path.shown()));
        }
        verb::print(&text)?;
    }
    Ok(if projects.is_empty() { NO } else { YES })
}

fn remove(named: &[PathBuf], everything: bool) -> Result<u8, Failure> {
    let named: Vec<PathBuf> = named.iter().map(|path| whole(path)).collect();
    let wanted = |project: &&Project| {
        everything || if named.is_empty() { project.gone } else { named.contains(&project.path) }
    };
    let projects = all()?;
    let mut size = 0;
    let mut removed = 0_usize;
    for project in projects.iter().filter(wanted) {
        project.remove().map_err(|source| Failure::Write { path: project.path.clone(), source })?;
        size += project.size;
        removed += 1;
    }
    verb::print(&format!("removed the caches of {removed} projects: {}\n", mebibytes(size)))?;
    Ok(if removed == 0 { NO } else { YES })
}

/// As the project's path was stored: without links, or as it is written if the project is gone.
fn whole(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_gone| std::path::absolute(path)).unwrap_or_else(|_empty| path.to_owned())
}

fn mebibytes(bytes: u64) -> String {
    let tenths = bytes.div_ceil((1 << 20) / 10);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}
