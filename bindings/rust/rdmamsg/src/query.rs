// SPDX-License-Identifier: BSD-2-Clause
//! Endpoints: what they are, flow control, paths.

use std::net::SocketAddr;
use std::os::raw::c_int;
use std::slice;

use rdmamsg_sys as sys;

use crate::context::{required, sized_text};
use crate::core::sized;
use crate::device::{socket_addr, text};
use crate::endpoint::Endpoint;
use crate::error::{check, Result};
use crate::options::{c_string, opt_ptr};
use crate::pending::Pending;
use crate::reason::text_of;

/// Negotiated and granted values: rdmamsg_ep_query(3).
#[derive(Clone, Copy)]
pub struct Attributes(sys::rdmamsg_ep_attr);

impl Attributes {
    /// The address of this host.
    pub fn local(&self) -> Option<SocketAddr> {
        socket_addr(&self.0.local)
    }

    /// The address of the peer.
    pub fn peer(&self) -> Option<SocketAddr> {
        socket_addr(&self.0.peer)
    }

    /// The name of the device.
    pub fn device(&self) -> String {
        text(&self.0.device)
    }
}

impl std::ops::Deref for Attributes {
    type Target = sys::rdmamsg_ep_attr;

    fn deref(&self) -> &sys::rdmamsg_ep_attr {
        &self.0
    }
}

/// Where an endpoint moves: rdmamsg_ep_migrate(3). Zeros and None are defaults.
#[derive(Clone, Debug, Default)]
pub struct Migrate {
    /// The port to migrate to.
    pub port: u32,
    /// Over another connection.
    pub lane: bool,
    /// The address to connect to.
    pub host: Option<String>,
    /// Its service.
    pub service: Option<String>,
    /// The numeric local address.
    pub source: Option<String>,
    /// The name of the RDMA device.
    pub device: Option<String>,
}

