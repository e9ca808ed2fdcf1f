/* SPDX-License-Identifier: BSD-2-Clause */
/* The owner of an endpoint, and the callbacks that the library calls. */
#ifndef RDMAMSG_CXX_ENDPOINT_HPP
#define RDMAMSG_CXX_ENDPOINT_HPP

#include <utility>

#include <rdmamsg/cxx/endpoint_ref.hpp>

namespace rmsg {

namespace detail {

/* The handlers of C. The endpoint's user pointer leads to its state. */
struct trampoline {
	template <class F> static void guarded(rdmamsg_ep *ep, F call) noexcept
	{
		endpoint_state *s = endpoint_state::of(ep);

		if (!s->silent)
			guard(*s->core.get(), [&] { call(*s->on); });
	}

	static void connected(rdmamsg_ep *ep)
	{
		endpoint_state::of(ep)->connected = true;
		guarded(ep, [ep](handlers &h) {
			if (h.on_connected)
				h.on_connected(endpoint_ref(ep));
		});
	}

	static void got(rdmamsg_ep *ep, rdmamsg_msg *native)
	{
		message msg(native, endpoint_state::of(ep)->core);

		guarded(ep, [&](handlers &h) {
			h.on_message(endpoint_ref(ep), std::move(msg));
		});
	}

	/* A request that the program cannot answer is refused. */
	static int announced(rdmamsg_ep *ep, std::size_t len, std::uint32_t tag,
			     rdmamsg_buffer *dst)
	{
		incoming in = incoming::refuse();

		guarded(ep, [&](handlers &h) {
			in = h.on_incoming(endpoint_ref(ep), len, tag);
		});
		dst->data = in.data;
		return in.error;
	}

	static void complete(rdmamsg_ep *ep, void *cookie, int status)
	{
		guard(*endpoint_state::of(ep)->core.get(), [&] {
			static_cast<slot *>(cookie)->complete(status, false);
		});
	}

	static void late(rdmamsg_ep *ep, void *cookie, int status)
	{
		guard(*endpoint_state::of(ep)->core.get(), [&] {
			static_cast<slot *>(cookie)->complete(status, true);
		});
	}

	static void writable(rdmamsg_ep *ep)
	{
		guarded(ep, [ep](handlers &h) {
			h.on_writable(endpoint_ref(ep));
		});
	}

	static void stalled(rdmamsg_ep *ep, std::uint32_t ms)
	{
		guarded(ep, [&](handlers &h) {
			h.on_stalled(endpoint_ref(ep), milliseconds(ms));
		});
	}

	static void resumed(rdmamsg_ep *ep)
	{
		guarded(ep, [ep](handlers &h) {
			h.on_resumed(endpoint_ref(ep));
		});
	}

	static void written(rdmamsg_ep *ep, std::uint32_t value)
	{
		guarded(ep, [&](handlers &h) {
			h.on_written(endpoint_ref(ep), value);
		});
	}

	static void invalidated(rdmamsg_ep *ep, rdmamsg_window *window)
	{
		guarded(ep, [&](handlers &h) {
			h.on_invalidated(endpoint_ref(ep), window);
		});
	}

	static void path(rdmamsg_ep *ep, const rdmamsg_path_event *event)
	{
		guarded(ep, [&](handlers &h) {
			h.on_path(endpoint_ref(ep), *event);
		});
	}

