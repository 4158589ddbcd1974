// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows results: as text for people, Markdown for documents, JSON for programs, and SVG.

pub(crate) mod factors;
pub(crate) mod grid;
pub(crate) mod json;
pub(crate) mod plot;
pub(crate) mod text;
