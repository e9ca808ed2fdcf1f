/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners, and requests that a program answers. */
#ifndef RDMAMSG_CXX_LISTENER_HPP
#define RDMAMSG_CXX_LISTENER_HPP

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <rdmamsg/listener.h>
#include <rdmamsg/cxx/endpoint.hpp>

namespace rmsg {

class context;
class region;

/* A peer's request. One that is destroyed without an answer is rejected. */
class request {
public:
	request() noexcept = default;
	request(rdmamsg_request *req, detail::core_ref core) noexcept
		: req_(req), core_(std::move(core)) {}
	request(request &&other) noexcept
		: req_(std::exchange(other.req_, nullptr)),
		  core_(std::move(other.core_)) {}
	request &operator=(request &&other) noexcept
	{
		std::swap(req_, other.req_);
		std::swap(core_, other.core_);
		return *this;
	}
	~request()
	{
		if (native())
			rdmamsg_request_reject(req_, nullptr, 0);
	}

	explicit operator bool() const noexcept { return native() != nullptr; }

	/* The peer's hello_data. */
	bytes data() const noexcept
	{
		std::size_t len = 0;
		const void *data = rdmamsg_request_data(native(), &len);

		return { data, data ? len : 0 };
	}
	result<sockaddr_storage> try_peer() const noexcept
	{
		sockaddr_storage peer = {};
		int ret = rdmamsg_request_addrs(native(), nullptr, &peer);

		if (ret)
			return result<void>(ret);
		return peer;
	}
	result<sockaddr_storage> try_local() const noexcept
	{
		sockaddr_storage local = {};
		int ret = rdmamsg_request_addrs(native(), &local, nullptr);

		if (ret)
			return result<void>(ret);
		return local;
	}

	/* Each of the two ends the request, whatever it returns. */
	result<endpoint> try_accept(endpoint_options opts = {})
	{
		auto on = std::make_shared<handlers>(std::move(opts.on));

		return try_accept(opts, std::move(on));
	}
	endpoint accept(endpoint_options opts = {})
	{
		return try_accept(std::move(opts)).value();
	}
	/* The handlers are those of other endpoints, too. */
	result<endpoint> try_accept(const endpoint_options &opts,
				    std::shared_ptr<handlers> on)
	{
		rdmamsg_request *req = release();

		return detail::make_endpoint(core_, std::move(on), opts,
			[req](const rdmamsg_ep_options *o, rdmamsg_ep **ret) {
				return rdmamsg_request_accept(req, o, ret);
			});
	}
	result<void> try_reject(bytes data = {}) noexcept
	{
		return result<void>(rdmamsg_request_reject(release(),
							   data.data(),
							   data.size()));
	}
	void reject(bytes data = {}) { try_reject(data).value(); }

	/* A key for hello_data or setup_data of accept(). */
	result<rdmamsg_key> try_key(region &r) noexcept;
	rdmamsg_key key(region &r) { return try_key(r).value(); }

	/*
	 * Calls fn with the request in the thread of another context. On
	 * failure the request stays here.
	 */
	result<void> try_move_to(context &to, callback<void(request)> fn);
	void move_to(context &to, callback<void(request)> fn)
	{
		try_move_to(to, std::move(fn)).value();
	}

	const detail::core_ref &core() const noexcept { return core_; }
	rdmamsg_request *native() const noexcept
	{
		return req_ && core_.listens() ? req_ : nullptr;
	}
	rdmamsg_request *release() noexcept
	{
		rdmamsg_request *req = native();

		req_ = nullptr;
		return req;
	}

private:
	rdmamsg_request *req_ = nullptr;
	detail::core_ref core_;
};

/*
 * Requests go to on_request. Without it the listener accepts them with
 * 'endpoint', and these endpoints are their own owners. If that is not there
 * either, they wait for accept().
 */
struct listen_options {
	callback<void(request)> on_request = {};
	callback<void(int error)> on_failed = {};
	callback<void(const reason &)> on_accept_failed = {};
	std::optional<endpoint_options> endpoint = {};
	std::uint32_t backlog = 0;
	std::string device = {};
	std::uint32_t max_requests = 0;
	std::uint32_t max_half_open = 0;
	milliseconds setup_timeout = {};
	std::uint32_t max_endpoints = 0;
	std::uint32_t max_per_source = 0;
	milliseconds slow = {};
	std::string key = {};
	std::string key_file = {};
	std::uint32_t flags = 0;
};

namespace detail {

/* A callback may destroy the listener, so each keeps the state. */
class listener_state : public std::enable_shared_from_this<listener_state> {
public:
	core_ref core;
	rdmamsg_listener *listener = nullptr;
	listen_options opts;
	std::shared_ptr<handlers> on;	/* of opts.endpoint */
	std::deque<request> waiting;

	listener_state(core_ref c, listen_options o)
		: core(std::move(c)), opts(std::move(o))
	{
		if (opts.endpoint)
			on = std::make_shared<handlers>(
				std::move(opts.endpoint->on));
	}

	rdmamsg_listener *native() const noexcept
	{
		return core.listens() ? listener : nullptr;
	}

