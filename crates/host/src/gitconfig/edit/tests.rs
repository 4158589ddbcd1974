// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests with changes that git and people make, and with those of a program that tries to gain rights.

use super::*;

const USERS: &str = r#"[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	hooksPath = /home/ann/hooks
[include]
	path = /home/ann/work.gitconfig
[remote "origin"]
	url = git@example.org:ann/x.git
	pushurl = git@example.org:ann/y.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
	remote = origin
	merge = refs/heads/main
	mergeOptions = --no-ff
[commit]
	gpgSign = true
[submodule "lib"]
	url = https://example.org/lib
	active = true
	update = !make
[credential "https://TOKEN@example.org"]
	helper = store
"#;

fn place() -> Place<'static> {
    Place { git_directory: Path::new("/w/.git"), work_tree_top: Path::new("/w") }
}

fn refusal(old: &str, new: &str) -> Option<Refusal> {
    judge(Some(old.as_bytes()), new.as_bytes(), &place()).err()
}

/// The refusal of the user's file with this text appended.
fn added(text: &str) -> Option<Refusal> {
    refusal(USERS, &format!("{USERS}{text}"))
}

/// The refusal of the user's file with one text replaced by another.
fn replaced(from: &str, to: &str) -> Option<Refusal> {
    assert!(USERS.contains(from), "{from}");
    refusal(USERS, &USERS.replace(from, to))
}

#[track_caller]
fn fine(refusal: Option<Refusal>) {
    assert_eq!(refusal, None);
}

#[track_caller]
fn refused(refusal: Option<Refusal>, key: &str) {
    assert_eq!(refusal.expect("this must be refused").key, key);
}

#[test]
fn what_git_does_every_day() {
    fine(added("[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/x\n"));
    fine(added("[branch \"x\"]\n\tremote = .\n\tmerge = refs/heads/main\n\trebase = true\n"));
    fine(added("[branch \"x\"]\n\tremote = origin\n\tpushRemote = origin\n\tdescription = one\\ntwo\n"));
    fine(added(
        "[remote \"fork\"]\n\turl = https://example.org/f\n\tfetch = +refs/heads/*:refs/remotes/fork/*\n",
    ));
    fine(added("[submodule \"new\"]\n\turl = https://example.org/new\n\tactive = true\n\tupdate = merge\n"));
    fine(added("[extensions]\n\tworktreeConfig = true\n"));
    fine(added("[user]\n\tname = Ann\n\temail = ann@example.org\n"));
    fine(added("[lfs \"https://example.org/x.git/info/lfs\"]\n\taccess = basic\n\tlocksverify = false\n"));
    fine(added(
        "[color]\n\tui = auto\n[color \"diff\"]\n\tmeta = bold yellow\n[advice]\n\tdetachedHead = false\n",
    ));
    fine(added("[core]\n\tautocrlf = input\n"));
    fine(added("# a comment\n\n"));
    fine(replaced("repositoryformatversion = 0", "repositoryformatversion = 1"));
    fine(replaced("merge = refs/heads/main", "merge = refs/heads/dev"));
}

#[test]
fn how_things_are_shown_may_change_and_what_runs_beside_it_not() {
    for text in [
        "[init]\n\tdefaultBranch = trunk\n",
        "[merge]\n\trenames = copies\n\tstat = false\n",
        "[log]\n\tdate = iso-strict\n\tdecorate = full\n",
        "[status]\n\trelativePaths = false\n\tsubmoduleSummary = 2\n\tshort\n",
        "[column]\n\tui = always,row dense\n\ttag = never\n",
        "[tag]\n\tsort = -version:refname\n[branch]\n\tsort = committerdate\n[versionsort]\n\tsuffix = -rc\n",
        "[commit]\n\tverbose = 2\n\tcleanup = scissors\n",
        "[core]\n\twhitespace = -blank-at-eol,cr-at-eol,tabwidth=4\n\tsplitIndex = true\n",
        "[i18n]\n\tcommitEncoding = ISO-8859-1\n\tlogOutputEncoding = eucJP\n",
        "[am]\n\tkeepcr = true\n[apply]\n\twhitespace = fix\n[checkout]\n\tguess = no\n",
    ] {
        fine(added(text));
    }
    refused(added("[init]\n\ttemplateDir = /w/t\n"), "init.templatedir");
    refused(added("[log]\n\tdate = format:%n\n"), "log.date");
    refused(added("[status]\n\tshowUntrackedFiles = no\n"), "status.showuntrackedfiles");
    refused(added("[tag]\n\tsort = signature\n"), "tag.sort");
    refused(added("[tag]\n\tsort = %(signature)\n"), "tag.sort");
    refused(added("[i18n]\n\tcommitEncoding = ../../w/x\n"), "i18n.commitencoding");
    refused(added("[column]\n\tui = always !x\n"), "column.ui");
    refused(added("[commit]\n\ttemplate = /w/x\n"), "commit.template");
    refused(added("[submodule]\n\talternateLocation = superproject\n"), "submodule.alternatelocation");
    fine(judge(None, b"[submodule]\n\talternateLocation = superproject\n", &place()).err());
}

