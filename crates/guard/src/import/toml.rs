// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders a fapolicyd.conf as Palisade's TOML settings.

use std::fmt::Write as _;

use crate::settings::SCHEMA;
use palisade_policy::render::string as quoted;

use super::{DatabaseSize, Fapolicyd, Integrity, ResetStrategy, TrustSource};

/// The equivalent `[guard]` table. Options that Palisade doesn't need are named in comments, with the reason, if the
/// file has them.
pub fn render(config: &Fapolicyd) -> String {
    let mut text = format!("# From fapolicyd.conf.\nschema = {SCHEMA}\n\n[guard]\n");
    let mut key = |name: &str, value: String| {
        let _ = writeln!(text, "{name} = {value}");
    };
    key("mode", quoted(if config.permissive { "permissive" } else { "enforce" }));
    key("watch.filesystems", list(config.watch_fs.iter()));
    if !config.ignore_mounts.is_empty() {
        key("watch.exclude", list(config.ignore_mounts.iter().map(|path| path.to_string_lossy())));
    }
    key("trust.sources", list(config.trust.iter().map(|source| source_name(*source))));
    key("trust.integrity", quoted(integrity_name(config.integrity)));
    key("log.format", quoted(&format(&config.syslog_format)));
    let unneeded: Vec<_> =
        unneeded(config).into_iter().filter(|(name, _, _)| config.is_given(name)).collect();
    if !unneeded.is_empty() {
        text.push_str("\n# Not needed here:\n");
    }
    for (name, value, why) in unneeded {
        // The value must not break the line, because a comment ends with its line.
        let value = palisade_text::harmless(&value);
        let _ = writeln!(text, "# {name} = {value}: {why}");
    }
    text
}

/// Palisade has the words of a decision before the colon; fapolicyd accepts them after it, too.
fn format(words: &[String]) -> String {
    let (decision, others): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| matches!(*word, "rule" | "dec" | "perm"));
    decision.into_iter().chain(others).collect::<Vec<_>>().join(",")
}

/// Name, value and the reason.
fn unneeded(config: &Fapolicyd) -> Vec<(&'static str, String, &'static str)> {
    let number = |number: u32| number.to_string();
    let flag = |flag: bool| u32::from(flag).to_string();
    vec![
        ("nice_val", number(config.nice_val), "the service's unit sets its priority"),
        ("q_size", number(config.q_size), "events wait in the kernel, not in a queue of the daemon"),
        (
            "decision_threads",
            number(config.decision_threads),
            "the daemon chooses by itself how many threads decide",
        ),
        ("uid", config.uid.clone(), "the daemon drops the rights that it doesn't need"),
        ("gid", config.gid.clone(), "the daemon drops the rights that it doesn't need"),
        (
            "do_stat_report",
            number(config.do_stat_report),
            "`palisade guard status` has the figures at any time",
        ),
        ("detailed_report", flag(config.detailed_report), "files and programs are in the event store"),
        ("db_max_size", database(config.db_max_size), "the trust database grows as needed"),
        (
            "subj_cache_size",
            number(config.subj_cache_size),
            "processes are remembered for as long as they live",
        ),
        ("obj_cache_size", number(config.obj_cache_size), "the kernel keeps the answer with the file"),
        (
            "allow_filesystem_mark",
            flag(config.allow_filesystem_mark),
            "whole file systems are watched, wherever they are mounted",
        ),
        (
            "rpm_sha256_only",
            flag(config.rpm_sha256_only),
            "the SHA-256 of every file is recorded, whatever digest its package has",
        ),
        (
            "report_interval",
            number(config.report_interval),
            "`palisade guard metrics` has the figures at any time",
        ),
        (
            "reset_strategy",
            reset_name(config.reset_strategy).to_owned(),
            "`palisade guard metrics --reset` sets the figures to zero",
        ),
        (
            "timing_collection",
            if config.timing_collection { "manual" } else { "off" }.to_owned(),
            "`palisade guard timing start` begins a measurement at any time",
        ),
    ]
}

