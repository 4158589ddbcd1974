// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the icon of a desktop entry, for a package ("Icon Lookup" of the Icon Theme Specification 0.13). Of the themes it
//! looks only into `hicolor`: every other theme falls back on it, and applications bring their icons there.

use palisade_host::file::{self, Links};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A larger icon isn't taken. The largest one of a Debian 12 with seven desktop programs has 340 KB.
pub(crate) const LARGEST: usize = 1 << 20;
/// The sizes of which `hicolor` has directories, largest first. Icons in others aren't found.
const SIZES: [u16; 13] = [512, 256, 192, 128, 96, 72, 64, 48, 36, 32, 24, 22, 16];
/// With these bytes a PNG image begins. Its width and height follow.
const PNG: &[u8; 16] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR";

/// An icon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Icon {
    /// The size of a PNG image. `None` for an SVG image, which fits every size.
    pub size: Option<u16>,
    /// The image.
    pub bytes: Vec<u8>,
}

impl Icon {
    /// The icon that an image is. `None` for an image of another kind.
    fn of(bytes: Vec<u8>) -> Option<Self> {
        if let Some(after) = bytes.strip_prefix(PNG) {
            let (numbers, _rest) = after.as_chunks::<4>();
            let [width, height, ..] = numbers else { return None };
            let least = u32::from_be_bytes(*width).min(u32::from_be_bytes(*height));
            let size = SIZES.into_iter().find(|size| u32::from(*size) <= least).unwrap_or(16);
            return Some(Self { size: Some(size), bytes });
        }
        let is_svg = std::str::from_utf8(&bytes).is_ok_and(|text| text.contains("<svg"));
        is_svg.then_some(Self { size: None, bytes })
    }

    /// Where an icon of this name belongs below a directory of data. `None` if the theme has no such size.
    pub(crate) fn place(&self, name: &str) -> Option<PathBuf> {
        let below = match self.size {
            None => format!("scalable/apps/{name}.svg"),
            Some(size) if SIZES.contains(&size) => format!("{size}x{size}/apps/{name}.png"),
            Some(_unknown) => return None,
        };
        Some(Path::new("icons/hicolor").join(below))
    }
}

/// The icon that the value of `Icon` names: an absolute path, or a name below one of the directories of data, the best of
/// which is first. A scalable icon is best, and then the largest one.
pub(crate) fn find(value: &str, directories: &[PathBuf]) -> Option<Icon> {
    if value.starts_with('/') {
        return read(Path::new(value));
    }
    if value.contains('/') {
        return None;
    }
    // Many entries have the name of a file there, which readers accept.
    let endings = [".png", ".svg", ".xpm"];
    let name = endings.iter().find_map(|ending| value.strip_suffix(ending)).unwrap_or(value);
    let below = |below: String| directories.iter().map(move |directory| directory.join(&below));
    let theme = |part: String| below(format!("icons/hicolor/{part}"));
    let sizes = std::iter::once(1024).chain(SIZES);
    let sized = sizes.flat_map(|size| theme(format!("{size}x{size}/apps/{name}.png")));
    // Where icons were before there were themes. It is looked into whatever the variable of directories says.
    let unthemed = directories.iter().map(|directory| directory.join("pixmaps"));
    let unthemed = unthemed.chain([PathBuf::from("/usr/share/pixmaps")]);
    let unthemed = unthemed
        .flat_map(|directory| ["svg", "png"].map(|ending| directory.join(format!("{name}.{ending}"))));
    theme(format!("scalable/apps/{name}.svg")).chain(sized).chain(unthemed).find_map(|path| read(&path))
}

fn read(path: &Path) -> Option<Icon> {
    Icon::of(for_everybody(path, LARGEST)?)
}

/// A file's content, if every user may read it: a package is given to others.
pub(crate) fn for_everybody(path: &Path, largest: usize) -> Option<Vec<u8>> {
    let mode = path.metadata().ok()?.mode();
    (mode & 0o004 != 0).then(|| file::read(path, largest, Links::Follow).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn png(width: u32, height: u32) -> Vec<u8> {
        [&PNG[..], &width.to_be_bytes(), &height.to_be_bytes(), b"rest"].concat()
    }

    struct Share(tempfile::TempDir);

    impl Share {
        fn write(&self, below: &str, bytes: &[u8]) -> PathBuf {
            let path = self.0.path().join(below);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
            path
        }

        /// The end of the icon that is found: tests write different ones.
        fn found(&self, value: &str) -> Option<(Option<u16>, Vec<u8>)> {
            let directories = ["own", "share"].map(|name| self.0.path().join(name));
            find(value, &directories).map(|icon| (icon.size, icon.bytes))
        }
    }

    #[test]
    fn a_scalable_icon_is_best_and_then_the_largest() {
        let share = Share(tempfile::tempdir().unwrap());
        assert_eq!(share.found("palisade-test"), None);
        share.write("share/pixmaps/palisade-test.png", &png(40, 30));
        assert_eq!(share.found("palisade-test"), Some((Some(24), png(40, 30))), "a size that there is");
        share.write("share/icons/hicolor/48x48/apps/palisade-test.png", &png(48, 48));
        assert_eq!(share.found("palisade-test"), Some((Some(48), png(48, 48))));
        share.write("share/icons/hicolor/1024x1024/apps/palisade-test.png", &png(1024, 1024));
        assert_eq!(share.found("palisade-test.png"), Some((Some(512), png(1024, 1024))));
        share.write("own/icons/hicolor/512x512/apps/palisade-test.png", b"no image");
        assert_eq!(share.found("palisade-test").unwrap().0, Some(512), "what is no image is passed over");
        share.write("share/icons/hicolor/scalable/apps/palisade-test.svg", b"<svg/>");
        assert_eq!(share.found("palisade-test"), Some((None, b"<svg/>".to_vec())));
        share.write("own/icons/hicolor/scalable/apps/palisade-test.svg", b"<svg>own");
        assert_eq!(share.found("palisade-test"), Some((None, b"<svg>own".to_vec())));
    }

    #[test]
    fn no_icon_is_private_large_or_elsewhere() {
        let share = Share(tempfile::tempdir().unwrap());
        let path = share.write("share/pixmaps/palisade-test.svg", b"<svg/>");
        assert!(share.found("palisade-test").is_some());
        assert_eq!(share.found(&path.to_string_lossy()).unwrap().0, None);
        assert_eq!(share.found("../pixmaps/palisade-test"), None);
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert_eq!(share.found("palisade-test"), None);
        let large = [b"<svg/>".to_vec(), vec![b' '; LARGEST]].concat();
        share.write("share/icons/hicolor/scalable/apps/palisade-test.svg", &large);
        assert_eq!(share.found("palisade-test"), None);
    }

    #[test]
    fn an_icon_gets_a_place_in_the_theme_or_none() {
        let place = |size| Icon { size, bytes: Vec::new() }.place("x");
        assert_eq!(place(None), Some("icons/hicolor/scalable/apps/x.svg".into()));
        assert_eq!(place(Some(48)), Some("icons/hicolor/48x48/apps/x.png".into()));
        assert_eq!(place(Some(47)), None);
    }
}
