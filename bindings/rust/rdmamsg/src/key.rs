// SPDX-License-Identifier: BSD-2-Clause
//! Keys of regions, and what they permit.

use std::ops::BitOr;

use rdmamsg_sys as sys;

use crate::core::sized;
use crate::error::{check, Result};

/// Permitted uses of a region.
///
/// ```
/// use rdmamsg::Access;
/// let both = Access::READ | Access::WRITE;
/// assert!(both.has(Access::READ) && !both.has(Access::ATOMIC));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub(crate) u32);

impl Access {
    /// Only the source of writes.
    pub const NONE: Access = Access(0);
    /// Peers with a key may read.
    pub const READ: Access = Access(sys::RDMAMSG_ACCESS_READ);
    /// Peers with a key may write.
    pub const WRITE: Access = Access(sys::RDMAMSG_ACCESS_WRITE);
    /// Peers with a key may use atomic operations.
    pub const ATOMIC: Access = Access(sys::RDMAMSG_ACCESS_ATOMIC);
    /// The target of reads of this side.
    pub const LOCAL_WRITE: Access = Access(sys::RDMAMSG_ACCESS_LOCAL_WRITE);

    /// True if all of `other` is permitted.
    pub fn has(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Access {
    type Output = Access;

    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// The key of a region. The program sends its bytes to a peer, which can then
/// reach the region until it is revoked.
///
/// ```
/// fn any_thread<T: Send + Sync>() {}
/// any_thread::<rdmamsg::Key>();
/// assert!(rdmamsg::Key::from_bytes(b"nonsense").is_err());
/// ```
#[derive(Clone, Copy)]
pub struct Key(pub(crate) sys::rdmamsg_key);

impl Key {
    /// The key in bytes that a peer has sent. Bytes after it are ignored.
    pub fn from_bytes(bytes: &[u8]) -> Result<Key> {
        let mut key = sys::rdmamsg_key { bytes: [0; 32] };
        let (p, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the bytes are valid during the call.
        check(unsafe { sys::rdmamsg_key_import(p, len, &mut key) })?;
        Ok(Key(key))
    }

    /// The bytes that the program sends.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// Bytes that the key reaches, and how.
    pub fn reach(&self) -> Result<(u64, Access)> {
        let mut attr = sized!(rdmamsg_key_attr);
        // SAFETY: the struct has its size.
        check(unsafe { sys::rdmamsg_key_query(&self.0, &mut attr) })?;
        Ok((attr.len, Access(attr.access)))
    }
}
