// SPDX-License-Identifier: BSD-2-Clause
//! One-sided operations, and a team.

mod common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use common::*;
use rdmamsg::{
    Access, Cause, Combine, Context, Endpoint, Error, Key, ListenOptions,
    Region, Team,
};

fn all_access() -> Access {
    let access = Access::READ | Access::WRITE | Access::LOCAL_WRITE;
    if has_atomics() {
        access | Access::ATOMIC
    } else {
        access
    }
}

/// Two ends, and memory at each.
struct Memories {
    local: Region,
    remote: Region,
    key: Key,
    notified: Rc<Cell<u32>>,
    p: Pair,
}

impl Memories {
    fn new() -> Memories {
        let notified = Rc::new(Cell::new(0));
        let to = notified.clone();
        let p = Pair::new(
            options().on_written(move |_, value| to.set(value)),
            options(),
        );
        let local = Region::new(&p.ctx, 4096, all_access()).unwrap();
        let remote =
            Region::from_vec(&p.ctx, vec![0; 4096], all_access()).unwrap();
        local.register(&p.client).unwrap();
        let key = remote.key(&p.server).unwrap();
        let key = Key::from_bytes(key.as_bytes()).unwrap();
        assert_eq!(key.reach().unwrap().0, 4096);
        Memories { local, remote, key, notified, p }
    }
}

#[test]
fn reads_and_writes() {
    let m = Memories::new();
    let ep: &Endpoint = &m.p.client;

    m.local.write_at(0, b"sixteen bytes...").unwrap();
    ep.at(&m.key, 8).write(&m.local, 0..16).unwrap().wait(LONG).unwrap();
    ep.flush().unwrap().wait(LONG).unwrap();
    assert_eq!(m.remote.to_vec(8..24).unwrap(), b"sixteen bytes...");
    ep.at(&m.key, 128).write_copy(b"small").unwrap().wait(LONG).unwrap();
    let read = ep.at(&m.key, 128).fence().read(&m.local, 256..261).unwrap();
    read.wait(LONG).unwrap();
    assert_eq!(m.local.to_vec(256..261).unwrap(), b"small");
    let outside = ep.at(&m.key, 4096).read(&m.local, 0..8);
    assert!(matches!(outside, Err(Error::InvalidArgument(_))));
}

#[test]
fn parts_outside_of_a_region() {
    let m = Memories::new();
    let target = m.p.client.at(&m.key, 0);

    assert!(target.clone().write(&m.local, 4090..4097).is_err());
    assert!(target.clone().read(&m.local, 0..usize::MAX).is_err());
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = 8..0;
    assert!(target.read(&m.local, backwards).is_err());
    assert!(m.local.write_at(usize::MAX, b"x").is_err());
    assert!(m.local.to_vec(4000..5000).is_err());
    assert!(m.local.load(4).is_err() && m.local.store(4096, 1).is_err());
}

#[test]
fn notifies() {
    let m = Memories::new();

    m.local.store(0, 99).unwrap();
    let write =
        m.p.client.at(&m.key, 0).notify(5).timeout(Duration::from_secs(20));
    write.write(&m.local, 0..8).unwrap().wait(LONG).unwrap();
    until(&m.p.ctx, || m.notified.get() == 5);
    assert_eq!(m.remote.load(0).unwrap(), 99);
}

#[test]
fn atomics() {
    if !has_atomics() {
        return;
    }
    let m = Memories::new();
    let ep = &m.p.client;

    m.remote.store(8, 1).unwrap();
    let old = ep.at(&m.key, 8).fetch_add(41).unwrap().wait(LONG).unwrap();
    assert_eq!((old, m.remote.load(8).unwrap()), (1, 42));
    let old = ep.at(&m.key, 8).compare_swap(42, 7).unwrap();
    assert_eq!(old.wait(LONG).unwrap(), 42);
    assert_eq!(m.remote.load(8).unwrap(), 7);
    assert!(ep.masked().unwrap().size > 0);
}

/// The key is refused: the connection ends, and the operation says why.
#[test]
fn revoked() {
    let m = Memories::new();

    m.remote.revoke().unwrap();
    let read = m.p.client.at(&m.key, 0).read(&m.local, 0..8).unwrap();
    assert!(matches!(read.wait(LONG), Err(Error::NoPermission(_))));
    until(&m.p.ctx, || m.p.client.has_ended());
    assert_eq!(m.p.client.reason().unwrap().cause, Cause::Access);
}

