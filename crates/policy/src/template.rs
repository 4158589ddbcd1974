// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fills in `${…}` in texts: arguments, values of variables, contents of files, names on a bus.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::context::Context;
use crate::pattern::{PatternError, Variable};

/// A value to fill in is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`${{{variable}}}` has no value in this launch")]
pub struct Unset {
    /// The variable's name.
    pub variable: String,
}

/// A piece of a template.
enum Piece<'t> {
    Plain(&'t str),
    Variable(Variable),
}

/// `$${` stands for `${`. Any other `$` stands for itself.
fn pieces(text: &str) -> Result<Vec<Piece<'_>>, PatternError> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(plain) = rest[..at].strip_suffix('$') {
            out.push(Piece::Plain(plain));
            out.push(Piece::Plain("${"));
            rest = &rest[at + 2..];
            continue;
        }
        out.push(Piece::Plain(&rest[..at]));
        let name = &rest[at + 2..];
        let end = name.find('}').ok_or(PatternError::UnclosedVariable)?;
        out.push(Piece::Variable(Variable::new(&name[..end])?));
        rest = &name[end + 1..];
    }
    out.push(Piece::Plain(rest));
    Ok(out)
}

/// Checks a template.
///
/// # Errors
/// When `${` isn't closed or contains an unknown name.
pub fn check(text: &str) -> Result<(), PatternError> {
    pieces(text).map(drop)
}

/// The text with placeholder letters for all variables. `None` if the template is invalid.
pub(crate) fn skeleton(text: &str) -> Option<String> {
    let pieces = pieces(text).ok()?;
    let each = |piece| match piece {
        Piece::Plain(text) => text,
        // An id contains a dot.
        Piece::Variable(Variable::Id) => "x.x",
        Piece::Variable(_) => "x",
    };
    Some(pieces.into_iter().map(each).collect())
}

/// The caller's variables that a text refers to.
pub(crate) fn variables(text: &str) -> Vec<String> {
    let named = |piece| match piece {
        Piece::Variable(Variable::Environment(name)) => Some(name),
        Piece::Variable(Variable::X11) => Some("DISPLAY".to_owned()),
        _ => None,
    };
    pieces(text).into_iter().flatten().filter_map(named).collect()
}

/// Whether a text has another result in another working directory.
pub(crate) fn depends_on_cwd(text: &str) -> bool {
    let known = pieces(text).into_iter().flatten();
    known.into_iter().any(|piece| matches!(piece, Piece::Variable(Variable::Cwd | Variable::Project)))
}

/// Fills in all variables of a text.
///
/// # Errors
/// When a variable has no value in this launch.
pub fn fill(text: &str, context: &Context) -> Result<OsString, Unset> {
    // An invalid template was refused when it was parsed.
    let Ok(pieces) = pieces(text) else { return Ok(text.into()) };
    let mut out = OsString::new();
    for piece in pieces {
        match piece {
            Piece::Plain(text) => out.push(text),
            Piece::Variable(variable) => {
                let value =
                    variable.value(context).ok_or_else(|| Unset { variable: variable.name().to_owned() });
                out.push(value?);
            }
        }
    }
    Ok(out)
}

impl Variable {
    /// The variable's value, if it has one.
    fn value(&self, context: &Context) -> Option<OsString> {
        Some(match self {
            Self::Home => context.home.clone().into(),
            Self::Cwd => context.cwd.clone().into(),
            Self::Project => context.project.clone()?.into(),
            Self::Runtime => context.runtime_dir.clone()?.into(),
            Self::User => context.user.clone().into(),
            Self::Uid => context.uid.to_string().into(),
            Self::Config => context.directories.config.clone().into(),
            Self::Data => context.directories.data.clone().into(),
            Self::Cache => context.directories.cache.clone().into(),
            Self::State => context.directories.state.clone().into(),
            Self::X11 => Self::x11(context)?.into(),
            Self::Name => context.application.as_ref()?.name.clone().into(),
            Self::Id => context.application.as_ref()?.id().into(),
            Self::Environment(name) => {
                let value = context.environment.get(OsStr::new(name))?;
                if value.as_bytes().contains(&0) {
                    return None;
                }
                value.clone()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Application;

    #[test]
    fn what_is_known_is_filled_in() {
        let context = Context {
            home: "/home/ann".into(),
            application: Some(Application { name: "okular".into(), id: None }),
            environment: [("WAYLAND_DISPLAY".into(), "wayland-0".into())].into(),
            ..Context::default()
        };
        let filled = |text: &str| fill(text, &context).map(|text| text.into_string().unwrap());
        assert_eq!(filled("a ${home}/x ${name} ${id}").unwrap(), "a /home/ann/x okular palisade.okular");
        assert_eq!(filled("$5 $${home} $$ ${WAYLAND_DISPLAY}").unwrap(), "$5 ${home} $$ wayland-0");
        assert_eq!(filled("${DISPLAY}").unwrap_err().variable, "DISPLAY");
        assert_eq!(filled("${runtime}").unwrap_err().variable, "runtime");
        assert!(check("${hmoe}").is_err());
        assert!(check("${home").is_err());
    }
}
