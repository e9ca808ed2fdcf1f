/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that are destroyed in any order, in callbacks, or moved from. */
#include "test.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

using namespace test;
using rmsg::milliseconds;

/* One of everything. Each is destroyed by itself. */
struct everything {
	std::string memory = std::string(4096, 0);
	std::optional<rmsg::context> ctx;
	std::optional<rmsg::shared_receive_queue> srq;
	std::optional<rmsg::pool> pool;
	std::optional<rmsg::protection_domain> pd;
	std::optional<rmsg::listener> listener;
	std::optional<rmsg::endpoint> client, server;
	std::optional<rmsg::message> received, allocated, pooled;
	std::optional<rmsg::region> region;
	std::optional<rmsg::cache> cache;
	std::optional<rmsg::timer> timer;
	std::optional<rmsg::operation> operation;
	std::optional<rmsg::group> group;
	std::vector<std::optional<rmsg::request>> requests;

	everything()
	{
		rmsg::endpoint_options s, c;

		ctx.emplace();
		srq.emplace(*ctx);
		pool.emplace(*ctx);
		pd.emplace(*ctx);
		s.srq = srq->native();
		c.send_pool = pool->native();
		listener = ctx->listen("127.0.0.1", "0");
		client = ctx->connect("127.0.0.1", listener->service(),
				      std::move(c));
		server = listener->accept(std::move(s));
		client->connected();
		operation.emplace([](rmsg::result<>) {});
		server->send("received");
		received = client->recv();
		allocated = client->alloc(100);
		pooled = pool->alloc(*client, 100);
		region.emplace(*ctx, memory, RDMAMSG_ACCESS_READ);
		static_cast<void>(region->key(*server));
		cache.emplace(*ctx);
		timer.emplace(*ctx, [] {});
		timer->start(milliseconds(1));
		client->sendv({ memory }, 0, *operation);
		group.emplace(*ctx, "239.1.2.3");
	}

	static constexpr int count = 15;

	void destroy(int which)
	{
		switch (which) {
		case 0: ctx.reset(); break;
		case 1: srq.reset(); break;
		case 2: pool.reset(); break;
		case 3: pd.reset(); break;
		case 4: listener.reset(); break;
		case 5: client.reset(); break;
		case 6: server.reset(); break;
		case 7: received.reset(); break;
		case 8: allocated.reset(); break;
		case 9: pooled.reset(); break;
		case 10: region.reset(); break;
		case 11: cache.reset(); break;
		case 12: timer.reset(); break;
		case 13: operation.reset(); break;
		default: group.reset(); break;
		}
	}
};

/* Each first, each last, and the context at every place. */
static void any_order()
{
	std::vector<int> order(everything::count);

	std::iota(order.begin(), order.end(), 0);
	for (int turn = 0; turn < 2 * everything::count; turn++) {
		everything all;

		for (int which : order)
			all.destroy(which);
		std::rotate(order.begin(), order.begin() + 1, order.end());
		if (turn == everything::count)
			std::reverse(order.begin(), order.end());
	}
}
static const add a1("destroyed in any order", any_order);

/* The same, and the context drives between. */
static void driven_between()
{
	for (int first = 1; first < everything::count; first++) {
		everything all;

		for (int i = 0; i < everything::count - 1; i++) {
			all.destroy(1 + (first + i) % (everything::count - 1));
			all.ctx->process();
		}
	}
}
static const add a2("destroyed while the context works", driven_between);

static void after_the_context()
{
	everything all;

	all.ctx.reset();
	check(!*all.received && all.received->size() == 0, "message");
	check(all.client->has_ended(), "endpoint");
	check(!all.client->try_send("x"), "send");
	check(all.client->try_recv().status() < 0, "recv");
	check(all.listener->port() == 0, "listener");
	check(!all.listener->try_accept(), "accept");
	check(!all.region->try_key(*all.client), "key");
	check(!all.timer->try_start(milliseconds(1)), "timer");
	check(!all.pool->try_alloc(*all.client, 1), "pool");
	check(!all.group->try_publish("x"), "publish");
	check(all.client->why().cause != RDMAMSG_CAUSE_NONE, "why");
}
static const add a3("used after the end of the context", after_the_context);

