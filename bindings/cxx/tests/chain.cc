/* SPDX-License-Identifier: BSD-2-Clause */
/* Chains over two endpoints of one context. */
#include "test.hpp"

#include <cstdint>
#include <cstring>
#include <optional>

using namespace test;

/* The client's steps in one queue, the server's in another. */
static void sums()
{
	pair p;
	std::uint64_t sent = 40, got = 0, two = 2, sum = 0, back = 0;
	int ends = 0, status = 1;
	rmsg::chain_options opts;

	opts.on_done = [&](const rdmamsg_chain_end &end) {
		ends++;
		status = end.status;
	};
	rmsg::chain c(p.ctx, std::move(opts));
	check(c.send(0, p.client, rmsg::bytes_of(sent), 7) == 0, "first step");
	check(c.recv(1, p.server, rmsg::bytes_of(got), 7) == 1, "second step");
	c.calc(1, RDMAMSG_CALC_ADD, RDMAMSG_CALC_UINT, &sum, &got, &two, 1);
	c.send(1, p.server, rmsg::bytes_of(sum));
	c.recv(2, p.client, rmsg::bytes_of(back));
	c.post();
	check(c.try_post().status() == -EBUSY, "a second run");
	until(p.ctx, [&] { return ends == 1; });
	check(!status && back == 42, "42");
	sent = 1;
	c.run();
	check(ends == 2 && back == 3, "another run");
	check(c.path() == RDMAMSG_CHAIN_LOOP, "path");
}
static const add a1("a chain sends, receives and calculates", sums);

static void waits()
{
	pair p;
	std::string first = "first", second = "second", got(5, 0);
	rmsg::chain c(p.ctx);

	c.send(0, p.client, first);
	c.enable(2, 1);
	c.recv(1, p.server, got);
	c.wait(2, 1, 1);
	c.recv(2, p.client, second);
	check(c.try_wait(2, 99, 1).status() == -EINVAL, "no such queue");
	c.post();
	check(thrown_by([&] { c.send(3, p.client, "late"); }) == EBUSY,
	      "a step while it runs");
	c.cancel();
	p.ctx.process();
	check(!c.try_run(rmsg::milliseconds(10)), "the last step never comes");
}
static const add a2("chains wait, enable and are cancelled", waits);

static void destroys_itself()
{
	pair p;
	std::string data = "data", got(4, 0);
	std::optional<rmsg::chain> c;
	bool done = false;
	rmsg::chain_options opts;

	opts.on_done = [&](const rdmamsg_chain_end &end) {
		c.reset();
		done = !end.status;
	};
	c.emplace(p.ctx, std::move(opts));
	c->send(0, p.client, data);
	c->recv(1, p.server, got);
	c->post();
	until(p.ctx, [&] { return done; });
	check(!c && got == data, "destroyed in its callback");
}
static const add a3("a chain is destroyed in its callback", destroys_itself);

static void throws()
{
	pair p;
	std::string data = "data", got(4, 0);
	rmsg::chain_options opts;

	opts.on_done = [](const rdmamsg_chain_end &) {
		throw std::domain_error("mine");
	};
	rmsg::chain c(p.ctx, std::move(opts));
	c.send(0, p.client, data);
	c.recv(1, p.server, got);
	try {
		c.run(std::chrono::seconds(30));
		check(false, "the exception is lost");
	} catch (const std::domain_error &) {
	}
	check(got == data, "received");
}
static const add a4("an exception of a chain's callback", throws);

static void outlives()
{
	std::optional<pair> p(std::in_place);
	std::string data = "data";
	rmsg::chain c(p->ctx), none;

	c.send(0, p->client, data);
	p.reset();
	check(!c && !none && c.try_post().status() == -EINVAL &&
	      c.try_run().status() == -EINVAL, "after the context");
}
static const add a5("a chain outlives its context", outlives);
