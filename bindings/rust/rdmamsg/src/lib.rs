// SPDX-License-Identifier: BSD-2-Clause
//! Whole messages over RDMA connections, one-sided operations and groups: the
//! safe interface of librdmamsg. The manual pages of the C interface say what
//! each call does; the names are the same.
//!
//! ```
//! use rdmamsg::{Context, EndpointOptions, ListenOptions};
//! # fn main() -> rdmamsg::Result<()> {
//! let ctx = Context::new()?;
//! let listener = ctx.listen("127.0.0.1", "0", ListenOptions::new())?;
//! let service = listener.service();
//! let client = ctx.connect("127.0.0.1", &service, EndpointOptions::new())?;
//! let server = listener.accept(EndpointOptions::new(), None)?;
//!
//! client.connected(None)?;
//! client.send("hello")?;
//! assert_eq!(&*server.recv(None)?, b"hello");
//! client.close_wait(None)
//! # }
//! ```
//!
//! A [`Context`] and everything made from it belong to one thread. [`Remote`],
//! [`SharedMessage`], keys and errors go to any.
//!
//! **Callbacks** are closures, stored once in the options: a message allocates
//! nothing. They run in calls that drive the context, such as
//! [`Context::wait`]. A panic of a callback does not enter the library: it goes
//! on in the caller of that call, and no connection ends. If several callbacks
//! panic, each of the next calls goes on with one.
//!
//! **Memory** that a device reads or writes belongs to the operation until its
//! end: see [`Pending`].
//!
//! The feature `tokio` adds asynchronous use: the module `aio`.
#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]
// each callback has a type of its own
#![allow(clippy::type_complexity)]

#[cfg(feature = "tokio")]
pub mod aio;
mod buffer;
mod context;
mod core;
mod device;
mod endpoint;
mod error;
mod failover;
mod group;
mod key;
mod listener;
mod message;
mod options;
mod pending;
mod query;
mod reason;
mod region;
mod remote;
mod state;
mod target;
mod team;

pub use buffer::Buffer;
pub use context::{version, Context, ContextOptions, Cork, Event};
pub use device::{
    capabilities, capability, device, devices, gids, pkeys, port, Capability,
    Device, Gid,
};
pub use endpoint::{Endpoint, Phase};
pub use error::{Error, Failure, Result, Unsent};
pub use failover::{Failover, PathChange, PathEvent};
pub use group::{gid_text, Group, GroupMessage, GroupOptions, Sender};
pub use key::{Access, Key};
pub use listener::{ListenOptions, Listener, Request};
pub use message::{Message, SharedMessage};
pub use options::{EndpointOptions, Incoming, Tuning};
pub use pending::Pending;
pub use query::{estimate, gid, name, Attributes, Migrate};
pub use rdmamsg_sys as sys;
pub use reason::{Cause, Reason, Who};
pub use region::Region;
pub use remote::Remote;
pub use target::Target;
pub use team::{Combine, Element, Team, TeamFailure};
