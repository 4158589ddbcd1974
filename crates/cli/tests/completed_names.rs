// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that shells complete the names of profiles and features, also of the user's own that are newer than the script.

use crate::support::terminal::Terminal;
use crate::support::{everybody, has};

/// How a shell is started, how it reads the script, and what is installed for it.
const SHELLS: [(&str, &str, &str); 3] = [
    ("bash", "bash --norc --noprofile", "eval \"$(palisade completions bash)\""),
    ("zsh", "zsh -f", "PS1='$ '; autoload -U compinit; compinit -D; eval \"$(palisade completions zsh)\""),
    ("fish", "fish --private", "function fish_prompt; echo '$ '; end; palisade completions fish | source"),
];

#[test]
fn names_of_profiles_and_features_are_completed() {
    if !has("tmux") {
        return;
    }
    for place in everybody() {
        let binaries = place.binary().parent().map(|path| path.display().to_string()).unwrap_or_default();
        // Without these fish reads all manual pages in the background, which outlives it.
        for directory in [".local/share", ".cache"] {
            place.write(&format!("{directory}/fish/generated_completions/x"), "");
        }
        for (name, start, read) in SHELLS {
            if place.outside(&format!("command -v {name} || true")).is_empty() {
                eprintln!("not tried: no {name} here");
                continue;
            }
            let terminal = Terminal::open(&place);
            terminal.line(&format!("PATH={binaries}:$PATH {start}"));
            terminal.line(&format!("{read}; echo rea''dy"));
            terminal.wait_for_line("ready");
            // Newer than what the shell has read.
            place.write(&format!(".config/palisade/profiles/zebra-{name}.toml"), "schema = 1\n");
            for (typed, completed) in [
                ("palisade run --profile zebr", format!("palisade run --profile zebra-{name}")),
                ("palisade profile show zebr", format!("palisade profile show zebra-{name}")),
                ("palisade run --feature registry-crat", "palisade run --feature registry-crates".to_owned()),
                ("palisade feature show registry-crat", "palisade feature show registry-crates".to_owned()),
                ("palisade open zebr", format!("palisade open zebra-{name}")),
            ] {
                terminal.text(typed);
                terminal.key("Tab");
                terminal.wait_for(&completed);
                terminal.key("C-u");
                terminal.line("clear");
            }
            std::fs::remove_dir_all(place.home.join(".config/palisade/profiles")).ok();
        }
    }
}
