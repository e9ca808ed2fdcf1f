/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages: sizes, completions, back-pressure, pause, several owners. */
#include "test.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <thread>

using namespace test;
using rmsg::milliseconds;

/* Around each limit at which the library sends in another way. */
static std::vector<std::size_t> sizes(const rmsg::endpoint &ep)
{
	const rdmamsg_ep_attr a = ep.attr();
	std::vector<std::size_t> all = { 0, 1, 63, 64, 65, 4096 };

	for (std::size_t limit : { std::size_t(a.inline_max),
				   std::size_t(a.eager_max),
				   std::size_t(a.pieces_max),
				   std::size_t(65536), std::size_t(1) << 20 }) {
		for (std::size_t n : { limit - 1, limit, limit + 1 })
			if (limit && n <= a.max_send)
				all.push_back(n);
	}
	return all;
}

static void every_size()
{
	pair p;
	int done = 0, begun = 0;
	rmsg::operation op([&](rmsg::result<> r) {
		r.value();
		done++;
	});

	for (std::size_t n : sizes(p.client)) {
		const std::string s = pattern(n);

		p.client.sendv({ s }, 5, op);
		begun++;
		rmsg::message m = p.server.recv(milliseconds(30000));
		check(m.tag() == 5 && m.size() == n && m.text() == s,
		      "message");
		if (n <= 65536) {
			p.client.send(s);
			check(p.server.recv().text() == s, "copied");
		}
		rmsg::message own = p.client.alloc(n);
		std::copy(s.begin(), s.end(),
			  reinterpret_cast<char *>(own.data().data()));
		p.client.send(std::move(own), 6);
		check(!own && p.server.recv().text() == s, "allocated");
		check(p.server.try_send_wait(s, 0, milliseconds(30000)).ok(),
		      "send_wait");
		check(p.client.recv().text() == s, "send_wait");
	}
	until(p.ctx, [&] { return done == begun; });
	check(op.pending() == 0, "pending");
}
static const add a1("sizes", every_size);

static void parts_of_a_message()
{
	pair p;
	std::array<int, 3> numbers = { 1, 2, 3 };

	p.client.sendv({ "head", numbers, std::string("tail") });
	rmsg::message m = p.server.recv();
	check(m.size() == 8 + sizeof(numbers), "size");
	check(m.text().substr(0, 4) == "head", "text");
	check(p.client.try_sendv({ "", "", "", "", "", "", "", "", "", "", "",
				   "", "", "", "", "", "" }).status() ==
	      -EINVAL, "too many");
	check(thrown_by([&] {
		p.client.send(std::string(1 << 20, 'x'));
	}) == EMSGSIZE, "too large to copy");
}
static const add a2("parts, and too much", parts_of_a_message);

static void back_pressure()
{
	unsigned int got = 0, sent = 0, refused = 0;
	rmsg::endpoint_options s, c;
	auto send = [&](rmsg::endpoint_ref ep) {
		while (sent < 5000) {
			rmsg::result<> r = ep.try_send(rmsg::bytes_of(sent));

			if (r.again()) {
				refused++;
				return;
			}
			r.value();
			sent++;
		}
	};

	s.on.on_message = [&](rmsg::endpoint_ref, rmsg::message m) {
		check(*reinterpret_cast<unsigned int *>(m.data().data()) == got,
		      "order");
		got++;
	};
	c.on.on_writable = send;
	pair p(std::move(s), std::move(c));

	send(p.client);
	check(refused > 0, "there is an end of room");
	check(thrown_by([&] { p.client.send("more"); }) == EAGAIN, "EAGAIN");
	until(p.ctx, [&] { return got == 5000; });
}
static const add a3("back-pressure", back_pressure);

static void paused()
{
	unsigned int got = 0;
	rmsg::endpoint_options s;

	s.on.on_message = [&](rmsg::endpoint_ref, rmsg::message) { got++; };
	pair p(std::move(s));

	p.server.pause();
	p.client.send("1");
	p.client.send("2");
	until(p.ctx, [&] { return p.server.flow().waiting == 2; });
	check(got == 0 && p.server.flow().paused, "nothing is delivered");
	p.server.resume();
	until(p.ctx, [&] { return got == 2; });
}
static const add a4("pause", paused);

static void cancelled()
{
	rmsg::endpoint_options c;
	int status = 1;

	c.send_queue = 1000;
	pair p({}, std::move(c));
	rmsg::operation op([&](rmsg::result<> r) { status = r.status(); });

	p.server.pause();
	while (p.client.flow().queued < 2)
		p.client.send("fill");
	p.client.send("last", 0, op);
	p.client.cancel(op);
	until(p.ctx, [&] { return status != 1; });
	check(status == -ECANCELED, "status");
	check(p.client.try_cancel(op).status() == -ENOENT, "none");
}
static const add a5("cancel", cancelled);

/* Large messages go where the program says, or are refused. */
static void announced()
{
	std::string memory(1 << 20, 0);
	rmsg::endpoint_options s;
	std::size_t in_place = 0;

	s.on.on_incoming = [&](rmsg::endpoint_ref, std::size_t len,
			       std::uint32_t tag) {
		check(len == memory.size(), "len");
		return tag ? rmsg::incoming::refuse() :
			     rmsg::incoming::into(memory);
	};
	s.on.on_message = [&](rmsg::endpoint_ref, rmsg::message m) {
		in_place += m.text().data() == memory.data();
	};
	pair p(std::move(s));
	const std::string large = pattern(memory.size());
	std::vector<int> ends;
	rmsg::operation op([&](rmsg::result<> r) {
		ends.push_back(r.status());
	});

	p.client.sendv({ large }, 1, op);
	until(p.ctx, [&] { return ends.size() == 1; });
	p.client.sendv({ large }, 0, op);
	until(p.ctx, [&] { return ends.size() == 2 && in_place; });
	check(ends[0] == -ECANCELED && ends[1] == 0, "statuses");
	check(memory == large, "data");
}
static const add a6("large messages in the program's memory", announced);

static void shared()
{
	rmsg::shared_message kept;
	{
		pair p;

		p.client.send("several");
		kept = p.server.recv().share();
		rmsg::shared_message other = kept;
		p.server.send(std::move(other));
		check(p.client.recv().text() == "several", "sent");
	}
	std::thread([m = std::move(kept)]() mutable {
		check(m.text() == "several", "after the context");
		m = rmsg::shared_message();
	}).join();
}
static const add a7("a message that outlives its context", shared);

static void met()
{
	pair p;

	check(p.client.try_meet(1, milliseconds(10)).status() == -ETIMEDOUT,
	      "nobody comes");
}
static const add a8("meet", met);

static void corked()
{
	pair p;
	{
		rmsg::cork c(p.ctx);

		for (int i = 0; i < 10; i++)
			p.client.send("together");
	}
	for (int i = 0; i < 10; i++)
		check(p.server.recv().text() == "together", "message");
}
static const add a9("cork", corked);
