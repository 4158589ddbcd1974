// SPDX-License-Identifier: Apache-2.0 OR MIT

use proptest::prelude::*;

use super::*;
use crate::parse::{parse, parse_feature};

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("no feature {0}")]
struct Unknown(String);

/// Features by name: layer and text without `schema`.
type Files<'f> = &'f [(&'f str, Layer, &'f str)];

fn find(files: Files<'_>, name: &str, highest: Layer) -> Result<LayerPolicy, Unknown> {
    let mut fitting: Vec<_> = files.iter().filter(|file| file.0 == name && file.1 <= highest).collect();
    fitting.sort_by_key(|file| file.1);
    let (_, layer, text) = fitting.pop().ok_or_else(|| Unknown(name.to_owned()))?;
    Ok(parse_feature(&format!("schema = 1\nname = \"{name}\"\n{text}"), None, *layer).unwrap())
}

fn asked(layer: Layer, text: &str) -> Vec<Sourced<Want>> {
    parse(&format!("schema = 1\n{text}"), None, layer).unwrap().features
}

fn resolved(files: Files<'_>, asked: &[Sourced<Want>]) -> Result<Features, FeatureError<Unknown>> {
    resolve(
        asked,
        &mut |name, highest, _| find(files, name, highest),
        &mut |fact, _| matches!(fact, Fact::Program(name) if name == "sh"),
    )
}

fn names(features: &Features) -> Vec<&str> {
    features.present.iter().map(|feature| feature.name.as_ref().unwrap().value.as_str()).collect()
}

const TOOLKIT: Files<'static> = &[
    ("gtk", Layer::BuiltIn, "features = [\"fonts\", \"icons\"]"),
    ("qt", Layer::BuiltIn, "features = [\"fonts\", \"styles\"]"),
    ("icons", Layer::BuiltIn, "features = [\"mime\"]"),
    ("styles", Layer::BuiltIn, "features = [\"mime\", \"styles-data\"]"),
    ("styles-data", Layer::BuiltIn, "features = [\"styles\"]"),
    ("fonts", Layer::BuiltIn, ""),
    ("mime", Layer::BuiltIn, ""),
    ("here", Layer::BuiltIn, "when = [\"program sh\"]"),
    ("gone", Layer::BuiltIn, "when = [\"program sh\", \"not program sh\"]\nfeatures = [\"fonts\"]"),
    ("no-gtk", Layer::BuiltIn, "when = [\"not feature gtk\"]"),
    ("old", Layer::BuiltIn, "conflicts = [\"styles\"]"),
];

#[test]
fn what_is_needed_comes_first_and_once() {
    let features = resolved(TOOLKIT, &asked(Layer::User, "features = [\"gtk\", \"qt\"]")).unwrap();
    assert_eq!(names(&features), ["fonts", "mime", "icons", "gtk", "styles-data", "styles", "qt"]);
    assert_eq!(features.needed_by["mime"].as_deref(), Some("icons"));
    assert_eq!(features.needed_by["gtk"], None);
}

#[test]
fn doing_without_one_takes_what_only_that_needed() {
    let without = |text: &str| {
        let features = resolved(TOOLKIT, &asked(Layer::User, text)).unwrap();
        names(&features).join(" ")
    };
    assert_eq!(
        without("features = [\"gtk\", \"qt\"]\nwithout = [\"gtk\"]"),
        "fonts mime styles-data styles qt"
    );
    assert_eq!(without("features = [\"gtk\", \"qt\"]\nwithout = [\"qt\"]"), "fonts mime icons gtk");
    assert_eq!(without("features = [\"gtk\"]\nwithout = [\"icons\"]"), "fonts gtk");
    // Two features that need each other, and that no other feature needs.
    assert_eq!(without("features = [\"qt\"]\nwithout = [\"styles\"]"), "fonts qt");
    let mut wants = asked(Layer::Administrator, "without = [\"gtk\"]");
    wants.extend(asked(Layer::User, "features = [\"gtk\"]"));
    assert_eq!(names(&resolved(TOOLKIT, &wants).unwrap()), ["fonts", "mime", "icons", "gtk"]);
}