/// A refusal names all settings that have to be left out, so that one attempt is enough to learn them.
#[test]
fn a_refusal_names_what_else_would_be_refused() {
    let found =
        added("[alias]\n\tx = !y\n[core]\n\tpager = z\n\tautocrlf = maybe\n\tquotePath = no\n").unwrap();
    assert_eq!(
        (found.key.as_str(), &found.also),
        ("alias.x", &vec!["core.autocrlf".into(), "core.pager".into()])
    );
    assert!(
        found.to_string().ends_with("git runs what it names; also refused: core.autocrlf, core.pager"),
        "{found}"
    );
    let many: String = (0..20).map(|number| format!("[alias]\n\tx{number} = !y\n")).collect();
    let found = added(&many).unwrap().to_string();
    assert!(found.ends_with(", and 11 more") && found.matches("alias.").count() == 9, "{found}");
}

#[test]
fn what_goes() {
    let branch =
        "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n\tmergeOptions = --no-ff\n";
    fine(replaced(branch, ""));
    fine(replaced("\tmergeOptions = --no-ff\n", ""));
    let lib = "[submodule \"lib\"]\n\turl = https://example.org/lib\n\tactive = true\n\tupdate = !make\n";
    fine(replaced(lib, ""));
    refused(replaced("\thooksPath = /home/ann/hooks\n", ""), "core.hookspath");
    refused(replaced("[commit]\n\tgpgSign = true\n", ""), "commit.gpgsign");
    refused(replaced("\turl = git@example.org:ann/x.git\n", ""), "remote.origin.url");
    refused(replaced("\tpushurl = git@example.org:ann/y.git\n", ""), "remote.origin.pushurl");
    refused(refusal(USERS, ""), "commit.gpgsign");
    let extension = "[extensions]\n\tworktreeConfig = true\n";
    refused(refusal(extension, ""), "extensions.worktreeconfig");
    refused(refusal(extension, &extension.replace("true", "false")), "extensions.worktreeconfig");
}

#[test]
fn what_is_there_may_stay_but_not_change() {
    fine(refusal(USERS, USERS));
    fine(replaced("[credential", "\n; a comment\n[credential"));
    refused(replaced("/home/ann/hooks", "/w/hooks"), "core.hookspath");
    refused(replaced("ann/x.git", "eve/x.git"), "remote.origin.url");
    refused(replaced("\tfetch", "\turl = https://evil.example/x\n\tfetch"), "remote.origin.url");
    refused(replaced("\tremote = origin", "\tremote = ."), "branch.main.remote");
    refused(replaced("\tmerge =", "\tpushRemote = origin\n\tmerge ="), "branch.main.pushremote");
    refused(replaced("gpgSign = true", "gpgSign = false"), "commit.gpgsign");
    refused(replaced("example.org/lib", "example.org/bil"), "submodule.lib.url");
    refused(replaced("!make", "!make all"), "submodule.lib.update");
    refused(replaced("--no-ff", "--strategy=x"), "branch.main.mergeoptions");
    refused(replaced("helper = store", "helper = other"), "credential.*.helper");
    fine(replaced("!make", "none"));
}

