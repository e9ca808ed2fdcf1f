// SPDX-License-Identifier: BSD-2-Clause
//! Groups: publish and subscribe on RDMA multicast.

use std::cell::{Cell, RefCell};
use std::os::raw::{c_int, c_void};
use std::ptr;
use std::rc::Rc;
use std::slice;
use std::time::Duration;

use rdmamsg_sys as sys;

use crate::context::{required, Context};
use crate::core::{option_ms, sized, Core};
use crate::device::text;
use crate::error::{check, ended, Result};
use crate::options::{c_string, opt_ptr};
use crate::reason::Reason;

/// A publisher of a group, or in raw mode the source of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Random; 0 in raw mode.
    pub id: u64,
    /// Its GID.
    pub gid: [u8; 16],
    /// Its queue pair.
    pub qp_num: u32,
}

/// A message of a group, during the callback.
#[derive(Clone, Copy, Debug)]
pub struct GroupMessage<'a> {
    /// Its bytes.
    pub data: &'a [u8],
    /// Counts the sender's messages; 0 in raw mode.
    pub number: u32,
    /// Its publisher.
    pub sender: Sender,
    /// It was published before, see [`GroupOptions::backlog`].
    pub is_backlog: bool,
}

type OnGroup = Option<Box<dyn FnMut(&Group)>>;
type OnReason = Option<Box<dyn FnMut(&Group, &Reason)>>;

#[derive(Default)]
struct Handlers {
    on_joined: OnGroup,
    on_lost: OnReason,
    on_message: Option<Box<dyn FnMut(&Group, GroupMessage<'_>)>>,
    on_gap: Option<Box<dyn FnMut(&Group, Sender, u32, u32)>>,
    on_writable: OnGroup,
    on_closed: OnReason,
    on_sent: Option<Box<dyn FnMut(&Group, u64)>>,
    on_flushed: Option<Box<dyn FnMut(&Group, sys::rdmamsg_group_flushed)>>,
    on_backlog: Option<Box<dyn FnMut(&Group, Sender, u32, u32, bool)>>,
    on_laggard: Option<Box<dyn FnMut(&Group, sys::rdmamsg_group_member)>>,
}

/// Options and callbacks of a group. Zeros are the defaults of
/// rdmamsg_group_options(3).
#[derive(Default)]
pub struct GroupOptions {
    on: Handlers,
    flags: u32,
    source: Option<String>,
    device: Option<String>,
    timeout: Duration,
    max_message: u32,
    recv_depth: u32,
    send_depth: u32,
    rate: u32,
    linger: Duration,
    backlog: u32,
    flow: u32,
    flow_quorum: u32,
    flow_window: u32,
    flow_limit: Duration,
    tag: u64,
    key: Vec<u8>,
    key_file: Option<String>,
    parity: u32,
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

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        $($(#[$doc])*
        pub fn $name(mut self, value: $type) -> Self {
            self.$name = value;
            self
        })*
    };
}

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident: $flag:ident;)*) => {
        $($(#[$doc])*
        pub fn $name(mut self) -> Self {
            self.flags |= sys::$flag;
            self
        })*
    };
}

impl GroupOptions {
    /// Publishes and subscribes.
    pub fn new() -> GroupOptions {
        GroupOptions::default()
    }

    flags! {
        /// Publishes only, unless it subscribes, too.
        publish: RDMAMSG_GROUP_PUBLISH;
        /// Subscribes only, unless it publishes, too.
        subscribe: RDMAMSG_GROUP_SUBSCRIBE;
        /// Receives its own messages.
        own: RDMAMSG_GROUP_OWN;
        /// Asks for missing messages, and as a publisher repeats them.
        repair: RDMAMSG_GROUP_REPAIR;
    }