macro_rules! query {
    ($($(#[$doc:meta])* $name:ident: $call:ident($type:ident);)*) => {
        $($(#[$doc])*
        pub fn $name(&self) -> Result<sys::$type> {
            let ep = self.raw()?;
            let mut s = sized!($type);
            // SAFETY: the endpoint is held, and the struct has its size.
            check(unsafe { sys::$call(ep, &mut s) })?;
            Ok(s)
        })*
    };
}

impl Endpoint {
    query! {
        /// The counters of the endpoint.
        stats: rdmamsg_ep_get_stats(rdmamsg_stats);
        /// How far messages are.
        flow: rdmamsg_ep_flow_query(rdmamsg_ep_flow_attr);
        /// The state of the paths. The text is in [`Endpoint::path_text`].
        path: rdmamsg_ep_path_query(rdmamsg_ep_path_attr);
        /// Extended atomics of the connection.
        masked: rdmamsg_ep_masked_query(rdmamsg_masked_attr);
    }

    /// Negotiated and granted values.
    pub fn attributes(&self) -> Result<Attributes> {
        let ep = self.raw()?;
        let mut s = sized!(rdmamsg_ep_attr);
        // SAFETY: the endpoint is held, and the struct has its size.
        check(unsafe { sys::rdmamsg_ep_query(ep, &mut s) })?;
        Ok(Attributes(s))
    }

    /// Why the state of the paths is what it is.
    pub fn path_text(&self) -> Result<String> {
        Ok(text(&self.path()?.text))
    }

    /// The name of the endpoint's device, "" while it is not known.
    pub fn device_name(&self) -> Result<String> {
        let ep = self.raw()?;
        // SAFETY: the endpoint is held, and returns a string.
        Ok(unsafe { text_of(sys::rdmamsg_ep_device_name(ep)) })
    }

    /// The peer's setup_data, "" if there is none.
    pub fn peer_data(&self) -> Result<Vec<u8>> {
        let ep = self.raw()?;
        let mut len = 0;
        // SAFETY: the endpoint is held, and the data valid as long.
        unsafe {
            let data = sys::rdmamsg_ep_peer_data(ep, &mut len);
            if data.is_null() {
                return Ok(Vec::new());
            }
            Ok(slice::from_raw_parts(data as *const u8, len).to_vec())
        }
    }

    /// The last events of an endpoint with failover, for people.
    pub fn history(&self) -> Result<String> {
        let ep = self.raw()?;
        // SAFETY: the endpoint is held, and the buffer has the size given.
        sized_text(|buf, size| unsafe {
            sys::rdmamsg_ep_history(ep, buf, size)
        })
    }

    /// Delivers nothing until [`Endpoint::resume`].
    pub fn pause(&self) -> Result<()> {
        let ep = self.raw()?;
        // SAFETY: the endpoint is held, and its context open.
        check(unsafe { sys::rdmamsg_ep_pause(ep) })
    }

    /// Delivers again. Callbacks follow after this call.
    pub fn resume(&self) -> Result<()> {
        let ep = self.raw()?;
        // SAFETY: the endpoint is held, and its context open.
        check(unsafe { sys::rdmamsg_ep_resume(ep) })
    }

    /// Cancels a send that has not begun. It ends with
    /// [`crate::Error::Canceled`].
    pub fn cancel<T: 'static>(&self, send: &Pending<T>) -> Result<()> {
        let ep = self.raw()?;
        // SAFETY: the endpoint is held; the library only compares the cookie.
        check(unsafe { sys::rdmamsg_ep_cancel(ep, send.cookie()) })
    }

    /// Moves both sides to another path or connection. `on_path` follows.
    pub fn migrate(&self, m: &Migrate) -> Result<()> {
        let ep = self.raw()?;
        let texts = [&m.host, &m.service, &m.source, &m.device];
        let mut c_texts = Vec::with_capacity(texts.len());
        for text in texts {
            c_texts.push(c_string(text.as_deref())?);
        }
        let mut opts = sized!(rdmamsg_migrate_options);
        opts.port = m.port;
        opts.lane = u32::from(m.lane);
        opts.host = opt_ptr(&c_texts[0]);
        opts.service = opt_ptr(&c_texts[1]);
        opts.source = opt_ptr(&c_texts[2]);
        opts.device = opt_ptr(&c_texts[3]);
        // SAFETY: the endpoint is held, and the options valid during the call.
        check(unsafe { sys::rdmamsg_ep_migrate(ep, &opts) })
    }

    /// Loads or replaces the alternate path. Zeros are defaults.
    pub fn set_alternate(&self, port: u32, lid: u32) -> Result<()> {
        let ep = self.raw()?;
        let mut alt = sized!(rdmamsg_alternate);
        alt.port = port;
        alt.lid = lid;
        // SAFETY: the endpoint is held, and the struct valid during the call.
        check(unsafe { sys::rdmamsg_ep_set_alternate(ep, &alt) })
    }
}

/// The name of a value: rdmamsg_name(3). None: a bit without a name.
pub fn name(kind: u32, value: u32) -> Option<String> {
    // SAFETY: the library returns static text or NULL.
    let name = unsafe { sys::rdmamsg_name(kind, value) };
    // SAFETY: the same.
    (!name.is_null()).then(|| unsafe { text_of(name) })
}

/// Registered memory of so many endpoints of one context: pinned bytes when all
/// are idle, and when all queues are full. Creates nothing.
pub fn estimate(
    o: &crate::EndpointOptions,
    endpoints: u32,
) -> Result<(u64, u64)> {
    let c = crate::options::CEndpointOptions::new(o)?;
    let mut ret = sized!(rdmamsg_memory_estimate);
    // SAFETY: the options are valid during the call, the struct has its size.
    check(unsafe {
        sys::rdmamsg_estimate(&c.opts, std::ptr::null(), endpoints, &mut ret)
    })?;
    Ok((ret.pinned_idle, ret.pinned_most))
}

/// Reads a GID in the form of an IPv6 address, or an IPv4 address.
pub fn gid(text: &str) -> Result<[u8; 16]> {
    let text = required(text)?;
    let mut gid = [0; 16];
    // SAFETY: the string and the array are valid during the call.
    let ret: c_int =
        unsafe { sys::rdmamsg_gid_parse(text.as_ptr(), gid.as_mut_ptr()) };
    check(ret)?;
    Ok(gid)
}
