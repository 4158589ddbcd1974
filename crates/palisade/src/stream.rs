// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The standard streams of a command.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::sync::Arc;

/// What one of a command's standard streams is connected to.
#[derive(Debug, Clone, Default)]
pub struct Stream(Kind);

#[derive(Debug, Clone, Default)]
enum Kind {
    #[default]
    Inherited,
    Null,
    Piped,
    File(Arc<OwnedFd>),
}

impl Stream {
    /// This process's own stream.
    #[must_use]
    pub const fn inherit() -> Self {
        Self(Kind::Inherited)
    }

    /// `/dev/null`.
    #[must_use]
    pub const fn null() -> Self {
        Self(Kind::Null)
    }

    /// A pipe to this process.
    #[must_use]
    pub const fn piped() -> Self {
        Self(Kind::Piped)
    }

    /// The descriptor that the command reads from, and this process's end if it is a pipe.
    pub(crate) fn input(&self) -> io::Result<(OwnedFd, Option<PipeWriter>)> {
        Ok(match &self.0 {
            Kind::Inherited => (rustix::stdio::stdin().try_clone_to_owned()?, None),
            Kind::Null => (File::open("/dev/null")?.into(), None),
            Kind::Piped => {
                let (reader, writer) = io::pipe()?;
                (reader.into(), Some(writer))
            }
            Kind::File(file) => (file.try_clone()?, None),
        })
    }

    /// Where the command writes to, and this process's end if it is a pipe.
    pub(crate) fn output(&self) -> io::Result<(Stdio, Option<PipeReader>)> {
        Ok(match &self.0 {
            Kind::Inherited => (Stdio::inherit(), None),
            Kind::Null => (Stdio::null(), None),
            Kind::Piped => {
                let (reader, writer) = io::pipe()?;
                (Stdio::from(OwnedFd::from(writer)), Some(reader))
            }
            Kind::File(file) => (Stdio::from(file.as_fd().try_clone_to_owned()?), None),
        })
    }
}

impl From<OwnedFd> for Stream {
    fn from(file: OwnedFd) -> Self {
        Self(Kind::File(Arc::new(file)))
    }
}

impl From<File> for Stream {
    fn from(file: File) -> Self {
        OwnedFd::from(file).into()
    }
}