    callbacks! {
        /// The group is joined, also again after `on_lost`.
        on_joined(&Group);
        /// The membership is lost. The library joins again.
        on_lost(&Group, &Reason);
        /// A message.
        on_message(&Group, GroupMessage<'_>);
        /// Messages of the sender that will not come: the first and the last.
        on_gap(&Group, Sender, u32, u32);
        /// [`Group::publish`] can be tried again.
        on_writable(&Group);
        /// The membership is over, or was never made: the last call.
        on_closed(&Group, &Reason);
        /// The device has sent the n-th message, from 1.
        on_sent(&Group, u64);
        /// The result of [`Group::flush`].
        on_flushed(&Group, sys::rdmamsg_group_flushed);
        /// The sender has kept messages from before: the first, their number,
        /// and whether there were more.
        on_backlog(&Group, Sender, u32, u32, bool);
        /// The subscriber has held up this publisher, and counts no more.
        on_laggard(&Group, sys::rdmamsg_group_member);
    }

    setters! {
        /// Until joined.
        timeout: Duration;
        /// The largest message, bytes.
        max_message: u32;
        /// Datagrams to receive.
        recv_depth: u32;
        /// Datagrams to send.
        send_depth: u32;
        /// Datagrams a second. `u32::MAX`: as many as the device sends.
        rate: u32;
        /// Repairs after leaving.
        linger: Duration;
        /// Messages from before, of each publisher. It needs `repair`.
        backlog: u32;
        /// Whom a publisher waits for: `sys::RDMAMSG_GROUP_FLOW_SLOWEST` or
        /// `sys::RDMAMSG_GROUP_FLOW_QUORUM`. It needs `repair`.
        flow: u32;
        /// Subscribers of the quorum.
        flow_quorum: u32;
        /// Messages that it may be ahead.
        flow_window: u32;
        /// Until a laggard counts no more. `Duration::MAX`: ever.
        flow_limit: Duration;
        /// Of a subscriber, or those that a publisher waits for.
        tag: u64;
        /// Datagrams behind which one with their parity follows. It needs
        /// `repair`.
        parity: u32;
    }

    /// The local address.
    pub fn source(mut self, address: impl Into<String>) -> Self {
        self.source = Some(address.into());
        self
    }

    /// A pre-shared key of 16 to 4096 bytes, which all members must have.
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = key.into();
        self
    }

    /// A file with the key, which only its owner can read.
    pub fn key_file(mut self, path: impl Into<String>) -> Self {
        self.key_file = Some(path.into());
        self
    }

    /// The name of the RDMA device.
    pub fn device(mut self, name: impl Into<String>) -> Self {
        self.device = Some(name.into());
        self
    }
}

/// One reference is the library's until on_closed.
struct State {
    core: Rc<Core>,
    group: Cell<*mut sys::rdmamsg_group>,
    owners: Cell<usize>,
    on: RefCell<Handlers>,
}

/// A handle to a group, which begins to leave when the last one is dropped.
pub struct Group {
    state: Rc<State>,
}

