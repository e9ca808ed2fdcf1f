// SPDX-License-Identifier: BSD-2-Clause
//! Operations under way, with what they borrow.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::mem::ManuallyDrop;
use std::os::raw::{c_int, c_void};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use rdmamsg_sys as sys;

use crate::core::Core;
use crate::error::{Error, Result, Unsent};

type Then<T> = Box<dyn FnOnce(Result<T>)>;

/// The part of a slot that the cookie points to, for values of any type.
#[repr(C)]
struct Head {
    finish: unsafe fn(*const Head, c_int),
    overdue: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

#[repr(C)]
struct Slot<T> {
    head: Head,
    core: Rc<Core>,
    status: Cell<Option<c_int>>,
    value: RefCell<Option<T>>,
    then: RefCell<Option<Then<T>>>,
}

impl<T: 'static> Slot<T> {
    /// The end of the operation: takes the library's reference.
    ///
    /// # Safety
    /// `head` is the cookie of an operation that has not ended.
    unsafe fn finish(head: *const Head, status: c_int) {
        // SAFETY: begin() left a reference, and the head is its first field.
        let slot = unsafe { Rc::from_raw(head as *const Slot<T>) };
        slot.status.set(Some(status));
        if let Some(then) = slot.then.take() {
            if let Some(result) = slot.take() {
                then(result);
            }
        }
        slot.head.wake();
    }

    /// The result, once.
    fn take(&self) -> Option<Result<T>> {
        let status = self.status.get()?;
        let value = self.value.take()?;
        if status == 0 {
            Some(Ok(value))
        } else {
            Some(Err(Error::of_status(status)))
        }
    }
}

impl Head {
    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// on_complete of the C interface: after RDMAMSG_OVERDUE the operation goes on.
///
/// # Safety
/// The cookie is of an operation that has not ended.
pub(crate) unsafe fn complete(cookie: *mut c_void, status: c_int) {
    if status == sys::RDMAMSG_OVERDUE {
        // SAFETY: the slot stays until the end of the operation.
        let head = unsafe { &*(cookie as *const Head) };
        head.overdue.set(true);
        head.wake();
    } else {
        // SAFETY: the caller says so.
        unsafe { complete_late(cookie, status) };
    }
}

/// on_late of the C interface.
///
/// # Safety
/// The cookie is of an operation that has not ended.
pub(crate) unsafe fn complete_late(cookie: *mut c_void, status: c_int) {
    let head = cookie as *const Head;
    // SAFETY: the slot stays until the end of the operation, which is now.
    unsafe { ((*head).finish)(head, status) };
}

/// An operation under way. It has what the device reads or writes, and gives it
/// back at its end: by [`Pending::wait`], to the function of [`Pending::then`],
/// or by `await`. If it is dropped, the operation goes on, and the library
/// frees the memory after its end.
#[must_use = "the end of the operation is not seen"]
pub struct Pending<T> {
    slot: Rc<Slot<T>>,
}

impl<T: 'static> Pending<T> {
    /// Begins an operation with a call that takes a cookie and the value.
    pub(crate) fn begin(
        core: &Rc<Core>,
        value: T,
        call: impl FnOnce(*mut c_void, &mut T) -> c_int,
    ) -> std::result::Result<Pending<T>, Unsent<T>> {
        let slot = Rc::new(Slot {
            head: Head {
                finish: Slot::<T>::finish,
                overdue: Cell::new(false),
                waker: RefCell::default(),
            },
            core: core.clone(),
            status: Cell::new(None),
            value: RefCell::new(Some(value)),
            then: RefCell::default(),
        });
        let cookie = ManuallyDrop::new(slot.clone());
        let ret = {
            let mut value = slot.value.borrow_mut();
            let value = value.as_mut().expect("a new slot has its value");
            call(Rc::as_ptr(&cookie) as *mut c_void, value)
        };
        if ret == 0 {
            return Ok(Pending { slot });
        }
        drop(ManuallyDrop::into_inner(cookie));
        let value = slot.value.take().expect("the library has not taken it");
        Err(Unsent { error: Error::new(ret, None), value })
    }

    /// True at the end of the operation.
    pub fn is_done(&self) -> bool {
        self.slot.status.get().is_some()
    }

    /// True if the operation's deadline has passed after it began. What it
    /// borrows stays with it until [`Pending::is_done`].
    pub fn is_overdue(&self) -> bool {
        self.slot.head.overdue.get() && !self.is_done()
    }

    /// Drives the context until the end of the operation, its deadline or the
    /// timeout.
    pub fn wait(self, timeout: Option<Duration>) -> Result<T> {
        let slot = &self.slot;
        slot.core
            .wait_until(timeout, || self.is_done() || self.is_overdue())?;
        self.result()
    }

    /// The result: Overdue if the operation goes on.
    fn result(&self) -> Result<T> {
        self.slot
            .take()
            .unwrap_or_else(|| Err(Error::of_status(sys::RDMAMSG_OVERDUE)))
    }

    /// Calls a function at the end of the operation, or now if it has ended. At
    /// the end it runs as a callback does.
    pub fn then(self, f: impl FnOnce(Result<T>) + 'static) {
        match self.slot.take() {
            Some(result) => f(result),
            None => *self.slot.then.borrow_mut() = Some(Box::new(f)),
        }
    }

    /// The cookie by which the library knows the operation.
    pub(crate) fn cookie(&self) -> *mut c_void {
        Rc::as_ptr(&self.slot) as *mut c_void
    }
}

/// The context must be driven meanwhile.
impl<T: 'static> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Result<T>> {
        if self.is_done() || self.is_overdue() {
            return Poll::Ready(self.result());
        }
        *self.slot.head.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}
