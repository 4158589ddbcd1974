// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[limits]`: sizes, counts and times.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::layer::Tighten;

/// What can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Memory of the whole sandbox, in bytes.
    Memory,
    /// Processes and threads of the whole sandbox.
    Processes,
    /// Processor time of one process, in seconds.
    CpuTime,
    /// Open descriptors of one process.
    OpenFiles,
    /// Size of a file a process writes, in bytes.
    FileSize,
    /// Size of a core dump, in bytes.
    CoreSize,
    /// Size of a stack, in bytes.
    Stack,
    /// Address space of one process, in bytes. This doesn't limit memory use: it counts everything that is mapped.
    AddressSpace,
    /// Memory that a process may lock, in bytes.
    LockedMemory,
}

/// The unit of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes: `1048576`, `"512M"`, `"2 GiB"`.
    Bytes,
    /// A number: `256`.
    Count,
    /// Seconds: `90`, `"90s"`, `"5m"`, `"1h"`.
    Seconds,
}

impl Limit {
    /// All limits, in the order in which they are printed.
    pub const ALL: [Self; 9] = [
        Self::Memory,
        Self::Processes,
        Self::CpuTime,
        Self::OpenFiles,
        Self::FileSize,
        Self::CoreSize,
        Self::Stack,
        Self::AddressSpace,
        Self::LockedMemory,
    ];

    /// The key in a policy file.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::CpuTime => "cpu_time",
            Self::OpenFiles => "open_files",
            Self::FileSize => "file_size",
            Self::CoreSize => "core_size",
            Self::Stack => "stack",
            Self::AddressSpace => "address_space",
            Self::LockedMemory => "locked_memory",
        }
    }

    /// The unit.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::Processes | Self::OpenFiles => Unit::Count,
            Self::CpuTime => Unit::Seconds,
            Self::Memory
            | Self::FileSize
            | Self::CoreSize
            | Self::Stack
            | Self::AddressSpace
            | Self::LockedMemory => Unit::Bytes,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// The amount of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// At most this many bytes, items or seconds.
    AtMost(u64),
    /// No limit from Palisade.
    Unlimited,
}

impl Tighten for Amount {
    fn loosens(&self, lock: &Self) -> bool {
        self > lock
    }
}

/// Why a text is no valid amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// The text doesn't begin with a number.
    #[error("`{text}` does not begin with a whole number")]
    NoNumber {
        /// The text.
        text: String,
    },
    /// The suffix is unknown.
    #[error("`{suffix}` is no unit of {}", match unit {
        Unit::Bytes => "size",
        Unit::Count => "a count",
        Unit::Seconds => "time",
    })]
    UnknownSuffix {
        /// The suffix.
        suffix: String,
        /// The unit that was expected.
        unit: Unit,
    },
    /// The amount has more than 64 bits, or exceeds the kernel's largest file size.
    #[error("`{text}` is too large")]
    TooLarge {
        /// The text.
        text: String,
    },
    /// The amount is negative.
    #[error("`{text}` is negative")]
    Negative {
        /// The text.
        text: String,
    },
}

impl AmountError {
    /// What to write instead.
    #[must_use]
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::UnknownSuffix { unit, .. } => Some(unit.hint()),
            Self::NoNumber { .. } => Some("write a number, a number with a unit, or `unlimited`"),
            Self::TooLarge { .. } => Some("for no limit write \"unlimited\""),
            Self::Negative { .. } => None,
        }
    }
}

/// The largest amount: TOML's integers and the kernel's file sizes are signed.
const LARGEST: u64 = i64::MAX.unsigned_abs();

