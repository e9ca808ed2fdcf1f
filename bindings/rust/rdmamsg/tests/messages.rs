// SPDX-License-Identifier: BSD-2-Clause
//! Messages: sizes, completions, back-pressure, pause, several owners.

mod common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use common::*;
use rdmamsg::{Endpoint, Error, Incoming, Pending, SharedMessage};

/// Around each limit at which the library sends in another way.
fn sizes(ep: &Endpoint) -> Vec<usize> {
    let a = ep.attributes().unwrap();
    let limits = [a.inline_max, a.eager_max, a.pieces_max, 65536, 1 << 20];
    let mut all = vec![0, 1, 63, 64, 65, 4096];

    for limit in limits.into_iter().filter(|n| *n > 0) {
        all.extend(
            [limit - 1, limit, limit + 1]
                .into_iter()
                .filter(|n| *n <= a.max_send)
                .map(|n| n as usize),
        );
    }
    all
}

#[test]
fn every_size() {
    let p = Pair::plain();
    let all = sizes(&p.client);

    assert!(all.len() > 12);
    for n in all {
        let bytes = pattern(n);
        let pending = p.client.send_owned(bytes.clone(), 5).unwrap();
        let msg = p.server.recv(LONG).unwrap();
        assert_eq!((msg.tag(), &*msg), (5, &*bytes));
        assert_eq!(pending.wait(LONG).unwrap(), bytes);
        if n <= 65536 {
            p.client.send(&bytes).unwrap();
            assert_eq!(&*p.server.recv(LONG).unwrap(), bytes);
        }
        let mut own = p.client.alloc(n).unwrap();
        own.copy_from_slice(&bytes);
        p.client.send_message(own, 6).unwrap();
        let msg = p.server.recv(LONG).unwrap();
        assert_eq!((msg.tag(), &*msg), (6, &*bytes));
        p.server.send_message(msg, 7).unwrap();
        assert_eq!(&*p.client.recv(LONG).unwrap(), bytes);
    }
}

#[test]
fn parts_of_a_message() {
    let p = Pair::plain();
    let parts = vec![b"head".to_vec(), vec![1, 2, 3], b"tail".to_vec()];

    p.client.send_parts(parts, 0).unwrap().wait(LONG).unwrap();
    assert_eq!(&*p.server.recv(LONG).unwrap(), b"head\x01\x02\x03tail");
    let many = vec![vec![0u8]; 17];
    let unsent = p.client.send_parts(many, 0).map(drop).unwrap_err();
    assert!(matches!(unsent.error, Error::InvalidArgument(_)));
    assert_eq!(unsent.value.len(), 17);
    let large = vec![0; 1 << 20];
    assert!(matches!(p.client.send(large), Err(Error::TooLarge(_))));
}

#[test]
fn back_pressure() {
    let got = Rc::new(Cell::new(0u32));
    let sent = Rc::new(Cell::new(0u32));
    let refused = Rc::new(Cell::new(0u32));
    let count = got.clone();
    let server = options().on_message(move |_, msg| {
        assert_eq!(*msg, count.get().to_ne_bytes());
        count.set(count.get() + 1);
    });
    let (s, r) = (sent.clone(), refused.clone());
    let send = move |ep: &Endpoint| {
        while s.get() < 5000 {
            match ep.send(s.get().to_ne_bytes()) {
                Ok(()) => s.set(s.get() + 1),
                Err(Error::Again) => {
                    r.set(r.get() + 1);
                    return;
                }
                Err(e) => panic!("{e}"),
            }
        }
    };
    let p = Pair::new(server, options().on_writable(send.clone()));

    send(&p.client);
    assert!(refused.get() > 0);
    assert!(p.client.send("more").unwrap_err().is_again());
    until(&p.ctx, || got.get() == 5000);
    assert_eq!(sent.get(), 5000);
}

#[test]
fn pauses() {
    let got = Rc::new(Cell::new(0));
    let count = got.clone();
    let p = Pair::new(
        options().on_message(move |_, _| count.set(count.get() + 1)),
        options(),
    );

    p.server.pause().unwrap();
    p.client.send("1").unwrap();
    p.client.send("2").unwrap();
    until(&p.ctx, || p.server.flow().unwrap().waiting == 2);
    assert_eq!((got.get(), p.server.flow().unwrap().paused), (0, 1));
    p.server.resume().unwrap();
    until(&p.ctx, || got.get() == 2);
}

#[test]
fn cancels() {
    let p = Pair::new(options(), options().send_queue(1000));

    p.server.pause().unwrap();
    while p.client.flow().unwrap().queued < 2 {
        p.client.send("fill").unwrap();
    }
    let last: Pending<()> = p.client.send_copy("last", 0).unwrap();
    p.client.cancel(&last).unwrap();
    until(&p.ctx, || last.is_done());
    assert!(p.client.cancel(&last).is_err());
    assert!(matches!(last.wait(LONG), Err(Error::Canceled(_))));
}

