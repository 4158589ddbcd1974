# SPDX-License-Identifier: Apache-2.0 OR MIT
# Fetches what depends on a crate of crates.io, or of what stands for it in the configuration $REGISTRY.
set -e
CARGO_HOME=$PWD/cargo CARGO_NET_RETRY=0
export CARGO_HOME CARGO_NET_RETRY
mkdir -p src cargo
: >src/lib.rs
printf '%s' "$REGISTRY" >cargo/config.toml
cat >Cargo.toml <<END
[package]
name = "user"
version = "0.1.0"
edition = "2021"
[dependencies]
itoa = "1"
END
cargo fetch -q
ls cargo/registry/src/*/itoa-1*/src/lib.rs >/dev/null