	/* The last call: what the callables hold is given back. */
	static void closed(rdmamsg_ep *ep, const rdmamsg_reason *why)
	{
		state_ref s(endpoint_state::of(ep));

		s->ended = true;
		guard(*s->core.get(), [&] { s->why = reason(*why); });
		guarded(ep, [&](handlers &h) {
			if (h.on_closed)
				h.on_closed(endpoint_ref(ep), s->why);
		});
		s->on.reset();
		s->unref();
	}
};

/* Only what the program handles, because the library asks what is there. */
inline rdmamsg_ep_handlers endpoint_state::table() const noexcept
{
	auto t = sized<rdmamsg_ep_handlers>();
	const handlers &h = *on;

	t.on_connected = trampoline::connected;
	t.on_complete = trampoline::complete;
	t.on_closed = trampoline::closed;
	t.on_message = h.on_message ? trampoline::got : nullptr;
	t.on_incoming = h.on_incoming ? trampoline::announced : nullptr;
	t.on_writable = h.on_writable ? trampoline::writable : nullptr;
	t.on_stalled = h.on_stalled ? trampoline::stalled : nullptr;
	t.on_resumed = h.on_resumed ? trampoline::resumed : nullptr;
	t.on_written = h.on_written ? trampoline::written : nullptr;
	t.on_invalidated = h.on_invalidated ? trampoline::invalidated : nullptr;
	t.on_path = h.on_path ? trampoline::path : nullptr;
	return t;
}

} /* namespace detail */

/*
 * The owner of an endpoint. When it is destroyed, the endpoint begins to close
 * gracefully and calls nothing any more; it ends at the latest with its
 * context. So what its handlers refer to may be destroyed right after it.
 */
class endpoint : public endpoint_ref {
public:
	endpoint() noexcept = default;
	explicit endpoint(detail::state_ref state) noexcept
		: endpoint_ref(state ? state->ep : nullptr),
		  state_(std::move(state)) {}
	endpoint(endpoint &&other) noexcept
		: endpoint_ref(std::exchange(other.ep_, nullptr)),
		  state_(std::move(other.state_)) {}
	endpoint &operator=(endpoint &&other) noexcept
	{
		endpoint old(std::move(*this));

		ep_ = std::exchange(other.ep_, nullptr);
		state_ = std::move(other.state_);
		return *this;
	}
	~endpoint()
	{
		if (!state_ || state_->ended)
			return;
		state_->silent = true;
		rdmamsg_ep_close(ep_);
	}

	bool is_connected() const noexcept
	{
		return state_ && state_->connected && !state_->ended;
	}
	bool has_ended() const noexcept { return !state_ || state_->ended; }

	/* The endpoint goes on by itself, with its callbacks, until it ends. */
	void detach() noexcept
	{
		ep_ = nullptr;
		state_ = detail::state_ref();
	}

	/*
	 * Closes, and drives the context until the end. After the timeout the
	 * endpoint is aborted. Fails if the end was not graceful.
	 */
	result<void> try_close_wait(milliseconds timeout = forever);
	void close_wait(milliseconds timeout = forever)
	{
		if (!try_close_wait(timeout))
			detail::raise(connection_error(state_ ? state_->why :
						       reason()));
	}

	/* Drives the context until it is connected. Throws why it is not. */
	result<void> try_connected(milliseconds timeout = forever);
	void connected(milliseconds timeout = forever);

private:
	detail::state_ref state_;
};

inline result<void> endpoint_ref::try_post(rdmamsg_op op, completion done)
	noexcept
{
	op.size = sizeof(op);
	op.cookie = done.cookie();
	op.on_late = op.timeout_ms ? detail::trampoline::late : nullptr;
	return detail::sent(done.accepted(rdmamsg_post(ep_, &op)));
}

inline result<void> endpoint::try_connected(milliseconds timeout)
{
	int ret;

	if (!state_)
		return result<void>(-EINVAL, "there is no endpoint");
	ret = state_->core->wait_until([this] {
		return state_->connected || state_->ended;
	}, timeout);
	if (ret)
		return result<void>(ret);
	if (!state_->connected)
		return result<void>(state_->why.error ? state_->why.error :
				    -ESHUTDOWN, state_->why.text.c_str());
	return {};
}

inline void endpoint::connected(milliseconds timeout)
{
	result<void> r = try_connected(timeout);

	if (!r && state_ && state_->ended)
		detail::raise(connection_error(state_->why));
	r.value();
}

inline result<void> endpoint::try_close_wait(milliseconds timeout)
{
	int ret;

	if (!state_)
		return result<void>(-EINVAL, "there is no endpoint");
	rdmamsg_ep_close(ep_);
	ret = state_->core->wait_until([this] { return state_->ended; },
				       timeout);
	if (ret == -ETIMEDOUT) {
		rdmamsg_ep_abort(ep_);
		ret = state_->core->wait_until([this] { return state_->ended; },
					       forever);
	}
	if (ret)
		return result<void>(ret);
	return result<void>(state_->why.error, state_->why.text.c_str());
}

namespace detail {

/*
 * Makes an endpoint with a call of C, which takes the options and where to
 * write the endpoint.
 */
template <class F>
result<endpoint> make_endpoint(const core_ref &core,
			       std::shared_ptr<handlers> on,
			       const endpoint_options &opts, F call)
{
	state_ref s(new endpoint_state(core, std::move(on)));
	rdmamsg_ep_handlers table = s->table();
	c_endpoint_options c_opts(opts, &table, s.get());
	rdmamsg_ep *ep;
	int ret = call(c_opts.get(), &ep);

	if (ret)
		return result<void>(ret);
	s->begin(ep);
	return endpoint(std::move(s));
}

} /* namespace detail */

} /* namespace rmsg */

#endif
