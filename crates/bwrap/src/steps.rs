// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what the arguments ask for to the engine's steps.

use crate::message::Failure;
use crate::request::{Access, Changes, Origin, Request, Setup};
use crate::words::{Result, Words, because, joined};
use palisade_sys::operation::Attributes;
use palisade_sys::staged::{self, Operation, Source, relative};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What a step takes from the host.
#[derive(Debug)]
pub(crate) enum Found {
    /// Nothing.
    Nothing,
    /// A source that doesn't exist, and need not.
    Absent,
    /// A detached tree.
    Tree(OwnedFd),
    /// A canonical path: more trees than descriptors.
    Path(CString),
    /// A file or tree that can't be mounted, for this reason.
    Unmountable(Errno),
    /// The canonical paths of an overlay: upper, work, layers.
    Layers(Vec<CString>),
}

fn canonical(path: &CStr) -> core::result::Result<CString, Errno> {
    let found = std::fs::canonicalize(OsStr::from_bytes(path.to_bytes()))
        .map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))?;
    CString::new(found.into_os_string().into_vec()).map_err(|_no_path_has_one| Errno::INVAL)
}

/// What bubblewrap calls a source in its errors.
pub(crate) fn source_name(path: &CStr) -> CString {
    canonical(path).unwrap_or_else(|_gone| path.to_owned())
}

fn no_source(path: &CStr, errno: Errno) -> Failure {
    because(joined(&[b"Can't find source path ", path.to_bytes()]), errno)
}

/// Looks up everything that the steps take from the host, before any step runs.
pub(crate) fn find(request: &Request) -> Result<Vec<Found>> {
    request.setup.iter().map(find_one).collect()
}

fn find_one(step: &Setup) -> Result<Found> {
    match step {
        Setup::Bind { source, optional, .. } => {
            let path = origin(source);
            match staged::detach(&path) {
                Ok(tree) => Ok(Found::Tree(tree)),
                Err(Errno::NOENT) if *optional => Ok(Found::Absent),
                Err(refused) => match canonical(&path) {
                    Ok(path) if matches!(refused, Errno::MFILE | Errno::NFILE) => Ok(Found::Path(path)),
                    // A link to an open file leads into the caller's mounts, which can't be cloned here.
                    Ok(path) => Ok(staged::detach(&path).map_or_else(Found::Unmountable, Found::Tree)),
                    Err(Errno::NOENT) if *optional => Ok(Found::Absent),
                    Err(errno) => Err(no_source(&path, errno)),
                },
            }
        }
        Setup::Overlay { changes, layers, .. } => {
            let kept: &[&CString] = match changes {
                Changes::Kept { upper, work } => &[upper, work],
                Changes::Temporary | Changes::None => &[],
            };
            let paths = kept.iter().copied().chain(layers);
            let found = paths.map(|path| canonical(path).map_err(|errno| no_source(path, errno)));
            found.collect::<Result<_>>().map(Found::Layers)
        }
        _ => Ok(Found::Nothing),
    }
}

fn origin(source: &Origin) -> CString {
    match source {
        Origin::Path(path) => path.clone(),
        Origin::Descriptor(number) => {
            // Not a mount of the descriptor itself: the kernel refuses trees of other mount namespaces.
            let link = format!("/proc/self/fd/{number}");
            std::fs::read_link(&link)
                .ok()
                .and_then(|target| CString::new(target.into_os_string().into_vec()).ok())
                .or_else(|| CString::new(link).ok())
                .unwrap_or_default()
        }
    }
}

/// How many overlays have changes that are gone with the sandbox; each has two directories.
pub(crate) fn temporary_overlays(request: &Request) -> Vec<[CString; 2]> {
    let temporary = |step: &&Setup| matches!(step, Setup::Overlay { changes: Changes::Temporary, .. });
    (0..request.setup.iter().filter(temporary).count())
        .map(|number| {
            ["upper", "work"]
                .map(|part| CString::new(format!("tmp-overlay-{part}-{number}")).unwrap_or_default())
        })
        .collect()
}

pub(crate) const fn has_overlays(step: &Setup) -> bool {
    matches!(step, Setup::Overlay { .. })
}

