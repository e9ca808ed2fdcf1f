// SPDX-License-Identifier: BSD-2-Clause
//! One-sided operations on a peer's memory: rdmamsg_post(3).

use std::ops::Range;
use std::os::raw::c_void;
use std::ptr;
use std::time::Duration;

use rdmamsg_sys as sys;

use crate::core::{option_ms, sized};
use crate::endpoint::Endpoint;
use crate::error::Result;
use crate::key::Key;
use crate::pending::Pending;
use crate::region::Region;
use crate::state::on_late;

/// A place in a peer's memory, and how an operation goes there. The peer's
/// program takes no part.
#[derive(Clone)]
#[must_use = "nothing begins before the operation is named"]
pub struct Target<'a> {
    ep: &'a Endpoint,
    key: Key,
    offset: u64,
    flags: u32,
    imm: u32,
    timeout: Duration,
}

impl Endpoint {
    /// The place at an offset from the beginning of a key.
    pub fn at(&self, key: &Key, offset: u64) -> Target<'_> {
        Target {
            ep: self,
            key: *key,
            offset,
            flags: 0,
            imm: 0,
            timeout: Duration::ZERO,
        }
    }

    /// Ends when all earlier writes are in the peer's memory.
    pub fn flush(&self) -> Result<Pending<()>> {
        let mut op = sized!(rdmamsg_op);
        op.kind = sys::RDMAMSG_OP_FLUSH;
        post(self, op, (), |_, _| {})
    }

    /// Sends a part of a region as a message. A large one is neither copied nor
    /// registered again, for which the region needs [`crate::Access::READ`].
    pub fn send_region(
        &self,
        region: &Region,
        part: Range<usize>,
        tag: u32,
    ) -> Result<Pending<Region>> {
        let entry = region.entry(&part)?;
        let mut op = sized!(rdmamsg_op);
        op.kind = sys::RDMAMSG_OP_SEND;
        op.tag = tag;
        op.sge = &entry;
        op.count = 1;
        post(self, op, region.clone(), |_, _| {})
    }
}

impl Target<'_> {
    /// Begins when all earlier reads and atomic operations are done.
    pub fn fence(mut self) -> Self {
        self.flags |= sys::RDMAMSG_FENCE;
        self
    }

    /// Writes: the peer gets `on_written` with this value behind the write.
    pub fn notify(mut self, value: u32) -> Self {
        self.flags |= sys::RDMAMSG_OP_NOTIFY;
        self.imm = value;
        self
    }

    /// The deadline of the operation: see [`crate::Error::Overdue`].
    pub fn timeout(mut self, t: Duration) -> Self {
        self.timeout = t;
        self
    }

    fn op(&self, kind: u32) -> sys::rdmamsg_op {
        let mut op = sized!(rdmamsg_op);
        op.kind = kind;
        op.flags = self.flags;
        op.imm = self.imm;
        op.key = &self.key.0;
        op.offset = self.offset;
        if self.timeout > Duration::ZERO {
            op.timeout_ms = option_ms(self.timeout).min(i32::MAX as u32);
            op.on_late = Some(on_late);
        }
        op
    }

    /// Writes a part of a region.
    pub fn write(
        self,
        region: &Region,
        part: Range<usize>,
    ) -> Result<Pending<Region>> {
        self.transfer(sys::RDMAMSG_OP_WRITE, region, part)
    }

    /// Reads into a part of a region with [`crate::Access::LOCAL_WRITE`].
    pub fn read(
        self,
        region: &Region,
        part: Range<usize>,
    ) -> Result<Pending<Region>> {
        self.transfer(sys::RDMAMSG_OP_READ, region, part)
    }

    fn transfer(
        self,
        kind: u32,
        region: &Region,
        part: Range<usize>,
    ) -> Result<Pending<Region>> {
        let entry = region.entry(&part)?;
        let mut op = self.op(kind);
        op.sge = &entry;
        op.count = 1;
        post(self.ep, op, region.clone(), |_, _| {})
    }

    /// Writes a copy of bytes, up to `eager_max` of [`Endpoint::attributes`].
    pub fn write_copy(self, bytes: &[u8]) -> Result<Pending<()>> {
        let entry = sys::rdmamsg_sge {
            data: bytes.as_ptr() as *mut c_void,
            len: bytes.len(),
            region: ptr::null_mut(),
        };
        let mut op = self.op(sys::RDMAMSG_OP_WRITE);
        op.sge = &entry;
        op.count = 1;
        post(self.ep, op, (), |_, _| {})
    }

    /// Adds to an integer of 8 bytes. The result is its value before.
    pub fn fetch_add(self, add: u64) -> Result<Pending<u64>> {
        let mut op = self.op(sys::RDMAMSG_OP_FETCH_ADD);
        op.operand = (&add as *const u64).cast();
        post(self.ep, op, 0, set_result)
    }

    /// Writes `desired` to an integer of 8 bytes if it has the value
    /// `expected`. The result is its value before.
    pub fn compare_swap(
        self,
        expected: u64,
        desired: u64,
    ) -> Result<Pending<u64>> {
        let mut op = self.op(sys::RDMAMSG_OP_COMPARE_SWAP);
        op.operand = (&desired as *const u64).cast();
        op.compare = (&expected as *const u64).cast();
        post(self.ep, op, 0, set_result)
    }
}

/// The operation has the integer until its end, and nothing moves it.
fn set_result(op: &mut sys::rdmamsg_op, result: &mut u64) {
    op.result = (result as *mut u64).cast();
}

fn post<T: 'static>(
    ep: &Endpoint,
    mut op: sys::rdmamsg_op,
    value: T,
    fill: impl FnOnce(&mut sys::rdmamsg_op, &mut T),
) -> Result<Pending<T>> {
    let raw = ep.raw()?;
    let begun = Pending::begin(&ep.state.core, value, |cookie, value| {
        op.cookie = cookie;
        fill(&mut op, value);
        // SAFETY: the endpoint is held; what the operation borrows is in the
        // value until its end, and the call copies the rest.
        unsafe { sys::rdmamsg_post(raw, &op) }
    });
    Ok(begun?)
}
