// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From this process's arguments to its exit code.

use crate::arguments::{self, Host, Stop};
use crate::launch;
use crate::message::Failure;
use crate::process::Process;
use crate::request::Request;
use crate::usage;
use std::ffi::{CString, OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The exit code if there is no sandbox.
pub const FAILURE: u8 = Failure::EXIT_CODE;

/// A policy that a request is launched with in place of bubblewrap's processes.
#[derive(Debug)]
pub struct Policy<F> {
    /// The policy of callers that can't give `--policy`.
    pub usual: Option<OsString>,
    /// Launches a request by the named policy, and returns the exit code.
    pub launch: F,
}

/// Runs what `arguments`, the words behind `name`, ask for. Returns this process's exit code, in the sandbox's processes
/// too: a command that can't be started ends with 1.
///
/// Where the kernel refuses a user namespace, or what is done in one, `explain` returns the reason in lines of its own,
/// if there is more to say. They are printed behind bubblewrap's own words.
#[must_use]
pub fn run<F>(name: &OsStr, arguments: Vec<OsString>, policy: Policy<F>, explain: fn() -> Vec<String>) -> u8
where
    F: FnOnce(Request, &OsStr) -> u8,
{
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
    let mut request = request;
    let named = request.policy.take().map(|name| OsString::from_vec(name.into_bytes()));
    if let Some(named) = named.or(policy.usual) {
        return match launch::settle(&mut request, &process.identity()) {
            Ok(()) => (policy.launch)(request, &named),
            Err(failure) => failed(&failure.prefixed(level_prefix)),
        };
    }
    match launch::launch(request, process.identity()) {
        Ok(ended) if ended.is_refused => explained(explain, level_prefix, ended.code),
        Ok(ended) => ended.code,
        Err(failure) => {
            let is_refused = failure.is_refusal();
            let code = failed(&failure.prefixed(level_prefix));
            if is_refused { explained(explain, level_prefix, code) } else { code }
        }
    }
}

/// Prints the reason of a refusal.
fn explained(explain: fn() -> Vec<String>, level_prefix: bool, code: u8) -> u8 {
    let prefix = if level_prefix { "<3>" } else { "" };
    let text: String = explain().iter().map(|line| format!("{prefix}{line}\n")).collect();
    print(std::io::stderr(), text.as_bytes(), code)
}

fn failed(failure: &Failure) -> u8 {
    print(std::io::stderr(), &failure.message().line(), Failure::EXIT_CODE)
}

fn print(mut to: impl Write, text: &[u8], code: u8) -> u8 {
    // There is nowhere else to say that nobody reads.
    let _unread = to.write_all(text).and_then(|()| to.flush());
    code
}
