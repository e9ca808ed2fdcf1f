// SPDX-License-Identifier: BSD-2-Clause
//! Contexts: one thread, one descriptor, and all that is made from them.

use std::ffi::CString;
use std::mem::ManuallyDrop;
use std::os::raw::{c_char, c_int, c_void};
use std::os::unix::io::{AsRawFd, RawFd};
use std::ptr;
use std::rc::Rc;
use std::time::Duration;

use rdmamsg_sys as sys;

use crate::core::{sized, wait_ms, Core};
use crate::endpoint::Endpoint;
use crate::error::{check, Result};
use crate::listener::{ListenOptions, Listener};
use crate::options::{c_string, opt_ptr, EndpointOptions};
use crate::reason::text_of;
use crate::remote::{core_of, Remote};

/// An event of a device, of a port or of an endpoint.
pub struct Event {
    /// The value of `enum ibv_event_type`, -1 if the device is gone.
    pub kind: i32,
    /// Its name.
    pub name: String,
    /// The name of the device.
    pub device: String,
    /// The port, 0 if the event is not about a port.
    pub port: u32,
    /// The endpoint that the event is about.
    pub endpoint: Option<Endpoint>,
}

#[derive(Default)]
pub(crate) struct ContextHandlers {
    on_event: Option<Box<dyn FnMut(&Event)>>,
    on_shutdown: Option<Box<dyn FnMut(u32)>>,
}

/// Options of a context. What is not set is the default of the C interface.
#[derive(Default)]
pub struct ContextOptions {
    on: ContextHandlers,
    spin: Duration,
    submit_depth: u32,
    max_registered: usize,
    max_send_registered: usize,
    group_rate: u32,
    key: Vec<u8>,
    key_file: Option<String>,
}

impl ContextOptions {
    /// All defaults.
    pub fn new() -> ContextOptions {
        ContextOptions::default()
    }

    /// Reports events of devices, ports and endpoints.
    pub fn on_event(mut self, f: impl FnMut(&Event) + 'static) -> Self {
        self.on.on_event = Some(Box::new(f));
        self
    }

    /// The end of a shutdown, with the number of connections and groups that
    /// did not end gracefully.
    pub fn on_shutdown(mut self, f: impl FnMut(u32) + 'static) -> Self {
        self.on.on_shutdown = Some(Box::new(f));
        self
    }

    /// [`Context::wait`] polls so long before it sleeps; microseconds count.
    pub fn spin(mut self, t: Duration) -> Self {
        self.spin = t;
        self
    }

    /// Places in the queue of [`Remote::submit`].
    pub fn submit_depth(mut self, n: u32) -> Self {
        self.submit_depth = n;
        self
    }

    /// Most bytes of registered memory.
    pub fn max_registered(mut self, bytes: usize) -> Self {
        self.max_registered = bytes;
        self
    }

    /// The share of these bytes for sending.
    pub fn max_send_registered(mut self, bytes: usize) -> Self {
        self.max_send_registered = bytes;
        self
    }

    /// Datagrams a second of all groups together.
    pub fn group_rate(mut self, datagrams: u32) -> Self {
        self.group_rate = datagrams;
        self
    }

    /// A pre-shared key of 16 to 4096 bytes, which each peer must have, too.
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = key.into();
        self
    }

    /// A file with the key, which only its owner can read.
    pub fn key_file(mut self, path: impl Into<String>) -> Self {
        self.key_file = Some(path.into());
        self
    }
}

/// The owner of everything that connects, listens and receives. It belongs to
/// the thread that has opened it, and so does everything made from it.
///
/// Endpoints, messages and other objects may live longer: then their calls
/// fail, and the data of messages stays.
///
/// ```compile_fail
/// fn any_thread<T: Send>() {}
/// any_thread::<rdmamsg::Context>();
/// ```
pub struct Context {
    pub(crate) core: Rc<Core>,
}

impl Context {
    /// Opens a context with all defaults.
    pub fn new() -> Result<Context> {
        Context::with_options(ContextOptions::new())
    }

    /// Opens a context.
    pub fn with_options(o: ContextOptions) -> Result<Context> {
        let core = Core::new(o.on);
        let key_file = c_string(o.key_file.as_deref())?;
        let mut handlers = sized!(rdmamsg_ctx_handlers);
        handlers.on_event = Some(on_event);
        handlers.on_shutdown = Some(on_shutdown);
        let mut opts = sized!(rdmamsg_options);
        opts.user = Rc::as_ptr(&core) as *mut c_void;
        opts.handlers = &handlers;
        opts.spin_us = o.spin.as_micros().min(u128::from(u32::MAX - 1)) as u32;
        opts.submit_depth = o.submit_depth;
        opts.max_registered = o.max_registered;
        opts.max_send_registered = o.max_send_registered;
        opts.group_rate = o.group_rate;
        opts.key_len = o.key.len();
        if !o.key.is_empty() {
            opts.key = o.key.as_ptr().cast();
        }
        opts.key_file = opt_ptr(&key_file);
        let mut ctx = ptr::null_mut();
        // SAFETY: the options are valid during the call, and the core, which
        // the context knows, is freed after it.
        check(unsafe { sys::rdmamsg_open(&mut ctx, &opts) })?;
        core.opened(ctx);
        Ok(Context { core })
    }