/// Large messages go where the program says, or are refused.
#[test]
fn incoming_in_memory_of_the_program() {
    let got = Rc::new(RefCell::new(None));
    let to = got.clone();
    let memory = Rc::new(Cell::new(std::ptr::null()));
    let place = memory.clone();
    let server = options()
        .on_incoming(move |_, len, tag| {
            if tag == 1 {
                return Incoming::Refuse;
            }
            let memory = vec![0; len];
            place.set(memory.as_ptr());
            Incoming::Into(memory)
        })
        .on_message(move |_, msg| *to.borrow_mut() = Some(msg));
    let p = Pair::new(server, options());
    let large = pattern(1 << 20);

    let refused = p.client.send_owned(large.clone(), 1).unwrap();
    assert!(matches!(refused.wait(LONG), Err(Error::Canceled(_))));
    let sent = p.client.send_owned(large.clone(), 0).unwrap();
    sent.wait(LONG).unwrap();
    until(&p.ctx, || got.borrow().is_some());
    let msg = got.borrow_mut().take().unwrap();
    assert_eq!(msg.as_ptr(), memory.get());
    assert_eq!(*msg, *large);
    p.server.send_message(msg, 9).unwrap();
    let back = p.client.recv(LONG).unwrap();
    assert_eq!((back.tag(), &*back), (9, &*large));
}

/// Memory that is too short for the message refuses it.
#[test]
fn incoming_memory_too_short() {
    let p = Pair::new(
        options()
            .on_incoming(|_, _, _| Incoming::Into(vec![0; 10]))
            .on_message(|_, _| panic!("it has no memory")),
        options(),
    );

    let sent = p.client.send_owned(pattern(1 << 20), 0).unwrap();
    assert!(matches!(sent.wait(LONG), Err(Error::Canceled(_))));
}

#[test]
fn several_owners() {
    let p = Pair::plain();

    p.client.send("several").unwrap();
    let kept = p.server.recv(LONG).unwrap().share().unwrap();
    let sent = p.server.send_shared(&kept, 3).unwrap();
    assert_eq!(&*p.client.recv(LONG).unwrap(), b"several");
    assert_eq!(&*sent.wait(LONG).unwrap(), b"several");
    drop(p);
    let other: SharedMessage = kept.clone();
    std::thread::spawn(move || assert_eq!(&*other, b"several")).join().unwrap();
    assert_eq!(&*kept, b"several");
}

/// Messages of all kinds outlive their context.
#[test]
fn messages_after_their_context() {
    let p = Pair::plain();
    let mut kept = Vec::new();

    for n in sizes(&p.client) {
        p.client.send_owned(pattern(n), 0).unwrap().then(drop);
        kept.push(p.server.recv(LONG).unwrap());
    }
    let own = p.client.alloc(100).unwrap();
    let slice: &[u8] = &kept[3];
    drop(p);
    assert_eq!(slice, pattern(slice.len()));
    for msg in kept {
        assert_eq!(*msg, *pattern(msg.len()));
    }
    assert_eq!(own.len(), 100);
}

/// An operation that nobody waits for keeps its memory, and gives it back.
#[test]
fn operations_own_their_memory() {
    let p = Pair::plain();
    let memory: Arc<[u8]> = pattern(300_000).into();

    drop(p.client.send_owned(memory.clone(), 0).unwrap());
    assert_eq!(Arc::strong_count(&memory), 2);
    assert_eq!(&*p.server.recv(LONG).unwrap(), &*memory);
    until(&p.ctx, || Arc::strong_count(&memory) == 1);

    let pending = p.client.send_owned(memory.clone(), 0).unwrap();
    drop(p);
    assert!(pending.is_done());
    assert!(matches!(pending.wait(LONG), Err(Error::Canceled(_))));
    assert_eq!(Arc::strong_count(&memory), 1);
}

#[test]
fn corked() {
    let p = Pair::plain();
    {
        let _cork = p.ctx.cork().unwrap();
        for _ in 0..10 {
            p.client.send("together").unwrap();
        }
    }
    for _ in 0..10 {
        assert_eq!(&*p.server.recv(LONG).unwrap(), b"together");
    }
}

#[test]
fn lengths() {
    let p = Pair::plain();
    let mut msg = p.client.alloc(100).unwrap();

    msg.set_len(4).unwrap();
    msg.copy_from_slice(b"four");
    assert!(matches!(msg.set_len(101), Err(Error::InvalidArgument(_))));
    p.client.send_message(msg, 0).unwrap();
    assert_eq!(&*p.server.recv(LONG).unwrap(), b"four");
}
