/* SPDX-License-Identifier: BSD-2-Clause */
/* Coroutines, and views as std::span. Empty before C++20. */
#include "test.hpp"

#if defined(__cpp_impl_coroutine) && defined(__cpp_lib_coroutine)
#include <optional>
#include <span>

using namespace test;
using rmsg::milliseconds;
namespace co = rmsg::co;

static rmsg::task<> echo(co::endpoint ep)
{
	while (rmsg::result<rmsg::message> msg = co_await ep.try_recv()) {
		const std::uint32_t tag = msg->tag();

		co_await ep.send(std::move(*msg), tag);
	}
}

static rmsg::task<> serve(rmsg::context &ctx, co::listener &l)
{
	for (;;)
		rmsg::spawn(ctx, echo(co_await l.accept()));
}

/* Sends from one task, and receives in another. */
static rmsg::task<> sender(co::endpoint &ep, int count)
{
	for (int i = 0; i < count; i++)
		co_await ep.send(rmsg::bytes_of(i), 9);
}

static rmsg::task<int> round_trips(rmsg::context &ctx, std::string service)
{
	co::endpoint ep = co_await co::connect(ctx, "127.0.0.1", service);
	int right = 0;

	rmsg::spawn(ctx, sender(ep, 3000));
	while (right < 3000) {
		rmsg::message m = co_await ep.recv(milliseconds(30000));
		std::span<const std::byte> view = rmsg::bytes(m.data());

		check(view.size() == sizeof(int) && m.tag() == 9, "message");
		check(*reinterpret_cast<const int *>(view.data()) == right,
		      "order");
		right++;
	}
	check((co_await ep.close()).cause == RDMAMSG_CAUSE_CLOSED, "graceful");
	co_return right;
}

static void exchanges()
{
	rmsg::context ctx;
	co::listener l(ctx, "127.0.0.1", "0");

	rmsg::spawn(ctx, serve(ctx, l));
	check(rmsg::run(ctx, round_trips(ctx, l.service())) == 3000, "all");
}
static const add a1("coroutines: messages", exchanges);

static rmsg::task<> atomics(rmsg::context &ctx, co::endpoint &s,
			    co::endpoint &c)
{
	std::uint64_t counter = 40, old = 0;
	rmsg::region count(ctx, rmsg::bytes_of(counter), RDMAMSG_ACCESS_ATOMIC);
	rdmamsg_key k = count.key(s.get());

	co_await c.fetch_add(k, 0, 2, &old);
	check(old == 40 && counter == 42, "fetch_add");
	co_await c.compare_swap(k, 0, 42, 1, &old);
	check(old == 42 && counter == 1, "compare_swap");
}

static rmsg::task<> one_sided(rmsg::context &ctx, co::listener &l)
{
	auto connecting = co::connect(ctx, "127.0.0.1", l.service());
	std::string there = "0123456789abcdef", here(16, 0);
	rmsg::region remote(ctx, there, RDMAMSG_ACCESS_READ |
			    RDMAMSG_ACCESS_WRITE);
	rmsg::region local(ctx, here, RDMAMSG_ACCESS_LOCAL_WRITE);
	co::endpoint s = co_await l.accept();
	co::endpoint c = co_await connecting;
	rdmamsg_key key = remote.key(s.get());

	local.register_for(c.get());
	co_await c.read(local.all(), key, 0);
	check(here == there, "read");
	here[0] = 'X';
	co_await c.write(local.part(0, 1), key, 15);
	co_await c.flush();
	check(there == "0123456789abcdeX", "write");
	if (has_atomics())
		co_await atomics(ctx, s, c);
	check((co_await c.try_read(local.all(), key, 8)).status() == -ERANGE,
	      "outside");
	co_await c.deliver(pattern(1 << 20));
	check((co_await s.recv()).text() == pattern(1 << 20), "large");
}

static void operations()
{
	rmsg::context ctx;
	co::listener l(ctx, "127.0.0.1", "0");

	rmsg::run(ctx, one_sided(ctx, l));
}
static const add a2("coroutines: one-sided operations", operations);

static rmsg::task<> refused(rmsg::context &ctx, std::string service)
{
	co_await co::connect(ctx, "127.0.0.1", service);
}

