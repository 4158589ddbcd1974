// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps the trust database up to date: when package lists or trust files change, and on request.
//!
//! While a package manager works, the packages' own scripts execute files that were just unpacked. So a refusal of an untrusted
//! file waits until the changed lists are read ([`TrustUpdater::settle`]).

use crate::alarms::Trouble;
use crate::guard::Guard;
use crate::loader::{Loader, Order};
use crate::saying::say;
use palisade_guard::settings::{TrustFrom, TrustSettings};
use palisade_guard::trust::edit::TrustFiles;
use palisade_guard::trust::entry::{Record, Source};
use palisade_guard::trust::import::{Event, judge_unreadable};
use palisade_guard::trust::store::{self, Location, MANY_CHANGES, Store, Writer};
use palisade_guard::trust::{build, edit, loader};
use palisade_guard::trusted::{Trusted, Vouched};
use palisade_guard::watch::engine::Engine;
use palisade_text::Show as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Where dpkg keeps a list and the MD5s of each package.
const DPKG_INFO: &str = "/var/lib/dpkg/info";
/// Where rpm keeps its database; older distributions use the second path.
const RPM: &str = "/usr/lib/sysimage/rpm";
const RPM_BEFORE: &str = "/var/lib/rpm";
/// Changes come in bursts: they are read after this time without another change.
const QUIET: Duration = Duration::from_millis(30);
/// The most packages that are read one by one; if more have changed, all are read.
const SOME: usize = 500;
/// How long a refusal waits for what is being read. On a busy machine every package may have to be read; without this wait a
/// package's own script would fail, and the package with it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The same for the administrator's trust files.
const FILES_PATIENCE: Duration = Duration::from_secs(1);
/// Refusals don't wait for trust files larger than this, in bytes. It is some ten thousand lines, which are read quickly.
const MUCH: u64 = 4 << 20;
/// The longest that a request waits for the database.
const MOST_PATIENCE: Duration = Duration::from_secs(600);

