// SPDX-License-Identifier: BSD-2-Clause
//! Objects end in any order, and calls after an end fail.

mod common;

use std::cell::RefCell;
use std::os::unix::io::AsRawFd;
use std::rc::Rc;

use common::*;
use rdmamsg::{Context, Error, ListenOptions, Phase, Region};

#[test]
fn after_the_context() {
    let p = Pair::plain();
    let Pair { ctx, server, client, listener } = p;
    let remote = ctx.remote();
    let region = Region::new(&ctx, 4096, rdmamsg::Access::READ).unwrap();
    let pending = client.send_copy("x", 0).unwrap();

    drop(ctx);
    assert!(client.has_ended() && server.has_ended());
    assert_eq!(client.phase(), Phase::Closed);
    assert!(client.reason().is_some());
    assert!(matches!(client.send("x"), Err(Error::Closed(_))));
    assert!(client.send_owned(vec![1], 0).is_err());
    assert!(matches!(client.recv(LONG), Err(Error::Closed(_))));
    assert!(client.alloc(1).is_err() && client.stats().is_err());
    assert!(client.pause().is_err() && client.attributes().is_err());
    client.close();
    client.abort();
    assert_eq!(listener.port(), 0);
    assert!(listener.accept(options(), LONG).is_err());
    assert!(region.key(&client).is_err());
    assert!(matches!(remote.submit(|_| ()), Err(Error::Closed(_))));
    remote.stop();
    assert!(pending.is_done());
}

#[test]
fn closes_twice_and_sends_after() {
    let p = Pair::plain();

    p.client.close();
    p.client.close();
    assert!(matches!(p.client.send("x"), Err(Error::Closed(_))));
    p.client.close_wait(LONG).unwrap();
    p.client.close_wait(LONG).unwrap();
    p.client.abort();
}

/// A request that stays with the program longer than its listener, context.
#[test]
fn request_after_its_context() {
    let ctx = Context::new().unwrap();
    let listener = ctx.listen("127.0.0.1", "0", ListenOptions::new()).unwrap();
    let ep = ctx
        .connect("127.0.0.1", &listener.service(), options().hello_data("hi"))
        .unwrap();
    let mut req = None;

    until(&ctx, || {
        req = req.take().or_else(|| listener.request());
        req.is_some()
    });
    let req = req.unwrap();
    assert_eq!(req.data(), b"hi");
    drop(listener);
    drop(ctx);
    assert!(ep.has_ended());
    assert_eq!(req.data(), b"");
    assert!(req.accept(options()).is_err());
}

/// The end of a context ends listeners first: on_closed drops them after that.
#[test]
fn on_closed_in_the_end_of_a_context() {
    let place = Rc::new(RefCell::new(None));
    let things = place.clone();
    let p = Pair::new(
        options().on_closed(move |_, _| drop(things.take())),
        options(),
    );
    let listener =
        p.ctx.listen("127.0.0.1", "0", ListenOptions::new()).unwrap();
    let ep =
        p.ctx.connect("127.0.0.1", &listener.service(), options()).unwrap();
    let mut req = None;

    until(&p.ctx, || {
        req = req.take().or_else(|| listener.request());
        req.is_some()
    });
    let region = Region::new(&p.ctx, 64, rdmamsg::Access::READ).unwrap();
    region.register(&p.client).unwrap();
    let Pair { ctx, server, client, listener: first } = p;
    *place.borrow_mut() = Some((req, listener, first, region, client, ep));
    drop(ctx);
    assert!(server.has_ended() && place.borrow().is_none());
}

