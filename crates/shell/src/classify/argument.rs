// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kinds of arguments that rules name.

use std::net::Ipv4Addr;

/// The kind of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Argument {
    /// A disk, a partition or the machine's memory.
    Device,
    /// A directory without which the system doesn't work, or everything in it; or a whole home directory.
    RootDirectory,
    /// The working directory, or everything in it.
    Here,
    /// A path in a directory that every user can write to.
    Temporary,
    /// A hidden file (its name begins with a dot) in such a directory.
    HiddenTemporary,
    Url,
    /// A URL or host given as a number.
    Address,
    /// An address that isn't in a private network.
    PublicAddress,
    /// A file mode with set-user-ID or set-group-ID.
    SetId,
    /// A file mode that lets every user write.
    WorldWritable,
    /// Its value isn't known before the line runs.
    Unknown,
    /// A path that is `/`, `/*` or the like once the unset variables in it expand to nothing.
    MaybeRoot,
    /// A port above 1023 that isn't one of the ports that developers commonly use.
    OddPort,
    /// A URL of something other than a git repository, as an argument of an installer.
    Archive,
    /// Any argument.
    Any,
}

impl Argument {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "device" => Self::Device,
            "rootdir" => Self::RootDirectory,
            "here" => Self::Here,
            "tmp" => Self::Temporary,
            "hiddentmp" => Self::HiddenTemporary,
            "url" => Self::Url,
            "ip" => Self::Address,
            "publicip" => Self::PublicAddress,
            "setid" => Self::SetId,
            "worldwritable" => Self::WorldWritable,
            "unknown" => Self::Unknown,
            "mayberoot" => Self::MaybeRoot,
            "oddport" => Self::OddPort,
            "archive" => Self::Archive,
            "any" => Self::Any,
            _ => return None,
        })
    }

    pub(super) fn is(self, value: &str, dynamic: bool) -> bool {
        match self {
            Self::Device => is_device(value),
            Self::RootDirectory => !dynamic && is_root_directory(value),
            Self::Here => matches!(value, "." | "./" | "*" | "./*" | ".." | "../" | "../*" | ".*" | "./.*"),
            Self::Temporary => is_temporary(value),
            Self::HiddenTemporary => is_temporary(value) && value.contains("/."),
            Self::Url => value.contains("://"),
            Self::Address => address(value).is_some(),
            Self::PublicAddress => address(value).is_some_and(is_public),
            Self::SetId => is_set_id(value),
            Self::WorldWritable => is_world_writable(value),
            Self::Any => true,
            Self::Unknown => dynamic,
            Self::MaybeRoot => {
                let known: String =
                    value.chars().filter(|letter| *letter != super::command::UNKNOWN).collect();
                dynamic && matches!(known.as_str(), "/" | "/*" | "//" | "/./")
            }
            Self::OddPort => value.parse::<u16>().is_ok_and(is_odd_port),
            Self::Archive => value.contains("://") && !value.starts_with("git+") && !value.ends_with(".git"),
        }
    }
}

fn is_device(value: &str) -> bool {
    let Some(name) = value.strip_prefix("/dev/") else { return false };
    let whole = ["disk/", "mapper/", "mem", "kmem", "port", "block/"];
    let numbered = ["sd", "nvme", "vd", "xvd", "mmcblk", "hd", "md", "dm-", "rdisk", "disk", "nbd", "zvol"];
    whole.iter().any(|prefix| name.starts_with(prefix))
        || numbered.iter().any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()))
}

