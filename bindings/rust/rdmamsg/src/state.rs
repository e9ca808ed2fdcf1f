// SPDX-License-Identifier: BSD-2-Clause
//! Private: what an endpoint has beside the library's, and its callbacks.

use std::cell::{Cell, RefCell};
use std::os::raw::{c_int, c_void};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use rdmamsg_sys as sys;

use crate::core::{sized, Core};
use crate::endpoint::Endpoint;
use crate::failover::PathEvent;
use crate::message::Message;
use crate::options::{Handlers, Incoming};
use crate::pending;
use crate::reason::Reason;

/// One reference is the library's until on_closed. The endpoint is held until
/// the last reference ends.
pub(crate) struct State {
    pub(crate) core: Rc<Core>,
    pub(crate) ep: Cell<*mut sys::rdmamsg_ep>,
    pub(crate) owners: Cell<usize>,
    pub(crate) detached: Cell<bool>,
    pub(crate) connected: Cell<bool>,
    pub(crate) ended: Cell<bool>,
    pub(crate) why: RefCell<Option<Rc<Reason>>>,
    pub(crate) on: RefCell<Handlers>,
    pub(crate) wakers: RefCell<Vec<Waker>>,
    lent: RefCell<Vec<Vec<u8>>>,
}

impl State {
    pub(crate) fn new(core: &Rc<Core>, on: Handlers) -> Rc<State> {
        Rc::new(State {
            core: core.clone(),
            ep: Cell::new(std::ptr::null_mut()),
            owners: Cell::new(0),
            detached: Cell::new(false),
            connected: Cell::new(false),
            ended: Cell::new(false),
            why: RefCell::default(),
            on: RefCell::new(on),
            wakers: RefCell::default(),
            lent: RefCell::default(),
        })
    }

    /// The library has begun to connect or to accept: it calls on_closed.
    pub(crate) fn begin(self: &Rc<Self>, ep: *mut sys::rdmamsg_ep) {
        self.ep.set(ep);
        self.core.add_endpoint(ep);
        // SAFETY: the endpoint is new. on_closed() takes the reference.
        unsafe { sys::rdmamsg_ep_hold(ep) };
        std::mem::forget(self.clone());
    }

    /// # Safety
    /// The endpoint is valid, and of this crate.
    pub(crate) unsafe fn of(ep: *const sys::rdmamsg_ep) -> Rc<State> {
        // SAFETY: the user pointer of an endpoint is its state, until
        // on_closed.
        unsafe {
            let state = sys::rdmamsg_ep_user(ep) as *const State;
            Rc::increment_strong_count(state);
            Rc::from_raw(state)
        }
    }

