/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups: publish and subscribe on RDMA multicast. */
#ifndef RDMAMSG_CXX_GROUP_HPP
#define RDMAMSG_CXX_GROUP_HPP

#include <string>
#include <utility>
#include <vector>

#include <rdmamsg/group.h>
#include <rdmamsg/post.h>
#include <rdmamsg/cxx/context.hpp>

namespace rmsg {

/* As struct rdmamsg_group_options and its handlers. */
struct group_options {
	callback<void()> on_joined = {};
	callback<void(const reason &)> on_lost = {};
	/* The data is valid during the call. */
	callback<void(const rdmamsg_group_message &)> on_message = {};
	callback<void(const rdmamsg_group_sender &, std::uint32_t first,
		      std::uint32_t last)> on_gap = {};
	callback<void()> on_writable = {};
	callback<void(const reason &)> on_closed = {};
	callback<void(std::uint64_t n)> on_sent = {};
	callback<void(const rdmamsg_group_flushed &)> on_flushed = {};
	callback<void(const rdmamsg_group_sender &, std::uint32_t first,
		      std::uint32_t count, bool less)> on_backlog = {};
	callback<void(const rdmamsg_group_member &)> on_laggard = {};
	std::uint32_t flags = 0;
	std::string source = {};
	std::string device = {};
	milliseconds timeout = {};
	std::uint32_t max_message = 0;
	std::uint32_t max_held = 0;
	std::uint32_t max_senders = 0;
	std::uint32_t recv_depth = 0;
	std::uint32_t send_depth = 0;
	std::uint32_t rate = 0;
	std::uint32_t history = 0;
	std::uint32_t history_bytes = 0;
	std::uint32_t history_ms = 0;
	std::uint32_t linger_ms = 0;
	std::uint32_t backlog = 0;
	std::uint32_t backlog_bytes = 0;
	std::uint32_t backlog_ms = 0;
	std::uint32_t flow = RDMAMSG_GROUP_FLOW_RATE;
	std::uint32_t flow_quorum = 0;
	std::uint32_t flow_window = 0;
	milliseconds flow_limit = {};
	std::uint64_t tag = 0;
	std::string key = {};
	std::string key_file = {};
	std::uint32_t parity = 0;
};

namespace detail {

/* One reference is the library's until on_closed, and one the owner's. */
class group_state {
public:
	core_ref core;
	rdmamsg_group *group = nullptr;		/* nullptr: it has ended */
	group_options opts;
	bool silent = false;
	unsigned int refs = 1;

	group_state(core_ref c, group_options o)
		: core(std::move(c)), opts(std::move(o)) {}

	int join(const std::string &address)
	{
		auto on = sized<rdmamsg_group_handlers>();
		auto o = sized<rdmamsg_group_options>();
		int ret;

		on.on_joined = on_joined;
		on.on_lost = on_lost;
		on.on_message = opts.on_message ? on_message : nullptr;
		on.on_gap = opts.on_gap ? on_gap : nullptr;
		on.on_writable = on_writable;
		on.on_closed = on_closed;
		on.on_sent = opts.on_sent ? on_sent : nullptr;
		on.on_flushed = on_flushed;
		on.on_backlog = on_backlog;
		on.on_laggard = on_laggard;
		fill(o);
		o.handlers = &on;
		ret = rdmamsg_group_join(core.ctx(), address.c_str(), &o,
					 &group);
		if (!ret)
			refs++;
		return ret;
	}

	void unref() noexcept
	{
		if (--refs == 0)
			delete this;
	}

private:
	void fill(rdmamsg_group_options &o) noexcept
	{
		o.user = this;
		o.flags = opts.flags;
		o.source = or_null(opts.source);
		o.device = or_null(opts.device);
		o.timeout_ms = to_option(opts.timeout);
		o.max_message = opts.max_message;
		o.max_held = opts.max_held;
		o.max_senders = opts.max_senders;
		o.recv_depth = opts.recv_depth;
		o.send_depth = opts.send_depth;
		o.rate = opts.rate;
		o.history = opts.history;
		o.history_bytes = opts.history_bytes;
		o.history_ms = opts.history_ms;
		o.linger_ms = opts.linger_ms;
		o.backlog = opts.backlog;
		o.backlog_bytes = opts.backlog_bytes;
		o.backlog_ms = opts.backlog_ms;
		o.flow = opts.flow;
		o.flow_quorum = opts.flow_quorum;
		o.flow_window = opts.flow_window;
		o.flow_limit_ms = to_option(opts.flow_limit);
		o.tag = opts.tag;
		o.key = opts.key.empty() ? nullptr : opts.key.data();
		o.key_len = opts.key.size();
		o.key_file = or_null(opts.key_file);
		o.parity = opts.parity;
	}

	/* Calls what the program has given, unless its owner has gone. */
	template <class C, class... Args>
	static void tell(rdmamsg_group *g, C group_options::*member,
			 const Args &...args) noexcept
	{
		auto *s = static_cast<group_state *>(rdmamsg_group_user(g));

		if (!s->silent && s->opts.*member)
			guard(*s->core.get(),
			      [&] { (s->opts.*member)(args...); });
	}

