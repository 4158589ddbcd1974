// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scopes' programs, from loading to pins.
//!
//! - `state`: what the kernel holds: plain data
//! - [`event`]: what they report
//! - `lacks`: what they can do without
//! - `layout`: the bytes that both sides agree on
//! - `order`: programs by descriptor
//! - `table`: the table of marks

pub mod event;
mod lacks;
mod layout;
mod order;
mod state;
mod table;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject, Program};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::error::Error;
use crate::guard::listening;
use crate::pins::Pins;
use event::Event;
pub use lacks::Lacks;
use layout::LAYOUT;
pub use state::{Depth, Outcome, Scope, Settings, Totals, Verdict};
use table::Table;

/// Clang's output for `programs/scope.bpf.c`.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/scope.bpf.o"));
/// Clang's output for `programs/scope_refuse.bpf.c`.
const REFUSE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/scope_refuse.bpf.o"));

/// The tracepoints' programs.
const PROGRAMS: [&str; 2] = ["palisade_scope_fork", "palisade_scope_exec"];
/// Run when user space orders something.
const ORDER: &str = "palisade_scope_order";
/// Run where the kernel finds no process by its number.
const SEARCH: &str = "palisade_scope_search";
/// Attached while rare calls are watched.
const CALL: &str = "palisade_scope_call";
/// At the security hook.
const AT_HOOK: &str = "palisade_scope_refuse";

/// The maps; the settings last: their pin says that all are there.
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

/// Scopes at once.
pub const SCOPES: u32 = layout::SCOPES;
/// The deepest ancestry.
pub const MOST_HOPS: u8 = 16;
/// What [`ScopePrograms::watch_call`] takes for "whatever the first argument is".
pub const ANY_ARGUMENT: u64 = u64::MAX;

