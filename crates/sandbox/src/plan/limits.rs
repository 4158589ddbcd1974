// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans limits: by resource limits where these are effective, by control groups otherwise.

use crate::apply::cgroup;
use crate::error::PlanError;
use crate::guarantee::Demands;
use crate::plan::planner::Isolation;
use crate::plan::{GroupLimit, Limit};
use palisade_policy::{Amount, Guarantee, Limit as Wanted, Policy};
use std::borrow::Cow;

/// `RLIMIT_*` in the kernel's numbers for x86-64 and aarch64.
pub(crate) const NPROC: u32 = 6;

/// Plans the policy's limits.
pub(crate) fn plan(
    policy: &Policy,
    isolation: Isolation,
    demands: &Demands,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<(Vec<Limit>, Vec<GroupLimit>), PlanError> {
    let mut limits = Vec::new();
    let mut groups = Vec::new();
    for (wanted, amount) in policy.limits() {
        let Amount::AtMost(value) = amount.value else { continue };
        let resource = match wanted {
            Wanted::CpuTime => 0,
            Wanted::FileSize => 1,
            Wanted::Stack => 3,
            Wanted::CoreSize => 4,
            Wanted::OpenFiles => 7,
            Wanted::LockedMemory => 8,
            Wanted::AddressSpace => 9,
            Wanted::Memory | Wanted::Processes => {
                let (limit, guarantee) = match wanted {
                    Wanted::Memory => (GroupLimit::Memory(value), Guarantee::MemoryBounded),
                    _ => (GroupLimit::Processes(value), Guarantee::ProcessesBounded),
                };
                match cgroup::place(limit) {
                    Ok(_now) => groups.push(limit),
                    // Processes are counted per user namespace (since Linux 5.14), but not for the host's root.
                    Err(_)
                        if wanted == Wanted::Processes
                            && isolation == Isolation::Full
                            && !rustix::process::geteuid().is_root() =>
                    {
                        limits.push(Limit { resource: NPROC, value });
                    }
                    Err(reason) if demands.required().names(guarantee) => {
                        return Err(demands.lacking(guarantee, &reason.to_string()));
                    }
                    Err(reason) if !demands.required().has(guarantee) => {
                        demands.lose(guarantee);
                        notes.push(Cow::Owned(format!("can't limit {wanted}: {reason}")));
                    }
                    Err(reason) => return Err(PlanError::Limit { limit: wanted, reason }),
                }
                continue;
            }
        };
        limits.push(Limit { resource, value });
    }
    Ok((limits, groups))
}
