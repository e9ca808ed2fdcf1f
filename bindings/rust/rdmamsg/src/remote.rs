// SPDX-License-Identifier: BSD-2-Clause
//! Calls to a context from other threads.

use std::os::raw::c_void;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use rdmamsg_sys as sys;

use crate::context::Context;
use crate::core::Core;
use crate::error::{check, ended, Error, Result};

/// The context as other threads see it. A call holds the lock, so the context
/// stays open until it returns. The context's thread takes the pointer away
/// before it closes.
#[derive(Default)]
pub(crate) struct Shared {
    ctx: RwLock<AtomicPtr<sys::rdmamsg>>,
}

impl Shared {
    pub(crate) fn open(&self, ctx: *mut sys::rdmamsg) {
        self.lock().store(ctx, Ordering::Release);
    }

    pub(crate) fn close(&self) {
        let ctx = self.ctx.write().unwrap_or_else(PoisonError::into_inner);
        ctx.store(ptr::null_mut(), Ordering::Release);
    }

    fn lock(&self) -> RwLockReadGuard<'_, AtomicPtr<sys::rdmamsg>> {
        self.ctx.read().unwrap_or_else(PoisonError::into_inner)
    }
}

type Job = Box<dyn FnOnce(&Context) + Send>;

/// A handle to a context for any thread, also after the end of the context.
///
/// ```
/// fn any_thread<T: Send + Sync>() {}
/// any_thread::<rdmamsg::Remote>();
/// ```
#[derive(Clone)]
pub struct Remote {
    shared: Arc<Shared>,
}

impl Remote {
    pub(crate) fn new(core: &Core) -> Remote {
        Remote { shared: core.shared.clone() }
    }

    /// Runs `job` once in the context's thread, inside a call that drives the
    /// context, or when it is closed. [`Error::Again`]: the queue is full.
    pub fn submit(
        &self,
        job: impl FnOnce(&Context) + Send + 'static,
    ) -> Result<()> {
        let guard = self.shared.lock();
        let ctx = guard.load(Ordering::Acquire);
        if ctx.is_null() {
            return Err(ended("the context is closed"));
        }
        let job: Job = Box::new(job);
        let arg = Box::into_raw(Box::new(job));
        // SAFETY: the lock keeps the context open; run_job() frees the
        // argument.
        let ret =
            unsafe { sys::rdmamsg_submit(ctx, Some(run_job), arg.cast()) };
        if ret == 0 {
            return Ok(());
        }
        // SAFETY: the library has not accepted the argument.
        drop(unsafe { Box::from_raw(arg) });
        if ret == -libc::EAGAIN {
            return Err(Error::Again);
        }
        check(ret)
    }

    /// Makes [`Context::run`] return: the running call or the next.
    pub fn stop(&self) {
        let guard = self.shared.lock();
        let ctx = guard.load(Ordering::Acquire);
        if !ctx.is_null() {
            // SAFETY: the lock keeps the context open.
            unsafe { sys::rdmamsg_stop(ctx) };
        }
    }
}

unsafe extern "C" fn run_job(ctx: *mut sys::rdmamsg, arg: *mut c_void) {
    // SAFETY: submit() made the argument, and the library calls this once.
    let job = unsafe { Box::from_raw(arg.cast::<Job>()) };
    // SAFETY: the context calls this while it is open.
    let core = unsafe { core_of(ctx) };
    core.guard((), || Context::lend(&core, |ctx| job(ctx)));
}

/// # Safety
/// `ctx` is open, and of this crate.
pub(crate) unsafe fn core_of(ctx: *const sys::rdmamsg) -> Rc<Core> {
    // SAFETY: the user pointer of an open context is its core.
    unsafe {
        let core = sys::rdmamsg_user(ctx) as *const Core;
        Rc::increment_strong_count(core);
        Rc::from_raw(core)
    }
}