/// The scopes' programs and their maps: loaded, attached, or found pinned.
///
/// Nothing is found before a depth is set. Dropped, the programs go, unless they are pinned.
#[derive(Debug)]
pub struct ScopePrograms {
    maps: Vec<(&'static str, MapHandle)>,
    order: OwnedFd,
    call: OwnedFd,
    /// Where processes aren't found by number.
    search: Option<OwnedFd>,
    lacks: Lacks,
    /// Rare calls are watched as long as it is there.
    watching: Mutex<Option<OwnedFd>>,
    links: Vec<(String, Link)>,
    /// Those that this process loaded, to be asked for their run time.
    loaded: Vec<(&'static str, OwnedFd)>,
}

impl ScopePrograms {
    /// Has the kernel verify, load and attach the programs.
    ///
    /// # Errors
    /// If the kernel has no types, lacks a tracepoint, or refuses.
    pub fn load() -> Result<Self, Error> {
        Self::load_without(Lacks::default(), None)
    }

    /// [`Self::load`], with a smaller table of marks, of a power of two: what finds its place taken is in the tasks' storage.
    ///
    /// # Errors
    /// As there.
    pub fn load_with_table_of(marks: Option<u32>) -> Result<Self, Error> {
        Self::load_without(Lacks::default(), marks)
    }

    /// [`Self::load`], as on a kernel that lacks this, too; with a table of `marks`.
    ///
    /// # Errors
    /// As there.
    pub fn load_without(lacks: Lacks, marks: Option<u32>) -> Result<Self, Error> {
        let lacks = lacks.or(Lacks::probe());
        match Self::load_exactly(lacks, marks) {
            // Only the verifier knows whether it lets this kind of program look for a process.
            Err(Error::Load { errno, log, source }) if !lacks.task_by_number => {
                let without = Lacks { task_by_number: true, ..lacks };
                // If that isn't it, the first refusal is the one to tell.
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
                    operation: "set the size",
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
        // The links and descriptors hold what is needed of the object.
        Ok(programs)
    }

    /// Attaches the program that refuses, at the security hook, and says so in the settings. Whether the kernel calls it
    /// is another question: an exec of the caller's own must show it.
    ///
    /// # Errors
    /// If the kernel refuses programs there: [`crate::support::absence`] says whether that is to be expected.
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

    /// Takes the program away from the security hook: what would be refused is killed.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn leave_hook(&mut self) -> Result<(), Error> {
        self.change(|settings| settings.lsm = false)?;
        self.links.retain(|(name, _)| name != AT_HOOK);
        Ok(())
    }

    /// Pins maps, links and what orders need, so that all stays in force when this process ends, however it ends.
    ///
    /// # Errors
    /// If one can't be pinned: then none is.
    pub fn pin(&mut self, pins: &Pins) -> Result<(), Error> {
        pins.prepare()?;
        let result = self.pin_all(pins);
        if result.is_err() {
            // The first error is the one to tell.
            let _ = pins.clear();
        }
        result
    }

    fn pin_all(&mut self, pins: &Pins) -> Result<(), Error> {
        for (name, link) in &mut self.links {
            let path = pins.link(name);
            link.pin(&path).map_err(|source| Error::Pin { operation: "pin to", path, source })?;
        }
        let search = self.search.as_ref().map(|search| (SEARCH, search));
        for (name, program) in [(ORDER, &self.order), (CALL, &self.call)].into_iter().chain(search) {
            let path = pins.program(name);
            order::pin(program.as_fd(), &path).map_err(|source| Error::File {
                operation: "pin to",
                path,
                source,
            })?;
        }
        for (name, map) in &mut self.maps {
            let path = pins.map(name);
            map.pin(&path).map_err(|source| Error::Pin { operation: "pin to", path, source })?;
        }
        Ok(())
    }

    /// Opens what another process pinned; `None` if there is nothing.
    ///
    /// # Errors
    /// If a pin is missing or of another version: [`Pins::clear`], then load anew.
    pub fn open(pins: &Pins) -> Result<Option<Self>, Error> {
        if !pins.exist() {
            return Ok(None);
        }
        let mut maps = Vec::new();
        for name in MAPS {
            let path = pins.map(name);
            let map = MapHandle::from_pinned_path(&path).map_err(|source| Error::Pin {
                operation: "open the pin",
                path,
                source,
            })?;
            maps.push((name, map));
        }
        let program = |name: &str| {
            let path = pins.program(name);
            Program::fd_from_pinned_path(&path).map_err(|source| Error::Pin {
                operation: "open the pin",
                path,
                source,
            })
        };
        let mut links = Vec::new();
        for path in pins.links()? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.trim_start_matches("link-").to_owned();
            let link =
                Link::open(&path).map_err(|source| Error::Pin { operation: "open the pin", path, source })?;
            links.push((name, link));
        }
        let (order, call) = (program(ORDER)?, program(CALL)?);
        let (watching, loaded) = (Mutex::default(), Vec::new());
        let mut programs =
            Self { maps, order, call, search: None, lacks: Lacks::default(), watching, links, loaded };
        let found = programs.read("settings", &[0; 4])?.ok_or(Error::Missing("settings"))?;
        programs.lacks = layout::decode_lacks(&found);
        if programs.lacks.task_by_number {
            programs.search = Some(program(SEARCH)?);
        }
        layout::decode_settings(&found).map_err(|found| Error::Layout {
            directory: pins.directory().to_owned(),
            found,
            wanted: LAYOUT,
        })?;
        match PROGRAMS.iter().find(|program| !programs.links.iter().any(|(name, _)| name == *program)) {
            Some(program) => Err(Error::Unattached { program }),
            None => Ok(Some(programs)),
        }
    }

    /// Stops finding marks and removes everything: links, pins, maps.
    ///
    /// # Errors
    /// If the depth can't be set or a pin can't be removed.
    pub fn clear(self, pins: &Pins) -> Result<(), Error> {
        self.retire(pins)
    }

    /// [`Self::clear`], where others still hold them: they find nothing any more, and go with the last who holds them.
    ///
    /// # Errors
    /// If the depth can't be set or a pin can't be removed.
    pub fn retire(&self, pins: &Pins) -> Result<(), Error> {
        // The kernel detaches in its own time; nothing is found from here on.
        self.change(|settings| settings.depth = Depth::Off)?;
        pins.clear().map(|_| ())
    }

    /// What they go without.
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

    /// Opens a scope: one without processes. Its slot, the number modulo [`SCOPES`], must be free. One caller at a time.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn open_scope(&self, scope: &Scope) -> Result<(), Error> {
        if self.scope(scope.id)?.is_none() {
            self.count_open(1)?;
        }
        self.write("scopes", &slot(scope.id), &layout::encode_scope(scope))
    }

    /// The scope that has the slot of `id`, whichever it is.
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

    /// Forgets a scope: its marks mean nothing from now on, and aren't inherited.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn close_scope(&self, id: u32) -> Result<(), Error> {
        let open = self.scope(id)?.is_some();
        self.write("scopes", &slot(id), &layout::encode_scope(&Scope::default()))?;
        if open { self.count_open(-1) } else { Ok(()) }
    }

