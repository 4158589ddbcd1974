// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings, rules and trust as they are on the disk: what palisaded would go by if it began now.

use super::{GuardError, Places};
use palisade_guard::rule::files::Writers;
use palisade_guard::settings::Recognised;
use palisade_guard::setup::Setup;
use palisade_guard::trust::edit::TrustFiles;
use palisade_guard::trust::store::{Location, Store};
use palisade_guard::trusted::Trusted;
use std::path::Path;

/// Settings and rules; with `other`, the rules of that file or directory. Whoever wrote them: who only asks what they
/// mean may ask about anybody's.
pub(super) fn setup(places: &Places, other: Option<&Path>) -> Result<Setup, GuardError> {
    Ok(Setup::read(&places.config, other, Writers::Anybody)?)
}

/// The trust database, if there is one.
pub(super) fn store(places: &Places) -> Result<Option<Store>, GuardError> {
    let location = Location::new(&places.state);
    if !location.base().exists() {
        return Ok(None);
    }
    Ok(Some(Store::open(&location)?))
}

/// The trust database.
pub(super) fn database(places: &Places) -> Result<Store, GuardError> {
    store(places)?.ok_or_else(|| GuardError::NoDatabase { state: places.state.clone() })
}

/// What is trusted; without a database nothing.
pub(super) fn trusted(places: &Places, recognised: Recognised) -> Result<Trusted, GuardError> {
    Ok(Trusted::new(store(places)?, recognised))
}

/// The administrator's trust files.
pub(super) fn trust_files(places: &Places) -> TrustFiles {
    TrustFiles::new(&places.config.join("guard.trust"), &places.config.join("trust.d"))
}
