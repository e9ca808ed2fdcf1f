/* SPDX-License-Identifier: BSD-2-Clause */
/* Teams: barrier, broadcast and all-reduce over endpoints. */
#ifndef RDMAMSG_CXX_TEAM_HPP
#define RDMAMSG_CXX_TEAM_HPP

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <rdmamsg/chain.h>
#include <rdmamsg/cxx/context.hpp>

namespace rmsg {

struct team_options {
	std::uint32_t path = 0;		/* enum rdmamsg_chain_path */
	/* of endpoints that the team makes: without handlers and data */
	endpoint_options endpoint = {};
	milliseconds timeout = {};
};

namespace detail {

class team_state {
public:
	core_ref core;
	rdmamsg_team *team = nullptr;

	team_state(core_ref c, team_options o)
		: core(std::move(c)), opts_(std::move(o)),
		  ep_(opts_.endpoint, nullptr, nullptr) {}
	team_state(const team_state &) = delete;
	team_state &operator=(const team_state &) = delete;

	/* An operation that has not ended is told that it is cancelled. */
	~team_state()
	{
		if (core.ctx())
			rdmamsg_team_destroy(team);
		ended(-ECANCELED);
	}

	/* One of rdmamsg_team_create() and rdmamsg_team_connect(). */
	template <class F> int make(F call, bool own_endpoints)
	{
		auto on = sized<rdmamsg_team_handlers>();
		auto o = sized<rdmamsg_team_options>();

		on.on_done = on_done;
		o.user = this;
		o.handlers = &on;
		o.path = opts_.path;
		o.ep = own_endpoints ? ep_.get() : nullptr;
		o.timeout_ms = to_option(opts_.timeout);
		return call(core.ctx(), &o, &team);
	}

	result<void> begun(int ret, completion done) noexcept
	{
		if (!done.accepted(ret))
			running_ = static_cast<slot *>(done.cookie());
		return result<void>(ret);
	}

private:
	void ended(int status) noexcept
	{
		slot *s = std::exchange(running_, nullptr);

		if (s)
			guard(*core.get(), [&] { s->complete(status, false); });
	}

	static void on_done(rdmamsg_team *team, void *, int status)
	{
		static_cast<team_state *>(rdmamsg_team_user(team))
			->ended(status);
	}

	team_options opts_;
	c_endpoint_options ep_;
	slot *running_ = nullptr;
};

} /* namespace detail */

/*
 * The owner of a team. One operation at a time, which ends with its completion
 * and with wait(). Endpoints of create() must not end before the team.
 */
class team {
public:
	team() noexcept = default;
	team(team &&other) noexcept = default;
	team &operator=(team &&other) noexcept = default;

	/* members[rank] is not read. */
	static result<team> try_create(context &ctx,
				       const std::vector<endpoint_ref> &members,
				       std::uint32_t rank,
				       team_options opts = {})
	{
		std::vector<rdmamsg_ep *> eps;

		eps.reserve(members.size());
		for (endpoint_ref member : members)
			eps.push_back(member.native());
		return make(ctx, std::move(opts), false,
			    [&](auto c, auto o, auto made) {
			return rdmamsg_team_create(
				c, o, eps.data(),
				static_cast<std::uint32_t>(eps.size()), rank,
				made);
		});
	}
	/* Makes the endpoints as well: the team's first operation. */
	static result<team> try_connect(context &ctx,
					const std::vector<std::string> &members,
					std::uint32_t rank,
					team_options opts = {})
	{
		std::vector<const char *> addresses;

		addresses.reserve(members.size());
		for (const std::string &member : members)
			addresses.push_back(member.c_str());
		return make(ctx, std::move(opts), true,
			    [&](auto c, auto o, auto made) {
			return rdmamsg_team_connect(
				c, o, addresses.data(),
				static_cast<std::uint32_t>(addresses.size()),
				rank, made);
		});
	}

	result<void> try_barrier(completion done = {}) noexcept
	{
		return begun(rdmamsg_team_barrier(native(), done.cookie()),
			     done);
	}
	void barrier(completion done = {}) { try_barrier(done).value(); }
	result<void> try_broadcast(buffer data, std::uint32_t root,
				   completion done = {}) noexcept
	{
		return begun(rdmamsg_team_broadcast(native(), data.data(),
						    data.size(), root,
						    done.cookie()), done);
	}
	void broadcast(buffer data, std::uint32_t root, completion done = {})
	{
		try_broadcast(data, root, done).value();
	}
	/* 'in' has as many bytes as 'out', and may be 'out'. */
	result<void> try_allreduce(rdmamsg_calc_op op, rdmamsg_calc_type type,
				   const void *in, void *out, std::size_t count,
				   completion done = {}) noexcept
	{
		return begun(rdmamsg_team_allreduce(native(), op, type, in, out,
						    count, done.cookie()),
			     done);
	}
	void allreduce(rdmamsg_calc_op op, rdmamsg_calc_type type,
		       const void *in, void *out, std::size_t count,
		       completion done = {})
	{
		try_allreduce(op, type, in, out, count, done).value();
	}

	/* Drives the context until no operation runs. */
	result<void> try_wait(milliseconds timeout = forever)
	{
		if (!native())
			return result<void>(-EINVAL, "there is no team");
		return result<void>(state_->core->drive(
			[this, timeout](::rdmamsg *) {
				return rdmamsg_team_wait(
					native(), detail::to_wait(timeout));
			}));
	}
	void wait(milliseconds timeout = forever) { try_wait(timeout).value(); }

	void abort() noexcept { rdmamsg_team_abort(native()); }
	std::uint32_t path() const noexcept
	{
		return rdmamsg_team_path(native());
	}
	/* Its error is 0 unless the team has failed. */
	rdmamsg_team_failure failure() const noexcept
	{
		return *rdmamsg_team_reason(native());
	}

	rdmamsg_team *native() const noexcept
	{
		return state_ && state_->core.ctx() ? state_->team : nullptr;
	}

private:
	template <class F>
	static result<team> make(context &ctx, team_options opts,
				 bool own_endpoints, F call)
	{
		team t;
		int ret;

		t.state_ = std::make_unique<detail::team_state>(
			ctx.core(), std::move(opts));
		ret = t.state_->make(call, own_endpoints);
		if (ret)
			return result<void>(ret);
		return { std::move(t) };
	}
	result<void> begun(int ret, completion done) noexcept
	{
		return state_ ? state_->begun(ret, done) : result<void>(ret);
	}

	std::unique_ptr<detail::team_state> state_;
};

} /* namespace rmsg */

#endif
