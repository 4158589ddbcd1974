// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The system calls that few programs make and many attacks use. Scopes report them if that is wanted.

use palisade_bpf::scope::ANY_ARGUMENT;
use palisade_syscall::{Arch, Syscall};

const ARCH: Arch = if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 };

/// Rare address families: key management, packets, cryptography, virtual machines, and uncommon networks.
const FAMILIES: [u32; 13] = [4, 5, 9, 15, 17, 21, 29, 30, 31, 32, 38, 40, 44];

/// The calls that are reported whatever their first argument is.
const CALLS: [&str; 24] = [
    "add_key",
    "bpf",
    "delete_module",
    "finit_module",
    "fsopen",
    "init_module",
    "io_uring_setup",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "mount",
    "move_mount",
    "open_by_handle_at",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "request_key",
    "setns",
    "swapon",
    "unshare",
    "userfaultfd",
];

/// The number of each call and a bit set of its first arguments, for the eBPF programs.
pub(super) fn calls() -> impl Iterator<Item = (u32, u64)> {
    let families = FAMILIES.iter().fold(0, |bits, family| bits | 1_u64 << family);
    let number = |name: &str| name.parse::<Syscall>().ok()?.number(ARCH);
    let each = CALLS.iter().filter_map(move |name| Some((number(name)?, ANY_ARGUMENT)));
    number("socket").map(|number| (number, families)).into_iter().chain(each)
}

/// The name of a call; for `socket`, with the name of the address family.
pub(super) fn name(number: u32, argument: u32) -> String {
    let socket = "socket".parse::<Syscall>().ok().and_then(|call| call.number(ARCH));
    if socket == Some(number) {
        let family = match argument {
            15 => "AF_KEY",
            17 => "AF_PACKET",
            21 => "AF_RDS",
            29 => "AF_CAN",
            30 => "AF_TIPC",
            31 => "AF_BLUETOOTH",
            38 => "AF_ALG",
            40 => "AF_VSOCK",
            44 => "AF_XDP",
            _ => return format!("socket({argument})"),
        };
        return format!("socket({family})");
    }
    let named = CALLS
        .iter()
        .find(|name| name.parse::<Syscall>().ok().and_then(|call| call.number(ARCH)) == Some(number));
    named.map_or_else(|| format!("system call {number}"), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_number_and_its_name_back() {
        let all: Vec<(u32, u64)> = calls().collect();
        assert_eq!(all.len(), CALLS.len() + 1);
        assert!(all.iter().all(|(number, _)| *number < 512));
        assert_eq!(name(all[0].0, 38), "socket(AF_ALG)");
        for ((number, _), call) in all[1..].iter().zip(CALLS) {
            assert_eq!(name(*number, 0), call);
        }
    }
}
