// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory layout of an interposed program. The code that is mapped there includes this file, too, so it uses only
//! `core`.
//!
//! Everything lies below 2 GiB, so that an absolute 32-bit address reaches it from anywhere. The address of [`TABLE`]
//! was chosen for its bytes.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// The image, shared by all programs of a run, readable and executable.
pub const CODE: usize = 0x7a00_0000;
/// One body for each pair of call site and call number.
pub const BODIES: usize = CODE + 0x1_0000;
/// Bytes of a body.
pub const BODY: usize = 128;
/// How many bodies there are. A program that has more sites has the rest answered in the handler of the trap.
pub const SITES: usize = 2048;
/// How many of them exist when the first program begins. Making all takes longer than a small program runs.
pub const FIRST: usize = 128;
/// How many of these are kept for calls that only a body can make: `clone`, `rt_sigreturn`.
pub const RESERVED: usize = 16;
/// The entrances: one for each patched site with varying call numbers.
pub const ENTRANCES: usize = BODIES + BODY * SITES;
/// Bytes of an entrance.
pub const ENTRANCE: usize = 16;
/// How many entrances there are.
pub const VARYING: usize = 32;
/// System calls made in [`CODE`] up to here don't trap.
pub const FREE: usize = CODE + 0x6_0000;
/// `syscall` instructions that do trap, one for each entrance: for calls that the handler always handles. After each
/// one is a jump back to the site, for threads whose dispatch is off.
pub const ENTRANCE_TRAPS: usize = FREE;
/// The same for bodies.
pub const TRAPS: usize = ENTRANCE_TRAPS + TRAP * VARYING;
/// Bytes of such a trap.
pub const TRAP: usize = 16;
/// Length of the memory at [`CODE`].
pub const CODE_LENGTH: usize = 0x6_9000;
const _: () = assert!(TRAPS + TRAP * SITES <= CODE + CODE_LENGTH, "all have room");

/// Each process's own data, copied at fork.
pub const OWN: usize = 0x7b00_0000;
/// The bodies' data, [`Slot`]s.
pub const SLOTS: usize = OWN;
/// Which slot belongs to which site: `HASHED` slot numbers plus 1.
pub const INDEX: usize = SLOTS + SLOT * SITES;
/// Places in the index.
pub const HASHED: usize = 8192;
/// [`State`].
pub const STATE: usize = INDEX + 4 * HASHED;
/// [`Varying`]s.
pub const VARIANTS: usize = OWN + 0x4_0000;
/// Bytes of a [`Varying`].
pub const VARIANT: usize = 4096;
/// Length of the memory at [`OWN`].
pub const OWN_LENGTH: usize = 0x4_0000 + VARIANT * VARYING;

/// Pointers for `jmp *[address]`, one for each body and entrance.
///
/// The instruction is `ff 24 25` and four bytes of address, lowest first. An address `0x050fXXXX` ends in the bytes
/// `0f 05`, and these are the instruction `syscall`. So when `mov $number, %eax; syscall` (5 + 2 bytes) is
/// overwritten with such a jump, only the `mov` changes. A thread that jumps to the `syscall` itself, or was about to
/// execute it, still finds it there, and traps as before. So the patch needs no analysis of branch targets, which
/// could miss one.
pub const TABLE: usize = 0x050f_0000;
/// Bytes of the table.
pub const TABLE_LENGTH: usize = 0x1_0000;

/// The data that all programs of a run and the supervisor share: [`Shared`].
pub const SHARED: usize = 0x7c00_0000;

/// Call numbers that are counted separately; the last one represents all higher numbers.
pub const CALLS: usize = 512;
/// Tables of counters. Each process uses one by its number, so that processes seldom write to the same cache line.
pub const SHARDS: usize = 16;
/// How many calls of an unpatched site trap before it is patched: patching costs as much as several traps.
pub const HOT: u32 = 8;

/// Bytes of a slot.
pub const SLOT: usize = 64;

/// A body's data. The assembly relies on the order of the fields.
#[repr(C)]
#[derive(Debug)]
pub struct Slot {
    /// The call's number.
    pub number: u32,
    /// How often the site has trapped.
    pub traps: u32,
    /// The address where a body continues when the number is in `eax`.
    pub kind: u64,
    /// The address where `common` continues.
    pub common: u64,
    /// The address after the site's `syscall`.
    pub back: u64,
    /// The [`Counter`].
    pub counter: u64,
    /// The address where a body continues after `syscall` if something must be done with the result.
    pub after: u64,
    /// An answer; or the address for a call that the handler handles; or the address where a fork continues in the
    /// parent.
    pub value: u64,
    /// The address where a body makes the call and counts it.
    pub plain: u64,
}

/// The data of a patched site with varying call numbers.
#[repr(C)]
#[derive(Debug)]
pub struct Varying {
    /// The address of code that executes the displaced instructions and then looks up the body.
    pub displaced: u64,
    /// A `syscall` that traps.
    pub trap: u64,
    /// The site.
    pub site: u64,
    /// The address after the site's `syscall`.
    pub back: u64,
    /// Padding up to 64 bytes.
    pub unused: [u64; 4],
    /// Bodies by number; 0: none yet.
    pub bodies: [AtomicU32; CALLS],
}

