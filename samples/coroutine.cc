/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Coroutines of C++20: coroutine ADDR
 * Connecting, sending and receiving are awaited, on the loop of the context. A
 * server sends each message back, and a client checks them.
 *
 *	c++ -std=c++20 coroutine.cc $(pkg-config --cflags --libs rdmamsg)
 *
 * A handler resumes the coroutine that waits. Until it waits again it runs
 * inside the handler, and may make every call that a handler may make. An
 * exception that leaves it ends the program, and never passes the library.
 */
#include <rdmamsg/rdmamsg.h>

#include <cerrno>
#include <coroutine>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <utility>

/* ---- what a program would keep in a header ---------------------------- */

/* A coroutine that begins at once and frees itself at its end. */
struct task {
	struct promise_type {
		task get_return_object() { return {}; }
		std::suspend_never initial_suspend() { return {}; }
		std::suspend_never final_suspend() noexcept { return {}; }
		void return_void() {}
		void unhandled_exception() { std::terminate(); }
	};
};

struct message_free {
	void operator()(rdmamsg_msg *msg) const { rdmamsg_msg_free(msg); }
};
using message = std::unique_ptr<rdmamsg_msg, message_free>;

struct connection;

/* A coroutine suspends until ready() is true. Each handler asks it. */
struct waiting {
	connection &c;
	bool await_ready() { return ready(); }
	void await_suspend(std::coroutine_handle<> handle);
	virtual bool ready() = 0;
protected:
	explicit waiting(connection &of) : c(of) {}
	~waiting() = default;
};

/* One coroutine uses it, and awaits 'closing' before it destroys it. */
struct connection {
	rdmamsg_ep *ep = nullptr;
	std::deque<message> arrived;
	waiting *waits = nullptr;
	std::coroutine_handle<> waiter;
	bool connected = false, ended = false;
	std::string why;	/* of the end */

	connection() = default;
	connection(const connection &) = delete;
	rdmamsg_ep_options options();

	/* The coroutine may destroy the connection, so this comes last. */
	void wake()
	{
		if (waiter && waits->ready())
			std::exchange(waiter, nullptr).resume();
	}
};

void waiting::await_suspend(std::coroutine_handle<> handle)
{
	c.waits = this;
	c.waiter = handle;
}

/* Returns whether the connection is there. */
struct connecting final : waiting {
	explicit connecting(connection &of) : waiting(of) {}
	bool ready() override { return c.connected || c.ended; }
	bool await_resume() { return c.connected && !c.ended; }
};

/* Returns the next message, or none at the end of the connection. */
struct receiving final : waiting {
	explicit receiving(connection &of) : waiting(of) {}
	bool ready() override { return !c.arrived.empty() || c.ended; }
	message await_resume()
	{
		message msg;

		if (!c.arrived.empty()) {
			msg = std::move(c.arrived.front());
			c.arrived.pop_front();
		}
		return msg;
	}
};

/* Returns 0, or why the message was not accepted. -EAGAIN waits. */
struct sending final : waiting {
	const void *data;
	size_t len;
	int ret = 0;

	sending(connection &of, const void *buf, size_t bytes)
		: waiting(of), data(buf), len(bytes) {}
	bool ready() override
	{
		ret = c.ended ? -ESHUTDOWN :
		      rdmamsg_send(c.ep, data, len, 0, nullptr);
		return ret != -EAGAIN;
	}
	int await_resume() { return ret; }
};

/* Closes gracefully. The connection can be destroyed afterwards. */
struct closing final : waiting {
	explicit closing(connection &of) : waiting(of)
	{
		if (!c.ended)
			rdmamsg_ep_close(c.ep);
	}
	bool ready() override { return c.ended; }
	void await_resume() {}
};

static connection *of(rdmamsg_ep *ep)
{
	return static_cast<connection *>(rdmamsg_ep_user(ep));
}

static void on_connected(rdmamsg_ep *ep)
{
	of(ep)->connected = true;
	of(ep)->wake();
}

static void on_message(rdmamsg_ep *ep, rdmamsg_msg *msg)
{
	of(ep)->arrived.emplace_back(msg);
	of(ep)->wake();
}

static void on_writable(rdmamsg_ep *ep)
{
	of(ep)->wake();
}

static void on_closed(rdmamsg_ep *ep, const rdmamsg_reason *why)
{
	of(ep)->ended = true;
	of(ep)->why = why->text;
	of(ep)->wake();
}

rdmamsg_ep_options connection::options()
{
	static const rdmamsg_ep_handlers on = [] {
		rdmamsg_ep_handlers ret = {};

		ret.size = sizeof(ret);
		ret.on_connected = on_connected;
		ret.on_message = on_message;
		ret.on_writable = on_writable;
		ret.on_closed = on_closed;
		return ret;
	}();
	rdmamsg_ep_options ret = {};

	ret.size = sizeof(ret);
	ret.user = this;
	ret.handlers = &on;
	return ret;
}

/* ---- the program ------------------------------------------------------ */

static const unsigned int messages = 1000;
static int status = 1;

static task serve(rdmamsg_request *req)
{
	connection c;
	rdmamsg_ep_options opts = c.options();

	if (rdmamsg_request_accept(req, &opts, &c.ep))
		co_return;
	if (co_await connecting(c))
		while (message msg = co_await receiving(c))
			if (co_await sending(c, rdmamsg_msg_data(msg.get()),
					     rdmamsg_msg_len(msg.get())))
				break;
	co_await closing(c);
}

static task client(rdmamsg *ctx, const char *host, std::string port)
{
	connection c;
	rdmamsg_ep_options opts = c.options();
	unsigned int right = 0;

	if (rdmamsg_connect(ctx, host, port.c_str(), &opts, &c.ep)) {
		std::fprintf(stderr, "coroutine: %s\n", rdmamsg_error());
		rdmamsg_stop(ctx);
		co_return;
	}
	if (co_await connecting(c)) {
		for (unsigned int i = 0; i < messages; i++)
			if (co_await sending(c, &i, sizeof(i)))
				break;
		while (right < messages) {
			message msg = co_await receiving(c);

			if (!msg || *static_cast<unsigned int *>(
					rdmamsg_msg_data(msg.get())) != right)
				break;
			right++;
		}
	}
	co_await closing(c);
	std::printf("%u messages there and back: %s\n", right, c.why.c_str());
	status = right != messages;
	rdmamsg_stop(ctx);
}

static void on_request(rdmamsg_listener *, rdmamsg_request *req)
{
	serve(req);
}

int main(int argc, char **argv)
{
	rdmamsg_listener_handlers on = {};
	rdmamsg_listen_options opts = {};
	rdmamsg_listener *listener;
	rdmamsg *ctx;

	if (argc != 2) {
		std::fprintf(stderr, "Usage: coroutine ADDR\n");
		return 2;
	}
	on.size = sizeof(on);
	on.on_request = on_request;
	opts.size = sizeof(opts);
	opts.handlers = &on;
	if (rdmamsg_open(&ctx, nullptr) ||
	    rdmamsg_listen(ctx, argv[1], "0", &opts, &listener)) {
		std::fprintf(stderr, "coroutine: %s\n", rdmamsg_error());
		return 1;
	}
	client(ctx, argv[1], std::to_string(rdmamsg_listener_port(listener)));
	rdmamsg_run(ctx);
	status |= rdmamsg_shutdown_wait(ctx, 5000) != 0;
	rdmamsg_close(ctx);
	return status;
}
