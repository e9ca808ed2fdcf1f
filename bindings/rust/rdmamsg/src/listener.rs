// SPDX-License-Identifier: BSD-2-Clause
//! Listeners, and requests that a program answers.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::raw::c_int;
use std::ptr;
use std::rc::Rc;
use std::slice;
use std::task::Waker;
use std::time::Duration;

use rdmamsg_sys as sys;

use crate::context::required;
use crate::core::{option_ms, sized, Core};
use crate::device::socket_addr;
use crate::endpoint::Endpoint;
use crate::error::{check, ended, Result};
use crate::key::Key;
use crate::options::{c_string, opt_ptr, EndpointOptions};
use crate::region::Region;

/// A peer's request. If it is dropped without an answer, it is rejected.
pub struct Request {
    req: *mut sys::rdmamsg_request,
    core: Rc<Core>,
}

impl Request {
    /// The request, or an error after the end of its context.
    pub(crate) fn raw(&self) -> Result<*mut sys::rdmamsg_request> {
        self.core.before_close()?;
        Ok(self.req)
    }

    /// The peer's hello_data.
    pub fn data(&self) -> Vec<u8> {
        let mut len = 0;
        if self.raw().is_err() {
            return Vec::new();
        }
        // SAFETY: the request is valid until its answer, which takes it.
        unsafe {
            let data = sys::rdmamsg_request_data(self.req, &mut len);
            if data.is_null() {
                return Vec::new();
            }
            slice::from_raw_parts(data as *const u8, len).to_vec()
        }
    }

    /// The address that the request came to, and the peer's.
    pub fn addresses(
        &self,
    ) -> Result<(Option<SocketAddr>, Option<SocketAddr>)> {
        let req = self.raw()?;
        // SAFETY: zeros are an address of no family.
        let (mut local, mut peer) = unsafe { std::mem::zeroed() };
        // SAFETY: the request is valid.
        check(unsafe {
            sys::rdmamsg_request_addrs(req, &mut local, &mut peer)
        })?;
        Ok((socket_addr(&local), socket_addr(&peer)))
    }

    /// The request, which the answer ends, whatever it returns.
    fn into_raw(mut self) -> Result<*mut sys::rdmamsg_request> {
        let req = self.raw();
        self.req = ptr::null_mut();
        req
    }

    /// Accepts the request. The endpoint closes when its last handle is
    /// dropped, unless it is detached.
    pub fn accept(self, opts: EndpointOptions) -> Result<Endpoint> {
        let core = self.core.clone();
        let req = self.into_raw()?;
        let mut answered = false;
        // SAFETY: the request is valid, and the call ends it.
        let ep = Endpoint::make(&core, opts, |opts, ret| unsafe {
            answered = true;
            sys::rdmamsg_request_accept(req, opts, ret)
        });
        if !answered {
            // SAFETY: wrong options have not ended the request.
            unsafe { sys::rdmamsg_request_reject(req, ptr::null(), 0) };
        }
        ep
    }

    /// A key for hello_data or setup_data of [`Request::accept`].
    pub fn key(&self, region: &Region) -> Result<Key> {
        let req = self.raw()?;
        region.request_key(req)
    }

    /// Rejects the request. The peer's reason has up to 32 bytes.
    pub fn reject(self, data: &[u8]) -> Result<()> {
        let (p, len) = (data.as_ptr().cast(), data.len());
        let req = self.into_raw()?;
        // SAFETY: the request is valid, and the call ends it.
        check(unsafe { sys::rdmamsg_request_reject(req, p, len) })
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.req.is_null() && self.core.before_close().is_ok() {
            // SAFETY: the request has no answer yet.
            unsafe { sys::rdmamsg_request_reject(self.req, ptr::null(), 0) };
        }
    }
}

type OnRequest = Box<dyn FnMut(Request)>;
type OnFailed = Box<dyn FnMut(i32)>;

/// Options of a listener. What is not set is the default of
/// rdmamsg_listen_options(3). `u32::MAX` means no limit.
#[derive(Default)]
pub struct ListenOptions {
    on_request: Option<OnRequest>,
    on_failed: Option<OnFailed>,
    backlog: u32,
    device: Option<String>,
    max_requests: u32,
    max_half_open: u32,
    setup_timeout: Duration,
    max_endpoints: u32,
    max_per_source: u32,
    slow: Duration,
    key: Vec<u8>,
    flags: u32,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        $($(#[$doc])*
        pub fn $name(mut self, value: $type) -> Self {
            self.$name = value;
            self
        })*
    };
}

