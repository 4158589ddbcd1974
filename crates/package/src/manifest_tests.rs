// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::menu::Icon;

fn entry(path: &str, what: What) -> Entry {
    Entry { path: path.as_bytes().to_vec(), what }
}

fn directory(path: &str) -> Entry {
    entry(path, What::Directory { modified: 1 })
}

fn file(path: &str, size: u64) -> Entry {
    entry(path, What::File { size, modified: 1, executable: false })
}

fn link(path: &str, target: &[u8]) -> Entry {
    entry(path, What::Link { target: target.to_vec() })
}

fn manifest(entries: Vec<Entry>, sizes: &[u32]) -> Manifest {
    Manifest {
        name: "x".into(),
        description: None,
        program: b"/usr/bin/x".to_vec(),
        palisade: "0".into(),
        machine: "x86_64".into(),
        made: 0,
        definitions: Definitions::default(),
        entries,
        blocks: sizes.iter().map(|size| Block { stored: *size, size: *size, hash: [0; 32] }).collect(),
        content: 10,
        menu: None,
    }
}

fn check(entries: Vec<Entry>, sizes: &[u32]) -> Result<(), &'static str> {
    manifest(entries, sizes).check(&Trailer { offset: 2000, length: 1, hash: [0; 32] })
}

/// Writes a manifest behind some content; the file and its trailer.
fn sealed(manifest: &Manifest) -> (std::fs::File, Trailer) {
    sealed_bytes(&manifest.to_bytes().unwrap())
}

fn sealed_bytes(bytes: &[u8]) -> (std::fs::File, Trailer) {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(bytes, 2000).unwrap();
    let trailer = Trailer { offset: 2000, length: bytes.len() as u64, hash: *blake3::hash(bytes).as_bytes() };
    (file, trailer)
}

#[test]
fn what_is_written_is_read() {
    let written = manifest(vec![directory("usr"), file("usr/a", 5), link("usr/b", b"../etc")], &[5]);
    let (file, trailer) = sealed(&written);
    assert_eq!(Manifest::read(&file, &trailer).unwrap(), written);
    let with_menu = Manifest { menu: Some(menu("org.x.App")), ..written };
    let (file, trailer) = sealed(&with_menu);
    assert_eq!(Manifest::read(&file, &trailer).unwrap(), with_menu);
}

fn menu(id: &str) -> Menu {
    let icon = Icon { size: Some(48), bytes: vec![1, 2, 3] };
    Menu { id: id.into(), entry: "[Desktop Entry]\n".into(), icon: Some(icon) }
}

/// Packages of older and newer versions differ at the end only.
#[test]
fn what_was_added_later_may_be_missing_and_more_may_follow() {
    let plain = manifest(vec![file("a", 0)], &[]);
    let with_menu = Manifest { menu: Some(menu("x")), ..plain.clone() };
    let sealed = |body: &[u8]| {
        let header = [&WORD[..], &VERSION.to_le_bytes()].concat();
        sealed_bytes(&[header, lz4_flex::block::compress_prepend_size(body)].concat())
    };
    // As the version before wrote it, which knew of no menus.
    let before = postcard::to_allocvec(&plain).unwrap();
    let (file, trailer) = sealed(&before);
    assert_eq!(Manifest::read(&file, &trailer).unwrap(), plain);
    // That version reads a new package: what follows the part that it knows is left.
    let new = [before.clone(), postcard::to_allocvec(&with_menu.menu).unwrap()].concat();
    assert_eq!(postcard::from_bytes::<Manifest>(&new).unwrap(), plain);
    // The same for what is added after this one.
    let (file, trailer) = sealed(&[new.clone(), b"later".to_vec()].concat());
    assert_eq!(Manifest::read(&file, &trailer).unwrap(), with_menu);
    let (file, trailer) = sealed(&new[..new.len() - 1]);
    assert!(Manifest::read(&file, &trailer).unwrap_err().to_string().contains("can't be read"));
}

