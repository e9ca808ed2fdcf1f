// SPDX-License-Identifier: BSD-2-Clause
//! The same echo with the C interface and with the crate, in turns. Both ends
//! are endpoints of one context, so one thread does all of the work, and the
//! other processor and wake-ups add nothing. Prints nanoseconds per exchange,
//! the median of the rounds, and the ratio.
//!
//! Usage: bench [ROUNDS]
#![deny(unsafe_op_in_unsafe_fn)]

use std::cell::Cell;
use std::env;
use std::ffi::{c_void, CString};
use std::mem::{size_of, zeroed};
use std::ptr::null_mut;
use std::rc::Rc;
use std::time::Instant;

use rdmamsg::{Context, EndpointOptions, ListenOptions, Result};
use rdmamsg_sys as sys;

const SIZES: [usize; 4] = [64, 1024, 4096, 65536];
const WARM: u32 = 2000;

fn per_exchange(start: Instant, n: u32) -> f64 {
    start.elapsed().as_nanos() as f64 / f64::from(n)
}

// ---- the C interface ------------------------------------------------------

#[derive(Default)]
struct State {
    server: Cell<usize>,
    got: Cell<u32>,
    connected: Cell<bool>,
}

unsafe extern "C" fn echo(
    ep: *mut sys::rdmamsg_ep,
    msg: *mut sys::rdmamsg_msg,
) {
    // SAFETY: both are valid in the callback.
    unsafe {
        let data = sys::rdmamsg_msg_data(msg);
        let len = sys::rdmamsg_msg_len(msg);
        assert_eq!(sys::rdmamsg_send(ep, data, len, 0, null_mut()), 0);
        sys::rdmamsg_msg_free(msg);
    }
}

unsafe extern "C" fn count(
    ep: *mut sys::rdmamsg_ep,
    msg: *mut sys::rdmamsg_msg,
) {
    // SAFETY: both are valid, and the state outlives the context.
    unsafe {
        let s = &*(sys::rdmamsg_ep_user(ep) as *const State);
        s.got.set(s.got.get() + 1);
        sys::rdmamsg_msg_free(msg);
    }
}

unsafe extern "C" fn connected(ep: *mut sys::rdmamsg_ep) {
    // SAFETY: as in count().
    let s = unsafe { &*(sys::rdmamsg_ep_user(ep) as *const State) };
    s.connected.set(true);
}

unsafe extern "C" fn request(
    l: *mut sys::rdmamsg_listener,
    req: *mut sys::rdmamsg_request,
) {
    // SAFETY: the library copies the structs, and all else is valid.
    unsafe {
        let s = &*(sys::rdmamsg_listener_user(l) as *const State);
        let mut on: sys::rdmamsg_ep_handlers = zeroed();
        let mut opts: sys::rdmamsg_ep_options = zeroed();
        let mut ep = null_mut();

        on.size = size_of::<sys::rdmamsg_ep_handlers>();
        on.on_message = Some(echo);
        opts.size = size_of::<sys::rdmamsg_ep_options>();
        opts.handlers = &on;
        assert_eq!(sys::rdmamsg_request_accept(req, &opts, &mut ep), 0);
        s.server.set(ep as usize);
    }
}

