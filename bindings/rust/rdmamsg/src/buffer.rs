// SPDX-License-Identifier: BSD-2-Clause
//! Memory that an operation has until its end.

use std::rc::Rc;
use std::sync::Arc;

use crate::message::SharedMessage;

/// Bytes that a device may read while the library has the value.
///
/// # Safety
/// The bytes of `bytes()` stay where they are, and nothing changes or frees
/// them, until the value is dropped, though the value itself may move.
pub unsafe trait Buffer: 'static {
    /// The bytes.
    fn bytes(&self) -> &[u8];
}

macro_rules! buffers {
    ($($type:ty),*) => {
        $(
        // SAFETY: the bytes are on the heap or static, and owned or shared.
        unsafe impl Buffer for $type {
            fn bytes(&self) -> &[u8] {
                self.as_ref()
            }
        })*
    };
}

buffers!(Vec<u8>, Box<[u8]>, Rc<[u8]>, Arc<[u8]>, &'static [u8]);

// SAFETY: the bytes are on the heap, and owned.
unsafe impl Buffer for String {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

// SAFETY: the bytes are static.
unsafe impl Buffer for &'static str {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

// SAFETY: the owners of a shared message only read, and keep its memory.
unsafe impl Buffer for SharedMessage {
    fn bytes(&self) -> &[u8] {
        self
    }
}
