// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Making processes: `clone3(2)` in the two forms that a launch needs.
//!
//! [`sharing_memory`] copies no page table (about 40 µs saved per process against fork on a small static program) and
//! lets parent and child communicate through shared memory. [`forking`] is for probes, whose children may change
//! their memory freely.

use crate::raw::{self, Result};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

#[expect(clippy::cast_possible_truncation, reason = "numbers of calls are small")]
const CLONE3: isize = libc::SYS_clone3 as isize;
#[expect(clippy::cast_possible_truncation, reason = "numbers of calls are small")]
const CLONE: isize = libc::SYS_clone as isize;

/// `struct clone_args`, first version (`CLONE_ARGS_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

/// Memory for the stack of a process made by [`sharing_memory`].
///
/// 32 KiB: the deepest path (operations, then exec) was seen to use under 6 KiB; untouched pages
/// cost nothing.
#[repr(C, align(4096))]
#[derive(Debug)]
pub(crate) struct Stack(MaybeUninit<[u8; Stack::SIZE]>);

impl Stack {
    pub(crate) const SIZE: usize = 32 * 1024;
    const UNTOUCHED: Self = Self(MaybeUninit::uninit());
}

/// The stacks of one launch: for command, init, builder, stub and refresher.
///
/// The first launch of a process uses static memory. In `palisade run` this is the only launch. Making and unmaking
/// three mappings costs 30 µs, mostly for notifying the other processor, on which init has run.
#[derive(Debug)]
pub(crate) struct Stacks(Option<Box<[Stack; 5]>>);

struct Reserve(UnsafeCell<[Stack; 5]>);

// SAFETY: needed to have it static. Sound: the thread that sets RESERVE_TAKEN is its only user until the flag is
// cleared.
unsafe impl Sync for Reserve {}

static RESERVE: Reserve = Reserve(UnsafeCell::new([Stack::UNTOUCHED; 5]));
static RESERVE_TAKEN: AtomicBool = AtomicBool::new(false);

impl Stacks {
    /// Takes the reserve, or memory from the heap if another launch has it.
    pub(crate) fn new() -> Self {
        if RESERVE_TAKEN.swap(true, Ordering::Acquire) {
            Self(Some(Box::new([Stack::UNTOUCHED; 5])))
        } else {
            Self(None)
        }
    }

    /// The stack with this number, of five.
    pub(crate) fn of(&mut self, number: usize) -> *mut Stack {
        let first: *mut Stack = match &mut self.0 {
            Some(stacks) => stacks.as_mut_ptr(),
            None => RESERVE.0.get().cast(),
        };
        first.wrapping_add(number.min(4))
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        if self.0.is_none() {
            RESERVE_TAKEN.store(false, Ordering::Release);
        }
    }
}

/// What a process started by [`sharing_memory`] runs. It must end by exit or exec.
pub(crate) type Entry = unsafe extern "C" fn(*mut c_void) -> !;

/// Starts `entry(argument)` on `stack` in a new process that shares this one's memory.
///
/// Returns the child's pid as the caller sees it.
///
/// # Safety
/// `flags` must not contain `CLONE_THREAD` or `CLONE_SETTLS`. `stack` and what `argument` points to must stay valid
/// until the child exits or execs. Memory that both sides touch in the meantime must be accessed in order (by
/// `CLONE_VFORK`, or by atomics). `entry` may use only `raw` calls: it shares thread-local storage with the caller.
pub(crate) unsafe fn sharing_memory(
    flags: i32,
    exit_signal: i32,
    stack: *mut Stack,
    entry: Entry,
    argument: *mut c_void,
) -> Result<i32> {
    let arguments = CloneArgs {
        flags: u64::from((flags | libc::CLONE_VM).cast_unsigned()),
        exit_signal: u64::from(exit_signal.unsigned_abs()),
        stack: stack as u64,
        stack_size: Stack::SIZE as u64,
        ..CloneArgs::default()
    };
    // SAFETY: as promised by the caller.
    unsafe { on_stack(&arguments, entry, argument) }
}

/// As [`sharing_memory`] without an exit signal; the kernel writes the child's pid to `born` before
/// the child runs. With `CLONE_VFORK` the caller could be killed before it learns of the child.
///
/// # Safety
/// As for [`sharing_memory`]; `born` must be valid for writing.
pub(crate) unsafe fn sharing_memory_announced(
    flags: i32,
    stack: *mut Stack,
    entry: Entry,
    argument: *mut c_void,
    born: *mut i32,
) -> Result<i32> {
    let arguments = CloneArgs {
        flags: u64::from((flags | libc::CLONE_VM | libc::CLONE_PARENT_SETTID).cast_unsigned()),
        parent_tid: born as u64,
        stack: stack as u64,
        stack_size: Stack::SIZE as u64,
        ..CloneArgs::default()
    };
    // SAFETY: as promised by the caller.
    unsafe { on_stack(&arguments, entry, argument) }
}

