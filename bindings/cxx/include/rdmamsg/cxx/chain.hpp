/* SPDX-License-Identifier: BSD-2-Clause */
/* Chains: lists of steps over endpoints, without callbacks in between. */
#ifndef RDMAMSG_CXX_CHAIN_HPP
#define RDMAMSG_CXX_CHAIN_HPP

#include <memory>
#include <utility>

#include <rdmamsg/chain.h>
#include <rdmamsg/cxx/context.hpp>

namespace rmsg {

struct chain_options {
	/* The end of each run. It may post, change or destroy the chain. */
	callback<void(const rdmamsg_chain_end &)> on_done = {};
	milliseconds timeout = {};	/* of a run */
	std::uint32_t path = 0;		/* enum rdmamsg_chain_path */
};

namespace detail {

/* A callback may destroy the chain, so it keeps the state. */
class chain_state : public std::enable_shared_from_this<chain_state> {
public:
	core_ref core;
	rdmamsg_chain *chain = nullptr;

	chain_state(core_ref c, chain_options o)
		: core(std::move(c)), opts_(std::move(o)) {}
	chain_state(const chain_state &) = delete;
	chain_state &operator=(const chain_state &) = delete;

	int make()
	{
		auto on = sized<rdmamsg_chain_handlers>();
		auto o = sized<rdmamsg_chain_options>();

		on.on_done = on_done;
		o.user = this;
		o.handlers = &on;
		o.timeout_ms = to_option(opts_.timeout);
		o.path = opts_.path;
		return rdmamsg_chain_create(core.ctx(), &o, &chain);
	}
	rdmamsg_chain *native() const noexcept
	{
		return core.ctx() ? chain : nullptr;
	}
	void destroy() noexcept
	{
		rdmamsg_chain_destroy(native());
		chain = nullptr;
	}

private:
	static void on_done(rdmamsg_chain *c, const rdmamsg_chain_end *end)
	{
		auto s = static_cast<chain_state *>(rdmamsg_chain_user(c))
			->shared_from_this();

		if (s->opts_.on_done)
			guard(*s->core.get(), [&] { s->opts_.on_done(*end); });
	}

	chain_options opts_;
};

} /* namespace detail */

/*
 * The owner of a chain. The calls that append a step return its number, and
 * borrow its memory for each run.
 */
class chain {
public:
	chain() noexcept = default;
	explicit chain(context &ctx, chain_options opts = {})
		: chain(try_create(ctx, std::move(opts)).value()) {}
	static result<chain> try_create(context &ctx, chain_options opts = {})
	{
		chain c;
		int ret;

		c.state_ = std::make_shared<detail::chain_state>(
			ctx.core(), std::move(opts));
		ret = c.state_->make();
		if (ret)
			return result<void>(ret);
		return { std::move(c) };
	}
	chain(chain &&other) noexcept = default;
	chain &operator=(chain &&other) noexcept
	{
		std::swap(state_, other.state_);
		return *this;
	}
	~chain()
	{
		if (state_)
			state_->destroy();
	}

	explicit operator bool() const noexcept { return native() != nullptr; }

	result<std::uint32_t> try_send(std::uint32_t queue, endpoint_ref ep,
				       bytes data,
				       std::uint32_t tag = 0) noexcept
	{
		rdmamsg_sge part = {
			const_cast<void *>(static_cast<const void *>(
				data.data())), data.size(), nullptr
		};
		auto op = detail::sized<rdmamsg_op>();

		op.kind = RDMAMSG_OP_SEND;
		op.sge = &part;
		op.count = 1;
		op.tag = tag;
		return step(rdmamsg_chain_add(native(), queue, ep.native(),
					      &op));
	}
	std::uint32_t send(std::uint32_t queue, endpoint_ref ep, bytes data,
			   std::uint32_t tag = 0)
	{
		return try_send(queue, ep, data, tag).value();
	}
	/* The message must have this length and tag. */
	result<std::uint32_t> try_recv(std::uint32_t queue, endpoint_ref ep,
				       buffer data,
				       std::uint32_t tag = 0) noexcept
	{
		return step(rdmamsg_chain_recv(native(), queue, ep.native(),
					       data.data(), data.size(), tag));
	}
	std::uint32_t recv(std::uint32_t queue, endpoint_ref ep, buffer data,
			   std::uint32_t tag = 0)
	{
		return try_recv(queue, ep, data, tag).value();
	}
	/* Until n steps of queue 'other' are done. */
	result<std::uint32_t> try_wait(std::uint32_t queue, std::uint32_t other,
				       std::uint32_t n) noexcept
	{
		return step(rdmamsg_chain_wait(native(), queue, other, n));
	}
	std::uint32_t wait(std::uint32_t queue, std::uint32_t other,
			   std::uint32_t n)
	{
		return try_wait(queue, other, n).value();
	}
	/* The first n steps of queue 'other'; 0: all. */
	result<std::uint32_t> try_enable(std::uint32_t queue,
					 std::uint32_t other,
					 std::uint32_t n = 0) noexcept
	{
		return step(rdmamsg_chain_enable(native(), queue, other, n));
	}
	std::uint32_t enable(std::uint32_t queue, std::uint32_t other,
			     std::uint32_t n = 0)
	{
		return try_enable(queue, other, n).value();
	}
	/* dst[i] = a[i] op b[i] */
	result<std::uint32_t> try_calc(std::uint32_t queue, rdmamsg_calc_op op,
				       rdmamsg_calc_type type, void *dst,
				       const void *a, const void *b,
				       std::size_t count) noexcept
	{
		return step(rdmamsg_chain_calc(native(), queue, op, type, dst,
					       a, b, count));
	}
	std::uint32_t calc(std::uint32_t queue, rdmamsg_calc_op op,
			   rdmamsg_calc_type type, void *dst, const void *a,
			   const void *b, std::size_t count)
	{
		return try_calc(queue, op, type, dst, a, b, count).value();
	}

	result<void> try_post() noexcept
	{
		return result<void>(rdmamsg_chain_post(native()));
	}
	void post() { try_post().value(); }
	void cancel() noexcept { rdmamsg_chain_cancel(native()); }
	/* Posts the chain, and drives the context until the run has ended. */
	result<void> try_run(milliseconds timeout = forever)
	{
		auto s = state_;

		if (!native())
			return result<void>(-EINVAL, "there is no chain");
		return result<void>(s->core->drive([&](::rdmamsg *) {
			return rdmamsg_chain_run(s->native(),
						 detail::to_wait(timeout));
		}));
	}
	void run(milliseconds timeout = forever) { try_run(timeout).value(); }

	std::uint32_t path() const noexcept
	{
		return rdmamsg_chain_path(native());
	}
	rdmamsg_chain *native() const noexcept
	{
		return state_ ? state_->native() : nullptr;
	}

private:
	static result<std::uint32_t> step(int ret) noexcept
	{
		if (ret < 0)
			return result<void>(ret);
		return static_cast<std::uint32_t>(ret);
	}

	std::shared_ptr<detail::chain_state> state_;
};

} /* namespace rmsg */

#endif
