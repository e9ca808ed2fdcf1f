// SPDX-License-Identifier: BSD-2-Clause
//! Private: a context as its objects see it, also after its end.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::os::raw::c_int;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdmamsg_sys as sys;

use crate::context::ContextHandlers;
use crate::error::{check, ended, Error, Result};
use crate::remote::Shared;

/// Panics kept for the next calls, for programs that never make them.
const MOST_PANICS: usize = 64;

/// The objects of a context have a reference each, so that they can end after
/// it: then there is nothing left to end.
pub(crate) struct Core {
    ctx: Cell<*mut sys::rdmamsg>,
    driving: Cell<u32>,
    running: Cell<bool>,
    closing: Cell<bool>,
    close_later: Cell<bool>,
    leaked: Cell<bool>,
    panics: RefCell<VecDeque<Box<dyn Any + Send>>>,
    messages: RefCell<Messages>,
    endpoints: RefCell<HashSet<*const sys::rdmamsg_ep>>,
    kept: RefCell<Vec<Box<dyn Any>>>,
    dying: RefCell<Vec<Box<dyn FnMut() -> bool>>>,
    pub(crate) on: RefCell<ContextHandlers>,
    pub(crate) shared: Arc<Shared>,
}

/// The messages that the program has. A place is used again, so that a message
/// allocates nothing once as many were there before.
#[derive(Default)]
struct Messages {
    places: Vec<Option<NonNull<sys::rdmamsg_msg>>>,
    unused: Vec<usize>,
}

impl Core {
    pub(crate) fn new(on: ContextHandlers) -> Rc<Core> {
        Rc::new(Core {
            ctx: Cell::new(ptr::null_mut()),
            driving: Cell::new(0),
            running: Cell::new(false),
            closing: Cell::new(false),
            close_later: Cell::new(false),
            leaked: Cell::new(false),
            panics: RefCell::default(),
            messages: RefCell::default(),
            endpoints: RefCell::default(),
            kept: RefCell::default(),
            dying: RefCell::default(),
            on: RefCell::new(on),
            shared: Arc::default(),
        })
    }

    pub(crate) fn opened(&self, ctx: *mut sys::rdmamsg) {
        self.ctx.set(ctx);
        self.shared.open(ctx);
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.ctx.get().is_null()
    }

    /// True if the context could not be closed: its memory stays in use.
    pub(crate) fn is_leaked(&self) -> bool {
        self.leaked.get()
    }

    /// The context, or an error after its end.
    pub(crate) fn live(&self) -> Result<*mut sys::rdmamsg> {
        if self.is_open() {
            Ok(self.ctx.get())
        } else {
            Err(ended("the context is closed"))
        }
    }

    /// An error from the beginning of the context's end on, which first ends
    /// listeners and requests. Callbacks of endpoints follow.
    pub(crate) fn before_close(&self) -> Result<()> {
        self.live()?;
        if self.closing.get() {
            return Err(ended("the context closes"));
        }
        Ok(())
    }

    pub(crate) fn add_endpoint(&self, ep: *const sys::rdmamsg_ep) {
        self.endpoints.borrow_mut().insert(ep);
    }

    pub(crate) fn remove_endpoint(&self, ep: *const sys::rdmamsg_ep) {
        self.endpoints.borrow_mut().remove(&ep);
    }

    /// False: the endpoint is of a team.
    pub(crate) fn has_endpoint(&self, ep: *const sys::rdmamsg_ep) -> bool {
        self.endpoints.borrow().contains(&ep)
    }

    /// Keeps a panic for the end of the call that runs the callback.
    fn caught(&self, panic: Box<dyn Any + Send>) {
        let mut panics = self.panics.borrow_mut();
        if panics.len() < MOST_PANICS {
            panics.push_back(panic);
        } else {
            std::mem::forget(panic);
        }
        if self.running.get() {
            // SAFETY: the context is open while it runs.
            unsafe { sys::rdmamsg_stop(self.ctx.get()) };
        }
    }