	static void on_joined(rdmamsg_group *g)
	{
		tell(g, &group_options::on_joined);
	}
	static void on_lost(rdmamsg_group *g, const rdmamsg_reason *why)
	{
		tell(g, &group_options::on_lost, reason(*why));
	}
	static void on_message(rdmamsg_group *g, const rdmamsg_group_message *m)
	{
		tell(g, &group_options::on_message, *m);
	}
	static void on_gap(rdmamsg_group *g, const rdmamsg_group_sender *sender,
			   std::uint32_t first, std::uint32_t last)
	{
		tell(g, &group_options::on_gap, *sender, first, last);
	}
	static void on_writable(rdmamsg_group *g)
	{
		tell(g, &group_options::on_writable);
	}
	static void on_sent(rdmamsg_group *g, std::uint64_t n)
	{
		tell(g, &group_options::on_sent, n);
	}
	static void on_flushed(rdmamsg_group *g, const rdmamsg_group_flushed *f)
	{
		tell(g, &group_options::on_flushed, *f);
	}
	static void on_backlog(rdmamsg_group *g,
			       const rdmamsg_group_sender *sender,
			       std::uint32_t first, std::uint32_t count,
			       int less)
	{
		tell(g, &group_options::on_backlog, *sender, first, count,
		     less != 0);
	}
	static void on_laggard(rdmamsg_group *g, const rdmamsg_group_member *m)
	{
		tell(g, &group_options::on_laggard, *m);
	}
	static void on_closed(rdmamsg_group *g, const rdmamsg_reason *why)
	{
		auto *s = static_cast<group_state *>(rdmamsg_group_user(g));

		s->group = nullptr;
		tell(g, &group_options::on_closed, reason(*why));
		s->unref();
	}
};

} /* namespace detail */

/*
 * The owner of a membership. When it is destroyed the group is left after what
 * was published is sent, and calls nothing any more.
 */
class group {
public:
	group() noexcept = default;
	group(context &ctx, const std::string &address, group_options opts = {})
		: group(try_join(ctx, address, std::move(opts)).value()) {}
	/* on_joined or on_closed tells the result. */
	static result<group> try_join(context &ctx, const std::string &address,
				      group_options opts = {})
	{
		group g;
		int ret;

		g.state_ = new detail::group_state(ctx.core(), std::move(opts));
		ret = g.state_->join(address);
		if (ret)
			return result<void>(ret);
		return { std::move(g) };
	}
	group(group &&other) noexcept
		: state_(std::exchange(other.state_, nullptr)) {}
	group &operator=(group &&other) noexcept
	{
		std::swap(state_, other.state_);
		return *this;
	}
	~group()
	{
		if (!state_)
			return;
		state_->silent = true;
		if (native())
			rdmamsg_group_leave(native());
		state_->unref();
	}

	/* on_closed follows. */
	void leave() noexcept
	{
		if (native())
			rdmamsg_group_leave(native());
	}
	bool has_ended() const noexcept { return !native(); }

	result<void> try_publish(bytes data) noexcept
	{
		return detail::sent(rdmamsg_group_publish(native(), data.data(),
							  data.size()));
	}
	void publish(bytes data) { try_publish(data).value(); }
	result<void> try_post(rdmamsg_op op) noexcept
	{
		op.size = sizeof(op);
		return detail::sent(rdmamsg_group_post(native(), &op));
	}
	void post(const rdmamsg_op &op) { try_post(op).value(); }

	/* on_flushed tells when all subscribers with repair have everything. */
	result<void> try_flush(milliseconds timeout = forever) noexcept
	{
		return detail::sent(rdmamsg_group_flush(native(),
						detail::to_option(timeout)));
	}
	void flush(milliseconds timeout = forever)
	{
		try_flush(timeout).value();
	}
	/* The subscribers that report to this publisher. */
	std::vector<rdmamsg_group_member> members() const
	{
		std::vector<rdmamsg_group_member> all;

		/* so that add_member cannot throw */
		all.reserve(MEMBERS_MAX);
		result<void>(rdmamsg_group_members(native(), add_member,
						   &all)).value();
		return all;
	}

	rdmamsg_group_attr attr() const
	{
		auto a = detail::sized<rdmamsg_group_attr>();

		result<void>(rdmamsg_group_query(native(), &a)).value();
		return a;
	}
	rdmamsg_group_stats stats() const
	{
		auto s = detail::sized<rdmamsg_group_stats>();

		result<void>(rdmamsg_group_get_stats(native(), &s)).value();
		return s;
	}
	rdmamsg_group_stats stats(std::uint64_t sender) const
	{
		auto s = detail::sized<rdmamsg_group_stats>();

		result<void>(rdmamsg_group_get_sender_stats(native(), sender,
							    &s)).value();
		return s;
	}

	rdmamsg_group *native() const noexcept
	{
		return state_ && state_->core.ctx() ? state_->group : nullptr;
	}

private:
	enum { MEMBERS_MAX = 254 };

	static int add_member(const rdmamsg_group_member *m, void *user)
	{
		static_cast<std::vector<rdmamsg_group_member> *>(user)
			->push_back(*m);
		return 0;
	}

	detail::group_state *state_ = nullptr;
};

} /* namespace rmsg */

#endif
