// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads, attaches and pins the guard's programs, and accesses their maps.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use libbpf_rs::btf::types::{Func, FuncProto};
use libbpf_rs::{Btf, Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, PrintLevel, ReferencesType};

use crate::class::{Access, CLASSES, Matrix, Mode, ObjectClass, SubjectClass};
use crate::error::{Error, errno};
use crate::event::Event;
use crate::layout::{self, LAYOUT, Settings};
use crate::pins::Pins;

/// Clang's output for `programs/guard.bpf.c`.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guard.bpf.o"));

/// The programs, in the order in which they are attached: first those that remove classes, then those that rely on classes. Of
/// the programs in one line, the kernel accepts one.
const PROGRAMS: &[&[&str]] = &[
    &["palisade_open"],
    &["palisade_attr_2", "palisade_attr_3"],
    &["palisade_xattr"],
    &["palisade_unxattr"],
    &["palisade_fork"],
    &["palisade_became"],
    &["palisade_exec"],
    &["palisade_map"],
    &["palisade_protect"],
];

/// Whether the classes given so far stay valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classes {
    /// Class numbers keep their meaning, so classes stay valid.
    Keep,
    /// Every class given so far, to files and tasks, becomes invalid.
    Invalidate,
}

/// The guard's programs and their maps: loaded, attached, or found pinned.
///
/// Nothing is judged before the mode is set. When this is dropped, the programs end, unless they are pinned.
#[derive(Debug)]
pub struct GuardPrograms {
    settings: MapHandle,
    tables: MapHandle,
    counters: MapHandle,
    losses: MapHandle,
    events: MapHandle,
    subjects: MapHandle,
    objects: MapHandle,
    spared: MapHandle,
    /// The object until the programs are attached; afterwards the links hold the programs.
    object: Option<Object>,
    links: Vec<(String, Link)>,
    /// Device and inode of the files that are being classified.
    pub(crate) reading: (Mutex<BTreeSet<(u64, u64)>>, Condvar),
}

