// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade setup` on a kernel with AppArmor that refuses user namespaces, in both forms: the namespace isn't made, or it
//! is made and its capabilities are refused.
//!
//! Ubuntu's kernels do this to every program without a profile. Others have no such setting, and the same rules: here a
//! profile of the user's session refuses the one or the other, and lets programs that have a profile change to it.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::mount::MountFlags;

use crate::archive::PALISADE;
use crate::scenario::{Result, ensure, report};
use crate::scope::Ended;

const HOME: &str = "/home/user";
const USER: u32 = 1000;
const PARSER: &str = "/usr/sbin/apparmor_parser";
const SUDO: &str = "/usr/bin/sudo";
/// The user's own program, which the user can write.
const OWN: &str = "/home/user/bin/palisade";
const COPY: &str = "/usr/local/bin/palisade";
const PACKAGED: &str = "/etc/apparmor.d/palisade";
const COPIED: &str = "/etc/apparmor.d/palisade-usr.local.bin.palisade";

/// A session's profile, as `unprivileged_userns` of Ubuntu: everything but what `rules` leave out. `p`: a program's own
/// profile comes first. Only a program that root runs leaves the session, as `sudo` does.
fn session(name: &str, rules: &str) -> String {
    format!(
        "abi <abi/4.0>,\nprofile {name} flags=(attach_disconnected,mediate_deleted) {{\n\
         allow file rwlkm /{{**,}},\nallow pix /**,\nallow {SUDO} Ux,\nallow network,\nallow unix,\nallow ptrace,\n\
         allow signal,\nallow mqueue,\nallow io_uring,\nallow mount,\nallow umount,\nallow pivot_root,\nallow dbus,\n\
         allow change_profile,\n{rules}}}\n"
    )
}

/// The sessions of both forms, and what is said of each.
const FORMS: [(&str, &str, &str); 2] = [
    (
        "no-namespaces",
        "allow capability,\n",
        "AppArmor's profile no-namespaces (enforce) refuses user namespaces",
    ),
    (
        "no-capabilities",
        "allow userns,\naudit deny capability,\n",
        "AppArmor's profile no-capabilities (enforce) refuses capabilities in user namespaces",
    ),
];

pub(crate) fn all() {
    report("setup-is-prepared", || prepare().map_err(|error| error.to_string()));
    report("setup-where-nothing-is-refused-changes-nothing", nothing_is_needed);
    report("setup-names-the-setting-of-debian", || {
        let setting = "/proc/sys/kernel/unprivileged_userns_clone";
        fs::write(setting, "0").map_err(|error| format!("{setting}: {error}"))?;
        let told =
            (user(None, &[PALISADE, "run", "--", PALISADE, "--version"]), user(None, &[PALISADE, "setup"]));
        let in_place = goes_on(None);
        fs::write(setting, "1").map_err(|error| format!("{setting}: {error}"))?;
        in_place?;
        for ended in [told.0?, told.1?] {
            let said = ended.err.contains("kernel.unprivileged_userns_clone is 0")
                && ended.err.contains("hint: sudo sysctl -w kernel.unprivileged_userns_clone=1");
            ensure(ended.code != Some(0) && said, format!("{ended:?}"))?;
        }
        works(None, PALISADE)
    });
    for (name, rules, words) in FORMS {
        let text = session(name, rules);
        report(&format!("setup-{name}-is-named"), || is_named(name, &text, words));
        report(&format!("setup-{name}-by-root"), || by_root(name));
        report(&format!("setup-{name}-by-the-user-with-a-copy"), || by_the_user(name));
    }
    report("setup-that-does-not-help-is-told", no_help);
    report("setup-keeps-what-others-wrote", others);
    report("setup-lets-nested-sandboxes-work-where-they-are-allowed", nested);
    crate::yama::ancestors();
    crate::yama::all();
}

fn prepare() -> io::Result<()> {
    for directory in ["/etc/apparmor.d", "/usr/local/bin", "/home/user/bin", "/home/user/work", "/bin"] {
        fs::create_dir_all(directory)?;
    }
    rustix::mount::mount(
        "securityfs",
        "/sys/kernel/security",
        "securityfs",
        MountFlags::empty(),
        None::<&CStr>,
    )
    .or_else(|errno| if errno == rustix::io::Errno::BUSY { Ok(()) } else { Err(errno) })?;
    fs::write("/etc/passwd", format!("root:x:0:0::/:/bin/sh\nuser:x:{USER}:{USER}::{HOME}:/bin/sh\n"))?;
    fs::write("/etc/group", format!("root:x:0:\nuser:x:{USER}:\n"))?;
    for program in [PARSER, SUDO] {
        fs::copy("/init", program)?;
    }
    fs::set_permissions(SUDO, fs::Permissions::from_mode(0o4755))?;
    fs::copy(PALISADE, OWN)?;
    for path in [HOME, "/home/user/bin", "/home/user/work", OWN] {
        chown(path, Some(USER), Some(USER))?;
    }
    Ok(())
}

