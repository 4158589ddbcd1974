// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of capabilities, as libcap's `cap_from_name` accepts them.

use crate::number;

/// The names without `CAP_`; the place in the list is the number.
const NAMES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

/// The set with this one capability.
///
/// A text that starts with a digit is a number up to 63, and what follows the number doesn't matter. Otherwise its first
/// letters and underscores are a name in any case, and what follows them doesn't matter either.
pub(crate) fn set_of(text: &[u8]) -> Option<u64> {
    let number = if text.first().is_some_and(u8::is_ascii_digit) {
        u32::try_from(number::leading(text)).ok()?
    } else {
        let length = text.iter().take_while(|&&byte| byte.is_ascii_alphabetic() || byte == b'_').count();
        let (prefix, name) = text.get(..length)?.split_at_checked(4)?;
        if !prefix.eq_ignore_ascii_case(b"cap_") {
            return None;
        }
        let place = NAMES.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
        u32::try_from(place).ok()?
    };
    1_u64.checked_shl(number)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Prints, for each argument, what libcap of this machine makes of it; nothing without libcap.
    const LIBCAP: &str = r#"
import ctypes, os, sys
try: library = ctypes.CDLL("libcap.so.2")
except OSError: sys.exit(0)
for name in sys.argv[1:]:
    number = ctypes.c_int(-1)
    library.cap_from_name(os.fsencode(name), ctypes.byref(number))
    print(number.value)
"#;

    #[test]
    fn names_and_numbers_are_those_of_libcap() {
        let mut texts: Vec<Vec<u8>> = NAMES.iter().map(|name| format!("cap_{name}").into_bytes()).collect();
        texts.extend(NAMES.iter().map(|name| format!("CAP_{}", name.to_uppercase()).into_bytes()));
        texts.extend((0..70).map(|number| number.to_string().into_bytes()));
        let odd: [&[u8]; 32] = [
            b"Cap_Sys_Admin",
            b"SYS_ADMIN",
            b"021",
            b"0x15",
            b"0x15zz",
            b"0x",
            b"08",
            b"21abc",
            b"99999999999999999999999",
            b"18446744073709551637",
            b" 21",
            b"+1",
            b"-1",
            b"",
            b"_",
            b"cap_",
            b"cap",
            b"cap_41",
            b"cap_sys_admin ",
            b"cap_sys_admin=ep",
            b"cap_sys_admin1",
            b"cap_sys_adminx",
            b"cap_sys_admin_",
            b"cap_sys_admi",
            b"cap_chown,cap_kill",
            b"cap_chown-",
            b"cap_chown\xc3",
            b"cap_sys\xffadmin",
            b"CAP\x7fCHOWN",
            b"\xff",
            b"4294967296",
            b"4294967317",
        ];
        texts.extend(odd.iter().map(|text| text.to_vec()));
        let mut python = Command::new("python3");
        python.arg("-c").arg(LIBCAP);
        for text in &texts {
            python.arg(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(text));
        }
        let output = String::from_utf8(python.output().unwrap().stdout).unwrap();
        if output.is_empty() {
            eprintln!("this machine has no libcap");
            return;
        }
        assert_eq!(output.lines().count(), texts.len());
        for (text, truth) in texts.iter().zip(output.lines()) {
            let truth = truth.parse::<u32>().ok().map(|number| 1_u64 << number);
            assert_eq!(set_of(text), truth, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn the_numbers_are_those_of_the_kernel() {
        assert_eq!(set_of(b"CAP_SYS_ADMIN"), Some(1 << 21));
        assert_eq!(set_of(b"CAP_CHECKPOINT_RESTORE"), Some(1 << 40));
        assert_eq!(set_of(b"63"), Some(1 << 63));
        assert_eq!(set_of(b"64"), None);
    }
}
