// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of toolchain paths. It has programs and libraries only. A row's comment names the neighbouring files
//! that contain credentials or settings: they are the reason why the row isn't the directory above.

use super::Kind;

/// A path below the home.
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) path: &'static str,
    pub(super) why: &'static str,
}

const fn row(kind: Kind, path: &'static str, why: &'static str) -> Row {
    Row { kind, path, why }
}

/// Paths below the home that are shown if they exist.
pub(super) const HOME: &[Row] = &[
    // Not ~/.cargo: credentials.toml, and config.toml may hold tokens too.
    row(Kind::Rust, ".cargo/bin", "cargo, rustup's proxies and installed programs"),
    row(Kind::Rust, ".cargo/env", "sourced by shells' start-up files"),
    row(Kind::Rust, ".cargo/registry", "downloaded crates, so that offline builds work"),
    row(Kind::Rust, ".cargo/git", "crates fetched by git, so that offline builds work"),
    row(Kind::Rust, ".rustup", "Rust toolchains"),
    row(Kind::Python, ".pyenv", "Python versions and shims"),
    row(Kind::Python, ".rye", "Python versions and shims"),
    // Not ~/.local/share/uv: credentials/.
    row(Kind::Python, ".local/share/uv/python", "Python versions of uv"),
    row(Kind::Python, ".local/share/uv/tools", "programs installed by uv"),
    // Not the directories above: pipx writes its log into them before it does anything.
    row(Kind::Python, ".local/share/pipx/py", "Python versions of pipx"),
    row(Kind::Python, ".local/share/pipx/venvs", "programs installed by pipx"),
    row(Kind::Python, ".local/pipx/venvs", "programs installed by pipx before 1.3"),
    row(Kind::Python, ".local/share/pypoetry", "poetry itself"),
    // Not ~/.condarc, ~/.continuum.
    row(Kind::Conda, "miniconda3", "conda"),
    row(Kind::Conda, "anaconda3", "conda"),
    row(Kind::Conda, "miniforge3", "conda"),
    row(Kind::Conda, "mambaforge", "conda"),
    row(Kind::Conda, "micromamba", "conda environments"),
    row(Kind::Conda, ".pixi/bin", "programs installed by pixi"),
    row(Kind::Conda, ".pixi/envs", "environments of pixi's programs"),
    // Node: never ~/.npmrc, ~/.yarnrc.yml, ~/.config/pnpm/rc.
    row(Kind::Node, ".nvm", "Node versions"),
    row(Kind::Node, ".fnm", "Node versions"),
    row(Kind::Node, ".local/share/fnm", "Node versions"),
    row(Kind::Node, ".volta", "Node versions and shims"),
    row(Kind::Node, ".nodenv", "Node versions and shims"),
    row(Kind::Node, ".npm-global/bin", "programs installed by npm -g"),
    row(Kind::Node, ".npm-global/lib", "programs installed by npm -g"),
    row(Kind::Node, ".yarn/bin", "programs installed by yarn"),
    row(Kind::Node, ".local/share/pnpm", "pnpm, its programs and store"),
    row(Kind::Node, ".bun/bin", "bun"),
    row(Kind::Node, ".bun/install/global", "programs installed by bun"),
    row(Kind::Node, ".deno/bin", "deno and installed programs"),
    // Not ~/go/src: other projects.
    row(Kind::Go, "go/bin", "programs installed by go install"),
    row(Kind::Go, "go/pkg/mod", "downloaded modules, so that offline builds work"),
    row(Kind::Go, "sdk", "Go versions of golang.org/dl"),
    row(Kind::Go, ".goenv", "Go versions and shims"),
    row(Kind::Ruby, ".rbenv", "Ruby versions and shims"),
    row(Kind::Ruby, ".rvm", "Ruby versions"),
    // Not ~/.gem: credentials.
    row(Kind::Ruby, ".gem/ruby", "gems installed by the user"),
    row(Kind::Ruby, ".local/share/gem/ruby", "gems installed by the user"),
    // Not ~/.m2 (settings.xml), ~/.gradle (gradle.properties); Gradle can't use a read-only cache.
    row(Kind::Java, ".sdkman/candidates", "Java and its tools"),
    row(Kind::Java, ".jenv", "Java versions and shims"),
    row(Kind::Java, ".jdks", "Java versions of IDEs"),
    row(Kind::Java, ".gradle/jdks", "Java versions of Gradle"),
    row(Kind::Java, ".m2/repository", "downloaded artifacts, so that offline builds work"),
    // Not ~/.cabal/config, ~/.config/cabal, ~/.stack/config.yaml.
    row(Kind::Haskell, ".ghcup", "GHC and its tools"),
    row(Kind::Haskell, ".cabal/bin", "programs installed by cabal"),
    row(Kind::Haskell, ".cabal/packages", "downloaded packages"),
    row(Kind::Haskell, ".cabal/store", "built packages"),
    row(Kind::Haskell, ".stack/programs", "GHC of stack"),
    // Not ~/.julia/servers (tokens), ~/.julia/logs, ~/.julia/config.
    row(Kind::Julia, ".juliaup", "Julia's launcher"),
    row(Kind::Julia, ".julia/juliaup", "Julia versions"),
    row(Kind::Julia, ".julia/packages", "downloaded packages"),
    row(Kind::Julia, ".julia/artifacts", "downloaded artifacts"),
    row(Kind::Julia, ".julia/registries", "package registries"),
    // Not ~/.dotnet/corefx (private keys), ~/.nuget/NuGet (NuGet.Config).
    row(Kind::Dotnet, ".dotnet/dotnet", ".NET's launcher"),
    row(Kind::Dotnet, ".dotnet/host", ".NET's host library"),
    row(Kind::Dotnet, ".dotnet/sdk", ".NET's SDKs"),
    row(Kind::Dotnet, ".dotnet/shared", ".NET's runtimes"),
    row(Kind::Dotnet, ".dotnet/packs", ".NET's reference assemblies"),
    row(Kind::Dotnet, ".dotnet/tools", "programs installed by dotnet"),
    row(Kind::Dotnet, ".nuget/packages", "downloaded packages"),
    row(Kind::Other, ".opam", "OCaml switches"),
    row(Kind::Other, ".elan", "Lean toolchains"),
    row(Kind::Other, ".asdf", "versions and shims of asdf"),
    row(Kind::Other, ".proto", "versions and shims of proto"),
    // Not ~/.config/mise, ~/.local/state/mise.
    row(Kind::Other, ".local/share/mise", "versions and shims of mise"),
    row(Kind::Other, ".local/share/claude", "Claude Code's versions, run by ~/.local/bin/claude"),
    row(Kind::Other, ".nix-profile", "the user's Nix profile"),
    row(Kind::Other, ".local/state/nix", "the user's Nix profiles"),
    row(Kind::Other, ".guix-profile", "the user's Guix profile"),
    row(Kind::Other, ".local/bin", "programs installed by the user"),
    row(Kind::Other, ".local/lib", "libraries installed by the user (Python's user site)"),
];