/// As [`sharing_memory`] without an exit signal; a descriptor of the child goes to `descriptor`.
///
/// # Safety
/// As for [`sharing_memory`]; `descriptor` must be valid for writing.
pub(crate) unsafe fn sharing_memory_with_descriptor(
    flags: i32,
    stack: *mut Stack,
    entry: Entry,
    argument: *mut c_void,
    descriptor: *mut i32,
) -> Result<i32> {
    let arguments = CloneArgs {
        flags: u64::from((flags | libc::CLONE_VM | libc::CLONE_PIDFD).cast_unsigned()),
        pidfd: descriptor as u64,
        stack: stack as u64,
        stack_size: Stack::SIZE as u64,
        ..CloneArgs::default()
    };
    // SAFETY: as promised by the caller.
    unsafe { on_stack(&arguments, entry, argument) }
}

/// As [`sharing_memory`] with `CLONE_VFORK`, by `clone(2)`, which also works where containers refuse `clone3(2)`.
///
/// # Safety
/// As for [`sharing_memory`].
pub(crate) unsafe fn sharing_memory_until_exec(
    flags: i32,
    exit_signal: i32,
    stack: *mut Stack,
    entry: Entry,
    argument: *mut c_void,
) -> Result<i32> {
    let flags = (flags | libc::CLONE_VM | libc::CLONE_VFORK | exit_signal).cast_unsigned() as usize;
    let top = stack as usize + Stack::SIZE;
    // SAFETY: as promised by the caller.
    unsafe { enter(CLONE, [flags, top, 0], entry, argument) }
}

/// As [`sharing_memory`], by `clone(2)`, which also works where containers refuse `clone3(2)`. The kernel sets `held`
/// to 0 when the child stops using this process's memory, because it has executed a program or ended.
///
/// # Safety
/// As for [`sharing_memory`]; `held` must stay valid that long, too.
pub(crate) unsafe fn sharing_memory_noted(
    exit_signal: i32,
    stack: *mut Stack,
    entry: Entry,
    argument: *mut c_void,
    held: &AtomicU32,
) -> Result<i32> {
    let flags = (libc::CLONE_VM | libc::CLONE_CHILD_CLEARTID | exit_signal).cast_unsigned() as usize;
    let top = stack as usize + Stack::SIZE;
    // SAFETY: as promised by the caller.
    unsafe { enter(CLONE, [flags, top, held.as_ptr() as usize], entry, argument) }
}

/// `clone3(2)`, for children with a stack of their own.
///
/// # Safety
/// As for [`sharing_memory`].
unsafe fn on_stack(arguments: &CloneArgs, entry: Entry, argument: *mut c_void) -> Result<i32> {
    let arguments = [&raw const *arguments as usize, size_of::<CloneArgs>(), 0];
    // SAFETY: as promised by the caller.
    unsafe { enter(CLONE3, arguments, entry, argument) }
}

/// The call itself, `clone(2)` or `clone3(2)`, whose child begins at `entry`. `arguments` are its first two, and `clone`'s
/// `child_tid`.
///
/// # Safety
/// As for [`sharing_memory`]; what the arguments point to must be what that call expects.
unsafe fn enter(number: isize, arguments: [usize; 3], entry: Entry, argument: *mut c_void) -> Result<i32> {
    let returned: isize;
    // SAFETY: needed because a child with another stack can't return through a compiled call.
    // Sound: the child leaves this frame at once for `entry` on its own stack and never comes
    // back; the parent sees an ordinary call that clobbers the declared registers.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") number => returned,
            in("rdi") arguments[0], in("rsi") arguments[1], in("rdx") 0usize, in("r10") arguments[2], in("r8") 0usize,
            in("r12") entry, in("r13") argument,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    // SAFETY: as above, for aarch64.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, #0",
            "mov x0, x6",
            "blr x5",
            "brk #1",
            "2:",
            in("x8") number,
            inlateout("x0") arguments[0] => returned,
            in("x1") arguments[1], in("x2") 0usize, in("x3") 0usize, in("x4") arguments[2],
            in("x5") entry, in("x6") argument,
        );
    }
    raw::check(returned).map(pid)
}

/// Forks: the child continues here with a copy of memory and sees `None`, the parent its pid.
///
/// # Safety
/// In the child only `raw` calls may be used: locks may be held by threads that don't exist there.
pub(crate) unsafe fn forking(flags: i32, exit_signal: i32) -> Result<Option<i32>> {
    let arguments = CloneArgs {
        flags: u64::from(flags.cast_unsigned()),
        exit_signal: u64::from(exit_signal.unsigned_abs()),
        ..CloneArgs::default()
    };
    // SAFETY: needed to fork without a C library. Sound: the structure outlives the call, and
    // without CLONE_VM the child has its own copy of this frame.
    let returned = match unsafe {
        raw::syscall(libc::SYS_clone3, [&raw const arguments as usize, size_of::<CloneArgs>(), 0, 0, 0, 0])
    } {
        // A container's filter, or Palisade's around this process.
        Err(rustix::io::Errno::NOSYS) => {
            let flags = (flags | exit_signal).cast_unsigned() as usize;
            // SAFETY: as above; without a stack the child goes on with its copy of this one.
            unsafe { raw::syscall(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]) }
        }
        other => other,
    }?;
    Ok(if returned == 0 { None } else { Some(pid(returned)) })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "pids fit in 22 bits")]
fn pid(value: usize) -> i32 {
    value as i32
}
