// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From arguments to a request.
//!
//! Options take effect in their order: a warning or an error is about the first thing that is wrong, and descriptors are
//! read where `--args` and `--add-seccomp-fd` stand.

mod setting;
mod step;

use std::ffi::{CStr, CString};
use std::io;

use crate::message::{Failure, Message, Severity};
use crate::number;
use crate::request::{Request, Setup};

/// How many arguments there may be, with those of `--args`.
const MOST_ARGUMENTS: usize = 9000;
/// What is wrong after `--overlay-src`.
const NO_OVERLAY: &str = "--overlay-src must be followed by another --overlay-src or one of --overlay, --tmp-overlay, or --ro-overlay";

/// What parsing needs of the process that it happens in.
pub trait Host {
    /// Reads a descriptor to its end, then closes it.
    ///
    /// # Errors
    /// The kernel's reason, as a number, why it can't be read.
    fn read_all(&mut self, descriptor: i32) -> io::Result<Vec<u8>>;

    /// Prints a warning.
    fn warn(&mut self, warning: &Message);

    /// Who runs this.
    fn identity(&self) -> Identity;
}

/// Who runs this program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// The real user.
    pub uid: u32,
    /// The real group.
    pub gid: u32,
    /// The effective capabilities, one bit for each. They count for root only.
    pub capabilities: u64,
}

/// Why there is no request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The usage is printed to standard output, and the program ends with 0.
    Help,
    /// The version is printed to standard output, and the program ends with 0.
    Version,
    /// There are no arguments: the usage is printed to standard error, and the program ends with 1.
    Usage,
    /// A message is printed, and the program ends with 1.
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Parses the arguments that follow the program's name.
///
/// The request's command is empty when there is none. The caller prints the usage to standard error and ends with 1 then,
/// but only after `--unshare-user-try` is settled. After that it calls [`check`].
///
/// # Errors
/// When the program ends here.
pub fn parse(arguments: &[CString], host: &mut dyn Host) -> Result<Request, Stop> {
    if arguments.is_empty() {
        return Err(Stop::Usage);
    }
    let mut parser = Parser {
        host,
        request: Request::default(),
        count: arguments.len(),
        mode: None,
        size: None,
        layers: Vec::new(),
    };
    let command = parser.options(arguments, false)?;
    if !parser.layers.is_empty() {
        return Err(parser.failed(NO_OVERLAY));
    }
    parser.request.command = command.to_vec();
    agree(&parser.request).map_err(|text| parser.failed(text))?;
    let Parser { host, mut request, .. } = parser;
    // Only root can do without. This comes last, so others have to give `--unshare-user` where it is required above.
    if host.identity().uid != 0 && request.descriptors.user_namespace.is_none() {
        request.namespaces.user = true;
    }
    Ok(request)
}

/// The options that can't be used together, or need others.
fn agree(request: &Request) -> Result<(), &'static str> {
    let descriptors = &request.descriptors;
    let namespaces = &request.namespaces;
    if descriptors.user_map_block.is_some() && !namespaces.user {
        return Err("--userns-block-fd requires --unshare-user");
    }
    if descriptors.user_map_block.is_some() && descriptors.info.is_none() {
        return Err("--userns-block-fd requires --info-fd");
    }
    if descriptors.user_namespace.is_some() && namespaces.user {
        return Err("--userns not compatible --unshare-user");
    }
    if descriptors.user_namespace.is_some() && namespaces.user_if_possible {
        return Err("--userns not compatible --unshare-user-try");
    }
    if request.disable_user_namespaces && !namespaces.user {
        return Err("--disable-userns requires --unshare-user");
    }
    if request.disable_user_namespaces && descriptors.user_map_block.is_some() {
        return Err("--disable-userns is not compatible with  --userns-block-fd");
    }
    Ok(())
}

/// The checks that are made once `namespaces.user` says whether there is a new user namespace, and there is a command.
///
/// # Errors
/// When an option is missing that another needs.
pub fn check(request: &Request, identity: &Identity) -> Result<(), Failure> {
    let namespaces = &request.namespaces;
    let own_users = namespaces.user || request.descriptors.user_namespace.is_some();
    let differs = |wanted: Option<u32>, current: u32| wanted.is_some_and(|wanted| wanted != current);
    let named = || request.setup.iter().any(|step| matches!(step, Setup::Hostname { .. }));
    let wrong = if !own_users && differs(request.uid, identity.uid) {
        "Specifying --uid requires --unshare-user or --userns"
    } else if !own_users && differs(request.gid, identity.gid) {
        "Specifying --gid requires --unshare-user or --userns"
    } else if !namespaces.uts && named() {
        "Specifying --hostname requires --unshare-uts"
    } else if request.as_pid_1 && !namespaces.pid {
        "Specifying --as-pid-1 requires --unshare-pid"
    } else if request.as_pid_1 && !request.locks.is_empty() {
        "Specifying --as-pid-1 and --lock-file is not permitted"
    } else {
        return Ok(());
    };
    Err(Failure::new(wrong).prefixed(request.level_prefix))
}

/// The state between options. It is the same for the arguments and for the data of `--args`.
struct Parser<'h> {
    host: &'h mut dyn Host,
    request: Request,
    /// The arguments so far, with all of those that aren't from data.
    count: usize,
    /// `--perms`, until an option takes it.
    mode: Option<u32>,
    /// `--size`, until an option takes it.
    size: Option<u64>,
    /// `--overlay-src`, until an option takes them.
    layers: Vec<CString>,
}

