// SPDX-License-Identifier: BSD-2-Clause
//! Panics of callbacks go on in the caller that drives the context.

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use common::*;
use rdmamsg::{
    Context, ContextOptions, Endpoint, Error, Group, GroupOptions, Incoming,
};
use rdmamsg::{ListenOptions, Region};

fn drive(p: &Pair) -> String {
    panic_of(|| until(&p.ctx, || false))
}

/// The connection goes on after the panic.
fn still_there(p: &Pair) {
    assert!(p.client.is_connected() && p.server.is_connected());
}

#[test]
fn on_message() {
    let count = Rc::new(Cell::new(0));
    let n = count.clone();
    let p = Pair::new(
        options().on_message(move |_, _| {
            n.set(n.get() + 1);
            if n.get() == 1 {
                panic!("message {}", n.get());
            }
        }),
        options(),
    );

    p.client.send("1").unwrap();
    assert_eq!(drive(&p), "message 1");
    p.client.send("2").unwrap();
    until(&p.ctx, || count.get() == 2);
    still_there(&p);
}

/// Each of the next calls goes on with one panic.
#[test]
fn several_panics() {
    let p = Pair::new(
        options().on_message(|_, m| panic!("{}", m.tag())),
        options(),
    );

    for tag in 1..4 {
        p.client.send_tagged("x", tag).unwrap();
    }
    for tag in 1..4 {
        assert_eq!(drive(&p), tag.to_string());
    }
    still_there(&p);
}

#[test]
fn on_connected() {
    let ctx = Context::new().unwrap();
    let (listener, place) = accept_with(&ctx, options());
    let opts = options().on_connected(|_| panic!("connected"));
    let ep = ctx.connect("127.0.0.1", &listener.service(), opts).unwrap();

    let text = panic_of(|| ep.connected(LONG).unwrap());
    assert_eq!(text, "connected");
    assert!(ep.is_connected());
    until(&ctx, || place.borrow().as_ref().unwrap().is_connected());
}

#[test]
fn on_request() {
    let ctx = Context::new().unwrap();
    let on = ListenOptions::new().on_request(|_| panic!("request"));
    let listener = ctx.listen("127.0.0.1", "0", on).unwrap();
    let ep = ctx.connect("127.0.0.1", &listener.service(), options()).unwrap();

    assert_eq!(panic_of(|| ep.connected(LONG).unwrap()), "request");
    assert!(matches!(ep.connected(LONG), Err(Error::Rejected(_))));
}

#[test]
fn on_incoming() {
    let p = Pair::new(
        options()
            .on_incoming(|_, _, _| -> Incoming { panic!("incoming") })
            .on_message(|_, _| {}),
        options(),
    );
    let sent = p.client.send_owned(pattern(1 << 20), 0).unwrap();

    assert_eq!(drive(&p), "incoming");
    assert!(matches!(sent.wait(LONG), Err(Error::Canceled(_))));
    still_there(&p);
}

#[test]
fn on_writable() {
    let p = Pair::new(
        options().on_message(|_, _| {}),
        options().on_writable(|_| panic!("writable")),
    );

    while p.client.send("fill").is_ok() {}
    assert_eq!(drive(&p), "writable");
    still_there(&p);
}

#[test]
fn on_closed() {
    let p = Pair::new(options().on_closed(|_, _| panic!("closed")), options());

    p.client.close();
    assert_eq!(drive(&p), "closed");
    until(&p.ctx, || p.client.has_ended() && p.server.has_ended());
}

#[test]
fn on_written() {
    let p = Pair::new(
        options().on_written(|_, n| panic!("written {n}")),
        options(),
    );
    let access = rdmamsg::Access::WRITE;
    let region = Region::new(&p.ctx, 64, access).unwrap();
    let key = region.key(&p.server).unwrap();
    let write = p.client.at(&key, 0).notify(3).write_copy(b"x").unwrap();

    assert_eq!(drive(&p), "written 3");
    write.wait(LONG).unwrap();
    still_there(&p);
}