impl GuardPrograms {
    /// Lets the kernel verify and load the programs. Nothing is attached yet.
    ///
    /// # Errors
    /// If the kernel has no types, lacks a hook, or refuses. [`crate::support::probe`] tells which of these are expected.
    pub fn load() -> Result<Self, Error> {
        let kernel = Btf::from_vmlinux().map_err(Error::Btf)?;
        let setattr = parameters(&kernel, "bpf_lsm_inode_setattr").ok_or(Error::Hook("inode_setattr"))?;
        let unfit = if setattr > 2 { "palisade_attr_2" } else { "palisade_attr_3" };
        let mut opened = ObjectBuilder::default().open_memory(OBJECT).map_err(Error::Open)?;
        for mut program in opened.progs_mut() {
            if program.name() == unfit {
                program.set_autoload(false);
            }
        }
        let object = listening(|| opened.load())?;
        let find = |name: &'static str| {
            let map = object.maps().find(|map| map.name() == name).ok_or(Error::Missing(name))?;
            MapHandle::try_from(&map).map_err(|source| Error::Map { operation: "open", map: name, source })
        };
        let programs = Self {
            settings: find("settings")?,
            tables: find("tables")?,
            counters: find("counters")?,
            losses: find("losses")?,
            events: find("events")?,
            subjects: find("subjects")?,
            objects: find("objects")?,
            spared: find("spared")?,
            object: Some(object),
            links: Vec::new(),
            reading: Default::default(),
        };
        programs.write("settings", &programs.settings, &[0; 4], &Settings::FIRST.encode())?;
        programs.set_matrix(&Matrix::default(), Classes::Keep)?;
        Ok(programs)
    }

    /// Attaches the programs. Attached programs stay attached.
    ///
    /// # Errors
    /// If one program can't be attached; then none is. Success doesn't prove that the kernel calls them: use [`Self::prove`].
    pub fn attach(&mut self) -> Result<(), Error> {
        let Some(object) = &self.object else { return Ok(()) };
        let mut links = Vec::new();
        for either in PROGRAMS {
            let mut loaded = object.progs_mut().filter(|program| program.autoload());
            let Some(program) = loaded.find(|program| either.iter().any(|name| program.name() == *name))
            else {
                return Err(Error::Unattached { program: either[0] });
            };
            let name = program.name().to_string_lossy().into_owned();
            let link =
                program.attach_lsm().map_err(|source| Error::Attach { program: name.clone(), source })?;
            links.push((name, link));
        }
        self.links = links;
        // The links hold the programs.
        self.object = None;
        Ok(())
    }

    /// Pins maps and links, so that they stay in force when this process ends for any reason.
    ///
    /// # Errors
    /// If the programs aren't attached, or something can't be pinned; then nothing is.
    pub fn pin(&mut self, pins: &Pins) -> Result<(), Error> {
        self.complete()?;
        pins.all_or_none(|| self.pin_all(pins))
    }

    fn pin_all(&mut self, pins: &Pins) -> Result<(), Error> {
        let failed = |path: &std::path::Path, source| Error::Pin {
            operation: "pin to",
            path: path.to_owned(),
            source,
        };
        for (name, map) in self.maps_mut() {
            let path = pins.map(name);
            map.pin(&path).map_err(|source| failed(&path, source))?;
        }
        for (program, link) in &mut self.links {
            let path = pins.link(program);
            link.pin(&path).map_err(|source| failed(&path, source))?;
        }
        Ok(())
    }

    /// Opens what another process pinned; `None` if nothing is pinned.
    ///
    /// # Errors
    /// If a pin is missing or of another version. Then use [`Pins::clear`] and load again.
    pub fn open(pins: &Pins) -> Result<Option<Self>, Error> {
        if !pins.exist() {
            return Ok(None);
        }
        let find = |name: &str| {
            let path = pins.map(name);
            MapHandle::from_pinned_path(&path).map_err(|source| Error::Pin {
                operation: "open the pin",
                path,
                source,
            })
        };
        let mut links = Vec::new();
        for path in pins.links()? {
            let name =
                path.file_name().unwrap_or_default().to_string_lossy().trim_start_matches("link-").to_owned();
            let link =
                Link::open(&path).map_err(|source| Error::Pin { operation: "open the pin", path, source })?;
            links.push((name, link));
        }
        let programs = Self {
            settings: find("settings")?,
            tables: find("tables")?,
            counters: find("counters")?,
            losses: find("losses")?,
            events: find("events")?,
            subjects: find("subjects")?,
            objects: find("objects")?,
            spared: find("spared")?,
            object: None,
            links,
            reading: Default::default(),
        };
        let found = programs.read("settings", &programs.settings, &[0; 4])?;
        Settings::decode(&found).map_err(|found| Error::Layout {
            directory: pins.directory().to_owned(),
            found,
            wanted: LAYOUT,
        })?;
        programs.complete()?;
        Ok(Some(programs))
    }

    /// Checks that every program is attached.
    fn complete(&self) -> Result<(), Error> {
        let missing = PROGRAMS.iter().find(|either| !self.attached().any(|name| either.contains(&name)));
        missing.map_or(Ok(()), |either| Err(Error::Unattached { program: either[0] }))
    }

    /// Stops judging and removes everything: links, pins, maps.
    ///
    /// # Errors
    /// If the mode can't be set or a pin can't be removed.
    pub fn clear(self, pins: &Pins) -> Result<(), Error> {
        // The kernel detaches the programs some time later; from here on they refuse nothing.
        self.set_mode(Mode::Off)?;
        drop(self);
        pins.clear().map(|_| ())
    }

    /// Names of the attached programs.
    pub fn attached(&self) -> impl Iterator<Item = &str> {
        self.links.iter().map(|(name, _)| name.as_str())
    }

    /// Sets what happens to refused accesses from now on.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn set_mode(&self, mode: Mode) -> Result<(), Error> {
        self.change(|settings| settings.mode = mode)
    }

    /// The mode in force.
    ///
    /// # Errors
    /// If the map can't be read.
    pub fn mode(&self) -> Result<Mode, Error> {
        Ok(self.current()?.mode)
    }

    /// Sets whether allowed accesses are reported too. This is for diagnosis, not for normal operation.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn report_allowed(&self, report: bool) -> Result<(), Error> {
        self.change(|settings| settings.report_allowed = report)
    }

    /// Puts another matrix in force, at once and as a whole. Only one process at a time may call this.
    ///
    /// # Errors
    /// If a map can't be written; then the present matrix stays in force.
    pub fn set_matrix(&self, matrix: &Matrix, classes: Classes) -> Result<(), Error> {
        let next = self.current()?.active ^ 1;
        self.write("tables", &self.tables, &u32::from(next).to_ne_bytes(), &layout::encode_matrix(matrix))?;
        self.change(|settings| {
            settings.active = next;
            if classes == Classes::Invalidate {
                settings.generation = settings.generation.wrapping_add(1);
                settings.grace_until = 0;
            }
        })
    }

    /// Makes every class given so far invalid.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn invalidate(&self) -> Result<(), Error> {
        self.change(|settings| {
            settings.generation = settings.generation.wrapping_add(1);
            settings.grace_until = 0;
        })
    }

    /// As [`Self::invalidate`], but the present classes of files stay valid for the time `grace`. Use this if every open is asked
    /// about anyway: then a file that was opened before and is mapped afterwards isn't refused. In whole seconds.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn invalidate_after(&self, grace: Duration) -> Result<(), Error> {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime).tv_sec;
        let now = u32::try_from(now).unwrap_or(u32::MAX);
        let seconds = u32::try_from(grace.as_secs()).unwrap_or(u32::MAX);
        self.change(|settings| {
            if settings.grace_until <= now {
                settings.grace_from = settings.generation;
            }
            settings.grace_until = now.saturating_add(seconds);
            settings.generation = settings.generation.wrapping_add(1);
        })
    }

    /// Shortens the grace time that [`Self::invalidate_after`] set: earlier classes stay valid for `grace` from now at most. In
    /// whole seconds.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn end_grace(&self, grace: Duration) -> Result<(), Error> {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime).tv_sec;
        let now = u32::try_from(now).unwrap_or(u32::MAX);
        let end = now.saturating_add(u32::try_from(grace.as_secs()).unwrap_or(u32::MAX));
        self.change(|settings| settings.grace_until = settings.grace_until.min(end))
    }

    /// Files without class on these file systems, and on no others, are [`ObjectClass::SPARED`]. Takes major and minor numbers.
    ///
    /// # Errors
    /// If the map can't be written, or there are more than 1,024 file systems.
    pub fn spare(&self, devices: &BTreeSet<(u32, u32)>) -> Result<(), Error> {
        let wanted: BTreeSet<Vec<u8>> =
            devices.iter().map(|(major, minor)| (major << 20 | minor).to_ne_bytes().to_vec()).collect();
        let gone: Vec<Vec<u8>> = self.spared.keys().filter(|key| !wanted.contains(key)).collect();
        for key in gone {
            self.spared.delete(&key).map_err(|source| Error::Map {
                operation: "remove an entry of",
                map: "spared",
                source,
            })?;
        }
        for key in &wanted {
            self.write("spared", &self.spared, key, &1u32.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Gives a task a class, by a descriptor of its process. Its children inherit the class; its other threads don't.
    ///
    /// # Errors
    /// If the map can't be written.
    pub fn classify_task(&self, pidfd: BorrowedFd<'_>, class: SubjectClass) -> Result<(), Error> {
        let record = layout::encode_record(class.number(), self.current()?.generation, true);
        self.write("subjects", &self.subjects, &pidfd.as_raw_fd().to_ne_bytes(), &record)
    }

    /// Exempts this process. Call this before any thread starts, because threads inherit it.
    ///
    /// # Errors
    /// If the process has no descriptor or the map can't be written.
    pub fn exempt_this_process(&self) -> Result<(), Error> {
        let pidfd =
            rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty())
                .map_err(|error| Error::Task { task: std::process::id(), source: error.into() })?;
        self.classify_task(pidfd.as_fd(), SubjectClass::EXEMPT)
    }

    /// How often `access` to files of `class` was allowed and refused since loading.
    ///
    /// # Errors
    /// If the map can't be read.
    pub fn counts(&self, access: Access, class: ObjectClass) -> Result<(u64, u64), Error> {
        #[expect(clippy::cast_possible_truncation, reason = "128 cells")]
        let cell = (access as usize * CLASSES + usize::from(class.number())) as u32;
        let values = self.read_each("counters", &self.counters, cell)?;
        Ok(values
            .iter()
            .map(|value| layout::decode_counts(value))
            .fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1)))
    }

    /// How many events found no room since loading.
    ///
    /// # Errors
    /// If the map can't be read.
    pub fn losses(&self) -> Result<u64, Error> {
        let values = self.read_each("losses", &self.losses, 0)?;
        Ok(values.iter().map(|value| layout::decode_count(value)).sum())
    }

    /// Passes every event to `callback` when polled. One reader at a time.
    ///
    /// # Errors
    /// If the buffer can't be mapped.
    pub fn events<'a>(&'a self, mut callback: impl FnMut(Event) + 'a) -> Result<Events<'a>, Error> {
        let failed = |source| Error::Map { operation: "listen to", map: "events", source };
        let mut builder = libbpf_rs::RingBufferBuilder::new();
        builder
            .add(&self.events, move |bytes: &[u8]| {
                if let Some(event) = layout::decode_event(bytes) {
                    callback(event);
                }
                0
            })
            .map_err(failed)?;
        Ok(Events { buffer: builder.build().map_err(failed)? })
    }

    pub(crate) fn objects(&self) -> &MapHandle {
        &self.objects
    }

    pub(crate) fn current(&self) -> Result<Settings, Error> {
        let bytes = self.read("settings", &self.settings, &[0; 4])?;
        Settings::decode(&bytes).map_err(|found| Error::Layout {
            directory: Pins::default().directory().to_owned(),
            found,
            wanted: LAYOUT,
        })
    }

    fn change(&self, change: impl FnOnce(&mut Settings)) -> Result<(), Error> {
        let mut settings = self.current()?;
        change(&mut settings);
        self.write("settings", &self.settings, &[0; 4], &settings.encode())
    }

    fn maps_mut(&mut self) -> [(&'static str, &mut MapHandle); 8] {
        [
            ("tables", &mut self.tables),
            ("counters", &mut self.counters),
            ("losses", &mut self.losses),
            ("events", &mut self.events),
            ("subjects", &mut self.subjects),
            ("objects", &mut self.objects),
            ("spared", &mut self.spared),
            // last: its pin says that all others are there
            ("settings", &mut self.settings),
        ]
    }

    fn read(&self, name: &'static str, map: &MapHandle, key: &[u8]) -> Result<Vec<u8>, Error> {
        map.lookup(key, MapFlags::ANY)
            .map_err(|source| Error::Map { operation: "read", map: name, source })?
            .ok_or(Error::Missing(name))
    }

    fn read_each(&self, name: &'static str, map: &MapHandle, cell: u32) -> Result<Vec<Vec<u8>>, Error> {
        map.lookup_percpu(&cell.to_ne_bytes(), MapFlags::ANY)
            .map_err(|source| Error::Map { operation: "read", map: name, source })?
            .ok_or(Error::Missing(name))
    }

    fn write(&self, name: &'static str, map: &MapHandle, key: &[u8], value: &[u8]) -> Result<(), Error> {
        map.update(key, value, MapFlags::ANY).map_err(|source| Error::Map {
            operation: "write",
            map: name,
            source,
        })
    }
}