/// Stands in for `sudo`: the rest of the line, as root.
pub(crate) fn sudo(arguments: &[String]) -> io::Error {
    let words: Vec<&String> = arguments.iter().skip_while(|word| *word == "--").collect();
    let Some((program, words)) = words.split_first() else { return io::Error::other("no command") };
    let user = rustix::process::getuid().as_raw();
    let root = rustix::process::Uid::ROOT;
    if let Err(errno) = rustix::thread::set_thread_res_uid(root, root, root) {
        return errno.into();
    }
    Command::new(program)
        .args(words)
        .env("SUDO_UID", user.to_string())
        .env("SUDO_GID", user.to_string())
        .exec()
}

/// Runs a command of the user's, in a session with this profile.
pub(crate) fn user(session: Option<&str>, words: &[&str]) -> Result<Ended> {
    let mut command = Command::new("/init");
    command.args(["act", "become"]).args(words);
    command.uid(USER).gid(USER).current_dir("/home/user/work").env_clear();
    command.env("HOME", HOME).env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let next = session.map(|session| format!("exec {session}"));
    let change = move || match &next {
        Some(next) => fs::write("/proc/thread-self/attr/apparmor/exec", next),
        None => Ok(()),
    };
    // SAFETY: needed to change the profile between fork and exec. Sound: no other thread of this process holds a lock.
    unsafe { command.pre_exec(change) };
    ended(&mut command)
}

fn root(words: &[&str]) -> Result<Ended> {
    let mut command = Command::new(words[0]);
    ended(command.args(&words[1..]).env("SUDO_UID", USER.to_string()).env("SUDO_GID", USER.to_string()))
}

