// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The licence texts of the code in the program: each form carries the same ones, for each part of the bill of materials.

use super::{NEWER, made, root, shell};
use crate::support::{has, job, ordinary};
use std::process::Command;

/// How a form's files are unpacked below the working directory; the first `*` stands for what the form is in.
const FORMS: [(&str, &str); 4] = [
    ("tar", "tar -xzf FORM/palisade-*-linux.tar.gz"),
    ("wheel", "/usr/bin/python3 -m zipfile -e FORM/*.whl ."),
    ("npm", "tar -xzf FORM/palisade-sandbox-linux-*.tgz"),
    ("nix", "cp FORM/*.nar.xz packed.nar.xz"),
];

/// Reads the texts that a form carries, in `found`, and the bill of materials. In Nix's archive a file's bytes are as they are.
const CHECK: &str = r#"
import gzip, json, lzma, pathlib, re, sys
form, bill = sys.argv[1], json.load(open(sys.argv[2]))
if form == "nix":
    whole = lzma.decompress(pathlib.Path("packed.nar.xz").read_bytes())
    begin = whole.index(b"licences.txt.gz")
    # A word is its length in eight bytes and then itself, up to the next multiple of eight.
    begin = whole.index(b"contents", begin) + 8
    size = int.from_bytes(whole[begin:begin + 8], "little")
    text = gzip.decompress(whole[begin + 8:begin + 8 + size]).decode()
else:
    [path] = [path for path in pathlib.Path(".").rglob("licences.txt*")]
    text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
blocks = re.split(r"^={78}$", text, flags=re.M)[1:]
users, texts = blocks[::2], [one.strip() for one in blocks[1::2]]
assert len(users) == len(texts) and len(texts) > 20, len(blocks)
assert all(texts), "an empty text"
assert len({" ".join(one.split()) for one in texts}) == len(texts), "a text is there twice"
named = {line.split(":")[0] for lines in users for line in lines.split("\n") if line}
parts = {f"{part['name']} {part['version']}" for part in bill["components"]}
# The program's own crate has another name than the program.
parts.add(f"palisade-cli {bill['metadata']['component']['version']}")
assert parts == named, parts ^ named
for words in ["May you do good and not evil", "Rich Felker, et al.", "The Rust Project Developers", "Apache License", "UNICODE LICENSE V3"]:
    assert words in " ".join(text.split()), words
sys.stdout.write(text)
"#;

#[test]
fn each_form_carries_the_texts_of_all_code_in_the_program() {
    if !has("python3") {
        return;
    }
    let place = ordinary();
    place.write("check.py", CHECK);
    // Of this version each form is made once.
    let directories = FORMS.map(|(form, _unpack)| made(&place, form, NEWER));
    let bill = directories[0].join(format!("palisade-{NEWER}.cdx.json"));
    let mut texts = Vec::new();
    for ((form, unpack), directory) in FORMS.iter().zip(&directories) {
        let unpack = unpack.replace("FORM", &directory.display().to_string());
        let line = format!(
            "mkdir ~/{form} && cd ~/{form} && {unpack} && python3 ~/check.py {form} {}",
            bill.display()
        );
        texts.push(shell(&place, &line).ok().to_owned());
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "forms differ");
}

/// The texts that are kept for parts without one are what makes a package: without them there is none.
#[test]
fn a_part_without_a_text_is_an_error() {
    if !has("python3") {
        return;
    }
    let place = ordinary();
    let line = format!(
        "cd {}; sed 's,\"packaging/licences\",\"packaging/nowhere\",' packaging/licences.py >{1}/changed.py; \
         export PACKAGE_ROOT=$PWD PYTHONPATH=packaging; /usr/bin/python3 {1}/changed.py palisade-cli {2}",
        root().display(),
        place.home.display(),
        place.binary().display()
    );
    let run = job::finish(Command::new("sh").args(["-c", &line]));
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
    assert!(run.err.contains("licences: error: there is no licence text of musl 1."), "{run:?}");
    assert!(run.err.contains("\nhint: ls packaging/licences "), "{run:?}");
}