    /// How many are open, by which programs know that nobody has to be looked for. Counted before there is one more and after
    /// there is one less: whoever ends in between leaves a number that is too large.
    fn count_open(&self, more: i32) -> Result<(), Error> {
        let before = self.read("settings", &layout::OPEN)?.ok_or(Error::Missing("settings"))?;
        let open = layout::decode_open(&before).saturating_add_signed(more);
        self.write("settings", &layout::OPEN, &layout::encode_cell([open, 0]))
    }

    /// Marks a process, by its number in the first process namespace. Whoever holds a descriptor of the process and finds
    /// it alive afterwards knows that it was this one; otherwise [`Self::unmark`]. `armed`: the next exec is judged;
    /// otherwise it is the launch, which happens whatever the verdict. One order at a time.
    ///
    /// # Errors
    /// If the program can't be run.
    pub fn mark(&self, process: u32, scope: u32, armed: bool) -> Result<Outcome, Error> {
        self.order(0, [0, process, scope, u32::from(armed)])
    }

    /// Takes a process's mark away. One order at a time.
    ///
    /// # Errors
    /// If the program can't be run.
    pub fn unmark(&self, process: u32) -> Result<Outcome, Error> {
        self.order(0, [1, process, 0, 0])
    }

    /// Sets what becomes of execs in a scope from now on.
    ///
    /// # Errors
    /// If the program can't be run.
    pub fn judge(&self, scope: u32, verdict: Verdict) -> Result<Outcome, Error> {
        self.order(0, [3, 0, scope, verdict as u32])
    }

    fn ask(&self, born: u64, words: [u32; 4]) -> Result<u32, Error> {
        let failed = |source| Error::Run { program: ORDER, source };
        let answer = order::run(self.order.as_fd(), &layout::encode_order(born, words)).map_err(failed)?;
        match &self.search {
            Some(search) if answer == layout::BY_SEARCH => self.search(search.as_fd(), words),
            _ => Ok(answer),
        }
    }

    /// An order of which the kernel finds the process only by going through all.
    fn search(&self, search: BorrowedFd<'_>, words: [u32; 4]) -> Result<u32, Error> {
        self.write("request", &[0; 4], &layout::encode_request(words))?;
        order::go_through(search).map_err(|source| Error::Run { program: SEARCH, source })?;
        let request = self.read("request", &[0; 4])?.ok_or(Error::Missing("request"))?;
        layout::decode_answer(&request).ok_or(Error::Missing("request"))
    }

    fn order(&self, born: u64, words: [u32; 4]) -> Result<Outcome, Error> {
        let failed = |source| Error::Run { program: ORDER, source };
        outcome(self.ask(born, words)?).map_err(failed)
    }

