// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses one line of fapolicyd's log into the facts that it decided by.

use std::collections::HashMap;
use std::ops::Deref;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use palisade_guard::facts::Access;
use palisade_guard::kind::elf::{ElfFacts, examine};
use palisade_guard::kind::{Recognizer, Stat};
use palisade_guard::known::Known;
use palisade_guard::subject::start::Progress;

/// One decision, and its facts. What the log doesn't have is found out here: the kind of the subject's program from the
/// file, and how it was started from the earlier events of the same process.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    /// The number of the rule that matched in fapolicyd, from 1; `None` if no rule matched.
    pub(crate) rule: Option<u32>,
    pub(crate) decision: String,
    facts: Known,
}

/// The known facts of files: ELF or not, and the kind.
pub(crate) type Files = HashMap<Vec<u8>, (Option<ElfFacts>, String)>;

impl Observed {
    /// Reads a line; `None` if it was cut at fapolicyd's limit of 512 bytes.
    pub(crate) fn read(
        line: &[u8],
        here: impl Fn(&[u8]) -> PathBuf,
        files: &mut Files,
        seen: &mut HashMap<u32, Progress>,
    ) -> Option<Self> {
        let middle = find(line, " : path=")?;
        let mut subject = Fields(&line[..middle]);
        let mut object = Fields(&line[middle + 3..]);
        let rule = number(subject.take("rule=", " dec=")?);
        let decision = text(subject.take("dec=", " perm=")?);
        let access =
            if subject.take("perm=", " auid=")? == b"execute" { Access::Execute } else { Access::Open };
        let auid = signed(subject.take("auid=", " uid=")?)?;
        let uid = signed(subject.take("uid=", " gid=")?)?;
        let gids =
            subject.take("gid=", " sessionid=")?.split(|byte| *byte == b',').filter_map(number).collect();
        let session = signed(subject.take("sessionid=", " pid=")?)?;
        let pid = signed(subject.take("pid=", " ppid=")?)?;
        let ppid = signed(subject.take("ppid=", " trust=")?)?;
        let subject_trusted = subject.take("trust=", " comm=")? == b"1";
        let comm = subject.take("comm=", " exe=")?.to_vec();
        let exe = subject.take("exe=", "")?.to_vec();
        let path = object.take("path=", " device=")?.to_vec();
        let device = object.take("device=", " ftype=")?.to_vec();
        let kind = text(object.take("ftype=", " trust=")?);
        let trusted = object.take("trust=", " sha256hash=")? == b"1";
        let hash = text(object.take("sha256hash=", "")?);
        if hash.len() != 64 && hash != "(null)" && hash != "?" {
            return None;
        }

        let mut file = |path: &[u8]| files.entry(path.to_vec()).or_insert_with(|| look(&here(path))).clone();
        let progress = seen.entry(pid).or_default();
        match access {
            Access::Execute => progress.execute(file(&path).0.as_ref()),
            Access::Open => progress.open(),
        }
        let facts = Known {
            access,
            auid,
            uids: vec![uid],
            gids,
            session,
            pid,
            ppid,
            subject_trusted,
            comm,
            subject_kind: file(&exe).1,
            exe,
            start: progress.start(),
            preloads: false,
            path,
            device,
            kind,
            trusted,
            hash: Some(hash).filter(|hash| hash.len() == 64),
        };
        Some(Self { rule: rule.filter(|rule| *rule != 0), decision, facts })
    }
}

/// The rest of one half of a line.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The value of the field, which ends where the next one begins: at the last such place, as values can contain
    /// anything.
    fn take(&mut self, name: &str, next: &str) -> Option<&'a [u8]> {
        let value = self.0.strip_prefix(name.as_bytes())?;
        let end = if next.is_empty() {
            value.len()
        } else {
            value.windows(next.len()).rposition(|window| window == next.as_bytes())?
        };
        let (value, after) = value.split_at(end);
        self.0 = after.strip_prefix(b" ").unwrap_or(after);
        Some(value)
    }
}

fn look(path: &std::path::Path) -> (Option<ElfFacts>, String) {
    let Ok(file) = std::fs::File::open(path) else { return (None, "?".to_owned()) };
    let Ok(stat) = Stat::of(file.as_fd()) else { return (None, "?".to_owned()) };
    let kind = Recognizer::own().kind_of(file.as_fd(), b"/proc/exe", stat).to_string();
    (examine(&file.as_fd(), stat.size), kind)
}

fn find(text: &[u8], what: &str) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what.as_bytes())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn number(bytes: &[u8]) -> Option<u32> {
    text(bytes).parse().ok()
}

/// fapolicyd logs numbers with a sign: -1 is none.
fn signed(bytes: &[u8]) -> Option<u32> {
    text(bytes).parse::<i32>().ok().map(i32::cast_unsigned)
}

impl Deref for Observed {
    type Target = Known;

    fn deref(&self) -> &Known {
        &self.facts
    }
}
