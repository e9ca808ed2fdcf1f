/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations, windows, caches; and a team. */
#include "test.hpp"

#include <array>
#include <cstdint>
#include <cstring>

using namespace test;
using rmsg::milliseconds;

static std::uint32_t all_access()
{
	std::uint32_t access = RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE |
			       RDMAMSG_ACCESS_LOCAL_WRITE |
			       RDMAMSG_ACCESS_WINDOW;

	if (has_atomics())
		access |= RDMAMSG_ACCESS_ATOMIC;
	return access;
}

/* Two ends, memory at each, and a way to wait for one operation. */
struct memories : pair {
	alignas(8) std::array<std::uint64_t, 512> here = {}, there = {};
	rmsg::region local, remote;
	rdmamsg_key key;
	int status = 1;
	rmsg::operation op;
	std::uint32_t notified = 0;

	static rmsg::endpoint_options notes(std::uint32_t *value)
	{
		rmsg::endpoint_options o;

		o.on.on_written = [value](rmsg::endpoint_ref, std::uint32_t v) {
			*value = v;
		};
		return o;
	}

	memories()
		: pair(notes(&notified)), local(ctx, here, all_access()),
		  remote(ctx, there, all_access()),
		  op([this](rmsg::result<> r) { status = r.status(); })
	{
		local.register_for(client);
		key = rmsg::key(rmsg::bytes_of(remote.key(server)));
		check(rmsg::attr(key).len == sizeof(there), "key's attr");
	}
	int end()
	{
		until(ctx, [this] { return status != 1; });
		return std::exchange(status, 1);
	}
};

static void reads_and_writes()
{
	memories m;

	m.here[0] = 1;
	m.here[1] = 2;
	m.client.write(m.local.part(0, 16), m.key, 8, m.op);
	check(m.end() == 0, "write");
	m.client.flush(m.op);
	check(m.end() == 0 && m.there[1] == 1 && m.there[2] == 2, "written");
	m.client.write({ m.local.part(8, 8), m.local.part(0, 8) }, m.key, 64,
		       m.op);
	check(m.end() == 0, "gather");
	m.client.write(rmsg::copied("small"), m.key, 128, m.op);
	check(m.end() == 0, "copied");
	m.client.read(m.local.part(256, 128), m.key, 64, m.op);
	check(m.end() == 0 && m.here[32] == 2 && m.here[33] == 1, "read");
	check(!std::memcmp(&m.here[40], "small", 5), "small");
	check(m.client.try_read(m.local.part(0, 8), m.key, 4096).status() ==
	      -ERANGE, "outside");
}
static const add a1("read and write", reads_and_writes);

static void counts()
{
	if (!has_atomics())
		throw skip("the device has no atomic operations");
	memories m;
	std::uint64_t old = 0;

	m.there[1] = 1;
	m.client.fetch_add(m.key, 8, 41, &old, m.op);
	check(m.end() == 0 && old == 1 && m.there[1] == 42, "fetch_add");
	m.client.compare_swap(m.key, 8, 42, 7, &old, m.op);
	check(m.end() == 0 && old == 42 && m.there[1] == 7, "compare_swap");
}
static const add a8("atomics", counts);

static void posts()
{
	memories m;
	rdmamsg_op op = {};
	rdmamsg_sge part = m.local.part(0, 8);

	m.here[0] = 99;
	op.kind = RDMAMSG_OP_WRITE;
	op.flags = RDMAMSG_OP_NOTIFY;
	op.imm = 5;
	op.sge = &part;
	op.count = 1;
	op.key = &m.key;
	op.timeout_ms = 10000;
	m.client.post(op, m.op);
	check(m.end() == 0, "posted");
	until(m.ctx, [&] { return m.notified == 5; });
	check(m.there[0] == 99, "written");
	op.kind = 77;
	check(m.client.try_post(op).status() == -EINVAL, "no such kind");
}
static const add a2("post with notification and timeout", posts);

