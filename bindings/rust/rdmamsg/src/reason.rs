// SPDX-License-Identifier: BSD-2-Clause
//! Why a connection has ended.

use std::ffi::CStr;
use std::os::raw::{c_char, c_uint};

use rdmamsg_sys as sys;

/// The side that has ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Who {
    /// The connection has not begun to end.
    Nobody,
    /// The program on this side, or one of its limits.
    Local,
    /// The peer closed, rejected or misbehaved.
    Peer,
    /// Nothing arrives from the peer.
    Network,
    /// The local device failed or was removed.
    Device,
    /// A value of a later library.
    Unknown(u32),
}

impl Who {
    pub(crate) fn new(value: c_uint) -> Who {
        match value {
            sys::RDMAMSG_WHO_NONE => Who::Nobody,
            sys::RDMAMSG_WHO_LOCAL => Who::Local,
            sys::RDMAMSG_WHO_PEER => Who::Peer,
            sys::RDMAMSG_WHO_NETWORK => Who::Network,
            sys::RDMAMSG_WHO_DEVICE => Who::Device,
            other => Who::Unknown(other),
        }
    }
}

/// Why a connection has ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The end has not begun.
    None,
    /// Graceful, nothing was lost.
    Closed,
    /// An abort, crash or kill.
    Aborted,
    /// A deadline of this endpoint passed.
    Timeout,
    /// No such name, address or device.
    Address,
    /// No listener.
    Refused,
    /// Rejected by the peer's program.
    Rejected,
    /// No answer.
    Unreachable,
    /// The peer broke the protocol.
    Protocol,
    /// No common protocol version.
    Version,
    /// Retries exhausted, remote error.
    Transport,
    /// A device refused a key.
    Access,
    /// The peer's program was silent for too long.
    Silent,
    /// The device was removed, or failed.
    Removed,
    /// No memory or permission, a limit.
    Resources,
    /// No pre-shared key, or another one.
    Auth,
    /// A message has changed on its way.
    Crc,
    /// A value of a later library.
    Unknown(u32),
}

impl Cause {
    pub(crate) fn new(value: c_uint) -> Cause {
        match value {
            sys::RDMAMSG_CAUSE_NONE => Cause::None,
            sys::RDMAMSG_CAUSE_CLOSED => Cause::Closed,
            sys::RDMAMSG_CAUSE_ABORTED => Cause::Aborted,
            sys::RDMAMSG_CAUSE_TIMEOUT => Cause::Timeout,
            sys::RDMAMSG_CAUSE_ADDRESS => Cause::Address,
            sys::RDMAMSG_CAUSE_REFUSED => Cause::Refused,
            sys::RDMAMSG_CAUSE_REJECTED => Cause::Rejected,
            sys::RDMAMSG_CAUSE_UNREACHABLE => Cause::Unreachable,
            sys::RDMAMSG_CAUSE_PROTOCOL => Cause::Protocol,
            sys::RDMAMSG_CAUSE_VERSION => Cause::Version,
            sys::RDMAMSG_CAUSE_TRANSPORT => Cause::Transport,
            sys::RDMAMSG_CAUSE_ACCESS => Cause::Access,
            sys::RDMAMSG_CAUSE_SILENT => Cause::Silent,
            sys::RDMAMSG_CAUSE_REMOVED => Cause::Removed,
            sys::RDMAMSG_CAUSE_RESOURCES => Cause::Resources,
            sys::RDMAMSG_CAUSE_AUTH => Cause::Auth,
            sys::RDMAMSG_CAUSE_CRC => Cause::Crc,
            other => Cause::Unknown(other),
        }
    }
}

/// Why a connection has ended: a copy of `struct rdmamsg_reason`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The side that has ended the connection.
    pub who: Who,
    /// Why, in one word.
    pub cause: Cause,
    /// The negative errno that fits best, 0 if the end was graceful.
    pub error: i32,
    /// The code of the peer's `close_with()` or `abort_with()`.
    pub code: u32,
    /// The bytes of the peer's `reject()`, or with its code.
    pub data: Vec<u8>,
    /// The failure and the likely cause.
    pub text: String,
    /// The operation of the failed completion, "" if there is none.
    pub operation: String,
    /// The event of the connection manager, -1 if there is none.
    pub cm_event: i32,
    /// Of that event: the reject reason or a negative errno.
    pub cm_status: i32,
    /// The status of the failed completion, 0 if there is none.
    pub wc_status: i32,
    /// The vendor's error of the failed completion.
    pub vendor_err: u32,
}

impl Reason {
    /// # Safety
    /// `r` and what it points to are valid.
    pub(crate) unsafe fn copy(r: &sys::rdmamsg_reason) -> Reason {
        let data = if r.data_len == 0 {
            Vec::new()
        } else {
            // SAFETY: the data has this length.
            unsafe {
                std::slice::from_raw_parts(r.data as *const u8, r.data_len)
            }
            .to_vec()
        };
        Reason {
            who: Who::new(r.who),
            cause: Cause::new(r.cause),
            error: r.error,
            code: r.code,
            data,
            // SAFETY: both are strings, the second may be NULL.
            text: unsafe { text_of(r.text.as_ptr()) },
            // SAFETY: the same.
            operation: unsafe { text_of(r.operation) },
            cm_event: r.cm_event,
            cm_status: r.cm_status,
            wc_status: r.wc_status,
            vendor_err: r.vendor_err,
        }
    }
}

/// The text at `p`, "" of NULL.
///
/// # Safety
/// `p` is NULL or a string that is valid during the call.
pub(crate) unsafe fn text_of(p: *const c_char) -> String {
    if p.is_null() {
        return String::new();
    }
    // SAFETY: it is a string.
    let text = unsafe { CStr::from_ptr(p) };
    text.to_string_lossy().into_owned()
}
