// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads, attaches and controls the scopes' programs and their maps.
//!
//! - `state`: the kernel's state of scopes, as plain data
//! - [`event`]: the events that the programs report
//! - `marks`: which processes and control groups are in which scope
//! - `denied`: what is denied, and which rare calls are reported
//! - `pinned`: programs and maps that stay in force when the process ends
//! - `lacks`: kernel features that scopes can do without
//! - `layout`: the bytes that both sides use
//! - `order`: runs and attaches programs by descriptor
//! - `table`: the table of marks

mod denied;
pub mod event;
mod lacks;
mod layout;
mod marks;
mod order;
mod pinned;
mod state;
mod table;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject};

use crate::error::Error;
use crate::guard::listening;
use crate::pins::Pins;
use event::Event;
pub use lacks::Lacks;
use layout::LAYOUT;
pub use state::{Depth, Outcome, Scope, Settings, Totals, Verdict};

/// Clang's output for `programs/scope.bpf.c`.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/scope.bpf.o"));
/// Clang's output for `programs/scope_refuse.bpf.c`.
const REFUSE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/scope_refuse.bpf.o"));

/// The programs at tracepoints.
const PROGRAMS: [&str; 2] = ["palisade_scope_fork", "palisade_scope_exec"];
/// The program that carries out orders of user space.
const ORDER: &str = "palisade_scope_order";
/// The program that carries out orders on kernels that can't find a process by number.
const SEARCH: &str = "palisade_scope_search";
/// The program that is attached while rare calls are watched.
const CALL: &str = "palisade_scope_call";
/// The program at the security hook.
const AT_HOOK: &str = "palisade_scope_refuse";

/// The maps; the settings last: their pin says that all others are there.
const MAPS: [&str; 12] = [
    "scopes",
    "marks",
    "gates",
    "overflow",
    "groups",
    "denied_files",
    "denied_names",
    "totals",
    "events",
    "rare",
    "request",
    "settings",
];

/// The most scopes at once.
pub const SCOPES: u32 = layout::SCOPES;
/// The most ancestors that [`Depth::Ancestry`] checks.
pub const MOST_HOPS: u8 = 16;
/// For [`ScopePrograms::watch_call`]: report a call whatever its first argument is.
pub const ANY_ARGUMENT: u64 = u64::MAX;

/// The scopes' programs and their maps: loaded, attached, or found pinned.
///
/// No mark is found before a depth is set. When this is dropped, the programs end, unless they are pinned.
#[derive(Debug)]
pub struct ScopePrograms {
    maps: Vec<(&'static str, MapHandle)>,
    order: OwnedFd,
    call: OwnedFd,
    /// The program for kernels that can't find processes by number.
    search: Option<OwnedFd>,
    lacks: Lacks,
    /// The link of the program that watches rare calls, while they are watched.
    watching: Mutex<Option<OwnedFd>>,
    links: Vec<(String, Link)>,
    /// The programs that this process loaded, to measure their run time.
    loaded: Vec<(&'static str, OwnedFd)>,
}

impl ScopePrograms {
    /// Lets the kernel verify, load and attach the programs.
    ///
    /// # Errors
    /// If the kernel has no types, lacks a tracepoint, or refuses.
    pub fn load() -> Result<Self, Error> {
        Self::load_without(Lacks::default(), None)
    }

    /// As [`Self::load`], with a smaller table of marks; its size must be a power of two. Marks whose place is used go to
    /// task storage.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_with_table_of(marks: Option<u32>) -> Result<Self, Error> {
        Self::load_without(Lacks::default(), marks)
    }

    /// As [`Self::load`], as if the kernel also lacked `lacks`; with a table of `marks`.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_without(lacks: Lacks, marks: Option<u32>) -> Result<Self, Error> {
        let lacks = lacks.or(Lacks::probe());
        match Self::load_exactly(lacks, marks) {
            // Only the verifier knows whether this kind of program may find a process by number.
            Err(Error::Load { errno, log, source }) if !lacks.task_by_number => {
                let without = Lacks { task_by_number: true, ..lacks };
                // If that isn't the cause, report the first error.
                Self::load_exactly(without, marks).map_err(|_| Error::Load { errno, log, source })
            }
            result => result,
        }
    }

