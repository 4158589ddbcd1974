// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses one option of a fapolicyd.conf.

use super::{DatabaseSize, Fapolicyd, Integrity, ResetStrategy, TrustSource, Wrong, absolute};

/// All options.
pub(super) const NAMES: [&str; 21] = [
    "permissive",
    "nice_val",
    "q_size",
    "decision_threads",
    "uid",
    "gid",
    "do_stat_report",
    "detailed_report",
    "db_max_size",
    "subj_cache_size",
    "obj_cache_size",
    "watch_fs",
    "ignore_mounts",
    "trust",
    "integrity",
    "syslog_format",
    "rpm_sha256_only",
    "allow_filesystem_mark",
    "report_interval",
    "reset_strategy",
    "timing_collection",
];

/// The fields of a logged decision, its subject and its object.
const DECISION: [&str; 3] = ["rule", "dec", "perm"];
const SUBJECT: [&str; 9] = ["auid", "uid", "sessionid", "pid", "ppid", "trust", "gid", "comm", "exe"];
const OBJECT: [&str; 7] = ["path", "dir", "device", "ftype", "trust", "sha256hash", "filehash"];

/// Parses a line that is neither empty nor a comment.
pub(super) fn take(config: &mut Fapolicyd, line: &str) -> Result<(), Wrong> {
    let (name, value) = line.split_once('=').ok_or_else(|| Wrong::NoValue(line.to_owned()))?;
    let (said, value) = (name.trim(), value.trim());
    let name = NAMES.into_iter().find(|name| name.eq_ignore_ascii_case(said)).ok_or_else(|| unknown(said))?;
    if value.is_empty() {
        return Err(Wrong::NoValue(name.to_owned()));
    }
    if config.is_given(name) {
        return Err(Wrong::Twice(name));
    }
    // Only this option may have blanks around its commas.
    if name != "ignore_mounts" && value.contains(char::is_whitespace) {
        return Err(Wrong::Blank { name, joined: value.split_whitespace().collect() });
    }
    let value = Value { name, text: value };
    match name {
        "permissive" => config.permissive = value.flag()?,
        "nice_val" => config.nice_val = value.number(0, 20)?,
        "q_size" => config.q_size = value.number(1, 1 << 20)?,
        "decision_threads" => config.decision_threads = value.number(1, 1024)?,
        "uid" => value.text.clone_into(&mut config.uid),
        "gid" => value.text.clone_into(&mut config.gid),
        "do_stat_report" => config.do_stat_report = value.number(0, 2)?,
        "detailed_report" => config.detailed_report = value.flag()?,
        "db_max_size" if value.is("auto") => config.db_max_size = DatabaseSize::Automatic,
        "db_max_size" => config.db_max_size = DatabaseSize::Megabytes(value.number(1, 1 << 20)?),
        "subj_cache_size" => config.subj_cache_size = value.number(1, 1 << 22)?,
        "obj_cache_size" => config.obj_cache_size = value.number(1, 1 << 24)?,
        "watch_fs" => config.watch_fs = value.list().map(str::to_owned).collect(),
        "ignore_mounts" => config.ignore_mounts = value.list().map(absolute).collect::<Result<_, _>>()?,
        "trust" => config.trust = value.list().map(source).collect::<Result<_, _>>()?,
        "integrity" => config.integrity = integrity(&value)?,
        "syslog_format" => config.syslog_format = format(&value)?,
        "rpm_sha256_only" => config.rpm_sha256_only = value.flag()?,
        "allow_filesystem_mark" => config.allow_filesystem_mark = value.flag()?,
        "report_interval" => config.report_interval = value.number(0, u32::MAX)?,
        "reset_strategy" => config.reset_strategy = reset(&value)?,
        "timing_collection" => {
            config.timing_collection = value.word(&[("off", false), ("manual", true)], "`off`, `manual`")?;
        }
        _ => return Err(unknown(said)),
    }
    config.given.push(name);
    Ok(())
}

fn source(text: &str) -> Result<TrustSource, Wrong> {
    Value { name: "trust", text }.word(
        &[("rpmdb", TrustSource::Rpm), ("debdb", TrustSource::Deb), ("file", TrustSource::File)],
        "`rpmdb`, `debdb`, `file`",
    )
}

fn integrity(value: &Value<'_>) -> Result<Integrity, Wrong> {
    value.word(
        &[
            ("none", Integrity::None),
            ("size", Integrity::Size),
            ("ima", Integrity::Ima),
            ("sha256", Integrity::Sha256),
        ],
        "`none`, `size`, `ima`, `sha256`",
    )
}

fn reset(value: &Value<'_>) -> Result<ResetStrategy, Wrong> {
    value.word(
        &[("never", ResetStrategy::Never), ("auto", ResetStrategy::Auto), ("manual", ResetStrategy::Manual)],
        "`never`, `auto`, `manual`",
    )
}

/// Fields before the colon belong to the decision and the subject, fields after it to the object (or the decision).
fn format(value: &Value<'_>) -> Result<Vec<String>, Wrong> {
    const WORDS: &str = "rule, dec, perm; before the `:` auid, uid, sessionid, pid, ppid, trust, gid, comm, exe; \
                         behind it path, dir, device, ftype, trust, sha256hash, filehash";
    let mut behind = false;
    let mut fields = Vec::new();
    for field in value.list() {
        let allowed: &[&str] = if behind { &OBJECT } else { &SUBJECT };
        if field == ":" {
            behind = true;
        } else if !DECISION.contains(&field) && !allowed.contains(&field) {
            return Err(Wrong::Word { name: value.name, value: field.to_owned(), words: WORDS });
        }
        fields.push(field.to_owned());
    }
    if behind { Ok(fields) } else { Err(Wrong::NoColon(value.text.to_owned())) }
}

