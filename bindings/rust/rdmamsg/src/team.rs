// SPDX-License-Identifier: BSD-2-Clause
//! Teams: operations that all members take part in.

use std::cell::RefCell;
use std::os::raw::{c_int, c_void};
use std::ptr;
use std::rc::Rc;
use std::time::Duration;

use rdmamsg_sys as sys;

use crate::context::{required, Context};
use crate::core::{option_ms, sized, wait_ms, Core};
use crate::device::text;
use crate::error::{check, Result};
use crate::pending::{complete, Pending};

/// Why a team has failed.
#[derive(Clone, Debug)]
pub struct TeamFailure {
    /// The rank of the member that has failed.
    pub rank: u32,
    /// The member that has seen it.
    pub told_by: u32,
    /// A negative errno, 0 if the team has not failed.
    pub error: i32,
    /// The failure and the likely cause.
    pub text: String,
}

/// How members' values are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// The sum.
    Add,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

mod element {
    /// Types that the library calculates with.
    pub trait Element: Copy + 'static {
        const TYPE: u32;
    }
}

/// An element of [`Team::allreduce`]: `i64`, `u64` or `f64`.
pub trait Element: element::Element {}

macro_rules! elements {
    ($($type:ty: $name:ident;)*) => {
        $(impl element::Element for $type {
            const TYPE: u32 = sys::$name;
        }
        impl Element for $type {})*
    };
}

elements! {
    i64: RDMAMSG_CALC_INT;
    u64: RDMAMSG_CALC_UINT;
    f64: RDMAMSG_CALC_DOUBLE;
}

/// The state outlives the team: the library's functions find the context by it.
struct State {
    core: Rc<Core>,
    /// Of the operation that runs: without its end the memory stays.
    running: RefCell<Option<*mut c_void>>,
}

/// A member of a team. All members call the same operations in the same order.
/// An operation has its memory until its end.
pub struct Team {
    team: *mut sys::rdmamsg_team,
    state: Rc<State>,
}

impl Team {
    /// Makes a team of the members that listen at these addresses, "HOST:PORT",
    /// with this one's rank. Connecting is its first operation: [`Team::wait`].
    /// Zero means the default timeout.
    pub fn connect(
        ctx: &Context,
        addresses: &[&str],
        rank: u32,
        timeout: Duration,
    ) -> Result<Team> {
        let raw = ctx.core.live()?;
        let mut texts = Vec::with_capacity(addresses.len());
        for address in addresses {
            texts.push(required(address)?);
        }
        let list: Vec<_> = texts.iter().map(|t| t.as_ptr()).collect();
        let state = Rc::new(State {
            core: ctx.core.clone(),
            running: RefCell::default(),
        });
        let mut handlers = sized!(rdmamsg_team_handlers);
        handlers.on_done = Some(on_done);
        let mut opts = sized!(rdmamsg_team_options);
        opts.user = Rc::as_ptr(&state) as *mut c_void;
        opts.handlers = &handlers;
        opts.timeout_ms = option_ms(timeout);
        let mut team = ptr::null_mut();
        // SAFETY: the context is open, and the list valid during the call.
        check(unsafe {
            let size = list.len() as u32;
            sys::rdmamsg_team_connect(
                raw,
                &opts,
                list.as_ptr(),
                size,
                rank,
                &mut team,
            )
        })?;
        Ok(Team { team, state })
    }

    fn raw(&self) -> Result<*mut sys::rdmamsg_team> {
        self.state.core.live()?;
        Ok(self.team)
    }

