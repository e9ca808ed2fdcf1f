/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options and handlers of endpoints. They are aggregates: in C++20 a program
 * names the members that it sets, { .on = { .on_message = ... } }, and in C++17
 * it assigns them. What is not set is the default of rdmamsg_ep_options(3),
 * whose members these are.
 */
#ifndef RDMAMSG_CXX_OPTIONS_HPP
#define RDMAMSG_CXX_OPTIONS_HPP

#include <cstdint>
#include <optional>
#include <string>

#include <rdmamsg/failover.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/cxx/bytes.hpp>
#include <rdmamsg/cxx/callback.hpp>
#include <rdmamsg/cxx/core.hpp>
#include <rdmamsg/cxx/message.hpp>

namespace rmsg {

class endpoint_ref;

/* The answer of on_incoming: where a large message goes. */
struct incoming {
	static incoming library() noexcept { return {}; }
	/* At least as long; lent until the message or the endpoint ends. */
	static incoming into(buffer b) noexcept { return { b.data(), 0 }; }
	static incoming refuse(int error = -ECANCELED) noexcept
	{
		return { nullptr, error };
	}

	void *data = nullptr;
	int error = 0;
};

/*
 * Each runs in the calls that drive the context. An exception ends that call,
 * and no connection. They stay until on_closed has returned.
 */
struct handlers {
	callback<void(endpoint_ref)> on_connected = {};
	/* Without it, messages wait for recv(). */
	callback<void(endpoint_ref, message &&)> on_message = {};
	callback<incoming(endpoint_ref, std::size_t len, std::uint32_t tag)>
		on_incoming = {};
	callback<void(endpoint_ref)> on_writable = {};
	callback<void(endpoint_ref, milliseconds silent)> on_stalled = {};
	callback<void(endpoint_ref)> on_resumed = {};
	callback<void(endpoint_ref, const reason &)> on_closed = {};
	callback<void(endpoint_ref, std::uint32_t value)> on_written = {};
	callback<void(endpoint_ref, rdmamsg_window *)> on_invalidated = {};
	callback<void(endpoint_ref, const rdmamsg_path_event &)> on_path = {};
};

/* As struct rdmamsg_failover. */
struct failover_options {
	std::uint32_t port = 0;
	std::uint32_t rungs = 0;
	milliseconds timeout = {};
	std::uint32_t keep_bytes = 0;
	std::string host = {};
	std::string service = {};
	std::string source = {};
	std::string device = {};
	std::optional<std::string> announce = {};
	std::uint32_t flags = 0;
	std::uint32_t lid = 0;
};

struct endpoint_options {
	handlers on = {};
	std::uint32_t flags = 0;
	milliseconds timeout = {};
	std::string source = {};
	std::string device = {};
	std::optional<rdmamsg_path> path = {};
	std::string hello_data = {};
	std::string setup_data = {};
	std::uint32_t max_msg_size = 0;
	std::uint32_t send_queue = 0;
	milliseconds dead_after = {};
	milliseconds close_timeout = {};
	std::optional<failover_options> failover = {};
	rdmamsg_srq *srq = nullptr;
	rdmamsg_pool *recv_pool = nullptr;
	rdmamsg_pool *send_pool = nullptr;
	rdmamsg_pd *pd = nullptr;
	std::optional<rdmamsg_ep_tuning> tuning = {};
};

namespace detail {

inline const char *or_null(const std::string &s) noexcept
{
	return s.empty() ? nullptr : s.c_str();
}

/* A struct of the program, of which it has set some members. */
template <class S>
const S *with_size(std::optional<S> &copy, const std::optional<S> &of) noexcept
{
	copy = of;
	if (!copy)
		return nullptr;
	copy->size = sizeof(S);
	return &*copy;
}

/* The structs of C for one call, which copies them. */
class c_endpoint_options {
public:
	c_endpoint_options(const endpoint_options &o,
			   const rdmamsg_ep_handlers *on, void *user) noexcept
	{
		opts_.user = user;
		opts_.handlers = on;
		opts_.flags = o.flags;
		opts_.timeout_ms = to_option(o.timeout);
		opts_.source = or_null(o.source);
		opts_.device = or_null(o.device);
		opts_.path = with_size(path_, o.path);
		opts_.hello_data = o.hello_data.data();
		opts_.hello_data_len = o.hello_data.size();
		opts_.setup_data = o.setup_data.data();
		opts_.setup_data_len = o.setup_data.size();
		opts_.max_msg_size = o.max_msg_size;
		opts_.send_queue = o.send_queue;
		opts_.dead_after_ms = to_option(o.dead_after);
		opts_.close_timeout_ms = to_option(o.close_timeout);
		opts_.srq = o.srq;
		opts_.recv_pool = o.recv_pool;
		opts_.send_pool = o.send_pool;
		opts_.pd = o.pd;
		opts_.tuning = with_size(tuning_, o.tuning);
		if (o.failover)
			set(*o.failover);
	}
	c_endpoint_options(const c_endpoint_options &) = delete;
	c_endpoint_options &operator=(const c_endpoint_options &) = delete;

	const rdmamsg_ep_options *get() const noexcept { return &opts_; }

private:
	void set(const failover_options &f) noexcept
	{
		failover_.port = f.port;
		failover_.rungs = f.rungs;
		failover_.timeout_ms = to_option(f.timeout);
		failover_.keep_bytes = f.keep_bytes;
		failover_.host = or_null(f.host);
		failover_.service = or_null(f.service);
		failover_.source = or_null(f.source);
		failover_.device = or_null(f.device);
		failover_.announce = f.announce ? f.announce->c_str() : nullptr;
		failover_.flags = f.flags;
		failover_.lid = f.lid;
		opts_.failover = &failover_;
	}

	rdmamsg_ep_options opts_ = sized<rdmamsg_ep_options>();
	rdmamsg_failover failover_ = sized<rdmamsg_failover>();
	std::optional<rdmamsg_ep_tuning> tuning_;
	std::optional<rdmamsg_path> path_;
};

} /* namespace detail */

} /* namespace rmsg */

#endif
