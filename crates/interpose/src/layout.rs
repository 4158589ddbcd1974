// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where things are in an interposed program. Shared with the code that is mapped there, so it knows of `core` alone.
//!
//! Everything lies below 2 GiB, so that an absolute 32-bit address reaches it from anywhere. One exception was
//! chosen for its bytes: see [`TABLE`].

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// The image, shared by all programs of a run, readable and executable.
pub const CODE: usize = 0x7a00_0000;
/// One body for each pair of call site and call number.
pub const BODIES: usize = CODE + 0x1_0000;
/// Bytes of a body.
pub const BODY: usize = 128;
/// How many bodies there are. A program that has more sites has the rest answered in the handler of the trap.
pub const SITES: usize = 2048;
/// So many of them are there when the first program begins. Making all takes longer than a small program.
pub const FIRST: usize = 128;
/// Of these, kept for calls that are made in a body or not at all: `clone`, `rt_sigreturn`.
pub const RESERVED: usize = 16;
/// One entrance for each patched site whose call number varies.
pub const ENTRANCES: usize = BODIES + BODY * SITES;
/// Bytes of an entrance.
pub const ENTRANCE: usize = 16;
/// How many entrances there are.
pub const VARYING: usize = 32;
/// System calls made in [`CODE`] up to here don't trap.
pub const FREE: usize = CODE + 0x6_0000;
/// `syscall` instructions that do trap, one for each entrance: for calls that are always the handler's. Behind each is a
/// jump back to the site, for threads whose dispatch is off.
pub const ENTRANCE_TRAPS: usize = FREE;
/// The same for bodies.
pub const TRAPS: usize = ENTRANCE_TRAPS + TRAP * VARYING;
/// Bytes of such a place.
pub const TRAP: usize = 16;
/// Bytes from [`CODE`] on.
pub const CODE_LENGTH: usize = 0x6_9000;
const _: () = assert!(TRAPS + TRAP * SITES <= CODE + CODE_LENGTH, "all have room");

/// What a process keeps for itself, copied at fork.
pub const OWN: usize = 0x7b00_0000;
/// What bodies work with, [`Slot`]s.
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
/// Bytes from [`OWN`] on.
pub const OWN_LENGTH: usize = 0x4_0000 + VARIANT * VARYING;

/// Pointers for `jmp *[address]`, one for each body and entrance.
///
/// The instruction is `ff 24 25` and four bytes of address, lowest first. An address `0x050fXXXX` ends in the bytes
/// `0f 05`, and these are the instruction `syscall`. So when `mov $number, %eax; syscall` (5 + 2 bytes) is
/// overwritten with such a jump, only the `mov` changes: whoever jumps to the `syscall` itself, or was about to
/// execute it, still finds it there, and traps as before. No analysis of branch targets can miss what can't go wrong.
pub const TABLE: usize = 0x050f_0000;
/// Bytes of the table.
pub const TABLE_LENGTH: usize = 0x1_0000;

/// What all programs of a run share, and the supervisor: [`Shared`].
pub const SHARED: usize = 0x7c00_0000;

/// Call numbers that are counted apart; the last one stands for all above.
pub const CALLS: usize = 512;
/// Tables of counters: processes take one each by their number, so that they seldom write to the same line.
pub const SHARDS: usize = 16;
/// As many calls of an unpatched site trap before it is patched: patching costs as much as several traps.
pub const HOT: u32 = 8;

/// Bytes of a slot.
pub const SLOT: usize = 64;

/// What a body works with. The order is known to the assembly.
#[repr(C)]
#[derive(Debug)]
pub struct Slot {
    /// The call's number.
    pub number: u32,
    /// How often the site has trapped.
    pub traps: u32,
    /// Where a body goes when the number is in `eax`.
    pub kind: u64,
    /// Where `common` goes.
    pub common: u64,
    /// The address after the site's `syscall`.
    pub back: u64,
    /// The [`Counter`].
    pub counter: u64,
    /// Where a body goes after `syscall` if something must be done with the result.
    pub after: u64,
    /// An answer; where to go for a call that is the handler's; or where a fork goes on in the parent.
    pub value: u64,
    /// Where a body makes the call and counts it.
    pub plain: u64,
}