/// A toolchain that an environment variable points to.
pub(super) struct Variable {
    pub(super) kind: Kind,
    pub(super) name: &'static str,
    /// The parts of it that are shown; an empty string is the directory itself.
    pub(super) parts: &'static [&'static str],
    /// One of these must exist below the value. Otherwise the value isn't such a directory: `RUSTUP_HOME=~/Documents`
    /// must not show the documents.
    pub(super) markers: &'static [&'static str],
    pub(super) why: &'static str,
}

const WHOLE: &[&str] = &[""];

const fn variable(
    kind: Kind,
    name: &'static str,
    parts: &'static [&'static str],
    markers: &'static [&'static str],
    why: &'static str,
) -> Variable {
    Variable { kind, name, parts, markers, why }
}

/// Environment variables that name another place for a toolchain. Values may be `:`-separated (GOPATH).
pub(super) const VARIABLES: &[Variable] = &[
    variable(
        Kind::Rust,
        "CARGO_HOME",
        &["bin", "env", "registry", "git"],
        &["bin/cargo", "registry", "env"],
        "cargo's programs and downloads",
    ),
    variable(Kind::Rust, "RUSTUP_HOME", WHOLE, &["toolchains", "settings.toml"], "Rust toolchains"),
    variable(Kind::Python, "PYENV_ROOT", WHOLE, &["versions", "shims"], "Python versions"),
    variable(Kind::Python, "VIRTUAL_ENV", WHOLE, &["pyvenv.cfg"], "the active Python environment"),
    variable(Kind::Conda, "CONDA_PREFIX", WHOLE, &["conda-meta"], "the active conda environment"),
    variable(Kind::Node, "NVM_DIR", WHOLE, &["nvm.sh", "versions/node"], "Node versions"),
    variable(Kind::Node, "FNM_DIR", WHOLE, &["node-versions"], "Node versions"),
    variable(Kind::Node, "VOLTA_HOME", WHOLE, &["tools", "bin/volta"], "Node versions"),
    variable(Kind::Node, "BUN_INSTALL", &["bin", "install/global"], &["bin/bun"], "bun"),
    variable(Kind::Node, "DENO_INSTALL", &["bin"], &["bin/deno"], "deno"),
    variable(Kind::Go, "GOROOT", WHOLE, &["bin/go", "pkg/tool"], "Go"),
    variable(Kind::Go, "GOPATH", &["bin", "pkg/mod"], &["pkg/mod", "bin"], "Go programs and modules"),
    variable(Kind::Go, "GOMODCACHE", WHOLE, &["cache/download"], "Go modules"),
    variable(Kind::Ruby, "RBENV_ROOT", WHOLE, &["versions", "shims"], "Ruby versions"),
    variable(Kind::Java, "JAVA_HOME", WHOLE, &["bin/java"], "Java"),
    variable(Kind::Java, "SDKMAN_DIR", &["candidates"], &["candidates"], "Java and its tools"),
    // Parts, because the default is ~/.dotnet, see above.
    variable(
        Kind::Dotnet,
        "DOTNET_ROOT",
        &["dotnet", "host", "packs", "sdk", "shared", "sdk-manifests"],
        &["dotnet"],
        ".NET",
    ),
    variable(Kind::Other, "ASDF_DATA_DIR", WHOLE, &["installs", "shims"], "versions of asdf"),
    variable(Kind::Other, "MISE_DATA_DIR", WHOLE, &["installs", "shims"], "versions of mise"),
    // Not var: data of services.
    variable(
        Kind::Other,
        "HOMEBREW_PREFIX",
        &["bin", "sbin", "lib", "Cellar", "opt", "share", "include", "etc"],
        &["bin/brew", "Cellar"],
        "programs of Homebrew",
    ),
];

/// Directories below the home that are never shown, with everything in or above them, whatever a variable, a link or
/// `PATH` says.
pub(super) const NEVER: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".password-store",
    ".mozilla",
    ".thunderbird",
    ".config",
    ".cache/palisade",
    ".local/share/keyrings",
    ".local/share/palisade",
    ".local/state/palisade",
    ".claude",
    ".codex",
];
