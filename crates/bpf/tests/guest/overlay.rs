// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests containers' file systems, and inodes that the kernel drops from its cache, which it does for an overlay and not
//! for a tmpfs.

use std::ffi::CStr;
use std::fs::{self, File};
use std::path::Path;

use palisade_bpf::GuardPrograms;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::inside::{TRUSTED, classify};
use crate::lives::eventually;
use crate::scenario::{Outcome, Result, act, copy, expect, report, run};

const PROGRAM: &str = "/mnt/program";

/// `MODULE_INIT_COMPRESSED_FILE` of `linux/module.h`.
const PACKED: i32 = 4;

pub(crate) fn all(programs: &GuardPrograms) {
    report("overlay-file-has-a-class-of-its-own", || {
        mount()?;
        classify(programs, "/work/lower/program", TRUSTED)?;
        let by_layer = run(PROGRAM);
        classify(programs, PROGRAM, TRUSTED)?;
        expect("only its layer's file has a class", &by_layer, &Outcome::Refused)?;
        expect("classified", &run(PROGRAM), &Outcome::Done)?;
        expect("mapped", &act(&["map", PROGRAM]), &Outcome::Done)?;
        // The mapped file is the layer's file.
        expect("mapped, then executable", &act(&["protect", PROGRAM]), &Outcome::Done)?;
        drop(File::options().append(true).open(PROGRAM).map_err(|error| format!("open: {error}"))?);
        expect("opened for writing", &run(PROGRAM), &Outcome::Refused)
    });
    report("evicted-class-is-refused", || {
        mount()?;
        classify(programs, PROGRAM, TRUSTED)?;
        expect("classified", &run(PROGRAM), &Outcome::Done)?;
        let forgotten = || {
            // If the cache can't be dropped, the result of `run` shows it.
            let _ = fs::write("/proc/sys/vm/drop_caches", "2");
            run(PROGRAM)
        };
        eventually("forgotten", forgotten, &Outcome::Refused)?;
        classify(programs, PROGRAM, TRUSTED)?;
        expect("classified again", &run(PROGRAM), &Outcome::Done)
    });
}

/// Loads a driver from the archive, unless it is there already.
pub(crate) fn load_driver(name: &str, parameters: &CStr) -> Result {
    for (end, flags) in [("ko", 0), ("packed", PACKED)] {
        let path = format!("/{name}.{end}");
        if let Ok(driver) = File::open(&path) {
            match rustix::system::finit_module(&driver, parameters, flags) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(format!("load {path}: {error}")),
            }
        }
    }
    Ok(())
}

/// An overlay on `/mnt` with a copy of this program in its lower layer.
fn mount() -> Result {
    load_driver("overlay", c"")?;
    if Path::new(PROGRAM).exists() {
        rustix::mount::unmount("/mnt", UnmountFlags::DETACH).map_err(|error| format!("unmount: {error}"))?;
    }
    for name in ["lower", "upper", "scratch"] {
        let path = format!("/work/{name}");
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).map_err(|error| format!("make {path}: {error}"))?;
    }
    fs::rename(copy("program")?, "/work/lower/program").map_err(|error| format!("move: {error}"))?;
    let layers = c"lowerdir=/work/lower,upperdir=/work/upper,workdir=/work/scratch";
    rustix::mount::mount("overlay", "/mnt", "overlay", MountFlags::empty(), Some(layers))
        .map_err(|error| format!("mount an overlay: {error}"))
}
