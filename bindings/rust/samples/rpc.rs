// SPDX-License-Identifier: BSD-2-Clause
//! Calls with a deadline, with tokio.
//! rpc PORT: answers each call after as many ms as it says; 0: a free port
//! rpc HOST PORT: makes three calls, one of which is too slow

use std::env;
use std::process::exit;
use std::rc::Rc;
use std::time::Duration;

use rdmamsg::aio::{Context, Endpoint};
use rdmamsg::{EndpointOptions, ListenOptions, Message, Result};
use tokio::task::{spawn_local, LocalSet};
use tokio::time::{sleep, timeout};

/// The tag is the number of the call. A peer that has gone needs no answer.
async fn answer(ep: Rc<Endpoint>, call: Message) {
    let text = String::from_utf8_lossy(&call).into_owned();
    let ms = text.parse().unwrap_or(0).min(10_000);

    sleep(Duration::from_millis(ms)).await;
    let _gone = ep.send(format!("after {text} ms"), call.tag()).await;
}

async fn serve_peer(ep: Endpoint) {
    let ep = Rc::new(ep);
    while let Ok(call) = ep.recv().await {
        spawn_local(answer(ep.clone(), call));
    }
}

async fn serve(ctx: &Context, port: &str) -> Result<()> {
    let listener = ctx.listen("", port, ListenOptions::new())?;

    println!("{}", listener.port());
    loop {
        // a peer that went while it connected is no end
        if let Ok(ep) = listener.accept(EndpointOptions::new()).await {
            spawn_local(serve_peer(ep));
        }
    }
}

/// Answers to earlier calls, which came too late, are dropped.
async fn call(ep: &Endpoint, number: u32, text: &str) -> Result<String> {
    ep.send(text, number).await?;
    loop {
        let answer = ep.recv().await?;
        if answer.tag() == number {
            return Ok(String::from_utf8_lossy(&answer).into_owned());
        }
    }
}

async fn ask(ctx: &Context, host: &str, port: &str) -> Result<()> {
    let ep = ctx.connect(host, port, EndpointOptions::new()).await?;

    println!("{}", call(&ep, 1, "1").await?);
    let short = Duration::from_millis(50);
    match timeout(short, call(&ep, 2, "500")).await {
        Ok(answer) => println!("{}", answer?),
        Err(_) => println!("500 ms: Connection timed out"),
    }
    println!("{}", call(&ep, 3, "2").await?);
    ep.close().await
}

async fn run(words: &[&str]) -> Result<()> {
    let ctx = Context::new(rdmamsg::Context::new()?)?;
    let set = LocalSet::new();

    match words {
        [port] => ctx.run_until(set.run_until(serve(&ctx, port))).await?,
        [host, port] => ctx.run_until(ask(&ctx, host, port)).await?,
        _ => {
            eprintln!("Usage: rpc PORT | HOST PORT");
            exit(2);
        }
    }
}

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let rt = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");

    if let Err(e) = rt.block_on(run(&words)) {
        eprintln!("rpc: {e}");
        exit(1);
    }
}
