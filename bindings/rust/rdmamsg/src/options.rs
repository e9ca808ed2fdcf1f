// SPDX-License-Identifier: BSD-2-Clause
//! Options and callbacks of endpoints.

use std::ffi::CString;
use std::os::raw::{c_char, c_void};
use std::time::Duration;

use rdmamsg_sys as sys;

use crate::context::required;
use crate::core::{option_ms, sized};
use crate::endpoint::Endpoint;
use crate::error::Result;
use crate::failover::{CFailover, Failover, PathEvent};
use crate::message::Message;
use crate::reason::Reason;

/// The answer of `on_incoming`: where a large message goes.
pub enum Incoming {
    /// Into memory of the library.
    Library,
    /// Into this memory, of at least the announced length. The message has it.
    Into(Vec<u8>),
    /// The sender's operation ends with [`crate::Error::Canceled`].
    Refuse,
}

type OnEndpoint = Option<Box<dyn FnMut(&Endpoint)>>;

/// The callbacks of an endpoint, until its end.
#[derive(Default)]
pub(crate) struct Handlers {
    pub(crate) on_connected: OnEndpoint,
    pub(crate) on_message: Option<Box<dyn FnMut(&Endpoint, Message)>>,
    pub(crate) on_incoming:
        Option<Box<dyn FnMut(&Endpoint, usize, u32) -> Incoming>>,
    pub(crate) on_writable: OnEndpoint,
    pub(crate) on_stalled: Option<Box<dyn FnMut(&Endpoint, Duration)>>,
    pub(crate) on_resumed: OnEndpoint,
    pub(crate) on_closed: Option<Box<dyn FnMut(&Endpoint, &Reason)>>,
    pub(crate) on_written: Option<Box<dyn FnMut(&Endpoint, u32)>>,
    pub(crate) on_path: Option<Box<dyn FnMut(&Endpoint, &PathEvent)>>,
}

/// Options and callbacks of an endpoint. What is not set is the default of
/// rdmamsg_ep_options(3). `Duration::MAX` means no limit where that has a
/// meaning.
///
/// Callbacks run in the calls that drive the context. They may make every call
/// except those. A panic of a callback ends the call that runs it and goes on
/// there; no connection ends.
#[derive(Default)]
pub struct EndpointOptions {
    pub(crate) on: Handlers,
    flags: u32,
    timeout: Duration,
    source: Option<String>,
    device: Option<String>,
    hello_data: Vec<u8>,
    setup_data: Vec<u8>,
    max_msg_size: u32,
    send_queue: u32,
    dead_after: Duration,
    close_timeout: Duration,
    failover: Option<Failover>,
    tuning: Option<Tuning>,
}

/// Queues, limits and liveness: rdmamsg_ep_tuning(3). Zeros are defaults.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Tuning {
    /// Limit of [`Endpoint::send`], bytes.
    pub max_copy: u32,
    /// Largest message sent inline, bytes.
    pub inline_max: u32,
    /// Largest message sent by copy, bytes.
    pub eager_max: u32,
    /// Largest message sent in pieces, bytes.
    pub pieces_max: u32,
    /// The peer's credits.
    pub recv_depth: u32,
    /// Sends in flight.
    pub send_depth: u32,
    /// Most bytes of received messages that the program has.
    pub max_lent: u32,
    /// The peer's program is silent: `on_stalled`; milliseconds.
    pub stall_after_ms: u32,
    /// The peer's program is silent: the connection ends; milliseconds.
    pub peer_timeout_ms: u32,
    /// 4.096 us * 2^n until a request is sent again.
    pub ack_timeout: u32,
    /// Reads that this side serves at once.
    pub responder_resources: u32,
    /// Reads that this side issues at once.
    pub initiator_depth: u32,
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