    /// Wakes a task at the next change.
    #[cfg(feature = "tokio")]
    pub(crate) fn wake_by(&self, waker: &Waker) {
        let mut wakers = self.wakers.borrow_mut();
        if !wakers.iter().any(|w| w.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    pub(crate) fn wake(&self) {
        for waker in self.wakers.take() {
            waker.wake();
        }
    }

    /// The functions that the library calls: only those that the program
    /// handles, because the library asks which are there.
    pub(crate) fn table(&self) -> sys::rdmamsg_ep_handlers {
        let on = self.on.borrow();
        let mut t = sized!(rdmamsg_ep_handlers);
        t.on_connected = Some(on_connected);
        t.on_complete = Some(on_complete);
        t.on_writable = Some(on_writable);
        t.on_closed = Some(on_closed);
        if on.on_message.is_some() {
            t.on_message = Some(on_message);
        }
        if on.on_incoming.is_some() {
            t.on_incoming = Some(on_incoming);
        }
        if on.on_stalled.is_some() {
            t.on_stalled = Some(on_stalled);
        }
        if on.on_resumed.is_some() {
            t.on_resumed = Some(on_resumed);
        }
        if on.on_written.is_some() {
            t.on_written = Some(on_written);
        }
        if on.on_path.is_some() {
            t.on_path = Some(on_path);
        }
        t
    }

    /// Memory of the program in which the message is.
    fn memory_of(&self, msg: &Message) -> Option<Vec<u8>> {
        let mut lent = self.lent.borrow_mut();
        let place = lent.iter().position(|m| m.as_ptr() == msg.as_ptr())?;
        Some(lent.swap_remove(place))
    }

    fn lend(
        &self,
        mut memory: Vec<u8>,
        len: usize,
        dst: &mut sys::rdmamsg_buffer,
    ) -> c_int {
        if memory.len() < len {
            return -libc::ENOBUFS;
        }
        dst.data = memory.as_mut_ptr().cast();
        self.lent.borrow_mut().push(memory);
        0
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if !self.ep.get().is_null() {
            // SAFETY: begin() holds the endpoint.
            unsafe { sys::rdmamsg_ep_release(self.ep.get()) };
        }
    }
}

/// Calls a callback of an endpoint, without a panic that enters the library.
///
/// # Safety
/// The endpoint is valid, and of this crate.
unsafe fn call(
    ep: *mut sys::rdmamsg_ep,
    f: impl FnOnce(&Endpoint, &mut Handlers),
) {
    // SAFETY: the caller says so.
    let state = unsafe { State::of(ep) };
    let core = state.core.clone();
    core.guard((), || {
        let ep = Endpoint::new(state);
        let mut on = ep.state.on.borrow_mut();
        f(&ep, &mut on);
    });
}

unsafe extern "C" fn on_connected(ep: *mut sys::rdmamsg_ep) {
    // SAFETY: the library calls this with an endpoint of this crate.
    unsafe {
        call(ep, |ep, on| {
            ep.state.connected.set(true);
            ep.state.wake();
            if let Some(f) = &mut on.on_connected {
                f(ep);
            }
        })
    }
}

unsafe extern "C" fn on_message(
    ep: *mut sys::rdmamsg_ep,
    msg: *mut sys::rdmamsg_msg,
) {
    // SAFETY: the endpoint is of this crate, and the message the program's.
    unsafe {
        call(ep, |ep, on| {
            let msg = match Message::new(msg, &ep.state.core) {
                Ok(msg) => msg,
                Err(_) => return,
            };
            let memory = ep.state.memory_of(&msg);
            if let Some(f) = &mut on.on_message {
                f(ep, msg.with_memory(memory));
            }
        })
    }
}

/// A message whose callback panics is refused.
unsafe extern "C" fn on_incoming(
    ep: *mut sys::rdmamsg_ep,
    len: usize,
    tag: u32,
    dst: *mut sys::rdmamsg_buffer,
) -> c_int {
    let mut ret = -libc::ECANCELED;
    // SAFETY: the endpoint is of this crate, and 'dst' valid during the call.
    unsafe {
        call(ep, |ep, on| {
            if let Some(f) = &mut on.on_incoming {
                ret = match f(ep, len, tag) {
                    Incoming::Library => 0,
                    Incoming::Into(memory) => {
                        ep.state.lend(memory, len, &mut *dst)
                    }
                    Incoming::Refuse => -libc::ECANCELED,
                };
            }
        });
    }
    ret
}

unsafe extern "C" fn on_complete(
    ep: *mut sys::rdmamsg_ep,
    cookie: *mut c_void,
    status: c_int,
) {
    // SAFETY: the library calls this once for the cookie of an operation.
    unsafe {
        let state = State::of(ep);
        state.core.guard((), || pending::complete(cookie, status));
    }
}

pub(crate) unsafe extern "C" fn on_late(
    ep: *mut sys::rdmamsg_ep,
    cookie: *mut c_void,
    status: c_int,
) {
    // SAFETY: the library calls this once for the cookie of an operation.
    unsafe {
        let state = State::of(ep);
        state.core.guard((), || pending::complete_late(cookie, status));
    }
}

unsafe extern "C" fn on_writable(ep: *mut sys::rdmamsg_ep) {
    // SAFETY: the library calls this with an endpoint of this crate.
    unsafe {
        call(ep, |ep, on| {
            ep.state.wake();
            if let Some(f) = &mut on.on_writable {
                f(ep);
            }
        })
    }
}

unsafe extern "C" fn on_stalled(ep: *mut sys::rdmamsg_ep, ms: u32) {
    // SAFETY: the library calls this with an endpoint of this crate.
    unsafe {
        call(ep, |ep, on| {
            if let Some(f) = &mut on.on_stalled {
                f(ep, Duration::from_millis(u64::from(ms)));
            }
        })
    }
}

unsafe extern "C" fn on_resumed(ep: *mut sys::rdmamsg_ep) {
    // SAFETY: the library calls this with an endpoint of this crate.
    unsafe {
        call(ep, |ep, on| {
            if let Some(f) = &mut on.on_resumed {
                f(ep);
            }
        })
    }
}

unsafe extern "C" fn on_written(ep: *mut sys::rdmamsg_ep, value: u32) {
    // SAFETY: the library calls this with an endpoint of this crate.
    unsafe {
        call(ep, |ep, on| {
            if let Some(f) = &mut on.on_written {
                f(ep, value);
            }
        })
    }
}

unsafe extern "C" fn on_path(
    ep: *mut sys::rdmamsg_ep,
    event: *const sys::rdmamsg_path_event,
) {
    // SAFETY: the endpoint is of this crate, and the event valid.
    unsafe {
        call(ep, |ep, on| {
            if let Some(f) = &mut on.on_path {
                f(ep, &PathEvent::copy(&*event));
            }
        })
    }
}

/// The last call: what the callbacks hold is given back.
unsafe extern "C" fn on_closed(
    ep: *mut sys::rdmamsg_ep,
    why: *const sys::rdmamsg_reason,
) {
    // SAFETY: the endpoint is of this crate, and begin() left a reference.
    let state =
        unsafe { Rc::from_raw(sys::rdmamsg_ep_user(ep) as *const State) };
    let core = state.core.clone();
    core.remove_endpoint(ep);
    core.guard((), || {
        // SAFETY: the reason is valid during the call.
        let why = Rc::new(unsafe { Reason::copy(&*why) });
        *state.why.borrow_mut() = Some(why.clone());
        state.ended.set(true);
        state.wake();
        let ep = Endpoint::new(state);
        let f = ep.state.on.borrow_mut().on_closed.take();
        let called = f.map(|mut f| core.guard((), || f(&ep, &why)));
        let on = ep.state.on.take();
        let lent = ep.state.lent.take();
        drop((called, on, lent));
    });
}
