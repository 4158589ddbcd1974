// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures what calls cost under the filters that sandboxes get: without a broker, and with one.
//!
//! When a filter is loaded, the kernel runs it once for every number, without arguments, and keeps a bitmap of the
//! calls that it allows. These calls never run the filter again. If the filter loads an argument, the call isn't in
//! that bitmap. Up to the first such load only number and architecture matter, so one run with any arguments shows
//! whether there is a load.
#![expect(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use crate::interpreter::{Run, run};
use crate::samples::{ARCHES, verdict};
use palisade_syscall::{Action, Arch, Call, Filter, Rules, Syscall, compile};

/// Offsets in `struct seccomp_data`.
const NUMBER_AND_ARCHITECTURE: [usize; 2] = [0, 4];

/// The calls that programs make all the time. They must be in the bitmap.
const EVERYDAY: &str = "read write readv writev pread64 pwrite64 lseek close close_range fstat stat lstat newfstatat \
    statx access faccessat faccessat2 readlink readlinkat getdents64 getcwd chdir fchdir fcntl flock ftruncate fsync \
    dup dup2 dup3 pipe pipe2 mmap munmap mprotect mremap madvise brk futex clock_gettime clock_nanosleep nanosleep \
    gettimeofday getrandom sched_yield sched_getaffinity poll ppoll select pselect6 epoll_create1 epoll_ctl \
    epoll_wait epoll_pwait eventfd2 inotify_add_watch accept4 sendto recvfrom sendmsg recvmsg setsockopt getsockopt \
    shutdown getpid gettid getppid getuid geteuid rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack kill tgkill \
    fork vfork execve wait4 waitid exit exit_group set_robust_list set_tid_address rseq prctl prlimit64 uname sysinfo \
    arch_prctl memfd_create copy_file_range sendfile splice";

