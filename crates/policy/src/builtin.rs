// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The built-in layer: the lowest one, compiled into the binary.

use crate::layer::Layer;
use crate::parse::parse;
use crate::settings::LayerPolicy;

/// The text of the built-in layer.
pub const TEXT: &str = include_str!("builtin.toml");

/// The built-in layer.
#[must_use]
#[expect(clippy::expect_used, reason = "the text is compiled in, and a test parses it")]
pub fn built_in() -> LayerPolicy {
    parse(TEXT, None, Layer::BuiltIn).expect("the built-in policy is tested to parse")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Context, Grant, NetworkMode, View, merge};

    #[test]
    fn the_built_in_layer_says_what_the_manual_says() {
        let policy = merge(vec![built_in()]);
        assert_eq!(policy.view().value, View::System);
        assert_eq!(policy.network().value, NetworkMode::None);
        assert_eq!(policy.view().origin.to_string(), "built in");
        let resolved = policy
            .resolve(&Context {
                home: "/home/ann".into(),
                cwd: "/home/ann/app".into(),
                project: None,
                user: "ann".into(),
                uid: 1000,
                runtime_dir: None,
                ..Context::default()
            })
            .unwrap();
        let grant = |path: &str| resolved.decide(Path::new(path)).grant;
        let all = Grant::Allowed { write: true, execute: true };
        assert_eq!(grant("/home/ann/app/src/main.rs"), all);
        assert_eq!(grant("/home/ann/.ssh/id_rsa"), Grant::Absent);
        assert_eq!(grant("/usr/bin/env"), Grant::Absent);
    }
}