impl Group {
    /// Joins a group: a multicast address, an MGID or the name of a topic.
    /// `on_joined` or `on_closed` follows.
    pub fn join(
        ctx: &Context,
        address: &str,
        o: GroupOptions,
    ) -> Result<Group> {
        let raw = ctx.core.live()?;
        let address = required(address)?;
        let source = c_string(o.source.as_deref())?;
        let device = c_string(o.device.as_deref())?;
        let key_file = c_string(o.key_file.as_deref())?;
        let state = Rc::new(State {
            core: ctx.core.clone(),
            group: Cell::new(ptr::null_mut()),
            owners: Cell::new(0),
            on: RefCell::new(o.on),
        });
        let table = table();
        let mut opts = sized!(rdmamsg_group_options);
        opts.user = Rc::as_ptr(&state) as *mut _;
        opts.handlers = &table;
        opts.flags = o.flags;
        opts.source = opt_ptr(&source);
        opts.device = opt_ptr(&device);
        opts.timeout_ms = option_ms(o.timeout);
        opts.max_message = o.max_message;
        opts.recv_depth = o.recv_depth;
        opts.send_depth = o.send_depth;
        opts.rate = o.rate;
        opts.linger_ms = option_ms(o.linger);
        opts.backlog = o.backlog;
        opts.flow = o.flow;
        opts.flow_quorum = o.flow_quorum;
        opts.flow_window = o.flow_window;
        opts.flow_limit_ms = option_ms(o.flow_limit);
        opts.tag = o.tag;
        opts.key_len = o.key.len();
        if !o.key.is_empty() {
            opts.key = o.key.as_ptr().cast();
        }
        opts.key_file = opt_ptr(&key_file);
        opts.parity = o.parity;
        let mut group = ptr::null_mut();
        // SAFETY: the context is open, and the options valid during the call.
        check(unsafe {
            sys::rdmamsg_group_join(raw, address.as_ptr(), &opts, &mut group)
        })?;
        state.group.set(group);
        std::mem::forget(state.clone());
        Ok(Group::new(state))
    }

    fn new(state: Rc<State>) -> Group {
        state.owners.set(state.owners.get() + 1);
        Group { state }
    }

    fn raw(&self) -> Result<*mut sys::rdmamsg_group> {
        self.state.core.live()?;
        match self.state.group.get() {
            group if group.is_null() => Err(ended("the group has ended")),
            group => Ok(group),
        }
    }

    /// Sends a copy to the group. [`crate::Error::Again`]: `on_writable`
    /// follows.
    pub fn publish(&self, data: impl AsRef<[u8]>) -> Result<()> {
        let data = data.as_ref();
        let group = self.raw()?;
        let (p, len) = (data.as_ptr().cast(), data.len());
        // SAFETY: the group is open, and the library copies the data.
        check(unsafe { sys::rdmamsg_group_publish(group, p, len) })
    }

    /// `on_flushed` tells when all subscribers with repair have everything.
    pub fn flush(&self, timeout: Duration) -> Result<()> {
        let group = self.raw()?;
        // SAFETY: the group is open.
        check(unsafe { sys::rdmamsg_group_flush(group, option_ms(timeout)) })
    }

    /// The subscribers that report to this publisher.
    pub fn members(&self) -> Result<Vec<sys::rdmamsg_group_member>> {
        let group = self.raw()?;
        let mut all = Vec::new();
        let to = ptr::addr_of_mut!(all).cast();
        // SAFETY: the group is open, and add_member() expects the vector.
        check(unsafe {
            sys::rdmamsg_group_members(group, Some(add_member), to)
        })?;
        Ok(all)
    }

    /// Leaves after the published messages are sent. `on_closed` follows.
    pub fn leave(&self) {
        if let Ok(group) = self.raw() {
            // SAFETY: the group is open.
            unsafe { sys::rdmamsg_group_leave(group) };
        }
    }

    /// True after the end.
    pub fn has_ended(&self) -> bool {
        self.raw().is_err()
    }

    /// The counters of the group.
    pub fn stats(&self) -> Result<sys::rdmamsg_group_stats> {
        let group = self.raw()?;
        let mut stats = sized!(rdmamsg_group_stats);
        // SAFETY: the group is open, and the struct has its size.
        check(unsafe { sys::rdmamsg_group_get_stats(group, &mut stats) })?;
        Ok(stats)
    }

    /// The counters of one sender.
    pub fn sender_stats(&self, id: u64) -> Result<sys::rdmamsg_group_stats> {
        let group = self.raw()?;
        let mut stats = sized!(rdmamsg_group_stats);
        // SAFETY: the group is open, and the struct has its size.
        check(unsafe {
            sys::rdmamsg_group_get_sender_stats(group, id, &mut stats)
        })?;
        Ok(stats)
    }