static void moved_from()
{
	everything all;
	rmsg::context ctx = std::move(*all.ctx);
	rmsg::endpoint client = std::move(*all.client);
	rmsg::listener listener = std::move(*all.listener);
	rmsg::message received = std::move(*all.received);
	rmsg::region region = std::move(*all.region);
	rmsg::timer timer = std::move(*all.timer);
	rmsg::group group = std::move(*all.group);
	rmsg::operation operation = std::move(*all.operation);

	check(thrown_by([&] { all.ctx->wait(); }) == EINVAL, "context");
	check(!all.ctx->try_listen("127.0.0.1", "0"), "listen");
	check(!all.ctx->try_connect("127.0.0.1", "1"), "connect");
	check(!all.ctx->try_submit([] {}), "submit");
	check(all.client->try_send("x").status() == -EINVAL, "send");
	check(all.client->try_recv().status() == -EINVAL, "recv");
	check(all.client->try_close_wait().status() == -EINVAL, "close");
	check(thrown_by([&] { all.client->attr(); }) == EINVAL, "attr");
	check(all.client->user() == nullptr, "user");
	check(all.listener->try_accept().status() == -EINVAL, "accept");
	check(all.received->data().empty(), "data");
	check(all.region->try_key(client).status() == -EINVAL, "key");
	check(!all.timer->try_start(milliseconds(1)), "timer");
	check(!all.group->try_publish("x"), "publish");
	check(all.operation->pending() == 0, "operation");
	check(received.text() == "received" && client.is_connected(), "moved");
	all.client = std::move(client);
	all.ctx = std::move(ctx);
	check(all.client->is_connected(), "moved back");
	rmsg::request none;
	check(!none.try_accept() && !none.try_reject(), "request");
	check(!rmsg::endpoint_ref().try_pause(), "endpoint_ref");
	check(!rmsg::window().try_invalidate(), "window");
	check(!rmsg::team().try_barrier() && !rmsg::team().try_wait(), "team");
}
static const add a4("moved from", moved_from);

/* Some objects end before on_closed of endpoints, others after. */
static void in_callbacks_of_the_end()
{
	std::optional<rmsg::context> ctx(std::in_place);
	std::optional<rmsg::listener> listener, another;
	std::optional<rmsg::request> kept;
	std::optional<rmsg::group> group;
	std::optional<rmsg::timer> timer;
	rmsg::listen_options opts;
	rmsg::endpoint_options c;
	bool ended = false;

	opts.on_request = [&](rmsg::request req) { kept = std::move(req); };
	listener = ctx->listen("127.0.0.1", "0", std::move(opts));
	another = ctx->listen("127.0.0.1", "0");
	timer.emplace(*ctx, [] {});
	group.emplace(*ctx, "239.1.2.3");
	c.on.on_closed = [&](rmsg::endpoint_ref, const rmsg::reason &) {
		check(!*listener && !*kept, "they have ended");
		check(kept->data().empty() && !listener->port(), "nothing");
		check(!kept->try_accept(), "accept");
		kept.reset();
		listener.reset();
		another.reset();
		group.reset();
		timer.reset();
		ended = true;
	};
	rmsg::endpoint one = ctx->connect("127.0.0.1", listener->service(),
					  std::move(c));
	rmsg::endpoint two = ctx->connect("127.0.0.1", another->service());
	until(*ctx, [&] { return kept.has_value(); });
	ctx.reset();
	check(ended && one.has_ended() && two.has_ended(), "ended");
}
static const add a9("destroyed in callbacks of the context's end",
		    in_callbacks_of_the_end);

