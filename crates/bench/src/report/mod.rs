// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How results are shown: text for people, Markdown for documents, JSON for programs, SVG for the eye.

pub(crate) mod factors;
pub(crate) mod grid;
pub(crate) mod json;
pub(crate) mod plot;
pub(crate) mod text;