	void close() noexcept
	{
		rdmamsg_listener *l = native();

		listener = nullptr;
		rdmamsg_listener_close(l);
		waiting.clear();
	}

	/* One of rdmamsg_listen() and rdmamsg_oob_listen(). */
	template <class F> int listen(F call)
	{
		auto handlers = sized<rdmamsg_listener_handlers>();
		auto o = sized<rdmamsg_listen_options>();

		handlers.on_request = on_request;
		handlers.on_failed = on_failed;
		o.user = this;
		o.handlers = &handlers;
		o.backlog = opts.backlog;
		o.device = or_null(opts.device);
		o.max_requests = opts.max_requests;
		o.max_half_open = opts.max_half_open;
		o.setup_timeout_ms = to_option(opts.setup_timeout);
		o.max_endpoints = opts.max_endpoints;
		o.max_per_source = opts.max_per_source;
		o.slow_ms = to_option(opts.slow);
		o.key = opts.key.empty() ? nullptr : opts.key.data();
		o.key_len = opts.key.size();
		o.key_file = or_null(opts.key_file);
		o.flags = opts.flags;
		return call(core.ctx(), &o, &listener);
	}

private:
	static std::shared_ptr<listener_state> of(rdmamsg_listener *l)
	{
		return static_cast<listener_state *>(rdmamsg_listener_user(l))
			->shared_from_this();
	}

	void answer(request req)
	{
		if (opts.on_request)
			opts.on_request(std::move(req));
		else if (on)
			accept(std::move(req));
		else
			waiting.push_back(std::move(req));
	}

	void accept(request req)
	{
		result<endpoint> ep = req.try_accept(*opts.endpoint, on);

		if (ep)
			ep->detach();
		else if (opts.on_accept_failed)
			opts.on_accept_failed(local(ep.status(), ep.text()));
	}

	static reason local(int error, const char *text)
	{
		reason why;

		why.who = RDMAMSG_WHO_LOCAL;
		why.cause = RDMAMSG_CAUSE_RESOURCES;
		why.error = error;
		why.text = text;
		return why;
	}

	static void on_request(rdmamsg_listener *l, rdmamsg_request *req)
	{
		auto s = of(l);

		guard(*s->core.get(), [&] { s->answer({ req, s->core }); });
	}

	static void on_failed(rdmamsg_listener *l, int error)
	{
		auto s = of(l);

		if (s->opts.on_failed)
			guard(*s->core.get(),
			      [&] { s->opts.on_failed(error); });
	}
};

} /* namespace detail */

/* The owner of a listener. Endpoints that came through it stay. */
class listener {
public:
	listener() noexcept = default;
	explicit
	listener(std::shared_ptr<detail::listener_state> state) noexcept
		: state_(std::move(state)) {}
	listener(listener &&other) noexcept = default;
	listener &operator=(listener &&other) noexcept
	{
		std::swap(state_, other.state_);
		return *this;
	}
	~listener() { close(); }

	explicit operator bool() const noexcept { return native() != nullptr; }
	std::uint16_t port() const noexcept
	{
		return rdmamsg_listener_port(native());
	}
	/* As the service of connect(). */
	std::string service() const { return std::to_string(port()); }

	/*
	 * Drives the context until a peer is connected. If a peer is not in
	 * time, it is rejected.
	 */
	result<endpoint> try_accept(endpoint_options opts = {},
				    milliseconds timeout = forever);
	endpoint accept(endpoint_options opts = {},
			milliseconds timeout = forever)
	{
		return try_accept(std::move(opts), timeout).value();
	}

	result<void> try_drain() noexcept
	{
		return result<void>(rdmamsg_listener_drain(native()));
	}
	void drain() { try_drain().value(); }

	rdmamsg_listener_stats stats() const
	{
		auto s = detail::sized<rdmamsg_listener_stats>();

		result<void>(rdmamsg_listener_get_stats(native(), &s)).value();
		return s;
	}

	void close() noexcept
	{
		if (state_)
			state_->close();
	}

	rdmamsg_listener *native() const noexcept
	{
		return state_ ? state_->native() : nullptr;
	}

private:
	std::shared_ptr<detail::listener_state> state_;
};

inline result<endpoint> listener::try_accept(endpoint_options opts,
					     milliseconds timeout)
{
	const detail::deadline end(timeout);
	auto s = state_;
	int ret;

	if (!native())
		return result<void>(-EINVAL, "there is no listener");
	ret = s->core->wait_until([&s] {
		return !s->waiting.empty() || !s->native();
	}, end);
	if (!ret && s->waiting.empty())
		ret = -ESHUTDOWN;
	if (ret)
		return result<void>(ret, "no peer has connected");

	request req = std::move(s->waiting.front());
	s->waiting.pop_front();
	result<endpoint> ep = req.try_accept(std::move(opts));
	if (!ep)
		return ep;
	result<void> connected = ep->try_connected(end.left());
	if (!connected)
		return result<void>(connected.status(), "not connected");
	return ep;
}

} /* namespace rmsg */

#endif
