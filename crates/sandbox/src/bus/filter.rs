// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts the policy's lists to arguments of `xdg-dbus-proxy`: what a filter lets through.

use crate::plan::BusName;
use palisade_policy::word::{List, is_filled_bus_name};
use palisade_policy::{Context, Policy, template};
use std::borrow::Cow;

/// The bus name and object of the service that implements the portals.
const DESKTOP: &str = "org.freedesktop.portal.Desktop";
const DESKTOP_PATH: &str = "/org/freedesktop/portal/desktop";
/// The bus name and object of the service that gives access to documents.
const DOCUMENTS: &str = "org.freedesktop.portal.Documents";
const DOCUMENTS_PATH: &str = "/org/freedesktop/portal/documents";
/// Portals that the document service implements.
const OF_DOCUMENTS: [&str; 2] = ["Documents", "FileTransfer"];

/// The lists of a bus by their options.
const fn lists(bus: BusName) -> &'static [(&'static str, List)] {
    match bus {
        BusName::Session => &[
            ("see", List::See),
            ("talk", List::Talk),
            ("own", List::Own),
            ("call", List::Call),
            ("broadcast", List::Broadcast),
        ],
        BusName::System => &[
            ("see", List::SystemSee),
            ("talk", List::SystemTalk),
            ("own", List::SystemOwn),
            ("call", List::SystemCall),
        ],
    }
}

/// The arguments for a bus. Entries that can't be filled in are left out, with a note.
pub(crate) fn arguments(
    bus: BusName,
    policy: &Policy,
    context: &Context,
    notes: &mut Vec<Cow<'static, str>>,
) -> Vec<String> {
    let mut arguments = vec!["--filter".to_owned()];
    for (option, list) in lists(bus) {
        // Values are filled in only in the name. The part behind `=`, which narrows the rule, stays as it is.
        for entry in policy.list(*list) {
            let (name, rule) = match entry.value.split_once('=') {
                Some((name, rule)) => (name, format!("={rule}")),
                None => (entry.value.as_str(), String::new()),
            };
            let filled = template::fill(name, context).ok().and_then(|name| name.into_string().ok());
            match filled.filter(|name| is_filled_bus_name(name)) {
                Some(name) => arguments.push(format!("--{option}={name}{rule}")),
                None => notes.push(Cow::Owned(format!(
                    "skipped {} ({}): not a valid name on the {bus}",
                    entry.value, entry.origin
                ))),
            }
        }
    }
    if bus == BusName::Session {
        let portals: Vec<String> = policy.list(List::Portals).into_iter().map(|entry| entry.value).collect();
        arguments.extend(portals_of(&portals));
    }
    arguments
}

/// The rules that these portals need, and no more: their methods and signals, the objects by which they answer, and
/// their version properties.
fn portals_of(portals: &[String]) -> Vec<String> {
    let (documents, desktop): (Vec<&String>, Vec<&String>) =
        portals.iter().partition(|portal| OF_DOCUMENTS.contains(&portal.as_str()));
    let mut arguments = Vec::new();
    for (name, path, portals) in [(DESKTOP, DESKTOP_PATH, desktop), (DOCUMENTS, DOCUMENTS_PATH, documents)] {
        if portals.is_empty() {
            continue;
        }
        let mut interfaces: Vec<String> =
            portals.iter().map(|portal| format!("org.freedesktop.portal.{portal}.*@{path}")).collect();
        if name == DESKTOP {
            // Each request and each session is an object of its own, below this path.
            for interface in ["Request", "Session"] {
                interfaces.push(format!("org.freedesktop.portal.{interface}.*@{path}/*"));
            }
        }
        interfaces.push(format!("org.freedesktop.DBus.Properties.*@{path}"));
        for rule in &interfaces {
            arguments.push(format!("--call={name}={rule}"));
            arguments.push(format!("--broadcast={name}={rule}"));
        }
        arguments.push(format!("--call={name}=org.freedesktop.DBus.Introspectable.Introspect@{path}/*"));
        arguments.push(format!("--call={name}=org.freedesktop.DBus.Peer.*@{path}/*"));
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::{Application, LayerPolicy};

    #[test]
    fn lists_become_arguments_with_everything_filled_in() {
        let mut layer = LayerPolicy::command_line();
        for (list, text) in [
            (List::See, "org.a.See"),
            (List::Talk, "org.a.B.*"),
            (List::Own, "${id}.*"),
            (List::Call, "${id}.x=org.a.B.Call@/org/*"),
            (List::SystemCall, "org.b=*"),
            (List::Talk, "org.${WHAT}.x"),
            (List::Portals, "Camera"),
        ] {
            layer.add_to(list, text, 0).unwrap();
        }
        let policy = Policy::from(layer);
        let mut context = Context {
            application: Some(Application { name: "app".into(), id: Some("org.example.App".into()) }),
            ..Context::default()
        };
        let mut notes = Vec::new();
        let arguments = super::arguments(BusName::Session, &policy, &context, &mut notes);
        assert_eq!(
            arguments[..5],
            [
                "--filter",
                "--see=org.a.See",
                "--talk=org.a.B.*",
                "--own=org.example.App.*",
                "--call=org.example.App.x=org.a.B.Call@/org/*"
            ]
        );
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("org.${WHAT}.x"));
        let camera = "--call=org.freedesktop.portal.Desktop=org.freedesktop.portal.Camera.*@\
                      /org/freedesktop/portal/desktop";
        assert!(arguments.iter().any(|argument| argument == camera), "{arguments:?}");
        assert!(!arguments.iter().any(|argument| argument.contains(DOCUMENTS)));
        // A value that is filled in can't add an argument.
        context.environment.insert("WHAT".into(), "x --own=org.y".into());
        let arguments = super::arguments(BusName::Session, &policy, &context, &mut notes);
        assert!(!arguments.iter().any(|argument| argument.contains("org.y")), "{arguments:?}");
        assert_eq!(
            super::arguments(BusName::System, &policy, &context, &mut notes),
            ["--filter", "--call=org.b=*"]
        );
    }

    #[test]
    fn each_portal_has_its_own_interface_only() {
        let arguments = portals_of(&["Documents".to_owned(), "Print".to_owned()]);
        let calls = |of: &str| arguments.iter().filter(|argument| argument.contains(of)).count();
        assert!(arguments.iter().all(|argument| !argument.contains("--talk")));
        assert_eq!(calls("portal.Print."), 2);
        assert_eq!(calls("org.freedesktop.portal.Documents.*@/org/freedesktop/portal/documents"), 2);
        assert_eq!(calls("=org.freedesktop.portal.FileChooser"), 0);
    }
}
