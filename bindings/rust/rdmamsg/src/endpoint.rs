// SPDX-License-Identifier: BSD-2-Clause
//! Endpoints: sessions with a peer.

use std::os::raw::{c_int, c_void};
use std::ptr;
use std::rc::Rc;
use std::time::Duration;

use rdmamsg_sys as sys;

use crate::buffer::Buffer;
use crate::context::required;
use crate::core::{wait_ms, Core};
use crate::error::{check, ended, Error, Result, Unsent};
use crate::message::{Message, SharedMessage};
use crate::options::{CEndpointOptions, EndpointOptions};
use crate::pending::Pending;
use crate::reason::Reason;
use crate::state::State;

/// A handle to an endpoint. When the last handle is dropped, the endpoint
/// begins to close gracefully, unless it is detached. Its callbacks go on until
/// `on_closed`. It ends at the latest with its context.
///
/// ```compile_fail
/// fn any_thread<T: Send>() {}
/// any_thread::<rdmamsg::Endpoint>();
/// ```
pub struct Endpoint {
    pub(crate) state: Rc<State>,
}

/// How far an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The connection is being made.
    Connecting,
    /// Both sides can send.
    Connected,
    /// The end has begun.
    Closing,
    /// The end.
    Closed,
}

impl Endpoint {
    pub(crate) fn new(state: Rc<State>) -> Endpoint {
        state.owners.set(state.owners.get() + 1);
        Endpoint { state }
    }

    /// # Safety
    /// The endpoint is valid, and of this crate.
    pub(crate) unsafe fn of(ep: *const sys::rdmamsg_ep) -> Endpoint {
        // SAFETY: the caller says so.
        Endpoint::new(unsafe { State::of(ep) })
    }

    /// Makes an endpoint with a call that takes the options.
    pub(crate) fn make(
        core: &Rc<Core>,
        mut o: EndpointOptions,
        call: impl FnOnce(
            *const sys::rdmamsg_ep_options,
            *mut *mut sys::rdmamsg_ep,
        ) -> c_int,
    ) -> Result<Endpoint> {
        let state = State::new(core, std::mem::take(&mut o.on));
        let table = state.table();
        let mut c = CEndpointOptions::new(&o)?;
        c.serve(&table, Rc::as_ptr(&state).cast());
        let mut ep = ptr::null_mut();
        check(call(&c.opts, &mut ep))?;
        state.begin(ep);
        Ok(Endpoint::new(state))
    }

    pub(crate) fn connect(
        core: &Rc<Core>,
        host: &str,
        service: &str,
        o: EndpointOptions,
    ) -> Result<Endpoint> {
        let ctx = core.live()?;
        let (host, service) = (required(host)?, required(service)?);
        // SAFETY: the context is open, and the strings valid during the call.
        Endpoint::make(core, o, |o, ret| unsafe {
            sys::rdmamsg_connect(ctx, host.as_ptr(), service.as_ptr(), o, ret)
        })
    }

    /// The endpoint, or an error after the end of its context.
    pub(crate) fn raw(&self) -> Result<*mut sys::rdmamsg_ep> {
        self.state.core.live()?;
        Ok(self.state.ep.get())
    }

    /// The endpoint goes on without a handle until it ends.
    pub fn detach(&self) {
        self.state.detached.set(true);
    }

    /// True between `on_connected` and the end.
    pub fn is_connected(&self) -> bool {
        self.state.connected.get() && !self.state.ended.get()
    }

    /// True after the end.
    pub fn has_ended(&self) -> bool {
        self.state.ended.get()
    }

    /// How far the endpoint is.
    pub fn phase(&self) -> Phase {
        let ep = match self.raw() {
            Ok(ep) if !self.has_ended() => ep,
            _ => return Phase::Closed,
        };
        // SAFETY: the endpoint is held, and its context open.
        match unsafe { sys::rdmamsg_ep_state(ep) } {
            sys::RDMAMSG_CONNECTING => Phase::Connecting,
            sys::RDMAMSG_CONNECTED => Phase::Connected,
            sys::RDMAMSG_CLOSING => Phase::Closing,
            _ => Phase::Closed,
        }
    }

    /// Why the connection ends or has ended; None before.
    pub fn reason(&self) -> Option<Rc<Reason>> {
        if let Some(why) = &*self.state.why.borrow() {
            return Some(why.clone());
        }
        let ep = self.raw().ok()?;
        // SAFETY: the endpoint is held, and the reason as long valid.
        let why = unsafe { Reason::copy(&*sys::rdmamsg_ep_reason(ep)) };
        (why.cause != crate::reason::Cause::None).then(|| Rc::new(why))
    }

    /// Drives the context until the endpoint is connected.
    pub fn connected(&self, timeout: Option<Duration>) -> Result<()> {
        let s = &self.state;
        s.core.wait_until(timeout, || s.connected.get() || s.ended.get())?;
        if s.connected.get() {
            return Ok(());
        }
        Err(self.why_ended())
    }

