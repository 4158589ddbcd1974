// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The mirrors in Maven's settings, without the passwords beside them.
//!
//! This is no reader of XML. It looks for elements whose content is plain text, and leaves a mirror out that has anything
//! else.

/// Maven's file of the user, below the home.
pub(super) const PATH: &str = ".m2/settings.xml";
/// What is copied of a mirror.
const ELEMENTS: [&str; 6] = ["id", "name", "url", "mirrorOf", "layout", "blocked"];

/// Settings with the same mirrors and nothing else; empty if there is none.
pub(super) fn mirrors(text: &str) -> String {
    let text = without_comments(text);
    let mirrors: String = contents(&text, "mirror").filter_map(mirror).collect();
    if mirrors.is_empty() {
        return mirrors;
    }
    format!("<settings>\n  <mirrors>\n{mirrors}  </mirrors>\n</settings>\n")
}

fn mirror(content: &str) -> Option<String> {
    let mut written = String::from("    <mirror>\n");
    for element in ELEMENTS {
        let Some(value) = contents(content, element).next() else { continue };
        let value = value.trim();
        // A reference leads to a variable, which may be a secret.
        if value.contains(['<', '>']) || value.contains("${") || value.chars().any(char::is_control) {
            return None;
        }
        written.push_str(&format!("      <{element}>{}</{element}>\n", super::without_user(value)));
    }
    let is_whole = ["<url>", "<mirrorOf>"].iter().all(|needed| written.contains(needed));
    is_whole.then(|| written + "    </mirror>\n")
}

/// The contents of the elements of this name that have no attribute.
fn contents<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_before, after) = rest.split_once(&open)?;
        let (content, after) = after.split_once(&close)?;
        rest = after;
        Some(content)
    })
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("<!--");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // A comment that doesn't end hides the rest.
        out.push_str(part.split_once("-->").map_or("", |(_comment, after)| after));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_stay_and_passwords_go() {
        let text = "<?xml version=\"1.0\"?>\n<settings xmlns=\"x\">\n<servers><server><id>corp</id><password>s3cret</password>\
                    </server></servers>\n<!-- <mirror><url>https://s3cret</url><mirrorOf>*</mirrorOf></mirror> -->\n\
                    <mirrors><mirror>\n <id>corp</id>\n <url>https://u:s3cret@maven.corp.example/m2</url>\n\
                    <mirrorOf>*,!a</mirrorOf><password>s3cret</password></mirror>\n\
                    <mirror><id>b</id><url>${env.s3cret}</url><mirrorOf>b</mirrorOf></mirror>\
                    <mirror><id>c</id><url><![CDATA[s3cret]]></url><mirrorOf>c</mirrorOf></mirror>\
                    <mirror><id>d</id><url>https://d.example/?a=1&amp;b</url><mirrorOf>d</mirrorOf></mirror>\
                    <mirror><id>e</id></mirror></mirrors></settings>";
        assert_eq!(
            mirrors(text),
            "<settings>\n  <mirrors>\n    <mirror>\n      <id>corp</id>\n      <url>https://maven.corp.example/m2</url>\n      \
             <mirrorOf>*,!a</mirrorOf>\n    </mirror>\n    <mirror>\n      <id>d</id>\n      \
             <url>https://d.example/?a=1&amp;b</url>\n      <mirrorOf>d</mirrorOf>\n    </mirror>\n  </mirrors>\n</settings>\n"
        );
        for nothing in ["", "<settings/>", "<mirror><url>x</url>", "<!-- <mirror>"] {
            assert_eq!(mirrors(nothing), "", "{nothing}");
        }
    }
}
