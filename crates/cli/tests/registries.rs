// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that package managers inside ask the registries that the user has configured, without their credentials.

use crate::support::{everybody, has};

#[test]
fn registries_are_known_inside_and_tokens_are_not() {
    for place in everybody() {
        place.write(
            ".npmrc",
            "registry=https://me:s3cret@npm.corp.example/\n//npm.corp.example/:_authToken=s3cret\n",
        );
        place.write(
            ".config/pip/pip.conf",
            "[global]\nindex-url = https://me:s3cret@pip.corp.example/simple\nproxy = http://me:s3cret@proxy\n",
        );
        place.write(
            ".cargo/config.toml",
            "[source.crates-io]\nreplace-with = \"corp\"\n[source.corp]\nregistry = \"sparse+https://cargo.corp.example/\"\n\
             [registry]\ntoken = \"s3cret\"\n",
        );
        let inside = place.sh(&[], "cat ~/.npmrc ~/.config/pip/pip.conf ~/.cargo/config.toml");
        assert_eq!(
            inside.ok(),
            "registry = https://npm.corp.example/\n[global]\nindex-url = https://pip.corp.example/simple\n\
             [source.crates-io]\nreplace-with = \"corp\"\n[source.corp]\nregistry = \"sparse+https://cargo.corp.example/\""
        );
        place.write(".config/go/env", "GOPROXY=https://me:s3cret@go.corp.example\n");
        place.write(
            ".m2/settings.xml",
            "<settings><servers><server><password>s3cret</password></server></servers><mirrors><mirror><id>a</id>\
             <url>https://maven.corp.example</url><mirrorOf>*</mirrorOf></mirror></mirrors></settings>",
        );
        let inside = place.sh(&[], "cat ~/.config/go/env; grep -o 'https://[a-z.]*' ~/.m2/settings.xml");
        assert_eq!(inside.ok(), "GOPROXY=https://go.corp.example\nhttps://maven.corp.example");
        let secret = place.sh(&[], "grep -rs s3cret ~; true");
        assert_eq!(secret.ok(), "", "{secret:?}");
        let plan = place.run(&["--dry-run", "--json"], &["true"]);
        assert!(!plan.ok().contains("s3cret"));
        // A file that is changed counts at the next launch, though the plan is kept.
        place.write(".npmrc", "registry=https://other.example/\n");
        assert_eq!(place.sh(&[], "cat ~/.npmrc").ok(), "registry = https://other.example/");
        assert!(place.read(".config/pip/pip.conf").contains("s3cret"), "the host's file is as it was");
    }
}

#[test]
fn a_refusal_names_the_companys_mirror() {
    for place in everybody().iter().filter(|_| has("npm")) {
        place.write(".npmrc", "registry=https://npm.corp.example/\n");
        place.write(
            "work/package.json",
            "{\"name\": \"x\", \"version\": \"1.0.0\", \"dependencies\": {\"y\": \"1\"}}",
        );
        let run = place.run(&[], &["npm", "install"]);
        assert!(run.err.contains("hint: palisade run --allow npm.corp.example …"), "{run:?}");
    }
}
