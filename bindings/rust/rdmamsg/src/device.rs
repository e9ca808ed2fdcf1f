// SPDX-License-Identifier: BSD-2-Clause
//! RDMA devices, their ports and abilities. Any thread.

use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::raw::{c_char, c_int};

use rdmamsg_sys as sys;

use crate::core::sized;
use crate::error::{check, counted, Error, Result};
use crate::options::{c_string, opt_ptr};

/// A device: rdmamsg_device_query(3).
#[derive(Clone, Copy, Debug)]
pub struct Device(sys::rdmamsg_device_attr);

impl Device {
    /// Its name.
    pub fn name(&self) -> String {
        text(&self.0.name)
    }

    /// Its kind: "soft-roce", "infiniband" and others.
    pub fn kind(&self) -> String {
        text(&self.0.kind)
    }
}

/// An entry of a GID table: rdmamsg_port_gids(3).
#[derive(Clone, Copy, Debug)]
pub struct Gid(sys::rdmamsg_gid_attr);

impl Gid {
    /// In the form of an IPv6 address.
    pub fn text(&self) -> String {
        text(&self.0.text)
    }

    /// The network device, "" if there is none.
    pub fn netdev(&self) -> String {
        text(&self.0.netdev)
    }
}

/// An ability of the library on a device: rdmamsg_device_caps(3).
#[derive(Clone, Copy)]
pub struct Capability(sys::rdmamsg_device_cap_attr);

impl Capability {
    /// Its name.
    pub fn name(&self) -> String {
        text(&self.0.name)
    }

    /// From where the answer comes.
    pub fn reason(&self) -> String {
        text(&self.0.reason)
    }

    /// True if the device, the kernel or the library does it.
    pub fn is_there(&self) -> bool {
        self.0.how != sys::RDMAMSG_CAP_ABSENT
    }
}

macro_rules! deref {
    ($($name:ident: $type:ident;)*) => {
        $(impl std::ops::Deref for $name {
            type Target = sys::$type;

            fn deref(&self) -> &sys::$type {
                &self.0
            }
        })*
    };
}

deref! {
    Device: rdmamsg_device_attr;
    Gid: rdmamsg_gid_attr;
    Capability: rdmamsg_device_cap_attr;
}

/// Calls until the list has room for all elements.
fn list_of<T: Copy>(
    first: T,
    call: impl Fn(*mut T, usize, c_int) -> c_int,
) -> Result<Vec<T>> {
    let mut list = vec![first; 16];
    loop {
        let max = list.len().min(c_int::MAX as usize) as c_int;
        let count = counted(call(list.as_mut_ptr(), size_of::<T>(), max))?;
        if count <= list.len() {
            list.truncate(count);
            return Ok(list);
        }
        list.resize(count, first);
    }
}

/// All devices, the soft HCA included.
pub fn devices() -> Result<Vec<Device>> {
    // SAFETY: the list has room for so many elements of that size.
    let list =
        list_of(sized!(rdmamsg_device_attr), |list, size, max| unsafe {
            sys::rdmamsg_devices(list, size, max)
        })?;
    Ok(list.into_iter().map(Device).collect())
}

/// One device; None: that of RDMAMSG_DEVICE, or the first.
pub fn device(name: Option<&str>) -> Result<Device> {
    let name = c_string(name)?;
    let mut attr = sized!(rdmamsg_device_attr);
    // SAFETY: the name is valid during the call, and the struct has its size.
    check(unsafe { sys::rdmamsg_device_query(opt_ptr(&name), &mut attr) })?;
    Ok(Device(attr))
}

/// The attributes of a port.
pub fn port(device: Option<&str>, port: u32) -> Result<sys::rdmamsg_port_attr> {
    let name = c_string(device)?;
    let mut attr = sized!(rdmamsg_port_attr);
    // SAFETY: the name is valid during the call, and the struct has its size.
    check(unsafe { sys::rdmamsg_port_query(opt_ptr(&name), port, &mut attr) })?;
    Ok(attr)
}

/// The entries of a port's GID table that are not empty.
pub fn gids(device: Option<&str>, port: u32) -> Result<Vec<Gid>> {
    let name = c_string(device)?;
    // SAFETY: the list has room for so many elements of that size.
    let list = list_of(sized!(rdmamsg_gid_attr), |list, size, max| unsafe {
        sys::rdmamsg_port_gids(opt_ptr(&name), port, list, size, max)
    })?;
    Ok(list.into_iter().map(Gid).collect())
}

/// The P_Key table of a port.
pub fn pkeys(device: Option<&str>, port: u32) -> Result<Vec<u16>> {
    let name = c_string(device)?;
    // SAFETY: the list has room for so many elements.
    list_of(0, |list, _, max| unsafe {
        sys::rdmamsg_port_pkeys(opt_ptr(&name), port, list, max)
    })
}

/// The abilities of the library on a device. The call tries each of them, which
/// takes some milliseconds.
pub fn capabilities(device: Option<&str>) -> Result<Vec<Capability>> {
    let name = c_string(device)?;
    // SAFETY: the list has room for so many elements of that size.
    let list =
        list_of(sized!(rdmamsg_device_cap_attr), |list, size, max| unsafe {
            sys::rdmamsg_device_caps(opt_ptr(&name), list, size, max)
        })?;
    Ok(list.into_iter().map(Capability).collect())
}

/// One ability: a value of `enum rdmamsg_cap_id`.
pub fn capability(device: Option<&str>, id: u32) -> Result<Capability> {
    let name = c_string(device)?;
    let mut cap = sized!(rdmamsg_device_cap_attr);
    // SAFETY: the name is valid during the call, and the struct has its size.
    check(unsafe {
        sys::rdmamsg_device_cap_query(opt_ptr(&name), id, &mut cap)
    })?;
    Ok(Capability(cap))
}

/// The text in an array of a struct of the C interface.
pub(crate) fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> =
        chars.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An address of IP; None: of another family.
pub(crate) fn socket_addr(s: &sys::sockaddr_storage) -> Option<SocketAddr> {
    let p = s as *const sys::sockaddr_storage;
    match c_int::from(s.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which struct it is.
            let a = unsafe { &*p.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(a.sin_addr.s_addr));
            Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(a.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says which struct it is.
            let a = unsafe { &*p.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(a.sin6_addr.s6_addr);
            Some(SocketAddr::new(IpAddr::V6(ip), u16::from_be(a.sin6_port)))
        }
        _ => None,
    }
}

/// An error for a value that no call takes.
#[cold]
pub(crate) fn invalid(text: &str) -> Error {
    Error::new(-libc::EINVAL, Some(text))
}