macro_rules! callbacks {
    ($($(#[$doc:meta])* $name:ident($($arg:ty),*);)*) => {
        $($(#[$doc])*
        pub fn $name(mut self, f: impl FnMut($($arg),*) + 'static) -> Self {
            self.on.$name = Some(Box::new(f));
            self
        })*
    };
}

impl EndpointOptions {
    /// All defaults.
    pub fn new() -> EndpointOptions {
        EndpointOptions::default()
    }

    callbacks! {
        /// Both sides are ready.
        on_connected(&Endpoint);
        /// The next message. Without it messages wait for [`Endpoint::recv`].
        on_message(&Endpoint, Message);
        /// A send that failed with [`crate::Error::Again`] can be repeated.
        on_writable(&Endpoint);
        /// The peer's program has not answered for so long.
        on_stalled(&Endpoint, Duration);
        /// The peer's program answers again.
        on_resumed(&Endpoint);
        /// The connection has ended, or connecting has failed: the last call.
        on_closed(&Endpoint, &Reason);
        /// The peer's write with this value has arrived:
        /// [`crate::Target::notify`].
        on_written(&Endpoint, u32);
        /// A path was armed, lost or taken: see [`Failover`].
        on_path(&Endpoint, &PathEvent);
    }

    /// The peer announces a large message of this length and tag.
    pub fn on_incoming(
        mut self,
        f: impl FnMut(&Endpoint, usize, u32) -> Incoming + 'static,
    ) -> Self {
        self.on.on_incoming = Some(Box::new(f));
        self
    }

    setters! {
        /// Until connected.
        timeout: Duration;
        /// The largest message to receive, bytes.
        max_msg_size: u32;
        /// Sends kept before [`crate::Error::Again`].
        send_queue: u32;
        /// The peer's device is silent: the connection ends.
        dead_after: Duration;
        /// A graceful close becomes an abort.
        close_timeout: Duration;
    }

    /// Connecting: the numeric local address.
    pub fn source(mut self, address: impl Into<String>) -> Self {
        self.source = Some(address.into());
        self
    }

    /// Connecting: the name of the RDMA device.
    pub fn device(mut self, name: impl Into<String>) -> Self {
        self.device = Some(name.into());
        self
    }

    /// Up to 32 bytes that the peer has before it accepts.
    pub fn hello_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.hello_data = data.into();
        self
    }

    /// Up to 4096 bytes that the peer has when it is connected.
    pub fn setup_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.setup_data = data.into();
        self
    }

    fn flag(mut self, bit: u32) -> Self {
        self.flags |= bit;
        self
    }

    /// A protection domain of its own: no other peer reaches the memory in it.
    pub fn guard(self) -> Self {
        self.flag(sys::RDMAMSG_EP_GUARD)
    }

    /// A CRC-32C over each message, if both sides ask for it.
    pub fn crc(self) -> Self {
        self.flag(sys::RDMAMSG_EP_CRC)
    }

    /// Connecting: tries again until the timeout if there is no listener yet.
    pub fn retry(self) -> Self {
        self.flag(sys::RDMAMSG_EP_RETRY)
    }

    /// The connection survives the loss of a path, if both sides ask for it.
    pub fn failover(mut self, f: Failover) -> Self {
        self.failover = Some(f);
        self
    }

    /// Queues, limits and liveness.
    pub fn tuning(mut self, t: Tuning) -> Self {
        self.tuning = Some(t);
        self
    }

    /// The same options without callbacks, for one more endpoint.
    pub fn without_callbacks(&self) -> EndpointOptions {
        EndpointOptions {
            on: Handlers::default(),
            source: self.source.clone(),
            device: self.device.clone(),
            hello_data: self.hello_data.clone(),
            setup_data: self.setup_data.clone(),
            failover: self.failover.clone(),
            ..*self
        }
    }
}

/// The structs of C for one call, which copies them. They point to one another.
pub(crate) struct CEndpointOptions {
    pub(crate) opts: sys::rdmamsg_ep_options,
    tuning: Option<sys::rdmamsg_ep_tuning>,
    failover: Option<CFailover>,
    source: Option<CString>,
    device: Option<CString>,
}

impl CEndpointOptions {
    pub(crate) fn new(o: &EndpointOptions) -> Result<Box<CEndpointOptions>> {
        let mut c = Box::new(CEndpointOptions {
            opts: sized!(rdmamsg_ep_options),
            tuning: o.tuning.as_ref().map(c_tuning),
            failover: o.failover.as_ref().map(CFailover::new).transpose()?,
            source: c_string(o.source.as_deref())?,
            device: c_string(o.device.as_deref())?,
        });
        c.opts.flags = o.flags;
        c.opts.timeout_ms = option_ms(o.timeout);
        c.opts.source = opt_ptr(&c.source);
        c.opts.device = opt_ptr(&c.device);
        c.opts.hello_data = o.hello_data.as_ptr().cast();
        c.opts.hello_data_len = o.hello_data.len();
        c.opts.setup_data = o.setup_data.as_ptr().cast();
        c.opts.setup_data_len = o.setup_data.len();
        c.opts.max_msg_size = o.max_msg_size;
        c.opts.send_queue = o.send_queue;
        c.opts.dead_after_ms = option_ms(o.dead_after);
        c.opts.close_timeout_ms = option_ms(o.close_timeout);
        if let Some(tuning) = &c.tuning {
            c.opts.tuning = tuning;
        }
        if let Some(failover) = &c.failover {
            c.opts.failover = failover.get();
        }
        Ok(c)
    }

    pub(crate) fn serve(
        &mut self,
        on: &sys::rdmamsg_ep_handlers,
        user: *const c_void,
    ) {
        self.opts.handlers = on;
        self.opts.user = user as *mut c_void;
    }
}

fn c_tuning(t: &Tuning) -> sys::rdmamsg_ep_tuning {
    let mut c = sized!(rdmamsg_ep_tuning);
    c.max_copy = t.max_copy;
    c.inline_max = t.inline_max;
    c.eager_max = t.eager_max;
    c.pieces_max = t.pieces_max;
    c.recv_depth = t.recv_depth;
    c.send_depth = t.send_depth;
    c.max_lent = t.max_lent;
    c.stall_after_ms = t.stall_after_ms;
    c.peer_timeout_ms = t.peer_timeout_ms;
    c.ack_timeout = t.ack_timeout;
    c.responder_resources = t.responder_resources;
    c.initiator_depth = t.initiator_depth;
    c
}

/// A string of an option, NULL if it is not set.
pub(crate) fn c_string(text: Option<&str>) -> Result<Option<CString>> {
    text.map(required).transpose()
}

pub(crate) fn opt_ptr(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(std::ptr::null(), |t| t.as_ptr())
}