    /// The group at its device: rdmamsg_group_query(3). Its `device` is NULL.
    pub fn attributes(&self) -> Result<sys::rdmamsg_group_attr> {
        let group = self.raw()?;
        let mut attr = sized!(rdmamsg_group_attr);
        // SAFETY: the group is open, and the struct has its size.
        check(unsafe { sys::rdmamsg_group_query(group, &mut attr) })?;
        attr.device = ptr::null();
        Ok(attr)
    }
}

impl Clone for Group {
    fn clone(&self) -> Group {
        Group::new(self.state.clone())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let owners = self.state.owners.get() - 1;
        self.state.owners.set(owners);
        if owners == 0 {
            self.leave();
        }
    }
}

fn table() -> sys::rdmamsg_group_handlers {
    let mut t = sized!(rdmamsg_group_handlers);
    t.on_joined = Some(on_joined);
    t.on_lost = Some(on_lost);
    t.on_message = Some(on_message);
    t.on_gap = Some(on_gap);
    t.on_writable = Some(on_writable);
    t.on_closed = Some(on_closed);
    t.on_sent = Some(on_sent);
    t.on_flushed = Some(on_flushed);
    t.on_backlog = Some(on_backlog);
    t.on_laggard = Some(on_laggard);
    t
}

unsafe extern "C" fn add_member(
    m: *const sys::rdmamsg_group_member,
    user: *mut c_void,
) -> c_int {
    // SAFETY: members() has given the vector, and the member is valid.
    unsafe { (*user.cast::<Vec<sys::rdmamsg_group_member>>()).push(*m) };
    0
}

/// Calls a callback of a group, without a panic that enters the library.
///
/// # Safety
/// The group is open, and of this crate.
unsafe fn call(
    group: *mut sys::rdmamsg_group,
    f: impl FnOnce(&Group, &mut Handlers),
) {
    // SAFETY: the user pointer is the state, with a reference for on_closed.
    let state = unsafe {
        let state = sys::rdmamsg_group_user(group) as *const State;
        Rc::increment_strong_count(state);
        Rc::from_raw(state)
    };
    let core = state.core.clone();
    core.guard((), || {
        let group = Group::new(state);
        let mut on = group.state.on.borrow_mut();
        f(&group, &mut on);
    });
}

unsafe extern "C" fn on_joined(group: *mut sys::rdmamsg_group) {
    let f = |group: &Group, on: &mut Handlers| {
        if let Some(f) = &mut on.on_joined {
            f(group);
        }
    };
    // SAFETY: the library calls this with a group of this crate.
    unsafe { call(group, f) };
}

unsafe extern "C" fn on_lost(
    group: *mut sys::rdmamsg_group,
    why: *const sys::rdmamsg_reason,
) {
    let f = |group: &Group, on: &mut Handlers| {
        if let Some(f) = &mut on.on_lost {
            // SAFETY: the reason is valid during the call.
            f(group, &unsafe { Reason::copy(&*why) });
        }
    };
    // SAFETY: the library calls this with a group of this crate.
    unsafe { call(group, f) };
}

fn sender_of(s: &sys::rdmamsg_group_sender) -> Sender {
    Sender { id: s.id, gid: s.gid, qp_num: s.qp_num }
}

unsafe extern "C" fn on_message(
    group: *mut sys::rdmamsg_group,
    msg: *const sys::rdmamsg_group_message,
) {
    // SAFETY: the message and what it points to are valid during the call.
    let msg = unsafe {
        let msg = &*msg;
        GroupMessage {
            data: match msg.len {
                0 => &[],
                len => slice::from_raw_parts(msg.data as *const u8, len),
            },
            number: msg.number,
            sender: sender_of(&*msg.sender),
            is_backlog: msg.is_backlog != 0,
        }
    };
    let f = |group: &Group, on: &mut Handlers| {
        if let Some(f) = &mut on.on_message {
            f(group, msg);
        }
    };
    // SAFETY: the library calls this with a group of this crate.
    unsafe { call(group, f) };
}

