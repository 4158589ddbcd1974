// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings that may change, and why others may not.
//!
//! Names and meanings are from git-config(1) of git 2.55 and the sources (`remote.c`, `setup.c`, `submodule.c`). The
//! list names the settings that may change, so that settings which a later git adds are refused.
//!
//! A pattern is `section.key`, `section.*.key` (any subsection), or for [`REFUSED`] also `section.**` (everything in
//! the section). `*` for a key is any key. The first match counts.

use super::Name;
use super::value::Kind::{self, *};

/// A setting that may change.
pub(super) struct Rule {
    name: &'static str,
    pub(super) value: Kind,
    pub(super) how: How,
}

/// Which changes of a setting are permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// It may be set, changed and removed.
    Free,
    /// It may be set if it is missing, and removed, but never changed.
    Once,
    /// It may be set together with its section, and removed, but never changed. So the next push of an existing
    /// branch still goes to the same place.
    WithSection,
    /// It may be set together with its section, and never removed. A name that became free again could get another
    /// address, which would be a change in two steps.
    Kept,
    /// It may be set, but never removed.
    Stays,
    /// As [`How::Free`], for a remote that existed before.
    Established,
    /// Permitted in a repository that was made inside.
    Fresh,
}

impl How {
    /// Why the change isn't permitted.
    pub(super) fn refusal(self) -> &'static str {
        match self {
            Self::Free => UNLISTED,
            Self::Once => "an existing value may not be changed from inside",
            Self::WithSection => "it would redirect an existing branch",
            Self::Kept => "an existing remote's addresses may not be changed from inside",
            Self::Stays => "the settings that it enables would be lost",
            Self::Established => "git would contact a new remote without a request",
            Self::Fresh => "only a repository that was made inside may have it",
        }
    }
}

const fn rule(name: &'static str, value: Kind, how: How) -> Rule {
    Rule { name, value, how }
}

const BOOL_ALWAYS: Kind = OneOf(&[Bool, Word(&["always"])]);

/// The keys by which lists are sorted. `signature` and `%(…)` would run the program that checks signatures.
const SORT: Kind = Words(&[
    "refname",
    "version:refname",
    "v:refname",
    "objectname",
    "objectsize",
    "objecttype",
    "authordate",
    "committerdate",
    "creatordate",
    "taggerdate",
]);

/// How columns are formatted.
const COLUMNS: Kind = Words(&["always", "never", "auto", "column", "row", "plain", "dense", "nodense"]);

/// The names of text encodings that git knows. This is a list because the converter looks other names up in files.
const ENCODING: Kind = Word(&[
    "UTF-8",
    "utf-8",
    "UTF8",
    "utf8",
    "US-ASCII",
    "ISO-8859-1",
    "ISO8859-1",
    "iso-8859-1",
    "iso8859-1",
    "latin1",
    "ISO-8859-2",
    "ISO-8859-15",
    "ISO8859-15",
    "iso-8859-15",
    "CP1250",
    "CP1251",
    "CP1252",
    "cp1250",
    "cp1251",
    "cp1252",
    "windows-1250",
    "windows-1251",
    "windows-1252",
    "KOI8-R",
    "koi8-r",
    "KOI8-U",
    "EUC-JP",
    "eucJP",
    "euc-jp",
    "ISO-2022-JP",
    "iso-2022-jp",
    "Shift_JIS",
    "SHIFT-JIS",
    "CP932",
    "GBK",
    "gbk",
    "GB18030",
    "gb18030",
    "GB2312",
    "Big5",
    "BIG5",
    "big5",
    "EUC-KR",
    "euc-kr",
]);

