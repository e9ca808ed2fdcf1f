/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections: made, refused, rejected, ended by either side or a kill. */
#include "test.hpp"

using namespace test;
using rmsg::milliseconds;

static void connects()
{
	rmsg::endpoint_options s, c;

	s.setup_data = "from the server";
	c.hello_data = "hello";
	c.setup_data = "from the client";
	pair p(std::move(s), std::move(c));

	check(p.client.peer_data().text() == "from the server", "setup_data");
	check(p.server.peer_data().text() == "from the client", "setup_data");
	check(p.client.state() == RDMAMSG_CONNECTED, "state");
	check(p.client.attr().max_send > 0, "attr");
	check(*p.client.device_name() != 0, "device_name");
	check(p.listener.stats().accepted == 1, "listener's stats");
	check(p.ctx.stats().endpoints == 2, "context's stats");
	check(p.ctx.stats_text().find("rdmamsg") != std::string::npos, "text");
	check(!p.ctx.dump().empty(), "dump");
	p.client.close_wait();
	check(p.client.why().cause == RDMAMSG_CAUSE_CLOSED, "cause");
}
static const add a1("connect", connects);

static void refused()
{
	rmsg::context ctx;
	std::string service = ctx.listen("127.0.0.1", "0").service();

	try {
		ctx.connect_wait("127.0.0.1", service);
		check(false, "connected to nobody");
	} catch (const rmsg::connection_error &e) {
		check(e.code() == std::errc::connection_refused, "code");
		check(e.why().cause == RDMAMSG_CAUSE_REFUSED, "cause");
	}
}
static const add a2("refused", refused);

static void rejected()
{
	rmsg::context ctx;
	rmsg::listen_options opts;

	opts.on_request = [](rmsg::request req) {
		check(req.data().text() == "let me in", "hello_data");
		check(req.try_peer()->ss_family != 0, "address");
		req.reject("no room");
	};
	rmsg::listener l = ctx.listen("127.0.0.1", "0", std::move(opts));
	rmsg::endpoint_options c;

	c.hello_data = "let me in";
	try {
		ctx.connect_wait("127.0.0.1", l.service(), std::move(c));
		check(false, "connected though rejected");
	} catch (const rmsg::connection_error &e) {
		check(e.why().cause == RDMAMSG_CAUSE_REJECTED, "cause");
		check(e.why().data == "no room", "data");
	}
}
static const add a3("reject with data", rejected);

/* A request without an answer is rejected, and no one waits. */
static void unanswered()
{
	rmsg::context ctx;
	rmsg::listen_options opts;

	opts.on_request = [](rmsg::request) {};
	rmsg::listener l = ctx.listen("127.0.0.1", "0", std::move(opts));
	rmsg::endpoint ep = ctx.connect("127.0.0.1", l.service());

	check(ep.try_connected().status() == -ECONNABORTED, "rejected");
	check(ep.has_ended() && !ep.is_connected(), "ended");
}
static const add a4("request without an answer", unanswered);

static void accepted_by_call()
{
	rmsg::context ctx;
	rmsg::listener l = ctx.listen("127.0.0.1", "0");
	rmsg::endpoint c = ctx.connect("127.0.0.1", l.service());
	rmsg::endpoint s = l.accept();

	c.connected();
	s.send("first");
	check(c.recv().text() == "first", "message");
	check(l.try_accept({}, milliseconds(1)).status() == -ETIMEDOUT, "none");
	check(c.try_recv(milliseconds(1)).status() == -ETIMEDOUT, "nothing");
}
static const add a5("accept and receive by calls", accepted_by_call);

static void reasons()
{
	rmsg::reason why;
	rmsg::endpoint_options s;

	s.on.on_closed = [&](rmsg::endpoint_ref, const rmsg::reason &r) {
		why = r;
	};
	pair p(std::move(s));

	p.client.close_with(42, "enough");
	until(p.ctx, [&] { return p.server.has_ended(); });
	check(why.who == RDMAMSG_WHO_PEER, "who");
	check(why.cause == RDMAMSG_CAUSE_CLOSED && !why.error, "cause");
	check(why.code == 42 && why.data == "enough", "code and data");
	check(p.server.try_send("late").status() == -ESHUTDOWN, "send");
}
static const add a6("close with a reason", reasons);

static void aborted()
{
	pair p;

	p.client.abort_with(7, "broken");
	until(p.ctx, [&] { return p.server.has_ended(); });
	check(p.server.why().cause == RDMAMSG_CAUSE_ABORTED, "cause");
	check(!p.server.try_close_wait(), "it was not graceful");
	check(thrown_by([&] { p.server.close_wait(); }) != 0, "thrown");
}
static const add a7("abort", aborted);

static void killed()
{
	rmsg::context ctx;
	rmsg::listener l = ctx.listen("127.0.0.1", "0");
	int pid = start_peer("stay", l.service());
	rmsg::endpoint ep = l.accept({}, milliseconds(30000));

	check(ep.recv(milliseconds(30000)).text() == "here", "message");
	kill_peer(pid);
	check(ep.try_recv(milliseconds(30000)).status() < 0, "no message");
	until(ctx, [&] { return ep.has_ended(); });
	check(ep.why().who == RDMAMSG_WHO_PEER ||
	      ep.why().who == RDMAMSG_WHO_NETWORK, "who");
}
static const add a8("peer killed", killed);

static void out_of_band()
{
	rmsg::context ctx;
	rmsg::result<rmsg::endpoint> offered = ctx.try_oob_offer();

	if (offered.status() == -EOPNOTSUPP)
		throw skip("iWARP connects by its connection manager");
	rmsg::endpoint a = std::move(offered).value();
	std::string offer = a.oob_record();
	rmsg::endpoint b = ctx.oob_answer(offer);

	a.oob_finish(b.oob_record());
	a.connected(milliseconds(30000));
	b.connected(milliseconds(30000));
	a.send("by a record");
	check(b.recv().text() == "by a record", "message");
	check(ctx.try_oob_answer("nonsense").status() == -EPROTO, "record");
}
static const add a9("out of band", out_of_band);

static void shuts_down()
{
	bool told = false;
	rmsg::context_options opts;

	opts.on_shutdown = [&](std::uint32_t failed) { told = !failed; };
	rmsg::context ctx(std::move(opts));
	rmsg::listener l = ctx.listen("127.0.0.1", "0");
	rmsg::endpoint c = ctx.connect("127.0.0.1", l.service());
	rmsg::endpoint s = l.accept();

	c.connected();
	check(ctx.shutdown_wait() == 0 && told, "graceful");
	check(c.has_ended() && s.has_ended(), "ended");
	check(ctx.try_connect("127.0.0.1", l.service()).status() == -ESHUTDOWN,
	      "connect");
}
static const add a10("shutdown", shuts_down);

static void moves_request()
{
	rmsg::context first, second;
	rmsg::endpoint server;
	rmsg::listen_options opts;

	opts.on_request = [&](rmsg::request req) {
		req.move_to(second, [&](rmsg::request r) {
			server = r.accept();
		});
	};
	rmsg::listener l = first.listen("127.0.0.1", "0", std::move(opts));
	rmsg::endpoint c = first.connect("127.0.0.1", l.service());

	until(first, second, [&] {
		return server.is_connected() && c.is_connected();
	});
	c.send("moved");
	until(first, second, [&] {
		return server.stats().msgs_received == 1;
	});
	check(server.recv().text() == "moved", "message");
}
static const add a11("request moved to another context", moves_request);
