// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From this process's arguments to its exit code.

use crate::arguments::{self, Host, Stop};
use crate::launch;
use crate::message::Failure;
use crate::process::Process;
use crate::usage;
use std::ffi::{CString, OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Runs what `arguments`, the words behind `name`, ask for. Returns this process's exit code, in the sandbox's processes
/// too: a command that can't be started ends with 1.
#[must_use]
pub fn run(name: &OsStr, arguments: Vec<OsString>) -> u8 {
    // The kernel gives no argument with a NUL.
    let words: Vec<CString> =
        arguments.into_iter().filter_map(|word| CString::new(word.into_vec()).ok()).collect();
    let usage = || usage::usage(name.as_bytes());
    if let [only] = words.as_slice()
        && only.as_c_str() == c"--version"
    {
        return print(std::io::stdout(), usage::VERSION.as_bytes(), 0);
    }
    let mut process = match Process::new(palisade_sys::family::take) {
        Ok(process) => process,
        Err(failure) => return failed(&failure),
    };
    let request = match arguments::parse(&words, &mut process) {
        Ok(request) if request.command.is_empty() => return print(std::io::stderr(), &usage(), 1),
        Ok(request) => request,
        Err(Stop::Help) => return print(std::io::stdout(), &usage(), 0),
        Err(Stop::Version) => return print(std::io::stdout(), usage::VERSION.as_bytes(), 0),
        Err(Stop::Usage) => return print(std::io::stderr(), &usage(), 1),
        Err(Stop::Failed(failure)) => return failed(&failure),
    };
    let level_prefix = request.level_prefix;
    match launch::launch(request, process.identity()) {
        Ok(code) => code,
        Err(failure) => failed(&failure.prefixed(level_prefix)),
    }
}

fn failed(failure: &Failure) -> u8 {
    print(std::io::stderr(), &failure.message().line(), Failure::EXIT_CODE)
}

fn print(mut to: impl Write, text: &[u8], code: u8) -> u8 {
    // There is nowhere else to say that nobody reads.
    let _unread = to.write_all(text).and_then(|()| to.flush());
    code
}
