// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection from which some bytes were read already, and whose bytes are counted.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Makes the connection end with a reset.
pub(crate) fn abort(stream: &TcpStream) {
    let _anyway = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

/// The byte counts of a connection. Shared, because hyper takes the connection; atomic, because hyper requires `Send`.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) read: AtomicU64,
    pub(crate) written: AtomicU64,
}

/// A connection from which some bytes were read already.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) inner: TcpStream,
    early: Vec<u8>,
    taken: usize,
    meter: Option<Arc<Meter>>,
}

impl Stream {
    /// A connection from which `early` was read.
    pub(crate) const fn new(inner: TcpStream, early: Vec<u8>) -> Self {
        Self { inner, early, taken: 0, meter: None }
    }

    /// The same, with counting.
    pub(crate) fn metered(inner: TcpStream, early: Vec<u8>, meter: Arc<Meter>) -> Self {
        Self { inner, early, taken: 0, meter: Some(meter) }
    }

    /// The connection, and the bytes that were read and not used.
    pub(crate) fn into_parts(mut self) -> (TcpStream, Vec<u8>) {
        self.early.drain(..self.taken);
        (self.inner, self.early)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if self.taken < self.early.len() {
            let rest = self.early.get(self.taken..).unwrap_or_default();
            let count = rest.len().min(buffer.remaining());
            buffer.put_slice(rest.get(..count).unwrap_or_default());
            self.taken += count;
            if self.taken == self.early.len() {
                self.early = Vec::new();
                self.taken = 0;
            }
        } else {
            std::task::ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        }
        if let Some(meter) = &self.meter {
            meter.read.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.count(&result);
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(context, bytes);
        self.count(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl Stream {
    fn count(&self, result: &Poll<io::Result<usize>>) {
        if let (Some(meter), Poll::Ready(Ok(count))) = (&self.meter, result) {
            meter.written.fetch_add(*count as u64, Ordering::Relaxed);
        }
    }
}