#[test]
fn key_in_setup_data() {
    let ctx = Context::new().unwrap();
    let memory = b"read me before anything is sent".to_vec();
    let len = memory.len();
    let remote = Region::from_vec(&ctx, memory.clone(), Access::READ).unwrap();
    let server = Rc::new(RefCell::new(None));
    let (to, region) = (server, remote.clone());
    let on = ListenOptions::new().on_request(move |req| {
        let key = req.key(&region).unwrap();
        let opts = options().setup_data(key.as_bytes());
        *to.borrow_mut() = Some(req.accept(opts).unwrap());
    });
    let listener = ctx.listen("127.0.0.1", "0", on).unwrap();
    let ep =
        ctx.connect_wait("127.0.0.1", &listener.service(), options()).unwrap();
    let local = Region::new(&ctx, len, Access::LOCAL_WRITE).unwrap();
    let key = Key::from_bytes(&ep.peer_data().unwrap()).unwrap();

    local.register(&ep).unwrap();
    ep.at(&key, 0).read(&local, 0..len).unwrap().wait(LONG).unwrap();
    assert_eq!(local.to_vec(0..len).unwrap(), memory);
    assert_eq!(remote.len(), len);
}

/// Regions end before and after operations, endpoints and contexts.
#[test]
fn regions_end_in_any_order() {
    let m = Memories::new();
    let Memories { local, remote, key, p, .. } = m;
    let first = p.client.at(&key, 0).read(&local, 0..4096).unwrap();

    drop(local);
    until(&p.ctx, || first.is_done());
    drop(first);
    let local = Region::new(&p.ctx, 1 << 20, all_access()).unwrap();
    local.register(&p.client).unwrap();
    drop(p.client.at(&key, 0).read(&local, 0..4096).unwrap());
    drop(local);
    p.client.flush().unwrap().wait(LONG).unwrap();
    let dump = p.ctx.dump().unwrap();
    assert!(!dump.contains("1048576"), "the region is destroyed: {dump}");
    drop(p);
    assert_eq!(remote.to_vec(0..8).unwrap(), [0; 8]);
    assert!(remote.revoke().is_err());
}

#[test]
fn sends_a_region() {
    let m = Memories::new();
    let big = Region::new(&m.p.ctx, 1 << 20, Access::READ).unwrap();

    big.write_at(0, &pattern(1 << 20)).unwrap();
    big.register(&m.p.client).unwrap();
    let sent = m.p.client.send_region(&big, 0..1 << 20, 4).unwrap();
    let msg = m.p.server.recv(LONG).unwrap();
    assert_eq!((msg.tag(), &*msg), (4, &*pattern(1 << 20)));
    sent.wait(LONG).unwrap();
}

/// A port that is free for a member to listen on.
fn free_address(ctx: &Context) -> String {
    let listener = ctx.listen("127.0.0.1", "0", ListenOptions::new()).unwrap();
    format!("127.0.0.1:{}", listener.port())
}

/// Two members, each in a thread with its context.
#[test]
fn team_of_two() {
    let ctx = Context::new().unwrap();
    let addresses = [free_address(&ctx), free_address(&ctx)];
    let both = Arc::new(Barrier::new(2));
    let member = |rank: u32, addresses: [String; 2], both: Arc<Barrier>| {
        let ctx = Context::new().unwrap();
        let list = [addresses[0].as_str(), addresses[1].as_str()];
        let team =
            Team::connect(&ctx, &list, rank, Duration::from_secs(30)).unwrap();

        team.wait(LONG).unwrap();
        let mine = vec![i64::from(rank) + 1, 10];
        let sum = team.allreduce(Combine::Add, mine).unwrap();
        assert_eq!(sum.wait(LONG).unwrap(), [3, 20]);
        let max = team.allreduce(Combine::Max, vec![f64::from(rank)]).unwrap();
        assert_eq!(max.wait(LONG).unwrap(), [1.0]);
        let bytes = if rank == 0 { b"all".to_vec() } else { vec![0; 3] };
        let bytes = team.broadcast(bytes, 0).unwrap();
        assert_eq!(bytes.wait(LONG).unwrap(), b"all");
        team.barrier().unwrap().wait(LONG).unwrap();
        assert_eq!(team.failure().unwrap().error, 0);
        both.wait();
        // the team is destroyed in an operation
        let left = team.barrier().unwrap();
        drop(team);
        drop(ctx);
        assert!(left.is_done());
    };
    let (others, wait) = (addresses.clone(), both.clone());
    let other = std::thread::spawn(move || member(1, others, wait));

    member(0, addresses, both);
    other.join().unwrap();
}