impl ListenOptions {
    /// All defaults.
    pub fn new() -> ListenOptions {
        ListenOptions::default()
    }

    /// A peer asks for a connection. Without it requests wait for
    /// [`Listener::accept`].
    pub fn on_request(mut self, f: impl FnMut(Request) + 'static) -> Self {
        self.on_request = Some(Box::new(f));
        self
    }

    /// The listener's device was removed, with an errno. The listener listens
    /// again by itself.
    pub fn on_failed(mut self, f: impl FnMut(i32) + 'static) -> Self {
        self.on_failed = Some(Box::new(f));
        self
    }

    setters! {
        /// Requests that the connection manager queues.
        backlog: u32;
        /// Unanswered requests.
        max_requests: u32;
        /// Unanswered requests and peers that are not connected yet.
        max_half_open: u32;
        /// From accepting until the peer is connected.
        setup_timeout: Duration;
        /// All connections.
        max_endpoints: u32;
        /// Connections of one address.
        max_per_source: u32;
        /// Rejects an address for so long after an offence.
        slow: Duration;
    }

    /// Only this RDMA device.
    pub fn device(mut self, name: impl Into<String>) -> Self {
        self.device = Some(name.into());
        self
    }

    /// The pre-shared key of its peers.
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = key.into();
        self
    }

    /// Listeners of several contexts share the port.
    pub fn shared(mut self) -> Self {
        self.flags |= sys::RDMAMSG_LISTEN_SHARED;
        self
    }

    /// As [`ListenOptions::shared`], by the load of the contexts.
    pub fn shared_by_load(mut self) -> Self {
        self.flags |= sys::RDMAMSG_LISTEN_SHARED | sys::RDMAMSG_LISTEN_BY_LOAD;
        self
    }
}

struct State {
    core: Rc<Core>,
    listener: Cell<*mut sys::rdmamsg_listener>,
    on_request: RefCell<Option<OnRequest>>,
    on_failed: RefCell<Option<OnFailed>>,
    waiting: RefCell<VecDeque<Request>>,
    wakers: RefCell<Vec<Waker>>,
}

impl State {
    /// # Safety
    /// The listener is open, and of this crate.
    unsafe fn of(listener: *const sys::rdmamsg_listener) -> Rc<State> {
        // SAFETY: the user pointer of an open listener is its state.
        unsafe {
            let state = sys::rdmamsg_listener_user(listener) as *const State;
            Rc::increment_strong_count(state);
            Rc::from_raw(state)
        }
    }

    fn raw(&self) -> Result<*mut sys::rdmamsg_listener> {
        self.core.before_close()?;
        if self.listener.get().is_null() {
            return Err(ended("the listener is closed"));
        }
        Ok(self.listener.get())
    }

    fn answer(&self, req: Request) {
        if let Some(f) = &mut *self.on_request.borrow_mut() {
            f(req);
            return;
        }
        self.waiting.borrow_mut().push_back(req);
        for waker in self.wakers.take() {
            waker.wake();
        }
    }

    fn close(&self) {
        if let Ok(listener) = self.raw() {
            self.listener.set(ptr::null_mut());
            // SAFETY: the listener is open, and nothing uses it after this.
            unsafe { sys::rdmamsg_listener_close(listener) };
        }
        let waiting = self.waiting.take();
        drop(waiting);
    }
}

/// The owner of a listener. Endpoints that came through it stay.
pub struct Listener {
    state: Rc<State>,
}

