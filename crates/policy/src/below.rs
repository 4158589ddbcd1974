// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes the rest of a path below a directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The rest of `path` below `base`. `None` if the path lies elsewhere or is `base` itself.
///
/// Walks call this for every file, with paths in the same plain form as the base. Then comparing bytes is enough, and
/// the components needn't be examined.
pub(crate) fn below<'p>(path: &'p Path, base: &Path) -> Option<&'p Path> {
    let bytes = path.as_os_str().as_bytes().strip_prefix(base.as_os_str().as_bytes());
    if let Some([b'/', rest @ ..]) = bytes
        && let (Some(first), Some(last)) = (rest.first(), rest.last())
        && !matches!(first, b'/' | b'.')
        && !matches!(last, b'/' | b'.')
    {
        return Some(Path::new(OsStr::from_bytes(rest)));
    }
    path.strip_prefix(base).ok().filter(|rest| !rest.as_os_str().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_path_says() {
        let ends = [
            "", "/", "//", "/.", "/./", "/..", "/x", "/x/", "//x", "/./x", "/.x", "/x.", "/x/.", "x", "/x/y",
        ];
        for base in ["/", "/usr", "/usr/lib"] {
            for end in ends {
                for path in [format!("{base}{end}"), format!("/.{base}{end}"), format!("/other{end}")] {
                    let (path, base) = (Path::new(&path), Path::new(base));
                    let rest = path.strip_prefix(base).ok().filter(|rest| !rest.as_os_str().is_empty());
                    let bytes = |path: Option<&Path>| path.map(|path| path.as_os_str().to_owned());
                    assert_eq!(bytes(below(path, base)), bytes(rest), "{path:?} below {base:?}");
                }
            }
        }
    }
}
