// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options that make the file tree, and those about the next of them.

use std::ffi::CStr;

use super::{Following, Parser, Stop};
use crate::number;
use crate::request::{Access, Changes, Origin, Setup};

impl Parser<'_> {
    /// Takes an option that is a step, or about the next step. `false`: it is another.
    pub(super) fn step(&mut self, following: &mut Following<'_>) -> Result<bool, Stop> {
        let step = match following.option.to_bytes() {
            b"--perms" => {
                self.next_mode(following)?;
                return Ok(true);
            }
            b"--size" => {
                self.next_size(following)?;
                return Ok(true);
            }
            b"--overlay-src" => {
                // Without a value this is the last option, and fails because no overlay follows.
                let layer = following.take().map(|[layer]| layer.clone());
                self.layers.push(layer.unwrap_or_default());
                return Ok(true);
            }
            b"--bind" => self.bind(following, Access::Write, false)?,
            b"--bind-try" => self.bind(following, Access::Write, true)?,
            b"--ro-bind" => self.bind(following, Access::Read, false)?,
            b"--ro-bind-try" => self.bind(following, Access::Read, true)?,
            b"--dev-bind" => self.bind(following, Access::Devices, false)?,
            b"--dev-bind-try" => self.bind(following, Access::Devices, true)?,
            b"--bind-fd" => self.bind_descriptor(following, Access::Write)?,
            b"--ro-bind-fd" => self.bind_descriptor(following, Access::Read)?,
            b"--overlay" => self.overlay(following)?,
            b"--tmp-overlay" => self.simple_overlay(following, Changes::Temporary, "one", 1)?,
            b"--ro-overlay" => self.simple_overlay(following, Changes::None, "two", 2)?,
            b"--proc" => Setup::Proc { dest: self.one(following)?.into() },
            b"--dev" => Setup::Devices { dest: self.one(following)?.into() },
            b"--mqueue" => Setup::MessageQueues { dest: self.one(following)?.into() },
            b"--tmpfs" => {
                let dest = self.one(following)?.into();
                Setup::Tmpfs { dest, mode: self.mode.take().unwrap_or(0o755), size: self.size.take() }
            }
            b"--dir" => {
                let dest = self.one(following)?.into();
                Setup::Directory { dest, mode: self.mode.take().unwrap_or(0o755) }
            }
            b"--file" => {
                let (content, dest) = self.content(following)?;
                Setup::File { content, dest: dest.into(), mode: self.mode.take().unwrap_or(0o666) }
            }
            b"--bind-data" => self.bind_data(following, false)?,
            b"--ro-bind-data" => self.bind_data(following, true)?,
            b"--symlink" => {
                let [target, dest] = self.two(following)?;
                Setup::Symlink { target: target.into(), dest: dest.into() }
            }
            b"--remount-ro" => Setup::ReadOnly { dest: self.only_one(following)?.into() },
            b"--hostname" => self.hostname(following)?,
            b"--chmod" => {
                let [octal, dest] = self.two(following)?;
                Setup::Permissions { dest: dest.into(), mode: self.octal("--chmod", octal)? }
            }
            _ => return Ok(false),
        };
        self.request.setup.push(step);
        Ok(true)
    }

    fn next_mode(&mut self, following: &mut Following<'_>) -> Result<(), Stop> {
        let octal = self.one(following)?;
        if self.mode.is_some() {
            return Err(self.failed("--perms given twice for the same action"));
        }
        self.mode = Some(self.octal("--perms", octal)?);
        Ok(())
    }

    fn next_size(&mut self, following: &mut Following<'_>) -> Result<(), Stop> {
        let bytes = self.one(following)?;
        if self.size.is_some() {
            return Err(self.failed("--size given twice for the same action"));
        }
        let Some(size) = number::size(bytes.to_bytes()) else {
            return Err(self.failed("--size takes a non-zero number of bytes"));
        };
        // Half of the address space.
        let most = u64::try_from(isize::MAX).unwrap_or(u64::MAX);
        if size > most {
            return Err(self.failed(format!("--size (for tmpfs) is limited to {most}")));
        }
        self.size = Some(size);
        Ok(())
    }

    fn octal(&self, option: &str, text: &CStr) -> Result<u32, Stop> {
        number::mode(text.to_bytes())
            .ok_or_else(|| self.failed(format!("{option} takes an octal argument <= 07777")))
    }

    fn bind(&self, following: &mut Following<'_>, access: Access, optional: bool) -> Result<Setup, Stop> {
        let [source, dest] = self.two(following)?;
        Ok(Setup::Bind { source: Origin::Path(source.into()), dest: dest.into(), access, optional })
    }

    fn bind_descriptor(&self, following: &mut Following<'_>, access: Access) -> Result<Setup, Stop> {
        let Some([descriptor, dest]) = following.take() else {
            // `--ro-bind-fd` doesn't give its own name either.
            return Err(self.failed("--bind-fd takes two arguments"));
        };
        let source = Origin::Descriptor(self.descriptor(descriptor)?);
        Ok(Setup::Bind { source, dest: dest.clone(), access, optional: false })
    }

    fn overlay(&mut self, following: &mut Following<'_>) -> Result<Setup, Stop> {
        let Some([upper, work, dest]) = following.take() else {
            return Err(self.failed("--overlay takes three arguments"));
        };
        let changes = Changes::Kept { upper: upper.clone(), work: work.clone() };
        self.over(changes, dest, "--overlay requires at least one --overlay-src", 1)
    }

    fn simple_overlay(
        &mut self,
        following: &mut Following<'_>,
        changes: Changes,
        least: &str,
        count: usize,
    ) -> Result<Setup, Stop> {
        let dest = self.one(following)?;
        let option = following.option.to_string_lossy();
        self.over(changes, dest, &format!("{option} requires at least {least} --overlay-src"), count)
    }

    /// An overlay of the layers so far, if they are enough.
    fn over(&mut self, changes: Changes, dest: &CStr, too_few: &str, count: usize) -> Result<Setup, Stop> {
        if self.layers.len() < count {
            return Err(self.failed(too_few));
        }
        // The arguments have the lowest first.
        let layers = std::mem::take(&mut self.layers).into_iter().rev().collect();
        Ok(Setup::Overlay { changes, layers, dest: dest.into() })
    }

    /// A descriptor and a destination.
    fn content<'a>(&self, following: &mut Following<'a>) -> Result<(i32, &'a CStr), Stop> {
        let [descriptor, dest] = self.two(following)?;
        Ok((self.descriptor(descriptor)?, dest))
    }

    fn bind_data(&mut self, following: &mut Following<'_>, read_only: bool) -> Result<Setup, Stop> {
        let (content, dest) = self.content(following)?;
        let mode = self.mode.take().unwrap_or(0o600);
        Ok(Setup::Data { content, dest: dest.into(), mode, read_only })
    }

    /// Each host name is set, though there is a warning.
    fn hostname(&mut self, following: &mut Following<'_>) -> Result<Setup, Stop> {
        let name = self.one(following)?;
        if self.request.setup.iter().any(|step| matches!(step, Setup::Hostname { .. })) {
            self.replaces(following.option);
        }
        Ok(Setup::Hostname { name: name.into() })
    }
}
