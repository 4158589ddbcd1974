// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plays a story: its launches run one after another; a racing launch runs beside the next one.

use super::ground::{Breach, Ground};
use super::story::{Layer, Story};
use crate::explorer::player::Player;
use crate::support::{Place, give};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where moved grants show.
pub(super) const SHOWN: &str = "/shown";

/// So ends a launch beside which another puts a link in the place of a covered name: nothing can be mounted over one.
const UNCOVERED: &str = "it is a symbolic link now; every process inside was ended";

/// The outcome of a story.
#[derive(Clone, Default, Debug)]
pub(super) struct Outcome {
    pub(super) breaches: BTreeMap<Breach, String>,
    /// The messages of launches that were refused.
    pub(super) refusals: Vec<String>,
    pub(super) launches: u64,
}

/// A person's place, with the player in it.
pub(super) struct Arena<'p> {
    pub(super) place: &'p Place,
    /// Whether the launches run in a sandbox.
    pub(super) sandbox: bool,
    program: PathBuf,
    homes: PathBuf,
    count: Cell<usize>,
    /// In the place of the machine's, where there is an administrator's policy.
    etc: PathBuf,
}

impl<'p> Arena<'p> {
    /// Homes that are kept at a time: for a minute after many are removed, ext4 makes files slowly.
    const KEPT: usize = 4000;

    pub(super) fn new(place: &'p Place, sandbox: bool) -> Self {
        place.write("bin/player.c", include_str!("../explorer/player.c"));
        place.outside("cd ~/bin && cc -O2 -pthread -o player player.c && rm player.c");
        let etc = place.home.join("etc");
        std::fs::create_dir_all(etc.join("palisade")).unwrap();
        std::fs::copy("/etc/passwd", etc.join("passwd")).unwrap();
        let arena = Self {
            place,
            sandbox,
            program: place.home.join("bin/player"),
            homes: place.home.join("homes"),
            count: Cell::new(0),
            etc,
        };
        arena.clear();
        arena
    }

    fn clear(&self) {
        let _absent_at_first = std::fs::remove_dir_all(&self.homes);
        std::fs::create_dir(&self.homes).unwrap();
        give(self.place, &self.homes);
        self.count.set(0);
    }

    pub(super) fn play(&self, story: &Story) -> Outcome {
        let (ground, is_locked) = self.prepare(story);
        self.launches(story, &ground, is_locked)
    }

    /// What `palisade explain` says of a story's policy, before anything is launched: an answer to each question, which is a
    /// path of the home and `read` or `write`. None if nothing can be launched.
    pub(super) fn explain(&self, story: &Story, questions: &[(String, &str)]) -> Option<Vec<bool>> {
        let (ground, is_locked) = self.prepare(story);
        let ask = |(path, access): &(String, &str)| {
            let mut command = self.palisade(is_locked);
            command.env("HOME", &ground.home).current_dir(ground.home.join("w"));
            command.args(["explain", "--json", "--access", access]).arg(ground.home.join(path));
            let said = command.output().unwrap();
            let text = String::from_utf8_lossy(&said.stdout);
            assert!(
                matches!(said.status.code(), Some(0 | 1)),
                "{text}\n{}",
                String::from_utf8_lossy(&said.stderr)
            );
            // A private place inside isn't what the host has there.
            let is_hosts = text.contains("\"shows\": \"host\"");
            (!text.contains("\"plan_error\"")).then_some(said.status.success() && is_hosts)
        };
        questions.iter().map(ask).collect()
    }

