// SPDX-License-Identifier: BSD-2-Clause
//! Connections: made, refused, rejected, ended by either side or a kill.

mod common;

use std::cell::RefCell;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use common::*;
use rdmamsg::{
    Cause, Context, ContextOptions, Error, ListenOptions, Phase, Who,
};

#[test]
fn connects() {
    let p = Pair::new(
        options().setup_data("from the server"),
        options().hello_data("hello").setup_data("from the client"),
    );

    assert_eq!(p.client.peer_data().unwrap(), b"from the server");
    assert_eq!(p.server.peer_data().unwrap(), b"from the client");
    assert_eq!(p.client.phase(), Phase::Connected);
    assert!(p.client.reason().is_none());
    let attr = p.client.attributes().unwrap();
    assert!(attr.max_send > 0);
    assert!(attr.peer().unwrap().ip().is_loopback());
    assert!(!attr.device().is_empty());
    assert_eq!(attr.device(), p.client.device_name().unwrap());
    assert_eq!(p.listener.stats().unwrap().accepted, 1);
    assert_eq!(p.ctx.stats().unwrap().endpoints, 2);
    assert!(p.ctx.stats_text().unwrap().contains("rdmamsg"));
    assert!(!p.ctx.dump().unwrap().is_empty());
    p.client.close_wait(LONG).unwrap();
    assert_eq!(p.client.reason().unwrap().cause, Cause::Closed);
    assert_eq!(p.client.phase(), Phase::Closed);
}

#[test]
fn refused() {
    let ctx = Context::new().unwrap();
    let listener = ctx.listen("127.0.0.1", "0", ListenOptions::new()).unwrap();
    let service = listener.service();

    drop(listener);
    match ctx.connect_wait("127.0.0.1", &service, options()) {
        Err(e @ Error::Refused(_)) => {
            assert_eq!(e.errno(), ECONNREFUSED);
            assert_eq!(e.reason().unwrap().cause, Cause::Refused);
            assert!(!e.to_string().is_empty());
        }
        other => panic!("{:?}", other.map(drop)),
    }
}

const ECONNREFUSED: i32 = 111;

#[test]
fn rejected_with_data() {
    let ctx = Context::new().unwrap();
    let on = ListenOptions::new().on_request(|req| {
        assert_eq!(req.data(), b"let me in");
        assert!(req.addresses().unwrap().1.is_some());
        req.reject(b"no room").unwrap();
    });
    let listener = ctx.listen("127.0.0.1", "0", on).unwrap();
    let opts = options().hello_data("let me in");

    match ctx.connect_wait("127.0.0.1", &listener.service(), opts) {
        Err(e @ Error::Rejected(_)) => {
            assert_eq!(e.reason().unwrap().data, b"no room");
            assert_eq!(e.reason().unwrap().who, Who::Peer);
        }
        other => panic!("{:?}", other.map(drop)),
    }
}

#[test]
fn request_without_an_answer_is_rejected() {
    let ctx = Context::new().unwrap();
    let on = ListenOptions::new().on_request(drop);
    let listener = ctx.listen("127.0.0.1", "0", on).unwrap();
    let ep = ctx.connect("127.0.0.1", &listener.service(), options()).unwrap();

    assert!(matches!(ep.connected(LONG), Err(Error::Rejected(_))));
    assert!(ep.has_ended() && !ep.is_connected());
}

#[test]
fn accepts_by_a_call() {
    let ctx = Context::new().unwrap();
    let listener = ctx.listen("127.0.0.1", "0", ListenOptions::new()).unwrap();
    let client =
        ctx.connect("127.0.0.1", &listener.service(), options()).unwrap();
    let server = listener.accept(options(), LONG).unwrap();

    client.connected(LONG).unwrap();
    server.send("first").unwrap();
    assert_eq!(&*client.recv(LONG).unwrap(), b"first");
    let none = listener.accept(options(), SHORT);
    assert!(matches!(none, Err(Error::TimedOut(_))));
    assert!(matches!(client.recv(SHORT), Err(Error::TimedOut(_))));
}

#[test]
fn closes_with_a_reason() {
    let why = Rc::new(RefCell::new(None));
    let to = why.clone();
    let p = Pair::new(
        options().on_closed(move |_, r| *to.borrow_mut() = Some(r.clone())),
        options(),
    );

    p.client.close_with(42, b"enough").unwrap();
    until(&p.ctx, || p.server.has_ended());
    let why = why.borrow_mut().take().unwrap();
    assert_eq!((why.who, why.cause), (Who::Peer, Cause::Closed));
    assert_eq!((why.error, why.code), (0, 42));
    assert_eq!(why.data, b"enough");
    assert!(matches!(p.server.send("late"), Err(Error::Closed(_))));
    assert!(matches!(p.server.recv(LONG), Err(Error::Closed(_))));
}

