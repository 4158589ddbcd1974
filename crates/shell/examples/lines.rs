// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Judges lines from standard input. Prints each line that would not simply be run, with the rules that matched.
#![forbid(unsafe_code)]

use palisade_shell::classify::{Classifier, Context, Level, Origin, Settings};
use std::io::BufRead;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let classifier = Classifier::new(&Settings::default())?;
    let (mut all, mut asked) = (0, 0);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let verdict = classifier.classify(&line, Origin::Typed, &Context::default());
        all += 1;
        if verdict.level > Level::Allow {
            asked += 1;
            let rules: Vec<&str> = verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect();
            println!("{} {}: {line}", verdict.level.name(), rules.join(" "));
        }
    }
    eprintln!("{asked} of {all}");
    Ok(())
}
