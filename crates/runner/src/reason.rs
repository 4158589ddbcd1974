// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a test failed, in few lines: they are repeated at the end of a run, where a reader looks first.

/// At most this many lines are kept.
const LINES: usize = 24;
/// At most this many characters of a line are kept. Messages with the output of a program have long ones.
const CHARACTERS: usize = 1_000;

/// The message of the panic that ended the test `own`, from the output of its process. Without such a message: the last lines
/// of the output.
pub(crate) fn of(output: &str, own: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let panicked = format!("thread '{own}'");
    let from = lines.iter().position(|line| line.starts_with(&panicked) && line.contains("panicked at"));
    let kept: Vec<&str> = match from {
        Some(from) => {
            let ends = |line: &&str| {
                *line != "stack backtrace:" && !line.starts_with("note: run with `RUST_BACKTRACE")
            };
            lines[from..].iter().copied().take_while(ends).take(LINES).collect()
        }
        None => lines[lines.len().saturating_sub(LINES)..].to_vec(),
    };
    kept.iter().map(|line| shortened(line)).collect::<Vec<_>>().join("\n")
}

/// The line without its middle, if it is long.
fn shortened(line: &str) -> String {
    let length = line.chars().count();
    if length <= CHARACTERS {
        return line.to_owned();
    }
    let begin: String = line.chars().take(CHARACTERS / 2).collect();
    let end: String = line.chars().skip(length - CHARACTERS / 2).collect();
    format!("{begin} […] {end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_the_tests_own_panic() {
        let output = "thread 'b' (7) panicked at x.rs:1:2:\nother\nstack backtrace:\n   0: f\n\
                      thread 'a' (8) panicked at x.rs:3:4:\nbecause\nof this\nnote: run with `RUST_BACKTRACE=1` …\nFAILED";
        assert_eq!(of(output, "a"), "thread 'a' (8) panicked at x.rs:3:4:\nbecause\nof this");
    }

    #[test]
    fn the_last_lines_without_a_panic_and_not_the_middle_of_a_long_line() {
        let line = format!("begin{}end", "x".repeat(5_000));
        let told = of(&format!("{}{line}", "one\n".repeat(100)), "a");
        assert_eq!(told.lines().count(), LINES);
        let last = told.lines().last().unwrap();
        assert!(last.starts_with("begin") && last.ends_with("end") && last.contains(" […] "), "{last}");
        assert!(last.chars().count() < CHARACTERS + 10, "{last}");
    }
}
