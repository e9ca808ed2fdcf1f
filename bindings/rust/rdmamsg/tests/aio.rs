// SPDX-License-Identifier: BSD-2-Clause
//! With tokio: messages, back-pressure, ends, dropped futures.
#![cfg(feature = "tokio")]

mod common;

use std::future::Future;
use std::time::Duration;

use common::*;
use futures::StreamExt;
use rdmamsg::aio::{Context, Endpoint, Listener};
use rdmamsg::{Error, ListenOptions, Result};
use tokio::time::timeout;

fn block_on<F: Future>(f: F) -> F::Output {
    let rt = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    rt.block_on(async {
        timeout(LONG.unwrap(), f).await.expect("it took too long")
    })
}

fn context() -> (Context, Listener) {
    let ctx = Context::new(rdmamsg::Context::new().unwrap()).unwrap();
    let listener = ctx.listen("127.0.0.1", "0", ListenOptions::new()).unwrap();
    (ctx, listener)
}

async fn pair(ctx: &Context, listener: &Listener) -> (Endpoint, Endpoint) {
    let service = listener.service();
    let (server, client) = tokio::join!(
        listener.accept(options()),
        ctx.connect("127.0.0.1", &service, options())
    );
    (server.unwrap(), client.unwrap())
}

#[test]
fn sends_and_receives() {
    block_on(async {
        let (ctx, listener) = context();
        let test = async {
            let (server, client) = pair(&ctx, &listener).await;
            for n in [0, 1, 1000, 65536] {
                client.send(pattern(n), 3).await.unwrap();
                let msg = server.recv().await.unwrap();
                assert_eq!((msg.tag(), &*msg), (3, &*pattern(n)));
            }
            let large = pattern(1 << 20);
            let (sent, got) =
                tokio::join!(client.send_owned(large, 0), server.recv());
            assert_eq!(&*got.unwrap(), sent.unwrap());
            client.close().await.unwrap();
            assert!(matches!(server.recv().await, Err(Error::Closed(_))));
        };
        ctx.run_until(test).await.unwrap();
    });
}

/// A sender that is much faster waits, and the queue has an end.
#[test]
fn waits_for_room() {
    block_on(async {
        let (ctx, listener) = context();
        let test = async {
            let (server, client) = pair(&ctx, &listener).await;
            let send = async {
                for n in 0..5000u32 {
                    client.send(n.to_ne_bytes(), n).await.unwrap();
                }
                client.close().await.unwrap();
            };
            let receive = async {
                // nothing is read before the sender waits
                while ctx.stats().unwrap().sends_refused == 0 {
                    tokio::task::yield_now().await;
                }
                let mut got = 0u32;
                let mut server = server;
                while let Some(msg) = server.next().await {
                    assert_eq!(*msg.unwrap(), got.to_ne_bytes());
                    got += 1;
                }
                got
            };
            let ((), got) = tokio::join!(send, receive);
            assert_eq!(got, 5000);
        };
        ctx.run_until(test).await.unwrap();
    });
}

#[test]
fn tasks_of_a_local_set() {
    block_on(async {
        let (ctx, listener) = context();
        let service = listener.service();
        let set = tokio::task::LocalSet::new();
        set.spawn_local(async move {
            loop {
                let mut ep = listener.accept(options()).await.unwrap();
                tokio::task::spawn_local(async move {
                    while let Some(Ok(msg)) = ep.next().await {
                        ep.send(&*msg, msg.tag()).await.unwrap();
                    }
                });
            }
        });
        let clients = async {
            let each = (0..10u32).map(|n| {
                let (ctx, service) = (&ctx, service.as_str());
                async move {
                    let ep =
                        ctx.connect("127.0.0.1", service, options()).await?;
                    ep.send("echo", n).await?;
                    let tag = ep.recv().await?.tag();
                    ep.close().await?;
                    Result::Ok(tag)
                }
            });
            futures::future::join_all(each).await
        };
        let tags = ctx.run_until(set.run_until(clients)).await.unwrap();
        for (n, tag) in tags.into_iter().enumerate() {
            assert_eq!(tag.unwrap(), n as u32);
        }
    });
}

/// A future that is dropped takes no message with it.
#[test]
fn dropped_futures() {
    block_on(async {
        let (ctx, listener) = context();
        let test = async {
            let (server, client) = pair(&ctx, &listener).await;
            let short = Duration::from_millis(5);
            assert!(timeout(short, server.recv()).await.is_err());
            client.send("kept", 0).await.unwrap();
            assert_eq!(&*server.recv().await.unwrap(), b"kept");
            assert!(timeout(short, listener.accept(options())).await.is_err());
            drop(pair(&ctx, &listener).await);
            let connecting = ctx.connect("127.0.0.1", "1", options());
            drop(timeout(Duration::ZERO, connecting).await);
            client.send("goes on", 0).await.unwrap();
            assert_eq!(&*server.recv().await.unwrap(), b"goes on");
        };
        ctx.run_until(test).await.unwrap();
    });
}

#[test]
fn errors() {
    block_on(async {
        let (ctx, listener) = context();
        let test = async {
            let service = listener.service();
            let (mut server, client) = pair(&ctx, &listener).await;
            client.abort();
            let e = server.next().await.unwrap();
            assert!(matches!(e, Err(Error::Disconnected(_))));
            assert!(server.next().await.is_none());
            assert!(client.close().await.is_err());
            assert!(client.send("x", 0).await.is_err());
            drop(listener);
            let e = ctx.connect("127.0.0.1", &service, options()).await;
            assert!(matches!(e.map(drop), Err(Error::Refused(_))));
        };
        ctx.run_until(test).await.unwrap();
    });
}

/// A panic of a callback goes on in the future that drives.
#[test]
fn panics() {
    let text = panic_of(|| {
        block_on(async {
            let (ctx, listener) = context();
            let opts = options().on_connected(|_| panic!("connected"));
            let service = listener.service();
            let connect = ctx.connect("127.0.0.1", &service, opts);
            drop(
                ctx.run_until(async {
                    tokio::join!(connect, listener.accept(options()))
                })
                .await,
            );
        })
    });
    assert_eq!(text, "connected");
}
