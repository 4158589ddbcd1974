// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classes and the class matrix, as plain data. Tests can compute here what the kernel side answers for a matrix.

/// How many classes there are of each kind: a row of the matrix is one 64-bit word.
pub const CLASSES: usize = 64;

/// The class of what is executed: a file's class, or one of four that the kernel side assigns itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectClass(u8);

impl ObjectClass {
    /// No class: the file was never given one, a change removed it, or it is of an older generation.
    pub const UNCLASSIFIED: Self = Self(0);
    /// Executable memory without a file, or a file's pages that were changed in memory.
    pub const ANONYMOUS: Self = Self(1);
    /// memfd, shared anonymous memory, SysV shared memory.
    pub const MEMORY_FILE: Self = Self(2);
    /// No class, on a file system that is exempt ([`crate::GuardPrograms::spare`]).
    pub const SPARED: Self = Self(62);
    /// The file of the proof ([`crate::support::Proof`]): no matrix allows executing it.
    pub(crate) const PROOF: Self = Self(63);

    /// A class of the caller's own.
    ///
    /// Returns `None` unless `number` is in 3..=61.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number >= 3 && number <= 61 { Some(Self(number)) } else { None }
    }

    /// Its number, below [`CLASSES`].
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_kernel(number: u32) -> Self {
        Self((number % 64) as u8)
    }
}

/// The class of the task that executes, inherited at fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubjectClass(u8);

impl SubjectClass {
    /// Every task that has no other class.
    pub const DEFAULT: Self = Self(0);
    /// The daemon: nothing is refused. Its threads inherit this class; its children and the programs that it executes
    /// don't.
    pub const EXEMPT: Self = Self(63);

    /// A class of the caller's own.
    ///
    /// Returns `None` unless `number` is in 1..=62.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number >= 1 && number <= 62 { Some(Self(number)) } else { None }
    }

    /// Its number, below [`CLASSES`].
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_kernel(number: u32) -> Self {
        Self((number % 64) as u8)
    }
}

/// The kinds of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Access {
    /// `execve`: the program, a script, and the script's interpreter.
    Execute = 0,
    /// Executable memory: `mmap` with `PROT_EXEC`, or `mprotect` that adds it.
    Map = 1,
}

impl Access {
    /// Every access, in the order of the matrix.
    pub const ALL: [Self; 2] = [Self::Execute, Self::Map];
}

/// What happens when the matrix refuses an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Nothing is judged. Changes still remove classes.
    Off = 0,
    /// The access is reported and happens.
    Permissive = 1,
    /// The access is reported and fails with EPERM.
    Enforce = 2,
}

/// Which access a subject has to an object. Everything that isn't allowed is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    allowed: [[u64; CLASSES]; Access::ALL.len()],
    becomes: [Option<SubjectClass>; CLASSES],
}

impl Default for Matrix {
    fn default() -> Self {
        Self { allowed: [[0; CLASSES]; Access::ALL.len()], becomes: [None; CLASSES] }
    }
}

impl Matrix {
    /// Lets `subject` have `access` to `object`.
    pub fn allow(&mut self, access: Access, subject: SubjectClass, object: ObjectClass) -> &mut Self {
        if object != ObjectClass::PROOF {
            self.allowed[access as usize][usize::from(subject.0)] |= 1 << object.0;
        }
        self
    }

    /// Removes what [`Matrix::allow`] allowed.
    pub fn refuse(&mut self, access: Access, subject: SubjectClass, object: ObjectClass) -> &mut Self {
        self.allowed[access as usize][usize::from(subject.0)] &= !(1 << object.0);
        self
    }

    /// A task that executes a file of class `object` gets the class `subject`; otherwise a task keeps its class.
    ///
    /// A task can't get [`SubjectClass::EXEMPT`] by executing a file: that is ignored.
    pub fn becomes(&mut self, object: ObjectClass, subject: SubjectClass) -> &mut Self {
        if subject != SubjectClass::EXEMPT {
            self.becomes[usize::from(object.0)] = Some(subject);
        }
        self
    }

    /// Whether the matrix allows the access.
    #[must_use]
    pub fn allows(&self, access: Access, subject: SubjectClass, object: ObjectClass) -> bool {
        subject == SubjectClass::EXEMPT
            || self.allowed[access as usize][usize::from(subject.0)] >> object.0 & 1 == 1
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = u64> {
        self.allowed.iter().flatten().copied()
    }

    pub(crate) fn transitions(&self) -> impl Iterator<Item = Option<SubjectClass>> {
        self.becomes.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn access() -> impl Strategy<Value = Access> {
        prop_oneof![Just(Access::Execute), Just(Access::Map)]
    }

    proptest! {
        #[test]
        fn refusing_takes_back_what_was_allowed_and_nothing_else(
            given in proptest::collection::vec((access(), 0u8..63, 0u8..63), 0..40),
            taken in (access(), 0u8..63, 0u8..63),
        ) {
            let mut matrix = Matrix::default();
            for (access, subject, object) in &given {
                matrix.allow(*access, SubjectClass(*subject), ObjectClass(*object));
            }
            matrix.refuse(taken.0, SubjectClass(taken.1), ObjectClass(taken.2));
            for access in Access::ALL {
                for subject in 0..63 {
                    for object in 0..64 {
                        let cell = (access, subject, object);
                        let expected = cell != taken && given.contains(&cell);
                        prop_assert_eq!(matrix.allows(access, SubjectClass(subject), ObjectClass(object)), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn the_file_of_the_proof_is_allowed_to_nobody_and_exemption_is_not_had_by_executing() {
        let mut matrix = Matrix::default();
        matrix.allow(Access::Execute, SubjectClass::DEFAULT, ObjectClass::PROOF);
        matrix.becomes(ObjectClass::UNCLASSIFIED, SubjectClass::EXEMPT);
        assert!(!matrix.allows(Access::Execute, SubjectClass::DEFAULT, ObjectClass::PROOF));
        assert!(matrix.transitions().all(|subject| subject.is_none()));
        assert_eq!(ObjectClass::new(63), None);
        assert_eq!(ObjectClass::new(62), None);
        assert_eq!(ObjectClass::new(2), None);
        assert_eq!(SubjectClass::new(63), None);
    }
}
