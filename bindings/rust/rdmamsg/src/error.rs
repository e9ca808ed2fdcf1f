// SPDX-License-Identifier: BSD-2-Clause
//! Errors of calls, of operations and of connections.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::raw::c_int;

use rdmamsg_sys as sys;

use crate::reason::{Cause, Reason};

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// The content of an error: its number, a sentence, and the reason if a
/// connection has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    errno: c_int,
    text: String,
    reason: Option<Box<Reason>>,
}

/// The error of a call, of an operation or of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Nothing was accepted. `on_writable` follows.
    Again,
    /// An argument or an option is wrong. The text names it.
    InvalidArgument(Failure),
    /// The call cannot be made now, or not from here.
    Misuse(Failure),
    /// The process is a child of the one that opened the object.
    Forked(Failure),
    /// The message is larger than the peer or the group takes.
    TooLarge(Failure),
    /// There is no such RDMA device.
    NoDevice(Failure),
    /// A file, a key or a region does not allow it.
    NoPermission(Failure),
    /// No memory, or a limit of the context.
    NoResources(Failure),
    /// The device or the peer lacks the ability.
    Unsupported(Failure),
    /// A deadline has passed.
    TimedOut(Failure),
    /// The deadline of an operation has passed after it began. What it borrows
    /// stays with it until its end.
    Overdue(Failure),
    /// The operation did not happen, or its effect is not known.
    Canceled(Failure),
    /// An atomic operation was under way when a connection failed.
    InDoubt(Failure),
    /// The connection has ended, or was never made.
    Disconnected(Failure),
    /// The connection has ended gracefully: nothing was lost.
    Closed(Failure),
    /// There is no listener.
    Refused(Failure),
    /// The peer's program has rejected the connection.
    Rejected(Failure),
    /// The peer's host does not answer.
    Unreachable(Failure),
    /// No pre-shared key, or another one.
    AuthFailed(Failure),
    /// Any other error of the library or of the system.
    Other(Failure),
}

impl Error {
    /// The error of a negative errno. Without a text the thread's last one.
    #[cold]
    pub(crate) fn new(status: c_int, text: Option<&str>) -> Error {
        if status == -libc::EAGAIN && text.is_none() {
            return Error::Again;
        }
        let text = match text {
            Some(text) => text.to_owned(),
            None => last_text(),
        };
        Error::of_errno(Failure { errno: -status, text, reason: None })
    }

    fn of_errno(f: Failure) -> Error {
        match f.errno {
            libc::EINVAL | libc::ERANGE | libc::EPROTO => {
                Error::InvalidArgument(f)
            }
            libc::EBUSY | libc::EDEADLK => Error::Misuse(f),
            libc::ECHILD => Error::Forked(f),
            libc::EMSGSIZE => Error::TooLarge(f),
            libc::ENODEV | libc::ENXIO => Error::NoDevice(f),
            libc::EACCES | libc::EPERM => Error::NoPermission(f),
            libc::ENOMEM | libc::ENOBUFS | libc::EMFILE => {
                Error::NoResources(f)
            }
            libc::EOPNOTSUPP => Error::Unsupported(f),
            libc::ETIMEDOUT => Error::TimedOut(f),
            libc::ETIME => Error::Overdue(f),
            libc::ECANCELED => Error::Canceled(f),
            libc::EREMOTEIO => Error::InDoubt(f),
            libc::ENOTCONN | libc::ECONNRESET => Error::Disconnected(f),
            libc::ESHUTDOWN => Error::Closed(f),
            _ => Error::Other(f),
        }
    }

    /// The error of an operation that the library has completed.
    #[cold]
    pub(crate) fn of_status(status: c_int) -> Error {
        let text = match -status {
            libc::ETIMEDOUT => {
                "the operation had not begun in time, and never will"
            }
            libc::ETIME => "the operation began, and did not end in time",
            libc::ECANCELED => {
                "the operation was cancelled, or the connection ended"
            }
            libc::EREMOTEIO => "a connection failed under an atomic operation",
            libc::EACCES => "the peer's device refused the key",
            _ => "the operation has not been completed",
        };
        Error::new(status, Some(text))
    }

    /// The error of an endpoint that has ended.
    pub(crate) fn of_reason(why: &Reason) -> Error {
        let f = Failure {
            errno: if why.error == 0 { libc::ESHUTDOWN } else { -why.error },
            text: why.text.clone(),
            reason: Some(Box::new(why.clone())),
        };
        match why.cause {
            Cause::Closed => Error::Closed(f),
            Cause::Timeout => Error::TimedOut(f),
            Cause::Refused => Error::Refused(f),
            Cause::Rejected => Error::Rejected(f),
            Cause::Unreachable => Error::Unreachable(f),
            Cause::Auth => Error::AuthFailed(f),
            _ => Error::Disconnected(f),
        }
    }

    fn failure(&self) -> Option<&Failure> {
        match self {
            Error::Again => None,
            Error::InvalidArgument(f)
            | Error::Misuse(f)
            | Error::Forked(f)
            | Error::TooLarge(f)
            | Error::NoDevice(f)
            | Error::NoPermission(f)
            | Error::NoResources(f)
            | Error::Unsupported(f)
            | Error::TimedOut(f)
            | Error::Overdue(f)
            | Error::Canceled(f)
            | Error::InDoubt(f)
            | Error::Disconnected(f)
            | Error::Closed(f)
            | Error::Refused(f)
            | Error::Rejected(f)
            | Error::Unreachable(f)
            | Error::AuthFailed(f)
            | Error::Other(f) => Some(f),
        }
    }

    /// A positive errno.
    pub fn errno(&self) -> i32 {
        self.failure().map_or(libc::EAGAIN, |f| f.errno)
    }

    /// A sentence that says what to do.
    pub fn text(&self) -> &str {
        self.failure().map_or("no room now: on_writable follows", |f| &f.text)
    }

    /// Why the connection has ended, if that is the error.
    pub fn reason(&self) -> Option<&Reason> {
        self.failure().and_then(|f| f.reason.as_deref())
    }

    /// True if nothing was accepted and `on_writable` follows.
    pub fn is_again(&self) -> bool {
        matches!(self, Error::Again)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(e: Error) -> io::Error {
        io::Error::new(io::Error::from_raw_os_error(e.errno()).kind(), e)
    }
}

/// A call that takes a value has failed, and gives it back.
#[derive(Debug)]
pub struct Unsent<T> {
    /// Why nothing was sent.
    pub error: Error,
    /// The value that the call was given.
    pub value: T,
}

impl<T> fmt::Display for Unsent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: fmt::Debug> std::error::Error for Unsent<T> {}

impl<T> From<Unsent<T>> for Error {
    fn from(u: Unsent<T>) -> Error {
        u.error
    }
}

fn last_text() -> String {
    // SAFETY: the library returns a string of this thread, never NULL.
    let text = unsafe { CStr::from_ptr(sys::rdmamsg_error()) };
    text.to_string_lossy().into_owned()
}

/// A count, or the error of a negative errno.
pub(crate) fn counted(ret: c_int) -> Result<usize> {
    if ret < 0 {
        Err(Error::new(ret, None))
    } else {
        Ok(ret as usize)
    }
}

/// Nothing, or the error of a negative errno.
pub(crate) fn check(ret: c_int) -> Result<()> {
    counted(ret).map(drop)
}

/// The error of an object whose context or owner has ended.
#[cold]
pub(crate) fn ended(what: &str) -> Error {
    Error::new(-libc::ESHUTDOWN, Some(what))
}
