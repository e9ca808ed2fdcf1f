/* SPDX-License-Identifier: BSD-2-Clause */
/* The context: one thread, one descriptor, and what is made from it. */
#ifndef RDMAMSG_CXX_CONTEXT_HPP
#define RDMAMSG_CXX_CONTEXT_HPP

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/cxx/endpoint.hpp>
#include <rdmamsg/cxx/listener.hpp>

namespace rmsg {

struct context_options {
	callback<void(const rdmamsg_event &)> on_event = {};
	callback<void(std::uint32_t failed)> on_shutdown = {};
	std::uint32_t spin_us = 0;
	std::uint32_t submit_depth = 0;
	std::size_t max_registered = 0;
	std::size_t max_send_registered = 0;
	std::uint32_t group_rate = 0;
	std::optional<rdmamsg_srq_options> srq = {};
	std::string key = {};
	std::string key_file = {};
};

/*
 * The owner of a context. When it is destroyed, the endpoints are aborted and
 * everything that was made from it ends. The owners of those may be destroyed
 * before or after it; calls with them fail with EINVAL from then on. In a
 * callback the end comes when the call that runs it returns.
 */
class context {
public:
	/* Throws what try_open() returns. */
	explicit context(context_options opts = {})
		: context(try_open(std::move(opts)).value()) {}
	static result<context> try_open(context_options opts = {});

	context(context &&other) noexcept = default;
	context &operator=(context &&other) noexcept
	{
		context old(std::move(*this));

		core_ = std::move(other.core_);
		return *this;
	}
	/* Loses an exception of a callback that runs; close() throws it. */
	~context()
	{
		if (core_)
			core_->close();
	}
	void close()
	{
		detail::core_ref core = core_;

		if (!core)
			return;
		core->close();
		core->rethrow();
	}

	explicit operator bool() const noexcept { return native() != nullptr; }
	::rdmamsg *native() const noexcept { return core_.ctx(); }
	const detail::core_ref &core() const noexcept { return core_; }

	/* ---- the loop: each throws what a callback has thrown ---- */

	int fd() const noexcept { return rdmamsg_fd(native()); }
	result<int> try_process() { return drive(rdmamsg_process); }
	int process() { return try_process().value(); }
	result<int> try_poll() { return drive(rdmamsg_poll); }
	int poll() { return try_poll().value(); }
	result<int> try_wait(milliseconds timeout = forever)
	{
		return drive([timeout](::rdmamsg *c) {
			return rdmamsg_wait(c, detail::to_wait(timeout));
		});
	}
	int wait(milliseconds timeout = forever)
	{
		return try_wait(timeout).value();
	}
	result<void> try_run()
	{
		return result<void>(core_ ? core_->run() : -EINVAL);
	}
	void run() { try_run().value(); }
	/* Any thread. */
	void stop() noexcept { rdmamsg_stop(native()); }
	/* For loops that call the C interface: what a callback has thrown. */
	std::exception_ptr take_exception() noexcept
	{
		return core_ ? core_->take_exception() : nullptr;
	}

	/* Any thread: runs fn in the context's. */
	result<void> try_submit(callback<void()> fn)
	{
		return submitted(std::move(fn),
				 [](auto ctx, auto run, auto arg) {
			return rdmamsg_submit(ctx, run, arg);
		});
	}
	void submit(callback<void()> fn) { try_submit(std::move(fn)).value(); }
	result<void> try_submit_wait(callback<void()> fn,
				     milliseconds timeout = forever)
	{
		return submitted(std::move(fn),
				 [timeout](auto ctx, auto run, auto arg) {
			return rdmamsg_submit_wait(ctx, run, arg,
						   detail::to_wait(timeout));
		});
	}
	void submit_wait(callback<void()> fn, milliseconds timeout = forever)
	{
		try_submit_wait(std::move(fn), timeout).value();
	}

	/* ---- connections ---- */

	result<listener> try_listen(const std::string &host,
				    const std::string &service,
				    listen_options opts = {})
	{
		return listening(rdmamsg_listen, host, service,
				 std::move(opts));
	}
	/* An empty host: every address. */
	listener listen(const std::string &host, const std::string &service,
			listen_options opts = {})
	{
		return try_listen(host, service, std::move(opts)).value();
	}
	result<listener> try_oob_listen(const std::string &host,
					const std::string &service,
					listen_options opts = {})
	{
		return listening(rdmamsg_oob_listen, host, service,
				 std::move(opts));
	}
	listener oob_listen(const std::string &host, const std::string &service,
			    listen_options opts = {})
	{
		return try_oob_listen(host, service, std::move(opts)).value();
	}

