/* SPDX-License-Identifier: BSD-2-Clause */
/* Timers of a context. */
#ifndef RDMAMSG_CXX_TIMER_HPP
#define RDMAMSG_CXX_TIMER_HPP

#include <memory>
#include <utility>

#include <rdmamsg/timer.h>
#include <rdmamsg/cxx/context.hpp>

namespace rmsg {

namespace detail {

/* The callable may destroy the timer, so each call keeps the state. */
struct timer_state : std::enable_shared_from_this<timer_state> {
	core_ref core;
	callback<void()> fn;
	rdmamsg_timer *timer = nullptr;

	timer_state(core_ref c, callback<void()> f) noexcept
		: core(std::move(c)), fn(std::move(f)) {}
	timer_state(const timer_state &) = delete;
	timer_state &operator=(const timer_state &) = delete;
	~timer_state()
	{
		if (core.ctx())
			rdmamsg_timer_destroy(timer);
	}

	static void expired(rdmamsg_timer *, void *arg)
	{
		auto s = static_cast<timer_state *>(arg)->shared_from_this();

		guard(*s->core.get(), [&] { s->fn(); });
	}
};

} /* namespace detail */

/* Calls fn whenever it expires. A timer that is destroyed is stopped. */
class timer {
public:
	timer() noexcept = default;
	timer(context &ctx, callback<void()> fn)
		: timer(try_create(ctx, std::move(fn)).value()) {}
	static result<timer> try_create(context &ctx, callback<void()> fn)
	{
		timer t;
		int ret;

		t.state_ = std::make_shared<detail::timer_state>(
			ctx.core(), std::move(fn));
		ret = rdmamsg_timer_create(ctx.native(),
					   detail::timer_state::expired,
					   t.state_.get(), &t.state_->timer);
		if (ret)
			return result<void>(ret);
		return { std::move(t) };
	}
	timer(timer &&other) noexcept = default;
	timer &operator=(timer &&other) noexcept
	{
		std::swap(state_, other.state_);
		return *this;
	}
	~timer()
	{
		if (native())
			rdmamsg_timer_stop(native());
	}

	result<void> try_start(milliseconds delay, milliseconds repeat = {})
		noexcept
	{
		return result<void>(rdmamsg_timer_start(native(),
			detail::to_option(delay), detail::to_option(repeat)));
	}
	void start(milliseconds delay, milliseconds repeat = {})
	{
		try_start(delay, repeat).value();
	}
	result<void> try_stop() noexcept
	{
		return result<void>(rdmamsg_timer_stop(native()));
	}
	void stop() { try_stop().value(); }

	rdmamsg_timer *native() const noexcept
	{
		return state_ && state_->core.ctx() ? state_->timer : nullptr;
	}

private:
	std::shared_ptr<detail::timer_state> state_;
};

} /* namespace rmsg */

#endif
