// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The handler of calls that trapped. The kernel has saved every register in the frame, the vector state included,
//! and restores them. So this is ordinary code. The handler makes no call for the program that depends on the stack
//! or takes long. It sends the program to the site's body instead, which makes the call with the program's own
//! registers and stack.

use crate::bodies::{self, Body};
use crate::call::{self, number};
use crate::layout::{ENTRANCE_TRAPS, HOT, SITES, TRAP, TRAPS, VARIANT, VARIANTS, VARYING, Varying};
use crate::{execute, fake, patch, shared, signals, state, traced, until};
use core::sync::atomic::Ordering;

/// `si_code` of a call that the dispatch stopped.
const SYS_USER_DISPATCH: i32 = 2;
const EINVAL: i64 = -22;
/// `si_arch` of a call of 32-bit programs.
const AUDIT_ARCH_I386: u32 = 0x4000_0003;
/// Numbers in the frame's registers: `struct sigcontext`.
const R8: usize = 0;
const R9: usize = 1;
const R10: usize = 2;
const RDI: usize = 8;
const RSI: usize = 9;
const RDX: usize = 12;
const RAX: usize = 13;
const RIP: usize = 16;

/// What the kernel saved: `struct ucontext`.
pub(crate) struct Frame(*mut u64);

impl Frame {
    /// Words before the registers.
    const REGISTERS: usize = 5;
    /// Words before the mask.
    const MASK: usize = 37;

    fn register(&self, which: usize) -> u64 {
        // SAFETY: needed: the kernel gives handlers only the address of a ucontext. Sound: `which` is one of the constants
        // above, so the word is one of its 23 registers; the frame lives until the handler returns.
        unsafe { *self.0.add(Self::REGISTERS + which) }
    }

    fn set(&mut self, which: usize, value: u64) {
        // SAFETY: needed and sound as in `register`; this handler alone has the frame.
        unsafe { *self.0.add(Self::REGISTERS + which) = value };
    }

    /// The signal mask that will be in force when the handler has ended.
    pub(crate) fn mask(&self) -> u64 {
        // SAFETY: needed: the kernel gives handlers only the address of a ucontext. Sound: its mask is the word behind the
        // registers and the pointer to the vector state; the frame lives until the handler returns.
        unsafe { *self.0.add(Self::MASK) }
    }

    /// Changes that mask.
    pub(crate) fn set_mask(&mut self, mask: u64) {
        // SAFETY: needed and sound as in `mask`; this handler alone has the frame.
        unsafe { *self.0.add(Self::MASK) = mask };
    }

    /// Whether bytes from an address on lie in the page that the program's stack has just been used in.
    pub(crate) fn is_on_stack(&self, address: u64, length: u64) -> bool {
        const RSP: usize = 15;
        let stack = self.register(RSP);
        address >= stack && address.saturating_add(length) <= (stack | 0xfff) + 1
    }

    fn arguments(&self) -> [u64; 6] {
        [RDI, RSI, RDX, R10, R8, R9].map(|which| self.register(which))
    }
}

/// Where a call was made: at an unpatched site, in a body or in an entrance.
enum Origin {
    Site(u64),
    Body(Body),
    Entrance(usize, u64),
}

fn origin(at: u64) -> Origin {
    let at = at as usize;
    if (TRAPS..TRAPS + TRAP * SITES).contains(&at) {
        return Origin::Body(Body((at - TRAPS) / TRAP));
    }
    if (ENTRANCE_TRAPS..ENTRANCE_TRAPS + TRAP * VARYING).contains(&at) {
        let entrance = (at - ENTRANCE_TRAPS) / TRAP;
        return Origin::Entrance(entrance, varying(entrance).site);
    }
    Origin::Site(at as u64)
}

/// The data of an entrance.
pub(crate) fn varying(entrance: usize) -> &'static Varying {
    // SAFETY: needed: the entrances are at fixed addresses. Sound: `entrance` comes from an address within them or from the
    // count of those that were made; each is written before a jump leads to it, and only atomics change after that.
    unsafe { &*((VARIANTS + VARIANT * entrance) as *const Varying) }
}

