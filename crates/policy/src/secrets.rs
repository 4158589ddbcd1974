// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of files that hold secrets in projects. A name alone is enough for some; for others the content decides, because
//! most files of that name hold none.

use crate::environment::has_token;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What shows that a file holds a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Its name.
    Name,
    /// One of these texts in it.
    Content(&'static [&'static str]),
    /// A token of a known form, or a private key, in it.
    Token,
}

/// The private part of a key. A certificate or a public key has none of it.
const KEYS: &[&str] = &["PRIVATE KEY"];

use Evidence::{Content, Name, Token};

/// Names, the first that fits decides. At the beginning or the end a `*` stands for any characters; a slash separates the
/// directory's name from the file's.
const FILES: &[(&str, Evidence)] = &[
    (".env", Name),
    (".env.*", Name),
    ("*.env", Name),
    (".envrc", Token),
    (".dev.vars", Name),
    (".netrc", Name),
    ("_netrc", Name),
    (".git-credentials", Name),
    (".pgpass", Name),
    (".my.cnf", Content(&["password"])),
    (".htpasswd", Name),
    (".vault-token", Name),
    (".vault_pass*", Name),
    ("id_rsa", Name),
    ("id_dsa", Name),
    ("id_ecdsa", Name),
    ("id_ed25519", Name),
    ("*.pem", Content(KEYS)),
    ("*.key", Content(KEYS)),
    ("*.ppk", Name),
    ("*.p12", Name),
    ("*.pfx", Name),
    ("*.jks", Name),
    ("*.keystore", Name),
    ("*.kdbx", Name),
    (".npmrc", Content(&["_authToken", "_password", "_auth="])),
    (".yarnrc.yml", Content(&["npmAuthToken", "npmAuthIdent"])),
    (".pypirc", Content(&["password"])),
    ("pip.conf", Content(&["@"])),
    ("nuget.config", Content(&["ClearTextPassword", "<add key=\"Password\""])),
    ("gradle.properties", Content(&["assword=", "oken=", "ecret="])),
    (".cargo/credentials", Name),
    (".cargo/credentials.toml", Name),
    (".docker/config.json", Content(&["\"auth\"", "identitytoken"])),
    (".dockercfg", Content(&["\"auth\""])),
    (".aws/credentials", Name),
    (".kube/config", Name),
    ("kubeconfig", Content(&["client-key-data", "token:"])),
    ("gh/hosts.yml", Content(&["oauth_token"])),
    ("credentials.json", Content(&["private_key", "client_secret", "refresh_token", "access_token"])),
    ("client_secret*", Content(&["client_secret"])),
    ("service-account*", Content(KEYS)),
    ("service_account*", Content(KEYS)),
    ("terraform.tfstate*", Content(&["\"sensitive_attributes\": [[", "\"sensitive\": true"])),
    ("*.tfvars", Content(&["assword", "oken", "ecret", "_key"])),
    ("secrets.*", Content(&["assword", "oken", "ecret", "_key", "apiKey", "api-key"])),
    ("local.settings.json", Content(&["AccountKey=", "Password=", "SharedAccessKey="])),
    ("appsettings*", Content(&["AccountKey=", "Password=", "SharedAccessKey="])),
];

/// Files of settings: one of these words in the name, or in the directory's name, and one of these endings. A token in them
/// is one that somebody wrote there.
const SETTINGS: &[&str] =
    &["config", "setting", "secret", "credential", "compose", "application", "values", "wrangler", "mcp"];
const ENDINGS: &[&str] =
    &[".json", ".jsonc", ".yml", ".yaml", ".toml", ".ini", ".cfg", ".conf", ".properties"];

/// The endings of examples, which are meant to be read.
const EXAMPLES: &[&str] = &[".example", ".sample", ".template", ".tmpl", ".dist", ".defaults", ".schema"];

/// Directories that hold the files of others: packages, builds, the repository itself. No secret of the project is
/// looked for in them.
pub const SKIPPED: &[&str] = &[
    ".git",
    ".hg",
    ".svn",
    "node_modules",
    "target",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
    ".next",
    ".gradle",
];

/// The largest file whose content is searched, in bytes. A lock file of packages may be larger, and is none of them.
pub const LARGEST: usize = 256 * 1024;

