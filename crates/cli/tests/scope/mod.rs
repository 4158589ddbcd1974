// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests scopes with a running daemon; `scopes.list` has a line for each test.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod depths;
mod profiles;
mod surroundings;
mod users;
mod verdicts;
pub(crate) mod world;

use depths::*;
use profiles::*;
use surroundings::*;
use users::*;
use verdicts::*;

palisade_acceptance::lines! {
    include_str!("scopes.list");
    one_level_and_ancestry,
    ancestry_and_inheritance,
    control_group,
    daemons_stay_marked,
    up,
    killed_before_the_first_instruction,
    refused_or_killed,
    warned,
    event_with_its_parent,
    chains,
    rare_calls,
    prompt_and_audit,
    session,
    strict,
    denied_name_elsewhere,
    switching,
    reload,
    users_apart,
    root_only,
    bad_marks,
    no_way_out,
    outlives,
    killed_and_started,
    cleared,
    without_rights,
    without_pins,
    clients,
    slow_readers,
    many_at_once,
    too_many,
    full_buffer,
    exit_codes,
}
