//! Replaces the C library's host name resolver in this test program. The resolver knows one name,
//! and each test sets its addresses.

use std::ffi::{CStr, c_char, c_int};
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

/// The only name that the resolver knows.
pub(crate) const NAME: &str = "server.test";

static ADDRESSES: Mutex<Vec<Ipv4Addr>> = Mutex::new(Vec::new());

/// Sets the addresses of the name.
pub(crate) fn set(addresses: &[Ipv4Addr]) {
    *ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner) = addresses.to_vec();
}

/// A result, with the address that it points to.
#[repr(C)]
struct Entry {
    info: libc::addrinfo,
    address: libc::sockaddr_in,
}

fn entry(ip: Ipv4Addr, next: *mut libc::addrinfo) -> *mut libc::addrinfo {
    // SAFETY: both are plain data, for which zero is a valid value.
    let mut entry: Box<Entry> = unsafe { Box::new(std::mem::zeroed()) };
    entry.address.sin_family = libc::AF_INET.try_into().expect("a small number");
    entry.address.sin_addr.s_addr = u32::from(ip).to_be();
    entry.info.ai_family = libc::AF_INET;
    entry.info.ai_socktype = libc::SOCK_STREAM;
    entry.info.ai_addrlen = size_of::<libc::sockaddr_in>().try_into().expect("a small number");
    entry.info.ai_next = next;
    let entry = Box::leak(entry);
    entry.info.ai_addr = (&raw mut entry.address).cast();
    &raw mut entry.info
}

/// # Safety
/// The requirements of the C library's function apply: `node` is a string or null, and `found` is
/// writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    _service: *const c_char,
    _hints: *const libc::addrinfo,
    found: *mut *mut libc::addrinfo,
) -> c_int {
    // SAFETY: the caller guarantees it.
    if node.is_null() || unsafe { CStr::from_ptr(node) }.to_bytes() != NAME.as_bytes() {
        return libc::EAI_NONAME;
    }
    let addresses = ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner);
    let first = addresses.iter().rev().fold(std::ptr::null_mut(), |next, ip| entry(*ip, next));
    // SAFETY: the caller guarantees it.
    unsafe { *found = first };
    if first.is_null() { libc::EAI_NONAME } else { 0 }
}

/// Does not free the results, because they are small.
#[unsafe(no_mangle)]
extern "C" fn freeaddrinfo(_found: *mut libc::addrinfo) {}