fn ended(command: &mut Command) -> Result<Ended> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    Ok(Ended {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

fn works(session: Option<&str>, program: &str) -> Result {
    let ended = user(session, &[program, "run", "--", PALISADE, "--version"])?;
    ensure(ended.code == Some(0) && ended.out.starts_with("palisade "), format!("{program}: {ended:?}"))
}

fn refused(session: &str, program: &str) -> Result {
    let ended = user(Some(session), &[program, "run", "--", PALISADE, "--version"])?;
    let told = ended.err.contains("AppArmor") && ended.err.contains("hint: palisade setup ");
    ensure(ended.code == Some(125) && told, format!("{program}: {ended:?}"))
}

/// A start of `palisade bwrap`, with a namespace that has a device of its own, or without.
fn bwrap(session: &str, options: &[&str]) -> Result<Ended> {
    let words = [&[PALISADE, "bwrap"], options, &["--ro-bind", "/", "/", PALISADE, "--version"]].concat();
    user(Some(session), &words)
}

/// bubblewrap's words come first, then the reason and the command that removes it.
fn bwrap_is_refused(session: &str, reason: &str) -> Result {
    for options in [&[][..], &["--unshare-net"], &["--unshare-pid", "--proc", "/proc"]] {
        let ended = bwrap(session, options)?;
        let lines: Vec<&str> = ended.err.lines().collect();
        let told = matches!(lines[..], [first, second, third]
            if first.starts_with("bwrap: ")
                && second == format!("palisade: note: this host refuses user namespaces: {reason}")
                && third.starts_with("hint: palisade setup "));
        ensure(ended.code == Some(1) && told, format!("{options:?}: {ended:?}"))?;
    }
    Ok(())
}

/// With `--best-effort` a launch has the guarantees that Landlock and the filter give.
fn goes_on(session: Option<&str>) -> Result {
    let words = [PALISADE, "run", "--best-effort", "--status-fd", "2", "--", PALISADE, "--version"];
    let ended = user(session, &words)?;
    let told = [r#""hidden":null"#, r#""unchanged":"Landlock""#, r#""no-network":"no sockets""#];
    let held = told.iter().all(|guarantee| ended.err.contains(guarantee));
    ensure(ended.code == Some(0) && ended.out.starts_with("palisade ") && held, format!("{ended:?}"))
}

fn done(ended: &Ended) -> Result {
    ensure(ended.code == Some(0), format!("{ended:?}"))
}

/// No file of the verb's, and no profile of the verb's in the kernel.
fn nothing_is_left() -> Result {
    let list =
        fs::read_to_string("/sys/kernel/security/apparmor/profiles").map_err(|error| error.to_string())?;
    let loaded = list.lines().find(|line| line.starts_with("palisade"));
    ensure(loaded.is_none(), format!("loaded: {loaded:?}"))?;
    for directory in ["/etc/apparmor.d", "/usr/local/bin"] {
        for entry in fs::read_dir(directory).map_err(|error| error.to_string())?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            ensure(name == "abi", format!("{directory}/{name} is left"))?;
        }
    }
    Ok(())
}

/// Has the kernel know a profile.
fn load(text: &str) -> Result {
    fs::write("/work/profile", text).map_err(|error| error.to_string())?;
    done(&root(&[PARSER, "--replace", "--skip-cache", "/work/profile"])?)
}

fn nothing_is_needed() -> Result {
    works(None, PALISADE)?;
    for ended in [user(None, &[PALISADE, "setup"])?, root(&[PALISADE, "setup", "--yes"])?] {
        ensure(ended.code == Some(0) && ended.out.contains("nothing is needed"), format!("{ended:?}"))?;
    }
    nothing_is_left()
}

/// A launch, `doctor` and `setup` name the form, and the same command.
fn is_named(session: &str, text: &str, words: &str) -> Result {
    load(text)?;
    refused(session, PALISADE)?;
    let launch = user(Some(session), &[PALISADE, "run", "--", PALISADE, "--version"])?;
    ensure(launch.err.contains(words), format!("{launch:?}"))?;
    bwrap_is_refused(session, words)?;
    goes_on(Some(session))?;
    let doctor = user(Some(session), &[PALISADE, "doctor"])?;
    let told = doctor.out.contains(words) && doctor.out.contains("to do: palisade setup ");
    ensure(doctor.code == Some(1) && told, format!("{doctor:?}"))?;
    let check = user(Some(session), &[PALISADE, "setup", "--check"])?;
    ensure(check.code == Some(1) && check.out.contains(words), format!("{check:?}"))?;
    let dry = user(Some(session), &[PALISADE, "setup", "--dry-run"])?;
    let shown = dry.out.contains(PACKAGED) && dry.out.contains("| profile palisade /usr/bin/palisade ");
    ensure(dry.code == Some(0) && shown, format!("{dry:?}"))?;
    let alone = user(Some(session), &[PALISADE, "setup"])?;
    let asked = alone.err.contains("there is no terminal to ask on");
    ensure(alone.code == Some(2) && asked, format!("{alone:?}"))?;
    nothing_is_left()
}

/// The user of a package: the profile is for the program's own path.
fn by_root(session: &str) -> Result {
    refused(session, PALISADE)?;
    let set = user(Some(session), &[PALISADE, "setup", "--yes"])?;
    done(&set)?;
    works(Some(session), PALISADE)?;
    for options in [&[][..], &["--unshare-net"]] {
        let started = bwrap(session, options)?;
        ensure(started.code == Some(0) && started.err.is_empty(), format!("{options:?}: {started:?}"))?;
    }
    refused(session, OWN)?;
    let again = user(Some(session), &[PALISADE, "setup", "--yes"])?;
    ensure(again.out.contains("nothing is needed"), format!("{again:?}"))?;
    done(&root(&[PALISADE, "setup", "--undo", "--yes"])?)?;
    nothing_is_left()?;
    refused(session, PALISADE)?;
    let none = root(&[PALISADE, "setup", "--undo", "--yes"])?;
    ensure(none.code == Some(1), format!("{none:?}"))
}

/// A program that the user can write gets no profile. Its copy does.
fn by_the_user(session: &str) -> Result {
    let set = user(Some(session), &[OWN, "setup", "--yes"])?;
    done(&set)?;
    let told = set.out.contains("others than root can write to /home/user/bin/palisade");
    ensure(told, format!("{set:?}"))?;
    works(Some(session), COPY)?;
    refused(session, OWN)?;
    let text = fs::read_to_string(COPIED).map_err(|error| format!("{COPIED}: {error}"))?;
    ensure(!text.contains(OWN), text)?;
    let found = fs::metadata(COPY).map_err(|error| format!("{COPY}: {error}"))?;
    let mode = found.permissions().mode() & 0o7777;
    ensure(mode == 0o755, format!("{mode:o}"))?;
    // The copy is this verb's own, so another setup replaces it. `palisade self` prints the commands.
    let own = described(session, OWN)?;
    let renews = format!("{OWN} setup --yes");
    ensure(own.update.contains(&renews), format!("{own:?}"))?;
    command(session, &renews)?;
    works(Some(session), COPY)?;
    let copy = described(session, COPY)?;
    let by = "by palisade setup, as a copy that only root can write, with the profile";
    ensure(copy.installed.starts_with(by), format!("{copy:?}"))?;
    for described in [own, copy] {
        // The program of the user is removed by a second command, which isn't executed here.
        let removes = described.remove.first().ok_or("no command removes the copy")?;
        command(session, removes)?;
        nothing_is_left()?;
        refused(session, OWN)?;
        let later = self::described(session, OWN)?;
        let named = later.update.iter().chain(&later.remove).any(|command| command.contains("setup"));
        ensure(!named, format!("nothing is left, and it is named: {later:?}"))?;
        done(&user(Some(session), &[OWN, "setup", "--yes"])?)?;
    }
    done(&user(Some(session), &[OWN, "setup", "--undo", "--yes"])?)?;
    nothing_is_left()
}

/// What `palisade self` says of a program: how it was installed, and the commands without their explanations.
#[derive(Debug)]
struct Described {
    installed: String,
    update: Vec<String>,
    remove: Vec<String>,
}

fn described(session: &str, program: &str) -> Result<Described> {
    let told = user(Some(session), &[program, "self"])?;
    done(&told)?;
    let mut described = Described { installed: String::new(), update: Vec::new(), remove: Vec::new() };
    let mut label = "";
    for line in told.out.lines() {
        let (this, text) = line.split_at_checked(14).ok_or_else(|| format!("{told:?}"))?;
        label = if this.trim().is_empty() { label } else { this.trim() };
        let text = text.split("   #").next().unwrap_or_default().to_owned();
        match label {
            "installed" => described.installed = text,
            "to update" => described.update.push(text),
            "to remove" => described.remove.push(text),
            _ => {}
        }
    }
    Ok(described)
}

/// Executes a command of plain words.
fn command(session: &str, words: &str) -> Result {
    done(&user(Some(session), &words.split(' ').collect::<Vec<_>>())?)
}

/// No program leaves the user's session, so a profile can't help. Root's trial works, and the user's own doesn't.
fn no_help() -> Result {
    let rules = "allow userns,\naudit deny capability,\n";
    load(&session("no-way-out", rules).replace("allow pix /**", "allow ix /**"))?;
    let set = user(Some("no-way-out"), &[PALISADE, "setup", "--yes"])?;
    let told =
        set.err.contains("a launch from here still fails") && set.err.contains("hint: palisade setup --undo");
    ensure(set.code == Some(2) && told, format!("{set:?}"))?;
    done(&user(Some("no-way-out"), &[PALISADE, "setup", "--undo", "--yes"])?)?;
    nothing_is_left()
}

/// A file that setup hasn't written stays as it is, whether it is a program or a profile.
fn others() -> Result {
    let session = FORMS[0].0;
    fs::write(COPY, "another").map_err(|error| error.to_string())?;
    let set = user(Some(session), &[OWN, "setup", "--yes"])?;
    ensure(
        set.code == Some(2) && set.err.contains("hint: /usr/local/bin/palisade setup"),
        format!("{set:?}"),
    )?;
    let kept = fs::read(COPY).map_err(|error| error.to_string())?;
    ensure(kept == b"another", "the program is replaced")?;
    fs::remove_file(COPY).map_err(|error| error.to_string())?;
    let shipped = include_str!("../../../../packaging/apparmor/palisade");
    fs::write(PACKAGED, shipped).map_err(|error| error.to_string())?;
    let set = user(Some(session), &[PALISADE, "setup", "--yes"])?;
    ensure(set.code == Some(0) && set.out.contains("which is there already"), format!("{set:?}"))?;
    works(Some(session), PALISADE)?;
    let undo = root(&[PALISADE, "setup", "--undo", "--yes"])?;
    ensure(undo.code == Some(1), format!("{undo:?}"))?;
    let kept = fs::read_to_string(PACKAGED).map_err(|error| error.to_string())?;
    ensure(kept == shipped, "the profile is changed")
}

/// With the profile loaded: the filter refuses user namespaces inside, and permits them where the user allows them.
fn nested() -> Result {
    let session = FORMS[1].0;
    let inside = |options: &[&str]| {
        let words =
            [&[PALISADE, "run", "--ro", "/init"], options, &["--", "/init", "act", "namespace"]].concat();
        user(Some(session), &words)
    };
    let refused = inside(&[])?;
    ensure(refused.code == Some(i32::from(crate::scenario::REFUSED)), format!("{refused:?}"))?;
    let allowed = inside(&["--allow-namespaces"])?;
    ensure(allowed.code == Some(0), format!("{allowed:?}"))?;
    done(&root(&[PARSER, "--remove", PACKAGED])?)?;
    fs::remove_file(PACKAGED).map_err(|error| error.to_string())?;
    nothing_is_left()
}
