// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Netlink messages: made before the launch, sent in it (netlink(7), rtnetlink(7), `linux/netfilter/nf_tables.h`).

use crate::raw::{self, Fd, Result};
use rustix::io::Errno;

/// `struct nlmsghdr`.
const HEADER: usize = 16;
const ALIGNMENT: usize = 4;
/// `NLMSG_ERROR`.
const ERROR: u16 = 2;
/// `NLM_F_REQUEST`, `NLM_F_ACK`.
const REQUEST: u16 = 1;
const ACK: u16 = 4;
/// `NLA_F_NESTED`.
const NESTED: u16 = 1 << 15;

/// Messages that are sent at once. The kernel acknowledges one; of the others it reports only errors.
#[derive(Debug)]
pub(crate) struct Messages {
    bytes: Vec<u8>,
    /// Where the last message begins, and the one that is acknowledged.
    last: usize,
    awaited: usize,
}

impl Messages {
    pub(crate) const fn new() -> Self {
        Self { bytes: Vec::new(), last: 0, awaited: 0 }
    }

    /// Appends a message. `fixed` is what comes before its attributes.
    pub(crate) fn message(
        &mut self,
        kind: u16,
        flags: u16,
        fixed: &[u8],
        attributes: impl FnOnce(&mut Self),
    ) -> &mut Self {
        let start = self.bytes.len();
        self.last = start;
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&(REQUEST | flags).to_ne_bytes());
        // The sequence number, which says what an acknowledgement is for; then the sender, which the kernel knows.
        let number = u32::try_from(start).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&number.to_ne_bytes());
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self.bytes.extend_from_slice(fixed);
        self.pad();
        attributes(self);
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// Asks for an acknowledgement of the last message so far. Not for the end of a batch: older kernels don't
    /// acknowledge it.
    pub(crate) fn acknowledge(&mut self) -> &mut Self {
        self.awaited = self.last;
        if let Some(flags) = self.bytes.get_mut(self.last + 6..self.last + 8) {
            let now = u16::from_ne_bytes([flags[0], flags[1]]) | ACK;
            flags.copy_from_slice(&now.to_ne_bytes());
        }
        self
    }

    /// Appends an attribute.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    /// Appends a number as netfilter wants it: the most significant byte first.
    pub(crate) fn number(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attribute(kind, &value.to_be_bytes())
    }

    /// Appends a text.
    pub(crate) fn text(&mut self, kind: u16, value: &core::ffi::CStr) -> &mut Self {
        self.attribute(kind, value.to_bytes_with_nul())
    }

    /// Appends an attribute that consists of attributes.
    pub(crate) fn nested(&mut self, kind: u16, inner: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.bytes.len();
        self.attribute(kind | NESTED, &[]);
        inner(self);
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    fn pad(&mut self) {
        while !self.bytes.len().is_multiple_of(ALIGNMENT) {
            self.bytes.push(0);
        }
    }

    /// Sends them to `protocol` (`NETLINK_*`) and waits until the kernel has executed them. Uses raw calls only. Does
    /// nothing if there are none.
    pub(crate) fn send(&self, protocol: i32) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let socket = raw::netlink_socket(protocol)?;
        let done = self.send_by(socket);
        raw::close(socket)?;
        done
    }

    fn send_by(&self, socket: Fd) -> Result<()> {
        let mut sent = self.bytes.as_slice();
        while !sent.is_empty() {
            // One datagram: the kernel takes all of it or nothing.
            let length = raw::write(socket, sent)?;
            sent = sent.get(length..).unwrap_or_default();
        }
        // An error carries the message that it is about.
        let mut answer = [0u8; 4096];
        loop {
            let length = raw::read(socket, &mut answer)?;
            let mut rest = answer.get(..length).unwrap_or_default();
            while let Some((message, behind)) = split(rest) {
                rest = behind;
                let word = |at: usize| message.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
                if message.get(4..6) != Some(&ERROR.to_ne_bytes()[..]) {
                    continue;
                }
                let errno = word(HEADER).map_or(libc::EPROTO, |bytes| -i32::from_ne_bytes(bytes));
                if errno != 0 {
                    return Err(Errno::from_raw_os_error(errno));
                }
                let of = word(8).map_or(0, u32::from_ne_bytes);
                if usize::try_from(of).ok() == Some(self.awaited) {
                    return Ok(());
                }
            }
        }
    }
}

/// The first of several messages, and the others.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    let length = usize::try_from(length).ok().filter(|length| *length >= HEADER)?;
    let message = bytes.get(..length)?;
    let next = length.next_multiple_of(ALIGNMENT).min(bytes.len());
    Some((message, bytes.get(next..)?))
}