#[test]
fn their_order_stays_too() {
    let include = "[include]\n\tpath = /home/ann/work.gitconfig\n";
    let new = format!("{include}{}", USERS.replace(include, ""));
    let refusal = refusal(USERS, &new).expect("hooksPath would override what is included");
    assert_eq!(refusal.change, Change::Changed);
    let remote = "[remote \"origin\"]\n\turl = git@example.org:ann/x.git\n";
    fine(replaced(remote, &format!("[user]\n\tname = Ann\n{remote}")));
}

#[test]
fn what_runs_or_leads_elsewhere() {
    for (text, key) in [
        ("[core]\n\tfsmonitor = x\n", "core.fsmonitor"),
        ("[core]\n\tfsmonitor\n", "core.fsmonitor"),
        ("[Core]\n\tSSHCommand = x\n", "core.sshcommand"),
        ("[alias]\n\tstatus = !x\n", "alias.status"),
        ("[alias \"st\"]\n\tcommand = !x\n", "alias.st.command"),
        ("[hook \"x\"]\n\tcommand = x\n", "hook.x.command"),
        ("[filter \"lfs\"]\n\tclean = x\n", "filter.lfs.clean"),
        ("[diff \"x\"]\n\ttextconv = x\n", "diff.x.textconv"),
        ("[merge \"x\"]\n\tdriver = x\n", "merge.x.driver"),
        ("[includeIf \"gitdir:/\"]\n\tpath = x\n", "includeif.gitdir:/.path"),
        ("[url \"https://u:TOKEN@evil.example/\"]\n\tinsteadOf = https://\n", "url.*.insteadof"),
        ("[remote]\n\tpushDefault = fork\n", "remote.pushdefault"),
        ("[remote \"origin\"]\n\tuploadpack = x\n", "remote.origin.uploadpack"),
        ("[remote \"n\"]\n\turl = ext::sh -c x\n", "remote.n.url"),
        ("[remote \"n\"]\n\turl = /w/n.git\n", "remote.n.url"),
        ("[remote \"n\"]\n\turl =\n", "remote.n.url"),
        ("[remote \"n\"]\n\turl\n", "remote.n.url"),
        ("[remote \"n\"]\n\tmirror = true\n", "remote.n.mirror"),
        ("[remote \".\"]\n\turl = https://evil.example/\n", "remote...url"),
        ("[remote \"https://github.com\"]\n\turl = https://evil.example/\n", "remote.*.url"),
        ("[remote \"origin\"]\n\tfetch = +refs/heads/*:refs/heads/*\n", "remote.origin.fetch"),
        ("[remote \"n\"]\n\turl = https://e.example/x\n\tpromisor = true\n", "remote.n.promisor"),
        ("[extensions]\n\tpartialClone = n\n", "extensions.partialclone"),
        ("[extensions]\n\trefStorage = reftable:///tmp/x\n", "extensions.refstorage"),
        ("[branch \"x\"]\n\tremote = https://evil.example/\n", "branch.x.remote"),
        ("[branch \"x\"]\n\tremote = fork\n", "branch.x.remote"),
        ("[branch \"x\"]\n\tmergeOptions = --strategy=x\n", "branch.x.mergeoptions"),
        ("[branch \"\"]\n\tmerge = x\n", "branch..merge"),
        ("[submodule \"n\"]\n\tupdate = !x\n", "submodule.n.update"),
        ("[submodule \"../n\"]\n\tactive = true\n", "submodule.../n.active"),
        ("[core]\n\tworktree = ../link\n", "core.worktree"),
        ("[push]\n\tdefault = matching\n", "push.default"),
        ("[gc]\n\trecentObjectsHook = true\n", "gc.recentobjectshook"),
        ("[gc]\n\tauto = x\n", "gc.auto"),
        ("[unheard]\n\tof = x\n", "unheard.of"),
    ] {
        refused(added(text), key);
    }
}

#[test]
fn git_knows_more_promisors_of_the_users_remotes() {
    let filter = "\tpartialclonefilter = blob:none\n";
    fine(added(&format!(
        "[remote \"origin\"]\n\tpromisor = true\n{filter}[extensions]\n\tpartialClone = origin\n"
    )));
}

