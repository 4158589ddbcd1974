// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The user's saved approvals: hosts that commands may connect to because the user answered "always" to a question.
//!
//! There is one small policy file for each profile and place, in the user's state directory, which no sandbox can write
//! to. Its entries are answers and not rules: they count only where the policy says `ask`, so they override neither a
//! rule nor a lock. The file is read when a command first uses the network, not at the launch.

use crate::error::quoted;
use crate::facts::Facts;
use crate::layers::Loaded;
use crate::layers::trust::distrust_hint;
use crate::plan::text::{NullByte, Text};
use crate::plan::{Approvals, Plan};
use palisade_host::file::{self, FileError, Links};
use palisade_host::places::{self, TrustError, Trustee};
use palisade_policy::network::{Fallback, NetworkRules, Target};
use palisade_policy::{Layer, ParseError};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::borrow::Cow;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The directory of these files, in the state directory.
pub const DIRECTORY: &str = "answers";
/// A larger file isn't a file of approvals.
const LARGEST: usize = palisade_policy::parse::LARGEST_FILE;
/// The end of the list, before which the next answer is added.
const END: &str = "]\n";
/// The most characters of a profile or directory in a file's name.
const LONGEST: usize = 32;

/// Why answers can't be read or saved.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalsError {
    /// Other users could have written them.
    #[error("refusing the answers in {file:?}: {source}")]
    Distrusted {
        /// The file.
        file: PathBuf,
        /// Why the file isn't trusted.
        source: TrustError,
    },
    /// They can't be read.
    #[error("can't read the answers: {source}")]
    Read {
        /// Why.
        source: FileError,
    },
    /// They can't be understood.
    #[error("can't understand the answers in {file:?}: {reason}")]
    Parse {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file doesn't have the end that Palisade writes.
    #[error("can't add an answer to {file:?}: it doesn't end with the list `allow`")]
    Changed {
        /// The file.
        file: PathBuf,
    },
    /// They can't be written.
    #[error("can't write the answers to {file:?}: {source}")]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl ApprovalsError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Distrusted { source, .. } => distrust_hint(source),
            Self::Read { .. } | Self::Write { .. } => None,
            Self::Parse { file, .. } | Self::Changed { file } => {
                Some(format!("correct the file, or remove it and answer again: rm {}", shown(file)))
            }
        }
    }
}

fn shown(file: &Path) -> String {
    quoted(&file.to_string_lossy())
}

/// Adds the path of the saved answers to a plan, if the policy has the user asked.
///
/// # Errors
/// When the path can't be put into a plan.
pub fn plan(facts: &Facts, loaded: &Loaded, plan: &mut Plan<'_>) -> Result<(), NullByte> {
    let asks = loaded.policy.network_fallback().value == Fallback::Ask;
    // Where only the system's policy counts, the user's answers last for one session.
    let Some(network) = plan.network.as_mut().filter(|_network| asks && !facts.of_system_only) else {
        return Ok(());
    };
    let scope = Scope::of(facts, loaded);
    let file = facts.places.state.join(DIRECTORY).join(scope.file_name());
    network.answers = Some(Approvals {
        file: Text::path(&file)?,
        scope: Cow::Owned(scope.words()),
        private_group: facts.account.private_group.then_some(facts.account.gid),
    });
    Ok(())
}

/// The launches for which an answer counts.
struct Scope {
    /// The requested profile, if there is one.
    profile: Option<String>,
    /// The directory of the project, or of the launch. `None` for an application, which may be opened anywhere.
    directory: Option<PathBuf>,
}

impl Scope {
    fn of(facts: &Facts, loaded: &Loaded) -> Self {
        let named = |profile: &palisade_policy::LayerPolicy| match (&profile.file, &profile.name) {
            (Some(file), _) => file.to_string_lossy().into_owned(),
            (None, Some(name)) => name.value.clone(),
            (None, None) => String::new(),
        };
        let directory = loaded.project.clone().unwrap_or_else(|| facts.cwd.clone());
        Self {
            profile: loaded.profile.as_ref().map(named),
            directory: facts.application.is_none().then_some(directory),
        }
    }

