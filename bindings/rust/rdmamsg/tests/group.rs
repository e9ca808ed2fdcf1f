// SPDX-License-Identifier: BSD-2-Clause
//! Groups, devices and failover.

mod common;

use std::cell::{Cell, RefCell};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use common::*;
use rdmamsg::{
    sys, Context, Endpoint, EndpointOptions, Error, Failover, Group,
    GroupOptions, PathChange, Tuning,
};

fn has_multicast() -> bool {
    rdmamsg::capability(None, sys::RDMAMSG_CAP_MULTICAST).unwrap().is_there()
}

#[test]
fn publishes() {
    if !has_multicast() {
        return;
    }
    let ctx = Context::new().unwrap();
    let joined = Rc::new(Cell::new(0));
    let got = Rc::new(RefCell::new(Vec::new()));
    let sent = Rc::new(Cell::new(0));
    let (j1, j2) = (joined.clone(), joined.clone());
    let (to, n) = (got.clone(), sent.clone());
    let flushed = Rc::new(Cell::new(None));
    let result = flushed.clone();
    let publisher = GroupOptions::new()
        .publish()
        .repair()
        .on_joined(move |_| j1.set(j1.get() + 1))
        .on_flushed(move |_, f| result.set(Some(f)))
        .on_sent(move |_, count| n.set(count));
    let subscriber = GroupOptions::new()
        .subscribe()
        .repair()
        .on_joined(move |_| j2.set(j2.get() + 1))
        .on_message(move |_, msg| to.borrow_mut().extend_from_slice(msg.data));
    let publisher = Group::join(&ctx, "239.7.7.7", publisher).unwrap();
    let subscriber = Group::join(&ctx, "239.7.7.7", subscriber).unwrap();

    until(&ctx, || joined.get() == 2);
    publisher.publish("news").unwrap();
    until(&ctx, || &*got.borrow() == b"news" && sent.get() == 1);
    assert_eq!(publisher.stats().unwrap().sent_messages, 1);
    let id = publisher.attributes().unwrap().id;
    let of_sender = subscriber.sender_stats(id).unwrap();
    assert_eq!(of_sender.received_messages, 1);
    until(&ctx, || publisher.members().unwrap().len() == 1);
    publisher.flush(Duration::from_secs(60)).unwrap();
    until(&ctx, || flushed.get().is_some());
    let all = flushed.get().unwrap();
    assert_eq!((all.end, all.members, all.behind, all.gone), (1, 1, 0, 0));
    let no = subscriber.publish("x");
    assert!(matches!(no, Err(Error::NoPermission(_))));
    let second = subscriber.clone();
    drop(subscriber);
    second.leave();
    until(&ctx, || second.has_ended());
    drop(ctx);
    assert!(publisher.has_ended() && publisher.publish("x").is_err());
}

/// A group without a handle leaves, and its closures are freed.
#[test]
fn leaves_when_dropped() {
    if !has_multicast() {
        return;
    }
    let ctx = Context::new().unwrap();
    let here = Rc::new(());
    let (kept, closed) = (here.clone(), Rc::new(Cell::new(false)));
    let to = closed.clone();
    let opts = GroupOptions::new()
        .on_joined(move |_| drop(kept.clone()))
        .on_closed(move |_, _| to.set(true));

    drop(Group::join(&ctx, "239.7.7.8", opts).unwrap());
    until(&ctx, || closed.get());
    assert_eq!(Rc::strong_count(&here), 1);
}

#[test]
fn wrong_group() {
    let ctx = Context::new().unwrap();
    let none = Group::join(&ctx, "127.0.0.1", GroupOptions::new());
    assert!(matches!(none.map(drop), Err(Error::InvalidArgument(_))));
}

#[test]
fn devices() {
    assert!(!rdmamsg::devices().unwrap().is_empty());
    let device = rdmamsg::device(None).unwrap();
    assert!(
        device.ports > 0
            && !device.name().is_empty()
            && !device.kind().is_empty()
    );
    let gids = rdmamsg::gids(None, 1).unwrap();
    assert_eq!(rdmamsg::gid(&gids[0].text()).unwrap(), gids[0].gid);
    assert_eq!(rdmamsg::gid_text(&gids[0].gid), gids[0].text());
    let port = rdmamsg::port(None, 1).unwrap();
    assert_eq!(port.port, 1);
    let pkeys = rdmamsg::pkeys(None, 1).unwrap();
    assert_eq!(pkeys.len(), port.pkey_count as usize);
    let caps = rdmamsg::capabilities(None).unwrap();
    assert_eq!(caps.len(), sys::RDMAMSG_CAPS as usize);
    assert!(caps.iter().all(|c| !c.name().is_empty()));
    assert!(caps.iter().any(|c| !c.reason().is_empty()));
    assert!(matches!(
        rdmamsg::device(Some("nowhere")),
        Err(Error::NoDevice(_))
    ));
    assert!(matches!(
        rdmamsg::device(Some("a\0b")),
        Err(Error::InvalidArgument(_))
    ));
    let cause =
        rdmamsg::name(sys::RDMAMSG_NAME_CAUSE, sys::RDMAMSG_CAUSE_CLOSED);
    assert_eq!(cause.as_deref(), Some("closed"));
    assert!(rdmamsg::version().contains('.'));
    let (idle, most) = rdmamsg::estimate(&options(), 100).unwrap();
    assert!(idle > 0 && most >= idle);
}

fn soft_ctl(arguments: &str) {
    let pid = std::process::id().to_string();
    let status = Command::new("rdmamsg-soft-ctl")
        .args(["--pid", &pid])
        .args(arguments.split(' '))
        .status()
        .expect("rdmamsg-soft-ctl");
    assert!(status.success());
}

/// Sends when there is room.
fn send(p: &Pair, number: u32) {
    let mut result = p.client.send(number.to_ne_bytes());
    until(&p.ctx, || {
        if matches!(result, Err(Error::Again)) {
            result = p.client.send(number.to_ne_bytes());
        }
        !matches!(result, Err(Error::Again))
    });
    result.unwrap();
}

/// The link is cut, and another connection takes over: nothing is lost.
#[test]
fn fails_over() {
    let lane = || Failover {
        rungs: Failover::LANE,
        timeout: Duration::from_secs(60),
        ..Default::default()
    };
    let got = Rc::new(Cell::new(0u32));
    let down = Rc::new(Cell::new(false));
    let resumed = Rc::new(Cell::new(false));
    let count = got.clone();
    let (d, r) = (down.clone(), resumed.clone());
    let server = options().failover(lane()).on_message(move |_, msg| {
        assert_eq!(*msg, count.get().to_ne_bytes());
        count.set(count.get() + 1);
    });
    let mut tuning = Tuning::default();
    tuning.ack_timeout = 13;
    // the end of a cut connection comes soon, with each kind of link
    let client = EndpointOptions::new()
        .failover(lane())
        .tuning(tuning)
        .dead_after(Duration::from_secs(3))
        .on_path(move |_: &Endpoint, event| match event.change {
            PathChange::Down => d.set(true),
            PathChange::Resumed => r.set(true),
            _ => {}
        });
    let p = Pair::new(server, client);

    (0..10).for_each(|n| send(&p, n));
    soft_ctl("port 1 down");
    send(&p, 10);
    until(&p.ctx, || down.get());
    soft_ctl("port 1 up");
    (11..20).for_each(|n| send(&p, n));
    until(&p.ctx, || got.get() == 20 && resumed.get());
    assert!(p.client.path().unwrap().resumes > 0);
    assert!(!p.client.history().unwrap().is_empty());
    p.client.close_wait(LONG).unwrap();
}