/// The kernel calls this for a signal, by way of `trapped.S`. Returns whether only the frame's registers must be
/// restored, because its mask is unchanged.
// SAFETY: needed because the assembly calls it by this name. Sound: no other code defines it in this image.
#[unsafe(no_mangle)]
extern "C" fn handle(signal: u64, info: u64, frame: u64) -> bool {
    // SAFETY: needed: the kernel gives handlers only the address. Sound: it is that of a whole siginfo on this thread's stack;
    // `si_code` is its third word of four bytes.
    if unsafe { *(info as *const i32).add(2) } != SYS_USER_DISPATCH {
        signals::foreign(signal, info, frame);
        return false;
    }
    shared().traps.fetch_add(1, Ordering::Relaxed);
    let mut frame = Frame(frame as *mut u64);
    // SAFETY: needed: the kernel gives handlers only the address. Sound: `si_arch` is the eighth word of the siginfo of a
    // SIGSYS that the kernel sends, as `si_code` says this one is.
    if unsafe { *(info as *const u32).add(7) } == AUDIT_ARCH_I386 {
        legacy(&mut frame);
        // The return by a jump would change rcx.
        return false;
    }
    let call = frame.register(RAX);
    let origin = origin(frame.register(RIP) - 2);
    let site = match origin {
        Origin::Site(site) | Origin::Entrance(_, site) => site,
        Origin::Body(body) => body.pair().0,
    };
    let a = frame.arguments();
    let begun = ticks();
    let mut in_force = true;
    let answer = match call {
        number::RT_SIGACTION => Some(signals::action(&frame, a)),
        number::RT_SIGPROCMASK => {
            let (answer, by_jump) = signals::mask(&mut frame, a);
            in_force = by_jump;
            Some(answer)
        }
        number::RT_SIGPENDING => Some(signals::pending(a)),
        number::EXECVE | number::EXECVEAT => Some(execute::execute(call, a)),
        // PTRACE_TRACEME
        number::PTRACE if a[0] == 0 => Some(traced::ask(a)),
        // PR_SET_SYSCALL_USER_DISPATCH: the program's dispatch would replace ours.
        number::PRCTL if a[0] == 59 => Some(EINVAL),
        // PR_SET_TSC: the time of calls couldn't be measured.
        number::PRCTL if a[0] == 26 && bodies::is_timed() => Some(EINVAL),
        _ if fake::is_faked(call) => Some(fake::answer(call, a)),
        _ => None,
    };
    if let Some(answer) = answer {
        bodies::count(call, a, answer, ticks().saturating_sub(begun));
        frame.set(RAX, answer as u64);
        frame.set(RIP, site + 2);
        return in_force;
    }
    let mut as_is = false;
    match call {
        number::RT_SIGSUSPEND => frame.set(RDI, signals::pointer(a[0])),
        number::PPOLL => {
            frame.set(R10, signals::pointer(a[3]));
            as_is = true;
        }
        number::EPOLL_PWAIT | number::EPOLL_PWAIT2 => {
            frame.set(R8, signals::pointer(a[4]));
            as_is = true;
        }
        number::PSELECT6 | number::IO_PGETEVENTS => {
            frame.set(R9, signals::sized(a[5]));
            as_is = true;
        }
        // With IORING_ENTER_EXT_ARG the argument has another meaning.
        number::IO_URING_ENTER => {
            if a[3] & 8 == 0 {
                frame.set(R8, signals::pointer(a[4]));
            }
            as_is = true;
        }
        // PR_SET_SECCOMP
        number::PRCTL if a[0] == 22 => seal(),
        number::SECCOMP => seal(),
        _ => {}
    }
    let body = match origin {
        Origin::Body(body) => Some(body),
        Origin::Site(_) | Origin::Entrance(..) => bodies::of(site, call),
    };
    let Some(body) = body else {
        shared().bodiless.fetch_add(1, Ordering::Relaxed);
        // SAFETY: needed: only the kernel makes calls. Sound: the program asked for this call with these arguments. Calls that
        // depend on the stack pointer (rt_sigreturn, clone) don't come here: some bodies are kept for them.
        let answer = fake::moved(call, a, unsafe { until::raw(call, a) });
        bodies::count(call, a, answer, ticks().saturating_sub(begun));
        frame.set(RAX, answer as u64);
        frame.set(RIP, site + 2);
        return true;
    };
    frame.set(RIP, if as_is { body.plain() } else { body.kind() });
    match origin {
        Origin::Site(_) => {
            let traps = body.trapped() + 1;
            // Tries again at some later traps, because a library may be writable for a while.
            let hot = traps >= HOT && traps.is_power_of_two();
            if hot && state().sealed.load(Ordering::Relaxed) == 0 {
                let busy = patch::site(site, call, body, traps == HOT);
                if busy {
                    body.not_tried();
                }
            }
        }
        Origin::Entrance(entrance, _) if !is_handlers(call) => {
            varying(entrance).bodies[call as usize].store(body.address() as u32, Ordering::Release);
        }
        _ => {}
    }
    true
}

/// Handles a call by `int $0x80`. Its number means another call, so it isn't counted, logged or answered.
fn legacy(frame: &mut Frame) {
    const ENOSYS: i64 = -38;
    // fork, execve, clone, vfork, execveat, clone3
    if matches!(frame.register(RAX), 2 | 11 | 120 | 190 | 358 | 435) {
        shared().lost.fetch_add(1, Ordering::Relaxed);
    }
    match bodies::legacy(frame.register(RIP) - 2) {
        Some(body) => frame.set(RIP, body.kind()),
        None => frame.set(RAX, ENOSYS as u64),
    }
}

/// The processor's clock, if the time of calls is counted; else 0.
fn ticks() -> u64 {
    // SAFETY: needed: the instruction has no safe name. Sound: every x86-64 processor has it, and `handle` refuses PR_SET_TSC,
    // which could forbid it.
    if bodies::is_timed() { unsafe { core::arch::x86_64::_rdtsc() } } else { 0 }
}

/// Calls that the handler handles every time.
pub(crate) fn is_handlers(call: u64) -> bool {
    matches!(
        call,
        number::RT_SIGACTION
            | number::RT_SIGPROCMASK
            | number::RT_SIGPENDING
            | number::EXECVE
            | number::EXECVEAT
            | number::RT_SIGSUSPEND
            | number::PRCTL
            | number::SECCOMP
    ) || fake::is_faked(call)
}

/// From now on the program's own filter judges its calls, so our code makes no call that the program didn't ask for.
fn seal() {
    state().sealed.store(1, Ordering::Relaxed);
}
