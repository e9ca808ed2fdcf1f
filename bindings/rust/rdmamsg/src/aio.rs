// SPDX-License-Identifier: BSD-2-Clause
//! Asynchronous use with tokio (feature `tokio`). A context belongs to one
//! thread, so its futures run in the main future of a runtime, or in a
//! `LocalSet`. Dropping a future leaves nothing half done: what was accepted is
//! sent, and a message that was not returned is returned by the next call.
//!
//! ```
//! use rdmamsg::{aio, EndpointOptions, ListenOptions};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use tokio::runtime::Builder;
//! # let rt = Builder::new_current_thread().enable_all().build()?;
//! # rt.block_on(async {
//! let ctx = aio::Context::new(rdmamsg::Context::new()?)?;
//! let listener = ctx.listen("127.0.0.1", "0", ListenOptions::new())?;
//! let service = listener.service();
//! let client = ctx.connect("127.0.0.1", &service, EndpointOptions::new());
//! let server = listener.accept(EndpointOptions::new());
//! ctx.run_until(async {
//!     let (client, server) = tokio::join!(client, server);
//!     let (client, server) = (client?, server?);
//!     client.send("hello", 0).await?;
//!     assert_eq!(&*server.recv().await?, b"hello");
//!     client.close().await
//! })
//! .await??;
//! # Ok(())
//! # })
//! # }
//! ```

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::ops::Deref;
use std::os::unix::io::{AsRawFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};

use ::tokio::io::unix::AsyncFd;
use ::tokio::io::Interest;
use futures_core::Stream;

use crate::buffer::Buffer;
use crate::error::{Error, Result, Unsent};
use crate::listener::{ListenOptions, Request};
use crate::message::Message;
use crate::options::EndpointOptions;

/// Messages that wait for the program before the endpoint pauses.
const MOST: usize = 256;

struct PollFn<F>(F);

impl<F> Unpin for PollFn<F> {}

impl<T, F: FnMut(&mut TaskContext<'_>) -> Poll<T>> Future for PollFn<F> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<T> {
        (self.0)(cx)
    }
}

/// As in std since 1.64.
fn poll_fn<T, F: FnMut(&mut TaskContext<'_>) -> Poll<T>>(f: F) -> PollFn<F> {
    PollFn(f)
}

/// Lets other tasks run.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn system(e: std::io::Error) -> Error {
    let errno = e.raw_os_error().unwrap_or(libc::EIO);
    Error::new(-errno, Some(&e.to_string()))
}

/// A context that tokio drives: [`Context::drive`] or [`Context::run_until`].
pub struct Context {
    // deregistered before the context closes its descriptor
    fd: AsyncFd<RawFd>,
    ctx: crate::Context,
}

impl Context {
    /// Takes a context. Must be called in a runtime with I/O.
    pub fn new(ctx: crate::Context) -> Result<Context> {
        ctx.core.live()?;
        let fd = AsyncFd::with_interest(ctx.as_raw_fd(), Interest::READABLE)
            .map_err(system)?;
        Ok(Context { fd, ctx })
    }

    /// Drives the context, and returns only errors. A panic of a callback goes
    /// on here.
    pub async fn drive(&self) -> Result<()> {
        loop {
            let mut ready = self.fd.readable().await.map_err(system)?;
            self.ctx.process()?;
            // tokio is told of changes only
            if !is_readable(*self.fd.get_ref()) {
                ready.clear_ready();
            }
            yield_now().await;
        }
    }

