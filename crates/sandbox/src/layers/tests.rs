// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of loading the policy of a launch from its layers.

use super::*;
use palisade_host::environment::Environment;
use palisade_policy::{Grant, NetworkMode, View};
use std::os::unix::fs::PermissionsExt;

/// A home, a project and the system's directories, in a temporary directory.
struct World {
    root: tempfile::TempDir,
    facts: Facts,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        for directory in ["home/project/sub", "etc", "usr"] {
            std::fs::create_dir_all(path.join(directory)).unwrap();
        }
        let home = path.join("home");
        let environment = Environment::from_iter([("HOME", home.as_os_str().to_owned())]);
        let mut facts = Facts::gather(environment, home.join("project/sub")).unwrap();
        facts.places.administrator = path.join("etc");
        facts.places.distribution = path.join("usr");
        Self { root, facts }
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let file = self.root.path().canonicalize().unwrap().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        file
    }

    fn user(&self, name: &str, text: &str) -> PathBuf {
        self.write(&format!("home/.config/palisade/{name}"), text)
    }

    fn load(&self, profile: Option<&str>) -> Result<Loaded, LayerError> {
        let request = Request { profile: profile.map(OsStr::new), ..Request::default() };
        load(&self.facts, request, LayerPolicy::command_line())
    }

    fn depends_on(&self, path: &Path) -> bool {
        let (present, absent) = self.facts.inputs();
        present.iter().map(|input| &input.path).chain(&absent).any(|input| input.as_path() == path)
    }
}

const NET: &str = "schema = 1\n[network]\nmode = \"host\"\n";

#[test]
fn without_files_the_built_in_layer_holds_and_absence_is_an_input() {
    let world = World::new();
    let loaded = world.load(None).unwrap();
    assert_eq!(loaded.policy.network().value, NetworkMode::None);
    assert_eq!(loaded.policy.view().value, View::System);
    assert!(loaded.notes.is_empty() && loaded.project.is_none());
    for source in sources(&world.facts) {
        assert!(!source.present);
        assert!(world.depends_on(&source.file), "{source:?}");
    }
    for directory in ["home/project/sub", "home/project"] {
        let file = world.root.path().canonicalize().unwrap().join(directory).join(PROJECT_FILE);
        assert!(world.depends_on(&file));
    }
}

#[test]
fn later_layers_win_and_locks_hold() {
    let world = World::new();
    world.write("usr/config.toml", NET);
    assert_eq!(world.load(None).unwrap().policy.network().value, NetworkMode::Host);
    world.write("etc/config.toml", "schema = 1\n[locked.network]\nmode = \"none\"\n");
    let file = world.user("config.toml", NET);
    let network = world.load(None).unwrap().policy.network();
    assert_eq!((network.value, network.origin.layer), (NetworkMode::None, Layer::Administrator));
    assert!(world.depends_on(&file));
}

#[test]
fn profiles_come_from_the_users_place_first() {
    let world = World::new();
    world.write("usr/profiles/p.toml", NET);
    assert_eq!(world.load(Some("p")).unwrap().policy.network().origin.layer, Layer::Distribution);
    let absent = world.facts.places.config.join("profiles/p.toml");
    assert!(world.depends_on(&absent), "one that is made later counts");
    world.user("profiles/p.toml", NET);
    assert_eq!(world.load(Some("p")).unwrap().policy.network().origin.layer, Layer::User);
    let names: Vec<(String, Layer)> = definitions(&world.facts, Sort::Profile)
        .into_iter()
        .map(|profile| (profile.name, profile.layer))
        .collect();
    let at = names.iter().position(|(name, _)| name == "p").unwrap();
    assert_eq!(names[at..at + 2], [("p".to_owned(), Layer::User), ("p".to_owned(), Layer::Distribution)]);
    assert!(names.contains(&("strict".to_owned(), Layer::BuiltIn)));
    assert!(names.is_sorted_by_key(|(name, _)| name));
}