    /// Runs a callback of the program: no panic enters the library.
    pub(crate) fn guard<R>(&self, otherwise: R, call: impl FnOnce() -> R) -> R {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(ret) => ret,
            Err(panic) => {
                self.caught(panic);
                otherwise
            }
        }
    }

    fn resume_panic(&self) {
        let panic = self.panics.borrow_mut().pop_front();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Makes a call that runs callbacks. With `keep` a call that has succeeded
    /// leaves a panic to the next one, because it has a result to return.
    pub(crate) fn drive(
        self: &Rc<Self>,
        keep: bool,
        call: impl FnOnce(*mut sys::rdmamsg) -> c_int,
    ) -> Result<c_int> {
        let ctx = self.live()?;
        if self.driving.get() == 0 {
            self.resume_panic();
        }
        self.driving.set(self.driving.get() + 1);
        let ret = call(ctx);
        let result = if ret < 0 { Err(Error::new(ret, None)) } else { Ok(ret) };
        self.driving.set(self.driving.get() - 1);
        if self.driving.get() == 0 {
            if self.close_later.get() {
                self.close();
            }
            self.retry();
            if !keep || result.is_err() {
                self.resume_panic();
            }
        }
        result
    }

    /// Drives until `done` or the timeout; None: without a limit.
    pub(crate) fn wait_until(
        self: &Rc<Self>,
        timeout: Option<Duration>,
        mut done: impl FnMut() -> bool,
    ) -> Result<()> {
        let end = timeout.map(|t| Instant::now() + t);
        while !done() {
            let left =
                end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(Error::new(
                    -libc::ETIMEDOUT,
                    Some("it took too long"),
                ));
            }
            // SAFETY: drive() passes an open context.
            self.drive(false, |ctx| unsafe {
                sys::rdmamsg_wait(ctx, wait_ms(left))
            })?;
        }
        Ok(())
    }

    pub(crate) fn run(self: &Rc<Self>) -> Result<()> {
        self.drive(false, |ctx| {
            self.running.set(true);
            // SAFETY: drive() passes an open context.
            let ret = unsafe { sys::rdmamsg_run(ctx) };
            self.running.set(false);
            ret
        })
        .map(drop)
    }

    /// Closes the context, or lets the call do it that runs this callback.
    pub(crate) fn close(self: &Rc<Self>) {
        if self.driving.get() > 0 {
            self.close_later.set(true);
            return;
        }
        if !self.is_open() || self.closing.replace(true) {
            return;
        }
        self.shared.close();
        if self.keep_messages().is_err() {
            self.leaked.set(true);
            self.ctx.set(ptr::null_mut());
            std::mem::forget(self.clone());
            return;
        }
        self.driving.set(1);
        // SAFETY: the context is open, and no call drives it.
        unsafe { sys::rdmamsg_close(self.ctx.get()) };
        self.driving.set(0);
        self.ctx.set(ptr::null_mut());
        let kept = (self.kept.take(), self.dying.take());
        let on = self.on.take();
        self.guard((), || drop((kept, on)));
    }

    /// Closes, and panics if a callback has.
    pub(crate) fn close_and_resume(self: &Rc<Self>) {
        self.close();
        self.resume_panic();
    }

    /// Tries to destroy an object again after each call that runs callbacks,
    /// until that returns true or the context ends.
    pub(crate) fn destroy_later(
        &self,
        destroy: impl FnMut() -> bool + 'static,
    ) {
        self.dying.borrow_mut().push(Box::new(destroy));
    }

    fn retry(&self) {
        if !self.dying.borrow().is_empty() {
            let mut dying = self.dying.take();
            dying.retain_mut(|destroy| !destroy());
            self.dying.borrow_mut().append(&mut dying);
        }
    }

    /// Frees the value after the context, because the library may still use it.
    pub(crate) fn keep(&self, value: Box<dyn Any>) {
        if self.is_leaked() {
            std::mem::forget(value);
        } else if self.is_open() {
            self.kept.borrow_mut().push(value);
        }
    }

    /// Counts a message as the program's. Its memory outlives the context.
    pub(crate) fn add_message(
        &self,
        msg: NonNull<sys::rdmamsg_msg>,
    ) -> Result<usize> {
        if self.closing.get() {
            outlive(msg)?;
        }
        let mut all = self.messages.borrow_mut();
        if let Some(place) = all.unused.pop() {
            all.places[place] = Some(msg);
            return Ok(place);
        }
        all.places.push(Some(msg));
        Ok(all.places.len() - 1)
    }

    pub(crate) fn remove_message(&self, place: usize) {
        let mut all = self.messages.borrow_mut();
        all.places[place] = None;
        all.unused.push(place);
    }

    fn keep_messages(&self) -> Result<()> {
        let all = self.messages.borrow();
        all.places.iter().flatten().try_for_each(|msg| outlive(*msg))
    }
}

/// Makes a message of the program valid after its context. The reference that
/// is left is of the kind that any thread may free.
pub(crate) fn outlive(msg: NonNull<sys::rdmamsg_msg>) -> Result<()> {
    // SAFETY: the message is the program's, and has two references then.
    unsafe {
        check(sys::rdmamsg_msg_ref(msg.as_ptr()))?;
        sys::rdmamsg_msg_free(msg.as_ptr());
    }
    Ok(())
}

/// A timeout of a call that waits, rounded up; None: no limit.
pub(crate) fn wait_ms(timeout: Option<Duration>) -> c_int {
    match timeout {
        None => -1,
        Some(t) => {
            let ms = (t.as_nanos() + 999_999) / 1_000_000;
            ms.min(c_int::MAX as u128) as c_int
        }
    }
}

/// A duration of an option, rounded up; `Duration::MAX` means none.
pub(crate) fn option_ms(t: Duration) -> u32 {
    if t == Duration::MAX {
        return sys::RDMAMSG_NONE;
    }
    let ms = (t.as_nanos() + 999_999) / 1_000_000;
    ms.min(u128::from(sys::RDMAMSG_NONE - 1)) as u32
}

/// A struct of the C interface that is all defaults. `S` has only integers,
/// pointers and optional functions.
macro_rules! sized {
    ($type:ident) => {{
        // SAFETY: zeros are the defaults of a struct of the C interface.
        let mut s: sys::$type = unsafe { std::mem::zeroed() };
        s.size = std::mem::size_of::<sys::$type>();
        s
    }};
}
pub(crate) use sized;
