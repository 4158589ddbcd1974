// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program in the Nix store, and the profile that shows it.
//!
//! `manifest.json` of a profile is documented in Nix's manual ("profiles"): its `elements` are a list up to version 2, and
//! have names since version 3.

use super::installation::{Installation, Program, with_rights, word};
use serde_json::Value;
use std::path::{Path, PathBuf};

const STORE: &str = "/nix/store";
/// The profile for all users.
const SHARED: &str = "/nix/var/nix/profiles/default";

pub(super) fn find(program: &Program<'_>) -> Option<Installation> {
    let name = program.path.strip_prefix(STORE).ok()?.components().next()?;
    let object = Path::new(STORE).join(name);
    let home = program.home();
    let own = home.iter().flat_map(|home| [home.join(".nix-profile"), home.join(".local/state/nix/profile")]);
    Some(own.chain([PathBuf::from(SHARED)]).find_map(|profile| in_profile(&profile, &object)).unwrap_or_else(
        || Installation {
            by: "nix",
            words: "in the Nix store; no profile of this user shows it".to_owned(),
            update: Vec::new(),
            remove: vec!["nix-collect-garbage".to_owned()],
        },
    ))
}

/// The commands for a store object that the profile shows.
fn in_profile(profile: &Path, object: &Path) -> Option<Installation> {
    let manifest = std::fs::read(profile.join("manifest.json")).ok()?;
    let manifest: Value = serde_json::from_slice(&manifest).ok()?;
    let has_it = |element: &Value| {
        let paths = element["storePaths"].as_array();
        paths.is_some_and(|paths| paths.iter().any(|path| path.as_str().map(Path::new) == Some(object)))
    };
    let name = match &manifest["elements"] {
        Value::Array(elements) => elements.iter().position(has_it)?.to_string(),
        Value::Object(elements) => elements.iter().find(|(_name, element)| has_it(element))?.0.clone(),
        _ => return None,
    };
    let shared = profile == Path::new(SHARED);
    let option = if shared { format!(" --profile {SHARED}") } else { String::new() };
    let name = palisade_text::quoted(&name);
    let command = |verb: &str| {
        let command = format!("nix profile {verb}{option} {name}");
        if shared { with_rights(Path::new("/nix/var/nix/profiles"), command) } else { command }
    };
    let words = format!("with Nix, in the profile {}", word(profile));
    Some(Installation::new("nix", words, command("upgrade"), command("remove")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_host::environment::Environment;

    /// The installation of a program whose user has this manifest.
    fn of(manifest: &str) -> Installation {
        let home = tempfile::tempdir().unwrap();
        let profile = home.path().join(".nix-profile");
        std::fs::create_dir(&profile).unwrap();
        std::fs::write(profile.join("manifest.json"), manifest).unwrap();
        let environment = Environment::from_iter([("HOME", home.path())]);
        let path = Path::new("/nix/store/abc-palisade-0.1.0/bin/palisade");
        find(&Program { path, environment: &environment }).unwrap()
    }

    #[test]
    fn an_element_is_named_as_its_manifest_names_it() {
        let named = of(r#"{"version": 3, "elements": {"other": {"storePaths": ["/nix/store/x-y"]},
            "palisade-1": {"storePaths": ["/nix/store/abc-palisade-0.1.0"]}}}"#);
        assert_eq!(named.update, ["nix profile upgrade palisade-1"]);
        assert_eq!(named.remove, ["nix profile remove palisade-1"]);
        let listed = of(r#"{"version": 2, "elements": [{"storePaths": ["/nix/store/x-y"]},
            {"storePaths": ["/nix/store/abc-palisade-0.1.0"]}]}"#);
        assert_eq!(listed.remove, ["nix profile remove 1"]);
        for others in
            ["", "[]", r#"{"elements": {}}"#, r#"{"elements": [{"storePaths": ["/nix/store/abc"]}]}"#]
        {
            assert_eq!(of(others).remove, ["nix-collect-garbage"], "{others}");
        }
    }
}
