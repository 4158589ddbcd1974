// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The smallest program that can report its own start: its first instructions write the clock to standard output.

use std::time::Duration;

/// The length of its output: seconds and nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) const SAID: usize = 16;

const BASE: u64 = 0x40_0000;
const HEADER: u16 = 64;
const SEGMENT: u16 = 56;

/// `clock_gettime(CLOCK_MONOTONIC)`, `write(1)`, `exit(0)`.
#[rustfmt::skip]
const CODE: [u8; 50] = [
    0x48, 0x83, 0xec, 0x10,             // sub rsp, 16
    0xb8, 0xe4, 0x00, 0x00, 0x00,       // mov eax, 228
    0xbf, 0x01, 0x00, 0x00, 0x00,       // mov edi, 1
    0x48, 0x89, 0xe6,                   // mov rsi, rsp
    0x0f, 0x05,                         // syscall
    0xb8, 0x01, 0x00, 0x00, 0x00,       // mov eax, 1
    0xbf, 0x01, 0x00, 0x00, 0x00,       // mov edi, 1
    0x48, 0x89, 0xe6,                   // mov rsi, rsp
    0xba, 0x10, 0x00, 0x00, 0x00,       // mov edx, 16
    0x0f, 0x05,                         // syscall
    0xb8, 0x3c, 0x00, 0x00, 0x00,       // mov eax, 60
    0x31, 0xff,                         // xor edi, edi
    0x0f, 0x05,                         // syscall
    0x0f, 0x0b,                         // ud2
];

/// The program's file.
pub(crate) fn program() -> Vec<u8> {
    let start = u64::from(HEADER) + 2 * u64::from(SEGMENT);
    let length = start + CODE.len() as u64;
    let mut file = Vec::new();
    file.extend([0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    // The header: an executable for x86_64.
    file.extend([2_u16, 62].iter().flat_map(|half| half.to_le_bytes()));
    file.extend(1_u32.to_le_bytes());
    file.extend([BASE + start, u64::from(HEADER), 0].iter().flat_map(|long| long.to_le_bytes()));
    file.extend(0_u32.to_le_bytes());
    file.extend([HEADER, SEGMENT, 2, 64, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    // One segment with the whole file, readable and executable; and a stack that isn't executable.
    for (kind, flags, address, size) in [(1_u32, 5_u32, BASE, length), (0x6474_e551, 6, 0, 0)] {
        file.extend([kind, flags].iter().flat_map(|word| word.to_le_bytes()));
        file.extend([0, address, address, size, size, 0x1000].iter().flat_map(|long| long.to_le_bytes()));
    }
    file.extend(CODE);
    file
}

/// The time in the program's output.
pub(crate) fn clock(said: [u8; SAID]) -> Option<Duration> {
    let half = |at: usize| Some(i64::from_le_bytes(said.get(at..at + 8)?.try_into().ok()?));
    Some(Duration::new(u64::try_from(half(0)?).ok()?, u32::try_from(half(8)?).ok()?))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn it_says_when_it_began() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        std::fs::write(&path, program()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let now =
            || Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic)).unwrap();
        let before = now();
        let output = Command::new(&path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = clock(output.stdout.try_into().unwrap()).unwrap();
        assert!(before <= said && said <= now());
    }
}