    fn begin<T: 'static>(
        &self,
        value: T,
        call: impl FnOnce(*mut sys::rdmamsg_team, *mut c_void, &mut T) -> c_int,
    ) -> Result<Pending<T>> {
        let team = self.raw()?;
        let begun =
            Pending::begin(&self.state.core, value, |cookie, value| {
                call(team, cookie, value)
            })?;
        *self.state.running.borrow_mut() = Some(begun.cookie());
        Ok(begun)
    }

    /// Ends after all members have begun.
    pub fn barrier(&self) -> Result<Pending<()>> {
        // SAFETY: the team is open.
        self.begin((), |team, cookie, _| unsafe {
            sys::rdmamsg_team_barrier(team, cookie)
        })
    }

    /// Copies the bytes of member `root` to those of all others, which have the
    /// same length.
    pub fn broadcast(
        &self,
        bytes: Vec<u8>,
        root: u32,
    ) -> Result<Pending<Vec<u8>>> {
        // SAFETY: the team is open, and the operation has the bytes.
        self.begin(bytes, |team, cookie, bytes| unsafe {
            let (p, len) = (bytes.as_mut_ptr().cast(), bytes.len());
            sys::rdmamsg_team_broadcast(team, p, len, root, cookie)
        })
    }

    /// Combines the values of all members.
    pub fn allreduce<T: Element>(
        &self,
        how: Combine,
        values: Vec<T>,
    ) -> Result<Pending<Vec<T>>> {
        let op = match how {
            Combine::Add => sys::RDMAMSG_CALC_ADD,
            Combine::Min => sys::RDMAMSG_CALC_MIN,
            Combine::Max => sys::RDMAMSG_CALC_MAX,
        };
        // SAFETY: the team is open, and the operation has the values.
        self.begin(values, |team, cookie, values| unsafe {
            let (p, len) = (values.as_mut_ptr().cast::<c_void>(), values.len());
            sys::rdmamsg_team_allreduce(team, op, T::TYPE, p, p, len, cookie)
        })
    }

    /// Drives the context until no operation runs.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        let team = self.raw()?;
        // SAFETY: the team is open, and drive() needs an open context.
        let ret = self.state.core.drive(false, |_| unsafe {
            sys::rdmamsg_team_wait(team, wait_ms(timeout))
        });
        ret.map(drop)
    }

    /// Fails the team at all members.
    pub fn abort(&self) {
        if let Ok(team) = self.raw() {
            // SAFETY: the team is open.
            unsafe { sys::rdmamsg_team_abort(team) };
        }
    }

    /// Why the team has failed.
    pub fn failure(&self) -> Result<TeamFailure> {
        let team = self.raw()?;
        // SAFETY: the team is open, and returns a struct that is never NULL.
        let f = unsafe { &*sys::rdmamsg_team_reason(team) };
        Ok(TeamFailure {
            rank: f.rank,
            told_by: f.told_by,
            error: f.error,
            text: text(&f.text),
        })
    }
}

impl Drop for Team {
    /// An operation that runs has no end then. Its memory stays until the end
    /// of the context, because devices may still reach it.
    fn drop(&mut self) {
        if let Ok(team) = self.raw() {
            // SAFETY: the team is open, and nothing uses it after this.
            unsafe { sys::rdmamsg_team_destroy(team) };
        }
        if let Some(cookie) = self.state.running.take() {
            self.state.core.keep(Box::new(Unfinished(cookie)));
        }
    }
}

/// An operation of a team that was destroyed.
struct Unfinished(*mut c_void);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // SAFETY: the team has not completed the operation, and never will.
        unsafe { complete(self.0, -libc::ECANCELED) };
    }
}

unsafe extern "C" fn on_done(
    team: *mut sys::rdmamsg_team,
    cookie: *mut c_void,
    status: c_int,
) {
    if cookie.is_null() {
        return;
    }
    // SAFETY: the user pointer is the state, which Team has.
    let state = unsafe {
        let state = sys::rdmamsg_team_user(team) as *const State;
        Rc::increment_strong_count(state);
        Rc::from_raw(state)
    };
    state.running.take();
    // SAFETY: the cookie is of an operation that ends now.
    state.core.guard((), || unsafe { complete(cookie, status) });
}