    fn load_exactly(lacks: Lacks, marks: Option<u32>) -> Result<Self, Error> {
        let mut opened = ObjectBuilder::default().open_memory(OBJECT).map_err(Error::Open)?;
        fit(&mut opened, lacks)?;
        if let Some(mut search) = opened.progs_mut().find(|program| program.name() == SEARCH) {
            search.set_autoload(lacks.task_by_number);
        }
        if let Some(marks) = marks {
            for mut map in opened.maps_mut().filter(|map| map.name() == "marks") {
                map.set_max_entries(marks).map_err(|source| Error::Map {
                    operation: "set the size of",
                    map: "marks",
                    source,
                })?;
            }
        }
        let object = listening(|| opened.load())?;
        let mut maps = Vec::new();
        for name in MAPS {
            maps.push((name, handle(&object, name)?));
        }
        let program = |name: &'static str| {
            let found = object.progs().find(|program| program.name() == name).ok_or(Error::Missing(name))?;
            found.as_fd().try_clone_to_owned().map_err(|source| Error::Run { program: name, source })
        };
        let (order, call) = (program(ORDER)?, program(CALL)?);
        let search = if lacks.task_by_number { Some(program(SEARCH)?) } else { None };
        let loaded =
            PROGRAMS.iter().map(|name| Ok((*name, program(name)?))).collect::<Result<Vec<_>, Error>>()?;
        let (watching, links) = (Mutex::default(), Vec::new());
        let mut programs = Self { maps, order, call, search, lacks, watching, links, loaded };
        programs.set(&Settings::default())?;
        let places = programs.map("marks")?.max_entries();
        programs.write("settings", &layout::KNOWN, &layout::encode_cell([0, places - 1]))?;
        for name in PROGRAMS {
            let Some(program) = object.progs_mut().find(|program| program.name() == name) else {
                return Err(Error::Unattached { program: name });
            };
            let link =
                program.attach_trace().map_err(|source| Error::Attach { program: name.into(), source })?;
            programs.links.push((name.to_owned(), link));
        }
        // The links and descriptors keep what is needed of the object.
        Ok(programs)
    }

    /// Attaches the program that refuses at the security hook, and notes that in the settings. This doesn't prove that the
    /// kernel calls it: the caller must try an exec.
    ///
    /// # Errors
    /// If the kernel refuses programs there: [`crate::support::absence`] says whether that is expected.
    pub fn refuse_at_hook(&mut self) -> Result<(), Error> {
        if self.links.iter().any(|(name, _)| name == AT_HOOK) {
            return Ok(());
        }
        let mut opened = ObjectBuilder::default().open_memory(REFUSE).map_err(Error::Open)?;
        fit(&mut opened, self.lacks)?;
        for mut map in opened.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if let Some((name, ours)) = self.maps.iter().find(|(ours, _)| *ours == name) {
                map.reuse_fd(ours.as_fd()).map_err(|source| Error::Map {
                    operation: "share",
                    map: name,
                    source,
                })?;
            }
        }
        let object = listening(|| opened.load())?;
        let program =
            object.progs_mut().find(|program| program.name() == AT_HOOK).ok_or(Error::Missing(AT_HOOK))?;
        let link =
            program.attach_lsm().map_err(|source| Error::Attach { program: AT_HOOK.into(), source })?;
        self.links.push((AT_HOOK.to_owned(), link));
        self.change(|settings| settings.lsm = true)
    }

    /// Removes the program from the security hook. What would be refused is killed from then on.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn leave_hook(&mut self) -> Result<(), Error> {
        self.change(|settings| settings.lsm = false)?;
        self.links.retain(|(name, _)| name != AT_HOOK);
        Ok(())
    }

    /// The features that the programs do without.
    #[must_use]
    pub fn lacks(&self) -> Lacks {
        self.lacks
    }

    /// Whether the program at the security hook is attached.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.attached().any(|name| name == AT_HOOK)
    }

    /// Names of the attached programs.
    pub fn attached(&self) -> impl Iterator<Item = &str> {
        self.links.iter().map(|(name, _)| name.as_str())
    }

    /// The settings in force.
    ///
    /// # Errors
    /// If the map can't be read.
    pub fn settings(&self) -> Result<Settings, Error> {
        let bytes = self.read("settings", &[0; 4])?.ok_or(Error::Missing("settings"))?;
        layout::decode_settings(&bytes).map_err(|found| Error::Layout {
            directory: Pins::default().directory().to_owned(),
            found,
            wanted: LAYOUT,
        })
    }

    /// Changes the settings; they are in force at once.
    ///
    /// # Errors
    /// If the map can't be read or written.
    pub fn change(&self, change: impl FnOnce(&mut Settings)) -> Result<(), Error> {
        let mut settings = self.settings()?;
        change(&mut settings);
        self.set(&settings)
    }

    fn set(&self, settings: &Settings) -> Result<(), Error> {
        self.write("settings", &[0; 4], &layout::encode_settings(settings, self.lacks))
    }

    /// Opens a scope without processes. Its slot, the number modulo [`SCOPES`], must be free. One caller at a time.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn open_scope(&self, scope: &Scope) -> Result<(), Error> {
        if self.scope(scope.id)?.is_none() {
            self.count_open(1)?;
        }
        self.write("scopes", &slot(scope.id), &layout::encode_scope(scope))
    }

    /// The scope that has the slot of `id`; its number may differ from `id`.
    ///
    /// # Errors
    /// If the map can't be read.
    pub fn scope(&self, id: u32) -> Result<Option<Scope>, Error> {
        Ok(self.read("scopes", &slot(id))?.and_then(|bytes| layout::decode_scope(&bytes)))
    }

    /// Every scope.
    ///
    /// # Errors
    /// If the map can't be read.
    pub fn scopes(&self) -> Result<Vec<Scope>, Error> {
        let mut scopes = Vec::new();
        for number in 0..SCOPES {
            scopes.extend(self.scope(number)?);
        }
        Ok(scopes)
    }

    /// Closes a scope: its marks have no effect from now on, and aren't inherited.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn close_scope(&self, id: u32) -> Result<(), Error> {
        let open = self.scope(id)?.is_some();
        self.write("scopes", &slot(id), &layout::encode_scope(&Scope::default()))?;
        if open { self.count_open(-1) } else { Ok(()) }
    }

    /// Changes the count of open scopes, by which the programs know whether to look up marks. The count rises before a
    /// scope opens and falls after one closes, so a process that ends in between leaves a count that is too large, not too
    /// small.
    fn count_open(&self, more: i32) -> Result<(), Error> {
        let before = self.read("settings", &layout::OPEN)?.ok_or(Error::Missing("settings"))?;
        let open = layout::decode_open(&before).saturating_add_signed(more);
        self.write("settings", &layout::OPEN, &layout::encode_cell([open, 0]))
    }

    /// The counts of what happened so far.
    ///
    /// # Errors
    /// If the map can't be read.
    pub fn totals(&self) -> Result<Totals, Error> {
        let values = self
            .map("totals")?
            .lookup_percpu(&[0; 4], MapFlags::ANY)
            .map_err(|source| Error::Map { operation: "read", map: "totals", source })?
            .ok_or(Error::Missing("totals"))?;
        Ok(values.iter().map(|value| layout::decode_totals(value)).fold(Totals::default(), |sum, more| {
            Totals {
                execs: sum.execs + more.execs,
                killed: sum.killed + more.killed,
                refused: sum.refused + more.refused,
                lost: sum.lost + more.lost,
                unmarked: sum.unmarked + more.unmarked,
                overflowed: sum.overflowed + more.overflowed,
            }
        }))
    }

    /// Resets the counts, and drops events that weren't read.
    ///
    /// # Errors
    /// If a map can't be read or written.
    pub fn forget(&self) -> Result<(), Error> {
        let failed = |source| Error::Map { operation: "reset", map: "totals", source };
        let map = self.map("totals")?;
        if let Some(values) = map.lookup_percpu(&[0; 4], MapFlags::ANY).map_err(failed)? {
            let nothing: Vec<Vec<u8>> = values.iter().map(|value| vec![0; value.len()]).collect();
            map.update_percpu(&[0; 4], &nothing, MapFlags::ANY).map_err(failed)?;
        }
        if self.lacks.ring_buffer { Ok(()) } else { self.events(drop)?.drain() }
    }

    /// The programs that this process loaded, for the kernel's run-time statistics (`bpf_stats_enabled`).
    pub fn loaded(&self) -> impl Iterator<Item = (&'static str, BorrowedFd<'_>)> {
        self.loaded.iter().map(|(name, program)| (*name, program.as_fd()))
    }

    /// The maps, to ask the kernel for their size.
    pub fn tables(&self) -> impl Iterator<Item = (&'static str, BorrowedFd<'_>)> {
        self.maps.iter().map(|(name, map)| (*name, map.as_fd()))
    }

    /// Passes every event to `callback` when polled. One reader at a time.
    ///
    /// # Errors
    /// If the buffer can't be mapped, or there is none ([`Lacks::ring_buffer`]).
    pub fn events<'a>(
        &'a self,
        mut callback: impl FnMut(Event) + 'a,
    ) -> Result<crate::guard::Events<'a>, Error> {
        let failed = |source| Error::Map { operation: "listen to", map: "events", source };
        let mut builder = libbpf_rs::RingBufferBuilder::new();
        builder
            .add(self.map("events")?, move |bytes: &[u8]| {
                if let Some(event) = layout::decode_event(bytes) {
                    callback(event);
                }
                0
            })
            .map_err(failed)?;
        Ok(crate::guard::Events::of(builder.build().map_err(failed)?))
    }

    fn map(&self, name: &'static str) -> Result<&MapHandle, Error> {
        self.maps.iter().find(|(found, _)| *found == name).map(|(_, map)| map).ok_or(Error::Missing(name))
    }

    fn read(&self, name: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.map(name)?.lookup(key, MapFlags::ANY).map_err(|source| Error::Map {
            operation: "read",
            map: name,
            source,
        })
    }

    fn write(&self, name: &'static str, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.map(name)?.update(key, value, MapFlags::ANY).map_err(|source| Error::Map {
            operation: "write",
            map: name,
            source,
        })
    }

    /// A missing key is no error.
    fn remove(&self, name: &'static str, key: &[u8]) -> Result<(), Error> {
        match self.map(name)?.delete(key) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(Error::Map { operation: "remove an entry of", map: name, source: error })
            }
            _ => Ok(()),
        }
    }
}