fn database(size: DatabaseSize) -> String {
    match size {
        DatabaseSize::Automatic => "auto".to_owned(),
        DatabaseSize::Megabytes(megabytes) => megabytes.to_string(),
    }
}

const fn source_name(source: TrustSource) -> &'static str {
    match source {
        TrustSource::Rpm => "rpm",
        TrustSource::Deb => "dpkg",
        TrustSource::File => "files",
    }
}

const fn integrity_name(integrity: Integrity) -> &'static str {
    match integrity {
        Integrity::None => "none",
        Integrity::Size => "size",
        Integrity::Ima => "ima",
        Integrity::Sha256 => "sha256",
    }
}

const fn reset_name(strategy: ResetStrategy) -> &'static str {
    match strategy {
        ResetStrategy::Never => "never",
        ResetStrategy::Auto => "auto",
        ResetStrategy::Manual => "manual",
    }
}

fn list<T: AsRef<str>>(items: impl Iterator<Item = T>) -> String {
    let items: Vec<String> = items.map(|item| quoted(item.as_ref())).collect();
    format!("[{}]", items.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::Fapolicyd;
    use super::render;
    use crate::settings::{Mode, Settings};
    use crate::watch::line::Format;
    use std::path::Path;

    #[test]
    fn an_equivalent_table() {
        let config = Fapolicyd::parse(
            "permissive = 1\nq_size = 640\nwatch_fs = ext4,btrfs\nignore_mounts = /srv/\"data\"\ntrust = debdb,file\n\
             integrity = sha256\nrpm_sha256_only = 1\nuid = fapolicyd",
        )
        .unwrap();
        assert_eq!(
            render(&config),
            r#"# From fapolicyd.conf.
schema = 1

[guard]
mode = "permissive"
watch.filesystems = ["ext4", "btrfs"]
watch.exclude = ["/srv/\"data\""]
trust.sources = ["dpkg", "files"]
trust.integrity = "sha256"
log.format = "rule,dec,perm,auid,pid,exe,:,path,ftype"

# Not needed here:
# q_size = 640: events wait in the kernel, not in a queue of the daemon
# uid = fapolicyd: the daemon drops the rights that it doesn't need
# rpm_sha256_only = 1: the SHA-256 of every file is recorded, whatever digest its package has
"#
        );
    }

    #[test]
    fn settings_understand_it() {
        let every = "permissive = 0\nwatch_fs = ext4,xfs\nignore_mounts = /data\ntrust = rpmdb,file\n\
                     integrity = ima\nsyslog_format = dec,:,path,rule,perm\nreport_interval = 60\n\
                     rpm_sha256_only = 1\ntiming_collection = manual\nreset_strategy = auto";
        for text in ["", every, "allow_filesystem_mark = 1"] {
            let rendered = render(&Fapolicyd::parse(text).unwrap());
            let settings = Settings::parse(&rendered, Path::new("guard.toml"));
            let settings = settings.unwrap_or_else(|error| panic!("{error}\n{rendered}"));
            assert_eq!(settings.mode, Mode::Enforce);
            assert!(Format::parse(&settings.log.format).is_ok(), "{rendered}");
        }
    }

    #[test]
    fn what_is_rendered_can_be_read() {
        bolero::check!().with_type::<(String, Vec<String>)>().for_each(|(one, many)| {
            let config = Fapolicyd {
                uid: one.clone(),
                watch_fs: many.clone(),
                given: vec!["uid"],
                ..Fapolicyd::default()
            };
            let table: toml::Table = render(&config).parse().unwrap();
            let read = table["guard"]["watch"]["filesystems"].as_array().unwrap();
            assert!(read.iter().map(|item| item.as_str().unwrap()).eq(many.iter()));
        });
    }
}
