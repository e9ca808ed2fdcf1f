// SPDX-License-Identifier: BSD-2-Clause
//! echo PORT: sends each message back; 0: a free port, which it prints
//! echo HOST PORT TEXT: sends the text, and prints what comes back

use std::env;
use std::process::exit;
use std::time::Duration;

use rdmamsg::{Context, EndpointOptions, ListenOptions, Result};

fn serve(port: &str) -> Result<()> {
    let ctx = Context::new()?;
    let on = ListenOptions::new().on_request(|req| {
        let opts = EndpointOptions::new().on_message(|ep, msg| {
            // a client that sends on without reading is not served
            if ep.send_message(msg, 0).is_err() {
                ep.abort();
            }
        });
        // the peer may have gone
        if let Ok(ep) = req.accept(opts) {
            ep.detach();
        }
    });
    let listener = ctx.listen("", port, on)?;

    println!("{}", listener.port());
    ctx.run()
}

fn ask(host: &str, port: &str, text: &str) -> Result<()> {
    let ctx = Context::new()?;
    let ep = ctx.connect_wait(host, port, EndpointOptions::new())?;

    ep.send(text)?;
    let answer = ep.recv(Some(Duration::from_secs(10)))?;
    println!("{}", String::from_utf8_lossy(&answer));
    ep.close_wait(None)
}

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words[..] {
        [port] => serve(port),
        [host, port, text] => ask(host, port, text),
        _ => {
            eprintln!("Usage: echo PORT | HOST PORT TEXT");
            exit(2);
        }
    };

    if let Err(e) = result {
        eprintln!("echo: {e}");
        exit(1);
    }
}