/// A patched site whose number varies.
#[repr(C)]
#[derive(Debug)]
pub struct Varying {
    /// What was displaced, and then the look-up.
    pub displaced: u64,
    /// A `syscall` that traps.
    pub trap: u64,
    /// The site.
    pub site: u64,
    /// The address after the site's `syscall`.
    pub back: u64,
    /// Up to 64 bytes.
    pub unused: [u64; 4],
    /// Bodies by number; 0: none yet.
    pub bodies: [AtomicU32; CALLS],
}

/// How often a call was made and failed.
#[repr(C)]
#[derive(Debug)]
pub struct Counter {
    /// Returned.
    pub calls: AtomicU64,
    /// Returned an error.
    pub errors: AtomicU64,
    /// Ticks of the processor's clock that they took, where that was asked for.
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
    /// What a handler returns to.
    pub restorer: u64,
    /// What is blocked meanwhile.
    pub mask: u64,
}

/// As many different signal masks are replaced.
pub const MASKS: usize = 128;

/// As many slots are kept that weren't needed after all: as many threads may meet the same site at once.
pub const SPARES: usize = 32;

/// What a process knows of itself.
#[repr(C)]
#[derive(Debug)]
pub struct State {
    /// The next free slot, counted from [`RESERVED`] on.
    pub slots: AtomicU32,
    /// The next free one of those before.
    pub reserved: AtomicU32,
    /// Slots that were taken for sites that another thread was faster with, plus 1; 0: none.
    pub spare: [AtomicU32; SPARES],
    /// The next free [`Varying`].
    pub varying: AtomicU32,
    /// Who patches: a process's number, or 0.
    pub patching: AtomicU32,
    /// Not 0 when the process has a filter of its own: then nothing is called on its behalf any more.
    pub sealed: AtomicU32,
    /// Not 0 when nobody has answered it: then it asks for no bodies any more.
    pub unheard: AtomicU32,
    /// The process of a thread that asked to be traced, and runs as it is; 0: there is none. Processes and threads that
    /// it starts run as they are, too.
    pub left: AtomicU32,
    /// Not 0 if [`TABLE`] is there.
    pub table: u32,
    /// The process's table of counters.
    pub shard: u32,
    /// Proof that a request comes from here.
    pub nonce: AtomicU64,
    /// What the kernel does on a trap.
    pub action: Action,
    /// What the program wants done with a SIGSYS of its own.
    pub wanted: Action,
    /// Counts what nobody asks for.
    pub nobody: Counter,
    /// Signal masks that lack SIGSYS; each is written once.
    pub masks: [AtomicU64; MASKS],
    /// For pselect6: the address of the mask of the same number, and its size.
    pub sized: [[u64; 2]; MASKS],
    /// Where the next mask goes when all are taken.
    pub next_mask: AtomicU32,
    /// Not 0 if a thread may be among the [`State::holders`].
    pub holds: AtomicU32,
    /// Threads that have blocked SIGSYS, as they see it.
    pub holders: [Holder; HOLDERS],
}

/// As many threads are known to have blocked SIGSYS.
pub const HOLDERS: usize = 64;

/// A thread that has blocked SIGSYS, as it sees it.
#[repr(C)]
#[derive(Debug)]
pub struct Holder {
    /// Its number; 0: nobody's.
    pub thread: AtomicU32,
    /// Not 0 if a SIGSYS was sent meanwhile.
    pub pending: AtomicU32,
    /// What the kernel said of that: a `siginfo_t`. Written and read by this thread alone.
    pub info: [u64; 16],
}

/// A [`Request`]'s state: nobody's.
pub const VACANT: u32 = 0;
/// Being filled.
pub const FILLING: u32 = 1;
/// A thread is about to execute a program, and waits.
pub const WANTED: u32 = 2;
/// It is watched until the program starts, and may go on.
pub const GRANTED: u32 = 3;
/// It can't be watched.
pub const REFUSED: u32 = 4;
/// The program couldn't be executed; the thread waits to be released.
pub const FAILED: u32 = 5;

/// A thread that is about to execute a program.
#[repr(C)]
#[derive(Debug)]
pub struct Request {
    /// One of the above.
    pub state: AtomicU32,
    /// Which thread.
    pub thread: AtomicU32,
    /// What its [`State::nonce`] is.
    pub nonce: AtomicU64,
}

/// As many threads can be about to execute something at once; others wait for a place.
pub const REQUESTS: usize = 64;