    /// Gives a callback a context that it does not own.
    pub(crate) fn lend<R>(
        core: &Rc<Core>,
        call: impl FnOnce(&Context) -> R,
    ) -> R {
        /// The reference without the end of the context.
        struct Lent(ManuallyDrop<Context>);
        impl Drop for Lent {
            fn drop(&mut self) {
                // SAFETY: the struct ends, so nothing uses the field again.
                unsafe { ptr::drop_in_place(&mut self.0.core) }
            }
        }
        call(&Lent(ManuallyDrop::new(Context { core: core.clone() })).0)
    }

    /// Starts to connect to `service` (name or port number) on `host`.
    pub fn connect(
        &self,
        host: &str,
        service: &str,
        opts: EndpointOptions,
    ) -> Result<Endpoint> {
        Endpoint::connect(&self.core, host, service, opts)
    }

    /// Connects, and drives the context until the endpoint is connected. The
    /// time is limited by [`EndpointOptions::timeout`].
    pub fn connect_wait(
        &self,
        host: &str,
        service: &str,
        opts: EndpointOptions,
    ) -> Result<Endpoint> {
        let ep = self.connect(host, service, opts)?;
        ep.connected(None)?;
        Ok(ep)
    }

    /// Listens on `service` at `host`; "" means every address, "0" a free port.
    pub fn listen(
        &self,
        host: &str,
        service: &str,
        opts: ListenOptions,
    ) -> Result<Listener> {
        Listener::new(&self.core, host, service, opts)
    }

    /// Handles pending events. If there are none, waits for up to `timeout`.
    /// Returns the number of events.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<usize> {
        // SAFETY: drive() passes an open context.
        self.drive(|ctx| unsafe { sys::rdmamsg_wait(ctx, wait_ms(timeout)) })
    }

    /// Handles pending events without waiting. Returns their number.
    pub fn process(&self) -> Result<usize> {
        // SAFETY: drive() passes an open context.
        self.drive(|ctx| unsafe { sys::rdmamsg_process(ctx) })
    }

    /// Polls the completion queues once, without a system call. Returns the
    /// number of completions and events.
    pub fn poll(&self) -> Result<usize> {
        // SAFETY: drive() passes an open context.
        self.drive(|ctx| unsafe { sys::rdmamsg_poll(ctx) })
    }

    fn drive(
        &self,
        call: impl FnOnce(*mut sys::rdmamsg) -> c_int,
    ) -> Result<usize> {
        self.core.drive(false, call).map(|n| n as usize)
    }

    /// Drives the context until [`Remote::stop`].
    pub fn run(&self) -> Result<()> {
        self.core.run()
    }

    /// Drives the context until `done` returns true.
    pub fn wait_until(
        &self,
        timeout: Option<Duration>,
        done: impl FnMut() -> bool,
    ) -> Result<()> {
        self.core.wait_until(timeout, done)
    }

    /// A handle for other threads, and for callbacks that end [`Context::run`].
    pub fn remote(&self) -> Remote {
        Remote::new(&self.core)
    }

    /// Begins to end the context gracefully. `on_shutdown` follows.
    pub fn shutdown(&self, timeout: Option<Duration>) -> Result<()> {
        let ctx = self.core.live()?;
        // SAFETY: the context is open.
        check(unsafe { sys::rdmamsg_shutdown(ctx, wait_ms(timeout)) })
    }

    /// Ends the context gracefully, and returns the number of connections and
    /// groups that did not.
    pub fn shutdown_wait(&self, timeout: Option<Duration>) -> Result<usize> {
        // SAFETY: drive() passes an open context.
        self.drive(|ctx| unsafe {
            sys::rdmamsg_shutdown_wait(ctx, wait_ms(timeout))
        })
    }

    /// Closes the context as dropping it does. A panic of a callback that this
    /// calls goes on here, and is lost when the context is dropped.
    pub fn close(self) {
        self.core.close_and_resume();
    }

    /// Collects sends until the guard is dropped, and posts them together.
    pub fn cork(&self) -> Result<Cork<'_>> {
        let ctx = self.core.live()?;
        // SAFETY: the context is open.
        check(unsafe { sys::rdmamsg_cork(ctx) })?;
        Ok(Cork { ctx: self })
    }

    /// The counters of the context.
    pub fn stats(&self) -> Result<sys::rdmamsg_stats> {
        let ctx = self.core.live()?;
        let mut stats = sized!(rdmamsg_stats);
        // SAFETY: the context is open, and the struct has its size.
        check(unsafe { sys::rdmamsg_get_stats(ctx, &mut stats) })?;
        Ok(stats)
    }

    /// The statistics in the text format of Prometheus.
    pub fn stats_text(&self) -> Result<String> {
        let ctx = self.core.live()?;
        // SAFETY: the context is open, and the buffer has the size given.
        sized_text(|buf, size| unsafe {
            sys::rdmamsg_stats_text(ctx, buf, size)
        })
    }

    /// Describes the context in lines of text, for people.
    pub fn dump(&self) -> Result<String> {
        let ctx = self.core.live()?;
        let mut text = String::new();
        let arg: *mut String = &mut text;
        // SAFETY: the context is open, and add_line() has the text's address.
        unsafe { sys::rdmamsg_dump(ctx, Some(add_line), arg.cast()) };
        Ok(text)
    }

    /// Opens a device, so that `on_event` gets its events.
    pub fn watch(&self, device: Option<&str>) -> Result<()> {
        let ctx = self.core.live()?;
        let device = c_string(device)?;
        // SAFETY: the context is open, and the name is valid during the call.
        check(unsafe { sys::rdmamsg_device_watch(ctx, opt_ptr(&device)) })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.core.close();
    }
}

