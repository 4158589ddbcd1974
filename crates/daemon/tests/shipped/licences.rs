// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The licence texts of the code in the programs: the packages of distributions carry them, for each part of the bill of
//! materials.

use super::made::{Binaries, VERSION};
use crate::support::has;
use std::process::Command;

/// Checks the texts of both packages below the working directory.
const CHECK: &str = r#"
import glob, gzip, json, re
for package, crate in [("palisade", "palisade-cli"), ("palisaded", "palisade-daemon")]:
    [bill] = glob.glob(f"usr/share/doc/{package}/{package}.cdx.json.gz")
    [path] = glob.glob(f"usr/share/doc/{package}/licences.txt.gz") + glob.glob(f"usr/share/licenses/{package}/licences.txt.gz")
    bill, text = json.load(gzip.open(bill)), gzip.open(path).read().decode()
    blocks = re.split(r"^={78}$", text, flags=re.M)[1:]
    texts = [" ".join(one.split()) for one in blocks[1::2]]
    assert len(set(texts)) == len(texts) > 20 and all(texts), "a text is there twice, or empty"
    named = {line.split(":")[0] for lines in blocks[::2] for line in lines.split("\n") if line}
    parts = {f"{part['name']} {part['version']}" for part in bill["components"]}
    own = f"{crate} {bill['metadata']['component']['version']}"
    assert parts | {own} == named, (parts | {own}) ^ named
    print(package, ("libbpf" in text) == (package == "palisaded"), "magic-sys" in text)
"#;

#[test]
fn packages_carry_the_texts_of_all_code_in_the_programs() {
    let forms = [
        ("deb", "dpkg-deb", "for file in *.deb; do dpkg-deb -x $file .; done"),
        ("rpm", "rpm", "for file in *.rpm; do rpm2cpio $file | cpio -id --quiet; done"),
    ];
    let binaries = Binaries::new();
    for (form, feature, unpack) in forms {
        if !has(feature) || !has("python3") {
            continue;
        }
        let made = binaries.pack(form, VERSION, &[]);
        let line = format!("{unpack} && exec python3 -c '{}'", CHECK.replace('\'', "'\\''"));
        let output = Command::new("sh").args(["-ec", &line]).current_dir(made.directory()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "palisade True False\npalisaded True True\n", "{form}: {output:?}");
    }
}