fn is_root_directory(value: &str) -> bool {
    let path = super::subject::path(value);
    let trimmed = path.strip_suffix("/*").or_else(|| path.strip_suffix("/.*")).unwrap_or(&path);
    let trimmed = trimmed.trim_end_matches('/');
    let trimmed = trimmed.strip_suffix("/.").unwrap_or(trimmed);
    if trimmed.is_empty() {
        return path.starts_with('/');
    }
    matches!(
        trimmed,
        "~" | "/*"
            | "/etc"
            | "/usr"
            | "/var"
            | "/boot"
            | "/lib"
            | "/lib64"
            | "/bin"
            | "/sbin"
            | "/home"
            | "/root"
            | "/opt"
            | "/dev"
            | "/proc"
            | "/sys"
            | "/srv"
            | "/usr/bin"
            | "/usr/lib"
            | "/usr/sbin"
            | "/usr/local"
            | "/usr/share"
            | "/var/lib"
            | "/var/log"
            | "/mnt"
            | "/media"
            | "/run"
            | "/Users"
            | "/Library"
            | "/System"
            | "/Applications"
            | "/etc/ssh"
            | "/var/www"
    )
}

fn is_temporary(value: &str) -> bool {
    ["/tmp/", "/var/tmp/", "/dev/shm/", "/run/shm/", "/run/user/"]
        .iter()
        .any(|place| value.starts_with(place))
}

/// The host of a URL, or of `host:port`, `user@host`, `host/path`.
pub(super) fn host(value: &str) -> &str {
    let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
    let rest = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    match rest.split_once(':') {
        Some((host, _)) if !rest.starts_with('[') => host,
        _ => rest,
    }
}

/// The IPv4 address that a value names, in each form that browsers and resolvers accept.
pub(super) fn address(value: &str) -> Option<Ipv4Addr> {
    let host = host(value);
    if let Ok(address) = host.parse() {
        return Some(address);
    }
    if !value.contains("://") {
        return None;
    }
    // `0x7f000001`, `2130706433`, `0177.0.0.1`
    let mut parts = host.split('.');
    let number = |part: &str| {
        if let Some(digits) = part.strip_prefix("0x") {
            return u32::from_str_radix(digits, 16).ok();
        }
        match part.strip_prefix('0') {
            Some(digits) if !digits.is_empty() => u32::from_str_radix(digits, 8).ok(),
            _ => part.parse().ok(),
        }
    };
    let first = number(parts.next()?)?;
    let rest: Vec<u32> = parts.map(number).collect::<Option<_>>()?;
    match rest.as_slice() {
        [] => Some(Ipv4Addr::from(first)),
        [second, third, fourth] => {
            let byte = |number: u32| u8::try_from(number).ok();
            Some(Ipv4Addr::new(byte(first)?, byte(*second)?, byte(*third)?, byte(*fourth)?))
        }
        _ => None,
    }
}

/// Also false for the addresses that are reserved for documentation.
pub(super) fn is_public(address: Ipv4Addr) -> bool {
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_broadcast()
        || address.is_multicast())
}

fn is_set_id(value: &str) -> bool {
    if !value.is_empty() && value.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
        let digits = value.trim_start_matches('0');
        return digits.len() == 4
            && digits.starts_with(['2', '4', '6', '7'])
            && digits.get(1..).is_some_and(|rest| rest.bytes().any(|byte| byte % 2 == 1));
    }
    value.split(',').any(|part| {
        part.split_once(['+', '=']).is_some_and(|(who, what)| {
            what.contains('s')
                && who.bytes().all(|byte| b"ugoa".contains(&byte))
                && what.bytes().all(|byte| b"rwxXst".contains(&byte))
                && (who != "g" || what.contains('x'))
        })
    })
}

fn is_world_writable(value: &str) -> bool {
    if !value.is_empty() && value.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
        return value.len() >= 3 && value.ends_with(['2', '3', '6', '7']);
    }
    value.split(',').any(|part| {
        part.split_once(['+', '=']).is_some_and(|(who, what)| {
            (who.contains('o') || who.contains('a'))
                && what.contains('w')
                && what.bytes().all(|byte| b"rwxXst".contains(&byte))
        })
    })
}

/// Ports that reverse shells and their handlers often use.
pub(super) fn is_odd_port(port: u16) -> bool {
    matches!(
        port,
        1234 | 1337
            | 31337
            | 4242
            | 4443
            | 4444
            | 4445
            | 5555
            | 6666
            | 6667
            | 7777
            | 8888
            | 9001
            | 9999
            | 12345
            | 13337
    )
}
