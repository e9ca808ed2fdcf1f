// SPDX-License-Identifier: BSD-2-Clause
//! Memory for one-sided operations.

use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::mem::{size_of, ManuallyDrop};
use std::ops::Range;
use std::os::raw::c_void;
use std::os::unix::io::{AsRawFd, BorrowedFd};
use std::ptr;
use std::rc::Rc;

use rdmamsg_sys as sys;

use crate::context::Context;
use crate::core::Core;
use crate::device::invalid;
use crate::endpoint::Endpoint;
use crate::error::{check, Result};
use crate::key::{Access, Key};

/// A page, which any atomic operation is aligned in.
const ALIGN: usize = 4096;

/// Bytes without references to them, because peers may change them.
enum Memory {
    Own(*mut u8, Layout),
    Vec(ManuallyDrop<Vec<u8>>, *mut u8),
    /// Of another device: not of this program.
    Dmabuf,
}

impl Memory {
    fn zeroed(len: usize) -> Result<Memory> {
        let layout = Layout::from_size_align(len.max(1), ALIGN)
            .map_err(|_| invalid("the region is too large"))?;
        // SAFETY: the layout has a size.
        let p = unsafe { alloc_zeroed(layout) };
        if p.is_null() {
            handle_alloc_error(layout);
        }
        Ok(Memory::Own(p, layout))
    }

    fn of_vec(vec: Vec<u8>) -> Memory {
        let mut vec = ManuallyDrop::new(vec);
        let p = vec.as_mut_ptr();
        Memory::Vec(vec, p)
    }

    fn base(&self) -> *mut u8 {
        match self {
            Memory::Own(p, _) | Memory::Vec(_, p) => *p,
            Memory::Dmabuf => ptr::null_mut(),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match self {
            // SAFETY: zeroed() has allocated it with this layout.
            Memory::Own(p, layout) => unsafe { dealloc(*p, *layout) },
            // SAFETY: the vector is not used after this.
            Memory::Vec(vec, _) => unsafe { ManuallyDrop::drop(vec) },
            Memory::Dmabuf => {}
        }
    }
}

struct Inner {
    core: Rc<Core>,
    region: *mut sys::rdmamsg_region,
    memory: ManuallyDrop<Memory>,
    len: usize,
}

impl Drop for Inner {
    /// The memory stays as long as a device may reach it.
    fn drop(&mut self) {
        // SAFETY: the field is not used after this.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        let region = self.region;
        if !self.core.is_open() {
            self.core.keep(Box::new(memory));
            return;
        }
        // SAFETY: the context is open, so the region is.
        match unsafe { sys::rdmamsg_region_destroy(region) } {
            0 => drop(memory),
            ret if ret == -libc::EBUSY => self.core.destroy_later(move || {
                let _memory = &memory;
                // SAFETY: the context is open when it tries again.
                unsafe { sys::rdmamsg_region_destroy(region) == 0 }
            }),
            _ => self.core.keep(Box::new(memory)),
        }
    }
}

/// Memory that takes part in one-sided operations. Operations have a reference,
/// so it is not freed before their end. It is read and written by copies,
/// because peers may change it at any time: a copy may then have old and new
/// bytes in any mixture.
///
/// ```compile_fail
/// fn any_thread<T: Send>() {}
/// any_thread::<rdmamsg::Region>();
/// ```
#[derive(Clone)]
pub struct Region {
    inner: Rc<Inner>,
}

impl Region {
    /// A region of zeros, at the beginning of a page.
    pub fn new(ctx: &Context, len: usize, access: Access) -> Result<Region> {
        Region::create(ctx, Memory::zeroed(len)?, len, access)
    }

    /// A region of the bytes of a vector, where they are.
    pub fn from_vec(
        ctx: &Context,
        vec: Vec<u8>,
        access: Access,
    ) -> Result<Region> {
        let len = vec.len();
        Region::create(ctx, Memory::of_vec(vec), len, access)
    }

    fn create(
        ctx: &Context,
        memory: Memory,
        len: usize,
        access: Access,
    ) -> Result<Region> {
        let raw = ctx.core.live()?;
        let mut region = ptr::null_mut();
        let base: *mut c_void = memory.base().cast();
        // SAFETY: the context is open; the memory stays longer than the region.
        check(unsafe {
            sys::rdmamsg_region_create(raw, base, len, access.0, &mut region)
        })?;
        Ok(Region::made(ctx, memory, len, region))
    }

    fn made(
        ctx: &Context,
        memory: Memory,
        len: usize,
        region: *mut sys::rdmamsg_region,
    ) -> Region {
        Region {
            inner: Rc::new(Inner {
                core: ctx.core.clone(),
                region,
                memory: ManuallyDrop::new(memory),
                len,
            }),
        }
    }