	/* Begins to connect: on_connected or on_closed follows. */
	result<endpoint> try_connect(const std::string &host,
				     const std::string &service,
				     endpoint_options opts = {})
	{
		return make(std::move(opts), [&](auto o, auto ret) {
			return rdmamsg_connect(native(), host.c_str(),
					       service.c_str(), o, ret);
		});
	}
	endpoint connect(const std::string &host, const std::string &service,
			 endpoint_options opts = {})
	{
		return try_connect(host, service, std::move(opts)).value();
	}
	/* Drives the context until it is connected; connection_error. */
	endpoint connect_wait(const std::string &host,
			      const std::string &service,
			      endpoint_options opts = {},
			      milliseconds timeout = forever)
	{
		endpoint ep = connect(host, service, std::move(opts));

		ep.connected(timeout);
		return ep;
	}

	result<endpoint> try_oob_connect(const std::string &host,
					 const std::string &service,
					 endpoint_options opts = {})
	{
		return make(std::move(opts), [&](auto o, auto ret) {
			return rdmamsg_oob_connect(native(), host.c_str(),
						   service.c_str(), o, ret);
		});
	}
	endpoint oob_connect(const std::string &host,
			     const std::string &service,
			     endpoint_options opts = {})
	{
		return try_oob_connect(host, service, std::move(opts)).value();
	}
	result<endpoint> try_oob_offer(endpoint_options opts = {})
	{
		return make(std::move(opts), [&](auto o, auto ret) {
			return rdmamsg_oob_offer(native(), o, ret);
		});
	}
	endpoint oob_offer(endpoint_options opts = {})
	{
		return try_oob_offer(std::move(opts)).value();
	}
	result<endpoint> try_oob_answer(bytes record,
					endpoint_options opts = {})
	{
		return make(std::move(opts), [&](auto o, auto ret) {
			return rdmamsg_oob_answer(native(), record.data(),
						  record.size(), o, ret);
		});
	}
	endpoint oob_answer(bytes record, endpoint_options opts = {})
	{
		return try_oob_answer(record, std::move(opts)).value();
	}

	/* ---- the end ---- */

	/* on_shutdown follows. */
	result<void> try_shutdown(milliseconds timeout = forever) noexcept
	{
		return result<void>(rdmamsg_shutdown(native(),
						     detail::to_wait(timeout)));
	}
	void shutdown(milliseconds timeout = forever)
	{
		try_shutdown(timeout).value();
	}
	/* Returns how many did not end gracefully. */
	result<int> try_shutdown_wait(milliseconds timeout = forever)
	{
		return drive([timeout](::rdmamsg *c) {
			return rdmamsg_shutdown_wait(c,
						     detail::to_wait(timeout));
		});
	}
	int shutdown_wait(milliseconds timeout = forever)
	{
		return try_shutdown_wait(timeout).value();
	}

	/* ---- sends together, diagnosis ---- */

	result<void> try_cork() noexcept
	{
		return result<void>(rdmamsg_cork(native()));
	}
	result<void> try_uncork() noexcept
	{
		return result<void>(rdmamsg_uncork(native()));
	}
	result<void> try_watch_device(const char *device = nullptr) noexcept
	{
		return result<void>(rdmamsg_device_watch(native(), device));
	}
	void watch_device(const char *device = nullptr)
	{
		try_watch_device(device).value();
	}
	rdmamsg_stats stats() const
	{
		auto s = detail::sized<rdmamsg_stats>();

		result<void>(rdmamsg_get_stats(native(), &s)).value();
		return s;
	}
	/* In the text format of Prometheus. */
	std::string stats_text() const;
	/* The objects of the context, in lines, for people. */
	std::string dump() const;

private:
	explicit context(detail::core_ref core) noexcept
		: core_(std::move(core)) {}

	template <class F> result<int> drive(F call)
	{
		return detail::counted(core_ ? core_->drive(call) : -EINVAL);
	}
	template <class F> result<endpoint> make(endpoint_options opts, F call)
	{
		auto on = std::make_shared<handlers>(std::move(opts.on));

		return detail::make_endpoint(core_, std::move(on), opts, call);
	}
	template <class F>
	result<listener> listening(F call, const std::string &host,
				   const std::string &service,
				   listen_options opts);
	template <class F> result<void> submitted(callback<void()> fn, F call);

	static void event(::rdmamsg *ctx, const rdmamsg_event *ev);
	static void shut_down(::rdmamsg *ctx, std::uint32_t failed);