unsafe extern "C" fn on_gap(
    group: *mut sys::rdmamsg_group,
    sender: *const sys::rdmamsg_group_sender,
    first: u32,
    last: u32,
) {
    // SAFETY: the sender is valid during the call.
    let sender = sender_of(unsafe { &*sender });
    let f = |group: &Group, on: &mut Handlers| {
        if let Some(f) = &mut on.on_gap {
            f(group, sender, first, last);
        }
    };
    // SAFETY: the library calls this with a group of this crate.
    unsafe { call(group, f) };
}

unsafe extern "C" fn on_writable(group: *mut sys::rdmamsg_group) {
    let f = |group: &Group, on: &mut Handlers| {
        if let Some(f) = &mut on.on_writable {
            f(group);
        }
    };
    // SAFETY: the library calls this with a group of this crate.
    unsafe { call(group, f) };
}

unsafe extern "C" fn on_sent(group: *mut sys::rdmamsg_group, n: u64) {
    let f = |group: &Group, on: &mut Handlers| {
        if let Some(f) = &mut on.on_sent {
            f(group, n);
        }
    };
    // SAFETY: the library calls this with a group of this crate.
    unsafe { call(group, f) };
}

unsafe extern "C" fn on_flushed(
    group: *mut sys::rdmamsg_group,
    flushed: *const sys::rdmamsg_group_flushed,
) {
    // SAFETY: the result is valid during the call.
    let flushed = unsafe { *flushed };
    let f = |group: &Group, on: &mut Handlers| {
        if let Some(f) = &mut on.on_flushed {
            f(group, flushed);
        }
    };
    // SAFETY: the library calls this with a group of this crate.
    unsafe { call(group, f) };
}

unsafe extern "C" fn on_backlog(
    group: *mut sys::rdmamsg_group,
    sender: *const sys::rdmamsg_group_sender,
    first: u32,
    count: u32,
    less: c_int,
) {
    // SAFETY: the sender is valid during the call.
    let sender = sender_of(unsafe { &*sender });
    let f = |group: &Group, on: &mut Handlers| {
        if let Some(f) = &mut on.on_backlog {
            f(group, sender, first, count, less != 0);
        }
    };
    // SAFETY: the library calls this with a group of this crate.
    unsafe { call(group, f) };
}

unsafe extern "C" fn on_laggard(
    group: *mut sys::rdmamsg_group,
    m: *const sys::rdmamsg_group_member,
) {
    // SAFETY: the member is valid during the call.
    let m = unsafe { *m };
    let f = |group: &Group, on: &mut Handlers| {
        if let Some(f) = &mut on.on_laggard {
            f(group, m);
        }
    };
    // SAFETY: the library calls this with a group of this crate.
    unsafe { call(group, f) };
}

/// The last call: the library frees the group after it.
unsafe extern "C" fn on_closed(
    raw: *mut sys::rdmamsg_group,
    why: *const sys::rdmamsg_reason,
) {
    // SAFETY: join() left a reference for this call.
    let state =
        unsafe { Rc::from_raw(sys::rdmamsg_group_user(raw) as *const State) };
    let core = state.core.clone();
    core.guard((), || {
        state.group.set(ptr::null_mut());
        let group = Group::new(state);
        let mut on = group.state.on.take();
        if let Some(f) = &mut on.on_closed {
            // SAFETY: the reason is valid during the call.
            f(&group, &unsafe { Reason::copy(&*why) });
        }
    });
}

/// The text of an address: a GID as an IPv6 address.
pub fn gid_text(gid: &[u8; 16]) -> String {
    let mut chars = [0; 48];
    // SAFETY: the arrays have the sizes that the library wants.
    unsafe { sys::rdmamsg_gid_text(gid.as_ptr(), chars.as_mut_ptr()) };
    text(&chars)
}