/// The descriptor is readable when there is something to do for
/// [`Context::process`]. It is -1 after the end.
impl AsRawFd for Context {
    fn as_raw_fd(&self) -> RawFd {
        match self.core.live() {
            // SAFETY: the context is open.
            Ok(ctx) => unsafe { sys::rdmamsg_fd(ctx) },
            Err(_) => -1,
        }
    }
}

/// Posts what was sent meanwhile when it is dropped: see [`Context::cork`].
pub struct Cork<'a> {
    ctx: &'a Context,
}

impl Drop for Cork<'_> {
    fn drop(&mut self) {
        if let Ok(ctx) = self.ctx.core.live() {
            // SAFETY: the context is open.
            unsafe { sys::rdmamsg_uncork(ctx) };
        }
    }
}

/// The text of a call that works like snprintf().
pub(crate) fn sized_text(
    call: impl Fn(*mut c_char, usize) -> c_int,
) -> Result<String> {
    let mut buf = Vec::new();
    loop {
        let len = crate::error::counted(call(
            buf.as_mut_ptr() as *mut c_char,
            buf.len(),
        ))?;
        if len < buf.len() {
            buf.truncate(len);
            return Ok(String::from_utf8_lossy(&buf).into_owned());
        }
        buf = vec![0u8; len + 1024];
    }
}

unsafe extern "C" fn add_line(arg: *mut c_void, line: *const c_char) {
    // SAFETY: dump() has made the argument, and the line is a string.
    let (text, line) = unsafe { (&mut *arg.cast::<String>(), text_of(line)) };
    text.push_str(&line);
    text.push('\n');
}

unsafe extern "C" fn on_event(
    ctx: *mut sys::rdmamsg,
    ev: *const sys::rdmamsg_event,
) {
    // SAFETY: the library calls this with an open context and a valid event.
    let (core, ev) = unsafe { (core_of(ctx), &*ev) };
    core.guard((), || {
        if let Some(f) = &mut core.on.borrow_mut().on_event {
            // SAFETY: the texts and the endpoint are valid during the call.
            f(&unsafe { event_of(&core, ev) });
        }
    });
}

/// # Safety
/// The event and what it points to are valid.
unsafe fn event_of(core: &Core, ev: &sys::rdmamsg_event) -> Event {
    // SAFETY: the texts are strings, and the endpoint is of this crate.
    unsafe {
        Event {
            kind: ev.type_,
            name: text_of(ev.name),
            device: text_of(ev.device),
            port: ev.port,
            endpoint: core.has_endpoint(ev.ep).then(|| Endpoint::of(ev.ep)),
        }
    }
}

unsafe extern "C" fn on_shutdown(ctx: *mut sys::rdmamsg, failed: u32) {
    // SAFETY: the library calls this with an open context.
    let core = unsafe { core_of(ctx) };
    core.guard((), || {
        if let Some(f) = &mut core.on.borrow_mut().on_shutdown {
            f(failed);
        }
    });
}

/// The version of the library at run time.
pub fn version() -> String {
    // SAFETY: the library returns a static string.
    unsafe { text_of(sys::rdmamsg_version()) }
}

/// A string of the program, which must not contain a zero byte.
pub(crate) fn required(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| {
        crate::error::Error::new(
            -libc::EINVAL,
            Some("a text contains a zero byte"),
        )
    })
}