    /// The error of an endpoint that has ended.
    pub(crate) fn why_ended(&self) -> Error {
        match &*self.state.why.borrow() {
            Some(why) => Error::of_reason(why),
            None => ended("the endpoint has ended"),
        }
    }

    /// Closes gracefully. `on_closed` follows.
    pub fn close(&self) {
        if let Ok(ep) = self.raw() {
            // SAFETY: the endpoint is held, and its context open.
            unsafe { sys::rdmamsg_ep_close(ep) };
        }
    }

    /// Ends the connection now: sends under way are cancelled.
    pub fn abort(&self) {
        if let Ok(ep) = self.raw() {
            // SAFETY: the endpoint is held, and its context open.
            unsafe { sys::rdmamsg_ep_abort(ep) };
        }
    }

    /// Closes, and the peer's reason has the code and up to 32 bytes.
    pub fn close_with(&self, code: u32, data: &[u8]) -> Result<()> {
        let ep = self.raw()?;
        let (p, len) = (data.as_ptr().cast(), data.len());
        // SAFETY: the endpoint is held, and the data valid during the call.
        check(unsafe { sys::rdmamsg_ep_close_with(ep, code, p, len) })
    }

    /// Aborts, and the peer's reason has the code and up to 32 bytes.
    pub fn abort_with(&self, code: u32, data: &[u8]) -> Result<()> {
        let ep = self.raw()?;
        let (p, len) = (data.as_ptr().cast(), data.len());
        // SAFETY: the endpoint is held, and the data valid during the call.
        check(unsafe { sys::rdmamsg_ep_abort_with(ep, code, p, len) })
    }

    /// Closes, and drives the context until the end. After the timeout the
    /// endpoint is aborted. Fails if the end was not graceful.
    pub fn close_wait(&self, timeout: Option<Duration>) -> Result<()> {
        let s = &self.state;
        self.close();
        match s.core.wait_until(timeout, || s.ended.get()) {
            Err(Error::TimedOut(_)) => {
                self.abort();
                s.core.wait_until(None, || s.ended.get())?;
            }
            other => other?,
        }
        match self.reason() {
            Some(why) if why.error == 0 => Ok(()),
            _ => Err(self.why_ended()),
        }
    }

    /// Sends a copy. The memory is free on return. Up to 64 KB by default.
    /// [`Error::Again`]: nothing was sent, and `on_writable` follows.
    pub fn send(&self, data: impl AsRef<[u8]>) -> Result<()> {
        self.send_tagged(data, 0)
    }

    /// Sends a copy with a tag, which the library does not interpret.
    pub fn send_tagged(&self, data: impl AsRef<[u8]>, tag: u32) -> Result<()> {
        let data = data.as_ref();
        let ep = self.raw()?;
        let (p, len) = (data.as_ptr().cast(), data.len());
        // SAFETY: the endpoint is held, and the library copies the data.
        check(unsafe { sys::rdmamsg_send(ep, p, len, tag, ptr::null_mut()) })
    }

    /// Sends a copy, and the peer has it at the end of the operation.
    pub fn send_copy(
        &self,
        data: impl AsRef<[u8]>,
        tag: u32,
    ) -> Result<Pending<()>> {
        let data = data.as_ref();
        let ep = self.raw()?;
        let (p, len) = (data.as_ptr().cast(), data.len());
        // SAFETY: the endpoint is held, and the library copies the data.
        let begun = Pending::begin(&self.state.core, (), |cookie, _| unsafe {
            sys::rdmamsg_send(ep, p, len, tag, cookie)
        });
        Ok(begun?)
    }

    /// Sends a message of any size from where it is. The operation has the
    /// memory until its end.
    pub fn send_owned<B: Buffer>(
        &self,
        data: B,
        tag: u32,
    ) -> std::result::Result<Pending<B>, Unsent<B>> {
        self.sendv(data, |data| vec![iovec_of(data)], tag)
    }

    /// Sends up to 16 parts as one message, as [`Endpoint::send_owned`].
    pub fn send_parts<B: Buffer>(
        &self,
        parts: Vec<B>,
        tag: u32,
    ) -> std::result::Result<Pending<Vec<B>>, Unsent<Vec<B>>> {
        self.sendv(parts, |parts| parts.iter().map(iovec_of).collect(), tag)
    }