/// How often a call was made and failed.
#[repr(C)]
#[derive(Debug)]
pub struct Counter {
    /// How many returned.
    pub calls: AtomicU64,
    /// How many returned an error.
    pub errors: AtomicU64,
    /// Ticks of the processor's clock that they took, if that was asked for.
    pub ticks: AtomicU64,
}

/// The kernel's `struct sigaction`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Action {
    /// Handler, 0 default, 1 ignore.
    pub handler: u64,
    /// `SA_*`.
    pub flags: u64,
    /// The address that a handler returns to.
    pub restorer: u64,
    /// Signals that are blocked meanwhile.
    pub mask: u64,
}

/// How many different replaced signal masks can be stored.
pub const MASKS: usize = 128;

/// How many unneeded slots can be kept: this many threads may meet the same site at once.
pub const SPARES: usize = 32;

/// A process's own state.
#[repr(C)]
#[derive(Debug)]
pub struct State {
    /// The next free slot, counted from [`RESERVED`] on.
    pub slots: AtomicU32,
    /// The next free slot below [`RESERVED`].
    pub reserved: AtomicU32,
    /// Slots that weren't needed, because another thread made the site's body first, plus 1; 0: none.
    pub spare: [AtomicU32; SPARES],
    /// The next free [`Varying`].
    pub varying: AtomicU32,
    /// The process that is patching: its number, or 0.
    pub patching: AtomicU32,
    /// Not 0 when the program has its own filter: then our code makes no calls on its own behalf any more.
    pub sealed: AtomicU32,
    /// Not 0 when the supervisor hasn't answered this process: then it asks for no bodies any more.
    pub unheard: AtomicU32,
    /// The process of a thread that asked to be traced and runs without interposition; 0: there is none. Processes
    /// and threads that it starts run without interposition, too.
    pub left: AtomicU32,
    /// Not 0 if [`TABLE`] is mapped.
    pub table: u32,
    /// The number of the process's table of counters.
    pub shard: u32,
    /// Proves that a request comes from this process.
    pub nonce: AtomicU64,
    /// The kernel's action on a trap.
    pub action: Action,
    /// The program's own action for SIGSYS.
    pub wanted: Action,
    /// A counter for runs that don't count.
    pub nobody: Counter,
    /// Signal masks that lack SIGSYS; each is written once.
    pub masks: [AtomicU64; MASKS],
    /// For pselect6: the address of the mask of the same number, and the mask's size.
    pub sized: [[u64; 2]; MASKS],
    /// Where the next mask goes when all places are used.
    pub next_mask: AtomicU32,
    /// Not 0 if a thread may be among the [`State::holders`].
    pub holds: AtomicU32,
    /// Threads that have blocked SIGSYS as the program sees it.
    pub holders: [Holder; HOLDERS],
}

/// How many threads that have blocked SIGSYS can be stored.
pub const HOLDERS: usize = 64;

/// A thread that has blocked SIGSYS as the program sees it.
#[repr(C)]
#[derive(Debug)]
pub struct Holder {
    /// The thread's number; 0: this place is free.
    pub thread: AtomicU32,
    /// Not 0 if a SIGSYS was sent meanwhile.
    pub pending: AtomicU32,
    /// The `siginfo_t` of that signal. Only this thread writes and reads it.
    pub info: [u64; 16],
}

/// A [`Request`]'s state: free.
pub const VACANT: u32 = 0;
/// Being filled.
pub const FILLING: u32 = 1;
/// A thread is about to execute a program, and waits.
pub const WANTED: u32 = 2;
/// The thread is watched until the program starts, and may execute it.
pub const GRANTED: u32 = 3;
/// The thread can't be watched.
pub const REFUSED: u32 = 4;
/// The program couldn't be executed; the thread waits until the supervisor detaches.
pub const FAILED: u32 = 5;

/// The request of a thread that is about to execute a program.
#[repr(C)]
#[derive(Debug)]
pub struct Request {
    /// One of the states above.
    pub state: AtomicU32,
    /// The thread's number.
    pub thread: AtomicU32,
    /// The value of its [`State::nonce`].
    pub nonce: AtomicU64,
}

/// How many threads can be about to execute a program at once; others wait for a free place.
pub const REQUESTS: usize = 64;

/// Count calls.
pub const COUNT: u32 = 1;
/// Log calls.
pub const LOG: u32 = 2;
/// Count the time of calls.
pub const TIME: u32 = 4;
/// List the sites.
pub const LIST: u32 = 8;

/// Bytes of a file's path that are kept.
pub const PATH: usize = 256;
/// How many files are listed.
pub const FILES: usize = 512;
/// How many sites are listed: a power of 2.
pub const FOUND: usize = 1 << 14;
/// The bits of a listed site that are its offset in its file; the bits above are the file's number plus 1.
pub const OFFSET: u64 = (1 << 48) - 1;
/// Replaces the file's number for sites that are in no file; the other bits are the address.
pub const ANONYMOUS: u64 = !OFFSET;

