// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which texts are recognised as secrets, and which aren't.

use proptest::prelude::*;

use super::*;

/// Builds a key at run time, so that no file contains text that looks like a key.
fn key(start: &str, length: usize) -> String {
    format!("{start}{}", "a1B2".repeat(length.div_ceil(4)))
}

#[test]
fn secrets_are_found_where_they_are() {
    for (line, shown) in [
        ("mysqldump --password=hunter2 shop", "mysqldump --password=… shop"),
        ("x --password hunter2 --verbose", "x --password … --verbose"),
        ("x --api-key 'abc def' y", "x --api-key '…' y"),
        ("AWS_SECRET_ACCESS_KEY=abcd/efg+h aws s3 ls", "AWS_SECRET_ACCESS_KEY=… aws s3 ls"),
        ("export GITHUB_TOKEN=abcdef", "export GITHUB_TOKEN=…"),
        ("DB_PASS=hunter2 ./run", "DB_PASS=… ./run"),
        ("set -x MY_SECRET=hunter2; ls", "set -x MY_SECRET=…; ls"),
        ("git clone https://me:hunter2@example.com/x.git", "git clone https://me:…@example.com/x.git"),
        ("psql postgres://app:p%40ss@db:5432/shop", "psql postgres://app:…@db:5432/shop"),
        (
            "curl -H 'Authorization: Bearer abcdefgh' https://example.com",
            "curl -H 'Authorization: Bearer …' https://example.com",
        ),
        ("curl -H \"X-Api-Key: abc\" https://example.com", "curl -H \"X-Api-Key: …\" https://example.com"),
        ("http example.com 'authorization: basic dTpw'", "http example.com 'authorization: basic …'"),
        ("curl -u me:hunter2 https://example.com", "curl -u me:… https://example.com"),
        ("sudo curl --user me:hunter2 x", "sudo curl --user me:… x"),
        ("mysql -u root -phunter2 shop", "mysql -u root -p… shop"),
        ("true && /usr/bin/mysql -phunter2", "true && /usr/bin/mysql -p…"),
        ("sshpass -p hunter2 ssh host", "sshpass -p … ssh host"),
        ("redis-cli -a hunter2 ping", "redis-cli -a … ping"),
        ("docker login -u me -p hunter2", "docker login -u me -p …"),
        ("openssl rsa -passin pass:hunter2 -in k", "openssl rsa -passin pass:… -in k"),
        ("smbclient -U me%hunter2 //host/x", "smbclient -U me%… //host/x"),
        (
            "curl 'https://example.com/?a=b&access_token=xyz'",
            "curl 'https://example.com/?a=b&access_token=…'",
        ),
        ("unzip -P hunter2 a.zip", "unzip -P … a.zip"),
        ("A_PASSWORD=one B_TOKEN=two x", "A_PASSWORD=… B_TOKEN=… x"),
    ] {
        assert_eq!(redacted(line), shown);
        assert!(matches!(Privacy::default().keeps_out(line), Some(Reason::Secret(_))), "{line}");
    }
}

#[test]
fn keys_that_say_what_they_are_are_found_anywhere() {
    for key in [
        key("ghp_", 36),
        key("glpat-", 20),
        key("AKIA", 16),
        key("sk-ant-", 40),
        key("npm_", 36),
        format!("eyJ{0}.{0}.{0}", "a1B2".repeat(8)),
    ] {
        for line in [format!("deploy {key}"), format!("deploy x={key}, y"), key.clone()] {
            assert_eq!(redacted(&line), line.replace(&key, "…"));
        }
    }
    let pasted = format!("echo '-----BEGIN OPENSSH {} KEY-----\nabc'", "PRIVATE");
    assert_eq!(redacted(&pasted), "echo '…");
}

#[test]
fn everyday_lines_are_no_secrets() {
    for line in [
        "",
        "ls -la",
        "git clone ssh://git@example.com/x.git",
        "git clone git@example.com:x/y.git",
        "git push https://me@example.com/x",
        "mysql -u root -p shop",
        "mysql -u root -p\"$PASSWORD\" shop",
        "mysqldump -p --all-databases",
        "x --password=$PASSWORD",
        "x --password=\"$(pass show x)\"",
        "x --password-file=/etc/x --token-url https://example.com",
        "x --password-file secret.txt",
        "x --password-stdin < file",
        "docker login --password-stdin",
        "docker run -p 8080:80 nginx",
        "export GITHUB_TOKEN=$(gh auth token)",
        "export GITHUB_TOKEN=",
        "unset GITHUB_TOKEN",
        "echo $GITHUB_TOKEN",
        "AWS_ACCESS_KEY_ID=$X aws s3 ls",
        "PWD=/tmp ls",
        "OLDPWD=x",
        "llm --max-tokens=4096 x",
        "llm --max-tokens 4096 x",
        "kubectl create secret generic x --from-file=y",
        "kubectl get secret x -o yaml",
        "grep -r password= src",
        "curl -H \"Authorization: Bearer $TOKEN\" x",
        "curl -u \"$USER:$PASS\" x",
        "curl -u me x",
        "curl 'https://example.com/?q=token'",
        "ssh-keygen -t ed25519 -f key",
        "vim src/secret.rs && cargo test token",
        "tar -pxf x.tar",
        "mkdir -p a/b",
        "ssh -p 2222 host",
        "echo eyJhbGciOiJIUzI1NiJ9",
        "passwd root",
        "pass show mail",
        "sk-anticipated",
    ] {
        assert_eq!(redacted(line), line);
        assert_eq!(Privacy::default().keeps_out(line), None, "{line}");
    }
}

#[test]
fn a_space_in_front_keeps_out_where_that_is_wanted() {
    let privacy = Privacy::default();
    assert_eq!(privacy.keeps_out(" ls"), Some(Reason::LeadingSpace));
    assert_eq!(privacy.keeps_out("\tls"), Some(Reason::LeadingSpace));
    assert_eq!(Privacy { leading_space: false, ..privacy }.keeps_out(" ls"), None);
    let line = "x --password=hunter2";
    assert_eq!(Privacy { secrets: false, ..privacy }.keeps_out(line), None);
    assert_eq!(privacy.keeps_out(line), Some(Reason::Secret(13..20)));
}

/// Twice the length takes about twice the time: a pasted file is examined before it is run.
#[test]
fn many_words_are_looked_at_once_each() {
    let line = format!("docker x {}--password hunter2", "a=b -p ".repeat(9_000));
    assert_eq!(redacted(&line), line.replace("hunter2", "…"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_line_can_be_looked_at(line in "([a-zA-Zü=:/@?&'\"\\\\ $|-]|--password|TOKEN=|https://|bearer ){0,24}") {
        let found = secrets(&line);
        for range in &found {
            assert!(range.start <= range.end && line.get(range.clone()).is_some());
        }
        assert!(found.windows(2).all(|pair| pair[0].end < pair[1].start));
        if found.is_empty() {
            assert_eq!(redacted(&line), line);
        }
    }
}