/// What would show that the file at `path` holds a secret. `None`: nothing would.
#[must_use]
pub fn evidence(path: &Path) -> Option<Evidence> {
    let name = path.file_name()?.as_bytes();
    if EXAMPLES.iter().any(|ending| {
        name.ends_with(ending.as_bytes())
            || (name.starts_with(b".env.")
                && name.windows(ending.len()).any(|part| part == ending.as_bytes()))
    }) {
        return None;
    }
    let directory = path.parent().and_then(Path::file_name).map(OsStrExt::as_bytes);
    let found = FILES.iter().find(|(pattern, _evidence)| match pattern.split_once('/') {
        Some((above, own)) => directory == Some(above.as_bytes()) && fits(own, name),
        None => fits(pattern, name),
    });
    let named = |word: &&str| {
        contains(name, word.as_bytes()) || directory.is_some_and(|above| contains(above, word.as_bytes()))
    };
    let settings =
        || ENDINGS.iter().any(|ending| name.ends_with(ending.as_bytes())) && SETTINGS.iter().any(named);
    found.map(|(_pattern, evidence)| *evidence).or_else(|| settings().then_some(Token))
}

impl Evidence {
    /// Whether a file's content is needed.
    #[must_use]
    pub const fn is_in_content(self) -> bool {
        !matches!(self, Self::Name)
    }

    /// Whether a file with this content holds a secret.
    #[must_use]
    pub fn holds(self, content: &[u8]) -> bool {
        match self {
            Self::Name => true,
            Self::Content(marks) => marks.iter().any(|mark| contains(content, mark.as_bytes())),
            Self::Token => has_token(content) || contains(content, b"PRIVATE KEY-----"),
        }
    }
}

fn contains(content: &[u8], mark: &[u8]) -> bool {
    let Some(first) = mark.first() else { return false };
    let mut rest = content;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        rest = &rest[at..];
        if rest.starts_with(mark) {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

/// Whether a name fits a pattern with at most one `*`, at an end.
fn fits(pattern: &str, name: &[u8]) -> bool {
    let pattern = pattern.as_bytes();
    match (pattern.strip_prefix(b"*"), pattern.strip_suffix(b"*")) {
        (Some(end), _) => name.len() > end.len() && name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_name(path: &str) -> bool {
        evidence(Path::new(path)) == Some(Name)
    }

    #[test]
    fn names_alone_show_what_holds_nothing_but_secrets() {
        for path in
            [".env", "a/.env.local", "prod.env", ".netrc", "k/id_ed25519", "x.p12", ".aws/credentials"]
        {
            assert!(by_name(path), "{path}");
        }
        for path in
            [".env.example", ".env.local.sample", "id_ed25519.pub", "env", "src/main.rs", "credentials"]
        {
            assert_eq!(evidence(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn content_decides_where_a_name_says_too_little() {
        let held = |path: &str, content: &str| {
            let evidence = evidence(Path::new(path)).unwrap();
            assert!(evidence.is_in_content());
            evidence.holds(content.as_bytes())
        };
        assert!(held(".npmrc", "//registry.example.org/:_authToken=x"));
        assert!(!held(".npmrc", "save-exact=true"));
        assert!(held("ca.pem", "-----BEGIN EC PRIVATE KEY-----"));
        assert!(!held("ca.pem", "-----BEGIN CERTIFICATE-----"));
        assert!(held("config/app.json", "{\"key\": \"sk-ant-api03-0123456789abcdefghij\"}"));
        assert!(!held("tsconfig.json", "{\"scripts\": {\"x\": \"echo $npm_package_version\"}}"));
        assert_eq!(evidence(Path::new("package.json")), None);
        assert!(held(".docker/config.json", "{\"auths\": {\"x\": {\"auth\": \"eA==\"}}}"));
    }

    #[test]
    fn any_path_and_content_is_judged() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let path = Path::new(std::ffi::OsStr::from_bytes(bytes));
            let _any = Token.holds(bytes);
            if let Some(Content(marks)) = evidence(path) {
                let with: Vec<u8> = [bytes, marks[0].as_bytes()].concat();
                assert!(Content(marks).holds(&with));
            }
        });
    }
}
