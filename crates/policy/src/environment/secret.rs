// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recognises secrets by a variable's value: URLs with a password, and tokens whose issuers gave them a known shape.
//!
//! This runs at every launch, on each variable that no rule is about. So it reads each byte once.

/// A URL with a password.
const URL: &str = "a URL with a password";
/// A private key in PEM.
const PRIVATE_KEY: &str = "a private key";
/// The first line of such a key, up to the kind of key.
const PEM: &[u8] = b"-----BEGIN ";

/// The beginnings of tokens, the fewest letters and digits that follow, and what the token is. From the issuers'
/// documentation of their formats.
const TOKENS: &[(&[u8], usize, &str)] = &[
    (b"AKIA", 16, "an access key of AWS"),
    (b"ASIA", 16, "an access key of AWS"),
    (b"AIza", 35, "an API key of Google"),
    (b"dckr_pat_", 20, "a token of Docker Hub"),
    (b"dop_v1_", 64, "a token of DigitalOcean"),
    (b"gho_", 36, "a token of GitHub"),
    (b"ghp_", 36, "a token of GitHub"),
    (b"ghr_", 36, "a token of GitHub"),
    (b"ghs_", 36, "a token of GitHub"),
    (b"ghu_", 36, "a token of GitHub"),
    (b"github_pat_", 22, "a token of GitHub"),
    (b"glpat-", 20, "a token of GitLab"),
    (b"hf_", 30, "a token of Hugging Face"),
    (b"npm_", 36, "a token of npm"),
    (b"pypi-AgE", 50, "a token of PyPI"),
    (b"rubygems_", 48, "a key of RubyGems"),
    (b"sk-ant-", 20, "an API key of Anthropic"),
    (b"sk-proj-", 20, "an API key of OpenAI"),
    (b"sk_live_", 20, "a key of Stripe"),
    (b"xapp-", 20, "a token of Slack"),
    (b"xoxb-", 20, "a token of Slack"),
    (b"xoxp-", 20, "a token of Slack"),
];

/// One bit for the first byte of each token, by its five lower bits.
const FIRST: u32 = {
    let (mut bits, mut at) = (0, 0);
    while at < TOKENS.len() {
        bits |= 1 << (TOKENS[at].0[0] & 31);
        at += 1;
    }
    bits
};

/// What secret a value holds, if it holds one.
pub(super) fn shape(value: &[u8]) -> Option<&'static str> {
    if value.starts_with(PEM) && value.windows(11).take(64).any(|part| part == b"PRIVATE KEY") {
        return Some(PRIVATE_KEY);
    }
    let mut in_word = false;
    for (at, &byte) in value.iter().enumerate() {
        if byte == b':' && has_password(&value[at..]) {
            return Some(URL);
        }
        let starts = !in_word;
        in_word = is_of_token(byte);
        if starts
            && FIRST >> (byte & 31) & 1 == 1
            && let Some(token) = token(&value[at..])
        {
            return Some(token);
        }
    }
    None
}

/// Whether a text has a token anywhere.
pub(crate) fn has_token(text: &[u8]) -> bool {
    let mut in_word = false;
    text.iter().enumerate().any(|(at, &byte)| {
        let starts = !in_word;
        in_word = is_of_token(byte);
        starts && FIRST >> (byte & 31) & 1 == 1 && token(&text[at..]).is_some()
    })
}

const fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// The token that a text begins with.
fn token(text: &[u8]) -> Option<&'static str> {
    let holds = |(front, fewest, _what): &&(&[u8], usize, &str)| {
        text.strip_prefix(*front).is_some_and(|rest| {
            let length = rest.iter().position(|byte| !is_of_token(*byte)).unwrap_or(rest.len());
            length >= *fewest
        })
    };
    TOKENS.iter().find(holds).map(|(_front, _fewest, what)| *what)
}

/// Whether `://` is followed by a user with a password.
fn has_password(text: &[u8]) -> bool {
    let Some(rest) = text.strip_prefix(b"://") else { return false };
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#') || byte.is_ascii_whitespace());
    let authority = &rest[..end.unwrap_or(rest.len())];
    let Some(at) = authority.iter().rposition(|byte| *byte == b'@') else { return false };
    let colon = authority[..at].iter().position(|byte| *byte == b':');
    colon.is_some_and(|colon| colon + 1 < at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_with_a_password_are_recognised() {
        for value in [
            "postgres://u:p@db.example/app",
            "redis://:p@127.0.0.1:6379",
            "a=1 amqp://u:p@h",
            "https://u:p%40x@h:1/x?y=@",
        ] {
            assert_eq!(shape(value.as_bytes()), Some(URL), "{value}");
        }
        for value in [
            "https://example.com/a:b@c",
            "postgres://u@db/app",
            "postgres://u:@db/app",
            "http://127.0.0.1:8080",
            "https://example.com?x=u:p@h",
            "://",
            "u:p@h",
            "/usr/bin:/bin",
            "",
        ] {
            assert_eq!(shape(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn tokens_are_recognised_where_a_word_begins() {
        let long = "a1B2c3D4e5".repeat(7);
        for (front, fewest, what) in TOKENS {
            let front = std::str::from_utf8(front).unwrap();
            for (before, after) in [("", ""), ("Bearer ", ""), ("https://", "@github.com/x"), ("a=", " b")] {
                let value = format!("{before}{front}{}{after}", &long[..*fewest]);
                assert_eq!(shape(value.as_bytes()), Some(*what), "{value}");
            }
            let short = format!("{front}{}", &long[..fewest - 1]);
            assert_eq!(shape(short.as_bytes()), None, "{short}");
            let inside = format!("x{front}{}", &long[..*fewest]);
            assert_eq!(shape(inside.as_bytes()), None, "{inside}");
        }
    }

    #[test]
    fn a_private_key_is_recognised_and_a_certificate_is_none() {
        assert_eq!(shape(b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl"), Some(PRIVATE_KEY));
        assert_eq!(shape(b"-----BEGIN CERTIFICATE-----\nMIIB"), None);
    }
}
