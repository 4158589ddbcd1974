// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of a call in nanoseconds, and the time that it takes to start a program. Prints JSON.
//!
//! `cost` measures `getpid` at a site that is patched and at one that can't be: alone, passed on, counted, answered.
//! Then it starts `/bin/true`, plainly and interposed, in turns.
#![expect(clippy::unwrap_used, reason = "a measurement that can't go on should panic")]

#[cfg(target_arch = "x86_64")]
fn main() {
    here::main();
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {}

#[cfg(target_arch = "x86_64")]
mod here {
    use palisade_interpose::launch::{Fakes, Launch, launch};
    use std::arch::asm;
    use std::ffi::{CString, OsString};
    use std::os::unix::ffi::OsStringExt;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    /// Calls in a batch, and the number of batches: the median is used. A batch is shorter than a time slice, so the
    /// result shows the calls and not other processes that use the processor.
    const BATCH: u32 = 100;
    const BATCHES: usize = 801;

    #[inline(never)]
    fn patched() -> i64 {
        let result;
        // SAFETY: needed: the instruction itself is what is measured. Sound: getpid touches no memory, and the registers that
        // `syscall` changes are named.
        unsafe {
            asm!("mov eax, 39", "syscall", out("rax") result, out("rcx") _, out("r11") _, options(nostack));
        }
        result
    }

    #[inline(never)]
    fn trapped() -> i64 {
        let result;
        // SAFETY: needed and sound as above. The `nop` in between keeps the site from being patched.
        unsafe {
            asm!("mov eax, 39", "nop", "syscall", out("rax") result, out("rcx") _, out("r11") _, options(nostack));
        }
        result
    }

    fn median(mut of: Vec<f64>) -> f64 {
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    }

    fn cost(call: fn() -> i64) -> f64 {
        let batch = || {
            let begun = Instant::now();
            for _ in 0..BATCH {
                std::hint::black_box(call());
            }
            begun.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH)
        };
        batch();
        median((0..BATCHES).map(|_| batch()).collect())
    }

    fn text(of: OsString) -> CString {
        CString::new(of.into_vec()).unwrap()
    }

    fn interposed(program: &CString, arguments: &[&str], (count, time): (bool, bool), fakes: Fakes) {
        let arguments = std::iter::once(program.clone())
            .chain(arguments.iter().map(|argument| CString::new(*argument).unwrap()))
            .collect();
        let environment = Vec::new();
        let program = program.clone();
        let wanted = Launch {
            program,
            arguments,
            environment,
            count,
            time,
            sites: false,
            hide_vdso: false,
            fakes,
            wait: true,
            meanwhile: || (),
        };
        let outcome = launch(&wanted, None).unwrap();
        assert!(outcome.status.success() && outcome.images == 1, "{outcome:?}");
    }

    pub(super) fn main() {
        let mut arguments = std::env::args_os().skip(1);
        if let Some(name) = arguments.next() {
            let name = name.into_string().unwrap();
            println!("  \"{name}\": {:.2},\n  \"{name}_unpatchable\": {:.2},", cost(patched), cost(trapped));
            return;
        }
        println!("{{");
        let own = std::env::current_exe().unwrap();
        assert!(Command::new(&own).arg("native_ns").status().unwrap().success());
        let own = text(own.into_os_string());
        interposed(&own, &["passed_ns"], (false, false), Fakes::default());
        interposed(&own, &["counted_ns"], (true, false), Fakes::default());
        interposed(&own, &["timed_ns"], (true, true), Fakes::default());
        interposed(&own, &["answered_ns"], (false, false), Fakes { pid: Some(4242), ..Fakes::default() });

        let program = c"/bin/true".to_owned();
        let (mut plain, mut with) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            let begun = Instant::now();
            Command::new("/bin/true").stdin(Stdio::null()).status().unwrap();
            plain.push(begun.elapsed().as_secs_f64() * 1e6);
            let begun = Instant::now();
            interposed(&program, &[], (true, false), Fakes::default());
            with.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        println!("  \"true_us\": {:.1},\n  \"true_interposed_us\": {:.1}\n}}", median(plain), median(with));
    }
}
