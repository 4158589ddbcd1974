// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade store`: plans and policy that users go by, and that no program of theirs can change.

use crate::answer::{self, Failure, NO, YES};
use crate::{open, output};
use clap::Subcommand;
use palisade_host::account::{self, AccountError, Databases};
use palisade_host::environment::Environment;
use palisade_sandbox::plan::cache::Cache;
use palisade_sandbox::plan::store::{self, STORE};
use palisade_sys::fork::{self, User};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// No plan is larger.
const LARGEST: u64 = 16 << 20;
/// `PATH` of a login where nothing else says.
const LOGIN_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games";

/// The system's store.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make it: from then on only the system's policy files, profiles and plans count for ordinary users
    Enable,
    /// Remove it with all plans in it
    Disable,
    /// Say whether it is there, and for whom there are plans
    Status {
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Serialize)]
struct Status {
    enabled: bool,
    directory: &'static str,
    users: Vec<Plans>,
}

#[derive(Serialize)]
struct Plans {
    uid: u32,
    plans: usize,
}

pub(crate) fn run(options: &Options) -> u8 {
    let json = matches!(options.what, What::Status { json: true });
    answer::finish(
        json,
        match options.what {
            What::Enable => enable(),
            What::Disable => disable(),
            What::Status { json } => status(json),
        },
    )
}

fn root_only() -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(Failure::RootOnly { what: "the system's store" })
    }
}

fn enable() -> Result<u8, Failure> {
    root_only()?;
    store::make().map_err(|errno| Failure::Write { path: STORE.into(), source: errno.into() })?;
    output::note(&"from now on only the system's policy files and profiles count for ordinary users");
    output::note(&"plans are made ahead by: palisade profile refresh --all --user NAME");
    Ok(YES)
}

fn disable() -> Result<u8, Failure> {
    root_only()?;
    match std::fs::remove_dir_all(STORE) {
        Ok(()) => Ok(YES),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(NO),
        Err(source) => Err(Failure::Write { path: STORE.into(), source }),
    }
}

fn status(json: bool) -> Result<u8, Failure> {
    let enabled = store::is_there();
    let mut users = Vec::new();
    for entry in std::fs::read_dir(STORE).into_iter().flatten().flatten().filter(|_| enabled) {
        let Some(uid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let plans = std::fs::read_dir(entry.path()).map_or(0, Iterator::count);
        users.push(Plans { uid, plans });
    }
    users.sort_by_key(|user| user.uid);
    if json {
        answer::print_json(&Status { enabled, directory: STORE, users })?;
    } else {
        let mut text =
            format!("{STORE}: {}\n", if enabled { "only the system's policy counts" } else { "not there" });
        for user in &users {
            text.push_str(&format!("  user {}: {} plans\n", user.uid, user.plans));
        }
        answer::print(&text)?;
    }
    Ok(if enabled { YES } else { NO })
}

/// A user in whose name plans are made.
pub(crate) struct ForUser(User);

impl ForUser {
    /// The user called `name`, with the variables of process `like`.
    pub(crate) fn new(name: &str, like: Option<u32>) -> Result<Self, Failure> {
        root_only()?;
        if !store::is_there() {
            return Err(Failure::NoStore);
        }
        let databases = Databases::default();
        let unknown = || Failure::NoAccount { name: name.to_owned() };
        let (uid, gid, home) = account::by_name(name, &databases)?.ok_or_else(unknown)?;
        if uid == 0 {
            return Err(unknown());
        }
        let environment = match like {
            Some(pid) => variables_of(pid, uid)?,
            None => login(name, uid, &home),
        };
        let groups = groups(uid, gid, &databases, &home)?;
        Ok(Self(User { uid, gid, groups, environment }))
    }

    /// The user's plans.
    pub(crate) fn cache(&self) -> Cache {
        store::plans_of(self.0.uid)
    }

    /// Makes the plan of a profile, and keeps it if asked to: how many steps it has, and whether it is kept.
    pub(crate) fn plan(&self, profile: &str, keep: bool) -> Result<(usize, bool), String> {
        const DONE: u8 = 0;
        const FAILED: u8 = 1;
        let work = || match open::for_store(profile.as_ref()) {
            Ok((steps, packed)) => {
                let mut said = vec![DONE];
                said.extend_from_slice(&(steps as u64).to_le_bytes());
                said.extend(packed.unwrap_or_default());
                said
            }
            Err(error) => [&[FAILED][..], error.to_string().as_bytes()].concat(),
        };
        let said = fork::as_user(&self.0, LARGEST, work).map_err(|error| error.to_string())?;
        match said.split_first() {
            Some((&DONE, rest)) => {
                let (steps, packed) = rest.split_first_chunk::<8>().ok_or("it said too little")?;
                let steps = usize::try_from(u64::from_le_bytes(*steps)).unwrap_or(0);
                let Some((key, body)) = store::unpacked(packed).filter(|_| keep) else {
                    return Ok((steps, false));
                };
                self.cache()
                    .put(&key, body)
                    .map_err(|errno| format!("can't write below {STORE}: {errno}"))?;
                Ok((steps, true))
            }
            Some((_failed, why)) => Err(String::from_utf8_lossy(why).into_owned()),
            None => Err("it said nothing".to_owned()),
        }
    }
}

fn groups(uid: u32, gid: u32, databases: &Databases, home: &Path) -> Result<Vec<u32>, AccountError> {
    let environment = Environment::from_iter([("HOME", home)]);
    let account = account::lookup(uid, gid, databases, &environment)?;
    Ok(account.groups.iter().map(|group| group.gid).collect())
}

/// What a login gives.
fn login(name: &str, uid: u32, home: &Path) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = vec![
        ("HOME".into(), home.into()),
        ("USER".into(), name.into()),
        ("LOGNAME".into(), name.into()),
        ("PATH".into(), LOGIN_PATH.into()),
    ];
    let runtime = PathBuf::from(format!("/run/user/{uid}"));
    if runtime.is_dir() {
        variables.push(("XDG_RUNTIME_DIR".into(), runtime.into()));
    }
    variables
}

/// The variables of one of the user's processes.
fn variables_of(pid: u32, uid: u32) -> Result<Vec<(OsString, OsString)>, Failure> {
    use std::os::unix::fs::MetadataExt;
    let path = PathBuf::from(format!("/proc/{pid}/environ"));
    let failed = |source| Failure::Read { path: path.clone(), source };
    let owner = std::fs::metadata(path.with_file_name("")).map_err(failed)?.uid();
    if owner != uid {
        return Err(failed(std::io::Error::other(format!("process {pid} is user {owner}'s"))));
    }
    let bytes = std::fs::read(&path).map_err(failed)?;
    let pairs = bytes.split(|byte| *byte == 0).filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
        Some((OsStr::from_bytes(&pair[..at]).to_owned(), OsStr::from_bytes(&pair[at + 1..]).to_owned()))
    });
    Ok(pairs.collect())
}
