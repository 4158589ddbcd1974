// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what users of fapolicyd rely on, and what went wrong there: each line of `acceptance.list` with a running guard.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

mod daemon;
mod regression;
mod rules;
mod trust;

use daemon::*;
use regression::*;
use rules::*;
use trust::*;

palisade_acceptance::lines! {
    include_str!("acceptance.list");
    allow_by_path,
    allow_by_directory,
    allow_by_hash,
    sets,
    groups,
    parents,
    order_of_files,
    shell_scripts,
    trust_files_with_mistakes,
    trust_that_changes_while_it_runs,
    a_file_that_changes,
    integrity,
    integrity_by_ima,
    filter,
    odd_names,
    who_may_read_the_database,
    reload,
    memory,
    open_files,
    leaks,
    log_channels,
    audit,
    missing_end_of_line,
    late_mount,
    overlay,
    interrupted,
    state_that_can_not_be_written,
    shutdown,
    process_numbers,
    pressure,
    refused_starts,
    one_user_is_not_everybody,
    killed,
    killed_while_it_imports,
    linker,
    static_programs,
    ldd,
    sockets_and_pipes,
    perl,
}