    /// Drives the context until the future has its result.
    pub async fn run_until<F: Future>(&self, f: F) -> Result<F::Output> {
        let mut f = Box::pin(f);
        let mut drive = Box::pin(self.drive());
        poll_fn(|cx| {
            if let Poll::Ready(ret) = f.as_mut().poll(cx) {
                return Poll::Ready(Ok(ret));
            }
            match drive.as_mut().poll(cx) {
                Poll::Ready(Err(e)) => Poll::Ready(Err(e)),
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// Connects. Messages come by [`Endpoint::recv`], without `on_message`.
    pub async fn connect(
        &self,
        host: &str,
        service: &str,
        opts: EndpointOptions,
    ) -> Result<Endpoint> {
        let inbox = Rc::default();
        let ep = self.ctx.connect(host, service, with_inbox(opts, &inbox))?;
        Endpoint { ep, inbox }.connected().await
    }

    /// Listens. Requests come by [`Listener::accept`], without `on_request`.
    pub fn listen(
        &self,
        host: &str,
        service: &str,
        opts: ListenOptions,
    ) -> Result<Listener> {
        let listener = self.ctx.listen(host, service, opts)?;
        Ok(Listener { listener })
    }
}

impl Deref for Context {
    type Target = crate::Context;

    fn deref(&self) -> &crate::Context {
        &self.ctx
    }
}

fn is_readable(fd: RawFd) -> bool {
    let mut p = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: there is one struct, and the call does not wait.
    unsafe { libc::poll(&mut p, 1, 0) != 0 }
}

/// A listener whose requests are awaited.
pub struct Listener {
    listener: crate::Listener,
}

impl Listener {
    /// The next request.
    pub async fn request(&self) -> Result<Request> {
        poll_fn(|cx| {
            if let Some(req) = self.listener.request() {
                return Poll::Ready(Ok(req));
            }
            if let Err(e) = self.listener.is_open() {
                return Poll::Ready(Err(e));
            }
            self.listener.wake_by(cx.waker());
            Poll::Pending
        })
        .await
    }

    /// The next peer, when it is connected.
    pub async fn accept(&self, opts: EndpointOptions) -> Result<Endpoint> {
        let req = self.request().await?;
        Endpoint::accept(req, opts).await
    }
}

impl Deref for Listener {
    type Target = crate::Listener;

    fn deref(&self) -> &crate::Listener {
        &self.listener
    }
}

/// Messages that have come, for one endpoint.
#[derive(Default)]
struct Inbox {
    messages: RefCell<VecDeque<Message>>,
    paused: Cell<bool>,
    failed: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

fn with_inbox(opts: EndpointOptions, inbox: &Rc<Inbox>) -> EndpointOptions {
    let inbox = inbox.clone();
    opts.on_message(move |ep, msg| {
        let mut messages = inbox.messages.borrow_mut();
        messages.push_back(msg);
        if messages.len() >= MOST && ep.pause().is_ok() {
            inbox.paused.set(true);
        }
        if let Some(waker) = inbox.waker.take() {
            waker.wake();
        }
    })
}

/// An endpoint whose messages and room are awaited. It is also a stream of
/// messages, which ends when the peer has closed.
pub struct Endpoint {
    ep: crate::Endpoint,
    inbox: Rc<Inbox>,
}

impl Endpoint {
    /// Accepts a request, and waits until the peer is connected.
    pub async fn accept(
        req: Request,
        opts: EndpointOptions,
    ) -> Result<Endpoint> {
        let inbox = Rc::default();
        let ep = req.accept(with_inbox(opts, &inbox))?;
        Endpoint { ep, inbox }.connected().await
    }

    async fn connected(self) -> Result<Endpoint> {
        poll_fn(|cx| {
            if self.ep.is_connected() {
                return Poll::Ready(Ok(()));
            }
            self.poll_end(cx).map(Err)
        })
        .await?;
        Ok(self)
    }

    /// Ready when the endpoint has ended; else the next change wakes the task.
    fn poll_end(&self, cx: &mut TaskContext<'_>) -> Poll<Error> {
        if self.ep.has_ended() {
            return Poll::Ready(self.ep.why_ended());
        }
        self.ep.state.wake_by(cx.waker());
        Poll::Pending
    }

    /// The next message. [`Error::Closed`]: the peer has closed.
    pub async fn recv(&self) -> Result<Message> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    fn poll_recv(&self, cx: &mut TaskContext<'_>) -> Poll<Result<Message>> {
        let (msg, left) = {
            let mut messages = self.inbox.messages.borrow_mut();
            (messages.pop_front(), messages.len())
        };
        if left <= MOST / 2 && self.inbox.paused.replace(false) {
            // an endpoint that has ended needs no resume
            drop(self.ep.resume());
        }
        if let Some(msg) = msg {
            return Poll::Ready(Ok(msg));
        }
        *self.inbox.waker.borrow_mut() = Some(cx.waker().clone());
        self.poll_end(cx).map(Err)
    }

    /// Waits for room, and sends a copy of up to 64 KB by default.
    pub async fn send(&self, data: impl AsRef<[u8]>, tag: u32) -> Result<()> {
        let data = data.as_ref();
        poll_fn(|cx| match self.ep.send_tagged(data, tag) {
            Err(Error::Again) => self.poll_end(cx).map(Err),
            other => Poll::Ready(other),
        })
        .await
    }

    /// Waits for room, sends from where the data is, and returns it when the
    /// peer has the message.
    pub async fn send_owned<B: Buffer>(&self, data: B, tag: u32) -> Result<B> {
        let mut next = Some(data);
        let pending = poll_fn(|cx| {
            let data = next.take().expect("the data is there");
            match self.ep.send_owned(data, tag) {
                Err(Unsent { error: Error::Again, value }) => {
                    next = Some(value);
                    self.poll_end(cx).map(Err)
                }
                other => Poll::Ready(other.map_err(Error::from)),
            }
        })
        .await?;
        pending.await
    }

    /// Closes gracefully, and waits for the end. Fails if it was not graceful.
    pub async fn close(&self) -> Result<()> {
        self.ep.close();
        match poll_fn(|cx| self.poll_end(cx)).await {
            Error::Closed(_) => Ok(()),
            e => Err(e),
        }
    }
}

impl Deref for Endpoint {
    type Target = crate::Endpoint;

    fn deref(&self) -> &crate::Endpoint {
        &self.ep
    }
}

impl Stream for Endpoint {
    type Item = Result<Message>;

    fn poll_next(
        self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Message>>> {
        if self.inbox.failed.get() {
            return Poll::Ready(None);
        }
        match self.poll_recv(cx) {
            Poll::Ready(Err(Error::Closed(_))) => Poll::Ready(None),
            Poll::Ready(Err(e)) => {
                self.inbox.failed.set(true);
                Poll::Ready(Some(Err(e)))
            }
            Poll::Ready(msg) => Poll::Ready(Some(msg)),
            Poll::Pending => Poll::Pending,
        }
    }
}