/// Why the trust database isn't up to date.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeeperError {
    /// The database can't be opened or read.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The database can't be written.
    #[error(transparent)]
    Build(#[from] build::Error),
    /// The trust files can't be read.
    #[error(transparent)]
    Files(#[from] edit::Error),
    /// The loader reports an error.
    #[error(transparent)]
    Loader(#[from] loader::Error),
    /// The loader can't be started.
    #[error("can't start the loader: {0}")]
    Start(#[source] io::Error),
    /// The filter can't be read.
    #[error("can't read {}: {source}", path.shown())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The directory can't be made.
    #[error("can't make {}: {source}", path.shown())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The work that is waiting.
#[derive(Debug, Default)]
struct Todo {
    /// Read everything.
    all: bool,
    /// With `all`: hash also what seems unchanged.
    everything: bool,
    /// The trust files may have changed.
    files: bool,
    /// These packages have changed.
    packages: BTreeSet<Vec<u8>>,
    /// Some earlier work is being done.
    busy: bool,
    /// The work that is being done may concern packages.
    busy_with_packages: bool,
    /// When it became known that trust files may have changed, until they are read. Empty if the files are large.
    files_since: Option<Instant>,
}

impl Todo {
    fn is_idle(&self) -> bool {
        !self.all && !self.files && self.packages.is_empty() && !self.busy
    }

    /// Whether packages may have brought files that aren't known yet.
    fn may_be_of_packages(&self) -> bool {
        self.all || !self.packages.is_empty() || self.busy && self.busy_with_packages
    }

    /// Whether refusals wait: for packages, and for a moment for new trust files, however long reading them takes.
    fn holds_refusals(&self) -> bool {
        self.may_be_of_packages() || self.files_since.is_some_and(|since| since.elapsed() < FILES_PATIENCE)
    }

    fn files_changed(&mut self, are_large: bool) {
        self.files = true;
        if are_large {
            self.files_since = None;
        } else {
            self.files_since.get_or_insert_with(Instant::now);
        }
    }

    /// Takes all the work, for the thread that does it. What arrives from then on is new work.
    fn take(&mut self) -> Self {
        let next = Self {
            busy: !self.is_idle(),
            busy_with_packages: self.may_be_of_packages(),
            files_since: self.files_since,
            ..Self::default()
        };
        std::mem::replace(self, next)
    }

    fn is_done(&mut self) {
        self.busy = false;
        if !self.files {
            self.files_since = None;
        }
    }
}

/// Keeps the trust database up to date.
#[derive(Debug)]
pub(crate) struct TrustUpdater {
    config: PathBuf,
    location: Location,
    directory: PathBuf,
    changes: Option<OwnedFd>,
    /// Notified when there is work.
    came: Condvar,
    /// How often the kernel has reported changes.
    heard: AtomicU64,
    vouched: Arc<Vouched>,
    todo: Mutex<Todo>,
    done: Condvar,
    /// Why what was read last isn't in force.
    trouble: Mutex<Option<String>>,
}

impl TrustUpdater {
    /// The database below `state`, made from what `config` and the packages say.
    pub(crate) fn new(config: &Path, state: &Path) -> Self {
        Self {
            config: config.to_owned(),
            location: Location::new(state),
            directory: state.to_owned(),
            changes: listen(config).ok(),
            vouched: Arc::default(),
            todo: Mutex::default(),
            done: Condvar::new(),
            trouble: Mutex::default(),
            came: Condvar::new(),
            heard: AtomicU64::new(0),
        }
    }

    fn files(&self) -> TrustFiles {
        TrustFiles::new(&self.config.join("guard.trust"), &self.config.join("trust.d"))
    }

    /// Whether the trust files take long to read.
    fn are_large(&self) -> bool {
        self.files().size().is_ok_and(|size| size > MUCH)
    }

    /// Opens the database; without one nothing is trusted.
    pub(crate) fn open(&self, settings: &TrustSettings) -> Result<Trusted, KeeperError> {
        if !self.location.base().exists() {
            return Ok(Trusted::new(None, settings.integrity));
        }
        let trusted = Trusted::new(Some(Store::open(&self.location)?), settings.integrity);
        Ok(trusted.remembering(Arc::clone(&self.vouched)))
    }

    /// The database's age in seconds.
    pub(crate) fn age(&self) -> Option<u64> {
        let newest = [self.location.base(), self.location.wal()]
            .iter()
            .filter_map(|path| fs::metadata(path).ok()?.modified().ok())
            .max()?;
        Some(SystemTime::now().duration_since(newest).unwrap_or_default().as_secs())
    }

    fn todo(&self) -> std::sync::MutexGuard<'_, Todo> {
        self.todo.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called when trust files and settings may have changed.
    pub(crate) fn look_again(&self) {
        self.todo().all = true;
        self.came.notify_one();
    }

    /// Called when trust files have changed.
    pub(crate) fn read_files(&self) {
        let are_large = self.are_large();
        self.todo().files_changed(are_large);
        self.came.notify_one();
    }

    /// Makes the database again; with `everything`, hashes also what seems unchanged.
    pub(crate) fn make_anew(&self, everything: bool) {
        let mut todo = self.todo();
        todo.all = true;
        todo.everything |= everything;
        self.came.notify_one();
    }

    /// Whether changes are being read for which refusals wait.
    pub(crate) fn is_behind(&self) -> bool {
        self.todo().holds_refusals() || self.has_heard()
    }

    /// Waits while such changes are being read, but no longer than `patience`.
    pub(crate) fn settle(&self, patience: Duration) {
        self.wait(patience, Todo::holds_refusals);
    }

    /// Waits while changes that `counts` are being read, but no longer than `patience`. Returns whether all are read.
    fn wait(&self, patience: Duration, counts: impl Fn(&Todo) -> bool) -> bool {
        let until = Instant::now() + patience;
        let mut todo = self.todo();
        while counts(&todo) || self.has_heard() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let pause = left.min(Duration::from_millis(20));
            todo = self.done.wait_timeout(todo, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Waits until the present state of packages and trust files is in force, or returns why it isn't.
    pub(crate) fn sync(&self, patience: Duration) -> Result<(), String> {
        if self.changes.is_none() {
            // Changes aren't reported here, so assume that the caller knows of one.
            self.look_again();
        }
        if !self.wait(patience.min(MOST_PATIENCE), |todo| !todo.is_idle()) {
            return Err("palisaded is still reading them".into());
        }
        self.trouble().clone().map_or(Ok(()), Err)
    }

    fn trouble(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the kernel has reported a change that wasn't processed yet.
    fn has_heard(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.changes.as_ref().is_some_and(|changes| {
            matches!(poll(&mut [PollFd::new(changes, PollFlags::IN)], Some(&now)), Ok(1..))
        })
    }

    /// Keeps the database up to date until `stop`.
    pub(crate) fn keep(&self, guard: &Guard, stop: &AtomicBool) {
        if self.changes.is_none() {
            let what =
                "changes of packages can't be watched: after each, run sudo palisade guard trust rebuild";
            guard.alarms.raise(Trouble::DeafToPackages, what.into());
        }
        // Read what changed while the guard didn't run.
        self.look_again();
        while !stop.load(Ordering::Relaxed) {
            let todo = self.next();
            let settings = guard.engine.policy().settings.trust.clone();
            let result =
                self.bring_up_to_date(&guard.engine, &todo, &settings).and_then(|()| self.open(&settings));
            let trouble = match result {
                Ok(trust) => guard
                    .trust(trust)
                    .err()
                    .map(|error| format!("the trust database isn't in force: {error}")),
                Err(error) => Some(format!("the trust database isn't up to date: {error}")),
            };
            self.trouble().clone_from(&trouble);
            match trouble {
                Some(trouble) => guard.alarms.raise(Trouble::OldTrust, trouble),
                None => _ = guard.alarms.clear(Trouble::OldTrust),
            }
            palisade_sys::memory::give_back();
            self.todo().is_done();
            self.done.notify_all();
        }
    }

    /// Waits until there is work, and no more changes arrive.
    fn next(&self) -> Todo {
        let todo = self.came.wait_while(self.todo(), |todo| todo.is_idle());
        drop(todo.unwrap_or_else(PoisonError::into_inner));
        let began = Instant::now();
        loop {
            let before = self.heard.load(Ordering::Relaxed);
            std::thread::sleep(QUIET);
            if self.heard.load(Ordering::Relaxed) == before || began.elapsed() > Duration::from_secs(1) {
                return self.todo().take();
            }
        }
    }

    /// Receives reports of changes, as long as the process lives: at once, also while other changes are being read.
    pub(crate) fn hear(&self) {
        let Some(changes) = &self.changes else { return };
        let mut buffer = [std::mem::MaybeUninit::uninit(); 8192];
        loop {
            let _came = poll(&mut [PollFd::new(changes, PollFlags::IN)], None);
            // Before taking the lock: this opens directories, and the thread that answers for the host may wait for the lock.
            let are_large = self.are_large();
            // Take the lock before reading: otherwise no thread would know of a change that was read and isn't noted yet.
            let mut todo = self.todo();
            let mut reader = inotify::Reader::new(changes, &mut buffer);
            while let Ok(event) = reader.next() {
                let name = event.file_name().map(std::ffi::CStr::to_bytes).unwrap_or_default();
                let lost = event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW);
                if lost || name.starts_with(b"rpmdb.sqlite") {
                    todo.all = true;
                } else if let Some(package) = package(name) {
                    todo.packages.insert(package.to_vec());
                } else if !name.ends_with(b".lock") && !name.starts_with(b".") {
                    todo.files_changed(are_large);
                }
                if reader.is_buffer_empty() {
                    break;
                }
            }
            self.heard.fetch_add(1, Ordering::Relaxed);
            self.came.notify_one();
        }
    }

    fn bring_up_to_date(
        &self,
        engine: &Engine,
        todo: &Todo,
        settings: &TrustSettings,
    ) -> Result<(), KeeperError> {
        let made = DirBuilder::new().mode(0o750).recursive(true).create(&self.directory);
        made.map_err(|source| KeeperError::Directory { path: self.directory.clone(), source })?;
        let mut writer = Writer::lock(&self.location)?;
        let many = todo.packages.len() > SOME;
        if todo.all || many || !self.location.base().exists() {
            return self.all(engine, &mut writer, settings, todo.everything);
        }
        let mut store = Store::open(&self.location)?;
        if !todo.packages.is_empty() && settings.sources.contains(&TrustFrom::Dpkg) {
            let names: Vec<Vec<u8>> = todo.packages.iter().cloned().collect();
            let order = Order { some: names, filter: self.filter()?, ..Order::default() };
            let mut records = Vec::new();
            self.load(engine, &order, None, |record| {
                records.push(record);
                Ok(())
            })?;
            let is_of =
                |source: &Source| matches!(source, Source::Dpkg(name) if todo.packages.contains(&name[..]));
            writer.replace(&mut store, is_of, records)?;
        }
        if todo.files && settings.sources.contains(&TrustFrom::Files) {
            let mut mistakes = 0;
            writer
                .replace_files(&mut store, &self.files(), |mistake| tell_mistake(&mut mistakes, &mistake))?;
        }
        if store.changed_paths() > MANY_CHANGES {
            writer.merge()?;
        }
        Ok(())
    }

    fn all(
        &self,
        engine: &Engine,
        writer: &mut Writer,
        settings: &TrustSettings,
        everything: bool,
    ) -> Result<(), KeeperError> {
        let mut builder = writer.rebuild()?;
        if settings.sources.contains(&TrustFrom::Files) {
            let mut mistakes = 0;
            self.files().each(|read| {
                match read {
                    Ok(record) => builder.push(&record)?,
                    Err(mistake) => tell_mistake(&mut mistakes, &mistake),
                }
                Ok::<(), KeeperError>(())
            })?;
        }
        let order = Order::all(settings, self.filter()?, everything);
        let previous = File::open(self.location.base()).ok();
        if !order.is_empty() {
            self.load(engine, &order, previous, |record| Ok(builder.push(&record)?))?;
        }
        let count = writer.finish(builder)?;
        say(&format!("palisaded: {count} files are trusted"));
        Ok(())
    }

    /// Lets a loader read, and hashes the files itself that the loader may not read.
    fn load(
        &self,
        engine: &Engine,
        order: &Order,
        previous: Option<File>,
        mut each: impl FnMut(Record) -> Result<(), KeeperError>,
    ) -> Result<(), KeeperError> {
        let mut differing = 0_u64;
        let loader = Loader::start(order, previous).map_err(KeeperError::Start)?;
        let _helping = Helping::begin(engine, loader.pid());
        for event in loader {
            let event = match event? {
                Event::Unreadable { path, source, md5 } => {
                    judge_unreadable(Path::new("/"), path, source, md5)
                }
                other => other,
            };
            match event {
                Event::Trusted(record) => each(record)?,
                Event::Differs { path, .. } => {
                    differing += 1;
                    if differing <= 20 {
                        let path = OsStr::from_bytes(&path).shown().to_string();
                        say(&format!("palisaded: {path:?} differs from its package, and isn't trusted"));
                    }
                }
                Event::Unreadable { .. }
                | Event::Missing { .. }
                | Event::Undigested { .. }
                | Event::Progress(_) => {}
            }
        }
        if differing > 20 {
            say(&format!("palisaded: {} more files differ from their packages", differing - 20));
        }
        Ok(())
    }

    fn filter(&self) -> Result<Option<Vec<u8>>, KeeperError> {
        let path = self.config.join("guard-filter.conf");
        match fs::read(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(KeeperError::Read { path, source }),
        }
    }
}

/// Reports the first mistakes in trust files.
fn tell_mistake(told: &mut usize, mistake: &edit::Mistake) {
    *told += 1;
    if *told <= 20 {
        say(&format!("palisaded: {mistake}"));
    }
}

/// Makes a loader known to the engine for as long as the loader runs.
struct Helping<'a>(&'a Engine);

impl<'a> Helping<'a> {
    fn begin(engine: &'a Engine, pid: u32) -> Self {
        engine.help_from(pid);
        Self(engine)
    }
}

impl Drop for Helping<'_> {
    fn drop(&mut self) {
        self.0.help_from(0);
    }
}

/// The package that a list or MD5s file belongs to.
fn package(name: &[u8]) -> Option<&[u8]> {
    name.strip_suffix(b".list").or_else(|| name.strip_suffix(b".md5sums"))
}

fn listen(config: &Path) -> Result<OwnedFd, Errno> {
    use inotify::WatchFlags as Flags;
    let changes = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let what = Flags::MOVED_TO | Flags::MOVED_FROM | Flags::CLOSE_WRITE | Flags::DELETE | Flags::ONLYDIR;
    let mut heard = 0;
    for directory in
        [Path::new(DPKG_INFO), Path::new(RPM), Path::new(RPM_BEFORE), config, &config.join("trust.d")]
    {
        heard += usize::from(inotify::add_watch(&changes, directory, what).is_ok());
    }
    if heard > 0 { Ok(changes) } else { Err(Errno::NOENT) }
}
