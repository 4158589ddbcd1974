// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads settings, rules and trust from the disk: what palisaded would use if it started now.

use super::{GuardError, Places};
use palisade_guard::rule::files::Writers;
use palisade_guard::settings::Recognised;
use palisade_guard::setup::Setup;
use palisade_guard::trust::edit::TrustFiles;
use palisade_guard::trust::store::{Location, Store};
use palisade_guard::trusted::Trusted;
use std::path::Path;

/// Settings and rules; with `other`, the rules of that file or directory. The owner of the files doesn't matter: the
/// caller only asks what they mean.
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

/// The trusted files. Without a database there are none.
pub(super) fn trusted(places: &Places, recognised: Recognised) -> Result<Trusted, GuardError> {
    Ok(Trusted::new(store(places)?, recognised))
}

/// The administrator's trust files.
pub(super) fn trust_files(places: &Places) -> TrustFiles {
    TrustFiles::new(&places.config.join("guard.trust"), &places.config.join("trust.d"))
}