    fn sendv<T: 'static>(
        &self,
        value: T,
        parts: impl FnOnce(&T) -> Vec<sys::iovec>,
        tag: u32,
    ) -> std::result::Result<Pending<T>, Unsent<T>> {
        let ep = match self.raw() {
            Ok(ep) => ep,
            Err(error) => return Err(Unsent { error, value }),
        };
        Pending::begin(&self.state.core, value, |cookie, value| {
            let iov = parts(value);
            let count = iov.len().min(c_int::MAX as usize) as c_int;
            // SAFETY: the endpoint is held, and the operation has the memory.
            unsafe { sys::rdmamsg_sendv(ep, iov.as_ptr(), count, tag, cookie) }
        })
    }

    /// Allocates a message in registered memory: [`Endpoint::send_message`].
    pub fn alloc(&self, len: usize) -> Result<Message> {
        let ep = self.raw()?;
        let mut msg = ptr::null_mut();
        // SAFETY: the endpoint is held, and its context open.
        check(unsafe { sys::rdmamsg_msg_alloc(ep, len, &mut msg) })?;
        // SAFETY: the message is new. Its bytes are read, so they have a value.
        unsafe {
            ptr::write_bytes(sys::rdmamsg_msg_data(msg).cast::<u8>(), 0, len);
            Message::new(msg, &self.state.core)
        }
    }

    /// Sends an allocated or received message without a copy, if its memory
    /// allows that.
    pub fn send_message(
        &self,
        msg: Message,
        tag: u32,
    ) -> std::result::Result<(), Unsent<Message>> {
        if msg.has_memory() {
            return self.send_lent(msg, tag);
        }
        // SAFETY: the endpoint is held, and the message the program's.
        let ret = self.raw().and_then(|ep| unsafe {
            check(sys::rdmamsg_msg_send(ep, msg.raw(), tag, ptr::null_mut()))
        });
        match ret {
            Ok(()) => {
                msg.into_parts();
                Ok(())
            }
            Err(error) => Err(Unsent { error, value: msg }),
        }
    }

    /// The message is in memory of the program, which the operation has.
    fn send_lent(
        &self,
        mut msg: Message,
        tag: u32,
    ) -> std::result::Result<(), Unsent<Message>> {
        let ep = match self.raw() {
            Ok(ep) => ep,
            Err(error) => return Err(Unsent { error, value: msg }),
        };
        let memory = msg.take_memory();
        // SAFETY: the endpoint is held, and the message the program's.
        let begun =
            Pending::begin(&self.state.core, memory, |cookie, _| unsafe {
                sys::rdmamsg_msg_send(ep, msg.raw(), tag, cookie)
            });
        match begun {
            Ok(pending) => {
                pending.then(drop);
                msg.into_parts();
                Ok(())
            }
            Err(unsent) => Err(Unsent {
                error: unsent.error,
                value: msg.with_memory(unsent.value),
            }),
        }
    }

    /// Sends a message that others have, too, without a copy.
    pub fn send_shared(
        &self,
        msg: &SharedMessage,
        tag: u32,
    ) -> Result<Pending<SharedMessage>> {
        let ep = self.raw()?;
        let begun =
            Pending::begin(&self.state.core, msg.clone(), |cookie, msg| {
                // SAFETY: the endpoint is held; the library gets a reference.
                unsafe { send_reference(ep, msg.raw(), tag, cookie) }
            });
        Ok(begun?)
    }

    /// Drives the context until the next message of an endpoint without
    /// `on_message`. [`Error::Closed`]: the peer has closed, and there is none.
    pub fn recv(&self, timeout: Option<Duration>) -> Result<Message> {
        let ep = self.raw()?;
        let mut msg = ptr::null_mut();
        // SAFETY: the endpoint is held, and drive() needs an open context.
        self.state.core.drive(true, |_| unsafe {
            sys::rdmamsg_recv_wait(ep, wait_ms(timeout), &mut msg)
        })?;
        // SAFETY: the message is the program's.
        unsafe { Message::new(msg, &self.state.core) }
    }

    /// Returns when the peer's program has called it, too, with the same point.
    pub fn meet(&self, point: u32, timeout: Option<Duration>) -> Result<()> {
        let ep = self.raw()?;
        // SAFETY: the endpoint is held, and drive() needs an open context.
        let ret = self.state.core.drive(false, |_| unsafe {
            sys::rdmamsg_ep_meet_wait(ep, point, wait_ms(timeout))
        });
        ret.map(drop)
    }
}

fn iovec_of<B: Buffer>(data: &B) -> sys::iovec {
    let bytes = data.bytes();
    sys::iovec { iov_base: bytes.as_ptr() as *mut c_void, iov_len: bytes.len() }
}

/// # Safety
/// Both are valid, and the program has a reference of the message.
unsafe fn send_reference(
    ep: *mut sys::rdmamsg_ep,
    msg: *mut sys::rdmamsg_msg,
    tag: u32,
    cookie: *mut c_void,
) -> c_int {
    // SAFETY: the caller says so; a reference that is not sent is freed.
    unsafe {
        let mut ret = sys::rdmamsg_msg_ref(msg);
        if ret == 0 {
            ret = sys::rdmamsg_msg_send(ep, msg, tag, cookie);
            if ret != 0 {
                sys::rdmamsg_msg_free(msg);
            }
        }
        ret
    }
}

impl Clone for Endpoint {
    fn clone(&self) -> Endpoint {
        Endpoint::new(self.state.clone())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let s = &self.state;
        s.owners.set(s.owners.get() - 1);
        if s.owners.get() == 0 && !s.detached.get() && !s.ended.get() {
            self.close();
        }
    }
}
