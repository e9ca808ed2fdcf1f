/* SPDX-License-Identifier: BSD-2-Clause */
/* Private: what an endpoint has beside the library's, and its callbacks. */
#ifndef RDMAMSG_CXX_STATE_HPP
#define RDMAMSG_CXX_STATE_HPP

#include <memory>
#include <utility>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/cxx/core.hpp>
#include <rdmamsg/cxx/operation.hpp>
#include <rdmamsg/cxx/options.hpp>

namespace rmsg {

namespace detail {

/*
 * One reference is the library's until on_closed, and one the owner's. The
 * endpoint is held as long as there is either. Endpoints of a listener share
 * their handlers.
 */
class endpoint_state {
public:
	core_ref core;
	rdmamsg_ep *ep = nullptr;
	std::shared_ptr<handlers> on;
	reason why;			/* once it has ended */
	bool connected = false;
	bool ended = false;
	bool silent = false;		/* no owner, who wants callbacks */
	void *user = nullptr;
	/* of recv() in a coroutine; see coroutine.hpp */
	void *reader = nullptr;

	endpoint_state(core_ref c, std::shared_ptr<handlers> h) noexcept
		: core(std::move(c)), on(std::move(h)) {}
	endpoint_state(const endpoint_state &) = delete;
	endpoint_state &operator=(const endpoint_state &) = delete;

	static endpoint_state *of(const rdmamsg_ep *ep) noexcept
	{
		return static_cast<endpoint_state *>(rdmamsg_ep_user(ep));
	}

	void ref() noexcept { refs_++; }
	void unref() noexcept
	{
		if (--refs_ == 0)
			delete this;
	}

	/* The library has begun to connect or to accept: it calls on_closed. */
	void begin(rdmamsg_ep *made) noexcept
	{
		ep = made;
		rdmamsg_ep_hold(ep);
		ref();
	}

	rdmamsg_ep_handlers table() const noexcept;

private:
	~endpoint_state()
	{
		if (ep)
			rdmamsg_ep_release(ep);
	}

	unsigned int refs_ = 0;
};

class state_ref {
public:
	state_ref() noexcept = default;
	explicit state_ref(endpoint_state *s) noexcept : state_(s)
	{
		if (state_)
			state_->ref();
	}
	state_ref(state_ref &&other) noexcept
		: state_(std::exchange(other.state_, nullptr)) {}
	state_ref &operator=(state_ref &&other) noexcept
	{
		std::swap(state_, other.state_);
		return *this;
	}
	~state_ref()
	{
		if (state_)
			state_->unref();
	}

	endpoint_state *get() const noexcept { return state_; }
	endpoint_state *operator->() const noexcept { return state_; }
	explicit operator bool() const noexcept { return state_ != nullptr; }

private:
	endpoint_state *state_ = nullptr;
};

} /* namespace detail */

} /* namespace rmsg */

#endif