#[test]
fn aborts() {
    let p = Pair::plain();

    p.client.abort_with(7, b"broken").unwrap();
    until(&p.ctx, || p.server.has_ended());
    assert_eq!(p.server.reason().unwrap().cause, Cause::Aborted);
    let e = p.server.close_wait(LONG).unwrap_err();
    assert!(matches!(e, Error::Disconnected(_)));
    assert!(p.client.abort_with(0, &[0; 33]).is_err());
}

/// The last handle closes; a detached endpoint goes on.
#[test]
fn drops_handles() {
    let p = Pair::plain();
    let second = p.client.clone();

    drop(p.client);
    second.send("still there").unwrap();
    assert_eq!(&*p.server.recv(LONG).unwrap(), b"still there");
    second.detach();
    drop(second);
    assert!(matches!(p.server.recv(SHORT), Err(Error::TimedOut(_))));
    drop(p.server);
    until(&p.ctx, || p.ctx.stats().unwrap().endpoints == 0);
}

#[test]
fn shuts_down() {
    let failed = Rc::new(RefCell::new(None));
    let to = failed.clone();
    let opts =
        ContextOptions::new().on_shutdown(move |n| *to.borrow_mut() = Some(n));
    let ctx = Context::with_options(opts).unwrap();
    let (listener, place) = accept_with(&ctx, options());
    let client =
        ctx.connect_wait("127.0.0.1", &listener.service(), options()).unwrap();

    until(&ctx, || place.borrow().as_ref().unwrap().is_connected());
    assert_eq!(ctx.shutdown_wait(LONG).unwrap(), 0);
    assert_eq!(*failed.borrow(), Some(0));
    assert!(client.has_ended());
    let e = ctx.connect("127.0.0.1", "1", options()).map(drop);
    assert!(matches!(e, Err(Error::Closed(_))));
}

#[test]
fn authenticates() {
    let opts = |key: &str| ContextOptions::new().key(key);
    let ctx = Context::with_options(opts("a key of some length")).unwrap();
    let on = ListenOptions::new()
        .on_request(|req| req.accept(options()).unwrap().detach());
    let listener = ctx.listen("127.0.0.1", "0", on).unwrap();
    ctx.connect_wait("127.0.0.1", &listener.service(), options()).unwrap();

    let service = listener.service();
    let remote = ctx.remote();
    let stranger = std::thread::spawn(move || {
        let other = ContextOptions::new().key("another key, as long");
        let ctx = Context::with_options(other).unwrap();
        let e = ctx.connect_wait("127.0.0.1", &service, options());
        remote.stop();
        e.map(drop)
    });
    ctx.run().unwrap();
    let e = stranger.join().unwrap();
    assert!(matches!(e, Err(Error::AuthFailed(_))), "{:?}", e);
}

/// A peer in another process: this program again.
struct Peer(Child);

impl Peer {
    fn start(service: &str) -> Peer {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "as_a_peer", "--ignored"])
            .env("PEER_SERVICE", service)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Peer(child)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
#[ignore = "the other process of peer_killed"]
fn as_a_peer() {
    let service = match std::env::var("PEER_SERVICE") {
        Ok(service) => service,
        Err(_) => return,
    };
    let ctx = Context::new().unwrap();
    let ep = ctx.connect_wait("127.0.0.1", &service, options()).unwrap();
    ep.send("here").unwrap();
    ctx.run().unwrap();
}

#[test]
fn peer_killed() {
    let ctx = Context::new().unwrap();
    let listener = ctx.listen("127.0.0.1", "0", ListenOptions::new()).unwrap();
    let peer = Peer::start(&listener.service());
    let ep = listener.accept(options(), LONG).unwrap();

    assert_eq!(&*ep.recv(LONG).unwrap(), b"here");
    drop(peer);
    let e = ep.recv(LONG).unwrap_err();
    assert!(matches!(e, Error::Disconnected(_) | Error::Other(_)), "{e:?}");
    until(&ctx, || ep.has_ended());
    let why = ep.reason().unwrap();
    assert!(matches!(why.who, Who::Peer | Who::Network), "{why:?}");
}
