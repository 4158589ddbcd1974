// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds which package registries a user has configured, and writes that down without credentials.
//!
//! A company's mirror is configured in files of the home, beside the tokens for it. A sandbox's home is private, so
//! package managers there would ask the public registries. Only lines that name a registry are copied. A line that
//! isn't understood is left out.

mod maven;

use crate::file::{self, Links};
use std::path::{Path, PathBuf};

/// The largest file that is read.
const CAP: usize = 64 * 1024;

/// A file for the home inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Where it is, in the home inside and on the host.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
}

/// A package manager's file.
struct Manager {
    /// Below the home.
    path: &'static str,
    /// The sections whose keys are copied. A name that ends with a dot stands for those that begin with it.
    sections: &'static [&'static str],
    /// The keys.
    keys: &'static [&'static str],
    /// Values are in quotation marks, as in TOML.
    quoted: bool,
    /// What is written between a key and its value.
    is: &'static str,
}

const MANAGERS: [Manager; 6] = [
    // npm, pnpm and yarn. `@scope:registry` is a key of its own.
    Manager { path: ".npmrc", sections: &[""], keys: &["registry", "strict-ssl"], quoted: false, is: " = " },
    // What `go env -w` has written.
    Manager {
        path: ".config/go/env",
        sections: &[""],
        keys: &["GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB", "GOINSECURE"],
        quoted: false,
        is: "=",
    },
    PIP.at(".config/pip/pip.conf"),
    PIP.at(".pip/pip.conf"),
    CARGO.at(".cargo/config.toml"),
    CARGO.at(".cargo/config"),
];

const PIP: Manager = Manager {
    path: "",
    sections: &["global", "install", "download"],
    keys: &["index-url", "index_url", "extra-index-url", "extra_index_url", "trusted-host", "trusted_host"],
    quoted: false,
    is: " = ",
};

const CARGO: Manager = Manager {
    path: "",
    sections: &["source.", "registries.", "registry"],
    keys: &["registry", "replace-with", "index", "default", "protocol"],
    quoted: true,
    is: " = ",
};

impl Manager {
    const fn at(self, path: &'static str) -> Self {
        Self { path, ..self }
    }

    fn has_section(&self, section: &str) -> bool {
        self.sections.iter().any(|known| {
            *known == section
                || (known.ends_with('.') && section.len() > known.len() && section.starts_with(known))
        })
    }

    fn has_key(&self, key: &str) -> bool {
        let scoped = key.strip_prefix('@').and_then(|scoped| scoped.strip_suffix(":registry"));
        self.keys.contains(&key)
            || (self.path == ".npmrc" && scoped.is_some_and(|scope| !scope.contains(':')))
    }

    /// The lines about registries, without credentials.
    fn without_credentials(&self, text: &str) -> String {
        let (mut out, mut section, mut said) = (String::new(), "", None);
        // Whether an indented line goes on with a key that was copied.
        let mut goes_on = false;
        for line in text.lines() {
            let words = line.trim();
            if words.is_empty() || words.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = words.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                (section, goes_on) = (name.trim(), false);
                continue;
            }
            let indented = line.starts_with([' ', '\t']) && !self.quoted;
            let written = if indented && goes_on {
                self.value(words).map(|value| format!("    {value}\n"))
            } else {
                let stated = words.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
                let stated = stated.filter(|(key, _value)| self.has_section(section) && self.has_key(key));
                goes_on = stated.is_some();
                stated.and_then(|(key, value)| {
                    // The value may begin on the next line.
                    let value = if value.is_empty() { Some(String::new()) } else { self.value(value) };
                    Some(format!("{key}{}{}\n", self.is, value?))
                })
            };
            let Some(written) = written else { continue };
            if !section.is_empty() && said != Some(section) {
                out.push_str(&format!("[{section}]\n"));
                said = Some(section);
            }
            out.push_str(&written);
        }
        out
    }

    /// A value without user and password. `None`: it isn't understood.
    fn value(&self, text: &str) -> Option<String> {
        if text.contains("${") || text.chars().any(char::is_control) {
            return None;
        }
        if !self.quoted {
            // Lists of URLs: of pip, and of Go.
            return Some(text.split_inclusive([' ', ',', '|']).map(without_user).collect());
        }
        let inner = text.strip_prefix('"')?;
        let (inner, rest) = inner.split_once('"')?;
        let rest = rest.trim();
        let understood = !inner.contains('\\') && (rest.is_empty() || rest.starts_with('#'));
        understood.then(|| format!("\"{}\"", without_user(inner)))
    }
}

/// A URL without its user and password. Another text as it is.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

