// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hints for a launch of `palisade bwrap --policy`: its caller can't give the options of `palisade run`, but the policy can
//! state the same.

use std::ffi::OsStr;

/// A hint about an option of `palisade run` as one about the policy. Other hints stay as they are.
pub(crate) fn hint_by_policy(hint: String, policy: &OsStr) -> String {
    let command = hint.split("   #").next().unwrap_or_default();
    let options = command.strip_prefix("palisade run ").map(|words| words.trim_end_matches('…').trim_end());
    let Some(options) = options else { return hint };
    let (option, value) = options.split_once(' ').unwrap_or((options, ""));
    let statement = match option {
        "--allow-name" => format!("[filesystem] allow_names = [\"{value}\"]"),
        "--allow" => format!("[network] allow = [\"{value}\"]"),
        "--allow-datagrams" => "[process] datagrams = true".to_owned(),
        "--allow-namespaces" => "[process] namespaces = true".to_owned(),
        "--rw" => return format!("the caller's arguments decide: --bind {value} {value}"),
        "--ro" => return format!("the caller's arguments decide: --ro-bind {value} {value}"),
        _ => return hint,
    };
    let policy = policy.to_string_lossy();
    match policy.contains('/') {
        true => format!("write into {}: {statement}", palisade_text::quoted(&policy)),
        false => format!("palisade profile edit {}   # {statement}", palisade_text::quoted(&policy)),
    }
}

#[cfg(test)]
mod tests {
    use super::hint_by_policy;

    #[test]
    fn options_become_statements_of_the_policy() {
        let of = |hint: &str, policy: &str| hint_by_policy(hint.to_owned(), policy.as_ref());
        assert_eq!(
            of("palisade run --allow-name .git/hooks …", "agent"),
            "palisade profile edit agent   # [filesystem] allow_names = [\".git/hooks\"]"
        );
        assert_eq!(
            of("palisade run --allow example.org:80 …", "./a.toml"),
            "write into ./a.toml: [network] allow = [\"example.org:80\"]"
        );
        assert_eq!(of("palisade run --rw /x …", "agent"), "the caller's arguments decide: --bind /x /x");
        for other in ["palisade run -- COMMAND…   # the command without bwrap", "palisade doctor", "x"] {
            assert_eq!(of(other, "agent"), other);
        }
    }
}
