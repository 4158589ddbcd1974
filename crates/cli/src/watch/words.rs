// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes events as lines, below headings that say where the events are from.

use crate::{guard, palisaded, scope};
use palisade_event::{Event, Kind, Launch, Verdict};
use palisade_events::Style;
use palisade_text::harmless;

/// The source that a heading names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heading {
    /// Events of one launch. `None`: events of a store that doesn't say which launch.
    Launch(Option<Launch>),
    /// Those of the guard.
    Guard,
    /// Those of one scope.
    Scope(Option<u32>),
}

impl Heading {
    pub(super) fn of(event: &Event) -> Self {
        match event.kind() {
            Kind::Sandbox | Kind::Network => Self::Launch(event.launch.clone()),
            Kind::Guard => Self::Guard,
            Kind::Scope => Self::Scope(event.subject.scope),
        }
    }

    /// The heading's line. The sandbox's name comes from an event.
    pub(super) fn line(&self, event: &Event, style: Style) -> String {
        let line = match self {
            Self::Launch(Some(launch)) => {
                let name = event.subject.sandbox.as_ref().map(|name| format!(" ({})", harmless(name)));
                let (number, command) = (harmless(&launch.sandbox), harmless(&launch.command));
                format!("sandbox {number}{}: {command}", name.unwrap_or_default())
            }
            Self::Launch(None) => "sandbox".to_owned(),
            Self::Guard => "guard".to_owned(),
            Self::Scope(number) => format!("scope {}", palisaded::number(*number)),
        };
        format!("{}\n", coloured(style, "1", &line))
    }
}

/// What happened, by which rule, and what would permit it.
pub(super) fn words(event: &Event, clock: &str, style: Style) -> String {
    let colour = match event.verdict {
        Verdict::Allowed => "32",
        Verdict::Refused | Verdict::Killed => "31",
        Verdict::Downgraded | Verdict::Warned | Verdict::WouldBeRefused => "33",
    };
    let clock = coloured(style, "2", clock);
    let mut text = match event.kind() {
        Kind::Sandbox | Kind::Network => refused(event, &clock, colour, style),
        Kind::Guard => format!("{clock} {}\n", coloured(style, colour, &harmless(&guard::decided(event)))),
        Kind::Scope => format!("{clock} {}\n", coloured(style, colour, &harmless(&scope::happened(event)))),
    };
    if let Some(hint) = &event.hint {
        text.push_str(&format!("    {} {}\n", coloured(style, "36", "hint:"), harmless(hint)));
    }
    text
}

fn refused(event: &Event, clock: &str, colour: &str, style: Style) -> String {
    let pid = event.subject.pid.map(|pid| format!(" ({pid})")).unwrap_or_default();
    let rule = event.why.origin.as_ref().map(|origin| format!(", {origin}")).unwrap_or_default();
    let times = if event.count > 1 { format!(" ({} times)", event.count) } else { String::new() };
    format!(
        "{clock} {}{pid}: {} {} {}: {}{}{times}\n",
        harmless(&event.subject.program),
        coloured(style, colour, event.verdict.word()),
        event.operation,
        coloured(style, "1", &harmless(&event.object.to_string())),
        harmless(&event.why.text),
        harmless(&rule),
    )
}

/// Only the time of day, if the day is today.
pub(super) fn since_midnight<'a>(clock: &'a str, today: &str) -> &'a str {
    match (clock.split_once(' '), today.split_once(' ')) {
        (Some((day, time)), Some((today, _))) if day == today => time,
        _ => clock,
    }
}

fn coloured(style: Style, code: &str, text: &str) -> String {
    match style {
        Style::Plain => text.to_owned(),
        Style::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn today_needs_no_date() {
        assert_eq!(since_midnight("2026-01-02 03:04:05", "2026-01-02 10:00:00"), "03:04:05");
        assert_eq!(since_midnight("2026-01-01 03:04:05", "2026-01-02 10:00:00"), "2026-01-01 03:04:05");
    }
}