struct Value<'a> {
    name: &'static str,
    text: &'a str,
}

impl<'a> Value<'a> {
    fn is(&self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word)
    }

    /// Digits only, as in fapolicyd: no sign, no blank.
    fn number(&self, least: u32, most: u32) -> Result<u32, Wrong> {
        let digits = self.text.bytes().all(|byte| byte.is_ascii_digit());
        let number = self.text.parse().ok().filter(|number| digits && (least..=most).contains(number));
        number.ok_or_else(|| Wrong::Number { name: self.name, value: self.text.to_owned(), least, most })
    }

    fn flag(&self) -> Result<bool, Wrong> {
        self.number(0, 1).map(|number| number == 1)
    }

    fn list(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.text.split(',').map(str::trim).filter(|part| !part.is_empty())
    }

    fn word<T: Copy>(&self, known: &[(&str, T)], words: &'static str) -> Result<T, Wrong> {
        let found = known.iter().find(|(word, _)| self.is(word)).map(|(_, value)| *value);
        found.ok_or_else(|| Wrong::Word { name: self.name, value: self.text.to_owned(), words })
    }
}

fn unknown(said: &str) -> Wrong {
    let lower = said.to_ascii_lowercase();
    let nearest = NAMES.into_iter().map(|name| (distance(name, &lower), name)).min();
    let hint = match nearest {
        Some((steps, name)) if steps <= 3 => format!("\nhint: did you mean `{name}`?"),
        _ => "\nhint: fapolicyd doesn't start with it either; remove the line".to_owned(),
    };
    Wrong::Unknown { name: said.to_owned(), hint }
}

/// The number of letters to change, add or leave out (Levenshtein distance).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, second) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(letter != second);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::super::{DatabaseSize, Fapolicyd, ImportError, Integrity, ResetStrategy, TrustSource, Wrong};

    #[test]
    fn debians_own() {
        let text = "#\n# comment\n#\n\npermissive = 0\nnice_val = 14\nq_size = 640\nuid = fapolicyd\ngid = fapolicyd\n\
                    do_stat_report = 1\ndetailed_report = 1\ndb_max_size = 50\nsubj_cache_size = 1549\n\
                    obj_cache_size = 8191\nwatch_fs = ext2,ext3,ext4,tmpfs,xfs,vfat,iso9660,btrfs\n\
                    trust = rpmdb,file\nintegrity = none\n\
                    syslog_format = rule,dec,perm,auid,pid,exe,:,path,ftype,trust\nrpm_sha256_only = 0\n\
                    allow_filesystem_mark = 0";
        let config = Fapolicyd::parse(text).unwrap();
        assert_eq!(config.given.len(), 16);
        assert_eq!(config.db_max_size, DatabaseSize::Megabytes(50));
        assert_eq!(config.watch_fs.len(), 8);
        assert_eq!(config.trust, [TrustSource::Rpm, TrustSource::File]);
        assert!(!config.allow_filesystem_mark);
    }

    #[test]
    fn version_two() {
        let text = "PERMISSIVE=1\r\ndecision_threads = 4\ndb_max_size = auto\nignore_mounts = /data , /srv/cache\n\
                    integrity = SHA256\nreport_interval = 60\nreset_strategy = auto\ntiming_collection = manual\n\
                    trust = debdb,file";
        let config = Fapolicyd::parse(text).unwrap();
        assert!(config.permissive && config.timing_collection);
        assert_eq!(config.ignore_mounts.len(), 2);
        assert_eq!((config.integrity, config.reset_strategy), (Integrity::Sha256, ResetStrategy::Auto));
    }

    #[test]
    fn what_is_wrong() {
        let wrong = |text: &str| Fapolicyd::parse(text).unwrap_err().wrong;
        assert_eq!(
            Fapolicyd::parse("\n\nwatch_fss = ext4").unwrap_err(),
            ImportError {
                line: 3,
                wrong: Wrong::Unknown {
                    name: "watch_fss".to_owned(),
                    hint: "\nhint: did you mean `watch_fs`?".to_owned()
                }
            }
        );
        assert!(matches!(wrong("colour = blue"), Wrong::Unknown { .. }));
        assert!(matches!(wrong("permissive"), Wrong::NoValue(_)));
        assert!(matches!(wrong("permissive ="), Wrong::NoValue(_)));
        for number in [
            "permissive = 2",
            "nice_val = 21",
            "nice_val = -1",
            "q_size = x",
            "q_size = 99999999999",
            "decision_threads = 0",
            "q_size = +1",
        ] {
            assert!(matches!(wrong(number), Wrong::Number { .. }), "{number}");
        }
        assert!(matches!(wrong("watch_fs = ext4, xfs"), Wrong::Blank { joined, .. } if joined == "ext4,xfs"));
        assert!(matches!(wrong("integrity = md5"), Wrong::Word { .. }));
        assert!(matches!(wrong("trust = rpm"), Wrong::Word { .. }));
        assert!(matches!(wrong("syslog_format = rule,dec"), Wrong::NoColon(_)));
        assert!(matches!(wrong("syslog_format = rule,path,:"), Wrong::Word { .. }));
        assert!(matches!(wrong("ignore_mounts = data"), Wrong::Relative(_)));
        assert!(matches!(wrong("uid = 0\nuid = 1"), Wrong::Twice("uid")));
        assert_eq!(wrong("ignore_mounts = /a\nallow_filesystem_mark = 1"), Wrong::MarksAndMounts);
    }

    #[test]
    fn any_text_is_taken() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            if let Ok(config) = Fapolicyd::parse(&text) {
                let _ = super::super::toml::render(&config);
            }
            let _ = Fapolicyd::parse(&format!("syslog_format = {text}"));
        });
    }
}