#[test]
fn a_repository_made_inside() {
    let fresh = |text: &str| judge(None, text.as_bytes(), &place()).err();
    fine(fresh(
        "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = /w/x.git\n[branch \"m\"]\n\tremote = origin\n",
    ));
    fine(fresh("[remote \"o\"]\n\turl = ../x\n\tfetch = +refs/*:refs/*\n\tmirror = true\n"));
    fine(fresh(
        "[remote \"o\"]\n\turl = https://e.example/\n\tpromisor = true\n[extensions]\n\tpartialClone = o\n",
    ));
    refused(fresh("[core]\n\thooksPath = x\n"), "core.hookspath");
    refused(fresh("[core]\n\tworktree = ../..\n"), "core.worktree");
    refused(fresh("[remote \"o\"]\n\turl = ext::x\n"), "remote.o.url");
}

/// Without the rule on how lines are written: the settings' meaning alone is refused.
#[test]
fn however_it_is_written() {
    for text in [
        "[CORE]HOOKSPATH=x",
        "[core] ; [user]\n hooksPath \t= \"\"x",
        "[core]\r\nhooksPath=x\r\n",
        "\u{feff}[core]\nhooksPath=x",
        "[user]\nname = a \\\n[core]\n[core]\nhooksPath=x",
        "[user]\nname = \"a ; \\\n\"\n[core] hooksPath=\\\nx",
        "# \\\n[core]\nhooksPath=x",
        "[core]\nhooksPath",
        "[filter.x \"y\"]\nclean=x",
        "[filter.x]\nclean=x",
        "[branch \"a\"] remote=.\n[include]path=x",
    ] {
        let refusal = judge_settings(None, text.as_bytes(), &place()).expect_err(text);
        assert!(
            refusal.key.ends_with("hookspath")
                || refusal.key.ends_with("clean")
                || refusal.key.ends_with("path")
        );
    }
}

#[test]
fn names_are_gits_own() {
    let old = "[branch.a \"B.c\"]\n\tmerge = refs/heads/x\n\tmergeOptions = x\n";
    fine(refusal(old, "[branch \"a.B.c\"]\n\tmerge = refs/heads/x\n\tmergeOptions = x\n"));
    refused(
        refusal(old, "[branch \"a.b.c\"]\n\tmerge = refs/heads/x\n\tmergeOptions = x\n"),
        "branch.a.b.c.mergeoptions",
    );
}

#[test]
fn texts_that_are_not_judged_further() {
    let refusal_of = |old: Option<&[u8]>, new: &[u8]| judge(old, new, &place()).unwrap_err().to_string();
    assert_eq!(refusal_of(None, &vec![b'#'; CAP + 1]), "the configuration is larger than 1 MiB");
    assert_eq!(refusal_of(None, b"[user]\n\tname = a\0\n"), "the configuration has a NUL byte");
    assert_eq!(
        refusal_of(None, b"[user]\n\tname = a\\\n"),
        "line 2: a new line isn't written the way git writes it"
    );
    assert_eq!(refusal_of(Some(b"[x"), b""), "line 1: the previous configuration can't be read");
    assert_eq!(
        refusal_of(Some(b"[user]\n1 = 2\n"), b"[user]\n"),
        "line 2: the previous configuration can't be read"
    );
}

#[test]
fn a_refusal_is_one_harmless_line() {
    let text = "[branch \"a\u{202e}\u{9b}1m\"]\n\tmergeOptions = x\n";
    let refusal = judge(None, text.as_bytes(), &place()).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "line 2: branch.a\\u{202e}\\u{9b}1m.mergeoptions = …: it isn't among the settings that may be changed from inside"
    );
    let removed = refusal_of_removal();
    assert_eq!(removed.to_string(), "core.hookspath (line 5) removed: git runs what it names");
}

fn refusal_of_removal() -> Refusal {
    replaced("\thooksPath = /home/ann/hooks\n", "").unwrap()
}

/// The judgement isn't quadratic: that would take minutes.
#[test]
fn large_files() {
    let branch = |n: usize| format!("[branch \"b{n}\"]\n\tremote = .\n\tmerge = refs/heads/m\n");
    let branches: String = (0..CAP / 60).map(branch).collect();
    let keys = "[x]\ny\n".repeat(CAP / 6);
    let start = std::time::Instant::now();
    fine(judge(None, branches.as_bytes(), &place()).err());
    refused(judge(Some(keys.as_bytes()), branches.as_bytes(), &place()).err(), "x.y");
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}
