// SPDX-License-Identifier: BSD-2-Clause
//! A message allocates nothing in the binding.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::*;

/// Counts what Rust allocates; the library has its own.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: it calls the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        System.dealloc(p, layout)
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Sends a message there and back, by callbacks.
#[test]
fn a_message_allocates_nothing() {
    const ALL: u32 = 2000;
    let got = Rc::new(Cell::new(0));
    let counted = Rc::new(Cell::new((0, 0)));
    let (n, c) = (got.clone(), counted.clone());
    let p = Pair::new(
        options().on_message(|ep, msg| ep.send_message(msg, 0).unwrap()),
        options().on_message(move |ep, msg| {
            n.set(n.get() + 1);
            let now = COUNT.load(Ordering::Relaxed);
            match n.get() {
                100 => c.set((now, 0)),
                ALL => c.set((c.get().0, now)),
                _ => {}
            }
            if n.get() < ALL {
                ep.send(&*msg).unwrap();
            }
        }),
    );

    p.client.send(pattern(64)).unwrap();
    until(&p.ctx, || got.get() == ALL);
    let (first, last) = counted.get();
    assert_eq!(last - first, 0, "allocations of {} messages", ALL - 100);
}