#[test]
fn an_embedded_profile_brings_what_it_inherits() {
    let world = World::new();
    let loaded = world.load(Some("strict")).unwrap();
    let names: Vec<&str> =
        loaded.policy.parts().iter().filter_map(|part| Some(part.name.as_ref()?.value.as_str())).collect();
    assert_eq!(names, ["built in", "read-only", "strict"]);
    let resolved = loaded.policy.resolve(&crate::plan::planner::context(&world.facts, None)).unwrap();
    let grant = resolved.decide(&world.facts.cwd).grant;
    assert_eq!(grant, Grant::Allowed { write: false, execute: true });
}

#[test]
fn a_profile_that_is_a_file_is_the_users_word() {
    let world = World::new();
    world.write("home/project/sub/own.toml", NET);
    for written in ["own.toml", "./own.toml", "../sub/own.toml"] {
        assert_eq!(world.load(Some(written)).unwrap().policy.network().origin.layer, Layer::User);
    }
    assert!(matches!(world.load(Some("./none.toml")), Err(LayerError::Unknown { .. })));
    let locked = world.write("home/project/sub/l.toml", "schema = 1\n[locked.network]\nmode = \"none\"\n");
    assert!(matches!(world.load(Some(locked.to_str().unwrap())), Err(LayerError::Parse { .. })));
}

#[test]
fn an_unknown_profile_is_an_error_with_the_nearest_name() {
    let world = World::new();
    let error = world.load(Some("stirct")).unwrap_err();
    assert!(error.hint().unwrap().contains("did you mean strict?"), "{error}");
    for name in ["", "..", ".hidden", "a\nb"] {
        assert!(matches!(world.load(Some(name)), Err(LayerError::Unknown { .. })), "{name:?}");
    }
}

#[test]
fn circles_end() {
    let world = World::new();
    world.user("profiles/a.toml", "schema = 1\ninherits = [\"b\"]\n");
    world.user("profiles/b.toml", "schema = 1\ninherits = [\"a\"]\n");
    let error = world.load(Some("a")).unwrap_err();
    assert!(error.to_string().ends_with("a > b > a"), "{error}");
    world.user("config.toml", "schema = 1\ninherits = [\"b\"]\n");
    assert!(matches!(world.load(None), Err(LayerError::Cycle { .. })));
}

#[test]
fn a_fan_of_profiles_ends() {
    let world = World::new();
    for depth in 0..12 {
        let next = depth + 1;
        world.user(
            &format!("profiles/p{depth}.toml"),
            &format!("schema = 1\ninherits = [\"p{next}\", \"p{next}\"]\n"),
        );
    }
    world.user("profiles/p12.toml", "schema = 1\n");
    assert!(matches!(world.load(Some("p0")), Err(LayerError::Deep { .. })));
}

#[test]
fn a_layer_builds_on_nothing_above_it() {
    let world = World::new();
    world.write("etc/config.toml", "schema = 1\ninherits = [\"base\"]\n");
    world.write("etc/profiles/base.toml", "schema = 1\n[locked.network]\nmode = \"none\"\n");
    world.user("profiles/base.toml", NET);
    world.user("config.toml", NET);
    assert_eq!(world.load(None).unwrap().policy.network().value, NetworkMode::None);
}

#[test]
fn a_file_that_others_may_write_stops_everything() {
    let world = World::new();
    let file = world.user("config.toml", NET);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let error = world.load(None).unwrap_err();
    assert!(matches!(error, LayerError::Distrusted { .. }), "{error}");
    assert!(error.hint().unwrap().contains("chmod go-w"), "{error}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::set_permissions(file.parent().unwrap(), std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(world.load(None), Err(LayerError::Distrusted { .. })));
}

#[test]
fn a_file_of_somebody_else_stops_everything() {
    if !rustix::process::geteuid().is_root() {
        // Only root can change the owner of a file.
        return;
    }
    let world = World::new();
    let file = world.user("config.toml", NET);
    std::os::unix::fs::chown(&file, Some(12345), None).unwrap();
    assert!(matches!(world.load(None), Err(LayerError::Distrusted { .. })));
}

#[test]
fn links_are_followed_to_what_is_ours_only() {
    let world = World::new();
    let target = world.write("home/dotfiles/p.toml", NET);
    let link = world.user("x", "").with_file_name("config.toml");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert_eq!(world.load(None).unwrap().policy.network().value, NetworkMode::Host);
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(world.load(None), Err(LayerError::Distrusted { .. })));
    for elsewhere in ["/dev/zero", "/none"] {
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(elsewhere, &link).unwrap();
        assert!(world.load(None).is_err(), "{elsewhere}");
    }
}

