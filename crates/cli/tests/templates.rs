// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the features `dev-*`, which agents and commands take for kinds of development.

use crate::support::{everybody, has, job, ordinary};

/// Each feature, a host that it allows, and that host's neighbour.
const HOSTS: [(&str, &str, &str); 10] = [
    ("dev-node", "registry.npmjs.org:443", "registry.npmjs.org:80"),
    ("dev-python", "files.pythonhosted.org:443", "pythonhosted.org:443"),
    ("dev-go", "proxy.golang.org:443", "golang.org:443"),
    ("dev-rust", "static.rust-lang.org:443", "www.rust-lang.org:443"),
    ("dev-java", "plugins.gradle.org:443", "gradle.org:443"),
    ("dev-ruby", "index.rubygems.org:443", "evil.rubygems.org:443"),
    ("dev-php", "repo.packagist.org:443", "github.com:443"),
    ("dev-containers", "registry-1.docker.io:443", "docker.io:443"),
    ("dev-data", "cdn-lfs.hf.co:443", "hf.co.example.org:443"),
    ("dev-browser", "cdn.playwright.dev:443", "playwright.dev:443"),
];

#[test]
fn each_allows_its_hosts_and_not_their_neighbours() {
    let place = ordinary();
    let explain = |options: &[&str], host: &str| {
        job::finish(place.command(place.binary()).arg("explain").args(options).arg(host)).code
    };
    for (feature, host, neighbour) in HOSTS {
        assert_eq!(explain(&["--feature", feature], host), 0, "{feature}: {host}");
        assert_eq!(explain(&["--feature", feature], neighbour), 1, "{feature}: {neighbour}");
        assert_eq!(explain(&[], host), 1, "{host} without a feature");
    }
}

/// The socket of an engine is an escape, so no template shows one.
#[test]
fn no_template_shows_a_socket_of_an_engine() {
    for place in everybody() {
        for (feature, ..) in HOSTS {
            let run = place.sh(
                &["--quiet", "--feature", feature],
                "ls /run/docker.sock /run/podman /var/run/docker.sock 2>&1",
            );
            assert!(run.code != 0 && run.out.matches("No such file").count() == 3, "{feature}: {run:?}");
        }
    }
}

const SCRIPT: &str = r#"
const { chromium } = require('playwright-core');
const net = require('net'), os = require('os'), path = require('path');
(async () => {
  // Its tools talk by unix sockets in the directory for temporary files.
  const socket = path.join(os.tmpdir(), 'tool.sock');
  const server = net.createServer(c => c.end('socket')).listen(socket);
  await new Promise(done => server.on('listening', done));
  const said = await new Promise(done => net.connect(socket).on('data', data => done(String(data))));
  server.close();
  const launched = await chromium.launchServer({ executablePath: '/usr/bin/chromium', chromiumSandbox: true });
  const browser = await chromium.connect(launched.wsEndpoint());
  const page = await browser.newPage();
  await page.setContent('<button onclick="this.textContent = 6 * 7">press</button>');
  await page.click('button');
  console.log(said, await page.textContent('button'));
  await launched.close();
})().catch(error => { console.error(error.message); process.exit(1); });
"#;

/// Playwright drives a browser that isolates its tabs, and its unix sockets work. Chromium starts for no root without giving
/// that isolation up.
#[test]
fn playwright_drives_a_browser_by_its_unix_sockets() {
    if !["sessions", "chromium", "userns"].iter().all(|feature| has(feature)) {
        return;
    }
    let place = ordinary();
    place.outside(
        "export npm_config_cafile=/etc/ssl/certs/ca-certificates.crt; [ -e $npm_config_cafile ] || unset npm_config_cafile; \
         npm install --silent --no-audit --no-fund --cache ~/npm-cache playwright-core@1.56.1",
    );
    place.write("work/script.js", SCRIPT);
    let outside = place.outside("node script.js");
    assert_eq!(outside, "socket 42\n");
    let run = place.run(&["--feature", "dev-browser"], &["node", "script.js"]);
    assert_eq!(run.ok(), "socket 42", "{run:?}");
    // Without the feature the browser can't isolate its tabs, and the refusal says what permits it.
    let run = place.run(&[], &["node", "script.js"]);
    assert!(run.code != 0 && run.err.contains("--allow-namespaces"), "{run:?}");
}
