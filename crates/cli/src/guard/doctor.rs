// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks which parts of the guard work on this kernel. Launches need none of them.

use palisade::examination::Check;
use palisade_protocol::client::{self, DaemonError};
use palisade_protocol::guard::{Request, Response, SOCKET};
use palisade_sandbox::guarantee::Have;
use palisade_sys::fanotify::Gate;
use rustix::io::Errno;
use std::path::Path;

/// The kernel's security modules that are in force.
const MODULES: &str = "/sys/kernel/security/lsm";

/// The checks and their results.
pub(crate) fn doctor() -> Vec<Check> {
    vec![permission_events(), lsm(), daemon()]
}

fn check(name: &'static str, have: Have, what: Option<String>, remedy: Option<&str>) -> Check {
    Check { name, have, fatal: false, what, remedy: remedy.map(str::to_owned) }
}

/// Tests whether a fanotify group can be made. A group without marks gets no events, so the test disturbs no process.
fn permission_events() -> Check {
    let name = "guard: the kernel asks about opens and execs (fanotify)";
    match Gate::new(false) {
        Ok(_gate) => check(name, Have::Yes, None, None),
        Err(Errno::PERM) => {
            check(name, Have::Unknown("only root can find out".into()), None, Some("sudo palisade doctor"))
        }
        Err(errno) => check(
            name,
            Have::No(errno.to_string()),
            None,
            Some("a kernel with CONFIG_FANOTIFY_ACCESS_PERMISSIONS"),
        ),
    }
}

fn lsm() -> Check {
    let name = "guard: BPF among the kernel's security modules";
    match std::fs::read_to_string(MODULES) {
        Ok(list) if list.trim().split(',').any(|module| module == "bpf") => {
            check(name, Have::Yes, None, None)
        }
        Ok(list) => check(
            name,
            Have::No(format!("there are {}", list.trim())),
            None,
            Some("boot with lsm=…,bpf; without it fanotify decides alone"),
        ),
        Err(error) => check(
            name,
            Have::Unknown(format!("{MODULES}: {error}")),
            None,
            Some("mount -t securityfs securityfs /sys/kernel/security"),
        ),
    }
}

fn daemon() -> Check {
    let name = "guard: palisaded answers";
    let asked = client::ask(Path::new(SOCKET), &Request::Status);
    match asked {
        Ok(Response::Status(status)) => {
            let mode = if status.enforcing { "enforcing" } else { "permissive" };
            check(name, Have::Yes, Some(format!("{mode}, {} rules", status.rules)), None)
        }
        Ok(_) => check(name, Have::No(DaemonError::Strange.to_string()), None, None),
        Err(error) => {
            let hint = error.hint();
            check(name, Have::No(error.to_string()), None, hint.as_deref())
        }
    }
}