/// An option and the arguments that follow it.
struct Following<'a> {
    option: &'a CStr,
    rest: &'a [CString],
}

impl<'a> Following<'a> {
    /// The option's values, if there are enough.
    fn take<const N: usize>(&mut self) -> Option<&'a [CString; N]> {
        let (values, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(values)
    }
}

impl Parser<'_> {
    /// Parses options up to the command, and returns the command.
    fn options<'a>(&mut self, arguments: &'a [CString], in_data: bool) -> Result<&'a [CString], Stop> {
        self.check_count()?;
        let mut rest = arguments;
        while let Some((option, after)) = rest.split_first() {
            match option.to_bytes() {
                b"--" => return Ok(after),
                [b'-', ..] => {}
                _ => return Ok(rest),
            }
            let mut following = Following { option, rest: after };
            self.option(&mut following, in_data)?;
            self.check_modifiers(option.to_bytes())?;
            rest = following.rest;
        }
        Ok(rest)
    }

    fn option(&mut self, following: &mut Following<'_>, in_data: bool) -> Result<(), Stop> {
        match following.option.to_bytes() {
            b"--help" => Err(Stop::Help),
            b"--version" => Err(Stop::Version),
            b"--args" if in_data => Err(self.failed("--args not supported in arguments file")),
            b"--args" => self.data(following),
            _ if self.switch(following.option) => Ok(()),
            _ if self.step(following)? || self.setting(following)? => Ok(()),
            unknown => Err(self.failed_about("Unknown option ", unknown)),
        }
    }

    /// The arguments of `--args` are parsed in their place. What follows a `--` or a command there isn't looked at.
    fn data(&mut self, following: &mut Following<'_>) -> Result<(), Stop> {
        let descriptor = self.one(following)?;
        let descriptor = self.descriptor(descriptor)?;
        let data = self.read(descriptor, "Can't read --args data")?;
        let mut arguments = Vec::new();
        // A NUL ends an argument; it doesn't begin another.
        for argument in data.split_inclusive(|&byte| byte == 0) {
            self.count = self.count.saturating_add(1);
            self.check_count()?;
            // No other NUL is in it.
            let argument = argument.strip_suffix(b"\0").unwrap_or(argument);
            arguments.push(CString::new(argument).unwrap_or_default());
        }
        let _ignored = self.options(&arguments, true)?;
        Ok(())
    }

    fn check_count(&self) -> Result<(), Stop> {
        if self.count > MOST_ARGUMENTS {
            return Err(self.failed(format!("Exceeded maximum number of arguments {MOST_ARGUMENTS}")));
        }
        Ok(())
    }

    /// `--perms`, `--size` and `--overlay-src` are about the next option, so that has to be one of theirs.
    fn check_modifiers(&self, option: &[u8]) -> Result<(), Stop> {
        let modifies = matches!(option, b"--perms" | b"--size");
        if !modifies && self.mode.is_some() {
            return Err(self.failed("--perms must be followed by an option that creates a file"));
        }
        if !modifies && self.size.is_some() {
            return Err(self.failed("--size must be followed by --tmpfs"));
        }
        if option != b"--overlay-src" && !self.layers.is_empty() {
            return Err(self.failed(NO_OVERLAY));
        }
        Ok(())
    }

    /// The value of an option that takes one.
    fn one<'a>(&self, following: &mut Following<'a>) -> Result<&'a CStr, Stop> {
        match following.take() {
            Some([value]) => Ok(value),
            None => Err(self.failed([following.option.to_bytes(), b" takes an argument"].concat())),
        }
    }

    /// As `one`, for the options that say it in another way.
    fn only_one<'a>(&self, following: &mut Following<'a>) -> Result<&'a CStr, Stop> {
        match following.take() {
            Some([value]) => Ok(value),
            None => Err(self.failed([following.option.to_bytes(), b" takes one argument"].concat())),
        }
    }

    /// The values of an option that takes two.
    fn two<'a>(&self, following: &mut Following<'a>) -> Result<[&'a CStr; 2], Stop> {
        match following.take() {
            Some([first, second]) => Ok([first, second]),
            None => Err(self.failed([following.option.to_bytes(), b" takes two arguments"].concat())),
        }
    }

    fn descriptor(&self, text: &CStr) -> Result<i32, Stop> {
        number::natural(text.to_bytes()).ok_or_else(|| self.failed_about("Invalid fd: ", text.to_bytes()))
    }

    fn read(&mut self, descriptor: i32, otherwise: &str) -> Result<Vec<u8>, Stop> {
        let level_prefix = self.request.level_prefix;
        self.host
            .read_all(descriptor)
            .map_err(|error| Failure::because(otherwise, &error).prefixed(level_prefix).into())
    }

    /// Warns that an earlier value is replaced.
    fn replaces(&mut self, option: &CStr) {
        let text = [b"Only the last ", option.to_bytes(), b" option will take effect"].concat();
        let warning = Message::new(Severity::Warning, text).prefixed(self.request.level_prefix);
        self.host.warn(&warning);
    }

    fn failed(&self, text: impl Into<Vec<u8>>) -> Stop {
        Failure::new(text).prefixed(self.request.level_prefix).into()
    }

    fn failed_about(&self, text: &str, subject: &[u8]) -> Stop {
        self.failed([text.as_bytes(), subject].concat())
    }
}