#[test]
fn conditions_leave_out_with_a_reason() {
    let features =
        resolved(TOOLKIT, &asked(Layer::User, "features = [\"here\", \"gone\", \"no-gtk\"]")).unwrap();
    assert_eq!(names(&features), ["here", "no-gtk"]);
    let LeftOut::Condition(condition) = &features.left_out["gone"] else { panic!() };
    assert_eq!(condition.value.to_string(), "not program sh");
    let features = resolved(TOOLKIT, &asked(Layer::User, "features = [\"no-gtk\", \"gtk\"]")).unwrap();
    assert_eq!(names(&features), ["fonts", "mime", "icons", "gtk"]);
}

#[test]
fn those_that_conflict_are_named_with_the_way_they_came() {
    let error =
        resolved(TOOLKIT, &asked(Layer::User, "features = [\"old\", \"qt\"]")).unwrap_err().to_string();
    assert_eq!(
        error,
        "features \"old\" and \"styles\" conflict (built in): \"old\" is asked for, and \"qt\" is asked for and needs \"styles\""
    );
    let wants = asked(Layer::User, "features = [\"old\", \"qt\"]\nwithout = [\"styles\"]");
    assert_eq!(names(&resolved(TOOLKIT, &wants).unwrap()), ["old", "fonts", "qt"]);
    let error = resolved(TOOLKIT, &asked(Layer::User, "features = [\"nix\"]")).unwrap_err().to_string();
    assert_eq!(error, "no feature nix");
}

#[test]
fn what_an_administrator_builds_on_comes_from_no_user() {
    let files: Files<'_> = &[
        ("corp", Layer::Administrator, "features = [\"base\"]"),
        ("corp", Layer::User, ""),
        ("base", Layer::BuiltIn, "features = [\"more\"]"),
        ("base", Layer::User, ""),
        ("more", Layer::BuiltIn, ""),
        ("more", Layer::User, ""),
    ];
    let layers = |wants: &[Sourced<Want>]| -> Vec<Layer> {
        resolved(files, wants).unwrap().present.iter().map(|feature| feature.layer).collect()
    };
    assert_eq!(layers(&asked(Layer::User, "features = [\"corp\"]")), [Layer::User]);
    let corp = asked(Layer::Administrator, "features = [\"corp\"]");
    // The built-in layer wants `more`; it locks nothing.
    assert_eq!(layers(&corp), [Layer::User, Layer::BuiltIn, Layer::Administrator]);
    let mut both = asked(Layer::User, "features = [\"corp\", \"base\"]");
    both.extend(corp);
    assert_eq!(layers(&both), [Layer::User, Layer::BuiltIn, Layer::Administrator]);
}

proptest! {
    /// Compares the result with a definition: the features that are reachable when `without` is removed.
    #[test]
    fn those_there_are_those_that_can_be_reached(
        edges in proptest::collection::vec((0_usize..12, 0_usize..12), 0..40),
        roots in proptest::collection::vec(0_usize..12, 1..4),
        without in proptest::collection::vec(0_usize..12, 0..4),
    ) {
        let texts: Vec<(String, String)> = (0..12)
            .map(|from| {
                let needs = edges.iter().filter(|edge| edge.0 == from);
                let needs: Vec<String> = needs.map(|edge| format!("\"f{}\"", edge.1)).collect();
                (format!("f{from}"), format!("features = [{}]", needs.join(", ")))
            })
            .collect();
        let files: Vec<(&str, Layer, &str)> =
            texts.iter().map(|(name, text)| (name.as_str(), Layer::BuiltIn, text.as_str())).collect();
        let list = |numbers: &[usize]| {
            numbers.iter().map(|number| format!("\"f{number}\"")).collect::<Vec<_>>().join(", ")
        };
        let text = format!("features = [{}]\nwithout = [{}]", list(&roots), list(&without));
        let features = resolved(&files, &asked(Layer::User, &text)).unwrap();

        let mut reached: BTreeSet<usize> = roots.iter().copied().filter(|root| !without.contains(root)).collect();
        loop {
            let more: Vec<usize> = edges
                .iter()
                .filter(|(from, to)| reached.contains(from) && !without.contains(to) && !reached.contains(to))
                .map(|(_, to)| *to)
                .collect();
            if more.is_empty() {
                break;
            }
            reached.extend(more);
        }
        let mut there: Vec<&str> = names(&features);
        there.sort_unstable();
        let mut expected: Vec<String> = reached.iter().map(|number| format!("f{number}")).collect();
        expected.sort_unstable();
        prop_assert_eq!(there, expected);
    }
}