/// The facts of the host that steps depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    /// The sandbox has a PID namespace of its own.
    pub(crate) own_processes: bool,
    /// The terminal that is standard output.
    pub(crate) terminal: Option<&'a CStr>,
}

/// Runs a step, whose errors are in these words.
pub(crate) type Sink<'s> = &'s mut dyn FnMut(&Operation<'_>, &Words<'_>) -> Result<()>;

/// Gives the steps to `sink`, in order.
pub(crate) fn each(request: &Request, found: &[Found], facts: &Facts<'_>, sink: Sink<'_>) -> Result<()> {
    let mut files = 0;
    let mut overlays = 0;
    for (step, found) in request.setup.iter().zip(found) {
        if matches!(found, Found::Absent) {
            continue;
        }
        if let Some((dest, mode)) = parents_of(step) {
            let path = relative(dest);
            // A path of one component has none.
            if path.to_bytes().contains(&b'/') {
                sink(&Operation::Parents { path, mode }, &Words::Parents(dest))?;
            }
        }
        match step {
            Setup::Bind { source, dest, access, .. } => bind(source, found, dest, *access, sink)?,
            Setup::Overlay { changes, dest, .. } => {
                let Found::Layers(paths) = found else { continue };
                directory(dest, 0o755, sink)?;
                let options = overlay_options(changes, paths, &mut overlays);
                let operation = Operation::Overlay { options: &options, target: relative(dest) };
                sink(&operation, &Words::Overlay { options: &options, dest })?;
            }
            Setup::Proc { dest } => processes(dest, facts.own_processes, sink)?,
            Setup::Devices { dest } => devices(dest, facts.terminal, sink)?,
            Setup::Tmpfs { dest, mode, size } => {
                directory(dest, 0o755, sink)?;
                tmpfs(dest, *mode, *size, sink)?;
            }
            Setup::MessageQueues { dest } => {
                directory(dest, 0o755, sink)?;
                filesystem("mqueue", c"mqueue", &[], &[], Attributes::default(), dest, sink)?;
            }
            Setup::Directory { dest, mode } => directory(dest, *mode, sink)?,
            Setup::File { content, dest, mode } => {
                let operation = Operation::Content { content: *content, path: relative(dest), mode: *mode };
                sink(&operation, &Words::File(dest))?;
            }
            Setup::Data { content, dest, mode, read_only } => {
                files += 1;
                let name = CString::new(format!("bindfile{files:06}")).unwrap_or_default();
                // The process's root is one level above the new root.
                let held = CString::new(joined(&[b"/", name.to_bytes()])).unwrap_or_default();
                let attributes = if *read_only { Attributes::READ_ONLY } else { Attributes::default() }
                    .and(Attributes::NODEV);
                let operation = Operation::Data {
                    content: *content,
                    name: &held,
                    target: relative(dest),
                    mode: *mode,
                    attributes,
                };
                sink(&operation, &Words::Data { name: &name, dest, mode: *mode })?;
            }
            Setup::Symlink { target, dest } => {
                sink(&Operation::Symlink { target, path: relative(dest) }, &Words::Symlink(dest))?;
            }
            Setup::ReadOnly { dest } => {
                sink(&Operation::ReadOnly { path: relative(dest) }, &Words::ReadOnly(dest))?;
            }
            Setup::Hostname { name } => sink(&Operation::Hostname { name }, &Words::Hostname(name))?,
            Setup::Permissions { dest, mode } => {
                let operation = Operation::Permissions { path: relative(dest), mode: *mode };
                sink(&operation, &Words::Permissions { dest, mode: *mode })?;
            }
        }
    }
    Ok(())
}

/// The destination whose parents a step makes, and their permissions: as closed as the step's own.
fn parents_of(step: &Setup) -> Option<(&CStr, u32)> {
    let (dest, mode) = match step {
        // bubblewrap has no permissions for these, and takes none for zero.
        Setup::Bind { dest, .. }
        | Setup::Overlay { dest, .. }
        | Setup::Proc { dest }
        | Setup::Devices { dest }
        | Setup::MessageQueues { dest }
        | Setup::Symlink { dest, .. }
        | Setup::ReadOnly { dest } => (dest, 0),
        Setup::Tmpfs { dest, mode, .. }
        | Setup::Directory { dest, mode }
        | Setup::File { dest, mode, .. }
        | Setup::Data { dest, mode, .. } => (dest, *mode),
        Setup::Hostname { .. } | Setup::Permissions { .. } => return None,
    };
    let group = if mode & 0o070 == 0 { 0o050 } else { 0 };
    let others = if mode & 0o007 == 0 { 0o005 } else { 0 };
    Some((dest, 0o755 & !group & !others))
}

