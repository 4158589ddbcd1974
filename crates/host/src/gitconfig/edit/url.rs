// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Judges repositories' addresses, classified as git does (`transport.c`, `connect.c`).
//!
//! Only addresses of git's own transports in a plain form are accepted: no `helper::address`, which runs the program
//! `git-remote-helper` (`ext::` any command), no part that ssh could read as an option, no encoded control
//! characters.

/// Where an address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leads {
    /// To a server.
    Elsewhere,
    /// A path or `file://`.
    ThisHost,
}

/// Where an address leads.
///
/// # Errors
/// Why it may not be used.
pub(super) fn read(url: &[u8]) -> Result<Leads, &'static str> {
    const PLAIN: &str = "the address has a form that isn't allowed";
    if url.is_empty() || url.iter().any(u8::is_ascii_control) || hides_control(url) || url.starts_with(b"-") {
        return Err(PLAIN);
    }
    let after_scheme = url.iter().position(|byte| !is_scheme(*byte)).unwrap_or(url.len());
    let (scheme, rest) = url.split_at(after_scheme);
    if rest.starts_with(b"::") {
        return Err("git would run a program for such an address");
    }
    if let Some(rest) = rest.strip_prefix(b"://") {
        let slash = rest.iter().position(|byte| *byte == b'/').ok_or(PLAIN)?;
        let (authority, path) = rest.split_at(slash);
        return match scheme {
            b"https" | b"http" if is_web_authority(authority) => Ok(Leads::Elsewhere),
            b"ssh" | b"git" | b"git+ssh" | b"ssh+git"
                if is_authority(authority, true) && is_remote_path(&path[1..]) =>
            {
                Ok(Leads::Elsewhere)
            }
            b"https" | b"http" | b"ssh" | b"git" | b"git+ssh" | b"ssh+git" => Err(PLAIN),
            b"file" => Ok(Leads::ThisHost),
            _ => Err("git would run a program for such an address"),
        };
    }
    if has(url, b"://") {
        return Err(PLAIN);
    }
    // `host:path` is ssh, unless a slash comes first; a colon in brackets is part of the host.
    let bracket = url.iter().position(|byte| *byte == b']').unwrap_or(0);
    let colon = url.iter().skip(bracket).position(|byte| *byte == b':').map(|at| at + bracket);
    match (url.iter().position(|byte| *byte == b':'), url.iter().position(|byte| *byte == b'/')) {
        (None, _) => return Ok(Leads::ThisHost),
        (Some(colon), Some(slash)) if slash < colon => return Ok(Leads::ThisHost),
        _ => {}
    }
    let colon = colon.ok_or(PLAIN)?;
    let (host, path) = (&url[..colon], &url[colon + 1..]);
    if is_authority(host, false) && is_remote_path(path) { Ok(Leads::Elsewhere) } else { Err(PLAIN) }
}

fn is_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Whether a percent encoding hides a control character. Git decodes `%0a` before it passes an address to servers and
/// credential helpers.
fn hides_control(url: &[u8]) -> bool {
    url.windows(3).any(|window| {
        let [b'%', high, low] = *window else { return false };
        matches!((high, low.to_ascii_lowercase()), (b'0' | b'1', _) | (b'7', b'f'))
    })
}

fn is_remote_path(path: &[u8]) -> bool {
    !path.is_empty() && !path.starts_with(b"-")
}

/// `user:password@host:port`; only the password may have other characters.
fn is_web_authority(authority: &[u8]) -> bool {
    let host = match authority.iter().rposition(|byte| *byte == b'@') {
        Some(at) => {
            let (user, host) = authority.split_at(at);
            if user.iter().any(|byte| matches!(byte, b' ' | b'\\' | b'?' | b'#')) {
                return false;
            }
            &host[1..]
        }
        None => authority,
    };
    is_host(host, true)
}

/// `user@host:port` of ssh addresses.
fn is_authority(authority: &[u8], port: bool) -> bool {
    match authority.iter().position(|byte| *byte == b'@') {
        Some(at) => is_word(&authority[..at]) && is_host(&authority[at + 1..], port),
        None => is_host(authority, port),
    }
}

fn is_host(host: &[u8], port: bool) -> bool {
    if let Some(rest) = host.strip_prefix(b"[") {
        let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
        let (address, after) = (&rest[..end], &rest[end + 1..]);
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'.' | b'-' | b'_');
        return !address.is_empty()
            && !address.starts_with(b"-")
            && address.iter().all(plain)
            && (after.is_empty() || (port && is_port(after)));
    }
    match host.iter().position(|byte| *byte == b':') {
        Some(colon) => port && is_word(&host[..colon]) && is_port(&host[colon..]),
        None => is_word(host),
    }
}

fn is_port(text: &[u8]) -> bool {
    text.strip_prefix(b":").is_some_and(|digits| digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit))
}

fn is_word(text: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'+');
    !text.is_empty() && !text.starts_with(b"-") && text.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        for url in [
            "https://example.org/a/b.git",
            "http://127.0.0.1:8080/x",
            "https://ann:to%40ken@example.org/x",
            "https://[::1]:443/x",
            "ssh://git@example.org:22/~ann/x",
            "ssh://example.org/x",
            "git+ssh://example.org/x",
            "git://example.org/x",
            "git@github.com:owner/name.git",
            "example.org:x",
            "example.org:/srv/x",
            "[example.org:22]:x",
            "git@[::1]:x",
            "org-1234@github.com:a/b",
        ] {
            assert_eq!(read(url.as_bytes()), Ok(Leads::Elsewhere), "{url}");
        }
    }

    #[test]
    fn paths() {
        for url in ["/srv/x", "../x", "x", ".", "./a:b", "file:///srv/x", "a/b:c", "file://host/x", "~/x"] {
            assert_eq!(read(url.as_bytes()), Ok(Leads::ThisHost), "{url}");
        }
    }

    #[test]
    fn programs_options_and_disguises() {
        for url in [
            "",
            "ext::sh -c id",
            "EXT::sh",
            "fd::17",
            "::x",
            "https::https://example.org/x",
            "host::path",
            "-x",
            "--upload-pack=id",
            "ssh://-oProxyCommand=id/x",
            "ssh://-x/y",
            "ssh://git@-x/y",
            "git@-x:y",
            "https://-x/y",
            "ssh://%2DoProxyCommand=id/x",
            "ssh://git@-oProxyCommand=id/x",
            "-oProxyCommand=id:x",
            "git@-oProxyCommand=id:x",
            "ssh://[-oProxyCommand=id]/x",
            "[-oProxyCommand=id]:x",
            "host:-x",
            "host:",
            ":x",
            "ssh://host",
            "ssh:///x",
            "ssh://host/-x",
            "https:///x",
            "HTTPS://example.org/x",
            "ftp://example.org/x",
            "testgit://x/y",
            "file:://x",
            "https://example.org%0a/x",
            "https://example.org/x%0Ahost=evil",
            "git://example.org/x%00",
            "https://example.org/\nx",
            "https://exa mple.org/x",
            "https://example.org\\@evil/x",
            "ssh://host:22x/y",
            "a b:c",
            "a://b",
            "x/y://z",
            "[::1:x",
        ] {
            assert!(read(url.as_bytes()).is_err(), "{url}");
        }
    }
}
