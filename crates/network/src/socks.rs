// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SOCKS, version 5 (RFC 1928): connections only, and without passwords.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use palisade_event::Outcome;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::decide::Fault;
use crate::host::Host;

const VERSION: u8 = 5;
const CONNECT: u8 = 1;

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Success = 0,
    Failure = 1,
    Refused = 2,
    Command = 7,
    Address = 8,
}

impl From<&Fault> for Code {
    fn from(fault: &Fault) -> Self {
        if fault.outcome == Outcome::Refused { Self::Refused } else { Self::Failure }
    }
}

/// Reads a SOCKS client's request. `None`: it was refused, and the client was told.
pub(crate) async fn request<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
) -> io::Result<Option<(Host, u16)>> {
    let mut greeting = [0; 2];
    stream.read_exact(&mut greeting).await?;
    let [version, count] = greeting;
    let mut methods = vec![0; count.into()];
    stream.read_exact(&mut methods).await?;
    if version != VERSION || !methods.contains(&0) {
        stream.write_all(&[VERSION, 0xff]).await?;
        return Ok(None);
    }
    stream.write_all(&[VERSION, 0]).await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let [version, command, _reserved, kind] = head;
    let host = match kind {
        1 => {
            let mut address = [0; 4];
            stream.read_exact(&mut address).await?;
            Some(Host::Address(Ipv4Addr::from(address).into()))
        }
        4 => {
            let mut address = [0; 16];
            stream.read_exact(&mut address).await?;
            Some(Host::Address(std::net::IpAddr::from(Ipv6Addr::from(address)).to_canonical()))
        }
        3 => {
            let mut name = vec![0; stream.read_u8().await?.into()];
            stream.read_exact(&mut name).await?;
            std::str::from_utf8(&name).ok().and_then(Host::bare)
        }
        _ => None,
    };
    let Some(host) = host else {
        answer(stream, Code::Address).await?;
        return Ok(None);
    };
    let port = stream.read_u16().await?;
    if version != VERSION || command != CONNECT || port == 0 {
        answer(stream, Code::Command).await?;
        return Ok(None);
    }
    Ok(Some((host, port)))
}

/// Answers a request. Programs inside must not learn the address that the connection goes out from.
pub(crate) async fn answer<S: AsyncWrite + Unpin>(stream: &mut S, code: Code) -> io::Result<()> {
    stream.write_all(&[VERSION, code as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client with these bytes requests, and the answer.
    fn said(bytes: &[u8]) -> (Option<(String, u16)>, Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut own, mut other) = tokio::io::duplex(1 << 16);
            own.write_all(bytes).await.unwrap();
            own.shutdown().await.unwrap();
            let wanted = request(&mut other).await;
            drop(other);
            let mut heard = Vec::new();
            own.read_to_end(&mut heard).await.unwrap();
            (wanted.ok().flatten().map(|(host, port)| (host.to_string(), port)), heard)
        })
    }

    #[test]
    fn connections_to_names_and_addresses() {
        let wants = |rest: &[u8]| said(&[&[5, 2, 0, 2, 5, 1, 0], rest].concat()).0;
        let is = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(wants(b"\x03\x0bExample.com\x01\xbb"), is("example.com", 443));
        assert_eq!(wants(b"\x03\x0810.0.0.1\x01\xbb"), is("10.0.0.1", 443));
        assert_eq!(wants(&[1, 192, 0, 2, 1, 0, 80]), is("192.0.2.1", 80));
        let mapped = [&[4][..], &[0; 10], &[0xff, 0xff, 127, 0, 0, 1, 0, 80]].concat();
        assert_eq!(wants(&mapped), is("127.0.0.1", 80));
    }

    #[test]
    fn others_are_told_no() {
        let hears = |bytes: &[u8], last: &[u8]| {
            let (wanted, heard) = said(bytes);
            assert_eq!(wanted, None, "{bytes:?}");
            assert!(heard.ends_with(last), "{bytes:?}: {heard:?}");
        };
        hears(&[5, 1, 2], &[5, 0xff]);
        hears(&[4, 1, 0], &[5, 0xff]);
        hears(&[5, 0], &[5, 0xff]);
        let rest = [0; 6];
        hears(&[5, 1, 0, 5, 2, 0, 1, 1, 2, 3, 4, 0, 80], &[&[5, 7, 0, 1][..], &rest].concat());
        hears(&[5, 1, 0, 5, 3, 0, 1, 1, 2, 3, 4, 0, 80], &[&[5, 7, 0, 1][..], &rest].concat());
        hears(&[5, 1, 0, 5, 1, 0, 1, 1, 2, 3, 4, 0, 0], &[&[5, 7, 0, 1][..], &rest].concat());
        hears(&[5, 1, 0, 5, 1, 0, 9], &[&[5, 8, 0, 1][..], &rest].concat());
        hears(b"\x05\x01\x00\x05\x01\x00\x03\x03a b\x00\x50", &[&[5, 8, 0, 1][..], &rest].concat());
        hears(b"\x05\x01\x00\x05\x01\x00\x03\x00\x00\x50", &[&[5, 8, 0, 1][..], &rest].concat());
        hears(b"\x05\x01\x00\x05\x01\x00\x03\xff", &[5, 0]);
        hears(b"", &[]);
    }

    #[test]
    fn any_bytes() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let _any = said(&[&[5, 1, 0], &bytes[..]].concat());
        });
    }
}