/// Sets in an object what the kernel lacks. Gives maps of a kind that the kernel lacks another kind; no reachable code uses
/// these maps.
fn fit(opened: &mut OpenObject, lacks: Lacks) -> Result<(), Error> {
    for mut map in opened.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let changed = match name.as_str() {
            "overflow" if lacks.task_storage => {
                map.set_type(MapType::Hash).and_then(|()| map.set_max_entries(1)).map_err(|e| ("overflow", e))
            }
            "events" if lacks.ring_buffer => map
                .set_type(MapType::Array)
                .and_then(|()| map.set_key_size(4))
                .and_then(|()| map.set_value_size(4))
                .and_then(|()| map.set_max_entries(1))
                .map_err(|e| ("events", e)),
            // The constants; there is only one.
            name if name.ends_with(".rodata") => {
                map.set_initial_value(&lacks.bits().to_ne_bytes()).map_err(|e| ("constants", e))
            }
            _ => Ok(()),
        };
        changed.map_err(|(map, source)| Error::Map { operation: "adapt", map, source })?;
    }
    Ok(())
}

fn slot(id: u32) -> [u8; 4] {
    (id % SCOPES).to_ne_bytes()
}

fn handle(object: &Object, name: &'static str) -> Result<MapHandle, Error> {
    let map = object.maps().find(|map| map.name() == name).ok_or(Error::Missing(name))?;
    MapHandle::try_from(&map).map_err(|source| Error::Map { operation: "open", map: name, source })
}
