// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests storms of file operations in four languages, each with 16 threads or as many tasks that make, change, move, read and
//! remove files. Inside no file is lost, and the time inside is printed beside the time outside.
//!
//! `PALISADE_STORM` files, 1,000 by default; `./x test soak` takes 50,000.

use crate::support::{self, Place, go, has, job};
use std::time::{Duration, Instant};

/// A language: what the machine needs for it, its program, what prepares that, and how it is started.
struct Language {
    needs: &'static str,
    file: &'static str,
    program: &'static str,
    prepare: &'static str,
    start: &'static [&'static str],
}

const LANGUAGES: [Language; 4] = [
    Language {
        needs: "python3",
        file: "storm.py",
        program: include_str!("storms/storm.py"),
        prepare: "true",
        start: &["python3", "../storm.py"],
    },
    Language {
        needs: "node",
        file: "storm.js",
        program: include_str!("storms/storm.js"),
        prepare: "true",
        start: &["node", "../storm.js"],
    },
    Language {
        needs: "go",
        file: "storm.go",
        program: include_str!("storms/storm.go"),
        prepare: "chmod 755 storm",
        start: &["../storm"],
    },
    Language {
        needs: "java",
        file: "Storm.java",
        program: include_str!("storms/Storm.java"),
        prepare: "javac Storm.java",
        start: &["java", "-cp", "..", "Storm"],
    },
];

/// What is there afterwards: half of the files, each with what was written to it.
const FOUND: &str =
    "find d* -type f -name 'm*' -perm 640 | wc -l; find d* -type f ! -name 'm*' | wc -l; cat d*/m* | wc -c";

#[test]
fn storms_lose_nothing() {
    let files: u64 = std::env::var("PALISADE_STORM").map_or(1000, |number| number.parse().unwrap());
    let place = support::ordinary();
    for language in LANGUAGES.iter().filter(|language| has(language.needs)) {
        place.write(&format!("work/{}", language.file), language.program);
        if language.needs == "go" {
            place.write("work/storm", go::built(language.program));
        }
        place.outside(language.prepare);
        let outside = storm(&place, language, files, false);
        let inside = storm(&place, language, files, true);
        assert_eq!(inside.0, outside.0, "{}", language.file);
        assert_eq!(outside.0.lines().next().unwrap().trim(), files.div_ceil(2).to_string(), "{}", outside.0);
        let [outside, inside] = [outside.1, inside.1].map(|took| took.as_secs_f64());
        println!(
            "{}: {files} files: {outside:.2} s outside, {inside:.2} s inside, {:.2}",
            language.file,
            inside / outside
        );
    }
}

/// What is there afterwards, and how long it took.
fn storm(place: &Place, language: &Language, files: u64, inside: bool) -> (String, Duration) {
    place.outside("rm -rf storm.d && mkdir storm.d");
    let line = format!("cd storm.d && exec {} {files}", language.start.join(" "));
    let mut command = if inside { place.palisade(&["--quiet"], &["sh"]) } else { place.command("sh") };
    command.args(["-c", &line]);
    let begun = Instant::now();
    let run = job::finish(&mut command);
    let took = begun.elapsed();
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}: {run:?}", language.file);
    (place.outside(&format!("cd storm.d; {FOUND}")), took)
}