	detail::core_ref core_;
};

/* Collects the sends of a scope: cork c(ctx). */
class cork {
public:
	explicit cork(context &ctx) : ctx_(ctx) { ctx_.try_cork().value(); }
	cork(const cork &) = delete;
	cork &operator=(const cork &) = delete;
	~cork() { static_cast<void>(ctx_.try_uncork()); }

private:
	context &ctx_;
};

inline void context::event(::rdmamsg *ctx, const rdmamsg_event *ev)
{
	auto *c = static_cast<detail::core *>(rdmamsg_user(ctx));

	detail::guard(*c, [&] { c->on_event(*ev); });
}

inline void context::shut_down(::rdmamsg *ctx, std::uint32_t failed)
{
	auto *c = static_cast<detail::core *>(rdmamsg_user(ctx));

	detail::guard(*c, [&] { c->on_shutdown(failed); });
}

inline result<context> context::try_open(context_options opts)
{
	detail::core_ref core(new detail::core);
	auto on = detail::sized<rdmamsg_ctx_handlers>();
	auto o = detail::sized<rdmamsg_options>();
	int ret;

	core->on_event = std::move(opts.on_event);
	core->on_shutdown = std::move(opts.on_shutdown);
	on.on_event = core->on_event ? event : nullptr;
	on.on_shutdown = core->on_shutdown ? shut_down : nullptr;
	o.user = core.get();
	o.handlers = &on;
	o.spin_us = opts.spin_us;
	o.submit_depth = opts.submit_depth;
	o.max_registered = opts.max_registered;
	o.max_send_registered = opts.max_send_registered;
	o.group_rate = opts.group_rate;
	if (opts.srq)
		opts.srq->size = sizeof(*opts.srq);
	o.srq = opts.srq ? &*opts.srq : nullptr;
	o.key = opts.key.empty() ? nullptr : opts.key.data();
	o.key_len = opts.key.size();
	o.key_file = detail::or_null(opts.key_file);
	ret = rdmamsg_open(&core->ctx, &o);
	if (ret)
		return result<void>(ret);
	return context(std::move(core));
}

template <class F>
result<listener> context::listening(F call, const std::string &host,
				    const std::string &service,
				    listen_options opts)
{
	auto s = std::make_shared<detail::listener_state>(core_,
							  std::move(opts));
	int ret = s->listen([&](::rdmamsg *ctx, auto o, auto made) {
		return call(ctx, detail::or_null(host), service.c_str(), o,
			    made);
	});

	if (ret)
		return result<void>(ret);
	return listener(std::move(s));
}

namespace detail {

/* A function on its way to another thread. */
template <class... Args> struct errand {
	core *where;
	callback<void(Args...)> fn;
};

} /* namespace detail */

template <class F>
result<void> context::submitted(callback<void()> fn, F call)
{
	using errand = detail::errand<>;
	auto e = std::make_unique<errand>();
	int ret;

	e->where = core_.get();
	e->fn = std::move(fn);
	ret = call(native(), [](::rdmamsg *, void *arg) {
		std::unique_ptr<errand> mine(static_cast<errand *>(arg));

		detail::guard(*mine->where, [&] { mine->fn(); });
	}, e.get());
	if (!ret)
		static_cast<void>(e.release());
	return result<void>(ret);
}

inline result<void> request::try_move_to(context &to,
					 callback<void(request)> fn)
{
	using errand = detail::errand<request>;
	auto e = std::make_unique<errand>();
	int ret;

	e->where = to.core().get();
	e->fn = std::move(fn);
	ret = rdmamsg_request_move(native(), to.native(),
		[](::rdmamsg *, rdmamsg_request *req, void *arg) {
			std::unique_ptr<errand> mine(
				static_cast<errand *>(arg));
			detail::core_ref core(mine->where);

			detail::guard(*mine->where, [&] {
				mine->fn(request(req, core));
			});
		}, e.get());
	if (!ret) {
		static_cast<void>(e.release());
		req_ = nullptr;
	}
	return result<void>(ret);
}

inline std::string context::stats_text() const
{
	int len = rdmamsg_stats_text(native(), nullptr, 0);
	std::string text(static_cast<std::size_t>(std::max(len, 0)), '\0');

	result<void>(len).value();
	rdmamsg_stats_text(native(), text.data(), text.size() + 1);
	return text;
}

inline std::string context::dump() const
{
	std::string text;

	rdmamsg_dump(native(), [](void *arg, const char *line) {
		static_cast<std::string *>(arg)->append(line).append("\n");
	}, &text);
	return text;
}

} /* namespace rmsg */

#endif