static void windows()
{
	memories m;
	rmsg::window w(m.server);
	rdmamsg_key part = w.bind(m.remote, 64, 64, RDMAMSG_ACCESS_READ, m.op);

	check(m.end() == 0, "bound");
	m.there[8] = 123;
	m.client.read(m.local.part(0, 8), part, 0, m.op);
	check(m.end() == 0 && m.here[0] == 123, "read");
	check(m.client.try_write(m.local.part(0, 8), part, 0).status() ==
	      -EACCES, "no access");
	w.invalidate(m.op);
	check(m.end() == 0, "invalidated");
	check(m.server.masked().size != 0, "masked");
}
static const add a3("windows", windows);

static void caches()
{
	memories m;
	rmsg::cache c(m.ctx);
	rdmamsg_region *r = c.try_get(m.client, m.here, 0).value();

	c.try_put(r).value();
	c.try_put(c.try_get(m.client, m.here, 0).value()).value();
	check(c.stats().hits == 1 && c.stats().misses == 1, "stats");
	c.try_invalidate(rmsg::bytes(m.here)).value();
	check(c.stats().regions == 0, "invalidated");
	check(c.try_destroy().ok() && !c, "destroyed");
}
static const add a4("cache", caches);

/* The key is refused: the connection ends, and the operation says why. */
static void revoked()
{
	memories m;

	m.remote.revoke();
	m.client.read(m.local.part(0, 8), m.key, 0, m.op);
	check(m.end() == -EACCES, "status");
	until(m.ctx, [&] { return m.client.has_ended(); });
	check(m.client.why().cause == RDMAMSG_CAUSE_ACCESS, "cause");
}
static const add a5("revoked key", revoked);

static void key_in_setup()
{
	rmsg::context ctx;
	std::string memory = "read me before anything is sent";
	rmsg::region remote(ctx, memory, RDMAMSG_ACCESS_READ);
	rmsg::endpoint server;
	rmsg::listen_options opts;

	opts.on_request = [&](rmsg::request req) {
		rdmamsg_key k = req.key(remote);
		rmsg::endpoint_options s;

		s.setup_data = rmsg::bytes_of(k).text();
		server = req.accept(std::move(s));
	};
	rmsg::listener l = ctx.listen("127.0.0.1", "0", std::move(opts));
	rmsg::endpoint ep = ctx.connect_wait("127.0.0.1", l.service());
	std::string here(memory.size(), 0);
	rmsg::region local(ctx, here, RDMAMSG_ACCESS_LOCAL_WRITE);
	bool done = false;
	rmsg::operation op([&](rmsg::result<> r) {
		r.value();
		done = true;
	});

	local.register_for(ep);
	ep.read(local.all(), rmsg::key(ep.peer_data()), 0, op);
	until(ctx, [&] { return done; });
	check(here == memory, "data");
}
static const add a6("key in setup_data", key_in_setup);

/* Two members in one process have a context each. */
static void team_of_two()
{
	rmsg::context a, b;
	rmsg::endpoint to_a;
	rmsg::listen_options opts;

	opts.on_request = [&](rmsg::request req) { to_a = req.accept(); };
	rmsg::listener l = b.listen("127.0.0.1", "0", std::move(opts));
	rmsg::endpoint to_b = a.connect("127.0.0.1", l.service());

	until(a, b, [&] {
		return to_a.is_connected() && to_b.is_connected();
	});
	rmsg::team ta = rmsg::team::try_create(a, { {}, to_b }, 0).value();
	rmsg::team tb = rmsg::team::try_create(b, { to_a, {} }, 1).value();
	std::int64_t x = 40, y = 2;
	int done = 0;
	rmsg::operation op([&](rmsg::result<> r) {
		r.value();
		done++;
	});

	ta.allreduce(RDMAMSG_CALC_ADD, RDMAMSG_CALC_INT, &x, &x, 1, op);
	tb.allreduce(RDMAMSG_CALC_ADD, RDMAMSG_CALC_INT, &y, &y, 1, op);
	until(a, b, [&] {
		return done == 2;
	});
	check(x == 42 && y == 42, "sum");
	ta.barrier(op);
	{
		rmsg::team gone = std::move(ta);
	}
	check(done == 2 && !ta.try_barrier(), "destroyed in an operation");
}
static const add a7("team", team_of_two);