fn directory(dest: &CStr, mode: u32, sink: Sink<'_>) -> Result<()> {
    sink(&Operation::Directory { path: relative(dest), mode }, &Words::Directory(dest))
}

fn filesystem(
    name: &'static str,
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    flags: &[&CStr],
    attributes: Attributes,
    path: &CStr,
    sink: Sink<'_>,
) -> Result<()> {
    let operation = Operation::Filesystem { kind, options, flags, attributes, target: relative(path) };
    sink(&operation, &Words::Filesystem { kind: name, path })
}

fn tmpfs(path: &CStr, mode: u32, size: Option<u64>, sink: Sink<'_>) -> Result<()> {
    let text = |text: String| CString::new(text).unwrap_or_default();
    let mode = text(format!("0{mode:o}"));
    let size = size.map(|size| text(size.to_string()));
    let mut options = vec![(c"mode", &*mode)];
    options.extend(size.as_deref().map(|size| (c"size", size)));
    filesystem("tmpfs", c"tmpfs", &options, &[], Attributes::NOSUID.and(Attributes::NODEV), path, sink)
}

fn bind(source: &Origin, found: &Found, dest: &CStr, access: Access, sink: Sink<'_>) -> Result<()> {
    let attributes = match access {
        Access::Write => Attributes::NODEV,
        Access::Read => Attributes::NODEV.and(Attributes::READ_ONLY),
        Access::Devices => Attributes::default(),
    };
    let path = origin(source);
    let descriptor = match source {
        Origin::Path(_) => None,
        Origin::Descriptor(number) => Some(*number),
    };
    let opened = descriptor.map(opened).transpose()?;
    let same_as = opened.as_ref().map(AsFd::as_fd);
    let tree = match found {
        Found::Tree(tree) => Source::Tree(tree.as_fd()),
        Found::Path(path) => Source::Host(relative(path)),
        Found::Unmountable(errno) => {
            let name = source_name(&path);
            let failed = staged::Failed { part: staged::Part::Mount, errno: *errno };
            return Err(Words::Bind { source: &name, dest }.failure(failed));
        }
        Found::Nothing | Found::Absent | Found::Layers(_) => return Ok(()),
    };
    let operation = Operation::Bind { source: tree, target: relative(dest), attributes, same_as };
    sink(&operation, &Words::Bind { source: &path, dest })
}

/// A descriptor that the caller has passed.
fn opened(number: i32) -> Result<OwnedFd> {
    u32::try_from(number)
        .map_err(|_negative| Errno::BADF)
        .and_then(palisade_sys::process::inherited)
        .map_err(|errno| because(format!("Can't stat fd {number}"), errno))
}

/// Names that could change the kernel while a sandbox runs as root.
const COVERED: [&CStr; 4] = [c"sys", c"sysrq-trigger", c"irq", c"bus"];

fn beneath(dest: &CStr, name: &CStr) -> CString {
    CString::new(joined(&[dest.to_bytes(), b"/", name.to_bytes()])).unwrap_or_default()
}

fn processes(dest: &CStr, own: bool, sink: Sink<'_>) -> Result<()> {
    directory(dest, 0o755, sink)?;
    if own {
        let attributes = Attributes::NOSUID.and(Attributes::NODEV).and(Attributes::NOEXEC);
        filesystem("proc", c"proc", &[], &[], attributes, dest, sink)?;
    } else {
        let source = Source::Host(c"proc");
        let operation =
            Operation::Bind { source, target: relative(dest), attributes: Attributes::NODEV, same_as: None };
        sink(&operation, &Words::Bind { source: c"/proc", dest })?;
    }
    for name in COVERED {
        let path = beneath(dest, name);
        let operation = Operation::Cover { path: relative(&path) };
        sink(&operation, &Words::Part { text: b"Can't access ", path: &path })?;
    }
    Ok(())
}

