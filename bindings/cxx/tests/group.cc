/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups, devices and failover. */
#include "test.hpp"

#include <cstdlib>
#include <cstring>
#include <unistd.h>

using namespace test;
using rmsg::milliseconds;

static bool has_multicast()
{
	return rmsg::capability(RDMAMSG_CAP_MULTICAST).how !=
	       RDMAMSG_CAP_ABSENT;
}

static void publishes()
{
	rmsg::context ctx;
	rmsg::group_options p, s;
	int joined = 0;
	std::string got;
	std::uint64_t sent = 0;
	rdmamsg_group_flushed flushed = {};

	if (!has_multicast())
		throw skip("the device has no multicast");
	p.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR;
	p.on_joined = [&] { joined++; };
	p.on_flushed = [&](const rdmamsg_group_flushed &f) { flushed = f; };
	p.on_sent = [&](std::uint64_t n) { sent = n; };
	s.flags = RDMAMSG_GROUP_SUBSCRIBE | RDMAMSG_GROUP_REPAIR;
	s.on_joined = [&] { joined++; };
	s.on_message = [&](const rdmamsg_group_message &m) {
		got = rmsg::bytes(m.data, m.len).text();
	};
	rmsg::group pub(ctx, "239.7.7.7", std::move(p));
	rmsg::group sub(ctx, "239.7.7.7", std::move(s));

	until(ctx, [&] { return joined == 2; });
	pub.publish("news");
	until(ctx, [&] { return got == "news" && sent == 1; });
	check(pub.stats().sent_messages == 1 && pub.attr().joined, "stats");
	check(sub.try_publish("x").status() == -EPERM, "it only subscribes");
	until(ctx, [&] { return pub.members().size() == 1; });
	pub.flush(rmsg::milliseconds(60000));
	until(ctx, [&] { return flushed.size > 0; });
	check(flushed.end == 1 && flushed.members == 1 && !flushed.behind,
	      "all have it");
	check(sub.try_flush().status() == -EOPNOTSUPP, "no publisher");
	sub.leave();
	until(ctx, [&] { return sub.has_ended(); });
}
static const add a1("publish and subscribe", publishes);

static void without_multicast()
{
	rmsg::context ctx;

	check(rmsg::group::try_join(ctx, "127.0.0.1").status() == -EINVAL,
	      "not a multicast address");
}
static const add a2("wrong group", without_multicast);

static void devices()
{
	check(!rmsg::devices().empty(), "devices");
	check(rmsg::device().ports > 0, "device");
	check(!rmsg::gids(nullptr, 1).empty(), "gids");
	check(rmsg::port(nullptr, 1).port == 1, "port");
	check(!rmsg::capabilities().empty(), "capabilities");
	check(*rmsg::name(RDMAMSG_NAME_CAUSE, RDMAMSG_CAUSE_CLOSED) != 0 &&
	      *rmsg::version() != 0, "names");
	/* ENODEV on a host without hardware */
	int none = thrown_by([] { rmsg::device("nowhere"); });
	check(none == ENXIO || none == ENODEV, "none");
}
static const add a3("devices", devices);

/* The link is cut, and another connection takes over: nothing is lost. */
static void fails_over()
{
	int got = 0, down = 0, resumed = 0;
	rmsg::endpoint_options s, c;
	rmsg::failover_options lane;
	const std::string pid = std::to_string(getpid());

	lane.rungs = RDMAMSG_RUNG_LANE;
	lane.timeout = milliseconds(60000);
	/* the end of a cut connection comes soon, with each kind of link */
	c.tuning = rdmamsg_ep_tuning();
	c.tuning->ack_timeout = 13;
	c.dead_after = milliseconds(3000);
	s.failover = lane;
	c.failover = lane;
	s.on.on_message = [&](rmsg::endpoint_ref, rmsg::message m) {
		int number;

		std::memcpy(&number, m.data().data(), sizeof(number));
		check(number == got, "order");
		got++;
	};
	c.on.on_path = [&](rmsg::endpoint_ref,
			   const rdmamsg_path_event &event) {
		down += event.change == RDMAMSG_PATH_CHANGE_DOWN;
		resumed += event.change == RDMAMSG_PATH_CHANGE_RESUMED;
	};
	pair p(std::move(s), std::move(c));
	auto send = [&p](int i) {
		rmsg::result<> r = p.client.try_send(rmsg::bytes_of(i));

		until(p.ctx, [&] {
			if (r.again())
				r = p.client.try_send(rmsg::bytes_of(i));
			return !r.again();
		});
		r.value();
	};

	for (int i = 0; i < 10; i++)
		send(i);
	soft_ctl("--pid " + pid + " port 1 down");
	send(10);
	until(p.ctx, [&] { return down > 0; });
	soft_ctl("--pid " + pid + " port 1 up");
	for (int i = 11; i < 20; i++)
		send(i);
	until(p.ctx, [&] { return got == 20 && resumed > 0; });
	check(p.client.path().resumes > 0, "path");
	check(!p.client.history().empty(), "history");
	p.client.close_wait();
}
static const add a4("failover of a cut link", fails_over);
