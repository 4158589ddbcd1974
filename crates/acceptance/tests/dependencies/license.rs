// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Evaluates license expressions, as packages state them (SPDX 2.3, annex D).

/// Whether the licenses for which `allowed` is true suffice for `expression`; `None` if it is not a license expression.
pub(crate) fn satisfied(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    // Old packages write `MIT/Apache-2.0`.
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let satisfied = any(&mut rest, allowed)?;
    rest.is_empty().then_some(satisfied)
}

fn any(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut satisfied = all(rest, allowed)?;
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        satisfied |= all(rest, allowed)?;
    }
    Some(satisfied)
}

fn all(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut satisfied = one(rest, allowed)?;
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        satisfied &= one(rest, allowed)?;
    }
    Some(satisfied)
}

fn one(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let satisfied = any(rest, allowed)?;
            let [")", after @ ..] = *rest else { return None };
            *rest = after;
            Some(satisfied)
        }
        [license, "WITH", exception, after @ ..] => {
            *rest = after;
            Some(allowed(&format!("{license} WITH {exception}")))
        }
        ["OR" | "AND" | "WITH" | ")", ..] | [] => None,
        [license, after @ ..] => {
            *rest = after;
            Some(allowed(license))
        }
    }
}

#[test]
fn expressions_are_read() {
    let mit = |license: &str| license == "MIT";
    for (expression, expected) in [
        ("MIT", Some(true)),
        ("GPL-3.0-only", Some(false)),
        ("GPL-3.0-only OR MIT", Some(true)),
        ("GPL-3.0-only/MIT", Some(true)),
        ("GPL-3.0-only AND MIT", Some(false)),
        ("(GPL-3.0-only OR MIT) AND MIT", Some(true)),
        ("MIT AND (GPL-3.0-only)", Some(false)),
        ("MIT WITH LLVM-exception", Some(false)),
        ("MIT OR", None),
        ("(MIT", None),
        ("MIT)", None),
        ("", None),
    ] {
        assert_eq!(satisfied(expression, &mit), expected, "{expression}");
    }
}