fn device(source: &CStr, path: &CStr, text: &[u8], sink: Sink<'_>) -> Result<()> {
    sink(&Operation::NewFile { path: relative(path), mode: 0o444 }, &Words::Part { text, path })?;
    let operation = Operation::Bind {
        source: Source::Host(relative(source)),
        target: relative(path),
        attributes: Attributes::default(),
        same_as: None,
    };
    sink(&operation, &Words::Bind { source, dest: path })
}

fn devices(dest: &CStr, terminal: Option<&CStr>, sink: Sink<'_>) -> Result<()> {
    directory(dest, 0o755, sink)?;
    tmpfs(dest, 0o755, None, sink)?;
    for name in [c"null", c"zero", c"full", c"random", c"urandom", c"tty"] {
        device(&beneath(c"/dev", name), &beneath(dest, name), b"Can't create file ", sink)?;
    }
    for (name, target) in [
        (c"stdin", c"/proc/self/fd/0"),
        (c"stdout", c"/proc/self/fd/1"),
        (c"stderr", c"/proc/self/fd/2"),
        (c"fd", c"/proc/self/fd"),
        (c"core", c"/proc/kcore"),
    ] {
        let path = beneath(dest, name);
        sink(&Operation::Symlink { target, path: relative(&path) }, &Words::Symlink(&path))?;
    }
    for name in [c"shm", c"pts"] {
        let path = beneath(dest, name);
        let operation = Operation::NewDirectory { path: relative(&path), mode: 0o755 };
        sink(&operation, &Words::Part { text: b"Can't create ", path: &path })?;
    }
    let pts = beneath(dest, c"pts");
    let options = [(c"ptmxmode", c"0666"), (c"mode", c"620")];
    let attributes = Attributes::NOSUID.and(Attributes::NOEXEC);
    filesystem("devpts", c"devpts", &options, &[c"newinstance"], attributes, &pts, sink)?;
    let ptmx = beneath(dest, c"ptmx");
    sink(&Operation::Symlink { target: c"pts/ptmx", path: relative(&ptmx) }, &Words::Symlink(&ptmx))?;
    match terminal {
        Some(terminal) => device(terminal, &beneath(dest, c"console"), b"creating ", sink),
        None => Ok(()),
    }
}

/// Overlayfs's options. A backslash takes the meaning of a separator away.
fn overlay_options(changes: &Changes, paths: &[CString], overlays: &mut usize) -> CString {
    fn add(options: &mut Vec<u8>, path: &CStr) {
        options.extend_from_slice(b"/oldroot");
        for byte in path.to_bytes() {
            if matches!(byte, b'\\' | b',' | b':') {
                options.push(b'\\');
            }
            options.push(*byte);
        }
    }
    let mut options = Vec::new();
    let layers = match changes {
        Changes::Kept { .. } => {
            let mut paths = paths.iter();
            for name in [b"upperdir=", b",workdir="] {
                options.extend_from_slice(name);
                if let Some(path) = paths.next() {
                    add(&mut options, path);
                }
            }
            options.push(b',');
            paths.as_slice()
        }
        Changes::Temporary => {
            let number = *overlays;
            *overlays += 1;
            let own = format!("upperdir=/tmp-overlay-upper-{number},workdir=/tmp-overlay-work-{number},");
            options.extend_from_slice(own.as_bytes());
            paths
        }
        Changes::None => paths,
    };
    options.extend_from_slice(b"lowerdir=");
    for (index, layer) in layers.iter().enumerate() {
        if index > 0 {
            options.push(b':');
        }
        add(&mut options, layer);
    }
    options.extend_from_slice(b",userxattr");
    CString::new(options).unwrap_or_default()
}

/// The descriptors that steps use up.
pub(crate) fn used_descriptors(request: &Request) -> Vec<i32> {
    let of = |step: &Setup| match step {
        Setup::File { content, .. } | Setup::Data { content, .. } => Some(*content),
        Setup::Bind { source: Origin::Descriptor(number), .. } => Some(*number),
        _ => None,
    };
    request.setup.iter().filter_map(of).collect()
}
