// SPDX-License-Identifier: Apache-2.0 OR MIT
//! docs/hosts.md, from the table.
use super::table::Table;
pub(super) fn of(_table: &Table) -> String {
    String::new()
}