#[test]
fn wrong_arguments() {
    let ctx = Context::new().unwrap();
    let wrong =
        |e: rdmamsg::Result<()>| matches!(e, Err(Error::InvalidArgument(_)));

    assert!(wrong(ctx.connect("a\0b", "1", options()).map(drop)));
    assert!(wrong(
        ctx.listen("127.0.0.1", "no\0", ListenOptions::new()).map(drop)
    ));
    let long = options().hello_data(vec![0; 33]);
    assert!(wrong(ctx.connect("127.0.0.1", "1", long).map(drop)));
    let device = options().device("nowhere");
    let e = ctx.connect("127.0.0.1", "1", device).map(drop).unwrap_err();
    assert!(matches!(e, Error::NoDevice(_)));
    assert!(!e.text().is_empty() && e.errno() > 0 && e.reason().is_none());
    let io: std::io::Error = e.into();
    assert!(!io.to_string().is_empty());
    assert!(ctx.watch(Some("nowhere")).is_err());
    // an iWARP device has neither
    assert_eq!(ctx.watch(None).is_ok(), has_atomics());
}

/// Options that cannot be used reject the request, so that the peer sees it.
#[test]
fn wrong_options_of_accept() {
    let ctx = Context::new().unwrap();
    let on = ListenOptions::new().on_request(|req| {
        let e = req.accept(options().source("a\0b")).map(drop);
        assert!(matches!(e, Err(Error::InvalidArgument(_))));
    });
    let listener = ctx.listen("127.0.0.1", "0", on).unwrap();
    let e = ctx.connect_wait("127.0.0.1", &listener.service(), options());
    assert!(matches!(e.map(drop), Err(Error::Rejected(_))));
}

/// Nothing is left of many contexts and connections.
#[test]
fn leaves_nothing() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let here = Rc::new(());
    let round = |here: Rc<()>| {
        let p = Pair::new(
            options().on_message(move |ep, msg| {
                assert!(Rc::strong_count(&here) > 0);
                ep.send_message(msg, 0).unwrap();
            }),
            options(),
        );
        assert!(p.ctx.as_raw_fd() >= 0);
        p.client.send("x").unwrap();
        p.client.recv(LONG).unwrap()
    };

    drop(round(here.clone()));
    let before = descriptors();
    for _ in 0..20 {
        assert_eq!(&*round(here.clone()), b"x");
    }
    assert_eq!(descriptors(), before);
    assert_eq!(Rc::strong_count(&here), 1);
}

/// Objects of one context in another.
#[test]
fn two_contexts() {
    let a = Pair::plain();
    let b = Pair::plain();
    a.client.send("x").unwrap();
    let msg = a.server.recv(LONG).unwrap();
    let unsent = b.client.send_message(msg, 0).unwrap_err();
    assert!(matches!(unsent.error, Error::InvalidArgument(_)));
    a.server.send_message(unsent.value, 0).unwrap();
    assert_eq!(&*a.client.recv(LONG).unwrap(), b"x");
    let region = Region::new(&a.ctx, 64, rdmamsg::Access::READ).unwrap();
    assert!(region.key(&b.client).is_err());
}

/// Leaked objects leave memory, and no more.
#[test]
fn leaked() {
    let p = Pair::plain();
    p.client.send("x").unwrap();
    std::mem::forget(p.server.recv(LONG).unwrap());
    std::mem::forget(p.client.clone());
    std::mem::forget(p.client.send_owned(vec![0; 100_000], 0));
    drop(p);
}

/// In a child of fork() calls fail, and objects end.
#[test]
fn forked() {
    let p = Pair::plain();
    p.client.send("x").unwrap();
    let msg = p.server.recv(LONG).unwrap();

    // SAFETY: the child only calls what it may, and exits.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let fails = matches!(p.ctx.process(), Err(Error::Forked(_)))
            && matches!(p.client.send("y"), Err(Error::Forked(_)))
            && matches!(p.server.recv(SHORT), Err(Error::Forked(_)));
        drop(p);
        drop(msg);
        // SAFETY: nothing of the parent ends here.
        unsafe { libc::_exit(i32::from(!fails)) };
    }
    let mut status = 0;
    // SAFETY: the child is of this process.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
    p.server.send_message(msg, 0).unwrap();
    assert_eq!(&*p.client.recv(LONG).unwrap(), b"x");
}
