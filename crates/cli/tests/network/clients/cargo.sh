# SPDX-License-Identifier: Apache-2.0 OR MIT
# Fetches the crate `tiny` from the sparse registry of $HOST.
set -e
CARGO_HOME=$PWD/cargo CARGO_HTTP_CAINFO=$CA CARGO_NET_RETRY=0
export CARGO_HOME CARGO_HTTP_CAINFO CARGO_NET_RETRY
mkdir -p src
: >src/lib.rs
cat >Cargo.toml <<END
[package]
name = "user"
version = "0.1.0"
edition = "2021"
[dependencies]
tiny = "1"
END
# Not at .cargo/config.toml: that is a protected name.
cat >sources.toml <<END
[source.crates-io]
replace-with = "mini"
[source.mini]
registry = "sparse+https://$HOST/crates/"
END
cargo fetch -q --config sources.toml
ls cargo/registry/src/*/tiny-1.0.0/src/lib.rs >/dev/null