/* The owner of an endpoint, a listener, a timer or the context goes away. */
static void in_callbacks()
{
	std::optional<rmsg::context> ctx(std::in_place);
	std::optional<rmsg::endpoint> server, client;
	std::optional<rmsg::listener> listener;
	std::optional<rmsg::timer> timer;
	rmsg::listen_options opts;
	auto token = std::make_shared<int>(0);

	opts.on_request = [&, token](rmsg::request req) {
		rmsg::endpoint_options s;

		s.on.on_message = [&, token](rmsg::endpoint_ref,
					     rmsg::message) {
			server.reset();
			++*token;
		};
		server = req.accept(std::move(s));
		listener.reset();
		++*token;
	};
	listener = ctx->listen("127.0.0.1", "0", std::move(opts));
	client = ctx->connect_wait("127.0.0.1", listener->service());
	client->send("go away");
	until(*ctx, [&] { return client->has_ended(); });
	check(*token == 2 && !server && !listener, "gone");
	timer.emplace(*ctx, [&, token] {
		timer.reset();
		ctx.reset();
		++*token;
	});
	timer->start(milliseconds(1));
	rmsg::detail::core_ref core = ctx->core();
	core->wait_until([&] { return *token == 3; }, milliseconds(30000));
	check(!core.ctx(), "the context is closed behind the callback");
}
static const add a5("destroyed in callbacks", in_callbacks);

/* An endpoint closes gracefully, and calls nothing any more. */
static void drops_owner()
{
	rmsg::endpoint_options s;
	int called = 0, got = 0;

	s.on.on_message = [&](rmsg::endpoint_ref, rmsg::message) { got++; };
	pair p(std::move(s));
	{
		rmsg::endpoint_options c;

		c.on.on_closed = [&](rmsg::endpoint_ref, const rmsg::reason &) {
			called++;
		};
		rmsg::endpoint dropped = std::move(p.client);
		dropped.send("still arrives");
	}
	until(p.ctx, [&] { return p.server.has_ended(); });
	check(got == 1 && called == 0, "delivered");
	check(p.server.why().cause == RDMAMSG_CAUSE_CLOSED, "graceful");
}
static const add a6("an owner goes away", drops_owner);

/* Endpoints of a listener own themselves, with shared handlers. */
static void detached()
{
	rmsg::context ctx;
	rmsg::listen_options opts;
	int closed = 0;

	opts.endpoint.emplace();
	opts.endpoint->on.on_connected = [](rmsg::endpoint_ref ep) {
		ep.set_user(new int(0));
	};
	opts.endpoint->on.on_message = [](rmsg::endpoint_ref ep,
					  rmsg::message m) {
		++*static_cast<int *>(ep.user());
		ep.send(std::move(m));
	};
	opts.endpoint->on.on_closed = [&](rmsg::endpoint_ref ep,
					  const rmsg::reason &) {
		std::unique_ptr<int> count(static_cast<int *>(ep.user()));

		closed += *count == 1;
	};
	rmsg::listener l = ctx.listen("127.0.0.1", "0", std::move(opts));

	for (int i = 0; i < 3; i++) {
		rmsg::endpoint ep = ctx.connect_wait("127.0.0.1", l.service());

		ep.send("echo");
		check(ep.recv().text() == "echo", "echo");
		ep.close_wait();
	}
	until(ctx, [&] { return closed == 3; });
}
static const add a7("endpoints that own themselves", detached);

static void operation_goes_first()
{
	pair p;
	std::string memory = pattern(1 << 20);
	bool called = false;
	{
		rmsg::operation op([&](rmsg::result<>) { called = true; });

		p.client.sendv({ memory }, 0, op);
		check(op.pending() == 1, "pending");
	}
	check(p.server.recv().text() == memory, "message");
	p.client.close_wait();
	check(!called, "nothing is called");
}
static const add a8("an operation that is destroyed", operation_goes_first);