/// The settings that may change.
#[rustfmt::skip]
pub(super) const LISTED: &[Rule] = &[
    // What git itself writes for a branch. `merge` is the ref that a pull merges, among those fetched anyway. `rebase
    // = interactive` would start the editor.
    rule("branch.*.remote", Remote, How::Once),
    rule("branch.*.merge", Ref, How::Free),
    rule("branch.*.rebase", OneOf(&[Bool, Word(&["merges", "m"])]), How::Free),
    rule("branch.*.description", Text, How::Free),
    rule("branch.*.pushremote", Remote, How::WithSection),
    // Notes that editors and tools of code hosting sites leave.
    rule("branch.*.vscode-merge-base", Ref, How::Free),
    rule("branch.*.github-pr-owner-number", Line, How::WithSection),
    // Removing a branch removes all its settings.
    rule("branch.*.*", Nothing, How::WithSection),
    rule("branch.autosetupmerge", OneOf(&[Bool, Word(&["always", "inherit", "simple"])]), How::Free),
    rule("branch.sort", SORT, How::Free),
    rule("branch.autosetuprebase", Word(&["never", "local", "remote", "always"]), How::Free),

    // A remote. All its other settings run programs or lead elsewhere.
    rule("remote.*.url", Url, How::Kept),
    rule("remote.*.fetch", Fetch, How::Free),
    rule("remote.*.tagopt", Word(&["--tags", "--no-tags"]), How::Free),
    rule("remote.*.prune", Bool, How::Free),
    rule("remote.*.prunetags", Bool, How::Free),
    rule("remote.*.skipdefaultupdate", Bool, How::Free),
    rule("remote.*.skipfetchall", Bool, How::Free),
    // Any command that needs missing objects fetches them from a promisor, also `git status` in a prompt. With a new
    // address that would send data out of a sandbox without network.
    rule("remote.*.promisor", Bool, How::Established),
    rule("remote.*.partialclonefilter", Filter, How::Established),
    rule("extensions.partialclone", EstablishedRemote, How::Free),
    // A push to a mirror deletes refs there that aren't here.
    rule("remote.*.mirror", Bool, How::Fresh),

    rule("submodule.*.url", Url, How::Once),
    rule("submodule.*.active", Bool, How::Free),
    rule("submodule.*.branch", Ref, How::Free),
    // The other possible value, `!command`, runs a command.
    rule("submodule.*.update", Word(&["checkout", "rebase", "merge", "none"]), How::Free),
    rule("submodule.*.ignore", Word(&["all", "dirty", "untracked", "none"]), How::Free),
    rule("submodule.*.fetchrecursesubmodules", OneOf(&[Bool, Word(&["on-demand"])]), How::Free),
    // Patterns of paths: which submodules count.
    rule("submodule.active", Line, How::Free),
    rule("submodule.recurse", Bool, How::Free),
    // New submodules borrow objects from those of the superproject's own alternate.
    rule("submodule.alternatelocation", Word(&["no", "superproject"]), How::Fresh),
    rule("submodule.alternateerrorstrategy", Word(&["die", "info", "ignore"]), How::Fresh),
    rule("submodule.fetchjobs", Number, How::Free),

    // What `init` finds out about the file system, and the repository's format.
    rule("core.repositoryformatversion", Word(&["0", "1"]), How::Free),
    rule("core.filemode", Bool, How::Free),
    rule("core.bare", Bool, How::Free),
    rule("core.logallrefupdates", BOOL_ALWAYS, How::Free),
    rule("core.ignorecase", Bool, How::Free),
    rule("core.precomposeunicode", Bool, How::Free),
    rule("core.symlinks", Bool, How::Free),
    rule("core.worktree", WorkTree, How::Once),
    rule("core.sparsecheckout", Bool, How::Free),
    rule("core.sparsecheckoutcone", Bool, How::Free),
    // Line ends, display, speed.
    rule("core.autocrlf", OneOf(&[Bool, Word(&["input"])]), How::Free),
    rule("core.eol", Word(&["lf", "crlf", "native"]), How::Free),
    rule("core.safecrlf", OneOf(&[Bool, Word(&["warn"])]), How::Free),
    rule("core.quotepath", Bool, How::Free),
    rule("core.abbrev", OneOf(&[Number, Word(&["auto", "no"])]), How::Free),
    rule("core.compression", Number, How::Free),
    rule("core.loosecompression", Number, How::Free),
    rule("core.bigfilethreshold", Number, How::Free),
    rule("core.commitgraph", Bool, How::Free),
    rule("core.multipackindex", Bool, How::Free),
    rule("core.preloadindex", Bool, How::Free),
    rule("core.untrackedcache", OneOf(&[Bool, Word(&["keep"])]), How::Free),
    rule("core.longpaths", Bool, How::Free),
    rule("core.splitindex", Bool, How::Free),
    rule("splitindex.maxpercentchange", Number, How::Free),
    rule("core.whitespace", Words(&[
        "blank-at-eol", "space-before-tab", "indent-with-non-tab", "tab-in-indent", "blank-at-eof", "trailing-space", "cr-at-eol",
        "tabwidth=1", "tabwidth=2", "tabwidth=3", "tabwidth=4", "tabwidth=8",
    ]), How::Free),

    // An unknown format only makes git refuse the repository. As words: `refStorage` may also be an address.
    // `config.worktree` can't be written from inside, so its content is the user's.
    rule("extensions.objectformat", Word(&["sha1", "sha256"]), How::Free),
    rule("extensions.compatobjectformat", Word(&["sha1", "sha256"]), How::Free),
    rule("extensions.refstorage", Word(&["files", "reftable"]), How::Free),
    rule("extensions.worktreeconfig", Word(&["true"]), How::Stays),
    rule("extensions.relativeworktrees", Bool, How::Free),
    rule("worktree.guessremote", Bool, How::Free),
    rule("worktree.userelativepaths", Bool, How::Free),

    rule("user.name", Line, How::Free),
    rule("user.email", Line, How::Free),

    // git-lfs: its format, how it authenticates to a server, whether the server supports locks.
    rule("lfs.repositoryformatversion", Number, How::Free),
    rule("lfs.*.access", Word(&["none", "basic"]), How::Free),
    rule("lfs.*.locksverify", Bool, How::Free),

    // Housekeeping: it only costs time and disk space.
    rule("gc.auto", Number, How::Free),
    rule("gc.autodetach", Bool, How::Free),
    rule("gc.autopacklimit", Number, How::Free),
    rule("gc.bigpackthreshold", Number, How::Free),
    rule("gc.aggressivedepth", Number, How::Free),
    rule("gc.aggressivewindow", Number, How::Free),
    rule("gc.cruftpacks", Bool, How::Free),
    rule("gc.packrefs", OneOf(&[Bool, Word(&["notbare"])]), How::Free),
    rule("gc.writecommitgraph", Bool, How::Free),
    rule("maintenance.auto", Bool, How::Free),
    rule("maintenance.strategy", Word(&["none", "gc", "geometric", "incremental"]), How::Free),
    rule("pack.compression", Number, How::Free),
    rule("pack.deltacachesize", Number, How::Free),
    rule("pack.depth", Number, How::Free),
    rule("pack.packsizelimit", Number, How::Free),
    rule("pack.threads", Number, How::Free),
    rule("pack.usesparse", Bool, How::Free),
    rule("pack.window", Number, How::Free),
    rule("pack.windowmemory", Number, How::Free),
    rule("pack.writereverseindex", Bool, How::Free),
    rule("index.recordendofindexentries", Bool, How::Free),
    rule("index.recordoffsettable", Bool, How::Free),
    rule("index.sparse", Bool, How::Free),
    rule("index.threads", OneOf(&[Bool, Number]), How::Free),
    rule("index.version", Number, How::Free),

    // Defaults of commands. `push.default = matching` would push every branch.
    rule("fetch.parallel", Number, How::Free),
    rule("fetch.prune", Bool, How::Free),
    rule("fetch.prunetags", Bool, How::Free),
    rule("fetch.writecommitgraph", Bool, How::Free),
    rule("pull.ff", OneOf(&[Bool, Word(&["only"])]), How::Free),
    rule("pull.rebase", OneOf(&[Bool, Word(&["merges", "m"])]), How::Free),
    rule("push.autosetupremote", Bool, How::Free),
    rule("push.default", Word(&["nothing", "current", "upstream", "tracking", "simple"]), How::Free),
    rule("rebase.autosquash", Bool, How::Free),
    rule("rebase.autostash", Bool, How::Free),
    rule("rerere.enabled", Bool, How::Free),
    rule("merge.conflictstyle", Word(&["merge", "diff3", "zdiff3"]), How::Free),
    rule("merge.ff", OneOf(&[Bool, Word(&["only"])]), How::Free),
    rule("merge.renamelimit", Number, How::Free),
    rule("merge.renames", OneOf(&[Bool, Word(&["copies", "copy"])]), How::Free),
    rule("merge.directoryrenames", OneOf(&[Bool, Word(&["conflict"])]), How::Free),
    rule("merge.stat", Bool, How::Free),
    rule("merge.log", OneOf(&[Bool, Number]), How::Free),
    rule("merge.branchdesc", Bool, How::Free),
    rule("checkout.guess", Bool, How::Free),
    rule("am.keepcr", Bool, How::Free),
    rule("am.threeway", Bool, How::Free),
    rule("apply.whitespace", Word(&["nowarn", "warn", "fix", "strip", "error", "error-all"]), How::Free),
    rule("apply.ignorewhitespace", Word(&["no", "none", "never", "false", "change"]), How::Free),
    rule("commit.verbose", OneOf(&[Bool, Number]), How::Free),
    rule("commit.status", Bool, How::Free),
    rule("commit.cleanup", Word(&["strip", "whitespace", "verbatim", "scissors", "default"]), How::Free),
    // The name of the first branch of new repositories.
    rule("init.defaultbranch", Line, How::Free),
    rule("i18n.commitencoding", ENCODING, How::Free),
    rule("i18n.logoutputencoding", ENCODING, How::Free),
    rule("gui.encoding", ENCODING, How::Free),
    rule("diff.algorithm", Word(&["default", "myers", "minimal", "patience", "histogram"]), How::Free),
    rule("diff.colormoved", OneOf(&[Bool, Colour]), How::Free),
    rule("diff.context", Number, How::Free),
    rule("diff.mnemonicprefix", Bool, How::Free),
    rule("diff.noprefix", Bool, How::Free),
    rule("diff.renamelimit", Number, How::Free),
    rule("diff.renames", OneOf(&[Bool, Word(&["copies", "copy"])]), How::Free),
    rule("diff.submodule", Word(&["short", "log", "diff"]), How::Free),
    // Display. A date's own `format:` could print any text.
    rule("log.date", Word(&[
        "relative", "local", "default", "iso", "iso8601", "iso-local", "iso8601-local", "iso-strict", "iso8601-strict",
        "iso-strict-local", "rfc", "rfc2822", "rfc-local", "rfc2822-local", "short", "short-local", "raw", "human", "unix",
        "default-local", "relative-local", "auto:human", "auto:relative", "auto:default", "auto:iso", "auto:short",
    ]), How::Free),
    rule("log.abbrevcommit", Bool, How::Free),
    rule("log.decorate", OneOf(&[Bool, Word(&["short", "full", "auto"])]), How::Free),
    rule("log.follow", Bool, How::Free),
    rule("log.showroot", Bool, How::Free),
    rule("status.aheadbehind", Bool, How::Free),
    rule("status.branch", Bool, How::Free),
    rule("status.displaycommentprefix", Bool, How::Free),
    rule("status.relativepaths", Bool, How::Free),
    rule("status.renamelimit", Number, How::Free),
    rule("status.renames", OneOf(&[Bool, Word(&["copies", "copy"])]), How::Free),
    rule("status.short", Bool, How::Free),
    rule("status.showstash", Bool, How::Free),
    rule("status.submodulesummary", OneOf(&[Bool, Number]), How::Free),
    rule("column.ui", COLUMNS, How::Free),
    rule("column.branch", COLUMNS, How::Free),
    rule("column.clean", COLUMNS, How::Free),
    rule("column.status", COLUMNS, How::Free),
    rule("column.tag", COLUMNS, How::Free),
    rule("tag.sort", SORT, How::Free),
    rule("versionsort.suffix", Line, How::Free),
    rule("versionsort.prereleasesuffix", Line, How::Free),
    rule("advice.*", Bool, How::Free),
    rule("color.*", OneOf(&[Bool, Colour]), How::Free),
    rule("color.*.*", OneOf(&[Bool, Colour]), How::Free),
];

