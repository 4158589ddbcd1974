// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes a store in one transaction.

use crate::StoreError;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::Path;

/// Makes a change as a whole or not at all. `action` and `path` are for the error message.
///
/// # Errors
/// When SQLite refuses the change, or another process has the database locked.
pub fn change<T>(
    connection: &mut Connection,
    path: &Path,
    action: &'static str,
    change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> Result<T, StoreError> {
    // The transaction takes the write lock at its start: a transaction that takes the lock later can fail at once.
    connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .and_then(|transaction| {
            let changed = change(&transaction)?;
            transaction.commit()?;
            Ok(changed)
        })
        .map_err(|source| StoreError::of(action, path, source))
}