    /// Every live process that is marked in the table, and its scope; what is left of dead ones and of scopes that were closed
    /// is swept out. One caller at a time, and no order meanwhile.
    ///
    /// A scope is empty only if its [`Scope::ever`] is the same before and after, and `beyond` is 0: marks in tasks'
    /// storage aren't found here.
    ///
    /// # Errors
    /// If the table can't be read.
    pub fn sweep(&self) -> Result<Vec<(u32, u32)>, Error> {
        let map = self.map("marks")?;
        let failed = |source| Error::Run { program: "marks", source };
        let mut live = Vec::new();
        for mark in Table::map(map.as_fd(), map.max_entries()).map_err(failed)?.marks() {
            if lives(mark.process) && self.scope_of(mark.process)? == Some(mark.scope) {
                live.push((mark.process, mark.scope));
            } else {
                // A number that was used again meanwhile began at another time.
                self.order(mark.born, [2, mark.process, 0, 0])?;
            }
        }
        Ok(live)
    }

    /// The scope whose mark a process has, if that scope is still open.
    ///
    /// # Errors
    /// If the program can't be run.
    pub fn scope_of(&self, process: u32) -> Result<Option<u32>, Error> {
        Ok(Some(self.ask(0, [4, process, 0, 0])?).filter(|id| *id != 0))
    }

    /// Makes a control group a scope's, by the group's number.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn mark_group(&self, group: u64, scope: u32) -> Result<(), Error> {
        self.write("groups", &group.to_ne_bytes(), &scope.to_ne_bytes())
    }

    /// A control group is no scope's any more.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn unmark_group(&self, group: u64) -> Result<(), Error> {
        self.remove("groups", &group.to_ne_bytes())
    }

    /// Denies a file, by its file system's major and minor number and its own.
    ///
    /// # Errors
    /// If the map can't be written: 65,536 are the most.
    pub fn deny_file(&self, device: (u32, u32), inode: u64) -> Result<(), Error> {
        self.write("denied_files", &layout::encode_place(device, inode), &[0; 4])
    }

    /// Denies a name of at most 63 bytes without a slash; others aren't taken (`false`).
    ///
    /// # Errors
    /// If the map can't be written: 65,536 are the most.
    pub fn deny_name(&self, name: &[u8]) -> Result<bool, Error> {
        let Some(key) = layout::encode_name(name) else { return Ok(false) };
        self.write("denied_names", &key, &[0; 4]).map(|()| true)
    }

    /// Whether a name can be denied.
    #[must_use]
    pub fn fits(name: &[u8]) -> bool {
        layout::encode_name(name).is_some()
    }

    /// Denies these files and names, and no others any more. In between nothing is allowed that is denied before and after,
    /// unless the table has no room for both.
    ///
    /// # Errors
    /// If a map can't be written: 65,536 are the most.
    pub fn deny_only<'n>(
        &self,
        files: &[((u32, u32), u64)],
        names: impl Iterator<Item = &'n [u8]>,
    ) -> Result<(), Error> {
        let files = files.iter().map(|(device, inode)| layout::encode_place(*device, *inode)).collect();
        let names = names.filter_map(layout::encode_name).map(Vec::from).collect();
        self.replace("denied_files", &files)?;
        self.replace("denied_names", &names)
    }

    fn replace(&self, name: &'static str, wanted: &BTreeSet<Vec<u8>>) -> Result<(), Error> {
        let write = || wanted.iter().try_for_each(|key| self.write(name, key, &[0; 4]));
        let full = write().is_err();
        let others: Vec<Vec<u8>> = self.map(name)?.keys().filter(|key| !wanted.contains(key)).collect();
        for key in others {
            self.remove(name, &key)?;
        }
        if full { write() } else { Ok(()) }
    }

    /// Reports a system call, if its first argument is a bit of `arguments`; with [`ANY_ARGUMENT`] whatever that is; with 0
    /// no more.
    ///
    /// # Errors
    /// If the map can't be written: numbers are below 512.
    pub fn watch_call(&self, number: u32, arguments: u64) -> Result<(), Error> {
        self.write("rare", &number.to_ne_bytes(), &arguments.to_ne_bytes())
    }

    /// Watches for rare calls, or stops that. While it does, every system call of the host takes a little longer. It ends
    /// with this process.
    ///
    /// # Errors
    /// If the program can't be attached.
    pub fn watch_calls(&self, watch: bool) -> Result<(), Error> {
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        if !watch {
            *watching = None;
        } else if watching.is_none() {
            let link =
                order::attach(self.call.as_fd()).map_err(|source| Error::Run { program: CALL, source })?;
            *watching = Some(link);
        }
        Ok(())
    }

    /// What happened so far.
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

    /// Forgets what happened so far, and what was not yet told of it.
    ///
    /// # Errors
    /// If a map can't be read or written.
    pub fn forget(&self) -> Result<(), Error> {
        let failed = |source| Error::Map { operation: "forget", map: "totals", source };
        let map = self.map("totals")?;
        if let Some(values) = map.lookup_percpu(&[0; 4], MapFlags::ANY).map_err(failed)? {
            let nothing: Vec<Vec<u8>> = values.iter().map(|value| vec![0; value.len()]).collect();
            map.update_percpu(&[0; 4], &nothing, MapFlags::ANY).map_err(failed)?;
        }
        if self.lacks.ring_buffer { Ok(()) } else { self.events(drop)?.drain() }
    }

    /// Programs that this process loaded, for the kernel's run-time statistics (`bpf_stats_enabled`).
    pub fn loaded(&self) -> impl Iterator<Item = (&'static str, BorrowedFd<'_>)> {
        self.loaded.iter().map(|(name, program)| (*name, program.as_fd()))
    }

    /// The maps, for what the kernel says of their size.
    pub fn tables(&self) -> impl Iterator<Item = (&'static str, BorrowedFd<'_>)> {
        self.maps.iter().map(|(name, map)| (*name, map.as_fd()))
    }

    /// Hands every event to `callback` when polled. One reader at a time.
    ///
    /// # Errors
    /// If the buffer can't be mapped, or there is none ([`Lacks::ring_buffer`]).
    pub fn events<'a>(
        &'a self,
        mut callback: impl FnMut(Event) + 'a,
    ) -> Result<crate::guard::Events<'a>, Error> {
        let failed = |source| Error::Map { operation: "listen", map: "events", source };
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

    /// That it isn't there is no error.
    fn remove(&self, name: &'static str, key: &[u8]) -> Result<(), Error> {
        match self.map(name)?.delete(key) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(Error::Map { operation: "remove", map: name, source: error })
            }
            _ => Ok(()),
        }
    }
}