/// Count calls.
pub const COUNT: u32 = 1;
/// Log calls.
pub const LOG: u32 = 2;
/// Count what calls take.
pub const TIME: u32 = 4;
/// List the sites.
pub const LIST: u32 = 8;

/// Bytes of a file's path that are kept.
pub const PATH: usize = 256;
/// As many files are listed.
pub const FILES: usize = 512;
/// As many sites are listed: a power of 2.
pub const FOUND: usize = 1 << 14;
/// The bits of a listed site that say where it is in its file; those above are the file's number plus 1.
pub const OFFSET: u64 = (1 << 48) - 1;
/// What stands for a file's number with sites that are in none; their address follows.
pub const ANONYMOUS: u64 = !OFFSET;

/// A file that code is executed from.
#[repr(C)]
#[derive(Debug)]
pub struct File {
    /// 0, or one of the following.
    pub state: AtomicU32,
    /// Bytes of its path.
    pub length: AtomicU32,
    /// Where it is.
    pub device: AtomicU64,
    /// Its number there.
    pub inode: AtomicU64,
    /// As the kernel writes it in `/proc/PID/maps`.
    pub path: [AtomicU8; PATH],
}

impl File {
    /// Being written.
    pub const FILLING: u32 = 1;
    /// Written.
    pub const WHOLE: u32 = 2;
}

/// Calls that are answered otherwise than the kernel would: `getpid`.
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

/// What calls are answered with; written before the first program starts.
#[repr(C)]
#[derive(Debug)]
pub struct Fakes {
    /// Which of the following.
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

/// A logged call. The order is known to the assembly.
#[repr(C)]
#[derive(Debug)]
pub struct Record {
    /// The call's number plus 1; 0 while the record isn't whole.
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
/// Of these, left free for threads that have seen room at the same moment.
pub const SPARE: usize = 1 << 10;

/// What all processes of a run share.
#[repr(C)]
#[derive(Debug)]
pub struct Shared {
    /// Changes whenever the supervisor has something to do.
    pub doorbell: AtomicU32,
    /// Not 0 when there is no supervisor any more.
    pub closed: AtomicU32,
    /// The supervisor.
    pub supervisor: AtomicU32,
    /// [`COUNT`], [`LOG`].
    pub mode: AtomicU32,
    /// How many bodies there are: [`FIRST`], and soon [`SITES`].
    pub bodies: AtomicU32,
    /// Not 0 when a program waits for more.
    pub wanted: AtomicU32,
    /// Which tables of counters processes have taken, as bits: others are never looked at.
    pub shards: AtomicU64,
    /// How often a program was made ready.
    pub images: AtomicU64,
    /// Traps.
    pub traps: AtomicU64,
    /// Sites patched.
    pub patched: AtomicU64,
    /// Sites that were tried and can't be patched.
    pub unpatchable: AtomicU64,
    /// Calls answered in the handler for want of a body.
    pub bodiless: AtomicU64,
    /// Executed without being watched.
    pub lost: AtomicU64,
    /// Records that were begun.
    pub head: AtomicU64,
    /// Records that were read.
    pub tail: AtomicU64,
    /// Calls that there was no room for.
    pub dropped: AtomicU64,
    /// Sites that there was no room for in `found`.
    pub unlisted: AtomicU64,
    /// The answers that Palisade gives in place of the kernel's.
    pub fakes: Fakes,
    /// How many requests were made: each one's proof is the number of it.
    pub proofs: AtomicU64,
    /// Threads that ask the supervisor to watch them before they execute a program.
    pub requests: [Request; REQUESTS],
    /// Files that sites were found in, or that could have some.
    pub files: [File; FILES],
    /// Sites that were found by trap: file and place, by hash; 0: none.
    pub found: [AtomicU64; FOUND],
    /// By shard and number.
    pub counters: [[Counter; CALLS]; SHARDS],
    /// The log.
    pub ring: [Record; RECORDS],
}

/// What the image begins with.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Header {
    /// Where a program's threads start: see `blob/entry.S`.
    pub init: u64,
    /// The first body, from which the others are made.
    pub template: u64,
    /// Bytes: where in the body there are 32-bit addresses that grow by [`SLOT`] from body to body; 0 ends.
    pub fields: u64,
    /// The first entrance.
    pub entrance: u64,
    /// As `fields`, of the entrance; these grow by [`VARIANT`].
    pub entrance_fields: u64,
}