fn filters() -> [(&'static str, Rules); 2] {
    let brokered = Rules::deny_list().brokered().unwrap();
    [("deny list", Rules::deny_list().keeping_modes(false)), ("brokered", brokered.keeping_modes(true))]
}

fn run_number(filter: &Filter, arch: Arch, number: u32) -> Run {
    run(&filter.program, &Call { audit_arch: arch.audit(), number, arguments: [0; 6] })
}

fn named(name: &str) -> Syscall {
    name.parse().unwrap()
}

/// The calls that run the filter every time, by name, with the offsets that it loads.
#[test]
fn only_these_calls_have_an_argument_read() {
    let expected: &[(&str, &[usize])] = &[
        ("chmod", &[24]),
        ("clone", &[16]),
        ("creat", &[24]),
        ("fchmod", &[24]),
        ("fchmodat", &[32]),
        ("fchmodat2", &[32]),
        ("ioctl", &[24]),
        ("mkdir", &[24]),
        ("mkdirat", &[32]),
        ("mknod", &[24]),
        ("mknodat", &[32]),
        ("open", &[24]),
        ("openat", &[32]),
        ("personality", &[16]),
        ("socket", &[16]),
        ("socketpair", &[16]),
        ("unshare", &[16, 20]),
    ];
    for (list, rules) in filters() {
        for arch in ARCHES {
            let filter = compile(&rules, arch).unwrap();
            for call in Syscall::all() {
                let Some(number) = call.number(arch) else { continue };
                let mut allowed = NUMBER_AND_ARCHITECTURE.to_vec();
                if let Some((_, arguments)) = expected.iter().find(|(name, _)| *name == call.name()) {
                    allowed.extend(*arguments);
                }
                assert_eq!(run_number(&filter, arch, number).offsets(), allowed, "{list} {arch:?} {call}");
            }
        }
    }
}

#[test]
fn everyday_calls_are_allowed_by_their_number_alone() {
    for (list, rules) in filters() {
        for arch in ARCHES {
            let filter = compile(&rules, arch).unwrap();
            let numbers: Vec<(&str, u32)> = EVERYDAY
                .split_whitespace()
                .filter_map(|name| Some((name, named(name).number(arch)?)))
                .collect();
            // 64-bit ARM doesn't have calls that were replaced by an `at` form or a numbered successor.
            let missing = EVERYDAY.split_whitespace().count() - numbers.len();
            assert!(missing <= if arch == Arch::Aarch64 { 20 } else { 0 }, "{arch:?} lacks {missing}");
            let mut deepest = 0;
            for (name, number) in numbers {
                let run = run_number(&filter, arch, number);
                assert_eq!(run.verdict, verdict(Action::Allow), "{list} {arch:?} {name}");
                assert_eq!(run.offsets(), NUMBER_AND_ARCHITECTURE, "{list} {arch:?} {name}");
                deepest = deepest.max(run.steps);
            }
            println!("{list}, {arch:?}: everyday calls take at most {deepest} steps");
            // The number of steps for each call on a kernel without that bitmap (before 5.11).
            assert!(deepest <= 15, "{list} {arch:?}: {deepest} steps");
        }
    }
}

/// The only everyday call whose arguments the broker's filter reads. Its flags decide: reading goes on to the kernel,
/// and only writing is passed on. The mode is read only where a file would be made.
#[test]
fn opening_is_decided_on_its_flags() {
    const ADDRESS: u64 = 0x7fff_1234_5678_9abc;
    let makes = |flags: u64| flags & 0x40_0040 != 0;
    for arch in ARCHES {
        let filter = compile(&Rules::deny_list().brokered().unwrap().keeping_modes(true), arch).unwrap();
        for (name, flags) in [("open", 1), ("openat", 2)] {
            let Some(number) = named(name).number(arch) else { continue };
            // O_RDONLY; O_CLOEXEC; O_NOFOLLOW and O_DIRECTORY of both architectures; O_PATH; O_NONBLOCK; then
            // O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, each with O_CLOEXEC; O_TMPFILE|O_RDWR.
            let reads = [0, 0x8_0000, 0x2_0000, 0x1_0000, 0x8000, 0x4000, 0x20_0000, 0x800, 1 << 32];
            let writes = [0x8_0001, 0x8_0002, 0x8_0040, 0x8_0200, 0x41_0002, 1 | 1 << 32];
            let both = reads.map(|flags| (flags, Action::Allow)).into_iter();
            for (value, action) in both.chain(writes.map(|flags| (flags, Action::Notify))) {
                let mut arguments = [ADDRESS; 6];
                arguments[flags] = value;
                arguments[flags + 1] = if makes(value) { 0o666 } else { ADDRESS };
                let run = run(&filter.program, &Call { audit_arch: arch.audit(), number, arguments });
                assert_eq!(run.verdict, verdict(action), "{arch:?} {name} {value:#x}");
                let mut looked_at = vec![0, 4, 16 + 8 * flags];
                looked_at.extend(makes(value).then_some(16 + 8 * (flags + 1)));
                assert_eq!(run.offsets(), looked_at, "{arch:?} {name}");
                assert!(run.steps <= 19, "{arch:?} {name}: {} steps", run.steps);
            }
        }
    }
}

/// The cost of loading grows with both numbers. This test shows a change of the compiler or of a list.
#[test]
fn the_filters_are_small_and_flat() {
    for ((list, rules), [length, depth]) in filters().into_iter().zip([[140, 18], [200, 25]]) {
        for arch in ARCHES {
            let filter = compile(&rules, arch).unwrap();
            let steps = |number| run_number(&filter, arch, number).steps;
            let deepest = (0..470).map(steps).max().unwrap();
            let total: usize = (0..470).map(steps).sum();
            println!(
                "{list}, {arch:?}: {} instructions, at most {deepest} steps, 470 calls {total}",
                filter.program.len()
            );
            assert!(filter.program.len() <= length, "{}", filter.listing(arch));
            assert!(deepest <= depth, "{list} {arch:?}: {deepest} steps");
        }
    }
}
