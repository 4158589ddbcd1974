// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets by number: making them, naming them, and sending and receiving messages with control data.

use super::{Fd, Result, arg, close, number, syscall};
use core::ffi::CStr;
use rustix::io::Errno;

pub(crate) fn socket(family: i32, kind: i32) -> Result<Fd> {
    call!(libc::SYS_socket, family, kind | libc::SOCK_CLOEXEC, 0usize).map(number)
}

/// A socket for messages to the kernel; `protocol` is one of `NETLINK_*`.
pub(crate) fn netlink_socket(protocol: i32) -> Result<Fd> {
    call!(libc::SYS_socket, libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol).map(number)
}

/// Sets an option whose value is an int.
pub(crate) fn set_option(socket: Fd, level: i32, option: i32, value: i32) -> Result<()> {
    call!(libc::SYS_setsockopt, arg(socket), level, option, &raw const value, size_of_val(&value)).map(drop)
}

/// Gets an option whose value is an int.
pub(crate) fn option(socket: Fd, level: i32, option: i32) -> Result<i32> {
    let mut value = -1_i32;
    let mut size = size_of_val(&value) as u32;
    call!(libc::SYS_getsockopt, arg(socket), level, option, &raw mut value, &raw mut size)?;
    Ok(value)
}

/// Gives a socket of the internet its address.
pub(crate) fn bind_address(socket: Fd, address: &std::net::SocketAddr) -> Result<()> {
    with_address(address, |address, length| call!(libc::SYS_bind, arg(socket), address, length).map(drop))
}

/// Hands over an address as the kernel takes it, with its length. Allocates nothing.
pub(crate) fn with_address<T>(address: &std::net::SocketAddr, use_it: impl FnOnce(*const u8, u32) -> T) -> T {
    let port = address.port().to_be();
    match address {
        std::net::SocketAddr::V4(address) => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: port,
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            };
            use_it((&raw const address).cast(), size_of_val(&address) as u32)
        }
        std::net::SocketAddr::V6(address) => {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: port,
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            use_it((&raw const address).cast(), size_of_val(&address) as u32)
        }
    }
}

/// The kernel's `struct user_msghdr`. C libraries define some lengths with other types.
#[repr(C)]
pub(crate) struct Message {
    pub(crate) name: *const u8,
    pub(crate) name_length: u32,
    pub(crate) vector: *const Vector,
    pub(crate) vectors: usize,
    pub(crate) control: *const u8,
    pub(crate) control_length: usize,
    pub(crate) flags: i32,
}

/// `struct iovec`.
#[repr(C)]
pub(crate) struct Vector {
    pub(crate) base: *const u8,
    pub(crate) length: usize,
}

/// The kernel's `struct cmsghdr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ControlHeader {
    pub(crate) length: usize,
    pub(crate) level: i32,
    pub(crate) kind: i32,
}

/// Receives what `message` has room for.
///
/// # Safety
/// Its pointers must be null or valid for writing as many bytes as the length beside them says.
pub(crate) unsafe fn receive_message(socket: Fd, message: &mut Message, flags: i32) -> Result<usize> {
    call!(libc::SYS_recvmsg, arg(socket), &raw mut *message, flags)
}

/// Sends what `message` points to.
///
/// # Safety
/// Its pointers must be null or valid for reading as many bytes as the length beside them says.
pub(crate) unsafe fn send_message(socket: Fd, message: &Message, flags: i32) -> Result<usize> {
    call!(libc::SYS_sendmsg, arg(socket), &raw const *message, flags)
}

/// Sends a byte and a descriptor.
pub(crate) fn send_descriptor(socket: Fd, byte: u8, descriptor: Fd) -> Result<()> {
    #[repr(C)]
    struct Control {
        header: ControlHeader,
        descriptor: Fd,
        padding: u32,
    }
    let length = size_of::<ControlHeader>() + size_of::<Fd>();
    let header = ControlHeader { length, level: libc::SOL_SOCKET, kind: libc::SCM_RIGHTS };
    let control = Control { header, descriptor, padding: 0 };
    let vector = Vector { base: &raw const byte, length: 1 };
    let message = Message {
        name: core::ptr::null(),
        name_length: 0,
        vector: &raw const vector,
        vectors: 1,
        control: (&raw const control).cast(),
        control_length: size_of::<Control>(),
        flags: 0,
    };
    // SAFETY: needed to send a descriptor. Sound: everything is on this stack.
    unsafe { send_message(socket, &message, libc::MSG_NOSIGNAL) }.map(drop)
}

/// Gives a socket its name in the file tree. Every process that can reach the name may connect.
pub(crate) fn bind(socket: Fd, path: &CStr) -> Result<()> {
    const LONGEST: usize = 108;
    #[repr(C)]
    struct Address {
        family: u16,
        path: [u8; LONGEST],
    }
    let bytes = path.to_bytes_with_nul();
    let mut address = Address { family: libc::AF_UNIX as u16, path: [0; LONGEST] };
    address.path.get_mut(..bytes.len()).ok_or(Errno::NAMETOOLONG)?.copy_from_slice(bytes);
    let length = size_of::<u16>() + bytes.len();
    call!(libc::SYS_bind, arg(socket), &raw const address, length).map(drop)
}

/// Lets other sockets connect, with as long a queue as the kernel allows.
pub(crate) fn listen(socket: Fd) -> Result<()> {
    call!(libc::SYS_listen, arg(socket), i32::MAX).map(drop)
}

/// `struct ifreq` as far as interface flags need it.
#[repr(C)]
struct InterfaceFlags {
    name: [u8; libc::IFNAMSIZ],
    flags: i16,
    padding: [u8; 22],
}

/// Brings the loopback interface of the caller's network namespace up.
pub(crate) fn loopback_up() -> Result<()> {
    const IFF_UP: i16 = 1;
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM)?;
    let mut request = InterfaceFlags { name: [0; libc::IFNAMSIZ], flags: IFF_UP, padding: [0; 22] };
    request.name[..2].copy_from_slice(b"lo");
    let done = call!(libc::SYS_ioctl, arg(socket), libc::SIOCSIFFLAGS, &raw const request);
    close(socket)?;
    done.map(drop)
}
