// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is this file the one that is trusted?

use crate::settings::Recognised;
use crate::trust::entry::{Algorithm, Digest, from_hexadecimal};
use crate::trust::store::Store;
use std::os::fd::BorrowedFd;

/// A trust database with the way in which files are recognised. Without a database nothing is trusted.
#[derive(Debug)]
pub struct Trusted {
    store: Option<Store>,
    recognised: Recognised,
}

impl Trusted {
    /// What `store` trusts.
    #[must_use]
    pub fn new(store: Option<Store>, recognised: Recognised) -> Self {
        Self { store, recognised }
    }

    /// The database.
    #[must_use]
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Whether the path is in the database, whatever the file is by now. A database that can't be read trusts nothing.
    #[must_use]
    pub fn knows(&self, path: &[u8]) -> bool {
        let mut known = false;
        let looked = self.store.as_ref().map(|store| store.who(path, |_, _| known = true));
        known && matches!(looked, Some(Ok(())))
    }

    /// Whether the open file at `path` is the one in the database; `hash` gives its SHA-256 if that is asked for.
    pub fn trusts(
        &self,
        path: &[u8],
        size: u64,
        file: BorrowedFd<'_>,
        hash: &mut dyn FnMut() -> Option<String>,
    ) -> bool {
        let Some(store) = &self.store else { return false };
        let mut candidates = Vec::new();
        let mut known = false;
        let looked = match self.recognised {
            Recognised::None => store.who(path, |_, _| known = true),
            Recognised::Size => {
                store.who(path, |_, recorded| known |= recorded.is_none_or(|recorded| recorded == size))
            }
            Recognised::Sha256 | Recognised::Ima => store.find(path, |found| {
                if found.size == size {
                    candidates.push(found.digest);
                }
            }),
        };
        if looked.is_err() {
            return false;
        }
        match self.recognised {
            Recognised::None | Recognised::Size => known,
            Recognised::Sha256 if candidates.is_empty() => false,
            Recognised::Sha256 => hash()
                .and_then(|hash| Digest::new(Algorithm::Sha256, &from_hexadecimal(hash.as_bytes())?))
                .is_some_and(|digest| candidates.contains(&digest)),
            Recognised::Ima => ima(file).is_some_and(|digest| candidates.contains(&digest)),
        }
    }
}

/// `IMA_XATTR_DIGEST_NG` of the kernel's `security/integrity/integrity.h`.
const IMA_DIGEST: u8 = 4;

/// The digest that IMA keeps of a file.
fn ima(file: BorrowedFd<'_>) -> Option<Digest> {
    let mut value = [0; 2 + 64];
    let length = rustix::fs::fgetxattr(file, "security.ima", &mut value).ok()?;
    ima_digest(value.get(..length)?)
}

/// The value of `security.ima`: what it is, the algorithm by the kernel's `enum hash_algo`, the digest.
fn ima_digest(value: &[u8]) -> Option<Digest> {
    let [IMA_DIGEST, algorithm, digest @ ..] = value else { return None };
    let algorithm = match algorithm {
        4 => Algorithm::Sha256,
        6 => Algorithm::Sha512,
        // MD5 and SHA-1 can be forged.
        _ => return None,
    };
    Digest::new(algorithm, digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ima_keeps() {
        let mut value = vec![4, 4];
        value.extend([7; 32]);
        assert_eq!(ima_digest(&value), Some(Digest::Sha256([7; 32])));
        for wrong in [&value[..33], &[3, 4], &[4, 2, 1], &[]] {
            assert_eq!(ima_digest(wrong), None);
        }
    }
}
