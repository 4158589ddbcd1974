// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host for the tests, and what `main` does around the parser.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;

use palisade_bwrap::arguments::{Host, Identity, Stop, check, parse};
use palisade_bwrap::message::{Failure, Message};
use palisade_bwrap::request::Request;
use palisade_bwrap::usage::{VERSION, usage};

/// Descriptors with content, and the warnings so far.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    pub(crate) files: BTreeMap<i32, Vec<u8>>,
    pub(crate) errors: Vec<u8>,
    pub(crate) identity: Identity,
}

impl Fake {
    /// A host whose descriptor has this content.
    pub(crate) fn with(descriptor: i32, content: &[u8]) -> Self {
        Self { files: BTreeMap::from([(descriptor, content.to_vec())]), ..Self::default() }
    }
}

impl Host for Fake {
    fn read_all(&mut self, descriptor: i32) -> io::Result<Vec<u8>> {
        self.files.remove(&descriptor).ok_or_else(|| io::Error::from_raw_os_error(9))
    }

    fn warn(&mut self, warning: &Message) {
        self.errors.extend(warning.line());
    }

    fn identity(&self) -> Identity {
        self.identity
    }
}

/// Arguments for the parser.
pub(crate) fn arguments<T: AsRef<[u8]>>(texts: &[T]) -> Vec<CString> {
    texts.iter().map(|text| CString::new(text.as_ref()).unwrap()).collect()
}

/// A request of these arguments, by root without capabilities.
pub(crate) fn request(texts: &[&str]) -> Request {
    parse(&arguments(texts), &mut Fake::default()).unwrap_or_else(|stop| panic!("{texts:?}: {stop:?}"))
}

/// The text of the failure of these arguments.
pub(crate) fn failure(texts: &[&str], host: &mut Fake) -> String {
    match parse(&arguments(texts), host) {
        Err(Stop::Failed(failure)) => failure.to_string(),
        other => panic!("{texts:?}: {other:?}"),
    }
}

/// How a program ends.
#[derive(PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) code: i32,
    pub(crate) output: Vec<u8>,
    pub(crate) errors: Vec<u8>,
}

/// How the program ends with these arguments; `None`: it starts the command.
pub(crate) fn end(texts: &[CString], mut host: Fake, name: &[u8]) -> Option<End> {
    let mut output = Vec::new();
    let code = match parse(texts, &mut host) {
        Ok(mut request) => {
            request.namespaces.user |= request.namespaces.user_if_possible;
            if request.command.is_empty() {
                host.errors.extend(usage(name));
            } else {
                let failure = check(&request, &host.identity).err()?;
                host.errors.extend(failure.message().line());
            }
            i32::from(Failure::EXIT_CODE)
        }
        Err(Stop::Help) => {
            output = usage(name);
            0
        }
        Err(Stop::Version) => {
            output = VERSION.into();
            0
        }
        Err(Stop::Usage) => {
            host.errors.extend(usage(name));
            1
        }
        Err(Stop::Failed(failure)) => {
            host.errors.extend(failure.message().line());
            i32::from(Failure::EXIT_CODE)
        }
    };
    Some(End { code, output, errors: host.errors })
}
