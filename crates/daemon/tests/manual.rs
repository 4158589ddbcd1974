// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisaded --man`, from which packages make palisaded.8.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use std::process::Command;

fn palisaded(option: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_palisaded")).arg(option).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn has_every_option_that_people_have() {
    let page = palisaded("--man");
    assert!(page.contains(".TH palisaded 8"), "{page}");
    // roff's hyphens.
    let plain = page.replace("\\-", "-");
    let help = palisaded("--help");
    let options: Vec<&str> = help
        .split_whitespace()
        .filter(|word| word.starts_with("--"))
        .map(|word| word.trim_end_matches(','))
        .collect();
    assert!(options.contains(&"--config") && options.contains(&"--ask-always"), "{help}");
    for option in options {
        assert!(plain.contains(option), "{option}: {page}");
    }
    for hidden in ["--man", "--load-trust"] {
        assert!(!plain.contains(hidden) && !help.contains(hidden), "{hidden}");
    }
    for section in ["EXIT STATUS", "SIGNALS", "SEE ALSO"] {
        assert_eq!(page.matches(section).count(), 1, "{section}");
    }
}
