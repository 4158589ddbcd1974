// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Splits the content of `${…}`.

use crate::quote;

/// The content of `${…}`, split into its components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter<'t> {
    /// `${!name}`
    pub is_indirect: bool,
    /// A name, a number, or a special character.
    pub name: &'t str,
    /// The text after the name: an index, or an operator with its words.
    pub operation: &'t str,
}

impl<'t> Parameter<'t> {
    /// Splits the text between the braces.
    #[must_use]
    pub fn of(body: &'t str) -> Self {
        let (is_indirect, rest) = match body.strip_prefix('!') {
            Some(rest) if !rest.is_empty() => (true, rest),
            _ => (false, body),
        };
        let bytes = rest.as_bytes();
        let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let length = quote::name_length(bytes).max(digits);
        let length = if length == 0 { rest.ceil_char_boundary(rest.len().min(1)) } else { length };
        let (name, operation) = rest.split_at_checked(length).unwrap_or((rest, ""));
        Self { is_indirect, name, operation }
    }

    /// The operator after the name (`-`, `=`, `+` or `?`, each with `:` or without), and its word.
    #[must_use]
    pub fn default(&self) -> Option<(u8, &'t str)> {
        let bare = self.operation.strip_prefix(':').unwrap_or(self.operation);
        let operator = *bare.as_bytes().first()?;
        matches!(operator, b'-' | b'=' | b'+' | b'?').then(|| (operator, bare.get(1..).unwrap_or_default()))
    }
}
