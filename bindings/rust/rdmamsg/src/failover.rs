// SPDX-License-Identifier: BSD-2-Clause
//! Connections that survive the loss of a path: rdmamsg_failover(7).

use std::ffi::CString;
use std::time::Duration;

use rdmamsg_sys as sys;

use crate::core::{option_ms, sized};
use crate::error::Result;
use crate::options::{c_string, opt_ptr};
use crate::reason::text_of;

/// Options of failover. Both sides ask for it. Zeros and None are defaults.
///
/// ```
/// let f = rdmamsg::Failover {
///     rungs: rdmamsg::Failover::LANE,
///     ..Default::default()
/// };
/// assert_eq!(f.announce, None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Failover {
    /// The port of the first alternate path.
    pub port: u32,
    /// How the connection goes on: `PATH`, `STANDBY`, `LANE`.
    pub rungs: u32,
    /// Longest without a connection.
    pub timeout: Duration,
    /// For copies of messages, bytes.
    pub keep_bytes: u32,
    /// Connecting: another address of the peer.
    pub host: Option<String>,
    /// Its service.
    pub service: Option<String>,
    /// The numeric local address from which to reach it.
    pub source: Option<String>,
    /// The name of the RDMA device.
    pub device: Option<String>,
    /// Accepting: addresses at which the peer may connect again.
    pub announce: Option<String>,
    /// Connecting: does not use addresses that the peer has announced.
    pub given_only: bool,
    /// Where the first alternate path leads.
    pub lid: u32,
}

impl Failover {
    /// The device migrates to another port.
    pub const PATH: u32 = sys::RDMAMSG_RUNG_PATH;
    /// Another connection is made in advance.
    pub const STANDBY: u32 = sys::RDMAMSG_RUNG_STANDBY;
    /// Another connection is made when the first has failed.
    pub const LANE: u32 = sys::RDMAMSG_RUNG_LANE;
}

pub(crate) struct CFailover {
    c: Box<sys::rdmamsg_failover>,
    _texts: [Option<CString>; 5],
}

impl CFailover {
    pub(crate) fn new(f: &Failover) -> Result<CFailover> {
        let texts = [
            c_string(f.host.as_deref())?,
            c_string(f.service.as_deref())?,
            c_string(f.source.as_deref())?,
            c_string(f.device.as_deref())?,
            c_string(f.announce.as_deref())?,
        ];
        let mut c = Box::new(sized!(rdmamsg_failover));
        c.port = f.port;
        c.rungs = f.rungs;
        c.timeout_ms = option_ms(f.timeout);
        c.keep_bytes = f.keep_bytes;
        c.host = opt_ptr(&texts[0]);
        c.service = opt_ptr(&texts[1]);
        c.source = opt_ptr(&texts[2]);
        c.device = opt_ptr(&texts[3]);
        c.announce = opt_ptr(&texts[4]);
        if f.given_only {
            c.flags = sys::RDMAMSG_FAILOVER_GIVEN_ONLY;
        }
        c.lid = f.lid;
        Ok(CFailover { c, _texts: texts })
    }

    pub(crate) fn get(&self) -> *const sys::rdmamsg_failover {
        &*self.c
    }
}

/// A change of an endpoint's paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathChange {
    /// An alternate path is ready.
    Armed,
    /// The alternate path is now the one in use.
    Migrated,
    /// The alternate path is not ready any more.
    Lost,
    /// There is no connection; another is tried.
    Down,
    /// Another connection has taken over.
    Resumed,
    /// A connection made in advance is ready.
    Standby,
    /// A planned move failed.
    NotMoved,
    /// A value of a later library.
    Unknown(u32),
}

/// An event of `on_path`.
#[derive(Clone, Debug)]
pub struct PathEvent {
    /// The change.
    pub change: PathChange,
    /// The port in use now.
    pub port: u32,
    /// The port of the alternate path, 0 if there is none.
    pub alternate: u32,
    /// The reason.
    pub text: String,
    /// Resumed: the time without a connection.
    pub without: Duration,
    /// Resumed: messages that are sent again.
    pub repeated: u32,
}

impl PathEvent {
    /// # Safety
    /// The event's text is valid.
    pub(crate) unsafe fn copy(e: &sys::rdmamsg_path_event) -> PathEvent {
        PathEvent {
            change: match e.change {
                sys::RDMAMSG_PATH_CHANGE_ARMED => PathChange::Armed,
                sys::RDMAMSG_PATH_CHANGE_MIGRATED => PathChange::Migrated,
                sys::RDMAMSG_PATH_CHANGE_LOST => PathChange::Lost,
                sys::RDMAMSG_PATH_CHANGE_DOWN => PathChange::Down,
                sys::RDMAMSG_PATH_CHANGE_RESUMED => PathChange::Resumed,
                sys::RDMAMSG_PATH_CHANGE_STANDBY => PathChange::Standby,
                sys::RDMAMSG_PATH_CHANGE_NOT_MOVED => PathChange::NotMoved,
                other => PathChange::Unknown(other),
            },
            port: e.port,
            alternate: e.alternate,
            // SAFETY: it is a string.
            text: unsafe { text_of(e.text) },
            without: Duration::from_millis(u64::from(e.ms)),
            repeated: e.repeated,
        }
    }
}