const RUNS: &str = "git runs what it names";
const READS: &str = "more configuration would be read from elsewhere";
const LEADS: &str = "it says where data goes or comes from";
const WEAKENS: &str = "it could turn a check off";
const SIGNS: &str = "it decides what is signed and with which key";
const KEYS: &str = "it decides which program gets passwords and keys";
const HIDES: &str = "it could hide changes from the user";
const UNLISTED: &str = "it isn't among the settings that may be changed from inside";

/// Why other settings may not change. Only messages use it: every unlisted setting is refused.
#[rustfmt::skip]
pub(super) const REFUSED: &[(&str, &str)] = &[
    ("include.**", READS), ("includeif.**", READS),

    // Settings that run programs.
    ("alias.**", RUNS), ("browser.**", RUNS), ("difftool.**", RUNS), ("filter.**", RUNS),
    ("guitool.**", RUNS), ("hook.**", RUNS), ("instaweb.**", RUNS), ("man.**", RUNS),
    ("mergetool.**", RUNS), ("pager.**", RUNS), ("trailer.**", RUNS), ("web.**", RUNS),
    ("core.alternaterefscommand", RUNS), ("core.askpass", RUNS), ("core.editor", RUNS),
    ("core.fsmonitor", RUNS), ("core.fsmonitorhookversion", RUNS), ("core.gitproxy", RUNS),
    ("core.hookspath", RUNS), ("core.pager", RUNS), ("core.sshcommand", RUNS),
    ("core.virtualfilesystem", RUNS), // Microsoft's git
    ("ssh.variant", RUNS), // which arguments ssh is given
    ("diff.external", RUNS), ("diff.tool", RUNS), ("diff.guitool", RUNS), ("diff.*.*", RUNS),
    ("merge.tool", RUNS), ("merge.guitool", RUNS), ("merge.*.*", RUNS),
    ("pull.twohead", RUNS), ("pull.octopus", RUNS), // strategy X is the program git-merge-X
    ("gc.recentobjectshook", RUNS), ("help.browser", RUNS), ("init.templatedir", RUNS),
    ("interactive.difffilter", RUNS), ("sequence.editor", RUNS), ("imap.**", RUNS),
    ("rebase.instructionformat", RUNS), // a line break in it makes an `exec` of its own
    ("sendemail.**", RUNS), ("tar.*.command", RUNS), ("uploadpack.**", RUNS),
    ("remote.*.receivepack", RUNS), ("remote.*.uploadpack", RUNS), ("remote.*.vcs", RUNS),
    ("lfs.*.*", RUNS), ("svn-remote.**", LEADS),

    // Settings that determine where data goes.
    ("core.notesref", HIDES), ("extensions.submodulepathconfig", LEADS),
    ("submodule.*.gitdir", LEADS),
    ("fetch.bundleuri", LEADS), ("bundle.**", LEADS), ("transfer.bundleuri", LEADS),
    ("gc.repackfilterto", LEADS), ("http.**", LEADS), ("trace2.**", LEADS), ("url.**", LEADS),
    ("fsmonitor.**", LEADS), ("promisor.**", LEADS), ("lfs.**", LEADS),
    ("push.followtags", LEADS), ("push.pushoption", LEADS),
    ("push.recursesubmodules", LEADS), ("remote.pushdefault", LEADS), ("remote.*.push", LEADS),
    ("remote.*.pushurl", LEADS), ("remote.*.proxy", LEADS), ("remote.*.proxyauthmethod", LEADS),
    ("remote.*.serveroption", LEADS), ("remotes.**", LEADS), ("checkout.defaultremote", LEADS),

    // Credentials and signatures.
    ("credential.**", KEYS), ("credentialcache.**", KEYS), ("credentialstore.**", KEYS),
    ("commit.gpgsign", SIGNS), ("gpg.**", SIGNS), ("push.gpgsign", SIGNS), ("tag.gpgsign", SIGNS),
    ("tag.forcesignannotated", SIGNS), ("user.signingkey", SIGNS), ("format.signoff", SIGNS),

    // Settings that weaken checks.
    ("core.sharedrepository", "it could let other users write the files that git makes"),
    ("core.protecthfs", WEAKENS), ("core.protectntfs", WEAKENS), ("core.fsync", WEAKENS),
    ("core.fsyncmethod", WEAKENS), ("core.fsyncobjectfiles", WEAKENS),
    ("extensions.preciousobjects", WEAKENS), ("fetch.*.*", WEAKENS),
    ("fetch.fsckobjects", WEAKENS), ("fsck.**", WEAKENS), ("merge.verifysignatures", WEAKENS),
    ("protocol.**", WEAKENS), ("push.useforceifincludes", WEAKENS), ("receive.**", WEAKENS),
    ("safe.**", WEAKENS), ("sideband.**", WEAKENS), ("transfer.**", WEAKENS),
    ("uploadarchive.**", WEAKENS), ("uploadpackfilter.**", WEAKENS), ("index.skiphash", WEAKENS),
    ("clean.requireforce", WEAKENS),

    // Settings that change what the user sees.
    ("attr.tree", HIDES), ("blame.ignorerevsfile", HIDES), ("core.attributesfile", HIDES),
    ("core.checkstat", HIDES), ("core.excludesfile", HIDES), ("core.ignorestat", HIDES),
    ("core.trustctime", HIDES), ("core.usereplacerefs", HIDES), ("diff.ignoresubmodules", HIDES),
    ("diff.orderfile", HIDES), ("log.excludedecoration", HIDES), ("mailmap.**", HIDES),
    ("rerere.autoupdate", HIDES), ("status.showuntrackedfiles", HIDES),
];