/// Says in an object what the kernel lacks, and has maps of a kind that it does know where it lacks theirs: nothing that
/// is reached uses them.
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
            // Constants; there is but one.
            name if name.ends_with(".rodata") => {
                map.set_initial_value(&lacks.bits().to_ne_bytes()).map_err(|e| ("constants", e))
            }
            _ => Ok(()),
        };
        changed.map_err(|(map, source)| Error::Map { operation: "set what is lacking", map, source })?;
    }
    Ok(())
}

/// What a program answers.
fn outcome(answer: u32) -> io::Result<Outcome> {
    Ok(match answer {
        0 => Outcome::Done,
        1 => Outcome::Already,
        2 => Outcome::Full,
        3 => Outcome::NoScope,
        4 => Outcome::Taken,
        layout::NO_PROCESS => Outcome::NoProcess,
        other => return Err(io::Error::other(format!("it answers {other}"))),
    })
}

/// Whether there is a process of that number; one that has ended and wasn't waited for is none.
fn lives(process: u32) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return false };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => {
            let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            matches!(poll(&mut fds, Some(&now)), Ok(0))
        }
        Err(error) => error != rustix::io::Errno::SRCH,
    }
}

fn slot(id: u32) -> [u8; 4] {
    (id % SCOPES).to_ne_bytes()
}

fn handle(object: &Object, name: &'static str) -> Result<MapHandle, Error> {
    let map = object.maps().find(|map| map.name() == name).ok_or(Error::Missing(name))?;
    MapHandle::try_from(&map).map_err(|source| Error::Map { operation: "open", map: name, source })
}