#[test]
fn huge_and_foreign_contents_are_refused() {
    let world = World::new();
    world.user("config.toml", &" ".repeat(trust::LARGEST_FILE + 1));
    assert!(matches!(world.load(None), Err(LayerError::Read { .. })));
    let file = world.user("config.toml", "");
    std::fs::write(&file, b"schema = 1\n# \xff").unwrap();
    assert!(matches!(world.load(None), Err(LayerError::NotText { valid: 13, .. })));
    std::fs::write(&file, "schema = 1\n[netwrok]\n").unwrap();
    let error = world.load(None).unwrap_err().to_string();
    assert!(error.contains("did you mean `network`?") && error.contains("config.toml:2"), "{error}");
}

#[test]
fn a_project_file_is_inert_until_allowed_and_after_each_edit() {
    let world = World::new();
    let file = world.write("home/project/.palisade.toml", "schema = 1\n[filesystem]\nread = [\"./data\"]\n");
    let loaded = world.load(None).unwrap();
    assert!(loaded.project.is_none());
    assert!(loaded.notes[0].contains("not in force; palisade project allow"), "{:?}", loaded.notes);
    assert!(world.depends_on(&file));
    assert!(world.depends_on(&store(&world.facts).entry(&file)), "permission given later counts");

    let project = find_project(&world.facts).unwrap().unwrap();
    store(&world.facts).allow(&project.file, &project.content).unwrap();
    let loaded = world.load(None).unwrap();
    assert_eq!(loaded.project.as_deref(), file.parent());
    assert!(loaded.notes.is_empty());
    let context = crate::plan::planner::context(&world.facts, loaded.project.as_deref());
    let resolved = loaded.policy.resolve(&context).unwrap();
    let decision = resolved.decide(&file.parent().unwrap().join("data"));
    assert_eq!(decision.grant, Grant::Allowed { write: false, execute: false });

    world.write("home/project/.palisade.toml", "schema = 1\n[filesystem]\nread = [\"/\"]\n");
    let loaded = world.load(None).unwrap();
    assert!(loaded.project.is_none() && loaded.notes[0].contains("has changed since"), "{:?}", loaded.notes);
}

#[test]
fn a_project_file_that_is_not_in_force_may_be_nonsense() {
    let world = World::new();
    world.write("home/project/.palisade.toml", "nonsense");
    assert_eq!(world.load(None).unwrap().notes.len(), 1);
    let project = find_project(&world.facts).unwrap().unwrap();
    store(&world.facts).allow(&project.file, &project.content).unwrap();
    assert!(matches!(world.load(None), Err(LayerError::Parse { .. })));
}

#[test]
fn a_project_file_that_is_a_link_is_not_in_force_whatever_was_allowed() {
    let world = World::new();
    let target = world.write("home/project/t", NET);
    let link = world.facts.cwd.join(PROJECT_FILE);
    std::os::unix::fs::symlink(target, &link).unwrap();
    store(&world.facts).allow(&link, NET.as_bytes()).unwrap();
    assert!(matches!(find_project(&world.facts), Err(LayerError::Read { .. })));
    let loaded = world.load(None).unwrap();
    assert_eq!(loaded.policy.network().value, NetworkMode::None);
    assert!(loaded.project.is_none() && loaded.notes[0].contains("not in force"), "{:?}", loaded.notes);
}
