# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=sh
#
# What the packages are called, and where releases are. The build scripts read this; `PUBLISHED` of
# crates/cli/src/own/installation.rs is the same name.

# On PyPI and npm. Both have other people's packages of the name `palisade`.
PUBLISHED=palisade-sandbox
SUMMARY='Starts programs in isolation, and says what was refused and why'
LICENCE='Apache-2.0 OR MIT'

: "${PACKAGE_ROOT:?names the checkout}" "${PACKAGE_VERSION:?is the version}"
: "${PACKAGE_OUTPUT:?names the directory for the results}" "${SOURCE_DATE_EPOCH:?is the time of every file}"
REPOSITORY=$(sed -n 's/^repository = "\(.*\)"$/\1/p' "$PACKAGE_ROOT/Cargo.toml")
[ -n "$REPOSITORY" ] || {
    echo "packaging: error: no line \`repository = \"…\"\` in $PACKAGE_ROOT/Cargo.toml" >&2
    exit 1
}
RELEASES=$REPOSITORY/releases
export PUBLISHED SUMMARY LICENCE REPOSITORY RELEASES