    /// A new home with what a story's tree and policies are, and whether an administrator's is among them.
    fn prepare(&self, story: &Story) -> (Ground, bool) {
        if self.count.get() == Self::KEPT {
            self.clear();
        }
        let home = self.homes.join(self.count.get().to_string());
        self.count.set(self.count.get() + 1);
        let ground = Ground::make(home, story, (self.place.uid, self.place.gid)).unwrap();
        if let Some(policy) = story.policy(Layer::User) {
            let directory = ground.home.join(".config/palisade");
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("config.toml"), policy).unwrap();
            give(self.place, &ground.home.join(".config"));
        }
        let is_locked = story.policy(Layer::Locked).inspect(|policy| {
            std::fs::write(self.etc.join("palisade/config.toml"), policy).unwrap();
        });
        (ground, is_locked.is_some())
    }

    fn launches(&self, story: &Story, ground: &Ground, is_locked: bool) -> Outcome {
        let mut outcome = Outcome::default();
        let home = ground.home.display().to_string();
        let everywhere = format!("{home} {SHOWN} /proc/1/root{home}");
        // In its own place a directory may be reached through one that can't be listed.
        let by_name: Vec<String> = story.tree.keys().map(|path| format!("{home}/{path}")).collect();
        let by_name = by_name.join(" ");
        let mut racing: Option<Player> = None;
        let (mut read, mut is_first) = (Vec::new(), true);
        for (number, launch) in story.launches.iter().enumerate() {
            let mut command = self.command(story, &launch.options, &ground.home, is_locked);
            let player = Player::attempt(command.current_dir(ground.home.join("w")));
            let mut player = match player {
                Ok(player) => player,
                Err(said) => {
                    let late = ["can't mount", "can't mask", "panicked"];
                    if racing.is_none() && late.iter().any(|what| said.contains(what)) {
                        outcome.breaches.entry(Breach::Failed).or_insert(said.clone());
                    }
                    let beside = if racing.is_some() { "beside a race, " } else { "" };
                    outcome.refusals.push(format!("{beside}{said}"));
                    continue;
                }
            };
            outcome.launches += 1;
            let roots = if launch.options.contains(&"none") { &by_name } else { &everywhere };
            if std::mem::take(&mut is_first) && racing.is_none() {
                read.extend(player.look("first", roots).unwrap());
                if let Some(lack) = ground.lacks(&read).unwrap().filter(|_| self.sandbox) {
                    outcome.breaches.entry(Breach::Refused).or_insert(lack);
                }
            }
            let mut calls = String::new();
            for call in &launch.calls {
                writeln!(calls, "{}", call.replace('@', &home)).unwrap();
            }
            let line = format!("launch-{number}");
            let played = player.play(&calls).and_then(|_errors| player.look(&line, roots));
            let is_alone = racing.is_none();
            let raced = racing.take().map_or(Ok(Vec::new()), |racing| halt(racing, Some((&line, roots))));
            let raced_on = match &launch.race {
                Some(race) if played.is_ok() => {
                    player.play(&format!("race {}\n", race.replace('@', &home))).map(|_errors| Vec::new())
                }
                _ => Ok(Vec::new()),
            };
            // What the race before has done may be noticed only now.
            for came in [&played, &raced, &raced_on] {
                match came {
                    Ok(words) => read.extend_from_slice(words),
                    Err(said) if !is_alone && said.contains(UNCOVERED) => outcome.refusals.push(said.clone()),
                    Err(said) => panic!("a player has died: {said}"),
                }
            }
            let lives = played.is_ok() && raced_on.is_ok();
            if lives && launch.race.is_some() {
                racing = Some(player);
            } else if lives {
                player.end();
            }
            for (breach, detail) in ground.inspect(&read).unwrap() {
                outcome.breaches.entry(breach).or_insert(format!("launch {}: {detail}", number + 1));
            }
        }
        if let Some(racing) = racing {
            halt(racing, None).unwrap();
        }
        for (breach, detail) in ground.inspect(&read).unwrap() {
            outcome.breaches.entry(breach).or_insert(format!("afterwards: {detail}"));
        }
        outcome
    }

    /// What starts the player under the story's policy.
    fn command(&self, story: &Story, options: &[&str], home: &Path, is_locked: bool) -> Command {
        if !self.sandbox {
            let mut command = self.place.command(&self.program);
            command.env("HOME", home);
            return command;
        }
        let mut command = self.palisade(is_locked);
        command.env("HOME", home).args(["run", "--quiet"]).args(options).args(story.options());
        command.arg("--ro").arg(self.program.parent().unwrap()).arg("--").arg(&self.program);
        command
    }

    /// Palisade, with the arena's administrator or the machine's.
    fn palisade(&self, is_locked: bool) -> Command {
        if is_locked {
            let mut bwrap = self.place.command("bwrap");
            bwrap.args(["--dev-bind", "/", "/", "--bind"]).args([self.etc.as_path(), Path::new("/etc")]);
            bwrap.arg(self.place.binary());
            bwrap
        } else {
            self.place.command(self.place.binary())
        }
    }
}

/// Ends a race. Has the player look before, and write `line`, if it is to.
fn halt(mut racing: Player, look: Option<(&str, &str)>) -> Result<Vec<String>, String> {
    racing.play("halt\n")?;
    let read = look.map_or(Ok(Vec::new()), |(line, roots)| racing.look(line, roots))?;
    racing.end();
    Ok(read)
}