unsafe fn connect(ctx: *mut sys::rdmamsg, s: &State) -> *mut sys::rdmamsg_ep {
    // SAFETY: as in request().
    unsafe {
        let host = CString::new("127.0.0.1").unwrap();
        let any = CString::new("0").unwrap();
        let user = s as *const State as *mut c_void;
        let mut lon: sys::rdmamsg_listener_handlers = zeroed();
        let mut lopts: sys::rdmamsg_listen_options = zeroed();
        let mut on: sys::rdmamsg_ep_handlers = zeroed();
        let mut opts: sys::rdmamsg_ep_options = zeroed();
        let (mut l, mut ep) = (null_mut(), null_mut());

        lon.size = size_of::<sys::rdmamsg_listener_handlers>();
        lon.on_request = Some(request);
        lopts.size = size_of::<sys::rdmamsg_listen_options>();
        lopts.user = user;
        lopts.handlers = &lon;
        assert_eq!(
            sys::rdmamsg_listen(
                ctx,
                host.as_ptr(),
                any.as_ptr(),
                &lopts,
                &mut l
            ),
            0
        );
        on.size = size_of::<sys::rdmamsg_ep_handlers>();
        on.on_connected = Some(connected);
        on.on_message = Some(count);
        opts.size = size_of::<sys::rdmamsg_ep_options>();
        opts.user = user;
        opts.handlers = &on;
        let port =
            CString::new(sys::rdmamsg_listener_port(l).to_string()).unwrap();
        assert_eq!(
            sys::rdmamsg_connect(
                ctx,
                host.as_ptr(),
                port.as_ptr(),
                &opts,
                &mut ep
            ),
            0
        );
        while !s.connected.get() {
            assert!(sys::rdmamsg_wait(ctx, 1000) >= 0);
        }
        ep
    }
}

fn in_c(size: usize, n: u32) -> f64 {
    let data = vec![b'x'; size];
    let s = State::default();

    // SAFETY: the state and the data outlive the context.
    unsafe {
        let mut ctx = null_mut();
        assert_eq!(sys::rdmamsg_open(&mut ctx, null_mut()), 0);
        let ep = connect(ctx, &s);
        let mut start = Instant::now();
        for i in 0..WARM + n {
            if i == WARM {
                start = Instant::now();
            }
            let at = data.as_ptr() as *const c_void;
            assert_eq!(sys::rdmamsg_send(ep, at, size, 0, null_mut()), 0);
            while s.got.get() == i {
                assert!(sys::rdmamsg_process(ctx) >= 0);
            }
        }
        let ns = per_exchange(start, n);
        sys::rdmamsg_close(ctx);
        ns
    }
}

// ---- the crate ------------------------------------------------------------

fn in_rust(size: usize, n: u32) -> Result<f64> {
    let data = vec![b'x'; size];
    let got = Rc::new(Cell::new(0));
    let ctx = Context::new()?;
    let on = ListenOptions::new().on_request(|req| {
        let opts = EndpointOptions::new().on_message(|ep, msg| {
            ep.send(&*msg).unwrap();
        });
        req.accept(opts).unwrap().detach();
    });
    let listener = ctx.listen("127.0.0.1", "0", on)?;
    let mine = got.clone();
    let opts =
        EndpointOptions::new().on_message(move |_, _| mine.set(mine.get() + 1));
    let ep = ctx.connect_wait("127.0.0.1", &listener.service(), opts)?;
    let mut start = Instant::now();

    for i in 0..WARM + n {
        if i == WARM {
            start = Instant::now();
        }
        ep.send(&data)?;
        while got.get() == i {
            ctx.process()?;
        }
    }
    Ok(per_exchange(start, n))
}

// ---- both -----------------------------------------------------------------

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

fn compare(size: usize, rounds: usize) -> Result<()> {
    let n = if size > 8192 { 20_000 } else { 100_000 };
    let (mut c, mut rust) = (Vec::new(), Vec::new());

    for i in 0..rounds {
        if i % 2 == 0 {
            c.push(in_c(size, n));
            rust.push(in_rust(size, n)?);
        } else {
            rust.push(in_rust(size, n)?);
            c.push(in_c(size, n));
        }
    }
    let (c, rust) = (median(c), median(rust));
    println!("{size:8} {c:10.0} {rust:10.0} {:6.3}", rust / c);
    Ok(())
}

fn main() -> Result<()> {
    let rounds = env::args().nth(1).map_or(Ok(7), |s| s.parse());
    let rounds = match rounds {
        Ok(n) if n > 0 => n,
        _ => {
            eprintln!("Usage: bench [ROUNDS]");
            std::process::exit(2);
        }
    };

    println!(
        "{:>8} {:>10} {:>10} {:>6}",
        "bytes", "C, ns", "Rust, ns", "ratio"
    );
    for size in SIZES {
        compare(size, rounds)?;
    }
    Ok(())
}
