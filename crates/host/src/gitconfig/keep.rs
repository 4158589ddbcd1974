// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists the user's git settings that are useful and harmless inside a sandbox.
//!
//! The list says what is kept, not what is dropped: a new git with a new secret must not leak it.

use super::syntax::Entry;

/// Which keys of a section are kept.
enum Keys {
    /// Every key but these.
    AllBut(&'static [&'static str]),
    /// These keys only.
    Only(&'static [&'static str]),
}

/// Sections without subsection. Always dropped are settings for signing (the key isn't inside, so each commit would
/// fail), names of files outside the sandbox, credentials, and network addresses.
const SECTIONS: &[(&str, Keys)] = &[
    ("advice", Keys::AllBut(&[])),
    ("alias", Keys::AllBut(&[])),
    ("apply", Keys::Only(&["ignorewhitespace", "whitespace"])),
    // ignoreRevsFile: git stops when the file is missing.
    ("blame", Keys::AllBut(&["ignorerevsfile"])),
    ("branch", Keys::Only(&["autosetupmerge", "autosetuprebase", "sort"])),
    ("checkout", Keys::Only(&["defaultremote", "guess", "workers"])),
    ("color", Keys::AllBut(&[])),
    ("column", Keys::AllBut(&[])),
    // gpgSign would break every commit; template names a file.
    ("commit", Keys::Only(&["cleanup", "status", "verbose"])),
    (
        "core",
        Keys::Only(&[
            "abbrev",
            "autocrlf",
            "commentchar",
            "commentstring",
            "editor",
            "eol",
            "filemode",
            "ignorecase",
            "pager",
            "precomposeunicode",
            "quotepath",
            "safecrlf",
            "symlinks",
            "whitespace",
        ]),
    ),
    // external and tool run programs that may not be there; orderFile names a file.
    ("diff", Keys::AllBut(&["external", "guitool", "orderfile", "tool", "trustexitcode"])),
    ("fetch", Keys::Only(&["output", "parallel", "prune", "prunetags", "writecommitgraph"])),
    ("format", Keys::Only(&["numbered", "pretty"])),
    ("grep", Keys::AllBut(&[])),
    ("help", Keys::Only(&["autocorrect"])),
    ("i18n", Keys::AllBut(&[])),
    ("init", Keys::Only(&["defaultbranch", "defaultobjectformat"])),
    ("interactive", Keys::Only(&["singlekey"])),
    // showSignature runs gpg for each commit shown.
    ("log", Keys::AllBut(&["showsignature"])),
    (
        "merge",
        Keys::Only(&[
            "autostash",
            "branchdesc",
            "conflictstyle",
            "directoryrenames",
            "ff",
            "log",
            "renamelimit",
            "renames",
            "stat",
        ]),
    ),
    ("pretty", Keys::AllBut(&[])),
    ("pull", Keys::AllBut(&[])),
    ("push", Keys::Only(&["autosetupremote", "default", "followtags", "useforceifincludes"])),
    ("rebase", Keys::AllBut(&[])),
    ("rerere", Keys::AllBut(&[])),
    ("safe", Keys::Only(&["directory"])),
    ("stash", Keys::AllBut(&[])),
    ("status", Keys::AllBut(&[])),
    ("submodule", Keys::Only(&["fetchjobs", "recurse"])),
    ("tag", Keys::Only(&["sort"])),
    ("user", Keys::Only(&["email", "name", "useconfigonly"])),
    ("versionsort", Keys::AllBut(&[])),
];

/// Sections of which subsections are kept. `filter "lfs"` is needed for correctness: without its driver every file in
/// Git LFS appears changed, and `git add` would commit the content.
const SUBSECTIONS: &[(&str, Option<&str>, Keys)] = &[
    ("color", None, Keys::AllBut(&[])),
    ("diff", None, Keys::Only(&["algorithm", "binary", "wordregex", "xfuncname"])),
    ("filter", Some("lfs"), Keys::Only(&["clean", "process", "required", "smudge"])),
];

/// Whether an entry is kept.
pub(super) fn keeps(entry: &Entry) -> bool {
    let keys = match &entry.subsection {
        None => SECTIONS.iter().find(|(section, _)| *section == entry.section).map(|(_, keys)| keys),
        Some(subsection) => SUBSECTIONS
            .iter()
            .find(|(section, only, _)| {
                *section == entry.section && only.is_none_or(|only| only.as_bytes() == subsection.as_slice())
            })
            .map(|(_, _, keys)| keys),
    };
    match keys {
        None => false,
        Some(Keys::AllBut(dropped)) => !dropped.contains(&entry.key.as_str()),
        Some(Keys::Only(kept)) => kept.contains(&entry.key.as_str()),
    }
}
