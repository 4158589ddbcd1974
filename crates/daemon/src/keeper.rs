// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trust database, kept up to date.
use palisade_guard::settings::TrustSettings;
use palisade_guard::trusted::Trusted;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) struct Keeper {
    state: PathBuf,
}
impl Keeper {
    pub(crate) fn new(_config: &Path, state: &Path) -> Self {
        Self { state: state.to_owned() }
    }
    pub(crate) fn open(
        &self,
        settings: &TrustSettings,
    ) -> Result<Trusted, palisade_guard::trust::store::Error> {
        let _ = &self.state;
        Ok(Trusted::new(None, settings.integrity))
    }
    pub(crate) fn age(&self) -> Option<u64> {
        None
    }
    pub(crate) fn look_again(&self) {}
    pub(crate) fn make_anew(&self, _everything: bool) {}
    pub(crate) fn keep(&self, _guard: &crate::guard::Guard, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    }
}
