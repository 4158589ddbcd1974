// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors of making, reading and unpacking a package, with a hint for each.

use palisade_sandbox::error::{PlanError, quoted};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Why a package can't be made, read or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// The program isn't the system's.
    #[error("can't package {program:?}: a package takes programs from the system's directories only")]
    NotOfSystem {
        /// It.
        program: PathBuf,
    },
    /// The profile shows the system whole.
    #[error("can't package profile {profile:?}: it has the view {view:?}; a package needs \"closure\"")]
    View {
        /// The profile.
        profile: String,
        /// Its view.
        view: &'static str,
    },
    /// The profile runs programs of the host.
    #[error("can't package profile {profile:?}: its hooks run programs of the host, which a package lacks")]
    Hooks {
        /// The profile.
        profile: String,
    },
    /// What is in a package can't be changed.
    #[error(
        "can't package profile {profile:?}: it allows writing to {path:?}, and files in a package can't change"
    )]
    Writes {
        /// The profile.
        profile: String,
        /// The path.
        path: PathBuf,
    },
    /// What the profile says can't be kept on this host.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A file that is needed can't be read.
    #[error("can't pack {path:?}: {source}")]
    Take {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The program that is to be in front isn't one.
    #[error("{path:?} is no palisade of this version")]
    NoLauncher {
        /// The file.
        path: PathBuf,
    },
    /// It needs libraries of the host.
    #[error("{path:?} needs {interpreter:?} to start, which another machine may not have")]
    DynamicLauncher {
        /// The file.
        path: PathBuf,
        /// Its loader.
        interpreter: PathBuf,
    },
    /// It carries a package already.
    #[error("{path:?} is a package already")]
    SealedLauncher {
        /// The file.
        path: PathBuf,
    },
    /// The package can't be written.
    #[error("can't write {path:?}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The output file exists already.
    #[error("{path:?} is there already")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file carries no package.
    #[error("{path:?} is no package")]
    NoPackage {
        /// The file.
        path: PathBuf,
    },
    /// The file can't be read.
    #[error("can't read the package: {source}")]
    Read {
        /// Why.
        source: std::io::Error,
    },
    /// The file ends too early.
    #[error("the package is cut off: the file has {there} bytes of {wanted}")]
    CutOff {
        /// Bytes there are.
        there: u64,
        /// Bytes there should be.
        wanted: u64,
    },
    /// The file isn't what it was.
    #[error("the package is damaged: {what}")]
    Damaged {
        /// What doesn't fit.
        what: &'static str,
    },
    /// Another Palisade made it.
    #[error("the package has format {version}, and this program reads format {}", super::manifest::VERSION)]
    Version {
        /// Its form.
        version: u32,
    },
    /// It is for other machines.
    #[error("the package is for {package} machines, this is one of {this}")]
    Machine {
        /// What it is for.
        package: String,
        /// What this is.
        this: String,
    },
    /// A file can't be unpacked.
    #[error("can't unpack {path:?}: {source}")]
    Unpack {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is too little room.
    #[error("can't unpack into {directory:?}: {} are needed, {} are free", mebibytes(*.needed), mebibytes(*.free))]
    NoRoom {
        /// Where.
        directory: PathBuf,
        /// Bytes that are needed.
        needed: u64,
        /// Bytes that there are.
        free: u64,
    },
    /// Programs can't be executed there.
    #[error("can't unpack into {directory:?}: nothing can be executed there (it is mounted noexec)")]
    NoExecution {
        /// Where.
        directory: PathBuf,
    },
    /// Others could change what is unpacked.
    #[error("can't unpack into {directory:?}: other users may write there, or you don't own it")]
    Distrusted {
        /// Where.
        directory: PathBuf,
    },
    /// It is being used.
    #[error("can't remove {directory:?}: it is in use")]
    InUse {
        /// The directory.
        directory: PathBuf,
    },
    /// An option that there isn't.
    #[error("there is no option {option:?}")]
    Option {
        /// It.
        option: OsString,
    },
}

/// A size for people.
#[must_use]
pub fn mebibytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10).div_ceil(1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

/// What to do where the cache of this user can't be used.
fn elsewhere_hint() -> String {
    "unpack elsewhere: XDG_CACHE_HOME=DIRECTORY in front of the command".to_owned()
}

impl PackageError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let full = |source: &std::io::Error| {
            matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
        };
        Some(match self {
            Self::Plan(error) => return error.hint(),
            Self::NotOfSystem { .. } => {
                "install it below /usr/local or /opt, or name another with --program".to_owned()
            }
            Self::View { .. } => "[filesystem] view = \"closure\" in a profile of yours".to_owned(),
            Self::Hooks { profile } | Self::Writes { profile, .. } => {
                format!(
                    "palisade profile create NAME --from {}   # then remove that part from NAME",
                    quoted(profile)
                )
            }
            Self::NoLauncher { .. } | Self::DynamicLauncher { .. } => {
                "palisade package --launcher FILE …   # a static palisade of this version".to_owned()
            }
            Self::SealedLauncher { .. } => {
                "palisade package --launcher FILE …   # an ordinary palisade".to_owned()
            }
            Self::Write { source, .. } if full(source) => "make room, or write to another disk".to_owned(),
            Self::Exists { .. } => "palisade package --force …   # replaces it".to_owned(),
            Self::NoPackage { .. } => "palisade package PROFILE --output FILE   # makes one".to_owned(),
            Self::CutOff { .. } | Self::Damaged { .. } => {
                "get the file again: this copy is damaged".to_owned()
            }
            Self::Version { .. } => "make the package again, with this palisade".to_owned(),
            Self::Machine { .. } => "make the package on a machine of this kind".to_owned(),
            Self::NoRoom { .. } | Self::NoExecution { .. } => elsewhere_hint(),
            Self::Unpack { source, .. }
                if full(source)
                    || matches!(
                        source.kind(),
                        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotFound
                    ) =>
            {
                elsewhere_hint()
            }
            Self::Distrusted { directory } => {
                format!("look at it, then: chmod go-w {}", quoted(&directory.to_string_lossy()))
            }
            Self::InUse { .. } => "wait until the application has ended".to_owned(),
            Self::Option { .. } => "--palisade-help   # lists the options".to_owned(),
            Self::Take { .. } | Self::Write { .. } | Self::Read { .. } | Self::Unpack { .. } => return None,
        })
    }
}