static void fails()
{
	rmsg::context ctx;
	std::string service = ctx.listen("127.0.0.1", "0").service();

	try {
		rmsg::run(ctx, refused(ctx, service));
		check(false, "connected to nobody");
	} catch (const rmsg::connection_error &e) {
		check(e.why().cause == RDMAMSG_CAUSE_REFUSED, "cause");
	}
	rmsg::spawn(ctx, refused(ctx, service));
	try {
		until(ctx, [] { return false; });
	} catch (const rmsg::connection_error &) {
		return;
	}
	check(false, "a spawned task has lost its exception");
}
static const add a3("coroutines: exceptions", fails);

static rmsg::task<> deadlines(rmsg::context &ctx, co::listener &l)
{
	check((co_await l.try_next(milliseconds(1))).status() == -ETIMEDOUT,
	      "no request");
	auto connecting = co::connect(ctx, "127.0.0.1", l.service());
	co::endpoint s = co_await l.accept();
	co::endpoint c = co_await connecting;

	check((co_await c.try_recv(milliseconds(1))).status() == -ETIMEDOUT,
	      "no message");
	co_await co::sleep(ctx, milliseconds(2));
	co_await s.send("after the deadline");
	check((co_await c.recv()).text() == "after the deadline", "message");
	check((co_await c.try_closed(milliseconds(1))).status() == -ETIMEDOUT,
	      "it is open");
	s.get().abort();
	check((co_await c.closed()).cause == RDMAMSG_CAUSE_ABORTED, "cause");
	check((co_await c.try_recv()).status() == -ESHUTDOWN, "ended");
	check((co_await c.try_send("x")).status() == -ESHUTDOWN, "ended");
}

static void times_out()
{
	rmsg::context ctx;
	co::listener l(ctx, "127.0.0.1", "0");

	rmsg::run(ctx, deadlines(ctx, l));
}
static const add a4("coroutines: deadlines and the end", times_out);

static rmsg::task<> waits_for(co::endpoint &ep, int *status)
{
	*status = (co_await ep.try_recv()).status();
}

static rmsg::task<> sleeps(rmsg::context &ctx)
{
	co_await co::sleep(ctx, milliseconds(1000000));
}

/* A task, an endpoint, a listener or the context goes away first. */
static void destroyed_while_waiting()
{
	rmsg::context ctx;
	std::optional<co::listener> l(std::in_place, ctx, "127.0.0.1", "0");
	co::endpoint ep;
	int first = 1, second = 1, none = 1;
	auto connect = [](rmsg::context &c, std::string service)
		-> rmsg::task<co::endpoint> {
		co_return co_await co::connect(c, "127.0.0.1", service);
	};

	rmsg::spawn(ctx, serve(ctx, *l));
	ep = rmsg::run(ctx, connect(ctx, l->service()));
	{
		rmsg::task<> t = waits_for(ep, &first);

		t.start();
		check(!t.done(), "it waits");
	}
	rmsg::task<> t = waits_for(ep, &second);
	t.start();
	ep = co::endpoint();
	check(first == 1 && second == -ECANCELED && t.done(), "endpoint");
	try {
		l.reset();
		ctx.process();
	} catch (const rmsg::error &e) {
		check(e.code().value() == ECANCELED, "listener");
	}
	rmsg::task<> invalid = waits_for(ep, &none);
	invalid.start();
	check(none == -EINVAL, "moved from");
	rmsg::spawn(ctx, sleeps(ctx));
}
static const add a5("coroutines: destroyed while they wait",
		    destroyed_while_waiting);

/* The reader is behind: nothing is lost, and nothing grows without end. */
static rmsg::task<> fills(co::endpoint &ep)
{
	const std::string block = pattern(1000);

	for (int i = 0; i < 5000; i++)
		co_await ep.send(block);
}

static rmsg::task<> reads_slowly(rmsg::context &ctx, co::listener &l)
{
	auto connecting = co::connect(ctx, "127.0.0.1", l.service());
	co::endpoint s = co_await l.accept();
	co::endpoint c = co_await connecting;
	rmsg::task<> filling = fills(c);

	filling.start();
	for (int i = 0; i < 5000; i++) {
		if (i % 500 == 0)
			co_await co::sleep(ctx, milliseconds(1));
		check((co_await s.recv()).text() == pattern(1000), "message");
	}
	check(filling.done(), "all is sent");
}

static void back_pressure()
{
	rmsg::context ctx;
	co::listener l(ctx, "127.0.0.1", "0");

	rmsg::run(ctx, reads_slowly(ctx, l));
}
static const add a6("coroutines: back-pressure", back_pressure);

#endif