/// The events, which are read while the caller polls.
#[derive(Debug)]
pub struct Events<'a> {
    buffer: libbpf_rs::RingBuffer<'a>,
}

impl<'a> Events<'a> {
    /// The events of a buffer that has a reader.
    pub(crate) fn of(buffer: libbpf_rs::RingBuffer<'a>) -> Self {
        Self { buffer }
    }

    /// Waits up to `timeout` for events, and passes on those that are there.
    ///
    /// # Errors
    /// If the wait fails.
    pub fn poll(&self, timeout: Duration) -> Result<(), Error> {
        self.buffer.poll(timeout).map_err(|source| Error::Map { operation: "poll", map: "events", source })
    }

    /// Passes on the events that are there, without waiting.
    ///
    /// # Errors
    /// If the buffer can't be read.
    pub fn drain(&self) -> Result<(), Error> {
        self.buffer.consume().map_err(|source| Error::Map { operation: "read", map: "events", source })
    }
}

/// How many parameters the kernel's function has.
fn parameters(kernel: &Btf<'_>, function: &str) -> Option<usize> {
    let function: Func<'_> = kernel.type_by_name(function)?;
    let prototype: FuncProto<'_> = kernel.type_by_id(function.referenced_type_id())?;
    Some(prototype.iter().count())
}

/// Messages of libbpf while loading: a process has only one place for them.
static LOG: Mutex<String> = Mutex::new(String::new());

/// Only the verifier's last messages matter; all of them can be a megabyte.
const LOG_KEPT: usize = 4096;

pub(crate) fn listening(load: impl FnOnce() -> Result<Object, libbpf_rs::Error>) -> Result<Object, Error> {
    fn keep(_level: PrintLevel, text: String) {
        let mut log = LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        log.push_str(&text);
        let mut excess = log.len().saturating_sub(LOG_KEPT);
        while !log.is_char_boundary(excess) {
            excess += 1;
        }
        log.drain(..excess);
    }
    LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
    let before = libbpf_rs::set_print(Some((PrintLevel::Warn, keep)));
    let result = load();
    libbpf_rs::set_print(before);
    result.map_err(|source| Error::Load {
        errno: errno(&source),
        log: std::mem::take(&mut LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner)),
        source,
    })
}