impl Unit {
    /// How amounts of this unit can be written.
    #[must_use]
    pub const fn hint(self) -> &'static str {
        match self {
            Self::Bytes => "sizes are bytes, or \"64K\", \"512M\", \"2G\", \"1T\" (powers of 1024)",
            Self::Count => "counts are whole numbers",
            Self::Seconds => "times are seconds, or \"90s\", \"5m\", \"2h\"",
        }
    }

    /// Suffixes and their factors, largest first. The first suffix of each size is used for printing.
    const fn suffixes(self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Bytes => &[
                ("T", 1 << 40),
                ("TiB", 1 << 40),
                ("G", 1 << 30),
                ("GiB", 1 << 30),
                ("M", 1 << 20),
                ("MiB", 1 << 20),
                ("K", 1 << 10),
                ("KiB", 1 << 10),
                ("B", 1),
            ],
            Self::Count => &[],
            Self::Seconds => &[("h", 3600), ("m", 60), ("s", 1)],
        }
    }

    /// Parses an amount. `unlimited` is also valid.
    ///
    /// # Errors
    /// When it isn't a whole number with a known suffix, or too large.
    pub fn parse(self, text: &str) -> Result<Amount, AmountError> {
        let trimmed = text.trim();
        if trimmed.eq_ignore_ascii_case("unlimited") {
            return Ok(Amount::Unlimited);
        }
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let (number, suffix) = trimmed.split_at(digits);
        if number.is_empty() {
            return Err(AmountError::NoNumber { text: text.into() });
        }
        let suffix = suffix.trim_start();
        let factor = if suffix.is_empty() {
            1
        } else {
            // Only an exact match: `m` is a minute, and `mb` would be ambiguous.
            self.suffixes()
                .iter()
                .find(|(known, _)| *known == suffix)
                .map(|(_, factor)| *factor)
                .ok_or_else(|| AmountError::UnknownSuffix { suffix: suffix.into(), unit: self })?
        };
        number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor))
            .filter(|amount| *amount <= LARGEST)
            .map(Amount::AtMost)
            .ok_or_else(|| AmountError::TooLarge { text: text.into() })
    }

    /// Prints an amount with the largest unit that divides it. [`Unit::parse`] reads it back.
    #[must_use]
    pub fn display(self, amount: Amount) -> String {
        let Amount::AtMost(amount) = amount else {
            return "unlimited".into();
        };
        match self.suffixes().iter().find(|(_, factor)| amount > 0 && *factor > 1 && amount % factor == 0) {
            Some((suffix, factor)) => format!("{}{suffix}", amount / factor),
            None => amount.to_string(),
        }
    }
}

impl Amount {
    /// Converts a TOML integer.
    ///
    /// # Errors
    /// When it is negative.
    pub fn from_integer(number: i64) -> Result<Self, AmountError> {
        u64::try_from(number)
            .map(Self::AtMost)
            .map_err(|_| AmountError::Negative { text: number.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read() {
        let size = |text| Unit::Bytes.parse(text);
        assert_eq!(size("512M"), Ok(Amount::AtMost(512 << 20)));
        assert_eq!(size("2 GiB"), Ok(Amount::AtMost(2 << 30)));
        assert_eq!(size("4096"), Ok(Amount::AtMost(4096)));
        assert_eq!(size("0"), Ok(Amount::AtMost(0)));
        assert_eq!(size("unlimited"), Ok(Amount::Unlimited));
        assert_eq!(Unit::Seconds.parse("5m"), Ok(Amount::AtMost(300)));
        assert!(matches!(size("5MB"), Err(AmountError::UnknownSuffix { .. })));
        assert!(matches!(size("99999999T"), Err(AmountError::TooLarge { .. })));
        assert!(matches!(size("-1"), Err(AmountError::NoNumber { .. })));
        assert!(matches!(size("1.5G"), Err(AmountError::UnknownSuffix { .. })));
        assert!(Unit::Count.parse("10K").is_err());
    }

    #[test]
    fn amounts_are_written_as_they_are_read() {
        for unit in [Unit::Bytes, Unit::Count, Unit::Seconds] {
            for amount in [0, 1, 59, 60, 3600, 4095, 4096, 1 << 20, 3 << 40, LARGEST] {
                let amount = Amount::AtMost(amount);
                assert_eq!(unit.parse(&unit.display(amount)), Ok(amount));
            }
            let text = unit.display(Amount::Unlimited);
            assert_eq!(unit.parse(&text), Ok(Amount::Unlimited));
        }
    }
}