    /// A region of a dmabuf, which may be memory of another device.
    pub fn dmabuf(
        ctx: &Context,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        access: Access,
    ) -> Result<Region> {
        let raw = ctx.core.live()?;
        let mut region = ptr::null_mut();
        // SAFETY: the context and the descriptor are open.
        check(unsafe {
            sys::rdmamsg_region_dmabuf(
                raw,
                fd.as_raw_fd(),
                offset,
                len,
                access.0,
                &mut region,
            )
        })?;
        Ok(Region::made(ctx, Memory::Dmabuf, len, region))
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.inner.len
    }

    /// True if the region has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The region, or an error after the end of its context.
    pub(crate) fn raw(&self) -> Result<*mut sys::rdmamsg_region> {
        self.inner.core.live()?;
        Ok(self.inner.region)
    }

    /// Registers the region for the endpoint's device.
    pub fn register(&self, ep: &Endpoint) -> Result<()> {
        let (region, ep) = (self.raw()?, ep.raw()?);
        // SAFETY: both are valid.
        check(unsafe { sys::rdmamsg_region_register(region, ep) })
    }

    /// A key for peers that are connected through this endpoint's device.
    pub fn key(&self, ep: &Endpoint) -> Result<Key> {
        let (region, ep) = (self.raw()?, ep.raw()?);
        let mut key = sys::rdmamsg_key { bytes: [0; 32] };
        // SAFETY: both are valid.
        check(unsafe { sys::rdmamsg_region_get_key(region, ep, &mut key) })?;
        Ok(Key(key))
    }

    pub(crate) fn request_key(
        &self,
        req: *mut sys::rdmamsg_request,
    ) -> Result<Key> {
        let region = self.raw()?;
        let mut key = sys::rdmamsg_key { bytes: [0; 32] };
        // SAFETY: both are valid.
        check(unsafe { sys::rdmamsg_request_get_key(req, region, &mut key) })?;
        Ok(Key(key))
    }

    /// Ends the access of all keys. If a peer uses one, its connection ends.
    pub fn revoke(&self) -> Result<()> {
        let region = self.raw()?;
        // SAFETY: the region is valid.
        check(unsafe { sys::rdmamsg_region_revoke(region) })
    }

    /// The address of a part, which must be in the region.
    fn part(&self, offset: usize, len: usize) -> Result<*mut u8> {
        let base = self.inner.memory.base();
        match offset.checked_add(len) {
            Some(end) if end <= self.len() && !base.is_null() => {
                // SAFETY: the offset is in the region.
                Ok(unsafe { base.add(offset) })
            }
            _ => Err(invalid("the part is outside of the region's memory")),
        }
    }

    /// Copies from the region.
    pub fn read_at(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        let from = self.part(offset, to.len())?;
        // SAFETY: the part is in the region, to which there are no references.
        unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies to the region.
    pub fn write_at(&self, offset: usize, from: &[u8]) -> Result<()> {
        let to = self.part(offset, from.len())?;
        // SAFETY: the part is in the region, to which there are no references.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    /// A copy of a part.
    pub fn to_vec(&self, part: Range<usize>) -> Result<Vec<u8>> {
        let len = part.end.saturating_sub(part.start);
        self.part(part.start, len)?;
        let mut copy = vec![0; len];
        self.read_at(part.start, &mut copy)?;
        Ok(copy)
    }

    /// The integer at an offset, a multiple of 8, as atomic operations use it.
    pub fn load(&self, offset: usize) -> Result<u64> {
        let p = self.part(offset, size_of::<u64>())?.cast::<u64>();
        if p as usize % size_of::<u64>() != 0 {
            return Err(invalid("the offset is not a multiple of 8"));
        }
        // SAFETY: the integer is in the region, and aligned.
        Ok(unsafe { ptr::read_volatile(p) })
    }

    /// Writes the integer at an offset, a multiple of 8.
    pub fn store(&self, offset: usize, value: u64) -> Result<()> {
        let p = self.part(offset, size_of::<u64>())?.cast::<u64>();
        if p as usize % size_of::<u64>() != 0 {
            return Err(invalid("the offset is not a multiple of 8"));
        }
        // SAFETY: the integer is in the region, and aligned.
        unsafe { ptr::write_volatile(p, value) };
        Ok(())
    }

    /// A gather entry of a part.
    pub(crate) fn entry(
        &self,
        part: &Range<usize>,
    ) -> Result<sys::rdmamsg_sge> {
        let region = self.raw()?;
        if part.start > part.end || part.end > self.len() {
            return Err(invalid("the part is outside of the region"));
        }
        // in a dmabuf the address is the offset
        let base = self.inner.memory.base() as usize;
        Ok(sys::rdmamsg_sge {
            data: (base + part.start) as *mut c_void,
            len: part.len(),
            region,
        })
    }
}
