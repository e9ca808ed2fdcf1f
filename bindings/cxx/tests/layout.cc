/* SPDX-License-Identifier: BSD-2-Clause */
/* Layouts: grids, keys for peers, messages that are received in one. */
#include "test.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>

using namespace test;

static const std::uint32_t both = RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE |
				  RDMAMSG_ACCESS_LOCAL_WRITE;

/* A matrix at each end, in which a column is a layout. */
struct matrices : pair {
	static constexpr std::size_t rows = 16, row = 16 * 8;
	using matrix = std::array<std::array<std::uint64_t, 16>, rows>;

	alignas(8) matrix here = {}, there = {};
	rmsg::region local, remote;
	rmsg::layout column;
	int status = 1;
	rmsg::operation op;

	explicit matrices(rmsg::endpoint_options s = {},
			  rmsg::endpoint_options c = {})
		: pair(std::move(s), std::move(c)), local(ctx, here, both),
		  remote(ctx, there, both), column(ctx, both),
		  op([this](rmsg::result<> r) { status = r.status(); })
	{
		local.register_for(client);
	}
	int end()
	{
		until(ctx, [this] { return status != 1; });
		return std::exchange(status, 1);
	}
	/* Column n of the peer's matrix. */
	void define(std::size_t n)
	{
		column.define({ rmsg::layout_part(remote, n * 8, 8)
				.times(rows, row) });
	}
	rdmamsg_key key()
	{
		std::vector<std::byte> bytes(column.attr().key_len);
		std::size_t len = 0;

		column.get_key(server, bytes, &len, op);
		check(end() == 0 && len && len <= bytes.size(), "key");
		bytes.resize(len);
		return rmsg::layout_key(ctx, bytes);
	}
};

static void columns()
{
	matrices m;

	std::iota(m.here[0].begin(), m.here[0].end(), 1);
	m.define(3);
	check(m.column.attr().len == 8 * m.rows, "length");
	rdmamsg_key key = m.key();
	m.client.write(m.local.part(0, m.row), key, 0, m.op);
	check(m.end() == 0, "written");
	m.client.read(m.local.part(m.row, m.row), key, 0, m.op);
	check(m.end() == 0 && m.here[1] == m.here[0], "read");
	for (std::size_t i = 0; i < m.rows; i++)
		check(m.there[i][3] == i + 1 && !m.there[i][2] &&
		      !m.there[i][4], "the column alone");
	rmsg::try_forget(m.ctx, key).value();
}
static const add a1("a peer writes and reads a layout", columns);

static void gathers()
{
	matrices m;
	rmsg::layout here(m.ctx, RDMAMSG_ACCESS_LOCAL_WRITE);
	std::array<std::uint64_t, 16> flat;
	rdmamsg_key key = rmsg::key(rmsg::bytes_of(m.remote.key(m.server)));

	std::iota(m.there[0].begin(), m.there[0].end(), 1);
	here.define({ rmsg::layout_part(m.local, 0, 8).every(m.row),
		      rmsg::layout_part(m.local, 8, 8).every(m.row) }, 8);
	here.register_for(m.client);
	m.client.read(here.part(0, m.row), key, 0, m.op);
	check(m.end() == 0, "read");
	for (std::size_t i = 0; i < 8; i++)
		check(m.here[i][0] == 2 * i + 1 && m.here[i][1] == 2 * i + 2,
		      "interleaved");
	here.copy_out(0, flat);
	check(flat == m.there[0], "copy_out");
	flat[0] = 99;
	here.copy_in(0, flat);
	check(m.here[0][0] == 99, "copy_in");
	check(here.try_copy_in(8, flat).status() == -ERANGE, "outside");
}
static const add a2("reads into a layout of rounds", gathers);

static void receives()
{
	std::optional<matrices> m;
	rmsg::endpoint_options s;
	std::string data(16 * 8 * 512, 0);
	std::vector<std::uint64_t> room(16 * 512 * 2);
	std::optional<rmsg::layout> lay;
	std::size_t got = 0;

	for (std::size_t i = 0; i < data.size(); i++)
		data[i] = static_cast<char>(i % 251);
	s.on.on_incoming = [&](rmsg::endpoint_ref ep, std::size_t,
			       std::uint32_t) {
		lay->recv(ep);
		return rmsg::incoming::library();
	};
	s.on.on_message = [&](rmsg::endpoint_ref, rmsg::message &&msg) {
		got = msg.size();
	};
	m.emplace(std::move(s));
	rmsg::region r(m->ctx, room, both);
	lay.emplace(m->ctx, RDMAMSG_ACCESS_LOCAL_WRITE);
	lay->define({ rmsg::layout_part(r, 0, 8).times(16 * 512, 16) });
	m->client.send(data);
	until(m->ctx, [&] { return got == data.size(); });
	for (std::size_t i = 0; i < room.size(); i += 2)
		check(!std::memcmp(&room[i], &data[i * 4], 8) && !room[i + 1],
		      "blocks");
	lay.reset();
}
static const add a3("a message arrives in a layout", receives);

static void refuses()
{
	matrices m;
	rmsg::layout small(m.ctx, 0, 1), none;
	rmsg::layout_part part(m.local, 0, 8);

	check(small.try_define({ part, part }).status() == -ENOBUFS,
	      "capacity");
	part.times(1, 8).times(1, 8).times(1, 8).times(1, 8);
	check(small.try_define({ part }).status() == -EINVAL, "dimensions");
	check(thrown_by([&] { m.column.define({ rmsg::layout_part(
		m.remote, sizeof(m.there), 8) }); }) == EINVAL, "outside");
	m.define(0);
	check(m.remote.try_destroy().status() == -EBUSY, "a part of a layout");
	m.column.invalidate();
	check(m.remote.try_destroy().status() == 0, "no longer a part");
	check(!none && none.try_define({ part }).status() == -EINVAL, "empty");
	check(rmsg::try_layout_key(m.ctx, "nonsense").status() == -EPROTO,
	      "no key");
}
static const add a4("layouts refuse what is wrong", refuses);
