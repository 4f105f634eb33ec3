//! Wraps the stream of one connection. It records when the client takes bytes, and
//! sends the bytes of a base by sendfile(2), without a copy into the socket's buffer.
//!
//! hyper passes the chunks of a body on as references. A chunk that lies in the
//! memory of the base is the same as a part of the memory file behind it, so
//! sendfile can send it. The file is sealed: its bytes do not change while the
//! socket still refers to them.

use std::io::{self, IoSlice};
use std::os::fd::AsRawFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use nix::sys::sendfile::sendfile;
use nix::sys::socket::{MsgFlags, send};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::base::Memory;
use crate::connections::Connection;

/// The minimum size in bytes of a chunk that is sent by sendfile. For a shorter chunk,
/// the additional system call costs as much as copying some pages.
const WORTH_SENDFILE: usize = 16 << 10;

/// MSG_MORE of the kernel's include/linux/socket.h, for which nix has no name.
const MORE: MsgFlags = MsgFlags::from_bits_retain(0x8000);

/// A stream that may be able to send a part of a file.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// The socket, if nothing has to be encrypted.
    fn plain_socket(&self) -> Option<&TcpStream>;
}

impl Transport for TcpStream {
    fn plain_socket(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl Transport for TlsStream<TcpStream> {
    fn plain_socket(&self) -> Option<&TcpStream> {
        None
    }
}

pub(crate) struct Watched<S> {
    stream: S,
    connection: Arc<Connection>,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S, connection: Arc<Connection>) -> Self {
        Self { stream, connection }
    }

    fn noted(&self, result: io::Result<usize>) -> Poll<io::Result<usize>> {
        if matches!(result, Ok(1..)) {
            self.connection.made_progress();
        }
        Poll::Ready(result)
    }
}

impl<S: Transport> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Transport> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        self.noted(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(socket) = self.stream.plain_socket()
            && let Some(memory) = self.connection.sending()
            && let Some(plan) = plan(slices, &memory.bytes)
        {
            let result = ready!(carry_out(&plan, socket, &memory, context));
            return self.noted(result);
        }
        let result = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices));
        self.noted(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Plan<'a> {
    /// Send these bytes and announce more: the head of an answer shares its packet
    /// with the beginning of the file.
    More(&'a [u8]),
    /// Send a part of the file.
    File { offset: usize, len: usize },
}

/// What to do with the first slice. `None` if sendfile does not help.
fn plan<'a>(slices: &'a [IoSlice<'_>], file: &[u8]) -> Option<Plan<'a>> {
    let mut slices = slices.iter().filter(|slice| !slice.is_empty());
    let first = slices.next()?;
    if let Some(offset) = offset_in(first, file) {
        let len = first.len();
        return (len >= WORTH_SENDFILE).then_some(Plan::File { offset, len });
    }
    let second = slices.next()?;
    let file_follows = second.len() >= WORTH_SENDFILE && offset_in(second, file).is_some();
    file_follows.then_some(Plan::More(first))
}

/// Where a slice is in the file, if it is a part of it.
fn offset_in(slice: &[u8], file: &[u8]) -> Option<usize> {
    let offset = slice.as_ptr().addr().checked_sub(file.as_ptr().addr())?;
    (offset.checked_add(slice.len())? <= file.len()).then_some(offset)
}

fn carry_out(
    plan: &Plan<'_>,
    socket: &TcpStream,
    memory: &Memory,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(socket.poll_write_ready(context))?;
        let sent = socket.try_io(Interest::WRITABLE, || match plan {
            Plan::More(bytes) => {
                let flags = MORE | MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
                Ok(send(socket.as_raw_fd(), bytes, flags)?)
            }
            Plan::File { offset, len } => {
                let mut offset = i64::try_from(*offset).map_err(io::Error::other)?;
                Ok(sendfile(socket, &*memory.file, Some(&mut offset), *len)?)
            }
        });
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            sent => return Poll::Ready(sent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_file_are_sent_from_the_file() {
        let file = vec![7; 100_000];
        let head = b"HTTP/1.1 200 OK".as_slice();
        let plan_of = |slices: &[&[u8]]| {
            let slices: Vec<IoSlice<'_>> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
            plan(&slices, &file).map(|plan| match plan {
                Plan::More(bytes) => (true, 0, bytes.len()),
                Plan::File { offset, len } => (false, offset, len),
            })
        };
        let other = vec![7; 100_000];
        for (slices, expected) in [
            (&[&file[..]][..], Some((false, 0, 100_000))),
            (&[&file[10..50_010], head], Some((false, 10, 50_000))),
            (&[&[][..], &file[99..]], Some((false, 99, 99_901))),
            (&[head, &file[5..]], Some((true, 0, head.len()))),
            (&[head, &file[..100]], None),
            (&[&file[..100], &file[..]], None),
            (&[head], None),
            (&[&other[..]], None),
            (&[head, &other], None),
            (&[], None),
        ] {
            assert_eq!(plan_of(slices), expected);
        }
    }
}
