// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts the mask refresher for the paths that a plan covers and that programs of the host may uncover.

use crate::apply::compile::attributes;
use crate::error::StartError;
use crate::plan::text::Text;
use crate::plan::{Bind, Origin, Plan, Step};
use palisade_sys::launch::{By, Mask, MaskRefresher};
use palisade_sys::mask_refresher::OWN;
use palisade_syscall::{Action, Arch, Errno, Rules, Syscall, compile};
use rustix::fs::{Mode, OFlags};
use std::ffi::{CStr, CString};

/// Placeholders, as masks name them. The order is that of their numbers.
const PLACEHOLDERS: [&CStr; 4] =
    [c".palisade/hidden", c".palisade/hidden-file", c".palisade/denied", c".palisade/denied-file"];

/// The refresher of a plan that needs one.
pub(crate) fn refresher(plan: &Plan<'_>) -> Result<Option<MaskRefresher>, StartError> {
    let masks: Vec<Mask> = plan.steps.iter().filter_map(mask_of).collect();
    if masks.is_empty() {
        return Ok(None);
    }
    let failed = |action| move |source| StartError::Launch { action, source };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc =
        rustix::fs::open("/proc", flags, Mode::empty()).map_err(failed("open /proc for the refresher"))?;
    let filter = filter().map_err(|_never| StartError::Launch {
        action: "make the refresher's filter",
        source: rustix::io::Errno::INVAL,
    })?;
    Ok(Some(MaskRefresher::new(masks, PLACEHOLDERS.map(CStr::to_owned), proc, filter)))
}

fn filter() -> Result<Vec<palisade_sys::seccomp::Instruction>, palisade_syscall::Error> {
    let known = |name: &&&str| name.parse::<Syscall>().is_ok_and(|call| call.number(Arch::NATIVE).is_some());
    let calls: Vec<&str> = OWN.iter().filter(known).copied().collect();
    let rules = Rules::new(Action::Errno(Errno::EPERM)).with(&calls, &[])?;
    Ok(compile(&rules, Arch::NATIVE)?.program)
}

/// The mask of a step, if it must be renewed.
fn mask_of(step: &Step<'_>) -> Option<Mask> {
    let Step::Bind(bind) = step else { return None };
    if !bind.renewed {
        return None;
    }
    let target = bind.target.as_bytes();
    let (parent, name) = match target.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&target[..slash], &target[slash + 1..]),
        None => (&b"."[..], target),
    };
    let text = |bytes: &[u8]| CString::new(bytes).ok();
    Some(Mask { parent: text(parent)?, name: text(name)?, by: by(bind)? })
}

fn by(bind: &Bind<'_>) -> Option<By> {
    if bind.origin != Origin::Inside {
        return Some(By::Itself(attributes(bind)));
    }
    let number = |path: &CStr| PLACEHOLDERS.iter().position(|known| *known == path);
    // Each kind has two: over a directory, then over a file.
    let kind = number(Text::as_c_str(&bind.source))? & !1;
    Some(By::Placeholder { directory: kind, file: kind + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_sys::landlock::Rights;

    fn bind(source: &'static CStr, target: &'static CStr, origin: Origin) -> Step<'static> {
        Step::Bind(Bind {
            source: Text::literal(source),
            target: Text::literal(target),
            origin,
            write: false,
            execute: true,
            devices: false,
            guarded: true,
            renewed: true,
            map_owners: false,
            rights: Rights::default(),
        })
    }

    #[test]
    fn a_mask_is_renewed_by_its_kind_whatever_takes_its_place() {
        let mask = mask_of(&bind(c".palisade/denied-file", c"work/a/.env", Origin::Inside)).unwrap();
        assert_eq!((mask.parent.as_bytes(), mask.name.as_bytes()), (&b"work/a"[..], &b".env"[..]));
        assert_eq!(mask.by, By::Placeholder { directory: 2, file: 3 });
        let kept = mask_of(&bind(c"/work/.git/config", c"work", Origin::Canonical)).unwrap();
        assert_eq!(kept.parent.as_bytes(), b".");
        assert!(matches!(kept.by, By::Itself(_)));
    }

    #[test]
    fn the_wardens_calls_have_names() {
        for name in OWN {
            assert!(name.parse::<Syscall>().is_ok(), "{name}");
        }
        assert!(!filter().unwrap().is_empty());
    }
}