#[test]
fn a_menu_entry_has_a_plain_name() {
    let check = |menu: Menu| {
        let trailer = Trailer { offset: 2000, length: 1, hash: [0; 32] };
        Manifest { menu: Some(menu), ..manifest(Vec::new(), &[]) }.check(&trailer)
    };
    assert_eq!(check(menu("org.x.App_2-1")), Ok(()));
    for id in ["", ".", "..", ".x", "-x", "a/b", "../x", "/x", "a\0", "a\n", "a b", "é", &"x".repeat(201)] {
        assert!(check(menu(id)).is_err(), "{id:?}");
    }
    let large = "x".repeat((1 << 20) + 1);
    assert!(check(Menu { entry: large.clone(), ..menu("x") }).is_err());
    let icon = Icon { size: None, bytes: large.into() };
    assert!(check(Menu { icon: Some(icon), ..menu("x") }).is_err());
}

#[test]
fn no_name_leads_out() {
    assert_eq!(check(vec![directory("usr"), file("usr/a", 0)], &[]), Ok(()));
    for path in
        ["/etc/x", "..", "../x", "usr/../../x", "usr/./x", "./usr", "usr//x", "usr/", "", "usr/a\0b", "."]
    {
        assert!(check(vec![directory("usr"), file(path, 0)], &[]).is_err(), "{path:?}");
        assert!(check(vec![directory(path)], &[]).is_err(), "{path:?}");
        assert!(check(vec![directory("usr"), link(path, b"x")], &[]).is_err(), "{path:?}");
    }
    let long = format!("usr/{}", "x".repeat(5000));
    assert!(check(vec![directory("usr"), file(&long, 0)], &[]).is_err());
}

#[test]
fn nothing_is_written_through_a_link() {
    assert!(check(vec![link("usr", b"/etc"), file("usr/passwd", 0)], &[]).is_err());
    assert!(check(vec![file("usr", 0), file("usr/a", 0)], &[]).is_err());
    assert!(check(vec![file("usr/a", 0)], &[]).is_err(), "a directory of nobody's");
    assert!(check(vec![link("usr", b"/etc"), directory("usr")], &[]).is_err(), "a name twice");
    assert!(check(vec![file("b", 0), file("a", 0)], &[]).is_err(), "out of order");
    assert!(check(vec![link("usr", b"")], &[]).is_err());
    assert!(check(vec![link("usr", b"a\0b")], &[]).is_err());
}

#[test]
fn sizes_fit_together() {
    assert_eq!(check(vec![file("a", 7)], &[3, 4]), Ok(()));
    assert!(check(vec![file("a", 8)], &[3, 4]).is_err());
    assert!(check(vec![file("a", u64::MAX), file("b", 8)], &[7]).is_err());
    assert!(check(vec![file("a", 1 << 21)], &[1 << 21]).is_err(), "a piece that is too large");
    assert!(check(vec![file("a", 1995)], &[1995]).is_err(), "content behind the manifest");
}

#[test]
fn a_manifest_that_is_not_the_seals_is_refused() {
    let (file, trailer) = sealed(&manifest(vec![file("a", 0)], &[]));
    let refused = |trailer: Trailer| Manifest::read(&file, &trailer).unwrap_err().to_string();
    assert!(refused(Trailer { hash: [1; 32], ..trailer }).contains("checksum"));
    assert!(refused(Trailer { length: trailer.length + 1, ..trailer }).contains("cut off"));
    assert!(refused(Trailer { offset: u64::MAX, ..trailer }).contains("cut off"));
    assert!(refused(Trailer { length: 3, ..trailer }).contains("too short"));
    assert!(refused(Trailer { offset: 1999, ..trailer }).contains("isn't where"));
    file.write_all_at(&7_u32.to_le_bytes(), 2012).unwrap();
    assert!(refused(trailer).contains("format 7"));
}

/// A trailer only shows that the manifest is what its own author wrote, and that author can write anything.
#[test]
fn a_manifest_that_says_it_is_huge_takes_no_memory() {
    let mut bytes = WORD.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    bytes.extend_from_slice(&[0x1f; 100]);
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    let trailer = Trailer { offset: 0, length: bytes.len() as u64, hash: *blake3::hash(&bytes).as_bytes() };
    assert!(Manifest::read(&file, &trailer).unwrap_err().to_string().contains("too long"));
}