#[test]
fn completions() {
    let p = Pair::plain();

    p.client.send_copy("x", 0).unwrap().then(|r| {
        r.unwrap();
        panic!("complete")
    });
    assert_eq!(drive(&p), "complete");
    still_there(&p);
}

#[test]
fn submitted_functions() {
    let ctx = Context::new().unwrap();

    ctx.remote().submit(|_| panic!("submitted")).unwrap();
    assert_eq!(panic_of(|| ctx.run().unwrap()), "submitted");
    let remote = ctx.remote();
    let other = std::thread::spawn(move || {
        remote.submit(|ctx| ctx.remote().stop()).unwrap()
    });
    ctx.run().unwrap();
    other.join().unwrap();
}

#[test]
fn on_shutdown() {
    let opts = ContextOptions::new().on_shutdown(|_| panic!("shutdown"));
    let ctx = Context::with_options(opts).unwrap();

    ctx.shutdown(LONG).unwrap();
    assert_eq!(panic_of(|| until(&ctx, || false)), "shutdown");
}

#[test]
fn callbacks_of_a_group() {
    let ctx = Context::new().unwrap();
    let opts = GroupOptions::new().on_closed(|_, _| panic!("group closed"));
    let group = match Group::join(&ctx, "239.7.7.9", opts) {
        Ok(group) => group,
        Err(e) => panic!("{e}"),
    };

    group.leave();
    assert_eq!(panic_of(|| until(&ctx, || false)), "group closed");
    assert!(group.has_ended());
}

/// A panic in the calls of close() goes on there.
#[test]
fn in_close() {
    let p =
        Pair::new(options().on_closed(|_, _| panic!("at the end")), options());
    let Pair { ctx, server, .. } = p;

    assert_eq!(panic_of(move || ctx.close()), "at the end");
    assert!(server.has_ended());
}

/// Calls that drive the context fail in callbacks; others work.
#[test]
fn calls_in_callbacks() {
    let done = Rc::new(Cell::new(false));
    let to = done.clone();
    let p = Pair::new(
        options().on_message(move |ep: &Endpoint, msg| {
            assert!(matches!(ep.recv(SHORT), Err(Error::Misuse(_))));
            assert!(matches!(ep.close_wait(SHORT), Err(Error::Misuse(_))));
            assert!(matches!(ep.send_message(msg, 0), Err(_)));
            to.set(true);
        }),
        options(),
    );

    p.client.send("x").unwrap();
    until(&p.ctx, || done.get());
    until(&p.ctx, || p.client.has_ended());
}

/// A callback drops the context that calls it, and all else.
#[test]
fn drops_everything_in_a_callback() {
    let place: Rc<Cell<Option<Pair>>> = Rc::new(Cell::new(None));
    let (to, here) = (place.clone(), Rc::new(()));
    let mut kept = Some(here.clone());
    let p = Pair::new(
        options().on_message(move |_, _| {
            drop(to.take());
            kept.take();
        }),
        options(),
    );
    let client = p.client.clone();

    client.send("x").unwrap();
    place.set(Some(p));
    let e = client.close_wait(LONG).unwrap_err();
    assert!(!e.text().is_empty());
    assert_eq!(Rc::strong_count(&here), 1);
    assert!(client.send("y").is_err() && client.recv(SHORT).is_err());
}

/// Closures are freed at the end of their endpoint, also those that own it.
#[test]
fn frees_closures() {
    let here = Rc::new(());
    let (a, b) = (here.clone(), here.clone());
    let p = Pair::new(
        options().on_message(move |_, _| drop(a.clone())),
        options().on_stalled(move |_, _: Duration| drop(b.clone())),
    );

    assert_eq!(Rc::strong_count(&here), 3);
    p.client.close_wait(LONG).unwrap();
    until(&p.ctx, || p.server.has_ended());
    assert_eq!(Rc::strong_count(&here), 1);
}