    /// A unique file name. It starts with a part that users recognise.
    fn file_name(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for part in [self.profile.as_ref().map(String::as_bytes), self.directory.as_deref().map(bytes)] {
            hasher.update(&[u8::from(part.is_some())]);
            hasher.update(part.unwrap_or_default());
            hasher.update(&[0]);
        }
        let digest = hasher.finalize().to_hex();
        let place = self.profile.as_ref().map(Path::new).or(self.directory.as_deref());
        let name = place.and_then(Path::file_stem).unwrap_or_default().to_string_lossy();
        let plain = name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-');
        format!("{}-{}.toml", plain.take(LONGEST).collect::<String>(), digest.split_at(16).0)
    }

    fn words(&self) -> String {
        let profile = self.profile.as_ref().map(|profile| format!("profile {profile:?}"));
        let directory = self.directory.as_ref().map(|directory| format!("commands in {directory:?}"));
        [profile, directory].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

impl Approvals<'_> {
    /// The file's path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.file.as_path().to_owned()
    }

    /// The same, without borrows from the plan.
    #[must_use]
    pub fn to_owned(&self) -> Approvals<'static> {
        Approvals {
            file: self.file.clone().into_owned(),
            scope: Cow::Owned(self.scope.clone().into_owned()),
            private_group: self.private_group,
        }
    }

    /// The hosts that the user has allowed. Other hosts aren't allowed.
    ///
    /// # Errors
    /// When the file can't be read, trusted or understood.
    pub fn read(&self) -> Result<NetworkRules, ApprovalsError> {
        let file = self.path();
        match self.text(&file)? {
            Some(text) => rules(&text, &file),
            None => Ok(NetworkRules::default()),
        }
    }

    fn text(&self, file: &Path) -> Result<Option<String>, ApprovalsError> {
        if matches!(rustix::fs::lstat(file), Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR)) {
            return Ok(None);
        }
        let real = self.check(file)?;
        let text =
            file::read(&real, LARGEST, Links::Refuse).map_err(|source| ApprovalsError::Read { source })?;
        let parse =
            |_no_text| ApprovalsError::Parse { file: file.to_owned(), reason: "it is no UTF-8".into() };
        String::from_utf8(text).map(Some).map_err(parse)
    }

    fn check(&self, file: &Path) -> Result<PathBuf, ApprovalsError> {
        let us = Trustee { uid: rustix::process::geteuid().as_raw(), private_group: self.private_group };
        places::check(file, us).map_err(|source| ApprovalsError::Distrusted { file: file.to_owned(), source })
    }

    /// Saves an answer: the user always allows this host.
    ///
    /// # Errors
    /// When it can't be saved.
    pub fn allow(&self, target: &Target) -> Result<(), ApprovalsError> {
        let file = self.path();
        let failed = |source: std::io::Error| ApprovalsError::Write { file: file.clone(), source };
        let directory = file.parent().unwrap_or(&file).to_owned();
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(failed)?;
        let directory = self.check(&directory)?;
        // Two launches of the same profile may be asked at the same time.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let held =
            rustix::fs::open(&directory, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        rustix::fs::flock(&held, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let text = self.text(&file)?.unwrap_or_else(|| self.beginning());
        let known = rules(&text, &file)?;
        if known.rules.iter().any(|rule| rule.allow && rule.target == *target) {
            return Ok(());
        }
        let before = text.strip_suffix(END).ok_or_else(|| ApprovalsError::Changed { file: file.clone() })?;
        let text = format!("{before}    \"{target}\",\n{END}");
        // The user may have changed the file, so this checks that the new text can be read.
        rules(&text, &file)?;
        replace(&file, text.as_bytes()).map_err(failed)?;
        let _not_everywhere = rustix::fs::fsync(&held);
        Ok(())
    }

    fn beginning(&self) -> String {
        format!(
            "# Hosts that you allowed always when Palisade asked. For {}.\n\
             # If you remove the line of a host, Palisade asks about it again.\n\
             schema = 1\n\n[network]\nallow = [\n{END}",
            self.scope.escape_debug()
        )
    }
}

/// The rules for hosts in a file. Other entries don't count.
fn rules(text: &str, file: &Path) -> Result<NetworkRules, ApprovalsError> {
    let failed = |errors: Vec<ParseError>| ApprovalsError::Parse {
        file: file.to_owned(),
        reason: errors.first().map_or_else(String::new, ToString::to_string),
    };
    let policy = palisade_policy::parse(text, Some(file), Layer::User).map_err(failed)?;
    Ok(NetworkRules { rules: policy.settings.hosts, fallback: Fallback::Deny })
}

/// Replaces a file as a whole: at every moment either the old file or the new one exists.
fn replace(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // The writer holds the directory's lock, so an existing file of this name is from a process that was killed.
    let temporary = file.with_extension("new");
    let _none_left = std::fs::remove_file(&temporary);
    let mut options = File::options();
    let mut new = options.write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = new.write_all(bytes).and_then(|()| new.sync_all());
    written.and_then(|()| std::fs::rename(&temporary, file)).inspect_err(|_error| {
        let _none_left = std::fs::remove_file(&temporary);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::network::{Judge, NetworkVerdict};

    fn answers(directory: &Path) -> Approvals<'static> {
        let file = directory.join("palisade/answers/p-1.toml");
        Approvals {
            file: Text::path(&file).unwrap(),
            scope: Cow::Borrowed("commands in \"/p\u{1b}\nx = 1\""),
            private_group: None,
        }
    }

    fn allows(answers: &Approvals<'_>, host: &str, port: u16) -> bool {
        let rules = answers.read().unwrap();
        Judge::new(&rules).name(&host.parse().unwrap(), port).verdict == NetworkVerdict::Allow
    }

    #[test]
    fn an_answer_is_for_a_host_and_port_and_can_be_taken_back() {
        let directory = tempfile::tempdir().unwrap();
        let answers = answers(directory.path());
        assert!(!allows(&answers, "a.example", 443));
        for _twice in 0..2 {
            answers.allow(&"a.example:443".parse().unwrap()).unwrap();
        }
        answers.allow(&"[2606:4700::1]:80".parse().unwrap()).unwrap();
        assert!(allows(&answers, "a.example", 443));
        assert!(!allows(&answers, "a.example", 80) && !allows(&answers, "b.a.example", 443));
        let file = answers.path();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.matches("\"a.example:443\",\n").count(), 1, "{text}");
        let without: String = text.split_inclusive('\n').filter(|line| !line.contains("a.example")).collect();
        std::fs::write(&file, without).unwrap();
        assert!(!allows(&answers, "a.example", 443));
        answers.allow(&"c.example:1".parse().unwrap()).unwrap();
        assert!(allows(&answers, "c.example", 1));
        let left = std::fs::read_dir(file.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "nothing else is left");
    }

    #[test]
    fn what_others_could_have_written_or_is_broken_allows_nobody() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let answers = answers(directory.path());
        answers.allow(&"a.example:443".parse().unwrap()).unwrap();
        let file = answers.path();
        let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o666);
        let error = answers.read().unwrap_err();
        assert!(matches!(error, ApprovalsError::Distrusted { .. }), "{error}");
        assert!(error.hint().unwrap().contains("chmod go-w"), "{:?}", error.hint());
        assert!(answers.allow(&"b.example:443".parse().unwrap()).is_err());
        mode(0o600);
        for broken in ["schema = 1\n[network]\nallow = [\"a b\"]\n", "x"] {
            std::fs::write(&file, broken).unwrap();
            assert!(matches!(answers.read(), Err(ApprovalsError::Parse { .. })), "{broken}");
            assert!(answers.allow(&"b.example:443".parse().unwrap()).is_err());
            assert_eq!(std::fs::read_to_string(&file).unwrap(), broken, "it is left alone");
        }
    }

    #[test]
    fn profiles_and_places_have_answers_of_their_own() {
        let scope = |profile: Option<&str>, directory: Option<&str>| Scope {
            profile: profile.map(str::to_owned),
            directory: directory.map(PathBuf::from),
        };
        let all = [
            scope(None, Some("/p")),
            scope(Some("/p"), None),
            scope(Some("/p"), Some("/p")),
            scope(Some("x"), Some("/p")),
            scope(Some("x"), Some("/q")),
            scope(None, Some("/q/p")),
        ];
        let names: std::collections::BTreeSet<String> = all.iter().map(Scope::file_name).collect();
        assert_eq!(names.len(), all.len(), "{names:?}");
        let name = scope(None, Some("/home/me/../a b/.x/y\nz")).file_name();
        assert!(name.starts_with("yz-") && name.len() == "yz-".len() + 16 + ".toml".len(), "{name}");
    }
}
