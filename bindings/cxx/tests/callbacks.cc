/* SPDX-License-Identifier: BSD-2-Clause */
/* Callbacks: what they hold, and exceptions, which reach who drives. */
#include "test.hpp"

#include <memory>
#include <thread>

using namespace test;
using rmsg::milliseconds;

struct mine : std::runtime_error {
	using std::runtime_error::runtime_error;
};

/* The next call that drives the context and throws. */
template <class F> static void expect_mine(F drive)
{
	for (int i = 0; i < 3000; i++) {
		try {
			drive();
		} catch (const mine &) {
			return;
		}
	}
	check(false, "the exception was lost");
}

/* The connection goes on after it. */
static void thrown_by_message()
{
	rmsg::endpoint_options s;
	int got = 0;

	s.on.on_message = [&](rmsg::endpoint_ref, rmsg::message) {
		if (++got == 1)
			throw mine("first");
	};
	pair p(std::move(s));

	p.client.send("1");
	expect_mine([&] { p.ctx.wait(milliseconds(10)); });
	p.client.send("2");
	until(p.ctx, [&] { return got == 2; });
	check(p.server.is_connected(), "it goes on");
}
static const add a1("exception of on_message", thrown_by_message);

static void thrown_to_each()
{
	rmsg::endpoint_options s;

	s.on.on_message = [&](rmsg::endpoint_ref, rmsg::message) {
		throw mine("each");
	};
	pair p(std::move(s));

	p.client.send("1");
	expect_mine([&] { p.ctx.process(); });
	p.client.send("1");
	expect_mine([&] { p.ctx.poll(); });
	p.client.send("1");
	expect_mine([&] { p.ctx.run(); });
	p.client.send("1");
	expect_mine([&] {
		static_cast<void>(p.client.try_recv(milliseconds(10)));
	});
}
static const add a2("exception to process, poll, run, recv", thrown_to_each);

/* The result of a call is not lost with the exception of another. */
static void kept_for_next()
{
	pair p;

	p.client.send("got");
	until(p.ctx, [&] { return p.server.stats().msgs_received == 1; });
	p.ctx.submit([] { throw mine("submit"); });
	check(p.server.recv().text() == "got", "message");
	expect_mine([&] { p.ctx.wait(milliseconds(10)); });
}
static const add a9("a call that has succeeded", kept_for_next);

static void thrown_by_the_rest()
{
	rmsg::context ctx;
	rmsg::listen_options opts;
	int requests = 0;

	opts.on_request = [&](rmsg::request) {
		requests++;
		throw mine("request");
	};
	rmsg::listener l = ctx.listen("127.0.0.1", "0", std::move(opts));
	rmsg::endpoint_options c;

	c.on.on_closed = [](rmsg::endpoint_ref, const rmsg::reason &) {
		throw mine("closed");
	};
	rmsg::endpoint ep = ctx.connect("127.0.0.1", l.service(), std::move(c));

	expect_mine([&] { ctx.wait(milliseconds(10)); });
	expect_mine([&] { ctx.wait(milliseconds(10)); });
	check(requests == 1 && ep.has_ended(), "both have thrown");
	rmsg::timer t(ctx, [] { throw mine("timer"); });
	t.start(milliseconds(1));
	expect_mine([&] { ctx.wait(milliseconds(10)); });
	ctx.submit([] { throw mine("submit"); });
	expect_mine([&] { ctx.wait(milliseconds(10)); });
}
static const add a3("exceptions of other callbacks", thrown_by_the_rest);

static void thrown_at_the_end()
{
	rmsg::endpoint_options s, c;
	auto closed = [](rmsg::endpoint_ref, const rmsg::reason &) {
		throw mine("closed");
	};

	s.on.on_closed = closed;
	c.on.on_closed = closed;
	pair p(std::move(s), std::move(c));

	expect_mine([&] { p.ctx.close(); });
	check(!p.ctx && !p.client.try_send("x"), "closed");
}
static const add a4("exception of on_closed to close", thrown_at_the_end);

/* A loop of the C interface asks for it. */
static void taken()
{
	rmsg::context ctx;
	bool ran = false;

	ctx.submit([&] {
		ran = true;
		throw mine("submit");
	});
	while (!ran)
		check(rdmamsg_wait(ctx.native(), 1000) >= 0, "wait");
	check(ctx.take_exception() && !ctx.take_exception(), "once");
}
static const add a5("exception under another loop", taken);

/* Objects in callables end with the endpoint, large or small. */
static void holds()
{
	auto token = std::make_shared<int>(1);
	struct { char bytes[100]; } large = {};
	{
		rmsg::endpoint_options s, c;

		s.on.on_message = [token](rmsg::endpoint_ref, rmsg::message) {};
		c.on.on_writable = [token, large](rmsg::endpoint_ref) {
			static_cast<void>(large);
		};
		pair p(std::move(s), std::move(c));

		check(token.use_count() == 3, "held");
		p.client.close_wait();
		check(token.use_count() < 3, "the client's is given back");
	}
	check(token.use_count() == 1, "all is given back");
}
static const add a6("what callables hold", holds);

static void refuses_to_wait()
{
	rmsg::endpoint_options s;
	int status = 0;

	pair p;
	p.ctx.submit([&] { status = p.ctx.try_wait().status(); });
	until(p.ctx, [&] { return status != 0; });
	check(status == -EDEADLK, "status");
}
static const add a7("waiting in a callback", refuses_to_wait);

static void other_threads()
{
	rmsg::context ctx;
	int ran = 0;
	std::thread t([&] {
		for (int i = 0; i < 1000; i++)
			ctx.submit_wait([&ran] { ran++; });
		ctx.submit_wait([&ctx] { ctx.stop(); });
	});

	ctx.run();
	t.join();
	check(ran == 1000, "all have run");
}
static const add a8("submit from another thread", other_threads);
