// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade package`: packs an application, what it needs of this host, and its policy into one program.

use crate::package_info::Info;
use crate::progress::Bar;
use crate::run_options::{LaunchOptions, RequestError};
use crate::verb::{self, Failure, YES};
use crate::{open, output, package_menu};
use clap::{ArgMatches, Args, ValueHint};
use palisade::{Application, Request, Situation, Subject};
use palisade_package::error::{PackageError, mebibytes};
use palisade_package::manifest::{Manifest, VERSION};
use palisade_package::pack::{self, Launcher};
use palisade_package::select::{self, Selection};
use palisade_package::trailer;
use palisade_policy::View;
use palisade_sandbox::package::is_packed;
use palisade_text::Show as _;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Makes one program of an application: it runs confined by its profile, also where neither
/// Palisade nor the application is.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The profile's features and what the application needs of /usr, /etc and the like are in the
program; displays, devices, name servers and the home are those of the machine where it runs.
The application's desktop entry and its icon are in it, too.

Examples:
  palisade package chromium --output chromium.run
  ./chromium.run https://example.org
  ./chromium.run --palisade-menu             makes its menu entry for you
  ./chromium.run --palisade-help             what the program itself can be asked
  palisade package --info chromium.run       what is in it, without running it",
    mut_arg("dry_run", |arg| arg.help("Print the plan that says what would be taken along, and make nothing")),
    mut_arg("json", |arg| arg.help("Answer as JSON")))]
pub(crate) struct Options {
    /// The profile, a name or a file
    #[arg(value_name = "PROFILE", required_unless_present = "info")]
    profile: Option<OsString>,
    /// The program to make
    #[arg(long, short, value_name = "FILE", required_unless_present_any = ["info", "dry_run"], value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Package a variant of the profile
    #[arg(long, value_name = "NAME")]
    config: Option<String>,
    /// Another program than the profile's: a path or a name
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    program: Option<String>,
    /// Write over a file that is there
    #[arg(long)]
    force: bool,
    /// The static palisade to put in front, instead of this one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    launcher: Option<PathBuf>,
    /// Say what is in a package
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "output", "config", "program", "force", "launcher"], value_hint = ValueHint::FilePath)]
    info: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) launch: LaunchOptions,
}

/// Returns the exit code: 0, or 2 for an error.
pub(crate) fn run(options: &Options, matches: &ArgMatches) -> u8 {
    let json = options.launch.json;
    let answer = match (&options.info, &options.profile, &options.output) {
        (Some(file), _, _) => info(file, json),
        (None, Some(profile), _) if options.launch.dry_run => options.show(matches, profile),
        (None, Some(profile), Some(output)) => options.make(matches, profile, output),
        _ => Ok(YES),
    };
    verb::finish(json, answer)
}

#[derive(Serialize)]
struct Made {
    file: String,
    #[serde(flatten)]
    info: Info,
}

/// What a package is made of.
struct Contents {
    manifest: Manifest,
    selection: Selection,
    notes: Vec<String>,
}

impl Options {
    /// Prints the plan, which shows what the package would contain.
    fn show(&self, matches: &ArgMatches, profile: &OsStr) -> Result<u8, Failure> {
        let situation = self.request(matches, profile)?.settle()?;
        crate::dry_run::print(&situation.plan()?, &situation.facts.command, self.launch.json);
        Ok(YES)
    }