/// The entry for a name in the lists.
pub(super) enum KeyStatus {
    /// It may change, under these conditions.
    Listed(&'static Rule),
    /// It may not, and why.
    Refused(&'static str),
}

/// Looks a name up in the lists.
pub(super) fn status(name: &Name) -> KeyStatus {
    if let Some(rule) = LISTED.iter().find(|rule| matches(rule.name, name)) {
        return KeyStatus::Listed(rule);
    }
    let reason = REFUSED.iter().find(|(pattern, _)| matches(pattern, name)).map(|(_, reason)| *reason);
    KeyStatus::Refused(reason.unwrap_or(UNLISTED))
}

fn matches(pattern: &str, name: &Name) -> bool {
    let rest = pattern.strip_prefix(name.section.as_str()).and_then(|rest| rest.strip_prefix('.'));
    let key = match (rest, &name.subsection) {
        (None, _) => return false,
        (Some("**"), _) => return true,
        (Some(key), None) if !key.contains('.') => key,
        (Some(rest), Some(_)) => match rest.strip_prefix("*.") {
            Some(key) => key,
            None => return false,
        },
        (Some(_), None) => return false,
    };
    key == "*" || key == name.key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_in_lower_case_and_of_the_three_forms() {
        let names = LISTED.iter().map(|rule| rule.name).chain(REFUSED.iter().map(|(name, _)| *name));
        for name in names {
            let parts: Vec<&str> = name.split('.').collect();
            assert_eq!(name, name.to_ascii_lowercase());
            assert!(
                parts.len() == 2 || (parts.len() == 3 && parts[1] == "*" && parts[2] != "**"),
                "{name} names nothing"
            );
        }
    }

    #[test]
    fn nothing_is_both() {
        for rule in LISTED {
            for (refused, _) in REFUSED {
                let general = refused.ends_with(".*") || refused.ends_with("**");
                assert!(rule.name != *refused || general, "{refused}");
            }
        }
    }
}
