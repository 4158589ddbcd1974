// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs or attaches programs by their descriptors, whether this process loaded them or found them pinned.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Runs a program of the kind `syscall`. Returns its answer.
pub(super) fn run(program: BorrowedFd<'_>, context: &[u8]) -> io::Result<u32> {
    // SAFETY: needed because the structure is C's. Sound: all its members are numbers and pointers, for which zero is valid.
    let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t;
    options.ctx_size_in = u32::try_from(context.len()).map_err(io::Error::other)?;
    // The kernel writes the context back after the run, so pass a copy.
    let mut copy = context.to_vec();
    options.ctx_in = copy.as_mut_ptr().cast();
    // SAFETY: needed because libbpf-rs runs only programs of an object that it loaded. Sound: the options are initialised
    // and contain their own size; the context is alive, has the stated length, and no other code uses it; the descriptor is
    // open.
    let failed = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if failed < 0 {
        return Err(io::Error::from_raw_os_error(-failed));
    }
    Ok(options.retval)
}

/// Runs a program of the kind `iter` once for each item that it iterates over.
pub(super) fn go_through(program: BorrowedFd<'_>) -> io::Result<()> {
    let owned = |descriptor: i32| {
        if descriptor < 0 {
            return Err(io::Error::from_raw_os_error(-descriptor));
        }
        // SAFETY: needed to close the descriptor on drop. Sound: it was just opened, and no other code owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    };
    // SAFETY: needed because libbpf-rs iterates only with programs of an object that it loaded. Sound: no options are
    // given; the descriptor is open.
    let link = unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), 0, libbpf_sys::BPF_TRACE_ITER, std::ptr::null())
    };
    let link = owned(link)?;
    // SAFETY: needed as above. Sound: the link's descriptor is open.
    let all = owned(unsafe { libbpf_sys::bpf_iter_create(link.as_raw_fd()) })?;
    // The program writes nothing, so one read iterates over everything. A kernel that pauses answers EAGAIN.
    let mut nothing = [0; 4096];
    loop {
        match rustix::io::read(&all, &mut nothing) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Attaches a program to its tracepoint, as long as the returned descriptor is open.
pub(super) fn attach(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: needed because libbpf-rs attaches only programs of an object that it loaded. Sound: no name is given, because
    // the program knows its tracepoint; the descriptor is open.
    let link = unsafe { libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: needed to close the descriptor on drop. Sound: it was just opened, and no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

/// Pins a program.
pub(super) fn pin(program: BorrowedFd<'_>, path: &std::path::Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: needed because libbpf-rs pins only programs of an object that it loaded. Sound: the path ends with a zero
    // and outlives the call; the descriptor is open.
    let failed = unsafe { libbpf_sys::bpf_obj_pin(program.as_raw_fd(), path.as_ptr()) };
    if failed < 0 { Err(io::Error::from_raw_os_error(-failed)) } else { Ok(()) }
}