impl Listener {
    pub(crate) fn new(
        core: &Rc<Core>,
        host: &str,
        service: &str,
        o: ListenOptions,
    ) -> Result<Listener> {
        let ctx = core.live()?;
        let host = c_string((!host.is_empty()).then(|| host))?;
        let service = required(service)?;
        let device = c_string(o.device.as_deref())?;
        let state = Rc::new(State {
            core: core.clone(),
            listener: Cell::new(ptr::null_mut()),
            on_request: RefCell::new(o.on_request),
            on_failed: RefCell::new(o.on_failed),
            waiting: RefCell::default(),
            wakers: RefCell::default(),
        });
        let mut handlers = sized!(rdmamsg_listener_handlers);
        handlers.on_request = Some(on_request);
        handlers.on_failed = Some(on_failed);
        let mut opts = sized!(rdmamsg_listen_options);
        opts.user = Rc::as_ptr(&state) as *mut _;
        opts.handlers = &handlers;
        opts.backlog = o.backlog;
        opts.device = opt_ptr(&device);
        opts.max_requests = o.max_requests;
        opts.max_half_open = o.max_half_open;
        opts.setup_timeout_ms = option_ms(o.setup_timeout);
        opts.max_endpoints = o.max_endpoints;
        opts.max_per_source = o.max_per_source;
        opts.slow_ms = option_ms(o.slow);
        opts.key_len = o.key.len();
        if !o.key.is_empty() {
            opts.key = o.key.as_ptr().cast();
        }
        opts.flags = o.flags;
        let mut listener = ptr::null_mut();
        // SAFETY: the context is open, and the options valid during the call.
        check(unsafe {
            sys::rdmamsg_listen(
                ctx,
                opt_ptr(&host),
                service.as_ptr(),
                &opts,
                &mut listener,
            )
        })?;
        state.listener.set(listener);
        Ok(Listener { state })
    }

    /// The port, 0 after the end.
    pub fn port(&self) -> u16 {
        match self.state.raw() {
            // SAFETY: the listener is open.
            Ok(listener) => unsafe { sys::rdmamsg_listener_port(listener) },
            Err(_) => 0,
        }
    }

    /// The port, as [`crate::Context::connect`] takes it.
    pub fn service(&self) -> String {
        self.port().to_string()
    }

    /// The next request that waits, if there is no `on_request`.
    pub fn request(&self) -> Option<Request> {
        self.state.waiting.borrow_mut().pop_front()
    }

    /// Drives the context until a peer is connected.
    pub fn accept(
        &self,
        opts: EndpointOptions,
        timeout: Option<Duration>,
    ) -> Result<Endpoint> {
        let s = &self.state;
        s.raw()?;
        s.core.wait_until(timeout, || !s.waiting.borrow().is_empty())?;
        let req = self.request().expect("a request waits");
        let ep = req.accept(opts)?;
        ep.connected(timeout)?;
        Ok(ep)
    }

    /// Rejects new requests, and asks the peers to move to another address.
    pub fn drain(&self) -> Result<()> {
        let listener = self.state.raw()?;
        // SAFETY: the listener is open.
        check(unsafe { sys::rdmamsg_listener_drain(listener) })
    }

    /// The counters of the listener.
    pub fn stats(&self) -> Result<sys::rdmamsg_listener_stats> {
        let listener = self.state.raw()?;
        let mut stats = sized!(rdmamsg_listener_stats);
        // SAFETY: the listener is open, and the struct has its size.
        check(unsafe {
            sys::rdmamsg_listener_get_stats(listener, &mut stats)
        })?;
        Ok(stats)
    }

    /// Wakes a task when a request waits.
    #[cfg(feature = "tokio")]
    pub(crate) fn wake_by(&self, waker: &Waker) {
        let mut wakers = self.state.wakers.borrow_mut();
        if !wakers.iter().any(|w| w.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn is_open(&self) -> Result<()> {
        self.state.raw().map(drop)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.state.close();
    }
}

unsafe extern "C" fn on_request(
    listener: *mut sys::rdmamsg_listener,
    req: *mut sys::rdmamsg_request,
) {
    // SAFETY: the library calls this with a listener of this crate.
    let state = unsafe { State::of(listener) };
    let core = state.core.clone();
    core.guard((), || {
        let req = Request { req, core: state.core.clone() };
        state.answer(req);
        drop(state);
    });
}

unsafe extern "C" fn on_failed(
    listener: *mut sys::rdmamsg_listener,
    error: c_int,
) {
    // SAFETY: the library calls this with a listener of this crate.
    let state = unsafe { State::of(listener) };
    let core = state.core.clone();
    core.guard((), || {
        if let Some(f) = &mut *state.on_failed.borrow_mut() {
            f(-error);
        }
    });
}