/// A file from which code is executed.
#[repr(C)]
#[derive(Debug)]
pub struct File {
    /// 0, or one of the following.
    pub state: AtomicU32,
    /// Bytes of its path.
    pub length: AtomicU32,
    /// The device number.
    pub device: AtomicU64,
    /// The inode number.
    pub inode: AtomicU64,
    /// The path as the kernel writes it in `/proc/PID/maps`.
    pub path: [AtomicU8; PATH],
}

impl File {
    /// Being written.
    pub const FILLING: u32 = 1;
    /// Written.
    pub const WHOLE: u32 = 2;
}

/// Bits for calls that get another answer than the kernel's: `getpid`.
pub const FAKE_PID: u32 = 1;
/// The host's name.
pub const FAKE_HOST: u32 = 2;
/// The kernel's release.
pub const FAKE_RELEASE: u32 = 4;
/// The clock.
pub const FAKE_TIME: u32 = 8;
/// How many processors there are.
pub const FAKE_CPUS: u32 = 16;

/// Bytes of a name in `struct utsname`, the zero too.
pub const NAME: usize = 65;

/// The answers in place of the kernel's; written before the first program starts.
#[repr(C)]
#[derive(Debug)]
pub struct Fakes {
    /// Which answers are in use, as bits.
    pub which: u32,
    /// How many processors.
    pub cpus: u32,
    /// Process number.
    pub pid: u64,
    /// Seconds that the clock is ahead.
    pub ahead: i64,
    /// The host's name, ended by zero.
    pub host: [u8; NAME],
    /// The kernel's release, ended by zero.
    pub release: [u8; NAME],
}

/// A logged call. The assembly relies on the order of the fields.
#[repr(C)]
#[derive(Debug)]
pub struct Record {
    /// The call's number plus 1; 0 while the record is incomplete.
    pub number: AtomicU32,
    /// The thread.
    pub thread: AtomicU32,
    /// Its arguments.
    pub arguments: [AtomicU64; 6],
    /// What it returned.
    pub result: AtomicU64,
}

/// Records in the ring: a power of 2.
pub const RECORDS: usize = 1 << 15;
/// How many of these are left free for threads that have seen room at the same moment.
pub const SPARE: usize = 1 << 10;

/// The data that all processes of a run share.
#[repr(C)]
#[derive(Debug)]
pub struct Shared {
    /// Changes whenever the supervisor has work.
    pub doorbell: AtomicU32,
    /// Not 0 when there is no supervisor any more.
    pub closed: AtomicU32,
    /// The supervisor's process id.
    pub supervisor: AtomicU32,
    /// [`COUNT`], [`LOG`].
    pub mode: AtomicU32,
    /// How many bodies there are: [`FIRST`], and soon [`SITES`].
    pub bodies: AtomicU32,
    /// Not 0 when a program waits for more bodies.
    pub wanted: AtomicU32,
    /// The tables of counters that processes use, as bits: the others are never read.
    pub shards: AtomicU64,
    /// How many programs were prepared.
    pub images: AtomicU64,
    /// Traps.
    pub traps: AtomicU64,
    /// Sites patched.
    pub patched: AtomicU64,
    /// Sites that were tried and can't be patched.
    pub unpatchable: AtomicU64,
    /// Calls that the handler answered because there was no body.
    pub bodiless: AtomicU64,
    /// Programs executed without being watched.
    pub lost: AtomicU64,
    /// How many log records were begun.
    pub head: AtomicU64,
    /// How many log records were read.
    pub tail: AtomicU64,
    /// Calls that there was no room for.
    pub dropped: AtomicU64,
    /// Sites that there was no room for in `found`.
    pub unlisted: AtomicU64,
    /// The answers that Palisade gives in place of the kernel's.
    pub fakes: Fakes,
    /// How many requests were made: each request's proof is its number.
    pub proofs: AtomicU64,
    /// Threads that ask the supervisor to watch them before they execute a program.
    pub requests: [Request; REQUESTS],
    /// Files in which sites were found or could be found.
    pub files: [File; FILES],
    /// Sites that were found by trap: file and offset, by hash; 0: none.
    pub found: [AtomicU64; FOUND],
    /// The counters, by shard and call number.
    pub counters: [[Counter; CALLS]; SHARDS],
    /// The log.
    pub ring: [Record; RECORDS],
}

/// The header of the image.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Header {
    /// Where a program's threads start: see `blob/entry.S`.
    pub init: u64,
    /// The first body, from which the others are made.
    pub template: u64,
    /// The offsets of 32-bit addresses in the body that grow by [`SLOT`] from body to body, as bytes; 0 ends the
    /// list.
    pub fields: u64,
    /// The first entrance.
    pub entrance: u64,
    /// As `fields`, for the entrance; these grow by [`VARIANT`].
    pub entrance_fields: u64,
}
