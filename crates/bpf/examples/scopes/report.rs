// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures for people: what each depth costs a command, what was to be reached, and what follows.

/// What one of the cases cost a command.
pub(crate) struct Row {
    pub(crate) who: &'static str,
    pub(crate) mode: &'static str,
    pub(crate) load: &'static str,
    /// Nanoseconds of all programs together: median, least, most.
    pub(crate) sum: (f64, f64, f64),
    /// Of each program, in the order fork, exec, exit.
    pub(crate) programs: Vec<f64>,
}

/// What was to be reached: depth, load, nanoseconds a command.
const GOALS: [(&str, &str, f64); 4] = [
    ("one_level", "unmarked", 530.0),
    ("ancestry(8)", "unmarked", 680.0),
    ("propagate_on_fork", "unmarked", 170.0),
    ("propagate_on_fork", "marked", 700.0),
];

const OURS: &str = "palisade";

/// `spawn` and `shell` are what a command costs without any of it, in nanoseconds.
pub(crate) fn print(rows: &[Row], spawn: f64, shell: f64) {
    println!(
        "{:14} {:18} {:9} {:>8}  fork+exec(+exit)      of a spawn  of a shell's",
        "who", "depth", "load", "ns"
    );
    for row in rows {
        let programs: Vec<String> = row.programs.iter().map(|program| format!("{program:.0}")).collect();
        let (sum, least, most) = row.sum;
        println!(
            "{:14} {:18} {:9} {sum:8.0}  {:20}  {:9.3} %  {:9.3} %  [{least:.0}, {most:.0}]",
            row.who,
            row.mode,
            row.load,
            programs.join("+"),
            100.0 * sum / spawn,
            100.0 * sum / shell
        );
    }
    println!(
        "\na command without any program: {spawn:.0} ns by a small program, {shell:.0} ns by a shell\n\ngoals"
    );
    let find = |who: &str, mode: &str, load: &str| {
        rows.iter().find(|row| (row.who, row.mode, row.load) == (who, mode, load)).map(|row| row.sum.0)
    };
    for (mode, load, wanted) in GOALS {
        if let Some(seen) = find(OURS, mode, load) {
            let word = if seen <= wanted { "reached" } else { "missed" };
            let rival = find("atty, rebuilt", mode, load).unwrap_or(f64::NAN);
            println!(
                "  {mode:18} {load:9} {seen:6.0} ns, wanted ≤ {wanted:.0}: {word}; atty, rebuilt: {rival:.0}"
            );
        }
    }
    decide(find);
}

/// Which depth for whom: the deepest that the use can pay for, since a deeper one misses less.
fn decide(find: impl Fn(&str, &str, &str) -> Option<f64>) {
    // What somebody who isn't marked pays for each command, at most, in nanoseconds.
    let uses = [
        ("default, where latency counts", 1_000.0),
        ("a developer's machine", 2_000.0),
        ("a CI runner", 5_000.0),
    ];
    println!(
        "\nwhich depth (the deepest whose price for unmarked commands is affordable; figures of this run)"
    );
    let depths = ["propagate_on_fork", "ancestry(8)", "one_level"];
    for (whom, most) in uses {
        let found = depths.iter().find_map(|mode| {
            let price = find(OURS, mode, "unmarked").filter(|price| *price <= most)?;
            Some((*mode, price, find(OURS, mode, "marked").unwrap_or(f64::NAN)))
        });
        match found {
            Some((mode, unmarked, marked)) => println!(
                "  {whom:30} {mode}: {unmarked:.0} ns unmarked, {marked:.0} ns marked; at most {most:.0} ns are affordable"
            ),
            None => println!("  {whom:30} none: each costs more than {most:.0} ns"),
        }
    }
}