    fn make(&self, matches: &ArgMatches, profile: &OsStr, output: &Path) -> Result<u8, Failure> {
        if !self.force && output.symlink_metadata().is_ok() {
            return Err(PackageError::Exists { path: output.to_owned() }.into());
        }
        let mut launcher =
            Launcher::open(self.launcher.as_deref().unwrap_or_else(|| Path::new("/proc/self/exe")))?;
        let Contents { manifest, selection, notes } =
            self.contents(self.request(matches, profile)?.settle()?)?;
        for note in notes {
            output::note(&note);
        }
        if let Some(first) = selection.private.first() {
            let count = selection.private.len();
            let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
            output::note(&format_args!("left out: {}{more}: not every user may read it", first.shown()));
        }
        let failed = |source| PackageError::Write { path: output.to_owned(), source };
        let directory = output.parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut file = tempfile::Builder::new()
            .prefix(".palisade-package-")
            .tempfile_in(directory.unwrap_or(Path::new(".")))
            .map_err(failed)?;
        let mut bar = Bar::new();
        let trailer =
            pack::pack(&mut launcher, manifest, &selection, file.as_file_mut(), output, &mut |done, all| {
                bar.show(done, all, &format!("{} of {}", mebibytes(done), mebibytes(all)));
            })?;
        drop(bar);
        file.as_file().set_permissions(Permissions::from_mode(0o755)).map_err(failed)?;
        let kept = if self.force { file.persist(output) } else { file.persist_noclobber(output) };
        let file = kept.map_err(|error| match error.error.kind() {
            std::io::ErrorKind::AlreadyExists => PackageError::Exists { path: output.to_owned() },
            _ => failed(error.error),
        })?;
        let manifest = Manifest::read(&file, &trailer)?;
        let info = Info::of(&manifest, &trailer, &file)?;
        if self.launch.json {
            verb::print_json(&Made { file: output.to_string_lossy().into_owned(), info })?;
        } else {
            let name = palisade_text::harmless(&output.to_string_lossy());
            let menu = if info.menu.is_some() { ", with a menu entry" } else { "" };
            verb::print(&format!(
                "{name}: {}, {} files, {} ({} unpacked){menu}\n",
                info.name,
                info.files,
                mebibytes(info.size),
                mebibytes(info.unpacked_size)
            ))?;
        }
        Ok(YES)
    }

    /// The request.
    pub(crate) fn request(&self, matches: &ArgMatches, profile: &OsStr) -> Result<Request, RequestError> {
        let application = Application {
            profile: profile.to_owned(),
            configuration: self.config.clone(),
            ..Application::default()
        };
        let mut request = self.launch.request(matches, Subject::Pack(application))?;
        if let Some(program) = &self.program {
            open::say_program(&mut request.words, program)?;
        }
        Ok(request)
    }

    /// Determines what the package of a profile contains.
    fn contents(&self, situation: Situation) -> Result<Contents, Failure> {
        let facts = &situation.facts;
        let name = facts.application.as_ref().map(|application| application.name.clone()).unwrap_or_default();
        match situation.policy().view().value {
            View::Closure => {}
            view => return Err(PackageError::View { profile: name, view: view.key() }.into()),
        }
        if !situation.policy().hooks().is_empty() {
            return Err(PackageError::Hooks { profile: name }.into());
        }
        let program = situation.program.clone().unwrap_or_default();
        if !is_packed(&program) {
            return Err(PackageError::NotOfSystem { program }.into());
        }
        let plan = situation.plan()?;
        let selection = select::select(&name, &plan)?;
        let mut notes: Vec<String> = plan.notes.iter().map(|note| note.clone().into_owned()).collect();
        let menu = package_menu::take(&situation, &name, &program, self.program.is_some(), &mut notes);
        let description = situation.loaded.profile.and_then(|profile| profile.description);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let manifest = Manifest {
            name,
            description: description.map(|description| description.value),
            program: program.as_os_str().as_bytes().to_vec(),
            palisade: format!("{} (form {VERSION})", env!("CARGO_PKG_VERSION")),
            machine: std::env::consts::ARCH.to_owned(),
            made: since.as_secs(),
            definitions: situation.definitions.unwrap_or_default(),
            entries: Vec::new(),
            blocks: Vec::new(),
            content: 0,
            menu,
        };
        Ok(Contents { manifest, selection, notes })
    }
}

/// Prints what is in a package. It starts nothing of the package.
fn info(path: &Path, json: bool) -> Result<u8, Failure> {
    let file = File::open(path).map_err(|source| Failure::Read { path: path.to_owned(), source })?;
    let found = trailer::find(&file).map_err(|source| PackageError::Read { source })?;
    let none = || PackageError::NoPackage { path: path.to_owned() };
    let trailer = found.and_then(|(_place, trailer)| trailer).ok_or_else(none)?;
    let manifest = Manifest::read(&file, &trailer)?;
    let info = Info::of(&manifest, &trailer, &file)?;
    if json {
        verb::print_json(&info)?;
    } else {
        verb::print(&format!("{}\n{}", info.words(), crate::package_info::policy(&manifest)))?;
    }
    Ok(YES)
}
