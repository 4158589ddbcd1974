// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the page as HTML: tables and rows of numbers, without a script. Texts enter only through [`text`].

use super::{Facts, Often};
use crate::counts::Ruling;
use core::fmt::Write;
use palisade_protocol::date;

/// The style sheet.
pub(super) const STYLE: &str = include_str!("style.css");
/// Longer texts are cut, in characters.
const LONGEST: usize = 160;
const SECOND: i64 = 1_000_000_000;

/// The page for this data.
#[must_use]
pub fn page(facts: &Facts) -> String {
    let mut html = String::with_capacity(16 << 10);
    html.push_str(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Palisade: the shell</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"refresh\" content=\"10\">\n<link rel=\"stylesheet\" href=\"style.css\">\n\
         <link rel=\"icon\" href=\"data:,\">\n</head>\n<body>\n<header>\n<h1>The shell</h1>\n",
    );
    let since = match facts.counts.since {
        0 => "nothing was counted yet".to_owned(),
        since => format!("counted since {}", moment(since)),
    };
    add(
        &mut html,
        format_args!("<p>{} UTC, {since}. <a href=\"metrics\">metrics</a></p>\n", moment(facts.time)),
    );
    html.push_str("</header>\n");
    for problem in &facts.problems {
        add(&mut html, format_args!("<p class=\"problem\" role=\"alert\">{}</p>\n", text(problem)));
    }
    numbers(&mut html, facts);
    html.push_str("<main>\n");
    latest(&mut html, facts);
    rules(&mut html, facts);
    often(&mut html, "Most used commands", "command", &facts.commands);
    often(&mut html, "Most used directories", "directory", &facts.directories);
    slowest(&mut html, facts);
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

fn add(html: &mut String, arguments: core::fmt::Arguments<'_>) {
    let _infallible = html.write_fmt(arguments);
}

/// The sums, in large type.
fn numbers(html: &mut String, facts: &Facts) {
    let counts = &facts.counts;
    let of = |part: u64, all: u64, word: &str| match percent(part, all) {
        Some(percent) => format!("{percent} of {word}"),
        None => String::new(),
    };
    html.push_str("<dl class=\"numbers\">\n");
    for (name, number, word) in [
        ("lines run", counts.lines, format!("{} remembered", grouped(facts.entries))),
        ("failed", counts.failed, of(counts.failed, counts.lines, "lines")),
        ("warned of", counts.rulings.warned, of(counts.rulings.warned, counts.lines, "lines")),
        ("asked about", counts.rulings.asked, String::new()),
        (
            "confirmed",
            counts.rulings.confirmed,
            of(counts.rulings.confirmed, counts.rulings.asked, "questions"),
        ),
        ("not run", counts.rulings.blocked, String::new()),
        ("ghost text", counts.ghost_shown, "lines with it".to_owned()),
        ("ghost text taken", counts.ghost_taken, "times".to_owned()),
    ] {
        let number = grouped(number);
        add(html, format_args!("<div><dt>{name}</dt><dd>{number}<small>{word}</small></dd></div>\n"));
    }
    html.push_str("</dl>\n");
}

/// The guard's latest rulings.
fn latest(html: &mut String, facts: &Facts) {
    html.push_str("<section class=\"wide\">\n<h2>The guard's latest rulings</h2>\n");
    if facts.counts.latest.is_empty() {
        html.push_str("<p class=\"none\">None yet.</p>\n</section>\n");
        return;
    }
    html.push_str(
        "<table>\n<thead><tr><th>when</th><th>ruling</th><th>rule</th><th>line</th></tr></thead>\n",
    );
    for told in facts.counts.latest.iter().rev() {
        let name = told.ruling.name();
        let line = match &told.line {
            Some(line) => format!("<code>{}</code>", text(line)),
            None => "<span class=\"none\">not kept: it carries what looks like a secret</span>".to_owned(),
        };
        add(
            html,
            format_args!(
                "<tr><td class=\"when\">{}</td><td><b class=\"{name}\">{name}</b></td><td class=\"rule\">{}</td><td class=\"line\">{line}</td></tr>\n",
                moment(told.time),
                text(&told.rule),
            ),
        );
    }
    html.push_str("</table>\n</section>\n");
}

/// The rules that caused the most rulings.
fn rules(html: &mut String, facts: &Facts) {
    const MOST: usize = 20;
    let mut rules: Vec<_> = facts.counts.rules.iter().collect();
    let sum =
        |rulings: &crate::counts::Rulings| Ruling::ALL.iter().map(|ruling| rulings.of(*ruling)).sum::<u64>();
    rules.sort_by_key(|(name, rulings)| (core::cmp::Reverse(sum(rulings)), *name));
    html.push_str("<section class=\"wide\">\n<h2>Rulings by rule</h2>\n");
    if rules.is_empty() {
        html.push_str("<p class=\"none\">None yet.</p>\n</section>\n");
        return;
    }
    html.push_str("<table>\n<thead><tr><th>rule</th>");
    for ruling in Ruling::ALL {
        add(html, format_args!("<th class=\"number\">{}</th>", ruling.name()));
    }
    html.push_str("</tr></thead>\n");
    for (name, rulings) in rules.iter().take(MOST) {
        add(html, format_args!("<tr><td>{}</td>", text(name)));
        for ruling in Ruling::ALL {
            let number = match rulings.of(ruling) {
                0 => "<span class=\"none\">0</span>".to_owned(),
                number => grouped(number),
            };
            add(html, format_args!("<td class=\"number\">{number}</td>"));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table>\n");
    if let Some(more) = rules.len().checked_sub(MOST).filter(|more| *more > 0) {
        add(html, format_args!("<p class=\"none\">and {more} more; all are in the metrics</p>\n"));
    }
    html.push_str("</section>\n");
}

/// A table of the most frequent things, with a bar for each.
fn often(html: &mut String, title: &str, what: &str, all: &[Often]) {
    add(html, format_args!("<section>\n<h2>{title}</h2>\n"));
    let Some(most) = all.first().map(|first| first.count.max(1)) else {
        html.push_str("<p class=\"none\">None yet.</p>\n</section>\n");
        return;
    };
    add(
        html,
        format_args!(
            "<table>\n<thead><tr><th>{what}</th><th class=\"number\">entries</th><th></th></tr></thead>\n"
        ),
    );
    for Often { what, count } in all {
        let width = count.saturating_mul(100) / most;
        add(
            html,
            format_args!(
                "<tr><td class=\"line\"><code>{}</code></td><td class=\"number\">{}</td>\
                 <td class=\"bar\"><svg viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
                 <rect width=\"{}\" height=\"8\"/></svg></td></tr>\n",
                text(what),
                grouped(*count),
                width.max(1),
            ),
        );
    }
    html.push_str("</table>\n</section>\n");
}

/// The table of the slowest commands.
fn slowest(html: &mut String, facts: &Facts) {
    html.push_str("<section class=\"wide\">\n<h2>What took longest</h2>\n");
    if facts.slowest.is_empty() {
        html.push_str("<p class=\"none\">None yet.</p>\n</section>\n");
        return;
    }
    html.push_str(
        "<table>\n<thead><tr><th class=\"number\">time</th><th>line</th><th>directory</th><th class=\"number\">exit</th><th>when</th></tr></thead>\n",
    );
    for slow in &facts.slowest {
        let exit = slow.exit.map_or_else(|| "?".to_owned(), |code| code.to_string());
        let class = if slow.exit.is_some_and(|code| code != 0) { "number blocked" } else { "number" };
        add(
            html,
            format_args!(
                "<tr><td class=\"number\">{}</td><td class=\"line\"><code>{}</code></td><td class=\"line\"><code>{}</code></td>\
                 <td class=\"{class}\">{exit}</td><td class=\"when\">{}</td></tr>\n",
                lasted(slow.duration),
                text(&slow.line),
                text(&slow.directory),
                moment(slow.started),
            ),
        );
    }
    html.push_str("</table>\n</section>\n");
}

/// A text as HTML that shows exactly this text. Escapes the characters of HTML markup, hidden characters, and
/// characters that change the direction of writing.
pub(super) fn text(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + 16);
    for (count, letter) in text.trim_end().chars().enumerate() {
        if count == LONGEST {
            html.push('…');
            break;
        }
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\n' => html.push_str(" ⏎ "),
            '\t' => html.push(' '),
            letter if palisade_text::is_hidden(letter) => {
                add(&mut html, format_args!("<i>U+{:04X}</i>", u32::from(letter)));
            }
            letter => html.push(letter),
        }
    }
    html
}

/// `1 234 567`, with narrow spaces.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

fn percent(part: u64, all: u64) -> Option<String> {
    let tenths = part.saturating_mul(1000).checked_div(all)?;
    Some(format!("{}.{} %", tenths / 10, tenths % 10))
}

/// A duration in nanoseconds, for display.
fn lasted(nanoseconds: i64) -> String {
    let tenths = nanoseconds / (SECOND / 10);
    match tenths / 10 {
        0 => format!("{} ms", nanoseconds / (SECOND / 1000)),
        seconds @ 1..60 => format!("{seconds}.{} s", tenths % 10),
        seconds @ 60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        seconds => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
    }
}

/// A time in nanoseconds since 1970 as day and time of day.
fn moment(time: i64) -> String {
    let seconds = u64::try_from(time / SECOND).unwrap_or(0);
    format!("{} {}", date::day(seconds), date::time(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Told;
    use crate::page::Slow;

    const EVIL: &str = "<script>alert('1')</script>\"& \u{202e}\u{1b}]0;x\u{7}";

    #[test]
    fn what_was_typed_is_text_wherever_it_comes() {
        let mut facts = Facts { time: SECOND, ..Facts::default() };
        facts.counts.rule(Told {
            time: 1,
            ruling: Ruling::Asked,
            rule: EVIL.into(),
            line: Some(EVIL.into()),
        });
        facts.commands.push(Often { what: EVIL.into(), count: 3 });
        facts.directories.push(Often { what: EVIL.into(), count: 2 });
        let line = EVIL.to_owned();
        facts.slowest.push(Slow {
            directory: line.clone(),
            line,
            started: 0,
            duration: SECOND,
            exit: Some(1),
        });
        facts.problems.push(EVIL.into());
        let html = page(&facts);
        assert!(
            !html.contains("<script") && !html.contains("alert('") && !html.contains(['\u{202e}', '\u{1b}'])
        );
        let shown = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp; <i>U+202E</i><i>U+001B</i>]0;x<i>U+0007</i>";
        assert_eq!(html.matches(shown).count(), 8, "{html}");
    }

    #[test]
    fn any_text_stays_between_the_tags() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let shown = text(&String::from_utf8_lossy(bytes)).replace("<i>U+", "").replace("</i>", "");
            assert!(!shown.contains(['<', '>', '"', '\'']), "{shown}");
            assert!(!shown.chars().any(char::is_control), "{shown}");
        });
    }

    #[test]
    fn an_empty_page_is_a_page() {
        let html = page(&Facts::default());
        assert_eq!(html.matches("None yet.").count(), 5);
        for tag in ["html", "head", "body", "main", "section", "table", "header", "dl"] {
            let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
            let opened =
                html.matches(&format!("{open}>")).count() + html.matches(&format!("{open} ")).count();
            assert_eq!(opened, html.matches(&close).count(), "{tag}");
        }
    }

    #[test]
    fn numbers_are_for_people() {
        assert_eq!(grouped(1_234_567).replace('\u{202f}', " "), "1 234 567");
        assert_eq!((grouped(0).as_str(), grouped(999).as_str()), ("0", "999"));
        assert_eq!((percent(1, 8).as_deref(), percent(1, 0)), (Some("12.5 %"), None));
        for (nanoseconds, wanted) in [
            (1_500_000, "1 ms"),
            (59 * SECOND + SECOND / 2, "59.5 s"),
            (61 * SECOND, "1:01 min"),
            (7322 * SECOND, "2:02 h"),
        ] {
            assert_eq!(lasted(nanoseconds), wanted);
        }
        for (seconds, wanted) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_763_833_634, "2025-11-22 17:47:14"),
        ] {
            assert_eq!(moment(seconds * SECOND), wanted);
        }
    }
}
