// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds programs of this host by a name or a pattern of names.

use crate::pattern::matches;
use std::io::Read;
use std::path::Path;

/// The directories in which programs are looked for.
const DIRECTORIES: [&str; 6] =
    ["/usr/local/bin", "/usr/bin", "/usr/sbin", "/usr/games", "/usr/local/sbin", "/usr/local/games"];

/// The largest number of programs that one pattern stands for.
const MOST: usize = 256;

/// The paths of the programs that match the name or the pattern. Each name occurs once, in order.
pub(crate) fn like(name: &str) -> Vec<String> {
    if name.is_empty() || name.contains('/') || name.contains(char::is_control) {
        return Vec::new();
    }
    if !name.contains(['*', '?', '[']) {
        let found = DIRECTORIES.iter().map(|directory| format!("{directory}/{name}"));
        return found.into_iter().find(|path| Path::new(path).exists()).into_iter().collect();
    }
    let mut names: Vec<String> = Vec::new();
    let mut paths = Vec::new();
    for directory in DIRECTORIES {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        let mut fitting: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|entry| matches(name, entry) && !names.contains(entry))
            .collect();
        fitting.sort_unstable();
        paths.extend(fitting.iter().map(|entry| format!("{directory}/{entry}")));
        names.extend(fitting);
    }
    paths.truncate(MOST);
    paths
}

/// The paths of all programs with this name. A directory that is a link to another one isn't looked at twice.
pub(crate) fn every(name: &str) -> Vec<String> {
    if name.is_empty() || name.contains('/') || name.contains(char::is_control) {
        return Vec::new();
    }
    let directories = DIRECTORIES
        .iter()
        .filter(|directory| Path::new(directory).symlink_metadata().is_ok_and(|metadata| metadata.is_dir()));
    let paths = directories.map(|directory| format!("{directory}/{name}"));
    paths.filter(|path| Path::new(path).symlink_metadata().is_ok()).collect()
}

/// Whether a program is a script.
pub(crate) fn is_script(path: &str) -> bool {
    let mut begin = [0; 2];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *b"#!"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_pattern() {
        assert_eq!(like("env"), ["/usr/bin/env"]);
        assert!(like("en[v]").contains(&"/usr/bin/env".to_owned()));
        assert!(!is_script("/usr/bin/env") && !is_script("/none"));
        assert!(like("").is_empty() && like("../x").is_empty() && like("no-such-program-*").is_empty());
    }
}
