// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::launch::{Runs, When};
use crate::layer::Layer;
use crate::merge;
use crate::parse::{parse, parse_feature};
use crate::render::render;
use crate::word::{Bus, HomePolicy, List, PassFiles, Switch, Word};

const FULL: &str = r#"schema = 1
name = "okular"
inherits = []
features = ["kf6", "printing"]
without = ["gtk3"]

[launch]
package = "okular"
window = "Okular"
arguments = ["${sample.pdf}"]

[filesystem]
require = ["/usr/bin/okular"]
working_directory = false

[program]
path = "okular"
id = "org.kde.okular"
arguments = ["--x=${id}", "--x=${id}"]
pass_files = "read"
ignore_exit = [1, 3]

[closure]
programs = ["sh"]
libraries = ["libOkular6Core.so*"]

[devices]
allow = ["/dev/dri"]

[home]
policy = "private"
name = "other"

[files]
read = { "/etc/machine-id" = "0\n", "~/.x" = "y" }
links = { "/usr/bin/editor" = "vim" }

[process]
namespaces = true

[dbus]
talk = ["org.kde.*"]
portals = ["FileChooser"]

[hooks]
before = [{ command = ["/bin/true", "a"], may_fail = true }, { profile = "syncthing", attach = true }]
parent = { profile = "firefox", arguments = ["http://localhost"], capture = "error" }

[configurations."clean"]
without = ["printing"]

[configurations."clean".home]
policy = "none"
"#;

#[test]
fn a_profile_is_read_and_printed_as_it_is() {
    let layer = parse(FULL, None, Layer::User).unwrap();
    let text = render(&layer);
    let again = parse(&text, None, Layer::User).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    assert_eq!(render(&again), text);
    assert_eq!(again.launch, layer.launch);
    assert_eq!(again.configurations.len(), 1);
    for line in ["require = [\"/usr/bin/okular\"]", "ignore_exit = [1, 3]", "inherits = []"] {
        assert!(text.contains(line), "{text}");
    }

    let clean = layer.configuration("clean").unwrap();
    let policy = merge(vec![layer.clone()]);
    assert_eq!(policy.home().value, HomePolicy::Private);
    assert_eq!(merge(vec![layer, clean]).home().value, HomePolicy::None);
    assert_eq!(policy.pass_files().value, PassFiles::Read);
    assert_eq!(policy.session_bus().value, Bus::Filtered);
    assert_eq!(policy.system_bus().value, Bus::None);
    assert_eq!(policy.word(Word::Program).unwrap().value, "okular");
    assert_eq!(policy.list(List::Arguments).len(), 2);
    assert!(policy.switch(Switch::Namespaces).value);
    assert!(!policy.switch(Switch::WorkingDirectory).value);
    let hooks = policy.hooks();
    assert_eq!(hooks.len(), 3);
    assert_eq!(hooks[1].value.runs, Runs::Profile("syncthing".into()));
    assert_eq!(hooks[2].value.when, When::Parent);
}

#[test]
fn a_locked_list_is_closed() {
    let lock = "schema = 1\n[locked.devices]\nallow = [\"/dev/dri\"]\n[locked.dbus]\nsession = \"none\"";
    let lock = parse(lock, None, Layer::Administrator).unwrap();
    let user =
        "schema = 1\n[devices]\nallow = [\"/dev/kvm\"]\n[dbus]\ntalk = [\"org.x.Y\"]\nsession = \"host\"";
    let user = parse(user, None, Layer::User).unwrap();
    let policy = merge(vec![lock, user]);
    let devices: Vec<String> = policy.list(List::Devices).into_iter().map(|entry| entry.value).collect();
    assert_eq!(devices, ["/dev/dri"]);
    assert_eq!(policy.session_bus().value, Bus::None);
}

#[test]
fn what_isnt_meant_for_a_file_is_refused() {
    let problems = |text: &str, layer| -> Vec<String> {
        let errors = parse(&format!("schema = 1\n{text}"), None, layer).unwrap_err();
        errors.into_iter().map(|error| error.problem.to_string()).collect()
    };
    assert_eq!(
        problems("[[hooks.before]]\ncommand = [\"x\"]", Layer::Project),
        ["a project file can't run programs outside the sandbox"]
    );
    assert_eq!(problems("[[hooks.before]]", Layer::User), ["a hook runs either a `command` or a `profile`"]);
    assert_eq!(problems("when = []", Layer::User), ["unknown key `when`"]);
    assert_eq!(problems("[home]\npolicy = \"kept\"", Layer::User), ["`home.policy` can't be \"kept\""]);
    assert_eq!(
        problems("[configurations.a.home]\npolicey = \"none\"", Layer::User),
        ["unknown key `policey` in `[home]`"]
    );
    let feature = |text: &str| parse_feature(&format!("schema = 1\n{text}"), None, Layer::User);
    assert!(feature("when = [\"program sh\"]\nconflicts = [\"x\"]\ncaveat = \"slow\"").is_ok());
    let error = feature("when = [\"command -v sh\"]").unwrap_err();
    assert_eq!(error[0].problem.to_string(), "no condition begins with \"command\"");
    assert!(feature("inherits = []").is_err());
}

#[test]
fn the_variables_that_are_referred_to_are_known() {
    let text = "schema = 1\n[filesystem]\nread = [\"${runtime}/${WAYLAND_DISPLAY}\"]\n\
                [environment.set]\nX = \"${DESKTOP_SESSION}\"\n[program]\narguments = [\"$${NOT}\"]";
    let policy = merge(vec![parse(text, None, Layer::User).unwrap()]);
    assert_eq!(policy.variables().into_iter().collect::<Vec<_>>(), ["DESKTOP_SESSION", "WAYLAND_DISPLAY"]);
}