/// The files in which registries may be configured.
pub fn sources(home: &Path) -> impl Iterator<Item = PathBuf> {
    MANAGERS.iter().map(|manager| manager.path).chain([maven::PATH]).map(|path| home.join(path))
}

/// The configurations of registries in a home.
#[must_use]
pub fn find(home: &Path) -> Vec<Configuration> {
    let read = |path: &str, write: &dyn Fn(&str) -> String| {
        let path = home.join(path);
        let bytes = file::read(&path, CAP, Links::Follow).ok()?;
        let text = write(&String::from_utf8_lossy(&bytes));
        (!text.is_empty()).then_some(Configuration { path, text })
    };
    let listed =
        MANAGERS.iter().filter_map(|manager| read(manager.path, &|text| manager.without_credentials(text)));
    listed.chain(read(maven::PATH, &maven::mirrors)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, text: &str) -> String {
        MANAGERS.iter().find(|manager| manager.path == path).unwrap().without_credentials(text)
    }

    #[test]
    fn npms_registries_stay_and_its_tokens_go() {
        let text = "# mine\nregistry=https://u:p@npm.corp.example/\n@corp:registry = https://npm.corp.example/corp/\n\
                    //npm.corp.example/:_authToken=s3cret\n_auth=s3cret\nemail=me@corp.example\nstrict-ssl=false\n\
                    registry=${SECRET_URL}\n@a:b:registry=x\ncafile=/home/me/s3cret\n";
        assert_eq!(
            of(".npmrc", text),
            "registry = https://npm.corp.example/\n@corp:registry = https://npm.corp.example/corp/\nstrict-ssl = false\n"
        );
    }

    #[test]
    fn pips_indexes_stay_in_their_sections() {
        let text = "[global]\nindex-url = https://me:s3cret@pip.corp.example/simple\nextra-index-url =\n    \
                    https://u:s3cret@a.example/simple\n    https://b.example/simple\nproxy = http://u:s3cret@p\n    s3cret\n\
                    [list]\nformat = columns\n[install]\ntrusted-host = pip.corp.example\n";
        assert_eq!(
            of(".config/pip/pip.conf", text),
            "[global]\nindex-url = https://pip.corp.example/simple\nextra-index-url = \n    https://a.example/simple\n    \
             https://b.example/simple\n[install]\ntrusted-host = pip.corp.example\n"
        );
    }

    #[test]
    fn cargos_sources_stay_and_its_tokens_go() {
        let text = "[build]\nrustc-wrapper = \"/s3cret\"\n[source.crates-io]\nreplace-with = \"corp\" # here\n[source.corp]\n\
                    registry = \"sparse+https://u:s3cret@cargo.corp.example/index/\"\n[registries.corp]\n\
                    index = \"https://cargo.corp.example/git\"\ntoken = \"s3cret\"\n[registry]\ndefault = \"corp\"\n\
                    token = \"s3cret\"\n[registries]\nindex = \"s3cret\"\n";
        assert_eq!(
            of(".cargo/config.toml", text),
            "[source.crates-io]\nreplace-with = \"corp\"\n[source.corp]\n\
             registry = \"sparse+https://cargo.corp.example/index/\"\n[registries.corp]\n\
             index = \"https://cargo.corp.example/git\"\n[registry]\ndefault = \"corp\"\n"
        );
    }

    #[test]
    fn gos_proxies_stay_and_its_credentials_go() {
        let text = "GOPROXY=https://u:s3cret@go.corp.example,https://x:s3cret@b.example|direct\nGOPRIVATE=*.corp.example\n\
                    GOAUTH=s3cret\nGOFLAGS=-tags=s3cret\n";
        assert_eq!(
            of(".config/go/env", text),
            "GOPROXY=https://go.corp.example,https://b.example|direct\nGOPRIVATE=*.corp.example\n"
        );
    }

    #[test]
    fn what_is_not_understood_is_left_out() {
        for (path, text) in [
            (".cargo/config.toml", "[registry]\ndefault = 'corp'\ndefault = \"a\\\"b\"\ndefault = \"a\" b\n"),
            (".cargo/config.toml", "registry = \"x\"\n[[registries.a]]\nindex = 1\n"),
            (".npmrc", "[section]\nregistry=https://a.example\n"),
            (".npmrc", "registry\n\u{0}\n"),
        ] {
            assert_eq!(of(path, text), "", "{text}");
        }
    }

    #[test]
    fn files_of_a_home_are_found() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(".npmrc"), "registry=https://a.example/\n").unwrap();
        let found = find(home.path());
        let path = home.path().join(".npmrc");
        assert_eq!(found, [Configuration { path, text: "registry = https://a.example/\n".into() }]);
        assert_eq!(sources(home.path()).count(), MANAGERS.len() + 1);
    }
}
