// SPDX-License-Identifier: BSD-2-Clause
//! Two ends in one context, on the soft HCA.
#![allow(dead_code)]

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use rdmamsg::{Context, Endpoint, EndpointOptions, ListenOptions, Listener};

/// Longer than anything takes.
pub const LONG: Option<Duration> = Some(Duration::from_secs(30));
pub const SHORT: Option<Duration> = Some(Duration::from_millis(10));

pub struct Pair {
    pub server: Endpoint,
    pub client: Endpoint,
    pub listener: Listener,
    pub ctx: Context,
}

pub fn options() -> EndpointOptions {
    EndpointOptions::new()
}

/// Listens, and accepts one peer with these options.
pub fn accept_with(
    ctx: &Context,
    opts: EndpointOptions,
) -> (Listener, Rc<RefCell<Option<Endpoint>>>) {
    let place = Rc::new(RefCell::new(None));
    let (to, mut opts) = (place.clone(), Some(opts));
    let on = ListenOptions::new().on_request(move |req| {
        let opts = opts.take().expect("one peer connects");
        *to.borrow_mut() = Some(req.accept(opts).expect("accept"));
    });
    (ctx.listen("127.0.0.1", "0", on).expect("listen"), place)
}

impl Pair {
    pub fn new(server: EndpointOptions, client: EndpointOptions) -> Pair {
        let ctx = Context::new().expect("open");
        let (listener, place) = accept_with(&ctx, server);
        let client = ctx
            .connect_wait("127.0.0.1", &listener.service(), client)
            .expect("connect");
        until(&ctx, || {
            place.borrow().as_ref().map_or(false, |ep| ep.is_connected())
        });
        let server = place.borrow_mut().take().expect("accepted");
        Pair { server, client, listener, ctx }
    }

    pub fn plain() -> Pair {
        Pair::new(options(), options())
    }
}

pub fn until(ctx: &Context, done: impl FnMut() -> bool) {
    ctx.wait_until(LONG, done).expect("it took too long");
}

/// Bytes that depend on the length.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + len) as u8).collect()
}

/// The text of the panic that `f` ends with.
pub fn panic_of(f: impl FnOnce()) -> String {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    let payload = caught.expect_err("no panic came out");
    match payload.downcast::<&'static str>() {
        Ok(text) => text.to_string(),
        Err(payload) => *payload.downcast::<String>().expect("a text"),
    }
}

/// iWARP has no atomic operations.
pub fn has_atomics() -> bool {
    rdmamsg::capability(None, rdmamsg::sys::RDMAMSG_CAP_ATOMICS)
        .expect("capability")
        .is_there()
}
